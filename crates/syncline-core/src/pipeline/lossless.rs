//! Lossless chunks: integer prediction, then planes of the residuals' bytes or 16-bit words.

use super::codes::{CodeBuffer, CodeReader};
use super::context::{Context, ElementSource, runs_of_rows};
use super::destination::Tiles;
use super::lzss;
use super::options::{Coder, CoderOptions};
use super::residuals::{Residuals, words_in};
use super::scratch::EncodeScratch;
use crate::container::{
    ChunkKind, Header, RecordBuilder, SECTIONS, SectionWriter, Sections, TileSection, read_bases, write_bases,
};
use crate::error::Result;
use crate::geometry::{Geometry, MAX_SMALL_TILE_ELEMENTS, Tile, Window};
use crate::huffman::{self, Stream, StreamDecoder, Symbol};
use crate::predict::planes::{self, PLANE_GROUP, merge, plane_count, split};
use crate::predict::word::Word;
use crate::predict::words;

/// Section of the first plane.
const FIRST_PLANE: usize = 2;
/// log2 of [`PLANE_GROUP`].
const GROUP_LOG2: u8 = PLANE_GROUP.ilog2() as u8;

/// A chunk's planes, each as stored in its section.
struct Planes {
    symbol_bytes: u8,
    coded: u16,
    sections: Vec<Vec<u8>>,
}

impl Planes {
    fn len(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }
}

pub(super) fn encode<W: Word>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<()> {
    let EncodeScratch { tiles, window, huffman, lzss: buffers, elements: memory, residuals: residual_memory, .. } =
        scratch;
    let elements = gather::<W>(geometry, source, tiles, window, memory)?;
    let tiles = tiles.as_slice();
    let (element, axes) = (header.element_type, geometry.axes());
    let predict = || {
        // Moved into the closure, because it is called once.
        let memory = residual_memory;
        Residuals::new(element, axes, tiles, elements, memory)
    };
    let mut choose = |entropy_coded: bool| {
        let lengths: Vec<usize> = tiles.iter().map(Tile::len).collect();
        let (mut some_tiles, mut sample) = (Vec::new(), Vec::new());
        for range in lzss::sample_tiles(&lengths, size_of::<W>(), options.level) {
            let from: usize = lengths[..range.start].iter().sum();
            let count: usize = lengths[range.clone()].iter().sum();
            some_tiles.extend_from_slice(&tiles[range]);
            sample.extend_from_slice(&elements[from..from + count]);
        }
        let mut memory = Vec::new();
        let residuals = Residuals::new(element, axes, &some_tiles, &sample, &mut memory);
        lzss::choose(options, entropy_coded, &sample, &residuals, elements.len(), buffers)
    };
    match options.coder {
        Coder::Huffman => write_planes(header, chunk, &predict(), huffman, out),
        Coder::Lzss | Coder::LzssHuffman => {
            let choice = choose(options.coder == Coder::LzssHuffman);
            let residuals = choice.of_residuals.then(predict);
            lzss::encode(header, chunk, &choice, elements, residuals.as_ref(), (buffers, huffman), out);
        }
        Coder::Auto => {
            let residuals = predict();
            let start = out.len();
            write_planes(header, chunk, &residuals, huffman, out);
            let choice = choose(true);
            let planes_len = out.len() - start;
            // The estimate can be a little too large, and does not know what planes of 16-bit symbols save. LZSS takes
            // longer than planes: less than 1 % is not worth it.
            let may_save_more = choice.has_words && choice.params.width.bytes() > 1;
            if may_save_more || choice.expected < planes_len as u64 * 65 / 64 {
                lzss::encode(header, chunk, &choice, elements, Some(&residuals), (buffers, huffman), out);
                if out.len() - start - planes_len < planes_len / 128 * 127 {
                    out.drain(start..start + planes_len);
                } else {
                    out.truncate(start + planes_len);
                }
            }
        }
    }
    Ok(())
}

/// Returns the elements of the chunk's tiles in tile order: a slice of the window if they are contiguous there, or else
/// copied to `memory`.
fn gather<'m, W: Word>(
    geometry: &Geometry,
    source: &'m dyn ElementSource,
    tiles: &[Tile],
    buffer: &'m mut Vec<u8>,
    memory: &'m mut Vec<u64>,
) -> Result<&'m [W]> {
    let runs = || runs_of_rows(tiles);
    if runs().count() == 1 {
        let window = source.window(geometry, tiles, buffer)?;
        return Ok(match window.whole(tiles) {
            Some(elements) => elements,
            None => {
                let elements = words_in(memory, tiles.iter().map(Tile::len).sum());
                gather_run(&window, tiles, elements);
                elements
            }
        });
    }
    let elements = words_in(memory, tiles.iter().map(Tile::len).sum());
    let mut rest = &mut *elements;
    for run in runs() {
        let window = source.window(geometry, run, buffer)?;
        rest = gather_run(&window, run, rest);
    }
    Ok(elements)
}

/// Copies the elements of tiles to the front of `out`; returns the rest.
fn gather_run<'o, W: Word>(window: &Window, tiles: &[Tile], out: &'o mut [W]) -> &'o mut [W] {
    tiles.iter().fold(out, |out, tile| {
        let (these, others) = out.split_at_mut(tile.len());
        window.gather(tile, these);
        others
    })
}

/// Appends a record of planes.
fn write_planes<W: Word>(
    header: &Header,
    chunk: u64,
    residuals: &Residuals<W>,
    huffman: &mut huffman::EncodeScratch,
    out: &mut Vec<u8>,
) {
    let mut planes = code_planes::<W, u8>(header, residuals.words, &residuals.lengths, huffman);
    if W::BITS > 8 {
        let wide = code_planes::<W, u16>(header, residuals.words, &residuals.lengths, huffman);
        if wide.len() < planes.len() {
            planes = wide;
        }
    }
    let record = RecordBuilder::begin(out, ChunkKind::Lossless, chunk);
    let mut sections = SectionWriter::begin(out);
    sections.section(out, |out| residuals.tile_section(planes.symbol_bytes, planes.coded).write(out));
    sections.section(out, |out| write_bases(out, &residuals.bases));
    for plane in &planes.sections {
        sections.section(out, |out| out.extend_from_slice(plane));
    }
    record.finish(out);
}

/// Splits the residuals in planes of symbols `S` and codes each that gets shorter by it.
fn code_planes<W: Word, S: planes::Symbol + Symbol>(
    header: &Header,
    mut residuals: &[W],
    lengths: &[usize],
    scratch: &mut huffman::EncodeScratch,
) -> Planes {
    let mut planes = vec![Vec::<S>::new(); plane_count::<W, S>()];
    for &length in lengths {
        let (tile, rest) = residuals.split_at(length);
        split(tile, &mut planes);
        residuals = rest;
    }
    let options = huffman::EncodeOptions { group_log2: GROUP_LOG2, index: header.index, zero_bit_symbol: Some(0) };
    let mut coded = 0;
    let mut sections = Vec::new();
    for (i, plane) in planes.iter().enumerate() {
        let mut section = Vec::new();
        huffman::encode(plane, &[], &options, scratch, &mut section);
        if section.len() < size_of_val(plane.as_slice()) {
            coded |= 1 << i;
        } else {
            section.clear();
            section
                .extend(plane.iter().flat_map(|&symbol| symbol.widen().to_le_bytes().into_iter().take(size_of::<S>())));
        }
        sections.push(section);
    }
    Planes { symbol_bytes: size_of::<S>() as u8, coded, sections }
}

pub(super) fn decode<W: Word, K: Tiles + ?Sized>(context: &Context, payload: &[u8], sink: &mut K) -> Result<()> {
    let sections = Sections::parse(payload, &context.place)?;
    let tiles = TileSection::parse(sections.0[0], context.tile_count(), context.header.patterns.len(), &context.place)?;
    match tiles.plane_bytes {
        1 => decode_planes::<W, u8, K>(context, &sections, &tiles, sink),
        2 if W::BITS > 8 => decode_planes::<W, u16, K>(context, &sections, &tiles, sink),
        _ => Err(context.corrupt("unknown width of plane symbols")),
    }
}

fn decode_planes<W: Word, S: planes::Symbol + Symbol, K: Tiles + ?Sized>(
    context: &Context,
    sections: &Sections,
    tiles: &TileSection,
    sink: &mut K,
) -> Result<()> {
    let place = context.place.as_str();
    let bases: Vec<W> = read_bases(sections.0[1], tiles.tiles.len(), place)?;
    let groups: usize = (context.geometry.chunk(context.chunk).zip(&tiles.tiles))
        .filter(|(_, meta)| !meta.constant)
        .map(|(tile, _)| tile.groups(PLANE_GROUP))
        .sum();
    let planes = plane_count::<W, S>();
    debug_assert!(FIRST_PLANE + planes <= SECTIONS);
    let coded = |plane: usize| tiles.coded_planes >> plane & 1 == 1;
    if u32::from(tiles.coded_planes) >> planes != 0 {
        return Err(context.corrupt("it codes planes that it does not have"));
    }

    let mut streams = Vec::new();
    for plane in 0..planes {
        let section = sections.0[FIRST_PLANE + plane];
        streams.push(if coded(plane) { Some(Stream::<S>::parse(section, place)?) } else { None });
        let fits = match &streams[plane] {
            Some(stream) => stream.groups() == groups && stream.group_len() == PLANE_GROUP,
            None => section.len() == groups * PLANE_GROUP * size_of::<S>(),
        };
        if !fits {
            return Err(context.corrupt("its planes do not fit its tiles"));
        }
    }
    let mut buffers: Vec<CodeBuffer<S>> = (0..planes).map(|_| CodeBuffer::default()).collect();
    let mut readers = Vec::new();
    for (plane, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
        readers.push(match stream {
            Some(stream) => {
                let decoder: StreamDecoder<S> = stream.decoder(huffman::Decoder::Auto, &[])?;
                PlaneReader::Coded(CodeReader::new(stream, decoder, buffer)?)
            }
            None => PlaneReader::Raw(sections.0[FIRST_PLANE + plane]),
        });
    }

    let mut words = [W::ZERO; MAX_SMALL_TILE_ELEMENTS];
    let mut symbols = vec![[S::ZERO; MAX_SMALL_TILE_ELEMENTS]; planes];
    let mut group = 0;
    let mut number = 0;
    while let Some((tile, wanted)) = sink.peek() {
        let meta = tiles.tiles.get(number).ok_or_else(|| context.corrupt("it has too few tiles"))?;
        let groups = if meta.constant { 0 } else { tile.groups(PLANE_GROUP) };
        if wanted {
            let words = &mut words[..tile.len()];
            if meta.constant {
                words.fill(W::ZERO);
            } else {
                for (reader, symbols) in readers.iter_mut().zip(&mut symbols) {
                    reader.groups(group, groups, symbols)?;
                }
                merge(symbols.iter().map(|plane| plane.as_slice()), words);
            }
            words::decode(words, tile.extent, meta.predictor, bases[number]);
            words::unmap(words, context.header.element_type);
            sink.put(words)?;
        } else {
            sink.skip();
        }
        group += groups;
        number += 1;
    }
    readers.into_iter().try_for_each(|reader| match reader {
        PlaneReader::Coded(reader) => reader.finish(),
        PlaneReader::Raw(_) => Ok(()),
    })
}

/// One plane's symbols, coded or raw.
enum PlaneReader<'b, 's, 'a, S> {
    Coded(CodeReader<'b, 's, 'a, S>),
    Raw(&'a [u8]),
}

impl<S: planes::Symbol + Symbol> PlaneReader<'_, '_, '_, S> {
    fn groups(&mut self, first: usize, count: usize, out: &mut [S]) -> Result<()> {
        match self {
            Self::Coded(reader) => out[..count * PLANE_GROUP].copy_from_slice(reader.groups(first, count)?),
            Self::Raw(bytes) => {
                let from = first * PLANE_GROUP * size_of::<S>();
                let bytes = &bytes[from..from + count * PLANE_GROUP * size_of::<S>()];
                for (symbol, bytes) in out.iter_mut().zip(bytes.chunks_exact(size_of::<S>())) {
                    *symbol = S::narrow(bytes.iter().rev().fold(0, |wide, &b| wide << 8 | u64::from(b)));
                }
            }
        }
        Ok(())
    }
}
