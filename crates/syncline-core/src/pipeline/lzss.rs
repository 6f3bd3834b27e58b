//! LZSS chunks: the elements as tokens; the tokens as they are or Huffman-coded.

mod cost_model;
mod decode;
mod token_sections;
mod trial;

pub(super) use cost_model::{ChunkModel, sample_tiles};
pub use cost_model::{LzssChoice, LzssEstimate};
pub(super) use decode::{DecodeBuffers, decode};
pub use trial::{best_lzss, estimate_lzss, lzss_sample, lzss_trials};

use crate::container::{ChunkKind, Header, RecordBuilder, SectionWriter};
use crate::huffman::{self, IndexKind};
use crate::lzss::{self, BlockCounts, Params, Tokens};
use crate::predict::word::Word;

/// Section with the parameters and what each block has of the tokens.
pub(super) const BLOCKS: usize = 2;
/// Section of the flags; lengths, distances and literals follow.
const FLAGS: usize = 3;
const LENGTHS: usize = 4;
const DISTANCES: usize = 5;
/// The last section of tokens.
pub(super) const LITERALS: usize = 6;

/// Bits of the mask of coded parts: of the first plane of each section.
const FLAGS_BIT: u32 = 0;
const LENGTHS_BIT: u32 = 1;
const DISTANCES_BIT: u32 = 2;
const LITERALS_BIT: u32 = 4;

/// Bytes of the parameters in front of the blocks.
const PARAMETER_BYTES: usize = 8;

/// Memory that the encoder keeps from chunk to chunk.
#[derive(Debug, Default)]
pub(super) struct EncodeBuffers {
    pub(super) stage: lzss::EncodeScratch,
    pub(super) tokens: Tokens,
}

/// Returns the words as little-endian bytes.
pub(super) fn bytes_of<W: Word>(words: &[W]) -> std::borrow::Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytemuck::cast_slice(words).into();
    }
    words.iter().flat_map(|w| w.widen().to_le_bytes().into_iter().take(size_of::<W>())).collect()
}

/// Appends an LZSS record of a chunk with these little-endian elements in tile order. The tokens are Huffman-coded if
/// there is memory for that.
pub(super) fn encode(
    header: &Header,
    chunk: u64,
    choice: &LzssChoice,
    elements: &[u8],
    (buffers, huffman): (&mut EncodeBuffers, Option<&mut huffman::EncodeScratch>),
    out: &mut Vec<u8>,
) {
    let record = RecordBuilder::begin(out, ChunkKind::Lzss, chunk);
    let mut sections = SectionWriter::begin(out);
    (0..BLOCKS).for_each(|_| sections.skip());
    let coder = huffman.map(|huffman| (header.index, huffman));
    let params = &choice.params;
    if choice.has_matches {
        buffers.tokenize(elements, params);
    } else {
        buffers.take_literals(elements, params);
    }
    let literals = if buffers.tokens.literals.is_empty() { elements } else { &buffers.tokens.literals };
    write_tokens(&buffers.tokens, literals, params, coder, choice.has_words, &mut sections, out);
    record.finish(out);
}

impl EncodeBuffers {
    /// Makes `tokens` those of `bytes`.
    pub(super) fn tokenize(&mut self, bytes: &[u8], params: &Params) {
        self.tokens.clear();
        lzss::encode(bytes, params, &mut self.stage, &mut self.tokens);
    }

    /// Makes `tokens` the symbols of `bytes`, all of them literals; these are `bytes` themselves, and not there, unless
    /// the last is filled up.
    fn take_literals(&mut self, bytes: &[u8], params: &Params) {
        let (tokens, width) = (&mut self.tokens, params.width.bytes());
        tokens.clear();
        for block in bytes.chunks(params.block_bytes()) {
            let symbols = block.len().div_ceil(width);
            tokens.flags.resize(tokens.flags.len() + symbols.div_ceil(64), 0);
            tokens.blocks.push(BlockCounts { tokens: symbols as u32, matches: 0 });
        }
        if !bytes.len().is_multiple_of(width) {
            tokens.literals.extend_from_slice(bytes);
            tokens.literals.resize(bytes.len().next_multiple_of(width), 0);
        }
    }
}

/// Appends sections 2 to 6: Huffman-coded if there is a `coder` for that, literals also as planes of 16-bit symbols if
/// these `may_have_words`.
pub(super) fn write_tokens(
    tokens: &Tokens,
    literals: &[u8],
    params: &Params,
    coder: Option<(IndexKind, &mut huffman::EncodeScratch)>,
    may_have_words: bool,
    sections: &mut SectionWriter,
    out: &mut Vec<u8>,
) {
    let blocks_at = sections.section(out, |out| write_blocks(out, tokens, params));
    let planes = match coder {
        Some(coder) => token_sections::write_coded(sections, out, (tokens, literals), params, coder, may_have_words),
        None => {
            token_sections::write_plain(sections, out, tokens);
            token_sections::StoredPlanes::default()
        }
    };
    out[blocks_at + 3] = planes.literal_bytes;
    out[blocks_at + 4..blocks_at + 6].copy_from_slice(&planes.coded.to_le_bytes());
}

/// Writes the blocks after the parameters. The fields that describe the planes are written later. Returns the position
/// of the parameters.
fn write_blocks(out: &mut Vec<u8>, tokens: &Tokens, params: &Params) -> usize {
    let at = out.len();
    out.extend_from_slice(&[params.width.bytes() as u8, params.level, params.min_match, 0, 0, 0, 0, 0]);
    for block in &tokens.blocks {
        out.extend_from_slice(&block.tokens.to_le_bytes());
        out.extend_from_slice(&block.matches.to_le_bytes());
    }
    at
}
