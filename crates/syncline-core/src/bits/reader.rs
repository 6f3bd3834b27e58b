//! Reading codewords: windows of bits at any position, most significant bit first.

#![allow(unsafe_code)]

/// A dense sequence of bits in 32-bit little-endian words; bit 0 is the top bit of the first word.
#[derive(Clone, Copy, Debug)]
pub struct BitWords<'a> {
    bytes: &'a [u8],
    /// Last byte from which eight can be read.
    last: usize,
    bits: u32,
}

impl<'a> BitWords<'a> {
    /// Returns a view of `bits` bits, or `None` unless `bytes` contains exactly their words and the two padding words.
    pub fn new(bytes: &'a [u8], bits: u32) -> Option<Self> {
        (bytes.len() as u64 == Self::byte_len(bits)).then(|| Self { bytes, last: bytes.len() - 8, bits })
    }

    /// Returns the number of bytes that `bits` bits and the two padding words take.
    pub const fn byte_len(bits: u32) -> u64 {
        (bits as u64).div_ceil(32) * 4 + 8
    }

    /// Returns the number of bits.
    pub fn len(&self) -> u32 {
        self.bits
    }

    /// Returns whether there are no bits.
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Returns at least 33 bits starting at `position`, left-aligned. The bits below them are unspecified; bits past
    /// the end are 0.
    #[inline(always)]
    pub fn window(&self, position: u32) -> u64 {
        let byte = (position >> 5) as usize * 4;
        // One predictable comparison: a damaged stream reads zeros, never past the buffer.
        if byte > self.last {
            return 0;
        }
        // SAFETY: `new` made `last` eight less than the number of bytes, which is at least eight; `byte` is not over
        // it.
        let word: [u8; 8] = unsafe { self.bytes.as_ptr().add(byte).cast::<[u8; 8]>().read() };
        u64::from_le_bytes(word).rotate_left(32) << (position & 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_msb_first_and_bounded() {
        let mut bytes = Vec::new();
        for word in [0x8000_0001u32, 0x4000_0000, 0, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        assert!(BitWords::new(&bytes, 65).is_none() && BitWords::new(&bytes[1..], 34).is_none());
        let words = BitWords::new(&bytes, 34).unwrap();
        assert_eq!(words.window(0), 0x8000_0001_4000_0000);
        assert_eq!(words.window(31) >> 31, 0x1_4000_0000);
        assert_eq!(words.window(33) >> 63, 1);
        assert_eq!(words.window(u32::MAX), 0);
        assert_eq!((words.len(), words.is_empty()), (34, false));
    }
}
