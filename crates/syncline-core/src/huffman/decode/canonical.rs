//! Decodes one codeword at a time, without a table: the canonical order determines a codeword's length and symbol.

use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::MAX_LENGTH;

/// Decoding form of a codebook.
#[derive(Clone, Debug)]
pub struct Canonical {
    /// Symbols in canonical order.
    pub symbols: Vec<u16>,
    /// For each length, one past its last codeword, left-aligned in 64 bits (saturating where that is 2^64).
    limits: [u64; MAX_LENGTH as usize + 1],
    /// For each length, place of its first symbol minus its first codeword, mod 2^32.
    offsets: [u32; MAX_LENGTH as usize + 1],
    /// Symbols with each length.
    pub counts: [u32; MAX_LENGTH as usize + 1],
    /// Length of the shortest codeword, 1 if there is none.
    pub shortest: u32,
    longest: u32,
}

impl Canonical {
    /// Prepares `codebook` for decoding.
    pub fn new(codebook: &Codebook) -> Self {
        let mut limits = [0; MAX_LENGTH as usize + 1];
        let mut offsets = [0; MAX_LENGTH as usize + 1];
        for length in 1..=MAX_LENGTH {
            let end = u128::from(codebook.first(length) + codebook.counts()[length as usize]) << (64 - length);
            limits[length as usize] = u64::try_from(end).unwrap_or(u64::MAX);
            offsets[length as usize] = codebook.entry(length).wrapping_sub(codebook.first(length));
        }
        Self {
            symbols: codebook.sorted_symbols(),
            limits,
            offsets,
            counts: *codebook.counts(),
            shortest: codebook.counts().iter().position(|&n| n > 0).unwrap_or(1) as u32,
            longest: codebook.longest(),
        }
    }

    /// Returns the symbol and the length of the codeword at the start of `window`, which is at least `shortest` bits
    /// long. Bits that are no codeword (a lone symbol has only one) give the last symbol with the longest length.
    /// Without any symbol, the result is (0, 1).
    #[inline(always)]
    pub fn decode(&self, window: u64, shortest: u32) -> (u16, u32) {
        let mut length = shortest.max(1);
        while length < self.longest && window >= self.limits[length as usize] {
            length += 1;
        }
        let place = ((window >> (64 - length)) as u32).wrapping_add(self.offsets[length as usize]) as usize;
        match self.symbols.get(place).or(self.symbols.last()) {
            Some(&symbol) => (symbol, length),
            None => (0, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codewords_of_a_small_code() {
        // Codewords: 2 -> 0, 0 -> 10, 1 -> 110, 4 -> 111.
        let canonical = Canonical::new(&Codebook::new(vec![2, 3, 1, 0, 3]).unwrap());
        assert_eq!(canonical.symbols, [2, 0, 1, 4]);
        for (bits, expected) in
            [(0b0000u64, (2, 1)), (0b1000, (0, 2)), (0b1011, (0, 2)), (0b1100, (1, 3)), (0b1111, (4, 3))]
        {
            assert_eq!(canonical.decode(bits << 60, 1), expected);
        }
    }

    #[test]
    fn bits_that_are_no_codeword() {
        let lone = Canonical::new(&Codebook::new(vec![0, 1]).unwrap());
        assert_eq!((lone.decode(0, 1), lone.decode(u64::MAX, 1)), ((1, 1), (1, 1)));
        let none = Canonical::new(&Codebook::new(vec![]).unwrap());
        assert_eq!(none.decode(u64::MAX, 1), (0, 1));
    }
}
