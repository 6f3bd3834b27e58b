//! Canonical codes, and codebooks as bytes.
//!
//! Codewords ascend with length, then with the symbol. Two numbers per length are therefore enough for decoding: the
//! first codeword (`first`), and the index of its symbol in that order (`entry`). No tree is stored.

use super::lengths::MAX_LENGTH;
use crate::error::{Error, Result};

/// Number of lengths that a codeword can have, including 0.
pub(crate) const LENGTHS: usize = MAX_LENGTH as usize + 1;

/// Minimum number of equal lengths in a run whose length is coded as a separate number.
const LONG_RUN: u32 = 8;

/// A canonical code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codebook {
    lengths: Vec<u8>,
    counts: [u32; LENGTHS],
    first: [u32; LENGTHS],
    entry: [u32; LENGTHS],
}

impl Codebook {
    /// Returns the code with these codeword lengths (0: unused), each at most [`MAX_LENGTH`]. Returns `None` unless the
    /// Kraft sum is 1, or a single symbol has length 1, or there is no symbol at all.
    pub fn new(lengths: Vec<u8>) -> Option<Self> {
        let mut counts = [0u32; LENGTHS];
        for (_, length) in used(&lengths) {
            *counts.get_mut(usize::from(length))? += 1;
        }
        let kraft: u64 = (1..LENGTHS).map(|l| u64::from(counts[l]) << (LENGTHS - 1 - l)).sum();
        let used: u32 = counts.iter().sum();
        let single = used == 1 && counts[1] == 1;
        if used > 0 && !single && kraft != 1 << MAX_LENGTH {
            return None;
        }
        let mut first = [0; LENGTHS];
        let mut entry = [0; LENGTHS];
        for l in 1..LENGTHS {
            first[l] = (first[l - 1] + counts[l - 1]) << 1;
            entry[l] = entry[l - 1] + counts[l - 1];
        }
        Some(Self { lengths, counts, first, entry })
    }

    /// Returns the length of each symbol's codeword in bits, 0 for unused symbols.
    pub fn lengths(&self) -> &[u8] {
        &self.lengths
    }

    /// Returns the number of symbols with a codeword of each length, 0 to [`MAX_LENGTH`] bits.
    pub fn counts(&self) -> &[u32; LENGTHS] {
        &self.counts
    }

    /// Returns the first codeword of `length` bits, right-aligned.
    pub fn first(&self, length: u32) -> u32 {
        self.first[length as usize]
    }

    /// Returns the index, in canonical order, of the symbol of the first codeword of `length` bits.
    pub fn entry(&self, length: u32) -> u32 {
        self.entry[length as usize]
    }

    /// Returns the length of the longest codeword in bits, 0 if there is none.
    pub fn longest(&self) -> u32 {
        self.counts.iter().rposition(|&n| n > 0).unwrap_or(0) as u32
    }

    /// Returns the symbols in canonical order.
    pub fn sorted_symbols(&self) -> Vec<u16> {
        let mut next = self.entry;
        let mut symbols = vec![0; self.counts.iter().sum::<u32>() as usize];
        for (symbol, length) in used(&self.lengths) {
            symbols[next[usize::from(length)] as usize] = symbol as u16;
            next[usize::from(length)] += 1;
        }
        symbols
    }

    /// Writes an entry for each used symbol to its place in `table`: its codeword times 256 plus its length.
    pub fn fill_codewords(&self, table: &mut [u32]) {
        let mut next = self.first;
        for (symbol, length) in used(&self.lengths) {
            table[symbol] = next[usize::from(length)] << 8 | u32::from(length);
            next[usize::from(length)] += 1;
        }
    }

    /// Appends the codebook's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.lengths.len() as u32).to_le_bytes());
        let mut rest = self.lengths.as_slice();
        while let Some(&length) = rest.first() {
            let run = run_len(rest);
            rest = &rest[run..];
            let run = run as u32;
            if run < LONG_RUN {
                out.push(length | (run as u8 - 1) << 5);
            } else {
                out.push(length | 7 << 5);
                write_leb128(run - LONG_RUN, out);
            }
        }
    }

    /// Reads a codebook of symbols below `alphabet_limit` from the start of `bytes`; also returns how many bytes it
    /// took.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if `bytes` is not a codebook; `place` is for the message.
    pub fn parse(bytes: &[u8], alphabet_limit: usize, place: &str) -> Result<(Self, usize)> {
        let bad = |what: &str| Error::corrupt(place, format!("codebook: {what}"));
        let (head, mut rest) = bytes.split_first_chunk().ok_or_else(|| bad("no room for its size"))?;
        let alphabet = u32::from_le_bytes(*head) as usize;
        if alphabet > alphabet_limit {
            return Err(bad(&format!("{alphabet} symbols where {alphabet_limit} are possible")));
        }
        let mut lengths = Vec::with_capacity(alphabet);
        while lengths.len() < alphabet {
            let (&byte, after) = rest.split_first().ok_or_else(|| bad("ends early"))?;
            rest = after;
            let mut run = u32::from(byte >> 5) + 1;
            if run == LONG_RUN {
                run += read_leb128(&mut rest).ok_or_else(|| bad("run length is cut or too large"))?;
            }
            if run as usize > alphabet - lengths.len() {
                return Err(bad("runs go past the alphabet"));
            }
            lengths.resize(lengths.len() + run as usize, byte & 31);
        }
        if lengths.last() == Some(&0) {
            return Err(bad("ends with an unused symbol"));
        }
        let codebook = Self::new(lengths).ok_or_else(|| bad("the lengths are not those of a complete code"))?;
        Ok((codebook, bytes.len() - rest.len()))
    }
}

/// Lengths that are looked at together. Most symbols of a wide alphabet are not used.
const PIECE: usize = 32;

/// Returns the symbols with a codeword, and its length.
fn used(lengths: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let (pieces, rest) = lengths.as_chunks::<PIECE>();
    let pieces = (0..).step_by(PIECE).zip(pieces.iter().map(|piece| (piece.as_slice(), differs(piece, 0))));
    let pieces = pieces.filter(|(_, (_, is_used))| *is_used).map(|(first, (piece, _))| (first, piece));
    let pieces = pieces.chain([(lengths.len() - rest.len(), rest)]);
    let symbols = pieces.flat_map(|(first, piece)| (first..).zip(piece.iter().copied()));
    symbols.filter(|&(_, length)| length != 0)
}

/// Returns the number of equal lengths at the start.
fn run_len(lengths: &[u8]) -> usize {
    let first = lengths[0];
    let whole = lengths.as_chunks::<PIECE>().0.iter().take_while(|piece| !differs(piece, first)).count();
    let start = whole * PIECE;
    start + lengths[start..].iter().take_while(|&&length| length == first).count()
}

/// Returns whether some length is not this one. (No search that ends early: it would not be compiled for vectors.)
fn differs(piece: &[u8; PIECE], length: u8) -> bool {
    piece.iter().fold(0, |bits, other| bits | (other ^ length)) != 0
}

fn write_leb128(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number of at most three bytes in LEB128, which is more than any run needs.
fn read_leb128(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in [0, 7, 14] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_documented() {
        let mut lengths = vec![0; 300];
        lengths.extend([1, 2, 3, 3]);
        let codebook = Codebook::new(lengths).unwrap();
        let mut bytes = Vec::new();
        codebook.write(&mut bytes);
        // 304 symbols; a run of 8 + 292 zeros; 1; 2; two times 3.
        assert_eq!(bytes, [48, 1, 0, 0, 7 << 5, (292 & 127 | 128) as u8, (292 >> 7) as u8, 1, 2, 3 | 1 << 5]);
        bytes.push(0xff);
        assert_eq!(Codebook::parse(&bytes, 1 << 16, "test").unwrap(), (codebook.clone(), 10));
        assert!(Codebook::parse(&bytes, 256, "test").is_err());
        for len in 0..10 {
            assert!(Codebook::parse(&bytes[..len], 1 << 16, "test").is_err());
        }
        let mut table = [0; 304];
        codebook.fill_codewords(&mut table);
        assert_eq!(table[299..], [0, 1, 0b10 << 8 | 2, 0b110 << 8 | 3, 0b111 << 8 | 3]);
    }

    #[test]
    fn only_complete_codes() {
        for good in [vec![], vec![1], vec![0, 1], vec![1, 1], vec![2, 2, 2, 2], vec![1, 2, 3, 3]] {
            assert!(Codebook::new(good).is_some());
        }
        for bad in [vec![2], vec![1, 1, 1], vec![1, 2], vec![2, 2, 2], vec![21, 21], vec![31, 1]] {
            assert!(Codebook::new(bad.clone()).is_none(), "{bad:?}");
        }
    }
}
