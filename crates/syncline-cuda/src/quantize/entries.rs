//! What a batch has beside its codes, and codes with radius 32,768, after quantizing.

use cudarc::driver::{CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::predict::codes::WIDE_RADIUS;

use super::gather::{GatherArguments, SideLists};
use super::quantized::Quantized;
use super::quantizer::{Quantizer, check_summaries};
use super::step::Constants;
use super::structs::{ChunkSummary, SideListPointers, SideOffsets, SideStarts};
use super::wide::{MAX_LISTED, launch_wide};
use crate::device::Frame;
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::Slab;

impl Quantizer {
    /// Rewrites the codes of those chunks of the batch whose summaries say that they take radius 32,768.
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
        check_summaries(summaries, &batch)?;
        let wide: Vec<u32> = (0..batch.chunks()).filter(|&c| summaries[c as usize].radius == WIDE_RADIUS).collect();
        for listed in wide.chunks(MAX_LISTED) {
            let mut chunks = frame.slice::<u32>(listed.len())?;
            stream.memcpy_htod(listed, &mut chunks).doing("uploading the list of chunks")?;
            let (outputs, kernels) = (quantized.outputs(&stream), &self.scalar_tile.wide);
            let what = (&self.device_geometry, &batch, Constants::Known(&self.step));
            launch_wide(kernels, &stream, slab, what, &chunks.as_view(), &outputs)?;
        }
        Ok(())
    }

    /// Collects outliers, verbatim values and bitmaps. `summaries` are those of the batch, which give the sizes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if summaries or slab do not fit the batch, or if a list would be too long;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn gather<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        quantized: &mut Quantized<'_>,
        summaries: &[ChunkSummary],
    ) -> Result<SideLists<'a>> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        self.check(&stream, slab, &batch)?;
        check_summaries(summaries, &batch)?;
        let (mut lists, any) = SideLists::new(frame, summaries, self.variant.element_bytes)?;
        if batch.tiles() == 0 || !any {
            return Ok(lists);
        }
        let outliers = [lists.outlier_positions.device_ptr_mut(&stream).0, lists.residuals.device_ptr_mut(&stream).0];
        let entries = GatherArguments {
            outputs: quantized.outputs(&stream),
            exact: 0,
            lists: SideListPointers::new(&stream, outliers, &mut lists),
            starts: &lists.device_starts.as_view(),
            offsets: &quantized.offsets.as_view(),
            tiles_of_warp: 1,
        };
        let step = Constants::Known(&self.step);
        entries.launch(&self.scalar_tile.gather, &stream, slab, (&self.device_geometry, &batch, step))?;
        Ok(lists)
    }

    /// Collects positions and residuals of the outliers for a radius other than the chunks' own. `counts` and `offsets`
    /// give the number of each tile's outliers and their start among those of its chunk; `of_chunks` the number of each
    /// chunk's. The other lists of `lists` are written again with the same contents.
    #[expect(clippy::too_many_arguments, reason = "the arguments of `gather` and three arrays of counts")]
    pub(crate) fn gather_outliers<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        quantized: &mut Quantized<'_>,
        lists: &mut SideLists<'_>,
        radius: u32,
        of_chunks: &[u32],
        counts: &mut CudaViewMut<'_, u16>,
        offsets: &CudaView<'_, SideOffsets>,
    ) -> Result<(CudaViewMut<'a, u32>, CudaViewMut<'a, i32>)> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        self.check(&stream, slab, &batch)?;
        let few = |length: usize| length < batch.tiles() as usize;
        if of_chunks.len() != lists.starts.len() || few(counts.len()) || few(offsets.len()) {
            return Err(CudaError::invalid("every chunk and tile needs a count of outliers"));
        }
        let mut next = 0_u32;
        let mut starts = Vec::with_capacity(of_chunks.len());
        for (start, &count) in lists.starts.iter().zip(of_chunks) {
            // A chunk that has neither outliers nor other entries may be raw; the counts of its tiles are meaningless
            // then.
            let radius = if count == 0 && start.radius == 0 { 0 } else { radius };
            starts.push(SideStarts { outliers: next, radius, ..*start });
            next = next.checked_add(count).ok_or_else(|| CudaError::invalid("side lists of 2^32 entries or more"))?;
        }
        let (mut positions, mut residuals) = (frame.slice::<u32>(next as usize)?, frame.slice::<i32>(next as usize)?);
        if next == 0 {
            return Ok((positions, residuals));
        }
        let mut device_starts = frame.slice::<SideStarts>(starts.len())?;
        stream.memcpy_htod(&starts, &mut device_starts).doing("uploading the starts of lists")?;
        let outliers = [positions.device_ptr_mut(&stream).0, residuals.device_ptr_mut(&stream).0];
        let entries = GatherArguments {
            outputs: quantized.outputs(&stream).with_outliers(counts.device_ptr_mut(&stream).0),
            exact: 0,
            lists: SideListPointers::new(&stream, outliers, lists),
            starts: &device_starts.as_view(),
            offsets,
            tiles_of_warp: 1,
        };
        let step = Constants::Known(&self.step);
        entries.launch(&self.scalar_tile.gather, &stream, slab, (&self.device_geometry, &batch, step))?;
        Ok((positions, residuals))
    }
}
