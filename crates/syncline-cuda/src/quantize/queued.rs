//! Quantizes arrays with constants that the host does not know when it queues the kernels, and lists the parts that
//! only some chunks have: launcher of `kernels/quantize/list.cu`.
//!
//! All sizes are those of the worst case, so that nothing waits for the device.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaViewMut, DevicePtrMut};
use syncline_core::array::ElementType;
use syncline_core::bound::Bound;
use syncline_core::geometry::Geometry;

use super::codes::{CodesArguments, CodesKernel};
use super::finish::{FinishKernel, FinishOutputs};
use super::gather::{GatherArguments, SideLists};
use super::quantized::Quantized;
use super::quantizer::check_slab;
use super::queued_bound::QueuedStep;
use super::scalar_tile::ScalarTileKernels;
use super::step::{Constants, KernelVariant};
use super::structs::{BatchLists, RecordInputsArgument, SideListPointers};
use super::wide::{MAX_LISTED, launch_wide};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::quantize::ChunkSummary;

declare_kernels! {
    /// The kernel of `kernels/quantize/list.cu`.
    pub(super) struct ListKernels in "quantize/list.cu", by (element_bytes: u32) {
        const THREADS: u32 = 256;
        with BITMAP_LOG2 = BITMAP_LOG2;
        fn quantize_list(geometry: DeviceGeometry, batch: ChunkBatch, summaries: Out<ChunkSummary>, lists: BatchLists);
    }
}

/// log2 of the bytes in a group of bitmaps.
const BITMAP_LOG2: u32 = 6;
/// Warps per multiprocessor that collect lists.
const GATHER_WARPS: u32 = 64;
/// The most bytes of a tile's bitmap.
pub(crate) const MOST_BITMAP_BYTES: u32 = 128;

/// Addresses of the lists of streams that only some chunks have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedStreams {
    /// Streams of wide codes; 0 if no chunk may have one.
    pub wide: CUdeviceptr,
    /// Streams of bitmaps of masks; 0 if no chunk may have one.
    pub masks: CUdeviceptr,
    /// Streams of bitmaps of signs, likewise.
    pub signs: CUdeviceptr,
    /// Entries of each list, at least one for each chunk of a batch.
    pub streams: u32,
}

/// The lists of a batch, with room for the worst case.
pub(crate) struct QueuedLists<'a> {
    /// Outliers, verbatim values and bitmaps.
    pub side: SideLists<'a>,
    /// Chunks that take the wide radius.
    wide_chunks: CudaViewMut<'a, u32>,
}

/// Quantizes and predicts the chunks of arrays of one type and shape.
#[derive(Debug)]
pub(crate) struct QueuedQuantizer {
    element_bytes: u32,
    geometry: Geometry,
    device_geometry: DeviceGeometry,
    with_classes: bool,
    /// For arrays without fill patterns, and, if there may be patterns, for arrays with them. The one that does not fit
    /// the constants does nothing.
    codes: Vec<CodesKernel>,
    finish: FinishKernel,
    scalar_tile: ScalarTileKernels,
    list: ListKernels,
    /// Warps that collect lists, about.
    gather_warps: u32,
}

impl QueuedQuantizer {
    /// Loads the kernels for arrays of `element` with this tiling, which have fill patterns only if `patterns`.
    ///
    /// # Errors
    /// Errors of [`Device::kernel`].
    pub fn new(
        device: &Device,
        element: ElementType,
        bound: Bound,
        group_log2: u8,
        geometry: &Geometry,
        patterns: bool,
    ) -> Result<Self> {
        let variant = |patterns| KernelVariant::unresolved(element, bound, geometry.axes() as u32, patterns);
        let codes = |patterns| CodesKernel::new(device, variant(patterns), geometry, true);
        let element_bytes = element.size() as u32;
        Ok(Self {
            element_bytes,
            geometry: geometry.clone(),
            device_geometry: DeviceGeometry::new(geometry, group_log2),
            with_classes: true,
            codes: if patterns { vec![codes(false)?, codes(true)?] } else { vec![codes(false)?] },
            finish: FinishKernel::new(device)?,
            scalar_tile: ScalarTileKernels::new(device, variant(true), true)?,
            list: ListKernels::load(device, element_bytes)?,
            gather_warps: device.info().multiprocessors * GATHER_WARPS,
        })
    }

    /// Returns the tiling of the array, as kernels take it.
    pub fn geometry(&self) -> &DeviceGeometry {
        &self.device_geometry
    }

    /// Returns the number of control words for `chunks` chunks.
    pub fn control_words(&self, chunks: u64) -> usize {
        let tiles = u64::from(self.geometry.tiles_per_chunk()).min(self.geometry.tiles());
        self.codes.iter().map(|codes| codes.control_words(chunks, tiles)).max().unwrap_or(0)
    }

    /// Quantizes a batch that has tiles, with the constants that are in memory by then. `control` has
    /// [`Self::control_words`] words that are 0, and `records` asks to clear them.
    pub fn quantize<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        batch: &ChunkBatch,
        control: &mut CudaViewMut<'_, u32>,
        records: RecordInputsArgument,
        step: &QueuedStep<'_>,
    ) -> Result<Quantized<'a>> {
        let stream = frame.stream().clone();
        check_slab(&stream, slab, &self.geometry, batch, self.element_bytes)?;
        let mut out = Quantized::new(frame, *batch, self.device_geometry.group_log2(), false)?;
        let outputs = out.outputs(&stream);
        for codes in &self.codes {
            let arguments = CodesArguments {
                slab,
                geometry: &self.geometry,
                device_geometry: self.device_geometry,
                batch: *batch,
                constants: Constants::InMemory(&step.words),
                follows_scan: step.follows_scan && codes.can_follow_scan(),
                use_vector: true,
                outputs,
            };
            codes.launch(&stream, &arguments, control)?;
        }
        let to = FinishOutputs {
            offsets: &mut out.offsets,
            group_classes: Some(&mut out.group_classes),
            summaries: &mut out.summaries,
            records,
        };
        self.finish.launch(&stream, self.device_geometry, *batch, self.with_classes, outputs, to)?;
        Ok(out)
    }

    /// Lists the parts of a quantized batch that only some chunks have. `status` is the address of the word of the
    /// status.
    pub fn list<'a>(
        &self,
        frame: &mut Frame<'a>,
        quantized: &mut Quantized<'_>,
        ListedStreams { wide, masks, signs, streams }: ListedStreams,
        status: CUdeviceptr,
    ) -> Result<QueuedLists<'a>> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        if streams < batch.chunks() {
            return Err(CudaError::invalid("every chunk may have streams of each kind"));
        }
        let wide_chunks = frame.slice(if wide == 0 { 0 } else { streams as usize })?;
        let mut lists = QueuedLists { side: self.side_lists(frame, &batch, masks != 0)?, wide_chunks };
        let arrays = BatchLists {
            starts: lists.side.device_starts.device_ptr_mut(&stream).0,
            wide_chunks: lists.wide_chunks.device_ptr_mut(&stream).0,
            wide,
            masks,
            signs,
            status,
            streams: streams.into(),
        };
        // SAFETY: there are a summary and a start for each chunk of the batch, and at least as many entries in each
        // list of streams; as many wide chunks if there are wide streams. One word for the status.
        unsafe {
            launch!(self.list.quantize_list on &stream, Grid::new(1, THREADS); self.device_geometry, batch,
                &mut quantized.summaries, arrays)
        }?;
        Ok(lists)
    }

    /// Allocates lists with room for the worst case. A chunk whose lists are as long as its elements is raw and has no
    /// lists, so that each list has at most as many bytes as the array.
    fn side_lists<'a>(&self, frame: &mut Frame<'a>, batch: &ChunkBatch, bitmaps: bool) -> Result<SideLists<'a>> {
        let elements = self.device_geometry.elements_before(batch.first_tile() + u64::from(batch.tiles()))
            - self.device_geometry.elements_before(batch.first_tile());
        let (elements, tiles) = (elements as usize, if bitmaps { batch.tiles() as usize } else { 0 });
        let bitmap_bytes = tiles * MOST_BITMAP_BYTES as usize;
        let element_bytes = self.element_bytes as usize;
        let outliers = elements * element_bytes / (size_of::<u32>() + size_of::<i32>()) + 1;
        let verbatim = elements * element_bytes / (size_of::<u32>() + element_bytes) + 1;
        Ok(SideLists {
            starts: Vec::new(),
            device_starts: frame.slice(batch.chunks() as usize)?,
            outlier_positions: frame.slice(outliers)?,
            residuals: frame.slice(outliers)?,
            verbatim_positions: frame.slice(verbatim)?,
            verbatim_values: frame.slice(verbatim * element_bytes)?,
            masks: frame.slice(bitmap_bytes)?,
            signs: frame.slice(bitmap_bytes)?,
        })
    }

    /// Rewrites the codes of the listed chunks with the wide radius, and collects outliers, verbatim values and
    /// bitmaps.
    pub fn gather(
        &self,
        frame: &Frame<'_>,
        slab: &Slab<'_>,
        quantized: &mut Quantized<'_>,
        lists: &mut QueuedLists<'_>,
        step: &QueuedStep<'_>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        check_slab(&stream, slab, &self.geometry, &batch, self.element_bytes)?;
        if batch.chunks() as usize > MAX_LISTED {
            return Err(CudaError::invalid("a batch of too many chunks: use smaller batches"));
        }
        let outputs = quantized.outputs(&stream);
        let what = (&self.device_geometry, &batch, Constants::InMemory(&step.words));
        if !lists.wide_chunks.is_empty() {
            let kernel = &self.scalar_tile.wide;
            launch_wide(kernel, &stream, slab, what, &lists.wide_chunks.as_view(), &outputs)?;
        }
        let side = &mut lists.side;
        let outliers = [side.outlier_positions.device_ptr_mut(&stream).0, side.residuals.device_ptr_mut(&stream).0];
        let entries = GatherArguments {
            outputs,
            exact: 0,
            lists: SideListPointers::new(&stream, outliers, side),
            starts: &side.device_starts.as_view(),
            offsets: &quantized.offsets.as_view(),
            tiles_of_warp: batch.tiles().div_ceil(self.gather_warps).clamp(1, 32),
        };
        entries.launch(&self.scalar_tile.gather, &stream, slab, what)
    }
}
