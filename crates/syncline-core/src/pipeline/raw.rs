//! Chunks that are stored as they are.

use super::{Context, ElementSource, EncodeScratch, TileSink};
use crate::arch::prefetch;
use crate::array::ElementType;
use crate::container::{ALIGNMENT, ChunkKind, Header, RecordBuilder, RecordChecksum};
use crate::error::Result;
use crate::geometry::{Geometry, MAX_TILE_ELEMENTS};

pub(super) fn encode<S: ElementSource + ?Sized>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &S,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<()> {
    let record = RecordBuilder::begin(out, ChunkKind::Raw, chunk);
    for run in scratch.tiles.chunk_by(|a, b| a.origin[..3] == b.origin[..3]) {
        let window = source.window(geometry, run, &mut scratch.window)?;
        for tile in run {
            match header.element_type.size() {
                1 => append::<u8>(out, &window, tile),
                2 => append::<u16>(out, &window, tile),
                4 => append::<u32>(out, &window, tile),
                _ => append::<u64>(out, &window, tile),
            }
        }
    }
    record.finish(out);
    Ok(())
}

fn append<T: Little>(out: &mut Vec<u8>, window: &crate::geometry::Window, tile: &crate::geometry::Tile) {
    let mut values = [T::zeroed(); MAX_TILE_ELEMENTS];
    window.gather(tile, &mut values);
    for value in &mut values[..tile.len()] {
        *value = value.little();
    }
    out.extend_from_slice(bytemuck::cast_slice(&values[..tile.len()]));
}

/// Copies tiles while the checksum takes them, so that they come from far away once; it is still to be verified.
pub(super) fn decode<K: TileSink>(
    context: &Context,
    payload: &[u8],
    checksum: &mut RecordChecksum,
    sink: &mut K,
) -> Result<()> {
    let element = context.header.element_type.size();
    let mut rest = payload;
    while let Some((tile, wanted)) = sink.peek() {
        let (bytes, later) = rest
            .split_at_checked(tile.len() * element)
            .ok_or_else(|| context.corrupt("a raw chunk is shorter than its elements"))?;
        rest = later;
        // Tiles are pages, which is where the machine's own prefetching ends.
        prefetch(rest.as_ptr(), rest.len().min(bytes.len()));
        checksum.advance(payload.len() - rest.len());
        if !wanted {
            sink.skip();
            continue;
        }
        match context.header.element_type {
            ElementType::U8 | ElementType::I8 => put::<u8, K>(bytes, sink)?,
            _ if element == 2 => put::<u16, K>(bytes, sink)?,
            _ if element == 4 => put::<u32, K>(bytes, sink)?,
            _ => put::<u64, K>(bytes, sink)?,
        }
    }
    // What is left can only be the record's padding.
    if rest.len() >= ALIGNMENT || rest.iter().any(|&b| b != 0) {
        return Err(context.corrupt("a raw chunk is longer than its elements"));
    }
    Ok(())
}

fn put<T: Little, K: TileSink>(bytes: &[u8], sink: &mut K) -> Result<()> {
    if let (true, Ok(values)) = (cfg!(target_endian = "little"), bytemuck::try_cast_slice::<u8, T>(bytes)) {
        return sink.put(values);
    }
    let mut values = [T::zeroed(); MAX_TILE_ELEMENTS];
    let count = bytes.len() / size_of::<T>();
    bytemuck::cast_slice_mut(&mut values[..count]).copy_from_slice(bytes);
    for value in &mut values[..count] {
        *value = value.little();
    }
    sink.put(&values[..count])
}

/// Integers between the host's byte order and little-endian.
trait Little: bytemuck::Pod {
    fn little(self) -> Self;
}

macro_rules! little {
    ($($t:ty),*) => {$(
        impl Little for $t {
            fn little(self) -> Self {
                self.to_le()
            }
        }
    )*};
}
little!(u8, u16, u32, u64);
