//! Collects outliers, verbatim values and bitmaps: launcher of `kernels/quantize/gather.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};

use super::WARPS;
use super::step::{Constants, KernelVariant};
use super::structs::{ChunkSummary, Outputs, SideListPointers, SideOffsets, SideStarts};
use crate::device::{Frame, Grid};
use crate::device_kernels::{In, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};

declare_kernels! {
    /// The kernel of `kernels/quantize/gather.cu`.
    pub(super) struct GatherKernels in "quantize/gather.cu", of (variant: KernelVariant), by (step_in_memory: bool) {
        with ELEMENT_BYTES = variant.element_bytes;
        with LOGARITHM = variant.logarithm;
        with AXES = variant.axes;
        with WARPS = WARPS;
        fn quantize_gather(
            slab: In<u8> as "const Element *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            constants: Constants<'static>, starts: In<SideStarts>, offsets: In<SideOffsets>, outputs: Outputs,
            exact: CUdeviceptr as "const uint32_t *", lists: SideListPointers, tiles_of_warp: u32,
        );
    }
}

impl SideListPointers {
    /// Combines lists of outliers with the other lists of `lists`.
    pub(super) fn new(
        stream: &Arc<CudaStream>,
        [outlier_positions, residuals]: [CUdeviceptr; 2],
        lists: &mut SideLists<'_>,
    ) -> Self {
        Self {
            outlier_positions,
            residuals,
            verbatim_positions: lists.verbatim_positions.device_ptr_mut(stream).0,
            verbatim_values: lists.verbatim_values.device_ptr_mut(stream).0,
            masks: lists.masks.device_ptr_mut(stream).0,
            signs: lists.signs.device_ptr_mut(stream).0,
        }
    }
}

/// Arguments of a launch.
pub(super) struct GatherArguments<'e> {
    /// The number of entries of each tile.
    pub outputs: Outputs,
    /// Bitmaps of the verbatim values of the tiles that have any; 0 if tiles are quantized again to find them.
    pub exact: CUdeviceptr,
    pub starts: &'e CudaView<'e, SideStarts>,
    pub offsets: &'e CudaView<'e, SideOffsets>,
    pub lists: SideListPointers,
    /// Tiles of a warp, at most 32. Where most tiles have nothing, warps with more of them find this out sooner.
    pub tiles_of_warp: u32,
}

impl GatherArguments<'_> {
    /// Queues `quantize_gather`. The entries of each tile, as many as the outputs count, start at its offset in its
    /// chunk, and the lists must have room for all of them. The caller has checked that the slab holds the elements.
    pub fn launch(
        &self,
        kernels: &GatherKernels,
        stream: &Arc<CudaStream>,
        slab: &Slab<'_>,
        (geometry, batch, constants): (&DeviceGeometry, &ChunkBatch, Constants<'_>),
    ) -> Result<()> {
        let grid = Grid::new(batch.tiles().div_ceil(WARPS * self.tiles_of_warp), WARPS * 32);
        let Self { outputs, exact, starts, offsets, lists, tiles_of_warp } = *self;
        // SAFETY: the slab holds the batch's
        // elements, as the caller has checked. Counts come from the kernels that quantize, or from the caller of
        // `gather_outliers`; they add up to the chunks' counts, from which all callers allocated the lists, or for the
        // largest of which.
        unsafe {
            launch!(kernels.quantize_gather on stream, grid; &slab.bytes, slab.first_element, *geometry, *batch,
                constants, starts, offsets, outputs, exact, lists, tiles_of_warp)
        }
    }
}

/// Outliers, verbatim values and bitmaps of a batch, chunk after chunk without gaps.
#[derive(Debug)]
pub struct SideLists<'a> {
    /// Start of each chunk's entries.
    pub starts: Vec<SideStarts>,
    /// The same in device memory.
    pub device_starts: CudaViewMut<'a, SideStarts>,
    /// Positions of the outliers as element numbers in their chunk, ascending.
    pub outlier_positions: CudaViewMut<'a, u32>,
    /// Residuals of the outliers.
    pub residuals: CudaViewMut<'a, i32>,
    /// Positions of the verbatim values, likewise.
    pub verbatim_positions: CudaViewMut<'a, u32>,
    /// Bits of the verbatim values, each of the element's size.
    pub verbatim_values: CudaViewMut<'a, u8>,
    /// Bitmaps of masks before entropy coding.
    pub masks: CudaViewMut<'a, u8>,
    /// Bitmaps of signs before entropy coding.
    pub signs: CudaViewMut<'a, u8>,
}

impl<'a> SideLists<'a> {
    /// Allocates lists for chunks with these summaries, and uploads their starts. Also returns whether any chunk has
    /// entries.
    pub(super) fn new(frame: &mut Frame<'a>, summaries: &[ChunkSummary], element_bytes: u32) -> Result<(Self, bool)> {
        let mut next = SideStarts::default();
        let mut starts = Vec::with_capacity(summaries.len());
        for summary in summaries {
            let ChunkSummary { outliers, verbatim, mask_bytes, sign_bytes, .. } = *summary;
            let nothing = [outliers, verbatim, mask_bytes, sign_bytes] == [0; 4];
            starts.push(SideStarts { radius: if nothing { 0 } else { summary.radius }, ..next });
            let sum = |a: u32, b: u32| {
                a.checked_add(b)
                    .ok_or_else(|| CudaError::invalid("side lists of 2^32 entries or more: use smaller batches"))
            };
            next.outliers = sum(next.outliers, summary.outliers)?;
            next.verbatim = sum(next.verbatim, summary.verbatim)?;
            next.masks = sum(next.masks, summary.mask_bytes)?;
            next.signs = sum(next.signs, summary.sign_bytes)?;
        }
        let any = next != SideStarts::default();
        let mut lists = Self {
            device_starts: frame.slice(starts.len())?,
            outlier_positions: frame.slice(next.outliers as usize)?,
            residuals: frame.slice(next.outliers as usize)?,
            verbatim_positions: frame.slice(next.verbatim as usize)?,
            verbatim_values: frame.slice(next.verbatim as usize * element_bytes as usize)?,
            masks: frame.slice(next.masks as usize)?,
            signs: frame.slice(next.signs as usize)?,
            starts,
        };
        if any {
            let stream = frame.stream().clone();
            stream.memcpy_htod(&lists.starts, &mut lists.device_starts).doing("uploading the starts of lists")?;
        }
        Ok((lists, any))
    }
}
