//! Decoding of quantized tiles from parsed chunks: launchers of `kernels/decode/`.

#![allow(unsafe_code, reason = "launches kernels")]

pub(crate) mod structs;
mod units;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::geometry::{Geometry, MAX_TILE_ELEMENTS};
use syncline_core::strips::STRIP_LEN;

use self::structs::{LaunchArguments, Values};
use self::units::UnitDecoder;
use crate::container::parsed::Parsed;
use crate::container::structs::ParsedArgument;
use crate::device::{Device, Frame, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{BITS_OF_BITMAP_STRIP, ChunkBatch, DeviceGeometry, element_range_of_tiles};
use crate::predict::InterpolationPlans;
use crate::predict::structs::Plans;
use crate::quantize::compiled_types;

declare_kernels! {
    /// The kernel of `kernels/decode/any.cu`.
    struct AnyKernels in "decode/any.cu", of (format: Format) {
        with ELEMENT_TYPE = format.element as u32;
        with ELEMENT_BYTES = format.value_bytes();
        with LOGARITHM = format.logarithm;
        with TILE_ELEMENTS = format.tile_elements;
        with STRIP_CAPACITY = STRIP_CAPACITY;
        with WARPS = WARPS;
        with MEMORY_BYTES = format.memory_bytes();
        fn decode_any(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, plans: Plans,
            arguments: LaunchArguments, output: Out<u8> as "StoredBits *",
        );
    }
}

/// Warps of a block of `decode_any`, each with a tile.
const WARPS: u32 = 2;
/// Strips that a warp has room for, at least those of two bitmaps and of the codes of a tile.
const STRIP_CAPACITY: u32 = 16;
const _: () =
    assert!(2 * MAX_TILE_ELEMENTS / BITS_OF_BITMAP_STRIP + MAX_TILE_ELEMENTS / STRIP_LEN <= STRIP_CAPACITY as usize);
/// Blocks for each multiprocessor that decode what the kernel of ordinary tiles has left over.
const LISTED_BLOCKS: u32 = 8;
/// Anchors that a tile has room for, as in `kernels/predict/plans.cuh`.
const MOST_ANCHORS: u32 = 64;
/// Lanes of a warp.
const WARP: u32 = 32;

/// The properties that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Format {
    element: ElementType,
    logarithm: bool,
    tile_elements: u32,
}

impl Format {
    fn new(header: &Header, geometry: &Geometry) -> Result<Self> {
        if header.pipeline == Pipeline::Lossless {
            return Err(CudaError::invalid("lossless streams have no quantized tiles"));
        }
        let tile_elements = geometry.unclipped_len() as u32;
        let element = header.element_type;
        Ok(Self { element, logarithm: header.pipeline == Pipeline::LogQuantized, tile_elements })
    }

    /// Bytes of a value that is computed with.
    fn value_bytes(self) -> u64 {
        self.element.computed().size() as u64
    }

    /// Returns the bytes of shared memory of a warp.
    fn memory_bytes(self) -> u32 {
        let value_bytes = if self.logarithm { 4 } else { self.value_bytes() as u32 };
        let codes = 4 * STRIP_CAPACITY * (STRIP_LEN as u32 + 1);
        self.tile_elements * (value_bytes + 1) + codes + 4 * MOST_ANCHORS + 5 * WARP + STRIP_CAPACITY
    }
}

/// Input and output of decoding.
#[derive(Debug)]
pub struct Decoding<'d, 'v> {
    /// The buffer that the offsets of `parsed` refer to; starts on a multiple of 16 bytes.
    pub input: &'d CudaView<'v, u8>,
    /// The chunks of the batch.
    pub batch: &'d ChunkBatch,
    /// Tiles of the array to decode. Tiles outside of the batch are ignored.
    pub tiles: Range<u64>,
    /// Elements of the array from number `first_element` on, at least all those of the tiles. Elements of other tiles
    /// remain unchanged.
    pub output: &'d mut CudaViewMut<'v, u8>,
    /// Raster number in the array of the output's first element.
    pub first_element: u64,
}

/// Decodes the tiles of one stream.
#[derive(Debug, Clone)]
pub struct TileDecoder {
    format: Format,
    tiling: Geometry,
    geometry: DeviceGeometry,
    values: Values,
    any: AnyKernels,
    units: Option<UnitDecoder>,
    multiprocessors: u32,
}

impl TileDecoder {
    /// Loads the kernels for the stream with this header. Work is on `stream`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for streams that are not quantized; errors of [`Device::kernel`];
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(device: &Device, stream: &Arc<CudaStream>, header: &Header, geometry: &Geometry) -> Result<Self> {
        let format = Format::new(header, geometry)?;
        let any = AnyKernels::load(device, format)?;
        any.decode_any.allow_shared_memory(WARPS * format.memory_bytes())?;
        let units = UnitDecoder::new(device, stream, header, geometry)?;
        Ok(Self {
            units,
            multiprocessors: device.info().multiprocessors,
            format,
            tiling: geometry.clone(),
            geometry: DeviceGeometry::new(geometry),
            values: Values::new(header),
            any,
        })
    }

    /// Decodes a parsed batch, to whose problems it adds, by the stream's plans of interpolation, on the frame's
    /// stream, without waiting for it.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the output does not hold the elements of the tiles, or if input or output is
    /// misaligned; [`CudaError::Driver`]. Damage sets a bit of the chunk's problems.
    pub fn decode(
        &self,
        frame: &mut Frame<'_>,
        parsed: &mut Parsed<'_>,
        plans: &InterpolationPlans,
        work: Decoding<'_, '_>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let tiles = wanted_tiles(&self.tiling, self.format.element.size() as u64, &work, &stream)?;
        if tiles.is_empty() {
            return Ok(());
        }
        let Decoding { input, batch, output, first_element, .. } = work;
        let element = self.format.element.size() as u64;
        let row_bytes = self.tiling.dims()[3] * element;
        // Four elements, or 16 bytes.
        let written = (4 * element).min(16);
        let first = output.as_view().device_ptr(&stream).0.wrapping_sub(first_element.wrapping_mul(element));
        let arguments = LaunchArguments {
            first_tile: batch.first_tile(),
            tiles_start: tiles.start,
            tiles_end: tiles.end,
            first_element,
            tiles: batch.tiles(),
            only_listed: self.units.is_some().into(),
            vectors: (first.is_multiple_of(written) && row_bytes.is_multiple_of(written)).into(),
            unused: 0,
        };
        let mut blocks = batch.tiles().div_ceil(WARPS);
        let parsed = parsed.argument(&stream);
        let plans = plans.argument(&stream);
        if let Some(units) = &self.units {
            let work = (self.geometry, parsed, self.values, arguments);
            units.launch(&stream, self.multiprocessors, input, work, output)?;
            blocks = blocks.min(self.multiprocessors * LISTED_BLOCKS);
        }
        let grid = Grid::new(blocks, WARPS * 32).shared_memory(WARPS * self.format.memory_bytes()).early(true);
        // SAFETY: parsing allocated the arrays of `parsed` for the batch and validated what they say; `check` has
        // ensured that the output contains the elements of the tiles. Plans that are not those of this stream have
        // indices of other tiles, which the caller rules out.
        unsafe {
            launch!(self.any.decode_any on &stream, grid; input, self.geometry, parsed, self.values, plans, arguments,
                output)
        }
    }
}

/// Returns the tiles of the batch that are wanted, after checking that the output holds them.
///
/// # Errors
/// [`CudaError::InvalidArgument`] if it does not, or if input or output is misaligned.
pub(crate) fn wanted_tiles(
    tiling: &Geometry,
    element_bytes: u64,
    work: &Decoding<'_, '_>,
    stream: &CudaStream,
) -> Result<Range<u64>> {
    let own = work.batch.first_tile()..work.batch.first_tile() + u64::from(work.batch.tiles());
    let tiles = work.tiles.start.max(own.start)..work.tiles.end.min(own.end);
    let needed = element_range_of_tiles(tiling, tiles.clone());
    let room = work.output.len() as u64 / element_bytes;
    let is_inside = work.first_element <= needed.start && needed.end.saturating_sub(work.first_element) <= room;
    let output = work.output.as_view().device_ptr(stream).0;
    let problems = [
        (!tiles.is_empty() && !is_inside, "the output does not hold the elements of the tiles"),
        (!output.is_multiple_of(element_bytes), "the output starts on a multiple of an element"),
        (!work.input.device_ptr(stream).0.is_multiple_of(16), "the input starts on a multiple of 16 bytes"),
    ];
    match problems.iter().find(|(is_wrong, _)| *is_wrong) {
        Some(&(_, problem)) => Err(CudaError::invalid(problem)),
        None => Ok(tiles),
    }
}

/// Returns the element types of the check that all kernels compile, without and with logarithms.
fn compiled_kinds() -> impl Iterator<Item = (ElementType, bool)> {
    let kinds = compiled_types().flat_map(|element| [(element, false), (element, true)]);
    kinds.filter(|&(element, logarithm)| element.is_float() || !logarithm)
}

/// Returns the specializations for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let formats = compiled_kinds().flat_map(|(element, logarithm)| {
        let sizes = [512, 1024].into_iter().filter(move |&size| element.is_computed() || size == 512);
        sizes.map(move |tile_elements| Format { element, logarithm, tile_elements })
    });
    let mut all: Vec<_> = formats.map(AnyKernels::specialization).collect();
    all.extend(units::specializations());
    all
}
