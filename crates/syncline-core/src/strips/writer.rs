//! Writing bits, most significant bit first, into 32-bit little-endian words.

#![allow(unsafe_code)]

/// Appends bits to a buffer, 32 at a time.
#[derive(Debug)]
pub(super) struct WordWriter<'a> {
    out: &'a mut [u8],
    /// Last byte at which four can be written.
    last: usize,
    end: WordsEnd,
}

/// Where a writer stopped, and another one goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordsEnd {
    /// Bytes of the words that are complete.
    at: usize,
    /// The bits after them, from the top bit on.
    pending: u64,
    /// How many they are, below 32.
    filled: u32,
}

impl WordsEnd {
    /// Returns the number of bits so far.
    #[inline(always)]
    pub(super) fn position(&self) -> u64 {
        self.at as u64 * 8 + u64::from(self.filled)
    }
}

impl<'a> WordWriter<'a> {
    /// Returns a writer that goes on in the buffer of another one.
    ///
    /// # Panics
    /// The buffer has no room for a word. Writing panics if it has none for the bits and one more word.
    #[inline(always)]
    pub(super) fn resume(out: &'a mut [u8], end: WordsEnd) -> Self {
        let last = out.len().checked_sub(4).expect("room for a word");
        Self { out, last, end }
    }

    /// Appends the low `count` bits of `bits`, 1 to 32; the bits above them must be 0.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        let WordsEnd { at, pending, filled } = self.end;
        let filled = filled + count;
        let pending = pending | bits << (64 - filled);
        self.store(pending);
        // Without a branch: whether the word is complete is as random as the data.
        let complete = filled & 32;
        self.end = WordsEnd { at: at + (complete / 8) as usize, pending: pending << complete, filled: filled & 31 };
    }

    /// Writes the bits of the last word. Returns where another writer goes on.
    #[inline(always)]
    pub(super) fn pause(mut self) -> WordsEnd {
        self.store(self.end.pending);
        self.end
    }

    #[inline(always)]
    fn store(&mut self, bits: u64) {
        let at = self.end.at;
        assert!(at <= self.last, "the buffer holds the words of all bits and one more");
        // SAFETY: `resume` made `last` four less than the length of `out`, which is at least four; `at` is not over it.
        unsafe { self.out.as_mut_ptr().add(at).cast::<[u8; 4]>().write(((bits >> 32) as u32).to_le_bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::reader::BitWords;

    #[test]
    fn bits_of_several_writers_are_read_back() {
        for pieces in 0..200u64 {
            let pieces: Vec<(u64, u32)> = (0..pieces)
                .map(|i| {
                    let count = (i * 7 % 32 + 1) as u32;
                    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - count), count)
                })
                .collect();
            let bits: u32 = pieces.iter().map(|piece| piece.1).sum();
            let mut out = vec![0; BitWords::byte_len(bits) as usize];
            let mut end = WordsEnd::default();
            for pieces in pieces.chunks(3) {
                let mut writer = WordWriter::resume(&mut out, end);
                pieces.iter().for_each(|&(value, count)| writer.put(value, count));
                end = writer.pause();
            }
            assert_eq!(end.position(), u64::from(bits));
            let words = BitWords::new(&out, bits).unwrap();
            let mut at = 0;
            for (value, count) in pieces {
                assert_eq!(words.window(at) >> (64 - count), value);
                at += count;
            }
        }
    }
}
