//! Quantizes the chunks of one stream: launches the kernels of `kernels/quantize` from elements to codes.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;

use super::bound_scan::DeviceStep;
use super::codes::{CodesArguments, CodesKernel};
use super::finish::{FinishKernel, FinishOutputs};
use super::quantized::Quantized;
use super::scalar_tile::ScalarTileKernels;
use super::step::{Constants, KernelVariant};
use super::structs::{ChunkSummary, RecordInputsArgument, Step};
use crate::device::{Device, Frame};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};

/// Quantizes and predicts the chunks of one stream.
#[derive(Debug)]
pub struct Quantizer {
    pub(super) variant: KernelVariant,
    pub(super) step: Step,
    pub(super) geometry: Geometry,
    pub(super) device_geometry: DeviceGeometry,
    with_classes: bool,
    /// Whether tiles may take the vector path. Tests compare it with the scalar path.
    use_vector: bool,
    codes: CodesKernel,
    finish: FinishKernel,
    pub(super) scalar_tile: ScalarTileKernels,
}

impl Quantizer {
    /// Loads the kernels for streams with this header over an array with this tiling.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the stream is not quantized; errors of [`Device::kernel`].
    pub fn new(device: &Device, header: &Header, geometry: &Geometry) -> Result<Self> {
        let variant = KernelVariant::from_header(header, geometry.axes() as u32)?;
        Ok(Self {
            variant,
            step: Step::new(header, true),
            geometry: geometry.clone(),
            device_geometry: DeviceGeometry::new(geometry, header.group_log2),
            with_classes: header.index == IndexKind::Symbol,
            use_vector: true,
            codes: CodesKernel::new(device, variant, geometry, false)?,
            finish: FinishKernel::new(device)?,
            scalar_tile: ScalarTileKernels::new(device, variant, false)?,
        })
    }

    /// Takes the step of another stream's header and returns `true`, if that stream needs the same kernels. Loading
    /// kernels takes longer than launching them.
    pub(crate) fn adapt(&mut self, header: &Header, geometry: &Geometry) -> bool {
        let fits = self.fits(header, geometry);
        if fits {
            self.step = Step::new(header, true);
        }
        fits
    }

    /// Returns whether streams of such an array need the same kernels and the same arguments except the step.
    fn fits(&self, header: &Header, geometry: &Geometry) -> bool {
        KernelVariant::from_header(header, geometry.axes() as u32).is_ok_and(|variant| variant == self.variant)
            && DeviceGeometry::new(geometry, header.group_log2) == self.device_geometry
            && (header.index == IndexKind::Symbol) == self.with_classes
    }

    /// Sets whether there may be -0.0 among the elements, until the next stream.
    pub(crate) fn set_minus_zeros(&mut self, any: bool) {
        self.step.set_minus_zeros(any);
    }

    /// Returns whether streams of such an array can be quantized before the host knows the bound, if no value is
    /// masked.
    pub(crate) fn can_start_before_bound(&self, header: &Header, geometry: &Geometry) -> bool {
        self.codes.can_follow_scan() && !self.variant.patterns && self.fits(header, geometry)
    }

    /// Takes the step of a header of the same array. Returns whether quantizing with the device's constants `found`
    /// gives the same result.
    pub(crate) fn confirm(&mut self, header: &Header, minus_zeros: bool, found: DeviceStep) -> bool {
        self.step = Step::new(header, minus_zeros);
        KernelVariant::from_header(header, self.variant.axes).is_ok_and(|variant| variant == self.variant)
            && self.step.words() == found.0
    }

    /// Makes all tiles take the scalar path, so that tests can compare it with the vector path.
    #[doc(hidden)]
    #[must_use]
    pub fn scalar_only(self) -> Self {
        Self { use_vector: false, ..self }
    }

    /// Returns the tiling of the array, as kernels take it.
    pub fn geometry(&self) -> &DeviceGeometry {
        &self.device_geometry
    }

    /// Quantizes chunks `chunks` with radius 512 and finds which of them need the wide radius, on the frame's stream.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are no such chunks, or if the slab lacks some of their elements;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn quantize<'a>(&self, frame: &mut Frame<'a>, slab: &Slab<'_>, chunks: Range<u64>) -> Result<Quantized<'a>> {
        let batch = ChunkBatch::new(&self.geometry, self.device_geometry.group_log2() as u8, chunks)?;
        let mut control = frame.zeros(self.control_words(batch.chunks().into()))?;
        self.quantize_with(frame, slab, &batch, &mut control, RecordInputsArgument::default(), None)
    }

    /// Returns the number of control words for `chunks` chunks: ticket counter, extreme codes and status of blocks.
    pub(crate) fn control_words(&self, chunks: u64) -> usize {
        let tiles = u64::from(self.geometry.tiles_per_chunk()).min(self.geometry.tiles());
        self.codes.control_words(chunks, tiles)
    }

    /// [`Self::quantize`] with [`Self::control_words`] control words that are 0. They are not 0 afterwards, unless
    /// `records` asks to clear them. Also fills in what `records` asks for. With `step`, the kernel reads its constants
    /// from device memory once the previous kernel is done; requires [`Self::can_start_before_bound`].
    ///
    /// # Errors
    /// The errors of [`Self::quantize`]; [`CudaError::InvalidArgument`] also if there are too few control words.
    pub(crate) fn quantize_with<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        batch: &ChunkBatch,
        control: &mut CudaViewMut<'_, u32>,
        records: RecordInputsArgument,
        step: Option<&CudaView<'_, u64>>,
    ) -> Result<Quantized<'a>> {
        let stream = frame.stream().clone();
        let group_log2 = self.device_geometry.group_log2();
        let mut out = Quantized::new(frame, *batch, group_log2, self.variant.measure)?;
        self.check(&stream, slab, batch)?;
        if batch.tiles() == 0 {
            return Ok(out);
        }
        let outputs = out.outputs(&stream);
        let arguments = CodesArguments {
            slab,
            geometry: &self.geometry,
            device_geometry: self.device_geometry,
            batch: *batch,
            constants: step.map_or(Constants::Known(&self.step), Constants::InMemory),
            follows_scan: step.is_some(),
            use_vector: self.use_vector,
            outputs,
        };
        self.codes.launch(&stream, &arguments, control)?;
        let to = FinishOutputs {
            offsets: &mut out.offsets,
            group_classes: Some(&mut out.group_classes),
            summaries: &mut out.summaries,
            records,
        };
        self.finish.launch(&stream, self.device_geometry, *batch, self.with_classes, outputs, to)?;
        Ok(out)
    }

    pub(super) fn check(&self, stream: &Arc<CudaStream>, slab: &Slab<'_>, batch: &ChunkBatch) -> Result<()> {
        check_slab(stream, slab, &self.geometry, batch, self.variant.element_bytes)
    }
}

/// Checks that a slab holds the elements of a batch, aligned to their size.
///
/// # Errors
/// [`CudaError::InvalidArgument`] if not.
pub(super) fn check_slab(
    stream: &Arc<CudaStream>,
    slab: &Slab<'_>,
    geometry: &Geometry,
    batch: &ChunkBatch,
    element_bytes: u32,
) -> Result<()> {
    slab.check(geometry, batch, element_bytes)?;
    match slab.bytes.device_ptr(stream).0.is_multiple_of(element_bytes.into()) {
        true => Ok(()),
        false => Err(CudaError::invalid("the elements must be aligned to their size")),
    }
}

/// Checks that there is a summary for each chunk of a batch.
///
/// # Errors
/// [`CudaError::InvalidArgument`] if not.
pub(super) fn check_summaries(summaries: &[ChunkSummary], batch: &ChunkBatch) -> Result<()> {
    match summaries.len() == batch.chunks() as usize {
        true => Ok(()),
        false => Err(CudaError::invalid(format!("{} summaries for {} chunks", summaries.len(), batch.chunks()))),
    }
}
