//! Descriptions of chunks that are not decoded.

use super::context::Context;
use super::lossy::strips_of_tile;
use super::numbers;
use crate::container::{ChunkKind, Header, INTERPOLATED, Sections, SparseList, TileSection, parse_record};
use crate::error::Result;
use crate::geometry::Geometry;
use crate::huffman::lengths::MAX_LENGTH;
use crate::huffman::{Stream, Symbol};
use crate::quantize::mask::MaskKind;
use crate::strips::CodeStream;

/// Sizes and counts of one chunk, or their sums over several chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkReport {
    /// Number of chunks.
    pub chunks: u64,
    /// Chunks whose elements are stored without compression.
    pub raw_chunks: u64,
    /// Chunks whose elements or codes are LZSS tokens.
    pub lzss_chunks: u64,
    /// Number of tiles.
    pub tiles: u64,
    /// Tiles whose residuals are all 0.
    pub constant_tiles: u64,
    /// Tiles with masked elements.
    pub masked_tiles: u64,
    /// Values that are stored without quantization.
    pub verbatim: u64,
    /// Groups of symbols.
    pub groups: u64,
    /// Groups without codewords.
    pub free_groups: u64,
    /// Bytes of the codewords of codes or numbers, and of LZSS tokens in any coding.
    pub codeword_bytes: u64,
    /// Bytes of codebooks.
    pub codebook_bytes: u64,
    /// Bytes of indices.
    pub index_bytes: u64,
    /// Bytes of all other parts of the records, except raw elements.
    pub side_bytes: u64,
    /// Quantized chunks by the code of their interpolation scheme, 0 for none.
    pub schemes: [u64; 9],
    /// Tiles that are interpolated.
    pub interpolated_tiles: u64,
    /// Number of codewords of each length, over all codebooks.
    pub code_lengths: [u64; MAX_LENGTH as usize + 1],
}

impl ChunkReport {
    /// Adds another report to this one.
    pub fn add(&mut self, other: &Self) {
        self.chunks += other.chunks;
        self.raw_chunks += other.raw_chunks;
        self.lzss_chunks += other.lzss_chunks;
        self.tiles += other.tiles;
        self.constant_tiles += other.constant_tiles;
        self.masked_tiles += other.masked_tiles;
        self.verbatim += other.verbatim;
        self.groups += other.groups;
        self.free_groups += other.free_groups;
        self.codeword_bytes += other.codeword_bytes;
        self.codebook_bytes += other.codebook_bytes;
        self.index_bytes += other.index_bytes;
        self.side_bytes += other.side_bytes;
        self.interpolated_tiles += other.interpolated_tiles;
        self.schemes.iter_mut().zip(other.schemes).for_each(|(sum, count)| *sum += count);
        for (sum, count) in self.code_lengths.iter_mut().zip(other.code_lengths) {
            *sum += count;
        }
    }

    fn add_codes(&mut self, section: &[u8], tiles: &TileSection, context: &Context) -> Result<()> {
        let of_chunk = context.geometry.chunk(context.chunk).zip(&tiles.tiles);
        let strips = of_chunk.map(|(tile, info)| strips_of_tile(&tile, info)).sum();
        let stream = CodeStream::parse(section, strips, tiles.codebooks(), &context.place)?;
        let [codewords, codebooks, index] = stream.part_bytes();
        self.groups += strips as u64;
        self.free_groups += strips as u64 - u64::from(stream.coded_strips());
        self.codeword_bytes += codewords;
        self.codebook_bytes += codebooks;
        self.index_bytes += index;
        self.add_code_lengths(&stream.code_length_histogram());
        self.interpolated_tiles += tiles.tiles.iter().filter(|tile| tile.predictor == INTERPOLATED).count() as u64;
        self.schemes[usize::from(tiles.scheme).min(8)] += 1;
        Ok(())
    }

    /// Adds a Huffman stream of symbols.
    pub(super) fn add_stream<S: Symbol>(&mut self, section: &[u8], place: &str) -> Result<()> {
        let stream = Stream::<S>::parse(section, place)?;
        self.groups += stream.groups() as u64;
        self.free_groups += (stream.groups() - stream.coded_groups()) as u64;
        self.codeword_bytes += u64::from(stream.codeword_bits().div_ceil(8));
        self.codebook_bytes += stream.codebook_bytes() as u64;
        self.index_bytes += stream.index_bytes() as u64;
        self.add_code_lengths(&stream.code_length_histogram());
        Ok(())
    }

    fn add_code_lengths(&mut self, histogram: &[u32]) {
        self.code_lengths.iter_mut().zip(histogram).for_each(|(sum, &count)| *sum += u64::from(count));
    }
}

/// Returns the sizes and counts of the parts of a chunk's record.
///
/// # Errors
/// [`Error::Corrupt`](crate::error::Error::Corrupt) for a damaged record.
pub fn inspect_chunk(header: &Header, geometry: &Geometry, chunk: u64, record: &[u8]) -> Result<ChunkReport> {
    let (kind, payload) = parse_record(record, chunk)?;
    let context = Context { header, geometry, chunk, place: format!("chunk {chunk}") };
    let place = context.place.as_str();
    let mut report = ChunkReport { chunks: 1, tiles: context.tile_count() as u64, ..ChunkReport::default() };
    if kind == ChunkKind::Raw {
        report.raw_chunks = 1;
        return Ok(report);
    }
    let sections = Sections::parse(payload, place)?;
    if kind == ChunkKind::Lzss {
        report.lzss_chunks = 1;
        report.codeword_bytes = sections.0[3..].iter().map(|section| section.len() as u64).sum();
        report.side_bytes = (record.len() as u64).saturating_sub(report.codeword_bytes);
        return Ok(report);
    }
    if kind == ChunkKind::Blocks {
        let elements = geometry.chunk_elements(chunk);
        report.verbatim = SparseList::parse(sections.0[2], header.element_type.size(), elements, place)?.len() as u64;
        report.codebook_bytes = sections.0[0].len() as u64;
        report.codeword_bytes = sections.0[5].len() as u64;
        report.side_bytes = (record.len() as u64).saturating_sub(report.codeword_bytes + report.codebook_bytes);
        return Ok(report);
    }
    if kind == ChunkKind::Numbers {
        numbers::inspect(&context, &sections, &mut report)?;
    } else {
        let tiles = TileSection::parse(sections.0[0], context.tile_count(), header.patterns.len(), place)?;
        report.constant_tiles = tiles.tiles.iter().filter(|t| t.constant).count() as u64;
        report.masked_tiles = tiles.tiles.iter().filter(|t| t.mask != MaskKind::Nothing).count() as u64;
        report.add_codes(sections.0[4], &tiles, &context)?;
        let elements = geometry.chunk_elements(chunk);
        report.verbatim = SparseList::parse(sections.0[2], header.element_type.size(), elements, place)?.len() as u64;
    }
    let coded = report.codeword_bytes + report.codebook_bytes + report.index_bytes;
    report.side_bytes = (record.len() as u64).saturating_sub(coded);
    Ok(report)
}
