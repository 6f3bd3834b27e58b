//! Elements to codes: launchers of `kernels/quantize/codes.cu`, `quantize/finish.cu` and `quantize/wide.cu`.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, PushKernelArg, ValidAsZeroBits,
};
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::predict::codes::WIDE_RADIUS;

use super::gather::SideOffsets;
use super::kernels::{
    FEW_UNITS, FINISH_CLUSTER, FINISH_THREADS, GATHER, MANY_CLIPPED_SHARE, WARPS, WIDE, block_shape,
    codes_specialization, finish_specialization, is_ahead, is_clipped, may_have_many_clipped, shared_memory, threads,
    tile_specialization,
};
use super::scan::FoundStep;
use super::step::{Kind, STEP_WORDS, Step};
use crate::container::prepared::ForRecords;
use crate::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, fetch};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Divider32, Slab};

/// Chunks whose blocks of work take turns: 64 measured faster than 32, and that than 4.
const CHUNKS_IN_TURN: u32 = 64;
/// Words of the counter of tickets, and of what says which codes a chunk has: `LINE_WORDS` in quantize/quantize.cuh.
const LINE_WORDS: u64 = 32;
/// First architecture whose blocks form clusters.
const CLUSTER_ARCHITECTURE: u32 = 90;
/// Chunks that the second dimension of a grid can have.
const MOST_LISTED: usize = 65_535;

/// Blocks that share a chunk when it is finished: parts that its tiles are summed up in.
pub(crate) fn parts_of_chunk(device: &Device) -> u32 {
    if device.info().architecture >= CLUSTER_ARCHITECTURE { FINISH_CLUSTER } else { 1 }
}

/// What came out of a chunk. Counts are those of the chunk's radius.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChunkSummary {
    /// Groups of codes.
    pub groups: u32,
    /// Residuals that no code has.
    pub outliers: u32,
    /// Values stored as they are.
    pub verbatim: u32,
    /// Bytes of the bitmaps of masks.
    pub mask_bytes: u32,
    /// Bytes of the bitmaps of signs.
    pub sign_bytes: u32,
    /// Radius that the chunk takes: 512 or 32768.
    pub radius: u32,
    /// Sum of the squared errors, if the bound is a PSNR, in `syncline_core`'s units.
    pub squared_error: u64,
    /// Elements that the sum is over.
    pub counted: u64,
}

// SAFETY: plain numbers without padding, laid out as `ChunkSummary` in quantize/finish.cu.
unsafe impl DeviceRepr for ChunkSummary {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for ChunkSummary {}

/// `Outputs` in quantize/quantize.cuh.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Outputs([CUdeviceptr; 10]);

// SAFETY: ten device addresses, as `Outputs` has.
unsafe impl DeviceRepr for Outputs {}

impl Outputs {
    /// With other counts of outliers.
    pub(super) fn with_outliers(mut self, counts: CUdeviceptr) -> Self {
        self.0[3] = counts;
        self
    }
}

/// `Launch` in quantize/codes.cu and quantize/codes_clipped.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Launch {
    first_element: u64,
    chunk_blocks: u32,
    aligned: u32,
    use_fast: u32,
    chunks_in_turn: u32,
    by_turn: Divider32,
    by_chunks: Divider32,
    by_last_chunks: Divider32,
    by_long_chunks: Divider32,
    by_grid: [Divider32; 3],
    /// Whether tiles of the array have numbers of 32 bits, as `by_grid` needs.
    few_tiles: u32,
    last_blocks: u32,
    unused: u32,
}

// SAFETY: plain numbers without padding, laid out as `Launch` in quantize/codes_clipped.cu, which that of
// quantize/codes.cu is the beginning of.
unsafe impl DeviceRepr for Launch {}

/// A batch of chunks up to the codes, in memory of an arena. Tiles are numbered from the batch's first.
#[derive(Debug)]
pub struct Quantized<'a> {
    /// The chunks.
    pub batch: ChunkBatch,
    /// What each tile is: [`TileBits`](super::TileBits).
    pub metas: CudaViewMut<'a, u16>,
    /// Base of each tile.
    pub bases: CudaViewMut<'a, i32>,
    /// Bin of each tile's activity.
    pub bins: CudaViewMut<'a, u8>,
    /// Outliers of each tile.
    pub outliers: CudaViewMut<'a, u16>,
    /// Verbatim values of each tile.
    pub verbatim: CudaViewMut<'a, u16>,
    /// First group of each tile in its chunk; of a constant tile that of the next.
    pub first_groups: CudaViewMut<'a, u32>,
    /// Codes: chunk `i` of the batch from group [`ChunkBatch::first_slot`] on, those of its tiles that are not
    /// constant, dense.
    pub codes: CudaViewMut<'a, u16>,
    /// Class of each group, in the same places; 0 where a chunk takes the wide radius, and without the symbol index.
    pub group_classes: CudaViewMut<'a, u8>,
    /// What came out of each chunk.
    pub summaries: CudaViewMut<'a, ChunkSummary>,
    /// Where each tile's entries of the side lists start, in its chunk.
    pub(crate) offsets: CudaViewMut<'a, SideOffsets>,
    wide_outliers: CudaViewMut<'a, u16>,
    errors: Option<CudaViewMut<'a, u64>>,
    counted: Option<CudaViewMut<'a, u16>>,
}

impl<'a> Quantized<'a> {
    fn new(frame: &mut Frame<'a>, batch: ChunkBatch, group_log2: u32, measure: bool) -> Result<Self> {
        let (tiles, chunks) = (batch.tiles() as usize, batch.chunks() as usize);
        let groups = batch.first_slot(batch.chunks()) as usize;
        Ok(Self {
            batch,
            metas: frame.slice(tiles)?,
            bases: frame.slice(tiles)?,
            bins: frame.slice(tiles)?,
            outliers: frame.slice(tiles)?,
            verbatim: frame.slice(tiles)?,
            first_groups: frame.slice(tiles)?,
            codes: frame.slice(groups << group_log2)?,
            group_classes: frame.slice(groups)?,
            summaries: frame.slice(chunks)?,
            offsets: frame.slice(tiles)?,
            wide_outliers: frame.slice(tiles)?,
            errors: measure.then(|| frame.slice(tiles)).transpose()?,
            counted: measure.then(|| frame.slice(tiles)).transpose()?,
        })
    }

    pub(super) fn pointers(&mut self, stream: &Arc<CudaStream>) -> Outputs {
        // All of it is used on this one stream, whose order is all the order there need be.
        Outputs([
            self.metas.device_ptr_mut(stream).0,
            self.bases.device_ptr_mut(stream).0,
            self.bins.device_ptr_mut(stream).0,
            self.outliers.device_ptr_mut(stream).0,
            self.wide_outliers.device_ptr_mut(stream).0,
            self.verbatim.device_ptr_mut(stream).0,
            self.first_groups.device_ptr_mut(stream).0,
            self.errors.as_mut().map_or(0, |errors| errors.device_ptr_mut(stream).0),
            self.counted.as_mut().map_or(0, |counted| counted.device_ptr_mut(stream).0),
            self.codes.device_ptr_mut(stream).0,
        ])
    }

    /// Copies the summaries to the host, which waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn read_summaries(&self, stream: &Arc<CudaStream>) -> Result<Vec<ChunkSummary>> {
        if self.summaries.is_empty() {
            return Ok(Vec::new());
        }
        fetch(stream, &self.summaries, "reading what came out of the chunks")
    }
}

/// Quantizes and predicts the chunks of one stream.
#[derive(Debug)]
pub struct Quantizer {
    pub(super) kind: Kind,
    pub(super) step: Step,
    pub(super) geometry: Geometry,
    pub(super) device_geometry: DeviceGeometry,
    with_classes: bool,
    /// Whether the fast way may be taken at all: tests compare it with the plain one.
    use_fast: bool,
    codes: Kernel,
    /// Whether it fetches ahead: that one can take its constants from memory.
    ahead: bool,
    /// Units of a block of it.
    units: u32,
    shared_memory: u32,
    /// Blocks of it that the device runs at a time.
    blocks: u32,
    finish: Kernel,
    /// Blocks of it for a chunk.
    finish_blocks: u32,
    wide: Kernel,
    pub(super) gather: Kernel,
}

impl Quantizer {
    /// For a stream with this header over an array with this tiling.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the stream is not quantized; errors of [`Device::kernel`].
    pub fn new(device: &Device, header: &Header, geometry: &Geometry) -> Result<Self> {
        let kind = Kind::of(header, geometry.axes() as u32)?;
        let ahead = is_ahead(kind, geometry);
        let room = device.info().shared_memory_per_block;
        let (units, blocks) = block_shape(kind, ahead);
        let units = if shared_memory(kind, ahead, units) <= room { units } else { FEW_UNITS };
        let shared_memory = shared_memory(kind, ahead, units);
        let many_clipped = may_have_many_clipped(kind) && is_clipped(kind, geometry, MANY_CLIPPED_SHARE);
        let codes = device.kernel(&codes_specialization(kind, ahead, many_clipped, units, blocks), "quantize_codes")?;
        codes.allow_shared_memory(shared_memory)?;
        let resident = codes.blocks_per_multiprocessor(threads(ahead, units), shared_memory)?.max(1);
        Ok(Self {
            kind,
            step: Step::new(header, true),
            geometry: geometry.clone(),
            device_geometry: DeviceGeometry::new(geometry, header.group_log2),
            with_classes: header.index == IndexKind::Symbol,
            use_fast: true,
            codes,
            ahead,
            units,
            shared_memory,
            blocks: resident * device.info().multiprocessors,
            finish: device.kernel(&finish_specialization(), "quantize_finish")?,
            finish_blocks: parts_of_chunk(device),
            wide: device.kernel(&tile_specialization(kind, WIDE), "quantize_wide")?,
            gather: device.kernel(&tile_specialization(kind, GATHER), "quantize_gather")?,
        })
    }

    /// Takes the step of another stream's header, if that needs the same kernels: looking for these takes longer than
    /// launching them.
    pub(crate) fn adapt(&mut self, header: &Header, geometry: &Geometry) -> bool {
        let fits = self.fits(header, geometry);
        if fits {
            self.step = Step::new(header, true);
        }
        fits
    }

    /// Whether streams of such an array need the same kernels and as much beside them.
    fn fits(&self, header: &Header, geometry: &Geometry) -> bool {
        Kind::of(header, geometry.axes() as u32).is_ok_and(|kind| kind == self.kind)
            && DeviceGeometry::new(geometry, header.group_log2) == self.device_geometry
            && (header.index == IndexKind::Symbol) == self.with_classes
    }

    /// Says whether there may be -0.0 among the elements, until the next stream.
    pub(crate) fn set_minus_zeros(&mut self, any: bool) {
        self.step.set_minus_zeros(any);
    }

    /// Whether streams of such an array can be quantized before the host knows the bound, if there is nothing to mask.
    pub(crate) fn may_begin_early(&self, header: &Header, geometry: &Geometry) -> bool {
        self.ahead && !self.kind.patterns && self.fits(header, geometry)
    }

    /// Takes the step of a header of the same array, and says whether what was quantized with the constants `found` is
    /// quantized as the stream wants it.
    pub(crate) fn confirm(&mut self, header: &Header, minus_zeros: bool, found: FoundStep) -> bool {
        self.step = Step::new(header, minus_zeros);
        Kind::of(header, self.kind.axes).is_ok_and(|kind| kind == self.kind) && self.step.words() == found.0
    }

    /// The same without the fast way of unclipped tiles: to test one against the other.
    #[doc(hidden)]
    #[must_use]
    pub fn without_fast_way(self) -> Self {
        Self { use_fast: false, ..self }
    }

    /// The tiling, as the kernels take it.
    pub fn geometry(&self) -> &DeviceGeometry {
        &self.device_geometry
    }

    /// Quantizes chunks `chunks` with radius 512, and finds which of them take the wide one. All on the frame's stream.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are no such chunks, or the slab has not all of their elements;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn quantize<'a>(&self, frame: &mut Frame<'a>, slab: &Slab<'_>, chunks: Range<u64>) -> Result<Quantized<'a>> {
        let batch = ChunkBatch::new(&self.geometry, self.device_geometry.group_log2() as u8, chunks)?;
        let mut control = frame.zeros(self.control_words(batch.chunks().into()))?;
        self.quantize_with(frame, slab, &batch, &mut control, ForRecords::default(), None)
    }

    /// Words that so many chunks are counted with.
    pub(crate) fn control_words(&self, chunks: u64) -> usize {
        let tiles = u64::from(self.geometry.tiles_per_chunk()).min(self.geometry.tiles());
        let words = chunks.saturating_mul(tiles.div_ceil(self.unit_tiles()).saturating_add(LINE_WORDS));
        usize::try_from(words).unwrap_or(usize::MAX - LINE_WORDS as usize) + LINE_WORDS as usize
    }

    /// Tiles that a block takes at a time.
    fn unit_tiles(&self) -> u64 {
        u64::from(self.units) * if self.kind.axes == 3 { 2 } else { 1 }
    }

    /// [`Self::quantize`] with [`Self::control_words`] words that are 0, and are not afterwards unless `records` has
    /// them cleared. Leaves what `records` says for the chunks' records. With `step` the constants are those in device
    /// memory when what was launched before is done, if [`Self::may_begin_early`] says so.
    ///
    /// # Errors
    /// As [`Self::quantize`]; also if there are too few words.
    pub(crate) fn quantize_with<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        batch: &ChunkBatch,
        control: &mut CudaViewMut<'_, u32>,
        records: ForRecords,
        step: Option<&CudaView<'_, u64>>,
    ) -> Result<Quantized<'a>> {
        let stream = frame.stream().clone();
        let group_log2 = self.device_geometry.group_log2();
        let mut out = Quantized::new(frame, *batch, group_log2, self.kind.measure)?;
        self.check(&stream, slab, batch)?;
        if batch.tiles() == 0 {
            return Ok(out);
        }
        let chunk_blocks = (batch.tiles_of(0).len() as u64).div_ceil(self.unit_tiles()) as u32;
        let blocks = batch.chunks() * chunk_blocks;
        if (control.len() as u64) < u64::from(blocks) + LINE_WORDS * (1 + u64::from(batch.chunks())) {
            return Err(CudaError::invalid("too few words to count blocks with"));
        }
        let chunks_in_turn = CHUNKS_IN_TURN.min(batch.chunks());
        // Chunks in the last turn, of which the very last may be shorter.
        let last_chunks = (batch.chunks() - 1) % chunks_in_turn + 1;
        let last_blocks = (batch.tiles_of(batch.chunks() - 1).len() as u64).div_ceil(self.unit_tiles()) as u32;
        let few_tiles = self.device_geometry.tiles() <= u64::from(u32::MAX);
        let launch_constants = Launch {
            first_element: slab.first_element,
            chunk_blocks,
            aligned: self.is_aligned(&stream, slab).into(),
            use_fast: self.use_fast.into(),
            chunks_in_turn,
            by_turn: Divider32::new(chunks_in_turn * chunk_blocks),
            by_chunks: Divider32::new(chunks_in_turn),
            by_last_chunks: Divider32::new(last_chunks),
            by_long_chunks: Divider32::new(last_chunks - 1),
            by_grid: self.device_geometry.grid().map(|tiles| Divider32::new(tiles.try_into().unwrap_or(1))),
            few_tiles: few_tiles.into(),
            last_blocks,
            unused: 0,
        };
        let pointers = out.pointers(&stream);
        if step.is_some_and(|step| !self.ahead || step.len() != STEP_WORDS) {
            return Err(CudaError::invalid("this quantizer does not take its constants from memory"));
        }
        let launch = ProgrammaticDependentLaunch::new(&self.codes, &stream).early(step.is_some());
        let launch = launch.reads(&slab.bytes).value(self.device_geometry).value(*batch).value(self.step);
        let mut launch = launch.value(launch_constants).value(pointers).writes(control);
        if self.ahead {
            launch = match step {
                Some(step) => launch.reads(step),
                None => launch.value(0_u64),
            };
        }
        let grid = Kernel::grid(blocks.min(self.blocks), threads(self.ahead, self.units), self.shared_memory);
        // SAFETY: the kernel's parameters are (const Element *, Geometry, ChunkBatch, Step, Launch, Outputs, u32 *),
        // and of the one that fetches ahead then a const Step *. It reads the elements of the batch's tiles, which
        // `check` found in the slab, writes an entry for each tile and each chunk's codes within its slots, as many as
        // its tiles can have, whatever the constants are, and `control` has a line, one for each chunk and a state for
        // each block of work, cleared. Where it may begin early, beside the scan of these elements, nothing else is at
        // work on the elements or `control`, and it waits before it touches the rest.
        unsafe { launch.launch(grid) }?;

        let launch = ProgrammaticDependentLaunch::new(&self.finish, &stream);
        let launch =
            launch.value(self.device_geometry).value(*batch).value(u32::from(self.with_classes)).value(pointers);
        let launch =
            launch.writes(&mut out.offsets).writes(&mut out.group_classes).writes(&mut out.summaries).value(records);
        // SAFETY: the kernel's parameters are (Geometry, ChunkBatch, u32, Outputs, SideOffsets *, u8 *, ChunkSummary *,
        // ForRecords): an entry for each tile, each group slot and each chunk; what `Prepared` has room for, if it made
        // `records`, and nothing if they are none. It waits before it touches any of it.
        unsafe { launch.launch(Kernel::grid(batch.chunks() * self.finish_blocks, FINISH_THREADS, 0)) }?;
        Ok(out)
    }

    /// Writes the codes of radius 32768 of those chunks of the batch that take it, by their summaries.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if summaries or slab do not fit the batch; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn widen(
        &self,
        frame: &mut Frame<'_>,
        slab: &Slab<'_>,
        quantized: &mut Quantized<'_>,
        summaries: &[ChunkSummary],
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        self.check(&stream, slab, &batch)?;
        if summaries.len() != batch.chunks() as usize {
            return Err(CudaError::invalid(format!("{} summaries of {} chunks", summaries.len(), batch.chunks())));
        }
        let wide: Vec<u32> = (0..batch.chunks()).filter(|&c| summaries[c as usize].radius == WIDE_RADIUS).collect();
        for listed in wide.chunks(MOST_LISTED) {
            let mut chunks = frame.slice::<u32>(listed.len())?;
            stream.memcpy_htod(listed, &mut chunks).doing("uploading the list of chunks")?;
            let pointers = quantized.pointers(&stream);
            let chunks = chunks.as_view();
            let mut launch = stream.launch_builder(self.wide.function());
            launch.arg(&slab.bytes).arg(&slab.first_element).arg(&self.device_geometry).arg(&batch).arg(&self.step);
            launch.arg(&chunks).arg(&pointers);
            let mut grid = Kernel::grid((batch.tiles_of(0).len() as u32).div_ceil(WARPS), WARPS * 32, 0);
            grid.grid_dim.1 = listed.len() as u32;
            // SAFETY: the kernel's parameters are (const Element *, u64, Geometry, ChunkBatch, Step, const u32 *,
            // Outputs); the chunks listed are the batch's, the slab has their elements, and their codes go where
            // `quantize` has put them.
            unsafe { launch.launch(grid) }.doing("widening chunks")?;
        }
        Ok(())
    }

    pub(super) fn check(&self, stream: &Arc<CudaStream>, slab: &Slab<'_>, batch: &ChunkBatch) -> Result<()> {
        slab.check(&self.geometry, batch, self.kind.element_bytes)?;
        if !slab.bytes.device_ptr(stream).0.is_multiple_of(self.kind.element_bytes.into()) {
            return Err(CudaError::invalid("the elements must be aligned to their size"));
        }
        Ok(())
    }

    /// Whether every quad of elements of an unclipped tile starts on a multiple of 16 bytes.
    fn is_aligned(&self, stream: &Arc<CudaStream>, slab: &Slab<'_>) -> bool {
        let bytes = u64::from(self.kind.element_bytes);
        let origin = slab.bytes.device_ptr(stream).0.wrapping_sub(slab.first_element.wrapping_mul(bytes));
        let [_, _, _, x] = self.geometry.dims();
        origin.is_multiple_of(16) && (self.kind.axes == 1 || (x * bytes).is_multiple_of(16))
    }
}
