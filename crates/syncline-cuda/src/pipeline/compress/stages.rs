//! The kernels from elements to records, whose constants are in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use syncline_core::bound::{Bound, ErrorSummary, Pipeline};
use syncline_core::container::Header;
use syncline_core::geometry::{Geometry, TileSize};

use crate::blocks::BlockEncoder;
use crate::container::progress::Progress;
use crate::container::records::{RecordInput, RecordMaker};
use crate::container::structs::ErrorSums;
use crate::device::{Arena, Device, fetch};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::quantize::{STEP_WORDS, constants};
use crate::strips::{Form, TileEncoder};

/// Queues the work on batches of chunks.
#[derive(Debug)]
pub(super) struct Stages<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    pub records: RecordMaker,
    /// Constants of the quantizer that are uploaded.
    constants: CudaSlice<u64>,
    /// For the arrays of the last stream.
    arrays: Option<Arrays>,
}

/// What arrays of one form and tiling share.
#[derive(Debug)]
struct Arrays {
    form: Form,
    device_geometry: DeviceGeometry,
    encoder: Encoder,
}

#[derive(Debug)]
enum Encoder {
    Tiles(TileEncoder),
    Blocks(BlockEncoder),
}

/// Returns the form of arrays with such a header.
///
/// # Errors
/// [`CudaError::InvalidArgument`] for a stream that is not quantized.
fn form_of(header: &Header, interpolates: bool) -> Result<Form> {
    let logarithm = match header.pipeline {
        Pipeline::Quantized => false,
        Pipeline::LogQuantized => true,
        pipeline => return Err(CudaError::invalid(format!("{pipeline} streams have no bound"))),
    };
    Ok(Form {
        element_type: header.element_type,
        logarithm,
        measured: matches!(header.bound, Bound::Psnr(_)) && !logarithm,
        interpolates: !logarithm && interpolates,
    })
}

impl<'d> Stages<'d> {
    /// Loads the kernels that serve all arrays.
    pub fn new(device: &'d Device, stream: &Arc<CudaStream>) -> Result<Self> {
        Ok(Self {
            device,
            stream: stream.clone(),
            records: RecordMaker::new(device)?,
            constants: stream.alloc_zeros(STEP_WORDS).doing("allocating constants")?,
            arrays: None,
        })
    }

    /// Loads the kernels for streams with such a header, unless they are those of the last stream. Tiles are
    /// interpolated only if `interpolates`.
    pub fn prepare(&mut self, header: &Header, geometry: &Geometry, interpolates: bool) -> Result<()> {
        let form = form_of(header, interpolates)?;
        let device_geometry = DeviceGeometry::new(geometry);
        let is_block = header.tile_size == TileSize::Block;
        let fits = |arrays: &Arrays| {
            let same = arrays.form == form && arrays.device_geometry == device_geometry;
            match arrays.encoder {
                Encoder::Tiles(_) => same && !is_block,
                Encoder::Blocks(_) => same && is_block,
            }
        };
        if !self.arrays.as_ref().is_some_and(fits) {
            self.arrays = None;
            let encoder = match is_block {
                true => {
                    let how = (form.measured, form.interpolates);
                    Encoder::Blocks(BlockEncoder::new(self.device, header, geometry, how)?)
                }
                false => Encoder::Tiles(TileEncoder::new(self.device, &self.stream, form, geometry)?),
            };
            self.arrays = Some(Arrays { form, device_geometry, encoder });
        }
        Ok(())
    }

    /// Uploads the constants of a header. `minus_zeros` says whether there may be -0.0 among the elements.
    pub fn upload(&mut self, header: &Header, minus_zeros: bool) -> Result<()> {
        let words = constants(header, minus_zeros);
        self.stream.memcpy_htod(&words, &mut self.constants).doing("uploading constants")
    }

    /// Queues the records of a batch behind those of earlier batches, which have `first` chunks. Takes the constants
    /// that are uploaded, or others in device memory. Returns the errors of the batch, for which it waits if they are
    /// measured.
    pub fn batch(
        &self,
        arena: &mut Arena,
        (batch, first): (&ChunkBatch, u64),
        slab: &Slab<'_>,
        constants: Option<&CudaView<'_, u64>>,
        progress: &mut Progress,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<ErrorSummary> {
        let Some(Arrays { form, device_geometry, encoder, .. }) = &self.arrays else {
            return Err(CudaError::invalid("no stream was begun"));
        };
        if batch.tiles() == 0 {
            return Ok(ErrorSummary::default());
        }
        let element_bytes = form.element_type.size() as u32;
        let mut frame = arena.frame()?;
        let uploaded = self.constants.as_view();
        let constants = constants.unwrap_or(&uploaded);
        let errors = match encoder {
            Encoder::Tiles(encoder) => {
                let mut encoded = encoder.encode(&mut frame, slab, batch, constants)?;
                let input =
                    RecordInput { geometry: device_geometry, batch, encoded: &mut encoded, slab, element_bytes };
                let laid_out = self.records.write(&mut frame, input, (progress, first), output)?;
                self.fetched(laid_out.errors())?
            }
            Encoder::Blocks(encoder) => {
                let mut made = encoder.encode(&mut frame, slab, (batch, first), constants, progress, output)?;
                let (starts, mut memory) = made.starts_and_memory();
                let records = (&starts, encoder.longest_record(), first);
                self.records.checksum(&mut frame, records, progress, &mut memory, output)?;
                self.fetched(made.errors())?
            }
        };
        Ok(ErrorSummary {
            squared_error: errors.iter().map(|chunk| u128::from(chunk.squared)).sum(),
            counted: errors.iter().map(|chunk| chunk.counted).sum(),
        })
    }

    /// Reads the errors of chunks, if there are any.
    fn fetched(&self, errors: Option<CudaView<'_, ErrorSums>>) -> Result<Vec<ErrorSums>> {
        errors.map_or(Ok(Vec::new()), |errors| fetch(&self.stream, &errors, "reading errors"))
    }
}
