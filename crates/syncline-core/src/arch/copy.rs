//! Copies within a slice, symbol by symbol.

/// Copies `COUNT` symbols of `WIDTH` (1, 2, 4 or 8) bytes from `from` on to `to` on, one after another, so that symbols copied may be copied again.
/// The first becomes its bits in `mask`, and `other` elsewhere.
///
/// # Panics
/// `from` is behind `to`, the symbols reach out of `bytes`, or the width is another.
#[inline(always)]
pub fn copy_symbols<const WIDTH: usize, const COUNT: usize>(
    bytes: &mut [u8],
    from: usize,
    to: usize,
    mask: u64,
    other: u64,
) {
    assert!(from <= to && to <= bytes.len() && WIDTH * COUNT <= bytes.len() - to && WIDTH <= 8);
    let start = bytes.as_mut_ptr();
    // SAFETY: `to + WIDTH * COUNT <= bytes.len()` and `from <= to`, as has just been asserted: every symbol lies in `bytes`. Loads and stores are unaligned.
    unsafe {
        let (from, to) = (start.add(from), start.add(to));
        store::<WIDTH>(to, load::<WIDTH>(from) & mask | other & !mask);
        for i in 1..COUNT {
            store::<WIDTH>(to.add(i * WIDTH), load::<WIDTH>(from.add(i * WIDTH)));
        }
    }
}

/// # Safety
/// `WIDTH` bytes from `at` on may be read.
#[inline(always)]
unsafe fn load<const WIDTH: usize>(at: *const u8) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        match WIDTH {
            1 => at.read().into(),
            2 => at.cast::<u16>().read_unaligned().into(),
            4 => at.cast::<u32>().read_unaligned().into(),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

/// # Safety
/// `WIDTH` bytes from `at` on may be written.
#[inline(always)]
unsafe fn store<const WIDTH: usize>(at: *mut u8, symbol: u64) {
    // SAFETY: the caller's.
    unsafe {
        match WIDTH {
            1 => at.write(symbol as u8),
            2 => at.cast::<u16>().write_unaligned(symbol as u16),
            4 => at.cast::<u32>().write_unaligned(symbol as u32),
            _ => at.cast::<u64>().write_unaligned(symbol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy_symbols;

    #[test]
    fn symbols_are_copied_in_turn() {
        let mut bytes: [u8; 24] = std::array::from_fn(|i| i as u8);
        copy_symbols::<4, 3>(&mut bytes, 4, 8, u64::MAX, 0);
        assert_eq!(bytes[4..20], [4, 5, 6, 7].repeat(4));
        copy_symbols::<2, 2>(&mut bytes, 0, 20, 0, u64::from(u16::from_ne_bytes([8, 9])));
        assert_eq!(bytes[20..], [8, 9, 2, 3]);
    }

    #[test]
    #[should_panic]
    fn not_beyond_the_end() {
        copy_symbols::<8, 2>(&mut [0; 23], 0, 8, 0, 0);
    }

    #[test]
    #[should_panic]
    fn not_from_behind() {
        copy_symbols::<1, 1>(&mut [0; 9], 5, 4, 0, 0);
    }
}
