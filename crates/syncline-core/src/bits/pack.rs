//! Packing of small values, and of blocks of 32 integers with a fixed number of bits each (FORMAT.md, section 1):
//! value `j` of a block occupies bits `j * width` to `(j + 1) * width - 1`, counted from bit 0 of the first 32-bit word
//! up.

/// Appends values of `BITS` bits, which divide 8, from bit 0 of each byte up. The rest of the last byte is 0.
pub fn pack_values<const BITS: usize>(values: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let mut filled = 0;
    for value in values {
        if filled % 8 == 0 {
            out.push(0);
        }
        let last = out.len() - 1;
        out[last] |= value << (filled % 8);
        filled += BITS;
    }
}

/// Returns the number of bytes that `count` values of `BITS` bits take.
pub const fn packed_len<const BITS: usize>(count: usize) -> usize {
    count.div_ceil(8 / BITS)
}

/// Unpacks `count` values of `BITS` bits; the inverse of [`pack_values`].
///
/// # Panics
/// The iterator panics where `packed` is shorter than [`packed_len`].
pub fn unpack_values<const BITS: usize>(packed: &[u8], count: usize) -> impl Iterator<Item = u8> {
    let per_byte = 8 / BITS;
    (0..count).map(move |i| (packed[i / per_byte] >> (i % per_byte * BITS)) & ((1 << BITS) - 1) as u8)
}

/// Values in a block.
pub const BLOCK: usize = 32;

/// Returns the smallest number of bits, 0 to 64, that can hold every value.
pub fn width_for(values: &[u64]) -> u32 {
    64 - values.iter().fold(0, |all, &v| all | v).leading_zeros()
}

/// Appends a block as `width` words of four bytes. Every value must be below `2^width`.
pub fn pack_block(values: &[u64; BLOCK], width: u32, out: &mut Vec<u8>) {
    debug_assert!(width <= 64 && width_for(values) <= width);
    if width == 0 {
        return;
    }
    let mut pending = 0u128;
    let mut filled = 0;
    for &value in values {
        pending |= u128::from(value) << filled;
        filled += width;
        while filled >= 32 {
            out.extend_from_slice(&(pending as u32).to_le_bytes());
            pending >>= 32;
            filled -= 32;
        }
    }
}

/// Unpacks the values of a block, `width` bits each. Returns `None` if `packed` has fewer than `4 * width` bytes.
pub fn unpack_block(packed: &[u8], width: u32) -> Option<[u64; BLOCK]> {
    let packed = packed.get(..4 * width as usize)?;
    let mut values = [0; BLOCK];
    if width == 0 || width > 64 {
        return (width == 0).then_some(values);
    }
    let mask = u64::MAX >> (64 - width);
    if width <= 32 {
        let mut padded = [0; BLOCK + 1];
        for (word, bytes) in padded.iter_mut().zip(packed.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        for (j, value) in values.iter_mut().enumerate() {
            let bit = j * width as usize;
            let (word, next) = (padded[bit / 32], padded[bit / 32 + 1]);
            *value = (u64::from(word) | u64::from(next) << 32) >> (bit % 32) & mask;
        }
        return Some(values);
    }
    let mut words = packed.chunks_exact(4);
    let mut pending = 0u128;
    let mut filled = 0;
    for value in &mut values {
        while filled < width {
            // 32 values of `width` bits are exactly `width` words, so the words never run out.
            let word = words.next().map_or(0, |w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
            pending |= u128::from(word) << filled;
            filled += 32;
        }
        *value = pending as u64 & mask;
        pending >>= width;
        filled -= width;
    }
    Some(values)
}

/// Packs bytes that are 0 or 1 into bits: the product moves bit 0 of byte `i` to bit `56 + i`.
#[inline(always)]
pub fn pack_bytes(bytes: &[u8; 64]) -> u64 {
    let (octets, _) = bytes.as_chunks::<8>();
    octets.iter().enumerate().fold(0, |bits, (i, octet)| {
        bits | (u64::from_le_bytes(*octet).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_comes_back() {
        for width in 0..=64u32 {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let values: [u64; BLOCK] = std::array::from_fn(|i| {
                (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(i as u32) & mask
            });
            let mut packed = Vec::new();
            pack_block(&values, width, &mut packed);
            assert_eq!(packed.len(), 4 * width as usize);
            assert_eq!(unpack_block(&packed, width), Some(values));
            if width > 0 {
                assert_eq!(unpack_block(&packed[1..], width), None);
            }
        }
    }

    #[test]
    fn layout_is_from_bit_zero_up() {
        let mut values = [0; BLOCK];
        (values[0], values[1], values[11]) = (0b101, 0b011, 0b110);
        let mut packed = Vec::new();
        pack_block(&values, 3, &mut packed);
        assert_eq!(packed[0], 0b011101);
        assert_eq!(packed[4], 0b1100, "value 11 starts at bit 33");
    }

    #[test]
    fn widths() {
        assert_eq!(width_for(&[]), 0);
        assert_eq!(width_for(&[0, 1]), 1);
        assert_eq!(width_for(&[u64::MAX]), 64);
    }
}
