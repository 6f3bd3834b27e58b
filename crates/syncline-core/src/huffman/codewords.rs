//! Joining codewords: the bits of several that follow each other, and how many these are.

#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::huffman::Symbol;
use crate::simd::InstructionSet;

/// Symbols that are joined at once.
pub const JOINED: usize = 64;
/// Most pieces that they make.
pub const PIECES: usize = JOINED / 4;

/// Joined codewords in pieces, each right-aligned.
#[derive(Debug)]
pub struct Pieces {
    /// Bits.
    pub bits: [u64; PIECES],
    /// The number of bits in each piece, at most 64.
    pub lengths: [u64; PIECES],
}

impl Default for Pieces {
    fn default() -> Self {
        Self { bits: [0; PIECES], lengths: [0; PIECES] }
    }
}

/// Joins the codewords of these symbols, none of more than 16 bits, and returns the number of pieces. Entries of the
/// table are a codeword times 256 plus its length; entries from `alphabet` on belong to no symbol.
#[inline(always)]
pub fn join<I: InstructionSet, S: Symbol, const ENTRIES: usize>(
    isa: I,
    symbols: &[S; JOINED],
    table: &[u32; ENTRIES],
    alphabet: usize,
    pieces: &mut Pieces,
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512_vbmi2() {
        return avx512::join(token, symbols, table, alphabet, pieces);
    }
    let _ = (isa, alphabet);
    for (i, four) in symbols.as_chunks::<4>().0.iter().enumerate() {
        let (bits, length) = merge(&four.map(|symbol| u64::from(table[symbol.index() & (ENTRIES - 1)])));
        (pieces.bits[i], pieces.lengths[i]) = (bits, length.into());
    }
    PIECES
}

/// Joins entries, pairs first: a chain of shifts half as long.
#[inline(always)]
pub fn merge<const MERGED: usize>(entries: &[u64; MERGED]) -> (u64, u32) {
    let total = entries.iter().sum::<u64>() as u32 & 0xff;
    let joined = |a: u64, b: u64| (a >> 8) << (b & 63) | b >> 8;
    let bits = if MERGED == 4 {
        joined(entries[0], entries[1]) << ((entries[2] + entries[3]) & 63) | joined(entries[2], entries[3])
    } else {
        joined(entries[0], entries[1])
    };
    (bits, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{self, Isa, Kernel, Portable};

    /// All bits of all pieces, one after another.
    struct Bits<'a, S, const ENTRIES: usize>(&'a [S; JOINED], &'a [u32; ENTRIES], usize);

    impl<S: Symbol, const ENTRIES: usize> Kernel for Bits<'_, S, ENTRIES> {
        type Output = Vec<bool>;
        const WIDEST: Isa = Isa::Avx512Vbmi2;

        #[inline(always)]
        fn run<I: InstructionSet>(self, isa: I) -> Vec<bool> {
            let mut pieces = Pieces::default();
            let count = join(isa, self.0, self.1, self.2, &mut pieces);
            let bits = |(bits, length): (u64, u64)| (0..length).rev().map(move |bit| bits >> bit & 1 == 1);
            pieces.bits.into_iter().zip(pieces.lengths).take(count).flat_map(bits).collect()
        }
    }

    fn compare<S: Symbol, const ENTRIES: usize>(alphabet: usize, longest: u32) {
        let mut state = 5_u32;
        let mut next = || {
            state = state.wrapping_mul(0x9E37_79B1).wrapping_add(0x7F4A_7C15);
            state >> 8
        };
        let mut table = [0; ENTRIES];
        for entry in &mut table[..alphabet] {
            let length = next() % longest + 1;
            *entry = (next() & ((1 << length) - 1)) << 8 | length;
        }
        for _ in 0..50 {
            let symbols = std::array::from_fn(|_| S::truncate((next() as usize % alphabet) as u16));
            let one_by_one: Vec<bool> = symbols
                .iter()
                .map(|symbol: &S| table[symbol.index()])
                .flat_map(|entry| (0..entry & 0xff).rev().map(move |bit| entry >> 8 >> bit & 1 == 1))
                .collect();
            assert_eq!(Bits(&symbols, &table, alphabet).run(Portable), one_by_one);
            assert_eq!(simd::run(Bits(&symbols, &table, alphabet)), one_by_one, "{alphabet} {longest}");
        }
    }

    #[test]
    fn pieces_are_the_codewords() {
        for longest in [1, 5, 8, 9, 16] {
            for alphabet in [1, 2, 31, 32, 33, 64, 65, 256] {
                compare::<u8, 1024>(alphabet, longest);
                compare::<u16, 1024>(alphabet, longest);
            }
            compare::<u16, 1024>(1024, longest);
            compare::<u16, { 1 << 16 }>(1 << 16, longest);
        }
    }
}
