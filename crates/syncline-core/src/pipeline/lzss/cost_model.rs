//! Chooses a chunk's input (elements or residuals), symbol width, and minimum match length from a sample of the chunk.
//! All arithmetic is on integers.

use super::super::options::CoderOptions;
use super::super::residuals::Residuals;
use super::EncodeBuffers;
use super::bytes_of;
use crate::bits::logarithm::{LOG_BITS, times_log2};
use crate::lzss::{BlockCounts, MAX_MIN_MATCH, Params, SymbolWidth, Tokens};
use crate::predict::word::Word;
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
/// What is tried of a strategy.
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

/// Coding parameters of a chunk.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Choice {
    /// Whether the residuals are coded instead of the elements.
    pub of_residuals: bool,
    /// Whether tokens are Huffman-coded.
    pub entropy_coded: bool,
    /// Parameters of the tokens.
    pub params: Params,
    /// Whether matches are searched; otherwise all symbols are literals.
    pub has_matches: bool,
    /// Whether planes of 16-bit symbols may be shorter than those of bytes.
    pub has_words: bool,
    /// Estimated number of bytes of the chunk, plus a penalty for slow strategies.
    pub bytes: u64,
    /// About how many bytes the chunk will take.
    pub expected: u64,
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

/// The input and the symbol width of a chunk's encoding. The minimum match length is chosen separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Whether the residuals are coded instead of the elements.
    pub of_residuals: bool,
    /// Width of the symbols.
    pub width: SymbolWidth,
}

/// Properties of a chunk that determine, with its sample, the choice of the strategy.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkModel<'o> {
    pub options: &'o CoderOptions,
    pub entropy_coded: bool,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Numbers of elements in the sample and in the chunk.
    pub sampled: usize,
    pub elements: usize,
}

/// Statistics of the sample under one strategy.
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

    fn is_narrow(&self, strategy: Strategy) -> bool {
        strategy.width.bytes() < self.element_bytes
    }

    /// Returns the strategies that may be tried, in the order of the trials.
    pub fn strategies(&self) -> Vec<Strategy> {
        let (own, fast) = (self.element_bytes, self.is_fast());
        let widths = || {
            SymbolWidth::ALL.into_iter().rev().filter(move |&width| match self.options.symbol {
                Some(asked) => width == asked,
                // With Huffman coding, bytes of wider elements never gave a shorter result than planes of the elements.
                None if fast && self.entropy_coded => width.bytes() <= own && width.bytes() >= own.min(4),
                None => width.bytes() <= own,
            })
        };
        let strategies = [false, true]
            .into_iter()
            .flat_map(|of_residuals| widths().map(move |width| Strategy { of_residuals, width }));
        // If speed is favored, residuals are not tried with narrow symbols.
        strategies
            .filter(|&strategy| !(fast && !self.entropy_coded && self.is_narrow(strategy) && strategy.of_residuals))
            .collect()
    }

    /// Returns whether a strategy is tried only if the strategies before it do not save enough. That applies to narrow
    /// symbols (as in GPULZ) if speed is favored.
    pub fn is_fallback(&self, strategy: Strategy) -> bool {
        self.is_fast() && !self.entropy_coded && self.is_narrow(strategy)
    }

    /// Returns whether a strategy is tried if the best strategy before it takes `best` bytes. A fallback is not tried
    /// if that saves a third or more.
    fn is_tried(&self, strategy: Strategy, best: u64) -> bool {
        let saved = best * 3 < (self.elements * self.element_bytes * 2) as u64;
        !(self.is_fallback(strategy) && saved)
    }

    /// Returns the choice with the fewest bytes according to `estimate`, the first of several. Returns `None` if
    /// `estimate` returns `None` for a strategy that has to be tried.
    pub fn best(&self, mut estimate: impl FnMut(usize, Strategy) -> Option<Choice>) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        for (number, strategy) in self.strategies().into_iter().enumerate() {
            if best.as_ref().is_none_or(|best| self.is_tried(strategy, best.bytes)) {
                let choice = estimate(number, strategy)?;
                if best.as_ref().is_none_or(|best| choice.bytes < best.bytes) {
                    best = Some(choice);
                }
            }
        }
        best
    }

    /// What is tried of each strategy, in order. Levels from 5 on also try what level 1 or 4 makes, so that a higher
    /// level is no worse.
    fn attempts(&self) -> &'static [Attempt] {
        match (self.entropy_coded, self.options.level <= FAST_LEVELS) {
            (true, true) if self.is_fast() => &[Attempt::Own, Attempt::LongMatches, Attempt::Literals],
            (_, true) => &[Attempt::Own],
            (true, false) => &[Attempt::Own, Attempt::LongMatches, Attempt::Literals, Attempt::Level(1)],
            (false, false) => &[Attempt::Own, Attempt::Level(FAST_LEVELS)],
        }
    }

    /// How many attempts are made of each strategy.
    pub fn trials(&self) -> usize {
        self.attempts().len()
    }

    /// Estimates the size of the chunk with one strategy from the bytes of its sample. `bases` is the number of bases
    /// stored with residuals. Returns the best trial.
    pub fn estimate(&self, strategy: Strategy, bytes: &[u8], bases: usize, scratch: &mut EncodeBuffers) -> Choice {
        let statistics = self.statistics(strategy, bytes);
        let first = self.estimate_trial_of(strategy, 0, &statistics, bases, scratch).expect("there is a first trial");
        let others =
            (1..self.trials()).filter_map(|trial| self.estimate_trial_of(strategy, trial, &statistics, bases, scratch));
        others.fold(first, Choice::shorter)
    }

    /// Estimates the size of the chunk with one trial of a strategy. Returns `None` if the trial equals the first one.
    pub fn estimate_trial(
        &self,
        strategy: Strategy,
        trial: usize,
        bytes: &[u8],
        bases: usize,
        scratch: &mut EncodeBuffers,
    ) -> Option<Choice> {
        self.estimate_trial_of(strategy, trial, &self.statistics(strategy, bytes), bases, scratch)
    }

    /// Computes the statistics that all trials of a strategy share.
    fn statistics<'b>(&self, strategy: Strategy, bytes: &'b [u8]) -> SampleStatistics<'b> {
        let entropy = if self.entropy_coded { entropy(bytes, strategy.width.bytes()) } else { 0 };
        // A codeword has at least one bit. The minimum is less than that, because `coded_bits` ignores that the
        // codewords of literals between matches have at least one bit, too.
        let as_literals = entropy.max((bytes.len() / strategy.width.bytes()) as u64 * (3 << (LOG_BITS - 2)));
        // Planes of 16-bit symbols are tried unless the sample shows that they cannot save anything.
        let has_words = !(self.is_fast() && self.entropy_coded) || may_have_words(bytes, strategy.width);
        SampleStatistics { bytes, entropy, as_literals, has_words }
    }

    fn estimate_trial_of(
        &self,
        strategy: Strategy,
        trial: usize,
        &SampleStatistics { bytes, entropy, as_literals, has_words }: &SampleStatistics,
        bases: usize,
        scratch: &mut EncodeBuffers,
    ) -> Option<Choice> {
        let Strategy { of_residuals, width } = strategy;
        let (narrow, entropy_coded) = (self.is_narrow(strategy), self.entropy_coded);
        let side = bases * self.element_bytes;
        let attempt = self.attempts()[trial];
        let level = if let Attempt::Level(level) = attempt { level } else { self.options.level };
        let mut params = Params::new(width, level);
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
        let bytes = (bits / 8 + side as u64) * self.elements as u64 / (self.sampled as u64).max(1);
        // Prediction, narrow symbols and matches take time that only a clearly smaller stream is worth, short matches
        // most of all, where speed is what was asked for.
        let for_speed = self.options.level <= FAST_LEVELS || !entropy_coded;
        let slow = if for_speed { 2 * u64::from(of_residuals || narrow) } else { 0 };
        let slow_matches = match (entropy_coded, self.is_fast()) {
            (true, true) => 2 * (u64::from(has_matches) + 2 * u64::from(params.min_match < MAX_MIN_MATCH)),
            // The estimates of these are less exact.
            (true, false) if self.options.level > FAST_LEVELS => u64::from(has_matches) + u64::from(narrow),
            _ => 0,
        };
        let parts = 2 * slow + slow_matches;
        let handicap = if of_residuals && !entropy_coded { bytes / 4 } else { bytes / 32 * parts / 2 };
        let (expected, bytes) = (bytes, bytes + handicap);
        Some(Choice { of_residuals, entropy_coded, params, has_matches, has_words, bytes, expected })
    }
}

impl Choice {
    /// Returns the choice with fewer bytes, `self` if both have the same number.
    pub fn shorter(self, other: Self) -> Self {
        if other.bytes < self.bytes { other } else { self }
    }
}

/// Chooses the parameters of a chunk of `elements` elements from its sample.
pub(in super::super) fn choose<W: Word>(
    options: &CoderOptions,
    entropy_coded: bool,
    sample: &[W],
    residuals: &Residuals<W>,
    elements: usize,
    scratch: &mut EncodeBuffers,
) -> Choice {
    let model = ChunkModel { options, entropy_coded, element_bytes: size_of::<W>(), sampled: sample.len(), elements };
    let (of_elements, of_residuals) = (bytes_of(sample), bytes_of(residuals.words));
    let best = model.best(|_, strategy| {
        Some(match strategy.of_residuals {
            true => model.estimate(strategy, &of_residuals, residuals.bases.len(), scratch),
            false => model.estimate(strategy, &of_elements, 0, scratch),
        })
    });
    best.expect("there is a width of one byte")
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
