//! Wires the stages for one chunk: elements to a record and back.

mod codes;
mod lossless;
mod lossy;
mod lzss;
mod options;
mod raw;
mod report;
mod residuals;

use bytemuck::Pod;

use crate::array::{ElementType, Shape};
use crate::bound::{Bound, ErrorSummary, Pipeline};
use crate::container::{
    ALIGNMENT, ChunkKind, HEADER_LEN, Header, RECORD_HEADER_LEN, SECTIONS, TRAILER_LEN, Unchecked, parse_unchecked,
};
use crate::error::{Error, Result};
use crate::geometry::{Geometry, Tile, TileSize, Window};
use crate::mem::kept::Kept;
use crate::mem::scatter::ChunkSink;
use crate::mem::uninit::{UninitBytes, Written};

#[doc(hidden)]
pub use lossy::{
    CODE_SAMPLE_PIECE, CODE_SAMPLE_STEP, FEWEST_SAMPLED_TILES, QuantizedChunk, TILE_SAMPLE_STEP, TokenCosts,
    code_token_params, reserved_patterns,
};
#[doc(hidden)]
pub use lzss::{LzssChoice, LzssEstimate, LzssStrategy, LzssTrial, best_lzss, estimate_lzss, lzss_sample, lzss_trials};
#[doc(hidden)]
pub use options::Allowed;
pub use options::{Coder, CoderOptions, Effort};
pub use report::{ChunkReport, inspect_chunk};

/// A source of the encoder's elements.
pub trait ElementSource: Sync {
    /// Returns a window that contains the tiles of `run`, which are consecutive tiles of one row of tiles. `buffer` may
    /// be used as its memory.
    ///
    /// # Errors
    /// Whatever keeps the source from giving them.
    fn window<'s>(&'s self, geometry: &Geometry, run: &[Tile], buffer: &'s mut Vec<u8>) -> Result<Window<'s>>;
}

/// A destination of the decoder's elements that is not memory: the tiles of one chunk, each written or skipped, in
/// order.
pub trait TileSink {
    /// Returns the next tile, and whether its values are needed.
    fn peek(&self) -> Option<(Tile, bool)>;
    /// Returns whether the values of a tile of the chunk are needed.
    fn needs(&self, tile: &Tile) -> bool;
    /// Leaves the next tile out.
    fn skip(&mut self);
    /// Takes the elements of the next tile, in raster order of the tile and in the host's byte order; there may be more
    /// in `elements`.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking them.
    fn put(&mut self, elements: &[u8]) -> Result<()>;
}

/// Where [`decode_chunk`] writes. There is one function for both, so that the decoders of all element types are
/// compiled here, once, and not with each crate that has a sink.
pub enum Destination<'s, 'm> {
    /// The output array.
    Memory(&'s mut ChunkSink<'m>),
    /// Something else.
    Sink(&'s mut dyn TileSink),
}

impl std::fmt::Debug for Destination<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(sink) => f.debug_tuple("Memory").field(sink).finish(),
            Self::Sink(_) => f.write_str("Sink(..)"),
        }
    }
}

impl<'s, 'm> From<&'s mut ChunkSink<'m>> for Destination<'s, 'm> {
    fn from(sink: &'s mut ChunkSink<'m>) -> Self {
        Self::Memory(sink)
    }
}

impl<'s, K: TileSink> From<&'s mut K> for Destination<'s, '_> {
    fn from(sink: &'s mut K) -> Self {
        Self::Sink(sink)
    }
}

/// What a [`Destination`] does for decoders.
trait Tiles {
    /// Returns the next tile, and whether its values are needed.
    fn peek(&self) -> Option<(Tile, bool)>;
    /// Returns whether the values of a tile of the chunk are needed.
    fn needs(&self, tile: &Tile) -> bool;
    /// Fills memory like [`ChunkSink::fill`]. A sink may return `None` if it does not support this.
    fn fill<E>(
        &mut self,
        bytes: usize,
        slack: usize,
        fill: impl for<'m> FnOnce(UninitBytes<'m>) -> std::result::Result<Written<'m>, E>,
    ) -> Option<std::result::Result<usize, E>> {
        let _ = (bytes, slack, fill);
        None
    }
    /// Leaves the next tile out.
    fn skip(&mut self);
    /// Takes the elements of the next tile, in raster order of the tile; there may be more in `values`.
    fn put<T: Pod>(&mut self, values: &[T]) -> Result<()>;
}

impl Tiles for ChunkSink<'_> {
    fn peek(&self) -> Option<(Tile, bool)> {
        self.peek()
    }

    fn needs(&self, tile: &Tile) -> bool {
        self.needs(tile)
    }

    fn fill<E>(
        &mut self,
        bytes: usize,
        slack: usize,
        fill: impl for<'m> FnOnce(UninitBytes<'m>) -> std::result::Result<Written<'m>, E>,
    ) -> Option<std::result::Result<usize, E>> {
        self.fill(bytes, slack, fill)
    }

    fn skip(&mut self) {
        self.skip();
    }

    fn put<T: Pod>(&mut self, values: &[T]) -> Result<()> {
        self.put(values);
        Ok(())
    }
}

impl Tiles for dyn TileSink + '_ {
    fn peek(&self) -> Option<(Tile, bool)> {
        TileSink::peek(self)
    }

    fn needs(&self, tile: &Tile) -> bool {
        TileSink::needs(self, tile)
    }

    fn skip(&mut self) {
        TileSink::skip(self);
    }

    fn put<T: Pod>(&mut self, values: &[T]) -> Result<()> {
        TileSink::put(self, bytemuck::cast_slice(values))
    }
}

/// Memory that the encoder keeps from chunk to chunk.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    tiles: Vec<Tile>,
    window: Vec<u8>,
    huffman: crate::huffman::EncodeScratch,
    quantized: lossy::EncodeBuffers,
    lzss: lzss::EncodeBuffers,
    /// Elements of a lossless chunk, as words because of their alignment.
    elements: Vec<u64>,
    residuals: Vec<u64>,
}

/// Memory that the decoder keeps from chunk to chunk.
#[derive(Debug, Default)]
pub struct DecodeScratch {
    codes: codes::CodeBuffer<u16>,
    lzss: lzss::DecodeBuffers,
    batch: Kept,
}

/// Appends the record of a chunk to `out`, whose length must be a multiple of 16. The record depends on the header, the
/// geometry, the chunk's elements and, in a lossless stream or one of [`Header::lzss_codes`] or
/// [`Header::token_codes`], `lossless` alone.
///
/// # Errors
/// The source's.
pub fn encode_chunk(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    lossless: &CoderOptions,
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
    let summary = encode_coded(header, geometry, chunk, source, lossless, scratch, out)?;
    if out.len() - start >= raw_len {
        out.truncate(start);
        raw::encode(header, geometry, chunk, source, scratch, out)?;
    }
    Ok(summary)
}

/// The least length in bytes of a record that is not raw: its header, the table of sections, and at least two sections
/// that are not empty, each on its own alignment.
const LEAST_CODED_LEN: usize = (RECORD_HEADER_LEN + 4 * SECTIONS).next_multiple_of(ALIGNMENT) + 2 * ALIGNMENT;

/// Appends the record of a chunk of the tiles in `scratch`, of another kind than raw.
fn encode_coded(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    lossless: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<ErrorSummary> {
    Ok(match (header.pipeline, header.element_type) {
        (Pipeline::Lossless, element) => {
            match element.size() {
                1 => lossless::encode::<u8>(header, geometry, chunk, source, lossless, scratch, out),
                2 => lossless::encode::<u16>(header, geometry, chunk, source, lossless, scratch, out),
                4 => lossless::encode::<u32>(header, geometry, chunk, source, lossless, scratch, out),
                _ => lossless::encode::<u64>(header, geometry, chunk, source, lossless, scratch, out),
            }?;
            ErrorSummary::default()
        }
        (_, ElementType::F32) => lossy::encode::<f32>(header, geometry, chunk, source, lossless, scratch, out)?,
        (_, ElementType::F64) => lossy::encode::<f64>(header, geometry, chunk, source, lossless, scratch, out)?,
        (pipeline, element) => return Err(Error::invalid(format!("{element} arrays have no {pipeline} pipeline"))),
    })
}

/// Returns a chunk of a quantized stream before entropy coding, for tests of other implementations.
///
/// # Errors
/// The source's, or a stream that is not quantized.
#[doc(hidden)]
pub fn quantize_chunk(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
) -> Result<QuantizedChunk> {
    let mut scratch = EncodeScratch { tiles: geometry.chunk(chunk).collect(), ..EncodeScratch::default() };
    match (header.pipeline, header.element_type) {
        (Pipeline::Quantized | Pipeline::LogQuantized, ElementType::F32) => {
            lossy::quantize_chunk::<f32>(header, geometry, source, &mut scratch)
        }
        (Pipeline::Quantized | Pipeline::LogQuantized, ElementType::F64) => {
            lossy::quantize_chunk::<f64>(header, geometry, source, &mut scratch)
        }
        (pipeline, element) => Err(Error::invalid(format!("a {pipeline} stream of {element} is not quantized"))),
    }
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
    let kind = kind?;
    use ChunkKind::{Lossless, LzssCodes, Quantized, TokenCodes};
    match (kind, header.element_type, header.pipeline) {
        (Lossless, element, Pipeline::Lossless) => match element.size() {
            1 => lossless::decode::<u8, K>(context, payload, sink),
            2 => lossless::decode::<u16, K>(context, payload, sink),
            4 => lossless::decode::<u32, K>(context, payload, sink),
            _ => lossless::decode::<u64, K>(context, payload, sink),
        },
        (LzssCodes, ..) if !header.lzss_codes => {
            Err(context.corrupt("its codes are LZSS tokens, which the header does not announce"))
        }
        (TokenCodes, ..) if !header.token_codes => {
            Err(context.corrupt("it has token codebooks, which the header does not announce"))
        }
        (Quantized | LzssCodes | TokenCodes, ElementType::F32, Pipeline::Quantized | Pipeline::LogQuantized) => {
            lossy::decode::<f32, K>(context, kind, payload, scratch, sink)
        }
        (Quantized | LzssCodes | TokenCodes, ElementType::F64, Pipeline::Quantized | Pipeline::LogQuantized) => {
            lossy::decode::<f64, K>(context, kind, payload, scratch, sink)
        }
        _ => Err(context.corrupt("its kind does not fit the stream's pipeline")),
    }
}

/// The context of decoding a chunk.
struct Context<'a> {
    header: &'a Header,
    geometry: &'a Geometry,
    chunk: u64,
    place: String,
}

impl Context<'_> {
    fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(self.place.as_str(), what)
    }

    fn tile_count(&self) -> usize {
        let range = self.geometry.chunk_range(self.chunk);
        (range.end - range.start) as usize
    }
}

/// Returns the largest length of a stream with `bytes` bytes of elements in `chunks` chunks: each chunk is raw, and has
/// a record header, padding, and an entry in the table.
pub fn max_stream_len(bytes: u64, chunks: u64) -> u64 {
    let each = (RECORD_HEADER_LEN + ALIGNMENT + 4) as u64;
    bytes.saturating_add(chunks.saturating_mul(each)).saturating_add((HEADER_LEN + TRAILER_LEN + ALIGNMENT) as u64)
}

/// Returns the largest length in bytes of a stream of an array of this type and shape. Raw chunks keep it within 1 % +
/// 1 KiB of the array's length.
pub fn compress_bound(element_type: ElementType, shape: Shape) -> u64 {
    let bytes = shape.len().saturating_mul(element_type.size() as u64);
    let chunks = TileSize::ALL.map(|size| Geometry::with_tiles(shape, size).chunks());
    max_stream_len(bytes, chunks[0].max(chunks[1]))
}

/// Returns the bytes of memory that a thread needs to decode a chunk, without the output: the longest record, the
/// codes, and side lists.
pub fn decode_memory(header: &Header, geometry: &Geometry) -> u64 {
    let elements = geometry.elements().min(u64::from(geometry.tiles_per_chunk()) * geometry.unclipped_len());
    // LZSS chunks need decoded elements and literals, lengths, and distances. Other chunks need less.
    elements * (4 * header.element_type.size() as u64 + 4) + (1 << 20)
}

/// Returns the bytes of memory that a thread needs to encode a chunk, without the source.
pub fn encode_memory(header: &Header, geometry: &Geometry) -> u64 {
    let elements = geometry.elements().min(u64::from(geometry.tiles_per_chunk()) * geometry.unclipped_len());
    let beside = match header.pipeline {
        Pipeline::Lossless => 8,
        // Chunks are coded in both ways at once.
        _ if header.token_codes && header.lzss_codes => 16,
        _ => 4,
    };
    elements * (6 * header.element_type.size() as u64 + beside) + (1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Resolved;
    use crate::huffman::IndexKind;

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
