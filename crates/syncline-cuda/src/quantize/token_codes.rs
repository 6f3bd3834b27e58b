//! Quantizes and predicts the chunks of streams with token codebooks: launcher of `kernels/quantize/token_codes.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::array::ElementType;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{FEWEST_SAMPLED_TILES, TILE_SAMPLE_STEP, reserved_patterns};
use syncline_core::predict::interpolate::{Interpolation, Scheme};
use syncline_core::quantize::Real;
use syncline_core::tokens::GROUP_LEN;

use super::finish::{FinishKernel, FinishOutputs};
use super::gather::{GatherArguments, GatherKernels, SideLists};
use super::quantizer::{check_slab, check_summaries};

use super::step::{Constants, KernelVariant};
use super::structs::{
    ChunkSummary, InterpolationStep, Outputs, RecordInputsArgument, SideListPointers, SideOffsets, Step, TokenOutputs,
};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::predict::InterpolationPlans;
use crate::predict::structs::Plans;

declare_kernels! {
    /// The kernel of `kernels/quantize/token_codes.cu`.
    pub(super) struct TokenKernels in "quantize/token_codes.cu", of (variant: KernelVariant) {
        with ELEMENT_BYTES = variant.element_bytes;
        with LOGARITHM = variant.logarithm;
        with AXES = variant.axes;
        with MEASURE = variant.measure;
        with WARPS = warps(variant);
        with SAMPLE_STEP = TILE_SAMPLE_STEP;
        with FEWEST_SAMPLED = FEWEST_SAMPLED_TILES;
        fn quantize_token_sample(
            slab: In<u8> as "const Element *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: Step, constants: InterpolationStep, plans: Plans, slots: u32, codes: Out<i32>, groups: Out<u32>,
            verbatim: Out<u32>,
        );
        fn quantize_token_codes(
            slab: In<u8> as "const Element *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: Step, constants: InterpolationStep, plans: Plans, schemes: In<u32>, outputs: TokenOutputs,
        );
    }
}

/// log2 of the codes in a group.
pub(crate) const GROUP_LOG2: u8 = GROUP_LEN.ilog2() as u8;

/// Returns the warps of a block, whose shared memory must fit into 48 KiB.
fn warps(variant: KernelVariant) -> u32 {
    if variant.axes == 3 { 4 } else { 2 }
}

/// Returns the elements of an unclipped tile.
fn tile_elements(axes: u32) -> usize {
    if axes == 3 { 512 } else { 1024 }
}

impl InterpolationStep {
    fn new(header: &Header) -> Self {
        fn of<T: Real>(header: &Header) -> InterpolationStep {
            let patterns = reserved_patterns::<T>(header);
            let interpolation = Interpolation::<T>::new(header.step, header.abs_bound).with_reserved(&patterns);
            let ([step, inverse, bound], reserved) = (interpolation.constants(), interpolation.reserved());
            InterpolationStep {
                step: step.wide(),
                inverse: inverse.wide(),
                bound: bound.wide(),
                reserved: std::array::from_fn(|i| reserved.get(i).map_or(0, |value| value.bits())),
                reserved_count: reserved.len() as u32,
                unused: 0,
            }
        }
        match header.element_type {
            ElementType::F32 => of::<f32>(header),
            _ => of::<f64>(header),
        }
    }
}

/// Codes of tiles, as several streams of `slots` groups each.
#[derive(Debug)]
pub(crate) struct TileCodes<'a> {
    /// [`GROUP_LEN`] codes for each group.
    pub codes: CudaViewMut<'a, i32>,
    /// Words of the groups: `kernels/token_codes/groups.cuh`.
    pub groups: CudaViewMut<'a, u32>,
    pub streams: u32,
    pub slots: u32,
}

/// The samples of a batch's chunks: for each chunk a stream without interpolation, and one with each scheme.
#[derive(Debug)]
pub(crate) struct SampleCodes<'a> {
    pub codes: TileCodes<'a>,
    /// Verbatim values of each stream.
    pub verbatim: CudaViewMut<'a, u32>,
}

/// A batch of chunks that are quantized and predicted.
#[derive(Debug)]
pub(crate) struct QuantizedTiles<'a> {
    pub batch: ChunkBatch,
    /// A stream for each chunk.
    pub codes: TileCodes<'a>,
    /// As [`TileBits`](super::TileBits), with 4 bits for the predictor and no class.
    pub metas: CudaViewMut<'a, u16>,
    pub bases: CudaViewMut<'a, i32>,
    pub summaries: CudaViewMut<'a, ChunkSummary>,
    verbatim: CudaViewMut<'a, u16>,
    exact: CudaViewMut<'a, u32>,
    offsets: CudaViewMut<'a, SideOffsets>,
    errors: Option<CudaViewMut<'a, u64>>,
    counted: Option<CudaViewMut<'a, u16>>,
    /// Counts of each tile that are 0 in these chunks, such as those of outliers.
    none: CudaViewMut<'a, u32>,
}

impl QuantizedTiles<'_> {
    /// Returns the outputs as the kernels that finish chunks and gather their lists take them.
    fn outputs(&mut self, stream: &Arc<CudaStream>) -> Outputs {
        let none = self.none.device_ptr_mut(stream).0;
        Outputs {
            metas: self.metas.device_ptr_mut(stream).0,
            bases: self.bases.device_ptr_mut(stream).0,
            bins: none,
            outliers: none,
            wide_outliers: none,
            verbatim: self.verbatim.device_ptr_mut(stream).0,
            first_groups: none,
            errors: self.errors.as_mut().map_or(0, |errors| errors.device_ptr_mut(stream).0),
            counted: self.counted.as_mut().map_or(0, |counted| counted.device_ptr_mut(stream).0),
            codes: 0,
        }
    }
}

/// Quantizes and predicts the chunks of one stream with token codebooks.
#[derive(Debug)]
pub(crate) struct TokenQuantizer {
    variant: KernelVariant,
    step: Step,
    constants: InterpolationStep,
    plans: InterpolationPlans,
    geometry: Geometry,
    device_geometry: DeviceGeometry,
    /// Whether tiles may be interpolated.
    interpolates: bool,
    kernels: TokenKernels,
    finish: FinishKernel,
    gather: GatherKernels,
}

impl TokenQuantizer {
    /// Loads the kernels for streams with this header over an array with this tiling, and uploads the plans of
    /// interpolation on `stream`.
    pub fn new(device: &Device, stream: &Arc<CudaStream>, header: &Header, geometry: &Geometry) -> Result<Self> {
        let variant = KernelVariant::from_header(header, geometry.axes() as u32)?;
        Ok(Self {
            variant,
            step: Step::new(header, true),
            constants: InterpolationStep::new(header),
            plans: InterpolationPlans::new(stream, header, geometry)?,
            geometry: geometry.clone(),
            device_geometry: DeviceGeometry::new(geometry, GROUP_LOG2),
            interpolates: true,
            kernels: TokenKernels::load(device, variant)?,
            finish: FinishKernel::new(device)?,
            gather: GatherKernels::load(device, variant, false)?,
        })
    }

    /// Takes the step of another stream's header and returns `true`, if that stream needs the same kernels and plans.
    pub fn adapt(&mut self, header: &Header, geometry: &Geometry) -> bool {
        let fits = KernelVariant::from_header(header, geometry.axes() as u32).is_ok_and(|own| own == self.variant)
            && DeviceGeometry::new(geometry, GROUP_LOG2) == self.device_geometry;
        if fits {
            self.step = Step::new(header, true);
            self.constants = InterpolationStep::new(header);
        }
        fits
    }

    /// Sets whether tiles may be interpolated, where the pipeline has interpolation.
    pub fn set_interpolates(&mut self, interpolates: bool) {
        self.interpolates = interpolates;
    }

    /// Returns the tiling of the array, as kernels take it.
    pub fn geometry(&self) -> &DeviceGeometry {
        &self.device_geometry
    }

    /// Returns the bytes of an element.
    pub fn element_bytes(&self) -> u32 {
        self.variant.element_bytes
    }

    /// Returns the groups that each tile has room for.
    pub fn groups_of_tile(&self) -> u32 {
        (tile_elements(self.variant.axes) / GROUP_LEN) as u32
    }

    /// Returns the schemes that the stream may interpolate with; the streams of a sample are those without one and
    /// with each of these.
    pub fn schemes(&self) -> &'static [Scheme] {
        if self.variant.logarithm || !self.interpolates { &[] } else { Scheme::of(self.variant.axes as usize) }
    }

    fn check(&self, stream: &Arc<CudaStream>, slab: &Slab<'_>, batch: &ChunkBatch) -> Result<()> {
        check_slab(stream, slab, &self.geometry, batch, self.variant.element_bytes)
    }

    /// Codes a sample of each chunk of a batch that has tiles with each scheme. Returns `None` if there is nothing to
    /// choose.
    pub fn sample<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        batch: &ChunkBatch,
    ) -> Result<Option<SampleCodes<'a>>> {
        if self.variant.logarithm || !self.interpolates {
            return Ok(None);
        }
        let stream = frame.stream().clone();
        self.check(&stream, slab, batch)?;
        let sampled = |chunk: u32| {
            let tiles = batch.tiles_of(chunk).len();
            if tiles < FEWEST_SAMPLED_TILES { tiles } else { tiles.div_ceil(TILE_SAMPLE_STEP) }
        };
        // All chunks but the last have the same number of tiles.
        let tiles = sampled(0).max(sampled(batch.chunks() - 1));
        let streams = batch.chunks() as usize * (1 + self.schemes().len());
        let slots = tiles * self.groups_of_tile() as usize;
        let mut codes = TileCodes {
            codes: frame.slice(streams * slots * GROUP_LEN)?,
            groups: frame.zeros(streams * slots)?,
            streams: streams as u32,
            slots: slots as u32,
        };
        let mut verbatim = frame.zeros::<u32>(streams)?;
        let (tiles, plans) = (tiles as u32, self.plans.argument(&stream));
        let grid = Grid::new(tiles.div_ceil(warps(self.variant)), warps(self.variant) * 32).rows(batch.chunks());
        // SAFETY: `check` proved that the slab holds the batch's elements. Codes and groups have room for `tiles` tiles
        // of each stream, and there is a count for each stream. The plans are those of this tiling, and `self` outlives
        // the work of the frame's stream.
        unsafe {
            launch!(self.kernels.quantize_token_sample on &stream, grid; &slab.bytes, slab.first_element,
                self.device_geometry, *batch, self.step, self.constants, plans, tiles, &mut codes.codes,
                &mut codes.groups, &mut verbatim)
        }?;
        Ok(Some(SampleCodes { codes, verbatim }))
    }

    /// Quantizes and predicts the chunks of a batch that has tiles, each with its scheme of `schemes`, 0 for none.
    /// Also fills in what `records` asks for.
    pub fn quantize<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        batch: &ChunkBatch,
        schemes: &CudaView<'_, u32>,
        records: RecordInputsArgument,
    ) -> Result<QuantizedTiles<'a>> {
        let stream = frame.stream().clone();
        self.check(&stream, slab, batch)?;
        let (tiles, chunks) = (batch.tiles() as usize, batch.chunks() as usize);
        if schemes.len() < chunks {
            return Err(CudaError::invalid("every chunk needs a scheme"));
        }
        let elements = tile_elements(self.variant.axes);
        let slots = batch.tiles_of(0).len() * self.groups_of_tile() as usize;
        let measure = self.variant.measure;
        let mut out = QuantizedTiles {
            batch: *batch,
            codes: TileCodes {
                codes: frame.slice(chunks * slots * GROUP_LEN)?,
                // The last chunk may have fewer tiles than the others.
                groups: frame.zeros(chunks * slots)?,
                streams: batch.chunks(),
                slots: slots as u32,
            },
            metas: frame.slice(tiles)?,
            bases: frame.slice(tiles)?,
            summaries: frame.slice(chunks)?,
            verbatim: frame.slice(tiles)?,
            exact: frame.slice(tiles * elements / 32)?,
            offsets: frame.slice(tiles)?,
            errors: measure.then(|| frame.slice(tiles)).transpose()?,
            counted: measure.then(|| frame.slice(tiles)).transpose()?,
            none: frame.zeros(tiles)?,
        };
        let outputs = out.outputs(&stream);
        let token_outputs = TokenOutputs {
            metas: outputs.metas,
            bases: outputs.bases,
            verbatim: outputs.verbatim,
            exact: out.exact.device_ptr_mut(&stream).0,
            errors: outputs.errors,
            counted: outputs.counted,
            groups: out.codes.groups.device_ptr_mut(&stream).0,
            codes: out.codes.codes.device_ptr_mut(&stream).0,
        };
        let plans = self.plans.argument(&stream);
        let grid = Grid::new(batch.tiles().div_ceil(warps(self.variant)), warps(self.variant) * 32);
        // SAFETY: `check` proved that the slab holds the batch's elements. There is a scheme for each chunk, and an
        // entry for each tile in each output; all chunks before the last have as many tiles as the first. The plans are
        // those of this tiling, and `self` outlives the work of the frame's stream.
        unsafe {
            launch!(self.kernels.quantize_token_codes on &stream, grid; &slab.bytes, slab.first_element,
                self.device_geometry, *batch, self.step, self.constants, plans, schemes, token_outputs)
        }?;
        let to =
            FinishOutputs { offsets: &mut out.offsets, group_classes: None, summaries: &mut out.summaries, records };
        self.finish.launch(&stream, self.device_geometry, *batch, false, outputs, to)?;
        Ok(out)
    }

    /// Collects verbatim values and bitmaps. `summaries` are those of the batch, which give the sizes; chunks whose
    /// summary counts nothing are left out.
    pub fn gather<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        quantized: &mut QuantizedTiles<'_>,
        summaries: &[ChunkSummary],
    ) -> Result<SideLists<'a>> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        self.check(&stream, slab, &batch)?;
        check_summaries(summaries, &batch)?;
        let (mut lists, any) = SideLists::new(frame, summaries, self.variant.element_bytes)?;
        if any {
            let outliers =
                [lists.outlier_positions.device_ptr_mut(&stream).0, lists.residuals.device_ptr_mut(&stream).0];
            let entries = GatherArguments {
                outputs: quantized.outputs(&stream),
                exact: quantized.exact.device_ptr(&stream).0,
                lists: SideListPointers::new(&stream, outliers, &mut lists),
                starts: &lists.device_starts.as_view(),
                offsets: &quantized.offsets.as_view(),
                tiles_of_warp: 1,
            };
            let step = Constants::Known(&self.step);
            entries.launch(&self.gather, &stream, slab, (&self.device_geometry, &batch, step))?;
        }
        Ok(lists)
    }
}
