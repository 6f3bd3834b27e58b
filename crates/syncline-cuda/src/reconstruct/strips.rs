//! Launches `kernels/reconstruct/strips.cu` and `kernels/reconstruct/flat.cu`.

#![allow(unsafe_code)]

use std::ops::Range;

use cudarc::driver::{CudaView, CudaViewMut};
use syncline_core::geometry::Geometry;

use super::Format;
use super::arguments::Wanted;
use super::kernels::{FlatKernels, StripsKernels};
use super::structs::Cut;
use crate::container::structs::BatchFinish;
use crate::device::{Arena, Device, Frame, Grid};
use crate::device_kernels::launch;
use crate::error::{CudaError, Result};

/// Elements of a tile along each axis.
const SIDE: u64 = 8;
/// Planes of a block's image: the elements that it collects in shared memory.
pub(super) const PLANES: u32 = 4;
/// Maximum bytes of a block's image.
const IMAGE_BYTES: u32 = (9 << 10) * PLANES;
const THREADS: u32 = 256;
/// Threads of a block for strips of a single value, and the resident blocks per multiprocessor for which registers are
/// limited: 32 per thread. Each quarter of a multiprocessor then has registers left for a warp beside the kernel that
/// decodes. With more registers per thread (or with fewer threads, for which the compiler takes more registers), the
/// blocks wait until that kernel ends and then all run on the first free multiprocessors: the data set rtm took 294
/// instead of 127 microseconds.
pub(super) const FLAT_THREADS: u32 = 128;
pub(super) const FLAT_RESIDENT: u32 = 16;
/// Shared memory in bytes that a block takes in addition to its dynamic shared memory.
const BLOCK_SHARED_MEMORY: u32 = 1 << 10;

/// `sizeof(Segment)` of `reconstruct/segments.cuh`.
const SEGMENT_BYTES: u32 = 40;

/// Returns the threads of a block: eight per tile.
pub(super) fn threads(double: bool) -> u32 {
    if double { THREADS / 2 } else { THREADS }
}

/// Returns the resident blocks per multiprocessor for which registers are limited. Logarithms take more registers.
pub(super) fn resident(format: Format) -> u32 {
    if format.logarithm { 512 / threads(format.double) } else { 4 }
}

/// Returns whether reconstructing an array in strips is faster than tile by tile: its rows are not aligned, so that
/// neighboring tiles would share memory sectors, and few tiles are clipped, which take longer in strips.
pub(super) fn pays(geometry: &Geometry, element_bytes: u64) -> bool {
    let dims = geometry.dims();
    let unaligned = !dims[3].is_multiple_of(16 / element_bytes);
    let (whole, all) = (dims[2] / SIDE * (dims[3] / SIDE), dims[2].div_ceil(SIDE) * dims[3].div_ceil(SIDE));
    geometry.axes() == 3 && unaligned && 10 * whole >= 9 * all
}

impl Cut {
    /// Divides the rows of tiles of an array into strips, for rows of `nx` elements of `element_bytes` bytes and blocks
    /// of `tiles` tiles. `first_row` is left at 0.
    fn new(nx: u64, element_bytes: u64, tiles: u64) -> Self {
        let (vector, sector) = (16 / element_bytes, 32 / element_bytes);
        let along = nx.div_ceil(SIDE);
        let segments = along.div_ceil(tiles);
        let width = along.div_ceil(segments);
        // The pitch of the image's rows equals that of the array's rows modulo 32 bytes. It is not a multiple of 32
        // bytes itself, because the rows of a tile would then be in the same shared-memory banks.
        let meets = |pitch: u64| pitch.is_multiple_of(sector);
        let whole = segments == 1 && !meets(nx);
        let mut row_pitch = if whole { nx } else { width * SIDE + nx % sector };
        if meets(row_pitch) {
            row_pitch += vector;
        }
        let plane_pitch = (SIDE * row_pitch + sector - 1).next_multiple_of(sector);
        let row_bytes = u64::from(PLANES) * plane_pitch * element_bytes;
        let rows = if segments == 1 { (tiles / width).min(u64::from(IMAGE_BYTES) / row_bytes).max(1) } else { 1 };
        Self {
            first_row: 0,
            rows: rows as u32,
            segments: segments as u32,
            width: width as u32,
            row_pitch: row_pitch as u32,
            plane_pitch: plane_pitch as u32,
            whole: whole.into(),
            by_width: (1_u32 << 16).div_ceil(width as u32),
            unused: 0,
        }
    }

    fn image_bytes(&self, element_bytes: u64) -> u32 {
        self.rows * PLANES * self.plane_pitch * element_bytes as u32
    }
}

/// The strips of a batch. The segments of a row count as separate strips.
#[derive(Debug)]
pub(super) struct StripBatch<'f> {
    cut: Cut,
    count: u32,
    /// A state per strip, which [`Strips::launch_flat`] writes and [`Strips::launch`] reads.
    states: CudaViewMut<'f, u8>,
}

/// Computes elements from sums of codes, one strip of rows at a time.
#[derive(Debug, Clone)]
pub(super) struct Strips {
    strips: StripsKernels,
    flat: FlatKernels,
    threads: u32,
    cut: Cut,
    shared_bytes: u32,
    flat_shared_bytes: u32,
    along: u64,
    multiprocessors: u32,
}

impl Strips {
    /// Loads the kernels for a 3-D array with this tiling.
    pub(super) fn new(device: &Device, format: Format, geometry: &Geometry) -> Result<Self> {
        let threads = threads(format.double);
        let strips = StripsKernels::load(device, format)?;
        let flat = FlatKernels::load(device, format)?;
        let nx = geometry.dims()[3];
        let cut = Cut::new(nx, format.element_bytes(), u64::from(threads) / SIDE);
        let segments = threads / SIDE as u32 * SEGMENT_BYTES;
        let shared_bytes = segments + cut.image_bytes(format.element_bytes());
        // The maximum for any array, because all arrays share the kernel.
        strips.reconstruct_strips.allow_shared_memory(segments + IMAGE_BYTES)?;
        let flat_shared_bytes = FLAT_THREADS / 32 * cut.plane_pitch * format.element_bytes() as u32;
        let (along, multiprocessors) = (nx.div_ceil(SIDE), device.info().multiprocessors);
        Ok(Self { strips, flat, threads, cut, shared_bytes, flat_shared_bytes, along, multiprocessors })
    }

    /// Returns the bytes of a multiprocessor's shared memory that the decoding kernel must leave to the kernel of
    /// [`Self::launch_flat`], so that both run concurrently.
    pub(super) fn shared_beside(&self) -> u32 {
        if self.flat.reconstruct_flat.waits_for_previous() { self.flat_shared_bytes + BLOCK_SHARED_MEMORY } else { 0 }
    }

    /// Returns the bytes of a frame that the states of the strips of `tiles` tiles take.
    pub(super) fn workspace(&self, tiles: u64) -> usize {
        // The tiles may include parts of one more row of tiles at either end.
        let rows = (tiles / self.along + 2).div_ceil(self.cut.rows.into());
        Arena::bytes_for::<u8>((rows * u64::from(self.cut.segments)) as usize)
    }

    /// Returns the strips that contain the tiles, with memory for their states.
    pub(super) fn batch<'f>(&self, frame: &mut Frame<'f>, tiles: &Range<u64>) -> Result<StripBatch<'f>> {
        let first_row = tiles.start / self.along;
        let rows = tiles.end.div_ceil(self.along) - first_row;
        let count = rows.div_ceil(self.cut.rows.into()).saturating_mul(self.cut.segments.into());
        let count = u32::try_from(count).ok().filter(|&count| count <= i32::MAX as u32);
        let count = count.ok_or_else(|| CudaError::invalid("the batch is too large: make several"))?;
        Ok(StripBatch { cut: Cut { first_row, ..self.cut }, count, states: frame.slice(count as usize)? })
    }

    /// Queues the kernel that writes the strips that have a single value in each row of tiles, and records which these
    /// are. It runs concurrently with the kernel launched before it, which decodes.
    ///
    /// # Safety
    /// `wanted.parsed` is the result of parsing the chunks. The decoding kernel waits for parsing before it lets this
    /// one start, accesses nothing that this one writes, has a block for each multiprocessor, and only uses the last
    /// words of `sums` to signal this one; they are 0 otherwise. The output contains the elements of the tiles. `batch`
    /// was returned by [`Self::batch`] for these tiles.
    pub(super) unsafe fn launch_flat(
        &self,
        frame: &Frame<'_>,
        wanted: &Wanted,
        batch: &mut StripBatch<'_>,
        output: &mut CudaViewMut<'_, u8>,
        sums: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let StripBatch { cut, count, states } = batch;
        let Wanted { geometry, parsed, values, request } = *wanted;
        let grid = Grid::new(self.multiprocessors, FLAT_THREADS).shared_memory(self.flat_shared_bytes).early(true);
        // SAFETY: the kernel writes the elements of the tiles, which the caller guarantees to be in the output, a state
        // per strip, and words of the sums. The shared memory holds a plane of the image for each warp. Parsing has
        // validated the results for chunks whose status is 0. The concurrent kernel accesses none of this memory, as
        // the caller guarantees.
        unsafe {
            launch!(self.flat.reconstruct_flat on frame.stream(), grid; geometry, parsed, values, request, *cut, *count,
                output, states, sums)
        }
    }

    /// Reconstructs the tiles of all other strips.
    ///
    /// # Safety
    /// `wanted.parsed` is the result of parsing the chunks, and `rows_of_sums` has the sums of all their slots. The
    /// output contains the elements of the tiles. `batch` was passed to [`Self::launch_flat`]. If `ending` requests
    /// finishing the batch, it points to memory of the batch of these chunks, and `status` has a word per chunk.
    #[expect(clippy::too_many_arguments, reason = "the kernel's arguments")]
    pub(super) unsafe fn launch(
        &self,
        frame: &Frame<'_>,
        input: &CudaView<'_, u8>,
        wanted: &Wanted,
        batch: &StripBatch<'_>,
        rows_of_sums: &CudaView<'_, u16>,
        output: &mut CudaViewMut<'_, u8>,
        sums: &mut CudaViewMut<'_, u32>,
        ending: BatchFinish,
        status: &CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let Wanted { geometry, parsed, values, request } = *wanted;
        let grid = Grid::new(batch.count, self.threads).shared_memory(self.shared_bytes).early(true);
        // SAFETY: there is a block for each strip; the strips contain the tiles, whose elements are in the output as
        // the caller guarantees. The shared memory holds the segments and an image. Parsing has validated the results
        // for chunks whose status is 0; groups are bounded by the slots, for which there are sums. Before the kernel
        // waits for the previous kernels, it only reads states, for which it waits separately, and results of parsing,
        // for which the first of these kernels has waited.
        unsafe {
            launch!(self.strips.reconstruct_strips on frame.stream(), grid; input, geometry, parsed, values, request,
                batch.cut, rows_of_sums, &batch.states, output, sums, ending, status)
        }
    }
}

#[cfg(test)]
mod tests {
    use syncline_core::array::Shape;

    use super::*;

    #[test]
    fn images_lie_as_arrays_do() {
        for (element, tiles) in [(4, 32), (8, 16)] {
            let (vector, sector) = (16 / element, 32 / element);
            for nx in (1..600).chain([1000, 4095, 4096, 4097, 1 << 20, (1 << 32) + 3]) {
                let cut = Cut::new(nx, element, tiles);
                let (rows, width) = (u64::from(cut.rows), u64::from(cut.width));
                let (pitch, plane) = (u64::from(cut.row_pitch), u64::from(cut.plane_pitch));
                let what = format!("{nx} of {element}: {cut:?}");
                assert!(rows * width <= tiles && rows > 0 && (rows == 1 || cut.segments == 1), "{what}");
                let along = nx.div_ceil(SIDE);
                let segments = u64::from(cut.segments);
                assert!(segments * width >= along && (segments - 1) * width < along, "{what}");
                // A row of the image holds the tiles side by side, and space to shift a plane for alignment.
                assert!(pitch >= nx.min(width * SIDE) && pitch % vector == nx % vector, "{what}");
                assert!(nx % sector == 0 || pitch % sector == nx % sector, "{what}");
                assert!(plane >= SIDE * pitch + sector - 1 && plane.is_multiple_of(sector), "{what}");
                assert!(!pitch.is_multiple_of(sector) && (cut.whole == 0 || pitch == nx), "{what}");
                assert!(cut.image_bytes(element) <= IMAGE_BYTES, "{what}");
                for slot in 0..tiles as u32 {
                    assert_eq!((slot * cut.by_width) >> 16, slot / cut.width, "{what}");
                }
            }
        }
    }

    #[test]
    fn strips_are_for_rows_that_start_anywhere_and_few_clipped_tiles() {
        let pays_for = |extents: &[u64], bytes| {
            let geometry = Geometry::new(Shape::new(extents).unwrap());
            pays(&geometry, bytes)
        };
        assert!(pays_for(&[449, 449, 235], 4) && pays_for(&[449, 449, 235], 8));
        assert!(!pays_for(&[512, 512, 512], 4) && !pays_for(&[100, 500, 500], 4), "rows start on 16 bytes");
        assert!(!pays_for(&[288, 115, 69, 69], 4), "many tiles are clipped");
        assert!(!pays_for(&[1801, 3601], 4), "2-D");
    }
}
