//! Encodes quantization codes as LZSS tokens: codes are narrowed to one byte, paired to symbols of two bytes, and the
//! tokens are Huffman-coded.

use super::super::lzss::{EncodeBuffers, coded_bits, counted_bits, write_tokens};
use super::super::options::{Coder, CoderOptions};
use crate::container::SectionWriter;
use crate::huffman::{self, IndexKind};
use crate::lzss::{Params, SymbolWidth};
use crate::predict::Outlier;
use crate::predict::codes::narrow;

/// Minimum number of codes in a match. Nearly all matches are runs of the most frequent code; shorter matches take more
/// bits than the codewords of their literals. Measured at relative bounds 1e-2 and 1e-3 on nyx, hurricane, CESM and RTM
/// at level 3: values from 12 to 24 differ by at most 3 %, and 16 is the best or nearly the best on each.
const SHORTEST: usize = 16;
/// Codes of a piece of the sample that says whether tokens pay, and one of how many pieces is in it. On the fields of
/// `bench/notes/lzss.md`, "Quantization codes as LZSS tokens", `auto` comes within 1 % of the shorter of both. Whole
/// blocks instead, fewer of them, stand less well for chunks that are empty in places.
pub const PIECE: usize = 512;
/// See [`PIECE`].
pub const SAMPLED: usize = 8;
/// Approximate size in bytes of the tables, codebooks, and indexes of a chunk's tokens.
const SIDE_BYTES: u64 = 600;
/// Bytes of an outlier: position and residual.
const OUTLIER_BYTES: u64 = 8;

/// The codes of a chunk that are encoded as tokens.
#[derive(Debug, Default)]
pub(super) struct CodeTokens {
    codes: Vec<u8>,
    /// Outliers of the narrow codes.
    pub outliers: Vec<Outlier>,
    sample: Vec<u8>,
}

/// Returns the parameters for encoding codes as tokens.
pub fn params(options: &CoderOptions) -> Params {
    // Pairs of codes as symbols: the entropy of a pair is less than that of two codes, and Huffman coding loses less on
    // pairs if most codes are 0.
    let params = Params::new(options.symbol.unwrap_or(SymbolWidth::Two), options.level);
    let shortest = (SHORTEST / params.width.bytes()) as u8;
    Params { min_match: params.min_match.max(shortest), ..params }
}

/// Numbers of a chunk that determine, with a sample, whether its codes are encoded as tokens. Other implementations of
/// the pipeline decide with them, too.
#[derive(Clone, Copy, Debug)]
pub struct TokenCosts {
    /// Number of codes.
    pub codes: usize,
    /// Number of outliers of the narrow codes.
    pub narrow_outliers: usize,
    /// Number of bytes of the Huffman stream of the codes, and number of outliers stored with it.
    pub huffman_len: usize,
    /// See `huffman_len`.
    pub outliers: usize,
}

impl TokenCosts {
    /// Returns whether to try tokens, given the tokens of a sample of `sampled` narrow codes that consists of every
    /// [`SAMPLED`]-th piece of [`PIECE`] codes: the byte histograms of the token planes and the number of blocks.
    pub fn may_pay(&self, options: &CoderOptions, planes: &[[u32; 256]], blocks: usize, sampled: usize) -> bool {
        match options.coder {
            Coder::Auto => self.are_less(counted_bits(planes, blocks), sampled),
            pipeline => pipeline.lzss_codes(),
        }
    }

    /// Returns whether the estimated size of tokens is less, given that the tokens of the sample have `bits` bits. Uses
    /// integer arithmetic because all writers must make the same decision.
    fn are_less(&self, bits: u64, sampled: usize) -> bool {
        let with = |outliers: usize| OUTLIER_BYTES * outliers as u64;
        let tokens = SIDE_BYTES + estimate(self.codes, bits, sampled) + with(self.narrow_outliers);
        // The estimate can be a little too large.
        64 * tokens < 65 * (self.huffman_len as u64 + with(self.outliers))
    }
}

/// Estimates the number of bytes of the tokens of `codes` codes, given that those of `sampled` codes have `bits` bits.
fn estimate(codes: usize, bits: u64, sampled: usize) -> u64 {
    bits * codes as u64 / (8 * sampled as u64).max(1)
}

impl CodeTokens {
    /// Takes the codes of a chunk and their outliers.
    pub fn narrow(&mut self, codes: &[u16], outliers: &[Outlier]) {
        narrow(codes, outliers, &mut self.codes, &mut self.outliers);
    }

    /// Returns whether to try tokens as an alternative to a Huffman stream of `huffman_len` bytes with `outliers`
    /// outliers.
    pub fn may_pay(
        &mut self,
        options: &CoderOptions,
        huffman_len: usize,
        outliers: usize,
        buffers: &mut EncodeBuffers,
    ) -> bool {
        match options.coder {
            Coder::Auto => {
                let narrow_outliers = self.outliers.len();
                let costs = TokenCosts { codes: self.codes.len(), narrow_outliers, huffman_len, outliers };
                costs.are_less(self.sample_bits(options, buffers), self.sample.len())
            }
            pipeline => pipeline.lzss_codes(),
        }
    }

    /// Collects the sample and returns the number of bits of its tokens.
    fn sample_bits(&mut self, options: &CoderOptions, buffers: &mut EncodeBuffers) -> u64 {
        self.sample.clear();
        for piece in self.codes.chunks(PIECE).step_by(SAMPLED) {
            self.sample.extend_from_slice(piece);
        }
        let params = params(options);
        buffers.tokenize(&self.sample, &params);
        coded_bits(&buffers.tokens, &params)
    }

    /// Appends the section of codes.
    pub fn write(
        &self,
        options: &CoderOptions,
        index: IndexKind,
        buffers: &mut EncodeBuffers,
        huffman: &mut huffman::EncodeScratch,
        out: &mut Vec<u8>,
    ) {
        let params = params(options);
        buffers.tokenize(&self.codes, &params);
        let mut sections = SectionWriter::begin(out);
        // The sections are those of an LZSS chunk, whose first two are tiles and bases.
        sections.skip();
        sections.skip();
        let tokens = &buffers.tokens;
        write_tokens(tokens, &tokens.literals, &params, Some((index, huffman)), true, &mut sections, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lzss::{LEVELS, oracle};

    fn options(pipeline: Coder) -> CoderOptions {
        CoderOptions { coder: pipeline, ..CoderOptions::default() }
    }

    /// Codes of the usual radius: zeros, and every `every`-th something else.
    fn codes(count: usize, every: usize, spread: u64, seed: u64) -> (Vec<u16>, Vec<Outlier>) {
        let mut outliers = Vec::new();
        let codes = (0..count).map(|i| {
            let noise = (seed.wrapping_mul(2 * i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % spread;
            match (i % every, noise as u16) {
                (0, 0..1024) => noise as u16,
                (0, _) => 0,
                _ => 512,
            }
        });
        let codes: Vec<u16> = codes.collect();
        let zeros = codes.iter().enumerate().filter(|(_, code)| **code == 0);
        outliers.extend(zeros.map(|(at, _)| (at as u32, 5000)));
        (codes, outliers)
    }

    fn estimate_of(tokens: &mut CodeTokens, options: &CoderOptions) -> u64 {
        let bits = tokens.sample_bits(options, &mut EncodeBuffers::default());
        estimate(tokens.codes.len(), bits, tokens.sample.len())
    }

    #[test]
    fn matches_are_of_sixteen_codes_at_least_whatever_the_width() {
        for level in LEVELS {
            for (width, shortest) in SymbolWidth::ALL.into_iter().zip([16, 8, 4, 2]) {
                let options = CoderOptions { symbol: Some(width), level, ..options(Coder::Auto) };
                assert_eq!(params(&options), Params { width, level, min_match: shortest });
            }
        }
        assert_eq!(params(&options(Coder::Auto)).width, SymbolWidth::Two);
    }

    #[test]
    fn estimate_of_sampled_noise_is_within_2_percent() {
        // Every eighth piece of 512 codes is noise of all bytes, the rest nothing: as if all were noise, 8 bits a code.
        let codes: Vec<u16> =
            (0..65_536).map(|i| if i / 512 % 8 == 0 { 385 + (i * 37 % 255) as u16 } else { 512 }).collect();
        let mut tokens = CodeTokens::default();
        tokens.narrow(&codes, &[]);
        assert!(tokens.outliers.is_empty());
        let estimate = estimate_of(&mut tokens, &options(Coder::Auto));
        let exact = 65_536.0 * 255f64.log2() / 8.0;
        assert!((estimate as f64 / exact - 1.0).abs() < 0.02, "{estimate} {exact}");
        // An empty chunk has an estimate of 0.
        tokens.narrow(&[], &[]);
        assert_eq!(estimate_of(&mut tokens, &options(Coder::Auto)), 0);
    }

    #[test]
    fn auto_tries_where_tokens_and_outliers_may_be_shorter() {
        let (codes, outliers) = codes(40_000, 40, 600, 3);
        let mut tokens = CodeTokens::default();
        tokens.narrow(&codes, &outliers);
        let buffers = &mut EncodeBuffers::default();
        let auto = options(Coder::Auto);
        let beside = tokens.outliers.len() - outliers.len();
        assert!(beside > 300);
        let total = SIDE_BYTES + estimate_of(&mut tokens, &auto) + 8 * tokens.outliers.len() as u64;
        let limit = (total * 64 / 65) as usize - 8 * outliers.len();
        assert!(tokens.may_pay(&auto, limit + 2, outliers.len(), buffers));
        assert!(!tokens.may_pay(&auto, limit - 1, outliers.len(), buffers));
        assert!(tokens.may_pay(&options(Coder::LzssHuffman), 0, 0, buffers));
        for pipeline in [Coder::Huffman, Coder::Lzss] {
            assert!(!tokens.may_pay(&options(pipeline), usize::MAX >> 8, outliers.len(), buffers));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn tokens_are_the_oracles(
            count in 0..9000usize, every in 1..90usize, spread in 1..3000u64, seed in any::<u64>(), level in LEVELS,
            width in 0..5usize,
        ) {
            let (codes, outliers) = codes(count, every, spread, seed);
            let mut tokens = CodeTokens::default();
            tokens.narrow(&codes, &outliers);
            let symbol = SymbolWidth::ALL.get(width).copied();
            let options = CoderOptions { symbol, level, ..options(Coder::LzssHuffman) };
            let (mut buffers, mut section) = (EncodeBuffers::default(), Vec::new());
            tokens.write(&options, IndexKind::Symbol, &mut buffers, &mut huffman::EncodeScratch::default(),
                &mut section);
            let params = params(&options);
            let mut symbols = tokens.codes.clone();
            symbols.resize(count.next_multiple_of(params.width.bytes()), 0);
            prop_assert_eq!(&buffers.tokens, &oracle::encode(&symbols, &params));
            // The table, the parameters after it, the blocks.
            prop_assert_eq!(&section[48..51], &[params.width.bytes() as u8, level, params.min_match]);
            let blocks = count.div_ceil(params.block_bytes());
            prop_assert_eq!(&section[8..12], &(8 + 8 * blocks as u32).to_le_bytes());
        }
    }
}
