//! Codes as LZSS tokens: narrowed to a byte each, taken as symbols of two, and Huffman-coded.

use super::super::lzss::{EncodeBuffers, coded_bits, write_tokens};
use super::super::options::{LosslessOptions, LosslessPipeline};
use crate::container::SectionWriter;
use crate::huffman::{self, IndexKind};
use crate::lzss::{Params, SymbolWidth};
use crate::predict::codes::{Outlier, narrow};

/// Fewest codes in a match. Nearly all matches are runs of the commonest code; shorter ones take more than their literals' codewords. Measured at
/// relative 1e-2 and 1e-3 on nyx, hurricane, CESM and RTM, level 3: 12 to 24 differ by at most 3 %, and 16 is the best of these or nearly so on each.
const SHORTEST: usize = 16;
/// Codes of a piece of the sample that says whether tokens pay, and one of how many pieces is in it. On the fields named above `auto` comes within 1.5 % of
/// the shorter of both. Whole blocks instead, fewer of them, stand less well for chunks that are empty in places.
const PIECE: usize = 512;
const SAMPLED: usize = 8;
/// What tables, codebooks and indices of the tokens take: about so many bytes a chunk.
const SIDE_BYTES: u64 = 600;
/// Bytes of an outlier: position and residual.
const OUTLIER_BYTES: u64 = 8;

/// The codes of a chunk on their way to tokens.
#[derive(Default)]
pub(super) struct CodeTokens {
    codes: Vec<u8>,
    /// Outliers of the narrow codes.
    pub outliers: Vec<Outlier>,
    sample: Vec<u8>,
}

/// How codes become tokens.
fn params(options: &LosslessOptions) -> Params {
    // Pairs of codes as symbols: their entropy is less than that of two codes, and Huffman loses less on it where most codes are 0.
    let params = Params::new(options.symbol.unwrap_or(SymbolWidth::Two), options.level);
    let shortest = (SHORTEST / params.width.bytes()) as u8;
    Params { min_match: params.min_match.max(shortest), ..params }
}

impl CodeTokens {
    /// Takes the codes of a chunk and their outliers.
    pub fn narrow(&mut self, codes: &[u16], outliers: &[Outlier]) {
        narrow(codes, outliers, &mut self.codes, &mut self.outliers);
    }

    /// Whether to see if tokens are shorter than a Huffman stream of `huffman_len` bytes with so many outliers beside it.
    pub fn may_pay(
        &mut self,
        options: &LosslessOptions,
        huffman_len: usize,
        outliers: usize,
        buffers: &mut EncodeBuffers,
    ) -> bool {
        match options.pipeline {
            LosslessPipeline::LzssHuffman => true,
            LosslessPipeline::Auto => {
                let with = |outliers: usize| OUTLIER_BYTES * outliers as u64;
                let tokens = SIDE_BYTES + self.estimate(options, buffers) + with(self.outliers.len());
                // It takes time both ways: a few percent are not worth it.
                16 * tokens < 15 * (huffman_len as u64 + with(outliers))
            }
            LosslessPipeline::Planes | LosslessPipeline::Lzss => false,
        }
    }

    /// About how many bytes the tokens take, by those of a sample. Integer arithmetic, as every writer must come to the same decision.
    fn estimate(&mut self, options: &LosslessOptions, buffers: &mut EncodeBuffers) -> u64 {
        let params = params(options);
        self.sample.clear();
        for piece in self.codes.chunks(PIECE).step_by(SAMPLED) {
            self.sample.extend_from_slice(piece);
        }
        buffers.tokenise(&self.sample, &params);
        let bits = coded_bits(&buffers.tokens, &params);
        bits * self.codes.len() as u64 / (8 * self.sample.len() as u64).max(1)
    }

    /// Appends the section of codes.
    pub fn write(
        &self,
        options: &LosslessOptions,
        index: IndexKind,
        buffers: &mut EncodeBuffers,
        huffman: &mut huffman::EncodeScratch,
        out: &mut Vec<u8>,
    ) {
        let params = params(options);
        buffers.tokenise(&self.codes, &params);
        let mut sections = SectionWriter::begin(out);
        // As in an LZSS chunk, where the first two are tiles and bases.
        sections.skip();
        sections.skip();
        write_tokens(&buffers.tokens, &params, Some((index, huffman)), &mut sections, out);
    }
}
