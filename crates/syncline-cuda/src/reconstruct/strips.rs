//! The launches of `kernels/reconstruct/strips.cu` and `kernels/reconstruct/flat.cu`.

#![allow(unsafe_code)]

use std::ops::Range;

use cudarc::driver::{CudaView, CudaViewMut};
use syncline_core::geometry::Geometry;

use super::Format;
use super::arguments::Wanted;
use super::structs::Cut;
use crate::container::structs::BatchFinish;
use crate::device::{Arena, Device, Frame, Kernel, ProgrammaticDependentLaunch};
use crate::error::{CudaError, Result};

/// Elements along each axis of a tile.
const SIDE: u64 = 8;
/// Planes of a block's image.
pub(super) const PLANES: u32 = 4;
/// Bytes of a block's image at most.
const IMAGE_BYTES: u32 = (9 << 10) * PLANES;
const THREADS: u32 = 256;
/// Threads of a block for strips of one value, and blocks that registers are dealt out for: 32 a thread. Each quarter
/// of a multiprocessor has registers left for a warp of so many beside the kernel that decodes; with more a thread (as
/// with fewer threads, for which the compiler takes more) the blocks wait for that to end and then crowd on the first
/// multiprocessors that are free: rtm in 294 microseconds instead of 127.
pub(super) const FLAT_THREADS: u32 = 128;
pub(super) const FLAT_RESIDENT: u32 = 16;
/// Shared memory that a block takes beside what it asks for.
const BLOCK_SHARED_MEMORY: u32 = 1 << 10;

/// `sizeof(Segment)` of `reconstruct/segments.cuh`.
const SEGMENT_BYTES: u32 = 40;

/// Threads of a block: eight a tile.
pub(super) fn threads(double: bool) -> u32 {
    if double { THREADS / 2 } else { THREADS }
}

/// Whether an array is faster made of strips than tile by tile: rows start anywhere, so that tiles would share sectors
/// with their neighbors, and few tiles are clipped, which take longer in strips.
pub(super) fn pays(geometry: &Geometry, element_bytes: u64) -> bool {
    let dims = geometry.dims();
    let unaligned = !dims[3].is_multiple_of(16 / element_bytes);
    let (whole, all) = (dims[2] / SIDE * (dims[3] / SIDE), dims[2].div_ceil(SIDE) * dims[3].div_ceil(SIDE));
    geometry.axes() == 3 && unaligned && 10 * whole >= 9 * all
}

impl Cut {
    /// Rows of tiles of an array with rows of `nx` elements of so many bytes, by blocks for so many tiles. All but
    /// where they start.
    fn new(nx: u64, element_bytes: u64, tiles: u64) -> Self {
        let (vector, sector) = (16 / element_bytes, 32 / element_bytes);
        let along = nx.div_ceil(SIDE);
        let segments = along.div_ceil(tiles);
        let width = along.div_ceil(segments);
        // Rows of the image are as far from each other as those of the array, but for multiples of 32 bytes; and not by
        // such a multiple themselves, or the rows of a tile meet in the banks.
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

/// Strips of a batch, segments counted apart.
#[derive(Debug)]
pub(super) struct StripBatch<'f> {
    cut: Cut,
    count: u32,
    /// What is known of each: [`Strips::launch_flat`] writes it, for [`Strips::launch`].
    states: CudaViewMut<'f, u8>,
}

/// Makes elements of sums of codes, a strip of rows at a time.
#[derive(Debug, Clone)]
pub(super) struct Strips {
    kernel: Kernel,
    flat: Kernel,
    threads: u32,
    cut: Cut,
    shared_bytes: u32,
    flat_shared_bytes: u32,
    along: u64,
    multiprocessors: u32,
}

impl Strips {
    /// For a 3-D array tiled as `geometry` says.
    pub(super) fn new(device: &Device, format: Format, geometry: &Geometry) -> Result<Self> {
        let threads = threads(format.double);
        let kernel = device.kernel(&format.strips(), "reconstruct_strips")?;
        let flat = device.kernel(&format.flat_strips(), "reconstruct_flat")?;
        let nx = geometry.dims()[3];
        let cut = Cut::new(nx, format.element_bytes(), u64::from(threads) / SIDE);
        let segments = threads / SIDE as u32 * SEGMENT_BYTES;
        let shared_bytes = segments + cut.image_bytes(format.element_bytes());
        // The same for all, as they share the kernel.
        kernel.allow_shared_memory(segments + IMAGE_BYTES)?;
        let flat_shared_bytes = FLAT_THREADS / 32 * cut.plane_pitch * format.element_bytes() as u32;
        let (along, multiprocessors) = (nx.div_ceil(SIDE), device.info().multiprocessors);
        Ok(Self { kernel, flat, threads, cut, shared_bytes, flat_shared_bytes, along, multiprocessors })
    }

    /// Shared memory of a multiprocessor that the kernel before leaves to [`Self::launch_flat`]'s, so that both run at
    /// the same time.
    pub(super) fn shared_beside(&self) -> u32 {
        if self.flat.waits_for_previous() { self.flat_shared_bytes + BLOCK_SHARED_MEMORY } else { 0 }
    }

    /// Bytes that the states of the strips of so many tiles take of a frame.
    pub(super) fn workspace(&self, tiles: u64) -> usize {
        // A row of tiles more at either end.
        let rows = (tiles / self.along + 2).div_ceil(self.cut.rows.into());
        Arena::bytes_for::<u8>((rows * u64::from(self.cut.segments)) as usize)
    }

    /// The strips that the tiles are in, and room for what becomes known of each.
    pub(super) fn batch<'f>(&self, frame: &mut Frame<'f>, tiles: &Range<u64>) -> Result<StripBatch<'f>> {
        let first_row = tiles.start / self.along;
        let rows = tiles.end.div_ceil(self.along) - first_row;
        let count = rows.div_ceil(self.cut.rows.into()).saturating_mul(self.cut.segments.into());
        let count = u32::try_from(count).ok().filter(|&count| count <= i32::MAX as u32);
        let count = count.ok_or_else(|| CudaError::invalid("the batch is too large: make several"))?;
        Ok(StripBatch { cut: Cut { first_row, ..self.cut }, count, states: frame.slice(count as usize)? })
    }

    /// Writes the strips that have one value throughout each row of tiles, and says which these are. Beside the kernel
    /// that was launched before.
    ///
    /// # Safety
    /// `wanted.parsed` is what parsing has left of the chunks: the kernel launched before waits for that before it lets
    /// another one begin, and neither reads nor writes what this one writes. The elements of the tiles lie in the
    /// output; `batch` is [`Self::batch`]'s; that kernel has a block for each multiprocessor, and the last of the
    /// `sums` of the chunks are 0, but for what it tells this one.
    pub(super) unsafe fn launch_flat(
        &self,
        frame: &Frame<'_>,
        wanted: &Wanted,
        batch: &mut StripBatch<'_>,
        output: &mut CudaViewMut<'_, u8>,
        sums: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let StripBatch { cut, count, states } = batch;
        let launch =
            ProgrammaticDependentLaunch::new(&self.flat, frame.stream()).value(wanted.geometry).value(wanted.parsed);
        let launch = launch.value(wanted.values).value(wanted.request).value(*cut).value(*count);
        let launch = launch.writes(output).writes(states).writes(sums);
        // SAFETY: parameters (Geometry, Parsed, Values, Request, Strips, u32, Element *, u8 *, u32 *). Strips are those
        // of the tiles; it writes the tiles' elements, which the caller has seen in the output, a state a strip, and
        // words of the sums; shared memory is that of an image's plane a warp. What parsing left of a chunk whose
        // status is 0 has been checked by it. What the kernel before is at work on is none of its business.
        unsafe { launch.launch(Kernel::grid(self.multiprocessors, FLAT_THREADS, self.flat_shared_bytes)) }
    }

    /// Reconstructs the tiles of all other strips.
    ///
    /// # Safety
    /// `wanted.parsed` is what parsing has left of the chunks, and `rows_of_sums` has those of the slots of all of
    /// them; the elements of the tiles lie in the output; [`Self::launch_flat`] has had the `batch`. What `ending`
    /// points to is of the batch of these chunks, and then `status` has a word a chunk; otherwise neither is touched.
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
        let launch = ProgrammaticDependentLaunch::new(&self.kernel, frame.stream()).reads(input).value(wanted.geometry);
        let launch = launch.value(wanted.parsed).value(wanted.values).value(wanted.request).value(batch.cut);
        let launch = launch.reads(rows_of_sums).reads(&batch.states).writes(output);
        let launch = launch.writes(sums).value(ending).reads(status);
        // SAFETY: parameters (const u8 *, Geometry, Parsed, Values, Request, Strips, const u16 *, const u8 *, Element
        // *, u32 *, BatchFinish, const u32 *). There is a block for each strip; strips are those of the tiles, whose
        // elements the caller has seen in the output; shared memory is that of segments and an image. What parsing left
        // of a chunk whose status is 0 has been checked by it; groups are bounded by the slots, for which there are
        // sums. Before it waits for the kernels before it, it reads states that it has waited for, and what parsing has
        // left, which the first of them has waited for.
        unsafe { launch.launch(Kernel::grid(batch.count, self.threads, self.shared_bytes)) }
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
                // Rows beside each other, and room for what a plane is moved by.
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
