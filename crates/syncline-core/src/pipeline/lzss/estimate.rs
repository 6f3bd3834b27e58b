//! Which input, symbol width and shortest match a chunk takes, from a sample of it. Integer arithmetic throughout.

use super::super::lossless::Residuals;
use super::super::options::LosslessOptions;
use super::EncodeBuffers;
use super::bytes_of;
use crate::lzss::{MAX_MIN_MATCH, Params, SymbolWidth, Tokens};
use crate::predict::lorenzo::Word;

/// Runs of tiles in a sample.
const PIECES: usize = 4;
/// Bits that a match takes besides its distance where tokens are Huffman-coded: about what its flag and length came to on columns of integers.
const MATCH_BITS: u64 = 6;
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
    let block = Params::new(SymbolWidth::One, level).block_bytes();
    let typical = lengths.first().map_or(1, |length| length * element_bytes);
    let run = (block / 2).div_ceil(typical);
    if run * PIECES * 2 > lengths.len() {
        return std::iter::once(0..lengths.len()).collect();
    }
    (0..PIECES).map(|i| (lengths.len() - run) * i / (PIECES - 1)).map(|first| first..first + run).collect()
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
    let widths = SymbolWidth::ALL.into_iter().filter(|&width| match options.symbol {
        Some(asked) => width == asked,
        None => width.bytes() <= size_of::<W>(),
    });
    let widths: Vec<SymbolWidth> = widths.collect();
    let mut best: Option<Choice> = None;
    for of_residuals in [false, true] {
        let bytes = bytes_of(if of_residuals { &residuals.words } else { sample });
        let side = if of_residuals { residuals.bases.len() * size_of::<W>() } else { 0 };
        for &width in widths.iter().rev() {
            let mut params = Params::new(width, options.level);
            if entropy_coded {
                params.min_match = shortest_worth_while(&bytes, &params);
            }
            scratch.tokenise(&bytes, &params);
            let bits =
                if entropy_coded { coded_bits(&scratch.tokens, &params) } else { scratch.tokens.len() as u64 * 8 };
            let bytes = (bits / 8 + side as u64) * elements as u64 / (sample.len() as u64).max(1);
            // Prediction and narrow symbols take time that only a clearly smaller stream is worth, most of all where speed is what was asked for.
            let narrow = width.bytes() < size_of::<W>();
            let handicap = match (of_residuals, narrow) {
                (true, _) if !entropy_coded => bytes / 4,
                (false, false) => 0,
                _ => bytes / 16,
            };
            if best.as_ref().is_none_or(|best| bytes + handicap < best.bytes) {
                best = Some(Choice { of_residuals, entropy_coded, params, bytes: bytes + handicap });
            }
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
    (parts >> LOG_BITS) + size_of_val(tokens.blocks.as_slice()) as u64 * 8
}

/// Entropy of the `stride` planes of `bytes`, in 2^-16 bits.
fn entropy(bytes: &[u8], stride: usize) -> u64 {
    let mut total = 0;
    for plane in 0..stride {
        let mut counts = [0u32; 256];
        bytes.iter().skip(plane).step_by(stride).for_each(|&byte| counts[usize::from(byte)] += 1);
        let all: u32 = counts.iter().sum();
        let used = counts.iter().filter(|&&count| count > 0);
        total += used.map(|&count| u64::from(count) * (log2(all) - log2(count))).sum::<u64>();
    }
    total
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
