//! Copies within a slice, symbol by symbol.

#![allow(unsafe_code)]

/// Copies symbols of `WIDTH` (1, 2, 4 or 8) bytes from those with the numbers `sources` to `first` and on, one after
/// another, so that symbols copied may be copied again.
///
/// # Panics
/// A source is not before the end of what is written, that reaches out of `bytes`, or the width is another.
#[inline(always)]
pub fn copy_from_sources<const WIDTH: usize>(bytes: &mut [u8], first: usize, sources: &[u16]) {
    let end = first + sources.len();
    let highest = sources.iter().fold(0, |highest, &source| source.max(highest));
    assert!(WIDTH <= 8 && end <= bytes.len() / WIDTH && (usize::from(highest) < end || sources.is_empty()));
    let start = bytes.as_mut_ptr();
    for (to, &source) in (first..end).zip(sources) {
        // SAFETY: `source` and `to` are below `end`, and the symbols up to there lie in `bytes`, as has just been
        // asserted. Loads and stores are unaligned.
        unsafe { store::<WIDTH>(start.add(to * WIDTH), load::<WIDTH>(start.add(usize::from(source) * WIDTH))) };
    }
}

/// Loads a symbol of `WIDTH` bytes, zero-extended.
///
/// # Safety
/// `WIDTH` bytes from `at` on may be read.
#[inline(always)]
unsafe fn load<const WIDTH: usize>(at: *const u8) -> u64 {
    // SAFETY: the caller guarantees that `WIDTH` bytes may be read.
    unsafe {
        match WIDTH {
            1 => at.read().into(),
            2 => at.cast::<u16>().read_unaligned().into(),
            4 => at.cast::<u32>().read_unaligned().into(),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

/// Stores the low `WIDTH` bytes of a symbol.
///
/// # Safety
/// `WIDTH` bytes from `at` on may be written.
#[inline(always)]
unsafe fn store<const WIDTH: usize>(at: *mut u8, symbol: u64) {
    // SAFETY: the caller guarantees that `WIDTH` bytes may be written.
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
    use super::copy_from_sources;

    #[test]
    fn symbols_are_copied_one_after_another() {
        let mut bytes: [u8; 24] = std::array::from_fn(|i| i as u8);
        copy_from_sources::<4>(&mut bytes, 2, &[1, 2, 3, 0]);
        assert_eq!(bytes, [&[0, 1, 2, 3][..], &[4, 5, 6, 7].repeat(4), &[0, 1, 2, 3]].concat()[..]);
        copy_from_sources::<1>(&mut bytes, 21, &[4, 21, 22]);
        assert_eq!(bytes[20..], [0, 4, 4, 4]);
        copy_from_sources::<8>(&mut bytes, 3, &[]);
        copy_from_sources::<2>(&mut bytes, 10, &[10, 0]);
        assert_eq!(bytes[20..], [0, 4, 0, 1]);
    }

    #[test]
    #[should_panic]
    fn copy_beyond_the_end_panics() {
        copy_from_sources::<8>(&mut [0; 23], 1, &[0, 0]);
    }

    #[test]
    #[should_panic]
    fn copy_from_beyond_the_target_panics() {
        copy_from_sources::<1>(&mut [0; 9], 4, &[3, 6]);
    }
}
