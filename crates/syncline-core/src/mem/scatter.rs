//! One output array written by several threads, each a chunk of its own.
//!
//! The tiles of different chunks are disjoint boxes, but their rows interleave in memory, so no splitting of a slice
//! can express it. Here the type system does: [`Scatter`] hands out each chunk once, and a [`ChunkSink`] writes only
//! the tiles of its chunk.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::Pod;

use super::huge_pages;
use super::prefetch::prefetch;
use super::uninit::{UninitBytes, Written};
use crate::geometry::{Geometry, Region, Tile};

/// Target of a decompression: the elements of a region, in C order, to be filled chunk by chunk.
#[derive(Debug)]
pub struct Scatter<'a> {
    target: Target<'a>,
    chunks: std::vec::IntoIter<u64>,
}

#[derive(Clone, Debug)]
struct Target<'a> {
    data: *mut u8,
    len: usize,
    geometry: &'a Geometry,
    region: Region,
    strides: [u64; 3],
    element: usize,
    /// Number of bytes that sinks have written, if it is needed.
    written: Option<&'a AtomicUsize>,
    owner: PhantomData<&'a mut [u8]>,
}

impl Target<'_> {
    /// Returns the byte offset of element `(z, y, x)` of a tile, which must be in the region. `field` is the index of
    /// the tile's field in the region.
    #[inline(always)]
    fn offset(&self, tile: &Tile, field: u64, z: usize, y: usize, x: usize) -> usize {
        let start = self.region.start();
        let index = field * self.strides[0]
            + (tile.origin[1] + z as u64 - start[1]) * self.strides[1]
            + (tile.origin[2] + y as u64 - start[2]) * self.strides[2]
            + (tile.origin[3] + x as u64 - start[3]);
        index as usize * self.element
    }
}

// SAFETY: a `Target` represents an exclusive borrow of bytes, which may move between threads. Its copies are held by
// sinks of different chunks, which never access the same bytes (see `ChunkSink::put`).
unsafe impl Send for Target<'_> {}

impl<'a> Scatter<'a> {
    /// Returns the output of the elements of `region`, `element` bytes each, to `bytes`.
    ///
    /// # Panics
    /// `bytes` has not the length of the region.
    pub fn new(bytes: &'a mut [u8], geometry: &'a Geometry, region: Region, element: usize) -> Self {
        Self::of(bytes.as_mut_ptr(), bytes.len(), None, geometry, region, element)
    }

    /// Returns the output to `len` bytes at `data`, which nothing else accesses during `'a` and which are only written.
    fn of(
        data: *mut u8,
        len: usize,
        written: Option<&'a AtomicUsize>,
        geometry: &'a Geometry,
        region: Region,
        element: usize,
    ) -> Self {
        assert_eq!(len as u64, region.len() * element as u64);
        let [_, z, y, x] = region.extent();
        let strides = [z * y * x, y * x, x];
        let chunks = geometry.chunks_in(&region).into_iter();
        Self { target: Target { data, len, geometry, region, strides, element, written, owner: PhantomData }, chunks }
    }
}

impl<'a> Iterator for Scatter<'a> {
    type Item = ChunkSink<'a>;

    /// Returns the sink of the next chunk that intersects the region. Each chunk comes once, in ascending order.
    fn next(&mut self) -> Option<ChunkSink<'a>> {
        let chunk = self.chunks.next()?;
        let mut tiles = self.target.geometry.chunk(chunk);
        Some(ChunkSink { chunk, target: self.target.clone(), current: tiles.next(), tiles })
    }
}

/// Memory of a known length that is not initialized. Filling it with zeros first would take a tenth of the time of a
/// fast decompression.
#[derive(Debug)]
pub struct Unwritten {
    /// Empty, with room for `len` bytes.
    bytes: Vec<u8>,
    len: usize,
    /// Number of bytes that the sinks of the last scatter have written; each byte is written once.
    written: AtomicUsize,
}

impl Unwritten {
    /// Allocates `len` bytes, or returns `None` if the allocation fails. Large allocations request huge pages if the
    /// system supports them: the first access to pages of 4 KiB takes a quarter of the time of a decompression.
    pub fn new(len: usize) -> Option<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).ok()?;
        huge_pages::advise(&mut bytes.spare_capacity_mut()[..len]);
        Some(Self { bytes, len, written: AtomicUsize::new(0) })
    }

    /// Returns the output of the elements of `region` to these bytes.
    ///
    /// # Panics
    /// They have not the length of the region.
    pub fn scatter<'a>(&'a mut self, geometry: &'a Geometry, region: Region, element: usize) -> Scatter<'a> {
        *self.written.get_mut() = 0;
        Scatter::of(self.bytes.as_mut_ptr(), self.len, Some(&self.written), geometry, region, element)
    }

    /// Returns the bytes, set to 0. Large memory consists of pages that the system allocates on first access, so that
    /// the threads that write the bytes also share the time of allocating the pages.
    pub fn zeroed(&mut self) -> &mut [u8] {
        match huge_pages::zeroed(self.len) {
            Some(bytes) => self.bytes = bytes,
            None => {
                self.bytes.clear();
                self.bytes.resize(self.len, 0);
            }
        }
        &mut self.bytes
    }

    /// Returns the bytes if all of them have been written.
    pub fn written(self) -> Option<Vec<u8>> {
        let Self { mut bytes, len, written } = self;
        if bytes.len() < len {
            if written.into_inner() < len {
                return None;
            }
            // SAFETY: there is room for `len` bytes, and as many have been written: sinks count a tile's bytes when
            // they are written, those of one scatter never write a byte twice (see `ChunkSink::write_rows`), and the
            // count begins with the scatter.
            unsafe { bytes.set_len(len) };
        }
        Some(bytes)
    }
}

/// Writes the tiles of one chunk, in order.
#[derive(Debug)]
pub struct ChunkSink<'a> {
    chunk: u64,
    target: Target<'a>,
    /// The next tile. It is advanced before a tile's rows are written: a load that spans two recent stores waits until
    /// they have reached the cache, and after 64 rows that missed the cache, this took a fifth of all decompression.
    current: Option<Tile>,
    tiles: crate::geometry::Tiles<'a>,
}

impl ChunkSink<'_> {
    /// Returns the number of the chunk.
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Returns the next tile and whether the region needs it.
    #[inline]
    pub fn peek(&self) -> Option<(Tile, bool)> {
        self.current.map(|tile| (tile, self.needs(&tile)))
    }

    /// Returns whether the region needs a tile.
    #[inline]
    pub fn needs(&self, tile: &Tile) -> bool {
        self.target.region.meets(tile)
    }

    /// Calls `fill` with the next `bytes` bytes of the output and `slack` bytes after them, so that whole tiles are
    /// written in place. This requires that the bytes are whole tiles that the region needs and that are contiguous in
    /// the output, and that the slack belongs to later tiles of this chunk, which overwrite it. Returns the number of
    /// tiles filled, or the error of `fill`; `None` if the requirements do not hold and `fill` was not called.
    ///
    /// # Panics
    /// Panics if `fill` returns proof of other bytes than the ones that it was given.
    pub fn fill<E>(
        &mut self,
        bytes: usize,
        slack: usize,
        fill: impl for<'m> FnOnce(UninitBytes<'m>) -> Result<Written<'m>, E>,
    ) -> Option<Result<usize, E>> {
        let at = self.piece(bytes, slack)?;
        // SAFETY: `piece` has found that the next bytes, as many as the place has, are in the exclusively borrowed
        // memory that `data` points to, and belong to tiles of this sink's chunk from the current one on. No other
        // thread accesses them (see `write_rows`), and this sink writes or skips them only in later calls. Code that
        // fills a `UninitBytes` writes only initialized bytes.
        let place = unsafe {
            let start = self.target.data.add(at).cast();
            UninitBytes::new(std::slice::from_raw_parts_mut(start, bytes + slack))
        };
        let start = place.address();
        match fill(place) {
            Ok(written) => assert!(written.covers(start, bytes)),
            Err(error) => return Some(Err(error)),
        }
        let mut filled = 0;
        let mut tiles = 0;
        while let Some(tile) = self.current.filter(|_| filled < bytes) {
            filled += tile.len() * self.target.element;
            tiles += 1;
            self.current = self.tiles.next();
        }
        if let Some(written) = self.target.written {
            written.fetch_add(filled, Ordering::Relaxed);
        }
        Some(Ok(tiles))
    }

    /// Returns the offset of the next `bytes + slack` bytes, or `None` if the requirements of [`ChunkSink::fill`] are
    /// not met.
    fn piece(&self, bytes: usize, slack: usize) -> Option<usize> {
        let Target { geometry, region, element, len, .. } = &self.target;
        let tile = self.current?;
        let (start, extent, dims) = (region.start()[3], region.extent()[3], geometry.dims());
        let tile_elements = geometry.unclipped_extent()[2] as u64;
        let is_row = dims[..3] == [1; 3] && geometry.unclipped_extent()[..2] == [1; 2] && !region.is_empty();
        let is_whole = bytes.is_multiple_of(tile_elements as usize * element) && tile.origin[3] >= start;
        if cfg!(target_endian = "big") || !is_row || !is_whole {
            return None;
        }
        // Elements of this chunk and of the region end here.
        let end = (geometry.chunk_range(self.chunk).end * tile_elements).min(start + extent);
        let at = (tile.origin[3] - start) as usize * element;
        let end = ((end - start) as usize * element).min(*len);
        (at + bytes + slack <= end).then_some(at)
    }

    /// Leaves the next tile out.
    pub fn skip(&mut self) {
        self.current = self.tiles.next();
    }

    /// Writes the part of the next tile that is in the region; `values` are the tile's elements in raster order of the
    /// tile.
    ///
    /// # Panics
    /// There is no tile left, `values` is shorter than the tile, or `T` is not of the element's size.
    #[inline]
    pub fn put<T: Pod>(&mut self, values: &[T]) {
        let tile = self.current.expect("a tile is left");
        self.current = self.tiles.next();
        if let Some(next) = &self.current {
            self.prefetch(next);
        }
        assert_eq!(size_of::<T>(), self.target.element);
        let values = &values[..tile.len()];
        let clip = self.clip(&tile);
        match clip.len * size_of::<T>() {
            32 => self.write_rows::<T, 32>(&tile, &clip, values),
            64 => self.write_rows::<T, 64>(&tile, &clip, values),
            128 => self.write_rows::<T, 128>(&tile, &clip, values),
            _ => self.write_rows::<T, 0>(&tile, &clip, values),
        }
        if let Some(written) = self.target.written {
            written.fetch_add(clip.z.len() * clip.y.len() * clip.len * size_of::<T>(), Ordering::Relaxed);
        }
    }

    /// Asks for the places of a tile's rows to be brought to the cache: stores to far places that miss it fill the
    /// store buffer.
    #[inline(always)]
    fn prefetch(&self, tile: &Tile) {
        let (target, clip) = (&self.target, self.clip(tile));
        if clip.len == 0 {
            return;
        }
        for z in clip.z.clone() {
            for y in clip.y.clone() {
                let at = target.offset(tile, clip.field, z, y, clip.first);
                prefetch(target.data.wrapping_add(at), clip.len * target.element);
            }
        }
    }

    /// Returns the intersection of the region and a tile, in coordinates of the tile.
    #[inline]
    fn clip(&self, tile: &Tile) -> Clip {
        let (start, extent) = (self.target.region.start(), self.target.region.extent());
        let field = self.target.region.position_of(tile.origin[0]);
        let range = |axis: usize| {
            let (origin, side) = (tile.origin[axis + 1], tile.extent[axis] as u64);
            let from = start[axis + 1].saturating_sub(origin).min(side);
            let to = (start[axis + 1] + extent[axis + 1]).saturating_sub(origin).min(side).max(from);
            from as usize..to as usize
        };
        let x = range(2);
        let z = if field.is_some() { range(0) } else { 0..0 };
        Clip { field: field.unwrap_or(0), z, y: range(1), first: x.start, len: x.len() }
    }

    /// Writes rows of `ROW` bytes, or of any length where `ROW` is 0.
    #[inline(always)]
    fn write_rows<T: Pod, const ROW: usize>(&self, tile: &Tile, clip: &Clip, values: &[T]) {
        let target = &self.target;
        let bytes = if ROW == 0 { clip.len * size_of::<T>() } else { ROW };
        if bytes == 0 {
            return;
        }
        for z in clip.z.clone() {
            for y in clip.y.clone() {
                let source = (z * tile.extent[1] + y) * tile.extent[2] + clip.first;
                let row: &[u8] = bytemuck::cast_slice(&values[source..source + clip.len]);
                let at = target.offset(tile, clip.field, z, y, clip.first);
                assert!(at <= target.len && bytes <= target.len - at && row.len() == bytes);
                // SAFETY: `at + bytes` is within the exclusively borrowed memory that `data` points to, as just
                // checked. No other thread touches these bytes: they belong to elements of a tile of this sink's chunk;
                // `Geometry` assigns each element to one tile and each tile to one chunk (tested there), all sinks
                // share one geometry and region, which map different elements to different bytes, and `Scatter` makes
                // one sink for each chunk. `row` is a shared borrow, so it does not overlap. The bytes may never have
                // been written: they become a slice after.
                let out = unsafe {
                    let out = target.data.add(at);
                    std::ptr::copy_nonoverlapping(row.as_ptr(), out, bytes);
                    std::slice::from_raw_parts_mut(out, bytes)
                };
                if cfg!(target_endian = "big") {
                    out.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
                }
            }
        }
    }
}

/// Part of a tile: planes, rows, and in each row `len` elements from `first` on.
struct Clip {
    /// Position of the tile's field in the region.
    field: u64,
    z: std::ops::Range<usize>,
    y: std::ops::Range<usize>,
    first: usize,
    len: usize,
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::array::Shape;
    use crate::geometry::Window;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gathered_tiles_scatter_back(
            axes in prop_oneof![
                prop::collection::vec((1u64..40, 0u64..40, 0u64..40), 0..=4),
                prop::collection::vec((1u64..6, 0u64..6, 0u64..6), 5..=7),
            ],
            chunk_tiles in 1u32..9,
        ) {
            let extents: Vec<u64> = axes.iter().map(|a| a.0).collect();
            let shape = Shape::new(&extents).unwrap();
            let geometry = Geometry::with_chunk_tiles(shape, chunk_tiles).unwrap();
            let input: Vec<u16> = (0..shape.len()).map(|i| (i * 40503) as u16).collect();
            let ranges: Vec<_> = axes.iter().map(|&(e, a, b)| a.min(b).min(e)..a.max(b).min(e)).collect();
            let region = geometry.region(&ranges).unwrap();
            let mut output = Unwritten::new(region.len() as usize * 2).unwrap();
            let sinks: Vec<_> = output.scatter(&geometry, region, 2).collect();
            let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
            let window = Window::raster(&bytes, 0, &geometry);
            std::thread::scope(|scope| {
                for mut sink in sinks {
                    scope.spawn(move || {
                        let mut buffer = [0u16; 1024];
                        while let Some((tile, needed)) = sink.peek() {
                            if needed {
                                window.gather(&tile, &mut buffer);
                                sink.put(&buffer);
                            } else {
                                sink.skip();
                            }
                        }
                    });
                }
            });
            let mut numbers = vec![0];
            for (range, extent) in ranges.iter().zip(&extents) {
                numbers = numbers.iter().flat_map(|n| range.clone().map(move |i| n * extent + i)).collect();
            }
            let expected: Vec<u8> = numbers.iter().flat_map(|&n| input[n as usize].to_le_bytes()).collect();
            prop_assert_eq!(output.written(), Some(expected));
        }
    }

    proptest! {
        #[test]
        fn pieces_go_where_tiles_would(
            len in 1_u64..20_000, from in 0_u64..20_000, to in 0_u64..20_000, chunk_tiles in 1_u32..9,
                tiles in 1_usize..5,
        ) {
            let geometry = Geometry::with_chunk_tiles(Shape::new(&[len]).unwrap(), chunk_tiles).unwrap();
            let (from, to) = (from.min(to).min(len), from.max(to).min(len));
            let region = geometry.region(std::slice::from_ref(&(from..to))).unwrap();
            let expected: Vec<u16> = (from..to).map(|i| (i * 40503) as u16).collect();
            let mut output = Unwritten::new(expected.len() * 2).unwrap();
            let bytes = tiles * 2048;
            for mut sink in output.scatter(&geometry, region, 2) {
                let last = geometry.chunk_range(sink.chunk()).end - 1;
                while let Some((tile, wanted)) = sink.peek() {
                    let indices = (tile.origin[3]..).take(tiles * 1024 + 32);
                    let values: Vec<u16> = indices.map(|i| (i * 40503) as u16).collect();
                    let filled = sink.fill(bytes, 64, |mut place| {
                        assert_eq!(place.len(), bytes + 64);
                        // The bytes after the written ones are overwritten later. SAFETY: only an initialized byte is
                        // written.
                        unsafe { place.as_mut_slice() }.fill(MaybeUninit::new(0xA5));
                        let written: &[u8] = bytemuck::cast_slice(&values);
                        Ok::<_, ()>(place.copy_in_pieces(&written[..bytes], 100, |_| ()))
                    });
                    let whole = tile.origin[3] >= from && tile.number + (tiles as u64) <= last;
                    let has_room = tile.origin[3] + tiles as u64 * 1024 + 32 <= to;
                    prop_assert_eq!(filled.is_some(), whole && has_room);
                    match filled {
                        Some(count) => prop_assert_eq!(count, Ok(tiles)),
                        None if wanted => sink.put(&values),
                        None => sink.skip(),
                    }
                }
            }
            prop_assert_eq!(output.written(), Some(bytemuck::cast_slice(&expected).to_vec()));
        }
    }

    #[test]
    fn pieces_need_rows_that_are_whole() {
        let geometry = Geometry::with_chunk_tiles(Shape::new(&[64, 64]).unwrap(), 4).unwrap();
        let mut output = vec![0; 64 * 64];
        let mut sink = Scatter::new(&mut output, &geometry, geometry.whole(), 1).next().unwrap();
        assert!(sink.fill::<()>(1024, 0, |_| unreachable!("tiles are squares")).is_none());
        let geometry = Geometry::with_chunk_tiles(Shape::new(&[4096]).unwrap(), 4).unwrap();
        let mut output = vec![0; 4096];
        let mut sink = Scatter::new(&mut output, &geometry, geometry.whole(), 1).next().unwrap();
        assert!(sink.fill::<()>(1000, 0, |_| unreachable!("a part of a tile")).is_none());
        assert!(sink.fill::<()>(8192, 0, |_| unreachable!("more than the chunk")).is_none());
        assert_eq!(sink.fill(1024, 64, |_| Err("on purpose")).unwrap(), Err("on purpose"));
        assert_eq!(sink.peek().unwrap().0.number, 0);
    }

    #[test]
    fn memory_with_unwritten_elements_is_withheld() {
        let geometry = Geometry::with_chunk_tiles(Shape::new(&[3000]).unwrap(), 1).unwrap();
        let mut memory = Unwritten::new(3000).unwrap();
        // One of three chunks twice, another once.
        for chunks in [0..1, 0..2] {
            for mut sink in memory.scatter(&geometry, geometry.whole(), 1).take(chunks.end) {
                sink.put(&[7u8; 1024]);
            }
        }
        assert_eq!(memory.written(), None);
        let mut memory = Unwritten::new(3000).unwrap();
        assert!(memory.zeroed().iter().all(|&byte| byte == 0));
        assert_eq!(memory.written(), Some(vec![0; 3000]));
        assert_eq!(Unwritten::new(0).unwrap().written(), Some(Vec::new()));
        assert!(Unwritten::new(usize::MAX).is_none());
    }
}
