//! Launches `kernels/lossless/tiles.cu`.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::array::ElementType;
use syncline_core::geometry::Geometry;

use super::structs::SampleTile;
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};

declare_kernels! {
    /// The kernels of `kernels/lossless/tiles.cu`.
    pub(super) struct TileKernels in "lossless/tiles.cu", by (element_bytes: u64) {
        /// Threads of a block with one tile per warp.
        const THREADS: u32 = 128;
        fn tiles_gather(
            geometry: DeviceGeometry, batch: ChunkBatch, slab: In<u8> as "const word_t *", first_element: u64,
            stride: u64, slots: Out<u8>,
        );
        fn tiles_sample(
            geometry: DeviceGeometry, tiles: In<SampleTile>, count: u32, slab: In<u8> as "const word_t *",
            first_element: u64, sample: Out<u8> as "word_t *",
        );
        fn tiles_scatter(
            geometry: DeviceGeometry, batch: ChunkBatch, first_tile: u32, end_tile: u32, sources: In<u64>,
            statuses: In<u32>, slab: Out<u8> as "word_t *", first_element: u64,
        );
    }
}
/// The elements of chunks in tile order; each chunk starts on a multiple of `stride` bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots {
    /// Address of the first chunk's elements.
    pub pointer: CUdeviceptr,
    /// Bytes from one chunk to the next, a multiple of 16.
    pub stride: u64,
}

/// Launches the kernels for the tiles of one array.
#[derive(Debug)]
pub(super) struct Tiles {
    geometry: DeviceGeometry,
    element_bytes: u32,
    slot_bytes: u64,
    kernels: TileKernels,
}

impl Tiles {
    pub fn new(device: &Device, element: ElementType, geometry: &Geometry) -> Result<Self> {
        let of_tile: u64 = (geometry.unclipped_extent().iter().zip(&geometry.dims()[1..]))
            .map(|(&side, &dim)| dim.min(side as u64))
            .product();
        let of_chunk = of_tile * geometry.tiles().clamp(1, geometry.tiles_per_chunk().into());
        Ok(Self {
            geometry: DeviceGeometry::new(geometry),
            element_bytes: element.size() as u32,
            slot_bytes: (of_chunk * element.size() as u64).next_multiple_of(16),
            kernels: TileKernels::load(device, element.size() as u64)?,
        })
    }

    pub fn geometry(&self) -> &DeviceGeometry {
        &self.geometry
    }

    pub fn element_bytes(&self) -> u64 {
        self.element_bytes.into()
    }

    /// Returns the bytes of a slot that can hold any chunk.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Returns the number of chunks, at least 1, in a batch of at most `batch_bytes` bytes, if each chunk takes the
    /// bytes of a slot or `least`, whichever is more.
    pub fn chunks_in(&self, batch_bytes: u64, least: u64) -> u64 {
        /// Kernels number chunks with 32 bits or fewer.
        const MOST: u64 = 1 << 16;
        let most = ChunkBatch::most_chunks(&self.geometry).min(MOST);
        (batch_bytes / self.slot_bytes.max(least).max(1)).clamp(1, most)
    }

    /// Returns the number of elements of a chunk of a batch.
    pub fn elements_of(&self, batch: &ChunkBatch, chunk: u32) -> u64 {
        let tiles = batch.tiles_of(chunk);
        let before = |tile: u32| self.geometry.elements_before(batch.first_tile() + u64::from(tile));
        before(tiles.end) - before(tiles.start)
    }

    /// Returns the elements of a batch's chunks in tile order. If the slab is in that order, this is the slab itself;
    /// else they are gathered into a buffer, which must live as long as they are used.
    pub fn in_order<'a>(
        &self,
        frame: &mut Frame<'a>,
        batch: &ChunkBatch,
        slab: &Slab<'_>,
    ) -> Result<(Slots, CudaViewMut<'a, u8>)> {
        let stream = frame.stream().clone();
        let pointer = slab.bytes.device_ptr(&stream).0;
        if self.geometry.axes() == 1 {
            let first = self.geometry.elements_before(batch.first_tile()) - slab.first_element;
            let pointer = pointer + first * self.element_bytes();
            let stride = u64::from(self.geometry.chunk_tiles()) * 1024 * self.element_bytes();
            if pointer.is_multiple_of(16) {
                return Ok((Slots { pointer, stride }, frame.slice(0)?));
            }
        }
        let mut slots = frame.slice::<u8>(batch.chunks() as usize * self.slot_bytes as usize)?;
        if batch.tiles() > 0 {
            let grid = Grid::new(batch.tiles().div_ceil(THREADS / 32), THREADS);
            // SAFETY: the caller has checked that the slab contains the batch's elements. It is aligned to elements, as
            // all allocations and slabs are. A slot has room for the elements of any chunk.
            unsafe {
                launch!(self.kernels.tiles_gather on &stream, grid; self.geometry, *batch, &slab.bytes,
                    slab.first_element, self.slot_bytes, &mut slots)
            }?;
        }
        let (pointer, _) = slots.device_ptr(&stream);
        Ok((Slots { pointer, stride: self.slot_bytes }, slots))
    }

    /// Returns the number of elements of the tiles with these numbers.
    pub fn elements_in(&self, tiles: &Range<u64>) -> u64 {
        self.geometry.elements_before(tiles.end) - self.geometry.elements_before(tiles.start)
    }

    /// Gathers the elements of runs of tiles, one run after another in tile order. The slab must contain them.
    pub fn sample<'a>(
        &self,
        frame: &mut Frame<'a>,
        runs: &[Range<u64>],
        slab: &Slab<'_>,
    ) -> Result<CudaViewMut<'a, u8>> {
        let stream = frame.stream().clone();
        let (mut list, mut elements) = (Vec::new(), 0);
        for run in runs {
            let before = self.geometry.elements_before(run.start);
            let at = |number| elements + self.geometry.elements_before(number) - before;
            list.extend(run.clone().map(|number| SampleTile { number, at: at(number) }));
            elements += self.elements_in(run);
        }
        let mut sample = frame.slice::<u8>((elements * self.element_bytes()) as usize)?;
        if list.is_empty() {
            return Ok(sample);
        }
        let count = list.len() as u32;
        let list = frame.upload(&list)?;
        let grid = Grid::new(count.div_ceil(THREADS / 32), THREADS);
        // SAFETY: the caller has checked that the slab contains the tiles' elements; the sample has room for each tile.
        unsafe {
            launch!(self.kernels.tiles_sample on &stream, grid; self.geometry, &list, count, &slab.bytes,
                slab.first_element, &mut sample)
        }?;
        Ok(sample)
    }

    /// Writes tiles of a batch, numbered from its first, to the array's elements from number `first_element` on.
    /// `sources` are the addresses of the elements of each chunk in tile order; chunks without one, or whose status is
    /// not 0, are skipped.
    pub fn scatter(
        &self,
        stream: &Arc<CudaStream>,
        batch: &ChunkBatch,
        tiles: Range<u32>,
        (sources, statuses): (&CudaView<'_, CUdeviceptr>, &CudaView<'_, u32>),
        (output, first_element): (&mut CudaViewMut<'_, u8>, u64),
    ) -> Result<()> {
        if tiles.is_empty() {
            return Ok(());
        }
        let grid = Grid::new((tiles.end - tiles.start).div_ceil(THREADS / 32), THREADS);
        // SAFETY: there are a source and a status for each chunk. A source has all elements of its chunk. The caller
        // has checked that the output contains the tiles' elements.
        unsafe {
            launch!(self.kernels.tiles_scatter on &stream, grid; self.geometry, *batch, tiles.start, tiles.end, sources,
                statuses, output, first_element)
        }
    }
}
