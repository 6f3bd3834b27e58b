//! Which input, symbol width and shortest match a chunk takes, from a sample of it. Integer arithmetic throughout.

use super::super::options::CoderOptions;
use super::super::residuals::Residuals;
use super::EncodeBuffers;
use super::bytes_of;
use crate::bits::dispatch::{self, Kernel};
use crate::bits::logarithm::{LOG_BITS, times_log2};
use crate::lzss::{BlockCounts, MAX_MIN_MATCH, Params, SymbolWidth, Tokens};
use crate::predict::word::Word;

/// Runs of tiles in a sample.
const RUNS: usize = 4;
/// Bits that a match takes besides its distance where tokens are Huffman-coded: about what its flag and length came to
/// on columns of integers.
const MATCH_BITS: u64 = 6;
/// Levels up to this one are for speed.
const FAST_LEVELS: u8 = 4;
/// Bits of what is said of each block.
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
/// So many of them repeat others where a plane of 16-bit symbols has about 2^15 that are different: its codebook takes
/// what it saves.
const FEWEST_REPEATS: usize = DISTINCT_SAMPLE / 32;

/// How a chunk is coded.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Choice {
    /// Whether the residuals are coded, not the elements.
    pub of_residuals: bool,
    /// Whether tokens are Huffman-coded.
    pub entropy_coded: bool,
    /// How symbols become tokens.
    pub params: Params,
    /// Whether matches are looked for; else all symbols are literals.
    pub has_matches: bool,
    /// Whether planes of 16-bit symbols may be shorter than those of bytes.
    pub has_words: bool,
    /// About how many bytes the chunk will take, and what is added for being slow.
    pub bytes: u64,
    /// About how many bytes the chunk will take.
    pub expected: u64,
}

/// The numbers of the tiles in the sample of a chunk with these tile lengths: runs that hold at least half a block
/// each.
pub(in super::super) fn sample_tiles(
    lengths: &[usize],
    element_bytes: usize,
    level: u8,
) -> Vec<std::ops::Range<usize>> {
    sample_runs(lengths.len(), lengths.first().copied(), element_bytes, level)
}

/// The same of so many tiles, of which the first has so many elements.
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

/// A strategy to code a chunk, but for the shortest match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Whether the residuals are coded, not the elements.
    pub of_residuals: bool,
    /// Width of the symbols.
    pub width: SymbolWidth,
}

/// What the choice of a chunk's strategy depends on beside its sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkModel<'o> {
    pub options: &'o CoderOptions,
    pub entropy_coded: bool,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Elements of the sample, and of the chunk.
    pub sampled: usize,
    pub elements: usize,
}

/// The sample in one strategy.
struct SampleStatistics<'b> {
    bytes: &'b [u8],
    /// Of its planes of bytes, in 2^-16 bits; 0 if nobody asks.
    entropy: u64,
    /// What it takes without matches, likewise: three quarters of a bit a symbol at least.
    as_literals: u64,
    has_words: bool,
}

impl ChunkModel<'_> {
    /// Whether speed is what was asked for. Where the sample is the whole chunk there is no time to save.
    fn is_fast(&self) -> bool {
        self.options.level <= FAST_LEVELS && self.sampled < self.elements
    }

    fn is_narrow(&self, strategy: Strategy) -> bool {
        strategy.width.bytes() < self.element_bytes
    }

    /// The strategies that may be tried, in order.
    pub fn strategies(&self) -> Vec<Strategy> {
        let (own, fast) = (self.element_bytes, self.is_fast());
        let widths = || {
            SymbolWidth::ALL.into_iter().rev().filter(move |&width| match self.options.symbol {
                Some(asked) => width == asked,
                // Before Huffman coding bytes of wider elements were never shorter: their planes say more.
                None if fast && self.entropy_coded => width.bytes() <= own && width.bytes() >= own.min(4),
                None => width.bytes() <= own,
            })
        };
        let strategies = [false, true]
            .into_iter()
            .flat_map(|of_residuals| widths().map(move |width| Strategy { of_residuals, width }));
        // Where speed is what was asked for, narrow symbols are not tried of residuals.
        strategies
            .filter(|&strategy| !(fast && !self.entropy_coded && self.is_narrow(strategy) && strategy.of_residuals))
            .collect()
    }

    /// Whether a strategy is tried only where others do not save enough: narrow symbols where speed is what was asked
    /// for (as GPULZ does).
    pub fn is_fallback(&self, strategy: Strategy) -> bool {
        self.is_fast() && !self.entropy_coded && self.is_narrow(strategy)
    }

    /// Whether a strategy is tried if those before came to so many bytes at least: a third less is enough.
    fn is_tried(&self, strategy: Strategy, best: u64) -> bool {
        let saved = best * 3 < (self.elements * self.element_bytes * 2) as u64;
        !(self.is_fallback(strategy) && saved)
    }

    /// The best of all strategies, which `estimate` weighs; the first of those that come to as much. `None` if there is
    /// a strategy that it does not estimate.
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

    /// What the chunk comes to in one strategy, by its sample: as bytes, with so many bases beside them.
    pub fn estimate(&self, strategy: Strategy, bytes: &[u8], bases: usize, scratch: &mut EncodeBuffers) -> Choice {
        let statistics = self.statistics(strategy, bytes);
        let first = self.estimate_trial_of(strategy, 0, &statistics, bases, scratch).expect("there is a first trial");
        let others =
            (1..self.trials()).filter_map(|trial| self.estimate_trial_of(strategy, trial, &statistics, bases, scratch));
        others.fold(first, Choice::shorter)
    }

    /// The same with one of the shortest matches that are tried, or `None` if that is left out, as it is the same as
    /// the first.
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

    /// What all trials of a strategy need to know.
    fn statistics<'b>(&self, strategy: Strategy, bytes: &'b [u8]) -> SampleStatistics<'b> {
        let entropy = if self.entropy_coded { entropy(bytes, strategy.width.bytes()) } else { 0 };
        // Codewords have no less than a bit; but the literals that matches leave have them, too.
        let as_literals = entropy.max((bytes.len() / strategy.width.bytes()) as u64 * (3 << (LOG_BITS - 2)));
        // Planes of 16-bit symbols are tried unless it is known that they do not pay.
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
    /// The one that comes to fewer bytes; of equals the first.
    pub fn shorter(self, other: Self) -> Self {
        if other.bytes < self.bytes { other } else { self }
    }
}

/// Chooses by the samples; `elements` is how many the chunk has.
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

/// The fewest symbols whose literals take as many bits as a match, if all bytes have this entropy.
fn shortest_worth_while(entropy: u64, bytes: &[u8], params: &Params) -> u8 {
    let symbols = (bytes.len() / params.width.bytes()).max(1) as u64;
    let literal = (entropy / symbols).max(1);
    let distance = (params.window().min(params.block_symbols()) as u64).ilog2() as u64 + 1;
    let worth = ((distance + MATCH_BITS) << LOG_BITS).div_ceil(literal);
    (worth.min(MAX_MIN_MATCH.into()) as u8).max(params.min_match)
}

/// Whether planes of 16-bit symbols may be shorter than those of bytes. They cannot where each has so many different
/// symbols that its codebook takes what they save, or bytes of which half are the same.
fn may_have_words(bytes: &[u8], width: SymbolWidth) -> bool {
    let width = width.bytes();
    let most = bytes.len() / width / DISTINCT_SAMPLE;
    if most == 0 || width == 1 {
        return true;
    }
    // Odd: where symbols are parts of elements, all parts are looked at.
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

/// Bits of the tokens after entropy coding of their bytes.
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

/// The same from how often each byte comes in each plane of the tokens, of so many blocks.
pub(in super::super) fn counted_bits(planes: &[[u32; 256]], blocks: usize) -> u64 {
    (planes.iter().map(entropy_of_counts).sum::<u64>() >> LOG_BITS) + blocks as u64 * BLOCK_BITS
}

/// Entropy of the `stride` planes (1, 2, 4 or 8) of `bytes`, in 2^-16 bits.
fn entropy(bytes: &[u8], stride: usize) -> u64 {
    planes_of(bytes, stride).map(|counts| entropy_of_counts(&counts)).sum()
}

/// Returns how often each byte comes in each of the `stride` planes (1, 2, 4 or 8) of `bytes` whose bytes differ. The
/// others say nothing.
fn planes_of(bytes: &[u8], stride: usize) -> impl Iterator<Item = [u32; 256]> {
    let varying = dispatch::run(VaryingBytes { bytes, stride });
    let count = match stride {
        1 => count::<1>,
        2 => count::<2>,
        4 => count::<4>,
        _ => count::<8>,
    };
    let planes = (0..stride).filter(move |plane| varying >> (8 * plane) & 0xff != 0);
    planes.map(move |plane| count(bytes, plane))
}

/// Finds which planes have bytes that differ: the bits that do, plane 0 in the lowest byte.
struct VaryingBytes<'a> {
    bytes: &'a [u8],
    stride: usize,
}

impl Kernel for VaryingBytes<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
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

/// How often each byte comes in plane `plane` of `STRIDE`, in eight copies, as equal bytes that follow each other would
/// wait for each other's sums.
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

/// What symbols with these counts take, in 2^-16 bits.
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
        // Noise in both pairs of bytes; too few to say; few values; noise beside few values.
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
        // Of bytes there are none, and of bytes beside zeros nothing to gain, nor to lose.
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
