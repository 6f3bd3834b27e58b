//! Which input, symbol width and shortest match a chunk takes, from a sample of it. Integer arithmetic throughout.

use super::super::lossless::Residuals;
use super::super::options::LosslessOptions;
use super::EncodeBuffers;
use super::bytes_of;
use crate::lzss::{BlockCounts, MAX_MIN_MATCH, Params, SymbolWidth, Tokens};
use crate::predict::lorenzo::Word;

/// Runs of tiles in a sample.
const PIECES: usize = 4;
/// Bits that a match takes besides its distance where tokens are Huffman-coded: about what its flag and length came to on columns of integers.
const MATCH_BITS: u64 = 6;
/// Bits of what is said of each block.
const BLOCK_BITS: u64 = size_of::<BlockCounts>() as u64 * 8;
/// Fraction bits of logarithms.
const LOG_BITS: u32 = 16;

/// How a chunk is coded.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Choice {
    /// Whether the residuals are coded, not the elements.
    pub of_residuals: bool,
    /// Whether tokens are Huffman-coded.
    pub entropy_coded: bool,
    /// How symbols become tokens.
    pub params: Params,
    /// About how many bytes the chunk will take, and what is added for being slow.
    pub bytes: u64,
}

/// The numbers of the tiles in the sample of a chunk with these tile lengths: runs that hold at least half a block each.
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
    if run * PIECES * 2 > tiles {
        return std::iter::once(0..tiles).collect();
    }
    (0..PIECES).map(|i| (tiles - run) * i / (PIECES - 1)).map(|first| first..first + run).collect()
}

/// A way to code a chunk, but for the shortest match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether the residuals are coded, not the elements.
    pub of_residuals: bool,
    /// Width of the symbols.
    pub width: SymbolWidth,
}

/// The ways that there are for elements of so many bytes; of those that are estimated alike the first is taken.
pub(super) fn ways(options: &LosslessOptions, element_bytes: usize) -> Vec<Way> {
    let widths = || {
        SymbolWidth::ALL.into_iter().rev().filter(|&width| match options.symbol {
            Some(asked) => width == asked,
            None => width.bytes() <= element_bytes,
        })
    };
    [false, true].into_iter().flat_map(|of_residuals| widths().map(move |width| Way { of_residuals, width })).collect()
}

/// What a chunk comes to in one way, by its sample. `bases` are those of the residuals, if these are what is coded.
pub(super) fn weigh<W: Word>(
    options: &LosslessOptions,
    entropy_coded: bool,
    way: Way,
    (words, bases): (&[W], usize),
    sampled: usize,
    elements: usize,
    scratch: &mut EncodeBuffers,
) -> Choice {
    let Way { of_residuals, width } = way;
    let bytes = bytes_of(words);
    let side = bases * size_of::<W>();
    let mut params = Params::new(width, options.level);
    if entropy_coded {
        params.min_match = shortest_worth_while(&bytes, &params);
    }
    scratch.tokenise(&bytes, &params);
    let bits = if entropy_coded { coded_bits(&scratch.tokens, &params) } else { scratch.tokens.len() as u64 * 8 };
    let bytes = (bits / 8 + side as u64) * elements as u64 / (sampled as u64).max(1);
    // Prediction and narrow symbols take time that only a clearly smaller stream is worth, most of all where speed is what was asked for.
    let narrow = width.bytes() < size_of::<W>();
    let handicap = match (of_residuals, narrow) {
        (true, _) if !entropy_coded => bytes / 4,
        (false, false) => 0,
        _ => bytes / 16,
    };
    Choice { of_residuals, entropy_coded, params, bytes: bytes + handicap }
}

/// Chooses by the samples; `elements` is how many the chunk has.
pub(in super::super) fn choose<W: Word>(
    options: &LosslessOptions,
    entropy_coded: bool,
    sample: &[W],
    residuals: &Residuals<W>,
    elements: usize,
    scratch: &mut EncodeBuffers,
) -> Choice {
    let mut best: Option<Choice> = None;
    for way in ways(options, size_of::<W>()) {
        let input = if way.of_residuals { (&residuals.words[..], residuals.bases.len()) } else { (sample, 0) };
        let choice = weigh(options, entropy_coded, way, input, sample.len(), elements, scratch);
        if best.as_ref().is_none_or(|best| choice.bytes < best.bytes) {
            best = Some(choice);
        }
    }
    best.expect("there is a width of one byte")
}

/// The fewest symbols whose literals take as many bits as a match.
fn shortest_worth_while(bytes: &[u8], params: &Params) -> u8 {
    let symbols = (bytes.len() / params.width.bytes()).max(1) as u64;
    let literal = (entropy(bytes, params.width.bytes()) / symbols).max(1);
    let distance = (params.window().min(params.block_symbols()) as u64).ilog2() as u64 + 1;
    let worth = ((distance + MATCH_BITS) << LOG_BITS).div_ceil(literal);
    (worth.min(MAX_MIN_MATCH.into()) as u8).max(params.min_match)
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

/// The same from how often each byte comes in each plane of the tokens, of so many blocks.
pub(in super::super) fn counted_bits(planes: &[[u32; 256]], blocks: usize) -> u64 {
    (planes.iter().map(information).sum::<u64>() >> LOG_BITS) + blocks as u64 * BLOCK_BITS
}

/// Entropy of the `stride` planes (1, 2, 4 or 8) of `bytes`, in 2^-16 bits.
fn entropy(bytes: &[u8], stride: usize) -> u64 {
    let mut counts = [[0; 256]; 8];
    match stride {
        1 => {
            // Equal bytes that follow each other would wait for each other's sums.
            count::<4>(bytes, &mut counts);
            let (sum, others) = counts.split_at_mut(1);
            others.iter().take(3).for_each(|lane| sum[0].iter_mut().zip(lane).for_each(|(sum, &count)| *sum += count));
        }
        2 => count::<2>(bytes, &mut counts),
        4 => count::<4>(bytes, &mut counts),
        _ => count::<8>(bytes, &mut counts),
    }
    counts[..stride].iter().map(information).sum()
}

/// Adds up how often each byte comes at each place of every `LANES` bytes.
fn count<const LANES: usize>(bytes: &[u8], counts: &mut [[u32; 256]; 8]) {
    let (whole, rest) = bytes.as_chunks::<LANES>();
    for bytes in whole.iter().map(<[u8; LANES]>::as_slice).chain([rest]) {
        counts.iter_mut().zip(bytes).for_each(|(counts, &byte)| counts[usize::from(byte)] += 1);
    }
}

/// What symbols with these counts take, in 2^-16 bits.
fn information(counts: &[u32; 256]) -> u64 {
    let all: u32 = counts.iter().sum();
    let all = if all == 0 { 0 } else { log2(all) };
    counts.iter().filter(|&&count| count > 0).map(|&count| u64::from(count) * (all - log2(count))).sum()
}

/// log2 of a positive number in 2^-16, rounded down bit by bit.
fn log2(number: u32) -> u64 {
    let whole = number.ilog2();
    let mut mantissa = u64::from(number) << 31 >> whole;
    let mut result = u64::from(whole);
    for _ in 0..LOG_BITS {
        mantissa = (mantissa * mantissa) >> 31;
        let bit = mantissa >> 32;
        result = result << 1 | bit;
        mantissa >>= bit;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_close() {
        for number in (1..5000).chain([1 << 20, (1 << 22) - 1, u32::MAX]) {
            let exact = f64::from(number).log2() * f64::from(1 << LOG_BITS);
            assert!((log2(number) as f64 - exact).abs() < 2.0, "{number}");
        }
    }

    #[test]
    fn entropy_of_known_distributions() {
        let uniform: Vec<u8> = (0..=255).cycle().take(4096).collect();
        assert_eq!(entropy(&uniform, 1) >> LOG_BITS, 4096 * 8);
        assert_eq!(entropy(&[7; 1000], 1), 0);
        let halves: Vec<u8> = (0..1000).map(|i| (i / 2 % 2) as u8).collect();
        assert_eq!(entropy(&halves, 2) >> LOG_BITS, 1000);
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
