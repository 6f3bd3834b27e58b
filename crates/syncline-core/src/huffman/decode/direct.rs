//! Decoding with the symbol index where many codewords are longer than the tables of several symbols: one symbol a
//! lookup, from a table of as many bits as the longest codeword has.
//!
//! Every lookup gives one symbol, so groups that are decoded side by side go on in step, and end together.

use std::ops::Range;

use super::StreamDecoder;
use super::canonical::Canonical;
use super::lookup::TABLE_BITS;
use crate::bits::reader::BitWords;
use crate::huffman::lengths::MAX_LENGTH;
use crate::huffman::{Checksum, Symbol};
use crate::simd::{InstructionSet, Kernel};

/// Maximum index width of a table in bits: two codewords fit one window of 33 bits. Longer codewords are decoded
/// canonically.
const MOST_BITS: u32 = 16;
/// Groups decoded side by side.
const LANES: usize = 8;
/// A table is used if at least one in this number of codewords is too long for the other tables.
const WORTH_WHILE: u32 = 16;

/// A table of single symbols.
#[derive(Clone, Debug)]
pub struct Direct {
    /// Symbol times 256 plus the length of its codeword; 0 where that is longer than the table's bits.
    entries: Box<[u32]>,
    bits: u32,
}

impl Direct {
    /// Builds the tables of a stream's codebooks. Returns none if tables with several symbols per entry are faster. The
    /// probability of a codeword is derived from its length.
    pub fn for_codebooks(codes: &[Canonical]) -> Vec<Self> {
        let long = |code: &Canonical| -> u32 {
            (TABLE_BITS + 1..=MAX_LENGTH).map(|length| code.counts[length as usize] << (MAX_LENGTH - length)).sum()
        };
        let all: u32 = codes.iter().map(long).sum();
        if all * WORTH_WHILE < (codes.len() as u32) << MAX_LENGTH {
            return Vec::new();
        }
        codes.iter().map(Self::new).collect()
    }

    fn new(code: &Canonical) -> Self {
        let longest = (1..=MAX_LENGTH).rev().find(|&length| code.counts[length as usize] > 0);
        let bits = longest.unwrap_or(1).min(MOST_BITS);
        let mut entries = Vec::with_capacity(1 << bits);
        let mut symbols = code.symbols.iter();
        for length in 1..=bits {
            for &symbol in symbols.by_ref().take(code.counts[length as usize] as usize) {
                entries.resize(entries.len() + (1 << (bits - length)), u32::from(symbol) << 8 | length);
            }
        }
        entries.resize(1 << bits, 0);
        Self { entries: entries.into_boxed_slice(), bits }
    }

    #[inline(always)]
    fn entry(&self, window: u64) -> u32 {
        self.entries[(window >> (64 - self.bits)) as usize]
    }
}

/// Decodes the groups of a range to `out`; before them are `rank` coded groups. Gives `None` if a group does not end
/// where the next one starts.
pub struct Decoding<'d, 's, 'a, S, const LEN: usize> {
    pub decoder: &'d StreamDecoder<'s, 'a, S>,
    pub range: Range<usize>,
    pub rank: usize,
    pub out: &'d mut [[S; LEN]],
}

impl<S: Symbol, const LEN: usize> Kernel for Decoding<'_, '_, '_, S, LEN> {
    type Output = Option<Checksum>;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Option<Checksum> {
        let Self { decoder, range, mut rank, out } = self;
        let stream = decoder.stream;
        let (direct, canonical) = (&decoder.direct, &decoder.canonical);
        let mut lanes = Lanes { words: stream.words, positions: [0; LANES], symbols: [[S::truncate(0); LEN]; LANES] };
        let mut classes = [0; LANES];
        let mut groups = [0; LANES];
        let (mut checksum, mut are_whole) = (Checksum::default(), true);
        let mut next = range.start;
        while next < range.end {
            let mut taken = 0;
            while next < range.end && taken < LANES {
                if stream.is_zero_bit(next) {
                    out[next - range.start] = [stream.zero_bit_symbol(); LEN];
                } else {
                    lanes.positions[taken] = stream.starts[rank + taken];
                    (classes[taken], groups[taken]) = (decoder.class(next), next);
                    taken += 1;
                }
                next += 1;
            }
            match (direct.as_slice(), canonical.as_slice()) {
                // The only codebook stays in registers.
                ([table], [code, ..]) => lanes.decode(|_| (table, code)),
                _ => lanes.decode(|lane| (&direct[classes[lane]], &canonical[classes[lane]])),
            }
            let ends = lanes.symbols.iter().zip(&lanes.positions);
            for ((symbols, &end), group) in ends.zip(&groups[..taken]) {
                out[group - range.start] = *symbols;
                are_whole &= end == stream.starts[rank + 1];
                checksum.add(Checksum::of_group(symbols, (rank * LEN) as u32));
                rank += 1;
            }
        }
        are_whole.then_some(checksum)
    }
}

/// Groups while they are decoded, side by side.
struct Lanes<'a, S, const LEN: usize> {
    words: BitWords<'a>,
    positions: [u32; LANES],
    symbols: [[S; LEN]; LANES],
}

impl<S: Symbol, const LEN: usize> Lanes<'_, S, LEN> {
    /// Decodes a group in each lane. If fewer groups are left, the other lanes decode symbols that are dropped.
    #[inline(always)]
    fn decode<'t>(&mut self, codebook: impl Fn(usize) -> (&'t Direct, &'t Canonical)) {
        let Self { words, positions, symbols } = self;
        for i in (0..LEN).step_by(2) {
            for (lane, (symbols, position)) in symbols.iter_mut().zip(&mut *positions).enumerate() {
                let (table, code) = codebook(lane);
                let pair: &mut [S; 2] = (&mut symbols[i..i + 2]).try_into().expect("as many");
                *pair = next_pair(table, code, words, position).map(S::truncate);
            }
        }
    }
}

/// Returns the next two symbols.
#[inline(always)]
fn next_pair(table: &Direct, code: &Canonical, words: &BitWords<'_>, position: &mut u32) -> [u16; 2] {
    let window = words.window(*position);
    let first = table.entry(window);
    let second = table.entry(window << (first & 63));
    // An entry without a symbol consumes no bits, so the next lookup gives the same entry. It is enough to test the
    // second one.
    if second == 0 {
        return [next_slowly(code, words, position), next_slowly(code, words, position)];
    }
    *position = position.wrapping_add((first & 0xff) + (second & 0xff));
    [(first >> 8) as u16, (second >> 8) as u16]
}

fn next_slowly(code: &Canonical, words: &BitWords<'_>, position: &mut u32) -> u16 {
    let (symbol, length) = code.decode(words.window(*position), code.shortest);
    *position = position.wrapping_add(length);
    symbol
}
