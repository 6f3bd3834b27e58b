//! Chooses what LZSS does with a chunk from a sample of it: the level, the shortest match, and whether matches are
//! searched at all. All arithmetic is on integers.

use super::super::options::CoderOptions;
use super::EncodeBuffers;
use crate::bits::logarithm::{LOG_BITS, times_log2};
use crate::lzss::{BlockCounts, MAX_MIN_MATCH, Params, SymbolWidth, Tokens};
use crate::simd::{self, InstructionSet, Kernel};

/// Number of runs of tiles in a sample.
const RUNS: usize = 4;
/// Bits of a Huffman-coded match in addition to its distance: the approximate cost of its flag and length on integer
/// columns.
const MATCH_BITS: u64 = 6;
/// Highest level that favors speed over ratio.
const FAST_LEVELS: u8 = 4;
/// Bits that the counts of a block take.
const BLOCK_BITS: u64 = size_of::<BlockCounts>() as u64 * 8;
/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The requested level, with the shortest match that is worth its token.
    Own,
    /// The requested level, with matches of at least [`MAX_MIN_MATCH`] symbols.
    LongMatches,
    /// No matches.
    Literals,
    /// A lower level, whose shorter distances can make smaller tokens.
    Level(u8),
}

/// Symbols of which it is found out how many are different.
const DISTINCT_SAMPLE: usize = 2048;
/// Minimum number of sampled symbols that repeat others. In a plane with fewer repeats, about 2^15 of the 16-bit
/// symbols are distinct, and the codebook takes as many bits as 16-bit symbols save.
const FEWEST_REPEATS: usize = DISTINCT_SAMPLE / 32;

/// How the tokens of a chunk are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssChoice {
    /// Parameters of the tokens.
    pub params: Params,
    /// Whether matches are searched; otherwise all symbols are literals.
    pub has_matches: bool,
    /// Whether planes of 16-bit symbols may be shorter than those of bytes.
    pub has_words: bool,
}

/// What a chunk would take, estimated from its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssEstimate {
    /// How its tokens would be made.
    pub choice: LzssChoice,
    /// Estimated number of bytes of the chunk.
    pub expected: u64,
    /// The same, plus a penalty for what takes time.
    pub bytes: u64,
}

/// Returns the numbers of the tiles in the sample of a chunk with these tile lengths in elements. The sample consists
/// of runs of tiles with at least half a block each.
pub(in super::super) fn sample_tiles(
    lengths: &[usize],
    element_bytes: usize,
    level: u8,
) -> Vec<std::ops::Range<usize>> {
    sample_runs(lengths.len(), lengths.first().copied(), element_bytes, level)
}

/// Computes [`sample_tiles`] for `tiles` tiles, of which the first has `first` elements.
pub(super) fn sample_runs(
    tiles: usize,
    first: Option<usize>,
    element_bytes: usize,
    level: u8,
) -> Vec<std::ops::Range<usize>> {
    let block = Params::new(SymbolWidth::One, level).block_bytes();
    let typical = first.map_or(1, |length| length * element_bytes);
    let run = (block / 2).div_ceil(typical);
    if run * RUNS * 2 > tiles {
        return std::iter::once(0..tiles).collect();
    }
    (0..RUNS).map(|i| (tiles - run) * i / (RUNS - 1)).map(|first| first..first + run).collect()
}

/// Properties of a chunk that determine, with its sample, the choice.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ChunkModel<'o> {
    pub options: &'o CoderOptions,
    pub entropy_coded: bool,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Numbers of elements in the sample and in the chunk.
    pub sampled: usize,
    pub elements: usize,
}

/// Statistics of the sample that all trials share.
struct SampleStatistics<'b> {
    bytes: &'b [u8],
    /// Entropy of the planes of bytes in units of 2^-16 bits; 0 if tokens are not entropy-coded.
    entropy: u64,
    /// Estimated size without matches in units of 2^-16 bits: the entropy, but at least three quarters of a bit per
    /// symbol.
    as_literals: u64,
    has_words: bool,
}

impl ChunkModel<'_> {
    /// Returns whether speed is favored over ratio. It is not if the sample is the whole chunk, because such a chunk is
    /// small and takes little time at any level.
    fn is_fast(&self) -> bool {
        self.options.level <= FAST_LEVELS && self.sampled < self.elements
    }

    /// Returns the width of the symbols: that of the elements unless another one is asked for.
    fn width(&self) -> SymbolWidth {
        let own = SymbolWidth::from_bytes(self.element_bytes);
        self.options.symbol.or(own).expect("elements have 1, 2, 4, or 8 bytes")
    }

    /// What is tried, in order. Levels from 5 on also try what level 1 or 4 makes, so that a higher level is no worse.
    fn attempts(&self) -> &'static [Attempt] {
        match (self.entropy_coded, self.options.level <= FAST_LEVELS) {
            (true, true) if self.is_fast() => &[Attempt::Own, Attempt::LongMatches, Attempt::Literals],
            (_, true) => &[Attempt::Own],
            (true, false) => &[Attempt::Own, Attempt::LongMatches, Attempt::Literals, Attempt::Level(1)],
            (false, false) => &[Attempt::Own, Attempt::Level(FAST_LEVELS)],
        }
    }

    /// Returns how many trials there are.
    pub fn trials(&self) -> usize {
        self.attempts().len()
    }

    /// Estimates the size of the chunk from the bytes of its sample. Returns the best trial.
    pub fn estimate(&self, bytes: &[u8], scratch: &mut EncodeBuffers) -> LzssEstimate {
        let statistics = self.statistics(bytes);
        let made = (0..self.trials()).filter_map(|trial| self.estimate_trial_of(trial, &statistics, scratch));
        made.reduce(LzssEstimate::shorter).expect("there is a first trial")
    }

    /// Estimates the size of the chunk with one trial. Returns `None` if the trial equals the first one.
    pub fn estimate_trial(&self, trial: usize, bytes: &[u8], scratch: &mut EncodeBuffers) -> Option<LzssEstimate> {
        self.estimate_trial_of(trial, &self.statistics(bytes), scratch)
    }

    fn statistics<'b>(&self, bytes: &'b [u8]) -> SampleStatistics<'b> {
        let width = self.width();
        let entropy = if self.entropy_coded { entropy(bytes, width.bytes()) } else { 0 };
        // A codeword has at least one bit. The minimum is less than that, because `coded_bits` ignores that the
        // codewords of literals between matches have at least one bit, too.
        let as_literals = entropy.max((bytes.len() / width.bytes()) as u64 * (3 << (LOG_BITS - 2)));
        // Planes of 16-bit symbols are tried unless the sample shows that they cannot save anything.
        let has_words = !(self.is_fast() && self.entropy_coded) || may_have_words(bytes, width);
        SampleStatistics { bytes, entropy, as_literals, has_words }
    }

    fn estimate_trial_of(
        &self,
        trial: usize,
        &SampleStatistics { bytes, entropy, as_literals, has_words }: &SampleStatistics,
        scratch: &mut EncodeBuffers,
    ) -> Option<LzssEstimate> {
        let entropy_coded = self.entropy_coded;
        let attempt = self.attempts()[trial];
        let level = if let Attempt::Level(level) = attempt { level } else { self.options.level };
        let mut params = Params::new(self.width(), level);
        if entropy_coded {
            params.min_match = shortest_worth_while(entropy, bytes, &params);
        }
        let has_matches = attempt != Attempt::Literals;
        if matches!(attempt, Attempt::LongMatches | Attempt::Literals) {
            if has_matches && params.min_match == MAX_MIN_MATCH {
                return None;
            }
            params.min_match = MAX_MIN_MATCH;
        }
        let bits = if has_matches {
            scratch.tokenize(bytes, &params);
            match (entropy_coded, self.options.level <= FAST_LEVELS) {
                (true, true) => coded_bits(&scratch.tokens, &params),
                (true, false) => codeword_bits(&scratch.tokens, &params),
                (false, _) => scratch.tokens.len() as u64 * 8,
            }
        } else {
            (as_literals >> LOG_BITS) + bytes.len().div_ceil(params.block_bytes()) as u64 * BLOCK_BITS
        };
        let expected = bits / 8 * self.elements as u64 / (self.sampled as u64).max(1);
        // Matches take time that only a clearly smaller stream is worth, short ones most of all, where speed is what
        // was asked for. The estimates of higher levels are less exact.
        let matches = u64::from(has_matches);
        let parts = match (entropy_coded, self.is_fast()) {
            (true, true) => 2 * matches + 4 * u64::from(params.min_match < MAX_MIN_MATCH),
            (true, false) if self.options.level > FAST_LEVELS => matches,
            _ => 0,
        };
        let choice = LzssChoice { params, has_matches, has_words };
        Some(LzssEstimate { choice, expected, bytes: expected + expected / 32 * parts / 2 })
    }
}

impl LzssEstimate {
    /// Returns the estimate with fewer bytes, `self` if both have the same number.
    pub(super) fn shorter(self, other: Self) -> Self {
        if other.bytes < self.bytes { other } else { self }
    }
}

/// Returns the minimum number of symbols of a match for which its literals take at least as many bits as the match, if
/// every symbol has the average entropy of the sample.
fn shortest_worth_while(entropy: u64, bytes: &[u8], params: &Params) -> u8 {
    let symbols = (bytes.len() / params.width.bytes()).max(1) as u64;
    let literal = (entropy / symbols).max(1);
    let distance = (params.window().min(params.block_symbols()) as u64).ilog2() as u64 + 1;
    let worth = ((distance + MATCH_BITS) << LOG_BITS).div_ceil(literal);
    (worth.min(MAX_MIN_MATCH.into()) as u8).max(params.min_match)
}

/// Returns whether planes of 16-bit symbols may be shorter than planes of bytes. They cannot be if each plane has so
/// many distinct symbols that the codebook takes what they save, or has one byte that is constant.
fn may_have_words(bytes: &[u8], width: SymbolWidth) -> bool {
    let width = width.bytes();
    let most = bytes.len() / width / DISTINCT_SAMPLE;
    if most == 0 || width == 1 {
        return true;
    }
    // An odd step, so that all parts of elements are sampled if symbols are parts of elements.
    let step = ((most - 1) | 1) * width;
    let mut is_wide = false;
    for plane in (0..width).step_by(2) {
        let mut seen = [0_u64; 1 << 10];
        let (mut distinct, mut differing) = (0, 0);
        let first = u16::from_le_bytes([bytes[plane], bytes[plane + 1]]);
        for number in 0..DISTINCT_SAMPLE {
            let at = number * step + plane;
            let symbol = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let (word, bit) = (usize::from(symbol / 64), symbol % 64);
            distinct += usize::from(seen[word] >> bit & 1 == 0);
            seen[word] |= 1 << bit;
            differing |= symbol ^ first;
        }
        let has_one_byte = differing < 0x100 || differing & 0xff == 0;
        if DISTINCT_SAMPLE - distinct < FEWEST_REPEATS {
            is_wide = true;
        } else if !has_one_byte {
            return true;
        }
    }
    !is_wide
}

/// Estimates the number of bits of the tokens after entropy coding.
pub(in super::super) fn coded_bits(tokens: &Tokens, params: &Params) -> u64 {
    let mut flags = Vec::with_capacity(tokens.flags.len() * 8);
    flags.extend(tokens.flags.iter().flat_map(|word| word.to_le_bytes()));
    let parts = entropy(&flags, 1)
        + entropy(&tokens.lengths, 1)
        + entropy(&tokens.distances, params.distance_bytes())
        + entropy(&tokens.literals, params.width.bytes());
    (parts >> LOG_BITS) + tokens.blocks.len() as u64 * BLOCK_BITS
}

/// The same with codewords that have no less than a bit: three quarters of one, because groups of equal symbols have
/// none.
fn codeword_bits(tokens: &Tokens, params: &Params) -> u64 {
    let flags: Vec<u8> = tokens.flags.iter().flat_map(|word| word.to_le_bytes()).collect();
    let parts = [
        (flags.as_slice(), 1),
        (&tokens.lengths, 1),
        (&tokens.distances, params.distance_bytes()),
        (&tokens.literals, params.width.bytes()),
    ];
    let planes = parts.into_iter().flat_map(|(bytes, stride)| planes_of(bytes, stride));
    let least = |symbols: u32| u64::from(symbols) * (3 << (LOG_BITS - 2));
    let bits: u64 = planes.map(|counts| entropy_of_counts(&counts).max(least(counts.iter().sum()))).sum();
    (bits >> LOG_BITS) + tokens.blocks.len() as u64 * BLOCK_BITS
}

/// Returns the entropy of the `stride` planes (1, 2, 4 or 8) of `bytes`, in units of 2^-16 bits.
fn entropy(bytes: &[u8], stride: usize) -> u64 {
    planes_of(bytes, stride).map(|counts| entropy_of_counts(&counts)).sum()
}

/// Returns how often each byte comes in each of the `stride` planes (1, 2, 4 or 8) of `bytes` whose bytes differ. The
/// others say nothing.
fn planes_of(bytes: &[u8], stride: usize) -> impl Iterator<Item = [u32; 256]> {
    let varying = simd::run(VaryingBytes { bytes, stride });
    let count = match stride {
        1 => count::<1>,
        2 => count::<2>,
        4 => count::<4>,
        _ => count::<8>,
    };
    let planes = (0..stride).filter(move |plane| varying >> (8 * plane) & 0xff != 0);
    planes.map(move |plane| count(bytes, plane))
}

/// Finds the planes whose bytes differ. The result contains the differing bits, those of plane 0 in the lowest byte.
struct VaryingBytes<'a> {
    bytes: &'a [u8],
    stride: usize,
}

impl Kernel for VaryingBytes<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> u64 {
        let Self { bytes, stride } = self;
        let (words, rest) = bytes.as_chunks::<8>();
        let mut first = 0;
        for i in 0..8 {
            first |= u64::from(bytes.get(i % stride).copied().unwrap_or(0)) << (8 * i);
        }
        let mut varying = 0;
        for word in words {
            varying |= u64::from_le_bytes(*word) ^ first;
        }
        for (i, &byte) in rest.iter().enumerate() {
            varying |= (u64::from(byte) << (8 * i)) ^ (first & 0xff << (8 * i));
        }
        for half in [4, 2, 1].into_iter().filter(|&half| half >= stride) {
            varying |= varying >> (8 * half);
        }
        varying
    }
}

/// Counts each byte value in plane `plane` of `STRIDE`. It uses eight histograms, because increments for consecutive
/// equal bytes in a single histogram would wait for each other.
fn count<const STRIDE: usize>(bytes: &[u8], plane: usize) -> [u32; 256] {
    let mut copies = [[0; 256]; 8];
    let (symbols, rest) = bytes.as_chunks::<STRIDE>();
    let (eights, others) = symbols.as_chunks::<8>();
    for eight in eights {
        copies.iter_mut().zip(eight).for_each(|(counts, symbol)| counts[usize::from(symbol[plane % STRIDE])] += 1);
    }
    let mut counts = [0; 256];
    for copy in &copies {
        counts.iter_mut().zip(copy).for_each(|(sum, &count)| *sum += count);
    }
    let others = others.iter().map(|symbol| symbol[plane % STRIDE]);
    others.chain(rest.get(plane).copied()).for_each(|byte| counts[usize::from(byte)] += 1);
    counts
}

/// Returns the entropy of all symbols with these counts, in units of 2^-16 bits.
fn entropy_of_counts(counts: &[u32; 256]) -> u64 {
    times_log2(counts.iter().sum()) - counts.iter().map(|&count| times_log2(count)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_of_known_distributions() {
        let uniform: Vec<u8> = (0..=255).cycle().take(4096).collect();
        assert_eq!(entropy(&uniform, 1) >> LOG_BITS, 4096 * 8);
        assert_eq!(entropy(&[7; 1000], 1), 0);
        let halves: Vec<u8> = (0..1000).map(|i| (i / 2 % 2) as u8).collect();
        assert_eq!(entropy(&halves, 2) >> LOG_BITS, 1000);
        // Planes that vary, that do not, and a last symbol that is not whole.
        for (stride, length) in [(1, 0), (1, 3), (2, 1001), (4, 5), (4, 4003), (8, 7), (8, 4009)] {
            let bytes: Vec<u8> = (0..length).map(|i| if i % stride % 3 == 1 { 9 } else { (i * i / 7) as u8 }).collect();
            let plane = |plane: usize| bytes.iter().copied().skip(plane).step_by(stride).collect::<Vec<u8>>();
            let expected: u64 = (0..stride).map(|number| entropy_of_counts(&count::<1>(&plane(number), 0))).sum();
            assert_eq!(entropy(&bytes, stride), expected, "{stride} {length}");
        }
    }

    #[test]
    fn words_are_left_out_where_a_codebook_takes_what_they_save() {
        let noise = |i: u32| {
            let mixed = (i + 1).wrapping_mul(0x9E37_79B9);
            (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA6B).rotate_left(16).wrapping_mul(0xC2B2_AE35)
        };
        let bytes = |count: u32, value: fn(u32) -> u32| -> Vec<u8> {
            (0..count).flat_map(|i| noise(value(i)).to_le_bytes()).collect()
        };
        let may = |bytes: &[u8]| may_have_words(bytes, SymbolWidth::Four);
        // Noise in both pairs of bytes; too few symbols to decide; few values; noise in one pair and few values in the
        // other.
        assert!(!may(&bytes(8192, |i| i)));
        assert!(may(&bytes(2000, |i| i)));
        assert!(may(&bytes(8192, |i| i % 500)));
        let mixed = |i: u32, few: u32| ((noise(i) >> 16) + i % few * 0x0111_0000).to_le_bytes();
        assert!(may(&(0..8192).flat_map(|i| mixed(i, 50)).collect::<Vec<u8>>()));
        assert!(!may(&(0..8192).flat_map(|i| mixed(i, 1)).collect::<Vec<u8>>()));
        // The same halves of elements again and again would be noise.
        assert!(may_have_words(
            &(0..8192).flat_map(|i| (noise(i) >> 16).to_le_bytes()).collect::<Vec<u8>>(),
            SymbolWidth::Two
        ));
        // There are no 16-bit planes of bytes. With bytes and zeros, 16-bit planes neither gain nor lose.
        assert!(may_have_words(&bytes(8192, |i| i), SymbolWidth::One));
        assert!(may(&(0..8192_u32).flat_map(|i| (i % 200).to_le_bytes()).collect::<Vec<u8>>()));
    }

    #[test]
    fn samples_lie_in_the_chunk() {
        for tiles in [0, 1, 7, 31, 32, 33, 512, 4096] {
            let ranges = sample_tiles(&vec![1024; tiles], 4, 3);
            assert!(ranges.iter().all(|range| range.end <= tiles));
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }
}
