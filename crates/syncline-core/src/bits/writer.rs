//! Writing codewords densely, most significant bit first, into 32-bit little-endian words.

#![allow(unsafe_code)]

/// Appends bits to a buffer of known size, 64 at a time.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut [u8],
    at: usize,
    /// Last byte at which eight can be written.
    last: usize,
    pending: u64,
    filled: u32,
}

impl<'a> BitWriter<'a> {
    /// Returns a writer that starts at the start of `out`, which must have room for the words of all bits and two more.
    ///
    /// # Panics
    /// If `out` has no room for the two; writing panics if it has none for the others.
    pub fn new(out: &'a mut [u8]) -> Self {
        let last = out.len().checked_sub(8).expect("room for two words");
        Self { out, at: 0, last, pending: 0, filled: 0 }
    }

    /// Appends the low `count` bits of `bits`, 1 to 64; the bits above them must be 0.
    #[inline(always)]
    pub fn put(&mut self, bits: u64, count: u32) {
        let left = bits << (64 - count);
        let merged = self.pending | (left >> self.filled);
        self.store(merged);
        let total = self.filled + count;
        // Without a branch: which of the two it is, is as random as the data.
        let carry = (left << 1) << (63 - self.filled);
        self.pending = if total >= 64 { carry } else { merged };
        self.at += (total as usize >> 6) << 3;
        self.filled = total & 63;
    }

    /// Returns the number of bits written.
    #[inline(always)]
    pub fn position(&self) -> u32 {
        (self.at as u32 * 8) + self.filled
    }

    /// Writes the pending bits. Returns the number of bits written.
    pub fn finish(mut self) -> u32 {
        self.store(self.pending);
        self.position()
    }

    #[inline(always)]
    fn store(&mut self, bits: u64) {
        assert!(self.at <= self.last, "the buffer holds the words of all bits and two more");
        // SAFETY: `new` made `last` eight less than the length of `out`, which is at least eight; `at` is not over it.
        unsafe { self.out.as_mut_ptr().add(self.at).cast::<[u8; 8]>().write(bits.rotate_left(32).to_le_bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::reader::BitWords;
    use super::*;

    #[test]
    fn bits_written_are_read_back() {
        for pieces in 0..300 {
            check(pieces);
        }
    }

    fn check(pieces: u64) {
        let pieces: Vec<(u64, u32)> = (0..pieces)
            .map(|i| {
                let count = (i * 7 % 64 + 1) as u32;
                (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - count), count)
            })
            .collect();
        let bits: u32 = pieces.iter().map(|p| p.1).sum();
        let mut out = vec![0; BitWords::byte_len(bits) as usize];
        let mut writer = BitWriter::new(&mut out);
        for &(value, count) in &pieces {
            writer.put(value, count);
        }
        assert_eq!((writer.position(), writer.finish()), (bits, bits));
        let words = BitWords::new(&out, bits).unwrap();
        let mut at = 0;
        for (value, count) in pieces {
            for bit in (0..count).rev() {
                assert_eq!(words.window(at) >> 63, value >> bit & 1);
                at += 1;
            }
        }
    }
}
