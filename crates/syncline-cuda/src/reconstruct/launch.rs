//! Launches of the kernels of `reconstruct.cu`.

use cudarc::driver::{DevicePtr, DeviceRepr, PushKernelArg};
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;

use super::{CODES_THREADS, Codes, FUSED_THREADS, Format, OWN_LONG, Reconstruction};
use crate::container::ParsedArgument;
use crate::device::{Device, Frame, Kernel};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::DeviceGeometry;
use crate::huffman::decode::{BatchView, TABLE_BITS, TableBuilder};

/// Shared memory that a block which decodes has beside the dynamic one, and the driver's.
const OWN_SHARED_MEMORY: u32 = 2048;
/// What such a block needs: tables of four codebooks, sums of a warp, and some words of input with what a damaged stream may read behind them.
const LEAST_SHARED_MEMORY: u32 = 16 * ((1 << TABLE_BITS) + OWN_LONG[1]) + (32 << 9) + 600 + OWN_SHARED_MEMORY;
/// Threads of a block that compares checksums.
const VERIFY_THREADS: u32 = 128;

/// Whether a device with so much shared memory a block decodes and reconstructs in one kernel.
pub(super) fn fuses(index: IndexKind, shared_memory: u32) -> bool {
    index == IndexKind::Symbol && shared_memory >= LEAST_SHARED_MEMORY
}

/// `Values` of `reconstruct_elements.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Values {
    step: f64,
    patterns: [u64; 4],
    step_high: f32,
    step_low: f32,
}

// SAFETY: plain numbers without padding, laid out as the kernels' struct.
unsafe impl DeviceRepr for Values {}

impl Values {
    fn new(header: &Header) -> Self {
        let high = header.step as f32;
        let patterns = std::array::from_fn(|i| header.patterns.get(i).copied().unwrap_or(0));
        Self { step: header.step, patterns, step_high: high, step_low: (header.step - f64::from(high)) as f32 }
    }
}

/// `Request` of `reconstruct.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Request {
    first_chunk: u64,
    tiles_start: u64,
    tiles_end: u64,
    first_element: u64,
    parts: u32,
    dynamic_bytes: u32,
    vectors: u32,
    unit: u32,
}

// SAFETY: plain numbers without padding, laid out as the kernels' struct.
unsafe impl DeviceRepr for Request {}

/// The kernels that decode and reconstruct.
#[derive(Debug, Clone)]
struct Fused {
    tables: TableBuilder,
    /// For radius 512, and for any codes.
    kernels: [Kernel; 2],
    verify: Kernel,
}

/// Reconstructs the chunks of one stream.
#[derive(Debug, Clone)]
pub struct Reconstructor {
    format: Format,
    geometry: Geometry,
    device_geometry: DeviceGeometry,
    values: Values,
    fused: Option<Fused>,
    from_codes: Option<Kernel>,
    multiprocessors: u32,
    shared_memory: u32,
}

impl Reconstructor {
    /// For a stream with this header, tiled as `geometry` says.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for a stream that is lossless or of another element type; errors of [`Device::kernel`].
    pub fn new(device: &Device, header: &Header, geometry: &Geometry) -> Result<Self> {
        let fused = fuses(header.index, device.info().shared_memory_per_block);
        Self::with_fusion(device, header, geometry, fused)
    }

    /// [`Self::new`], taking decoded codes whatever the index: to measure what fusion is worth.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_codes(device: &Device, header: &Header, geometry: &Geometry) -> Result<Self> {
        Self::with_fusion(device, header, geometry, false)
    }

    fn with_fusion(device: &Device, header: &Header, geometry: &Geometry, fused: bool) -> Result<Self> {
        let format = Format::new(header, geometry)?;
        let shared_memory = device.info().shared_memory_per_block;
        let kernel = |wide| -> Result<Kernel> {
            let kernel = device.kernel(&format.fused(wide), "reconstruct")?;
            kernel.allow_shared_memory(shared_memory - OWN_SHARED_MEMORY)?;
            Ok(kernel)
        };
        let (mut together, mut from_codes) = (None, None);
        if fused {
            together = Some(Fused {
                tables: TableBuilder::new(device, format.group_log2)?,
                kernels: [kernel(false)?, kernel(true)?],
                verify: device.kernel(&format.fused(false), "reconstruct_verify")?,
            });
        } else {
            let kernel = device.kernel(&format.unfused(), "reconstruct_codes")?;
            kernel.allow_shared_memory(format.rows_bytes(true) * CODES_THREADS / 32)?;
            from_codes = Some(kernel);
        }
        Ok(Self {
            format,
            geometry: geometry.clone(),
            device_geometry: DeviceGeometry::new(geometry, header.group_log2),
            values: Values::new(header),
            fused: together,
            from_codes,
            multiprocessors: device.info().multiprocessors,
            shared_memory,
        })
    }

    /// Whether it takes [`Codes::Streams`]; otherwise [`Codes::Decoded`].
    pub fn is_fused(&self) -> bool {
        self.fused.is_some()
    }

    /// Reconstructs on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for codes of the other kind, buffers that are too short or misaligned, or chunks that are not there;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. Damaged streams are no error here: see [`Reconstruction::status`].
    pub fn launch(&self, frame: &mut Frame<'_>, mut work: Reconstruction<'_, '_>) -> Result<()> {
        let tiles = self.check(frame, &work)?;
        if tiles.is_empty() {
            return Ok(());
        }
        let stream = frame.stream().clone();
        let vector = 16 / self.format.element_bytes();
        let aligned = self.geometry.dims()[3].is_multiple_of(vector) && work.first_element.is_multiple_of(vector);
        let address = work.output.as_view().device_ptr(&stream).0;
        let request = Request {
            first_chunk: work.first_chunk,
            tiles_start: tiles.start,
            tiles_end: tiles.end,
            first_element: work.first_element,
            parts: 1,
            dynamic_bytes: 0,
            vectors: (aligned && address.is_multiple_of(16)).into(),
            unit: self.format.tiles_of_warp(),
        };
        let parsed = work.parsed.argument(&stream);
        match (&self.fused, &self.from_codes, work.codes) {
            (Some(fused), _, Codes::Streams(batch)) => {
                self.launch_fused(frame, fused, batch, parsed, request, &mut work)
            }
            (_, Some(kernel), Codes::Decoded(codes)) => {
                let warps = CODES_THREADS / 32;
                let parts = self.units_of_chunk(request.unit).div_ceil(warps);
                let blocks = u64::from(parts) * u64::from(work.parsed.chunk_count);
                let blocks =
                    u32::try_from(blocks).map_err(|_| CudaError::invalid("the batch is too large: make several"))?;
                let request = Request { parts, ..request };
                let mut launch = stream.launch_builder(kernel.function());
                launch.arg(work.input).arg(&self.device_geometry).arg(&parsed).arg(&self.values).arg(&request);
                launch.arg(codes).arg(work.output);
                let grid = Kernel::grid(blocks, CODES_THREADS, self.format.rows_bytes(true) * warps);
                // SAFETY: parameters (const u8 *, Geometry, Parsed, Values, Request, const u16 *, Element *). What parsing left of a chunk whose status is 0 has been
                // checked by it; groups are bounded by the slots, for which `check` has seen that there are codes, and the elements of the tiles lie in the output.
                // Shared memory is the rows of each warp.
                unsafe { launch.launch(grid) }.doing("reconstructing")?;
                Ok(())
            }
            _ => Err(CudaError::invalid("codes as streams are for a fused reconstructor, decoded ones for the other")),
        }
    }

    fn launch_fused(
        &self,
        frame: &mut Frame<'_>,
        fused: &Fused,
        batch: &BatchView<'_, u16>,
        parsed: ParsedArgument,
        request: Request,
        work: &mut Reconstruction<'_, '_>,
    ) -> Result<()> {
        let chunks = work.parsed.chunk_count;
        let (tables, mut sums) = fused.tables.launch(frame, batch, work.status)?;
        let mut wide = frame.slice::<u32>(chunks as usize)?;
        let stream = frame.stream().clone();
        let dynamic_bytes = self.shared_memory - OWN_SHARED_MEMORY;
        let unit = self.unit(chunks);
        let parts = self.parts(chunks, unit);
        let blocks = u64::from(parts) * u64::from(chunks);
        let blocks = u32::try_from(blocks).map_err(|_| CudaError::invalid("the batch is too large: make several"))?;
        let request = Request { parts, dynamic_bytes, unit, ..request };
        let tables = tables.as_view();
        for kernel in &fused.kernels {
            let mut launch = stream.launch_builder(kernel.function());
            launch.arg(work.input).arg(&self.device_geometry).arg(&parsed).arg(&self.values).arg(&request);
            launch.arg(&batch.descriptors).arg(&batch.books).arg(&tables).arg(&batch.symbols);
            launch.arg(&mut sums).arg(&mut *work.status).arg(&mut wide).arg(&mut *work.output);
            let grid = Kernel::grid(blocks, FUSED_THREADS, dynamic_bytes);
            // SAFETY: parameters (const u8 *, Geometry, Parsed, Values, Request, const Stream *, const Book *, const u32 *, const u16 *, u32 *, u32 *, u32 *, Element *). There are a
            // stream and a word of status and width for each chunk (`check`), whose bytes lie in the input; positions that codewords and index give are bounded by the
            // stream's bits, and in shared memory by the room behind the last warp's. What parsing left of a chunk whose status is 0 has been checked by it;
            // the elements of the tiles lie in the output.
            unsafe { launch.launch(grid) }.doing("decoding and reconstructing")?;
        }
        let mut launch = stream.launch_builder(fused.verify.function());
        let sums = sums.as_view();
        launch.arg(&self.device_geometry).arg(&parsed).arg(&request);
        launch.arg(&batch.descriptors).arg(&sums).arg(&mut *work.status);
        let grid = Kernel::grid(chunks.div_ceil(VERIFY_THREADS), VERIFY_THREADS, 0);
        // SAFETY: parameters (Geometry, Parsed, Request, const Stream *, const u32 *, u32 *): a stream, two sums and a word of status for each chunk.
        unsafe { launch.launch(grid) }.doing("comparing checksums")?;
        Ok(())
    }

    /// Checks lengths and alignments; the tiles that are in the batch.
    fn check(&self, frame: &Frame<'_>, work: &Reconstruction<'_, '_>) -> Result<std::ops::Range<u64>> {
        let stream = frame.stream();
        let parsed = work.parsed;
        let element = self.format.element_bytes();
        let end_chunk = work.first_chunk.checked_add(parsed.chunk_count.into());
        if end_chunk.is_none_or(|end| end > self.geometry.chunks()) {
            return Err(CudaError::invalid("the batch has chunks that the array does not have"));
        }
        let batch_tiles = self.geometry.chunk_range(work.first_chunk).start
            ..self.geometry.chunk_range(end_chunk.unwrap_or(0).max(1) - 1).end;
        let tiles = work.tiles.start.max(batch_tiles.start)..work.tiles.end.min(batch_tiles.end);
        if tiles.is_empty() || parsed.chunk_count == 0 {
            return Ok(0..0);
        }
        // Tiles are in raster order: the first one's first element and the last one's last are the outermost.
        let [b, z, y] = self.geometry.strides();
        let index = |at: [u64; 4]| at[0] * b + at[1] * z + at[2] * y + at[3];
        let (first, last) = (self.geometry.tile(tiles.start), self.geometry.tile(tiles.end - 1));
        let [lb, lz, ly, lx] = last.origin;
        let [ez, ey, ex] = last.extent.map(|extent| extent as u64 - 1);
        let start = index(first.origin);
        let end = index([lb, lz + ez, ly + ey, lx + ex]) + 1;
        let room = work.output.len() as u64 / element;
        let inside = start >= work.first_element && end - work.first_element.min(end) <= room;
        let output_misaligned = !work.output.as_view().device_ptr(stream).0.is_multiple_of(element);
        let input_misaligned = !work.input.device_ptr(stream).0.is_multiple_of(16);
        let (codes_short, codes_misaligned) = match &work.codes {
            Codes::Streams(batch) => (batch.totals.streams != parsed.chunk_count, false),
            Codes::Decoded(codes) => {
                let needed = (u64::from(parsed.chunk_count) * u64::from(parsed.slots)) << self.format.group_log2;
                ((codes.len() as u64) < needed, !codes.device_ptr(stream).0.is_multiple_of(16))
            }
        };
        let problems = [
            (!inside, "the output does not hold the elements of the tiles"),
            (
                output_misaligned || input_misaligned || codes_misaligned,
                "input and codes start on multiples of 16 bytes, the output on one of an element",
            ),
            (codes_short, "there is a stream for each chunk, and decoded codes fill each chunk's slots"),
            (work.status.len() < parsed.chunk_count as usize, "there is one word of status for each chunk"),
        ];
        match problems.iter().find(|problem| problem.0) {
            Some(&(_, problem)) => Err(CudaError::invalid(problem)),
            None => Ok(tiles),
        }
    }

    /// Tiles that a warp draws at a time: more of them are better packed where many are constant, but every warp should draw several times.
    fn unit(&self, chunks: u32) -> u32 {
        let warps = u64::from(self.multiprocessors * FUSED_THREADS / 32);
        let least = self.format.tiles_of_warp();
        let enough = |&unit: &u32| u64::from(self.units_of_chunk(unit)) * u64::from(chunks) >= 4 * warps;
        [32, 16, 8].into_iter().filter(|&unit| unit > least).find(enough).unwrap_or(least)
    }

    /// Draws of so many tiles in a chunk.
    fn units_of_chunk(&self, unit: u32) -> u32 {
        let tiles = self.geometry.tiles().min(self.geometry.tiles_per_chunk().into()) as u32;
        tiles.div_ceil(unit)
    }

    /// Blocks for each chunk. All take about as long, so that rounds of them should be full ones; a block has its tables to load first, about half as
    /// long as a warp takes for a draw.
    fn parts(&self, chunks: u32, unit: u32) -> u32 {
        let units = self.units_of_chunk(unit);
        let warps = f64::from(FUSED_THREADS / 32);
        let time = |parts: u32| {
            let rounds = (u64::from(chunks) * u64::from(parts)).div_ceil(self.multiprocessors.into());
            rounds as f64 * ((f64::from(units.div_ceil(parts)) / warps).ceil() + 0.5)
        };
        (1..=units.div_ceil(8).max(1)).min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(1)
    }
}
