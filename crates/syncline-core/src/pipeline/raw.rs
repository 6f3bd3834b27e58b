//! Chunks that are stored as they are.

use std::convert::Infallible;

use super::context::{Context, ElementSource, runs_of_rows};
use super::destination::Tiles;
use super::scratch::EncodeScratch;
use crate::array::ElementType;
use crate::container::{ALIGNMENT, ChunkKind, Header, RecordBuilder, RecordChecksum};
use crate::error::Result;
use crate::geometry::{Geometry, Tile, Window};

/// Tiles that are copied at a time; 1 to 1024 measured within noise of each other.
const PIECE_TILES: usize = 64;

pub(super) fn encode(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<()> {
    let record = RecordBuilder::begin(out, ChunkKind::Raw, chunk);
    for run in runs_of_rows(&scratch.tiles) {
        let window = source.window(geometry, run, &mut scratch.window)?;
        match header.element_type.size() {
            1 => append::<u8>(out, &window, run),
            2 => append::<u16>(out, &window, run),
            4 => append::<u32>(out, &window, run),
            _ => append::<u64>(out, &window, run),
        }
    }
    record.finish(out);
    Ok(())
}

fn append<T: Little>(out: &mut Vec<u8>, window: &Window, tiles: &[Tile]) {
    let mut values = vec![T::zeroed(); tiles.iter().map(Tile::len).max().unwrap_or(0)];
    for tile in tiles {
        let values = &mut values[..tile.len()];
        window.gather(tile, values);
        values.iter_mut().for_each(|value| *value = value.little());
        out.extend_from_slice(bytemuck::cast_slice(values));
    }
}

/// Copies tiles while or after they are hashed, so that they are loaded from memory only once. The caller verifies the
/// checksum.
pub(super) fn decode<K: Tiles + ?Sized>(
    context: &Context,
    payload: &[u8],
    checksum: &mut RecordChecksum,
    sink: &mut K,
) -> Result<()> {
    let element = context.header.element_type.size();
    let tile_bytes = context.geometry.unclipped_len() as usize * element;
    let mut rest = payload;
    while let Some((tile, wanted)) = sink.peek() {
        if let Some(copied) = copy_in_place(rest.len(), tile_bytes, checksum, sink) {
            rest = &rest[copied..];
            continue;
        }
        let (bytes, later) = rest
            .split_at_checked(tile.len() * element)
            .ok_or_else(|| context.corrupt("a raw chunk is shorter than its elements"))?;
        rest = later;
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
    // The remaining bytes can only be the record's padding.
    if rest.len() >= ALIGNMENT || rest.iter().any(|&b| b != 0) {
        return Err(context.corrupt("a raw chunk is longer than its elements"));
    }
    Ok(())
}

/// Copies as many whole tiles as it can of the payload's last `left` bytes to where they belong, if the sink has them
/// in the same order. Returns how many bytes these were.
fn copy_in_place<K: Tiles + ?Sized>(
    left: usize,
    tile_bytes: usize,
    checksum: &mut RecordChecksum,
    sink: &mut K,
) -> Option<usize> {
    [PIECE_TILES, 1].into_iter().map(|tiles| tiles * tile_bytes).filter(|&bytes| bytes <= left).find(|&bytes| {
        let copied = sink.fill(bytes, 0, |place| Ok::<_, Infallible>(checksum.copy_next(bytes, place)));
        copied.is_some()
    })
}

fn put<T: Little, K: Tiles + ?Sized>(bytes: &[u8], sink: &mut K) -> Result<()> {
    if let (true, Ok(values)) = (cfg!(target_endian = "little"), bytemuck::try_cast_slice::<u8, T>(bytes)) {
        return sink.put(values);
    }
    let read = |bytes: &[u8]| bytemuck::pod_read_unaligned::<T>(bytes).little();
    sink.put(&bytes.chunks_exact(size_of::<T>()).map(read).collect::<Vec<T>>())
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
