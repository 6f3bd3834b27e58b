//! Encoding of a chunk of numbers.

use super::binned::{Binned, sample_codes};
use super::choose::{Sample, choose, sampled_elements, sampled_tiles};
use super::tile::{TileMemory, code_tile};
use super::{Plan, TileState};
use crate::container::{ChunkKind, Header, RecordBuilder, SectionWriter, write_bases, write_sparse};
use crate::geometry::Tile;
use crate::huffman::{self, EncodeOptions};
use crate::numbers::bins::write_bins;
use crate::numbers::cells::Range;
use crate::numbers::raw_bits::{PADDING, RawBits};
use crate::pipeline::codes::{GROUP, GROUP_LOG2};
use crate::predict::word::Word;
use crate::quantize::mask::MaskKind;

/// Memory that is kept from chunk to chunk.
#[derive(Debug)]
pub(super) struct Buffers<W> {
    sample: Sample<W>,
    /// The codes of the tiles that are not constant.
    codes: Vec<W>,
    sampled: Vec<W>,
    rests: Vec<u16>,
    symbols: Vec<u16>,
    narrow: Vec<u8>,
    raw: RawBits,
    memory: TileMemory<W>,
}

impl<W: Word> Default for Buffers<W> {
    fn default() -> Self {
        Self {
            sample: Sample::default(),
            codes: Vec::new(),
            sampled: Vec::new(),
            rests: Vec::new(),
            symbols: Vec::new(),
            narrow: Vec::new(),
            raw: RawBits::default(),
            memory: TileMemory::default(),
        }
    }
}

/// Appends the record of a chunk of these tiles, whose elements are `elements`.
pub(in crate::pipeline) fn encode<W: Word>(
    header: &Header,
    axes: usize,
    chunk: u64,
    (tiles, elements): (&[Tile], &[W]),
    (kept, huffman): (&mut crate::mem::kept::Kept, &mut huffman::EncodeScratch),
    out: &mut Vec<u8>,
) {
    let mut buffers: Box<Buffers<W>> = kept.take().unwrap_or_default();
    write(header, axes, chunk, (tiles, elements), (&mut buffers, huffman), out);
    kept.keep(buffers);
}

/// What the tiles of a chunk become.
struct CodedTiles<W> {
    states: Vec<TileState>,
    bases: Vec<W>,
    /// Lengths of the tiles that are not constant.
    lengths: Vec<usize>,
    positions: Vec<u32>,
    verbatim: Vec<u8>,
    masks: Vec<u8>,
}

fn write<W: Word>(
    header: &Header,
    axes: usize,
    chunk: u64,
    (tiles, elements): (&[Tile], &[W]),
    (buffers, huffman): (&mut Buffers<W>, &mut huffman::EncodeScratch),
    out: &mut Vec<u8>,
) {
    let sample = (&*sampled_elements(elements), &*sampled_tiles(tiles, elements));
    let mut plan = choose(header.element_type, axes, sample, &mut buffers.sample);
    let coded = code_tiles(header, &plan, (tiles, elements), buffers);
    let binned = (!buffers.codes.is_empty()).then(|| {
        let Buffers { codes, sampled, .. } = &mut *buffers;
        sample_codes(codes, sampled);
        Binned::choose(sampled, codes.len(), Range::of(codes), plan.predictor)
    });
    if let Some(binned) = &binned {
        plan.tuple = binned.tuple;
    }
    let options = EncodeOptions { group_log2: GROUP_LOG2, index: header.index, zero_bit_symbol: None };
    let record = RecordBuilder::begin(out, ChunkKind::Numbers, chunk);
    let mut sections = SectionWriter::begin(out);
    sections.section(out, |out| plan.write(&coded.states, out));
    if plan.has_bases() {
        sections.section(out, |out| write_bases(out, &coded.bases));
    } else {
        sections.skip();
    }
    match &binned {
        Some(binned) => {
            let Buffers { codes, symbols, raw, .. } = &mut *buffers;
            let raw_lengths = binned.code(codes, &coded.lengths, symbols, raw);
            sections.section(out, |out| write_bins(&binned.binning.bins, out));
            sections.section(out, |out| {
                let options = EncodeOptions { zero_bit_symbol: Some(binned.commonest), ..options };
                write_symbols(binned.symbols, &options, buffers, huffman, out);
            });
            if buffers.raw.bytes().is_empty() {
                sections.skip();
                sections.skip();
            } else {
                sections.section(out, |out| write_bases(out, &raw_lengths));
                sections.section(out, |out| {
                    out.extend_from_slice(buffers.raw.bytes());
                    out.extend_from_slice(&[0; PADDING]);
                });
            }
        }
        None => (0..4).for_each(|_| sections.skip()),
    }
    sections.section(out, |out| write_sparse(out, &coded.positions, &coded.verbatim));
    if coded.masks.is_empty() {
        sections.skip();
    } else {
        let options = EncodeOptions { zero_bit_symbol: Some(0), ..options };
        sections.section(out, |out| huffman::encode(&padded(coded.masks, 0), &[], &options, huffman, out));
    }
    if plan.number.has_rest() {
        let options = EncodeOptions { zero_bit_symbol: Some(0), ..options };
        let rests = padded(std::mem::take(&mut buffers.rests), 0);
        sections.section(out, |out| huffman::encode(&rests, &[], &options, huffman, out));
        buffers.rests = rests;
    }
    record.finish(out);
}

/// Fills up the last group.
fn padded<S: Clone>(mut symbols: Vec<S>, with: S) -> Vec<S> {
    symbols.resize(symbols.len().next_multiple_of(GROUP), with);
    symbols
}

/// Computes the codes of all tiles, and what else they have.
fn code_tiles<W: Word>(
    header: &Header,
    plan: &Plan,
    (tiles, mut elements): (&[Tile], &[W]),
    buffers: &mut Buffers<W>,
) -> CodedTiles<W> {
    let Buffers { codes, rests, memory, .. } = buffers;
    let count = elements.len();
    codes.resize(count, W::ZERO);
    rests.clear();
    if plan.number.has_rest() {
        rests.resize(count, 0);
    }
    let mut coded = CodedTiles {
        states: Vec::with_capacity(tiles.len()),
        bases: Vec::with_capacity(tiles.len()),
        lengths: Vec::with_capacity(tiles.len()),
        positions: Vec::new(),
        verbatim: Vec::new(),
        masks: Vec::new(),
    };
    let (mut used, mut position, mut base) = (0, 0, W::ZERO);
    for tile in tiles {
        let (of_tile, rest) = elements.split_at(tile.len());
        elements = rest;
        let codes = &mut codes[used..used + tile.len()];
        let rests = rests.get_mut(position..).unwrap_or_default();
        let made = code_tile(plan, header.element_type, tile.extent, of_tile, base, (codes, rests), memory);
        base = made.base;
        coded.states.push(made.state);
        coded.bases.push(base);
        for i in made.verbatim.ones() {
            coded.positions.push((position + i) as u32);
            coded.verbatim.extend_from_slice(&of_tile[i].widen().to_le_bytes()[..size_of::<W>()]);
        }
        if made.state.mask == MaskKind::Bitmap {
            made.masked.to_bytes(tile.extent, &mut coded.masks);
        }
        if !made.state.constant {
            coded.lengths.push(tile.len());
            used += tile.len();
        }
        position += tile.len();
    }
    codes.truncate(used);
    coded
}

/// Appends the Huffman stream of the symbols in the buffers, of an alphabet of `count`.
fn write_symbols<W>(
    count: usize,
    options: &EncodeOptions,
    buffers: &mut Buffers<W>,
    huffman: &mut huffman::EncodeScratch,
    out: &mut Vec<u8>,
) {
    let Buffers { symbols, narrow, .. } = buffers;
    let last = symbols.last().copied().unwrap_or(0);
    symbols.resize(symbols.len().next_multiple_of(GROUP), last);
    if count <= 256 {
        narrow.clear();
        narrow.extend(symbols.iter().map(|&symbol| symbol as u8));
        huffman::encode(narrow, &[], options, huffman, out);
    } else {
        huffman::encode(symbols, &[], options, huffman, out);
    }
}
