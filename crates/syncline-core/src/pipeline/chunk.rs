//! Wires the stages for one chunk: elements to a record and back, by the kind of the record.

use super::context::{Context, ElementSource};
use super::destination::{Destination, Tiles};
use super::options::CoderOptions;
use super::scratch::{DecodeScratch, EncodeScratch};
use super::{blocks, lossless, lossy, lzss, numbers, raw};
use crate::array::ElementType;
use crate::bound::{Bound, ErrorSummary, Pipeline};
use crate::container::{ALIGNMENT, ChunkKind, Header, RECORD_HEADER_LEN, SECTIONS, Unchecked, parse_unchecked};
use crate::error::{Error, Result};
use crate::geometry::{Geometry, Tile, TileSize};

/// Appends the record of a chunk to `out`, whose length must be a multiple of 16. The record depends on the header, the
/// geometry, the chunk's elements, and the options alone.
///
/// # Errors
/// The source's.
pub fn encode_chunk(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<ErrorSummary> {
    scratch.tiles.clear();
    scratch.tiles.extend(geometry.chunk(chunk));
    let start = out.len();
    let elements: usize = scratch.tiles.iter().map(Tile::len).sum();
    let raw_len = (RECORD_HEADER_LEN + elements * header.element_type.size()).next_multiple_of(ALIGNMENT);
    if raw_len <= LEAST_CODED_LEN && !matches!(header.bound, Bound::Psnr(_)) {
        raw::encode(header, geometry, chunk, source, scratch, out)?;
        return Ok(ErrorSummary::default());
    }
    let summary = encode_coded(header, geometry, chunk, source, options, scratch, out)?;
    if summary.is_none() || out.len() - start >= raw_len {
        out.truncate(start);
        raw::encode(header, geometry, chunk, source, scratch, out)?;
    }
    Ok(summary.unwrap_or_default())
}

/// The least length in bytes of a record that is not raw: its header, the table of sections, and at least two sections
/// that are not empty, each on its own alignment.
const LEAST_CODED_LEN: usize = (RECORD_HEADER_LEN + 4 * SECTIONS).next_multiple_of(ALIGNMENT) + 2 * ALIGNMENT;

/// Appends the record of a chunk of the tiles in `scratch`, of another kind than raw. Returns `None` if it has to be
/// raw.
fn encode_coded(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<Option<ErrorSummary>> {
    let is_blocks = geometry.tile_size() == TileSize::Block;
    let is_single = header.element_type.computed() == ElementType::F32;
    Ok(match header.pipeline {
        Pipeline::Lossless => {
            match header.element_type.size() {
                1 => lossless::encode::<u8>(header, geometry, chunk, source, options, scratch, out),
                2 => lossless::encode::<u16>(header, geometry, chunk, source, options, scratch, out),
                4 => lossless::encode::<u32>(header, geometry, chunk, source, options, scratch, out),
                _ => lossless::encode::<u64>(header, geometry, chunk, source, options, scratch, out),
            }?;
            Some(ErrorSummary::default())
        }
        Pipeline::Quantized if is_blocks => match is_single {
            true => blocks::encode::<f32>(header, geometry, chunk, source, options, scratch, out)?,
            false => blocks::encode::<f64>(header, geometry, chunk, source, options, scratch, out)?,
        },
        _ => match is_single {
            true => lossy::encode::<f32>(header, geometry, chunk, source, options, scratch, out)?,
            false => lossy::encode::<f64>(header, geometry, chunk, source, options, scratch, out)?,
        },
    })
}

/// Decodes from a chunk's record the tiles that `sink` needs.
///
/// # Errors
/// A damaged record, a decoder that the stream does not allow, or the sink's.
pub fn decode_chunk<'s, 'm: 's>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    record: &[u8],
    scratch: &mut DecodeScratch,
    destination: impl Into<Destination<'s, 'm>>,
) -> Result<()> {
    let context = Context { header, geometry, chunk, place: format!("chunk {chunk}") };
    decode_to(&context, record, scratch, destination.into())
}

fn decode_to(
    context: &Context,
    record: &[u8],
    scratch: &mut DecodeScratch,
    destination: Destination<'_, '_>,
) -> Result<()> {
    match destination {
        Destination::Memory(sink) => decode_tiles(context, record, scratch, sink),
        Destination::Sink(sink) => decode_tiles(context, record, scratch, sink),
    }
}

fn decode_tiles<K: Tiles + ?Sized>(
    context: &Context,
    record: &[u8],
    scratch: &mut DecodeScratch,
    sink: &mut K,
) -> Result<()> {
    let header = context.header;
    let Unchecked { kind, payload, mut checksum } = parse_unchecked(record, context.chunk)?;
    // An error of the checksum takes precedence over other errors, which are consequences of the damage.
    if matches!(kind, Ok(ChunkKind::Raw)) {
        let decoded = raw::decode(context, payload, &mut checksum, sink);
        return checksum.verify().and(decoded);
    }
    if matches!((&kind, header.pipeline), (Ok(ChunkKind::Lzss), Pipeline::Lossless)) {
        let parts = (payload, &mut checksum, &mut scratch.lzss);
        let decoded = match header.element_type.size() {
            1 => lzss::decode::<u8, K>(context, parts, sink),
            2 => lzss::decode::<u16, K>(context, parts, sink),
            4 => lzss::decode::<u32, K>(context, parts, sink),
            _ => lzss::decode::<u64, K>(context, parts, sink),
        };
        return checksum.verify().and(decoded);
    }
    checksum.verify()?;
    let is_blocks = context.geometry.tile_size() == TileSize::Block;
    match (kind?, header.element_type, header.pipeline) {
        (ChunkKind::Numbers, element, Pipeline::Lossless) => match element.size() {
            1 => numbers::decode::<u8, K>(context, payload, sink),
            2 => numbers::decode::<u16, K>(context, payload, sink),
            4 => numbers::decode::<u32, K>(context, payload, sink),
            _ => numbers::decode::<u64, K>(context, payload, sink),
        },
        (ChunkKind::Blocks, ..) if is_blocks => decode_codes(context, payload, scratch, sink),
        (ChunkKind::Quantized, ..) if !is_blocks => decode_codes(context, payload, scratch, sink),
        _ => Err(wrong_kind(context)),
    }
}

fn wrong_kind(context: &Context) -> Error {
    context.corrupt("its kind does not fit the stream's pipeline")
}

/// Decodes the tiles that `destination` needs from the payload of a chunk of codes, quantized or of blocks as its
/// stream has them, of which only the parts that they need must be there. The caller has compared their checksums.
///
/// # Errors
/// Damage, or the destination's.
pub(super) fn decode_parts(
    context: &Context,
    payload: &[u8],
    scratch: &mut DecodeScratch,
    destination: Destination<'_, '_>,
) -> Result<()> {
    match destination {
        Destination::Memory(sink) => decode_codes(context, payload, scratch, sink),
        Destination::Sink(sink) => decode_codes(context, payload, scratch, sink),
    }
}

fn decode_codes<K: Tiles + ?Sized>(
    context: &Context,
    payload: &[u8],
    scratch: &mut DecodeScratch,
    sink: &mut K,
) -> Result<()> {
    let is_blocks = context.geometry.tile_size() == TileSize::Block;
    match (context.header.element_type.computed(), context.header.pipeline) {
        (_, Pipeline::Lossless) => Err(wrong_kind(context)),
        (ElementType::F32, _) if is_blocks => blocks::decode::<f32, K>(context, payload, scratch, sink),
        (_, _) if is_blocks => blocks::decode::<f64, K>(context, payload, scratch, sink),
        (ElementType::F32, _) => lossy::decode::<f32, K>(context, payload, scratch, sink),
        _ => lossy::decode::<f64, K>(context, payload, scratch, sink),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Shape;
    use crate::bound::Resolved;
    use crate::geometry::Window;
    use crate::huffman::IndexKind;
    use crate::pipeline::Coder;

    /// Elements of a chunk as bytes.
    struct Bytes(Vec<u8>);

    impl ElementSource for Bytes {
        fn window<'s>(&'s self, geometry: &Geometry, _: &[Tile], _: &'s mut Vec<u8>) -> Result<Window<'s>> {
            Ok(Window::raster(&self.0, 0, geometry))
        }
    }

    #[test]
    fn shortest_coded_records_have_two_sections() {
        let mut shortest = usize::MAX;
        for (element_type, count) in ElementType::ALL.into_iter().flat_map(|of| [1, 2, 7, 16].map(|count| (of, count)))
        {
            let shape = Shape::new(&[count]).unwrap();
            let bytes = vec![0; count as usize * element_type.size()];
            for coder in Coder::ALL {
                let header = Header::new(element_type, shape, IndexKind::None, &Resolved::lossless());
                let geometry = header.geometry().unwrap();
                let mut scratch = EncodeScratch { tiles: geometry.chunk(0).collect(), ..EncodeScratch::default() };
                let options = CoderOptions { coder, ..CoderOptions::default() };
                let mut out = Vec::new();
                let source = Bytes(bytes.clone());
                encode_coded(&header, &geometry, 0, &source, &options, &mut scratch, &mut out).unwrap();
                shortest = shortest.min(out.len());
            }
        }
        assert!(shortest >= LEAST_CODED_LEN, "{shortest}");
    }
}
