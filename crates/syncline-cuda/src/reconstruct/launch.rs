//! Launches the kernels of `reconstruct/reconstruct.cu` and the kernels that follow them.

#![allow(unsafe_code)]

use cudarc::driver::{CudaView, CudaViewMut, DevicePtr};
use syncline_core::container::Header;
use syncline_core::geometry::{Geometry, TileSize};
use syncline_core::huffman::IndexKind;
use syncline_core::tokens;

use super::arguments::Wanted;
use super::kernels::{CodesKernels, FusedKernels, LargeTilesKernels, TokenCodesKernels};
use super::strips::{self, Strips};
use super::structs::{Request, Values};
use super::{
    APART_THREADS, CODES_THREADS, Codes, FUSED_THREADS, Format, LARGE_TILES_THREADS, Reconstruction, Strategy,
    TOKEN_CODES_THREADS,
};
use crate::container::parsed::sums_len;
use crate::container::structs::{BatchFinish, MAX_CHUNKS};
use crate::device::{Arena, Device, Frame, Grid, view_bytes_mut};
use crate::device_kernels::launch;
use crate::error::{CudaError, Result};
use crate::geometry::DeviceGeometry;
use crate::huffman::decode::{BatchView, SINGLE_LONG_ENTRIES, TABLE_BITS};

/// Bytes of static shared memory of a block that decodes, including what the driver reserves.
const OWN_SHARED_MEMORY: u32 = 2304;
/// Bytes of dynamic shared memory that such a block needs for symbols of 16 bits: tables of four codebooks, the sums of
/// a warp, and some words of input with the words that a damaged stream may read after them.
const OF_ANY_SYMBOLS: u32 = 16 * ((1 << TABLE_BITS) + SINGLE_LONG_ENTRIES[1]) + (32 << 9) + 600;
/// Bytes of shared memory while tables with pairs of symbols are built: these tables, and those of single codewords
/// from which they are built.
const OF_PAIRS: u32 = 4 * ((4 << TABLE_BITS) + 2 * SINGLE_LONG_ENTRIES[1]) + 4 * (2 << TABLE_BITS);

/// Minimum shared memory of a block in bytes for decoding and reconstructing in one kernel.
const TO_FUSE: u32 = if OF_ANY_SYMBOLS > OF_PAIRS { OF_ANY_SYMBOLS } else { OF_PAIRS } + OWN_SHARED_MEMORY;

/// Returns whether streams with this index are decoded and reconstructed in one kernel, on a device with
/// `shared_memory` bytes of shared memory per block.
pub fn fuses(index: IndexKind, shared_memory: u32) -> bool {
    index == IndexKind::Symbol && shared_memory >= TO_FUSE
}

/// The kernels of a [`Strategy`]. Those that decode exist for radius 512 and for any codes.
#[derive(Debug, Clone)]
enum Kernels {
    Fused([FusedKernels; 2]),
    Apart([FusedKernels; 2], Strips),
    /// The second kernel is for chunks with token codebooks, if there can be any.
    Decoded(CodesKernels, Option<TokenKernels>),
}

/// The kernel for chunks with token codebooks, by the size of tiles.
#[derive(Debug, Clone)]
enum TokenKernels {
    Small(TokenCodesKernels),
    Large(LargeTilesKernels),
}

/// Input of a kernel that decodes, and the shared memory of its blocks in bytes.
struct Coded<'c, 'v> {
    wanted: &'c Wanted,
    input: &'c CudaView<'v, u8>,
    batch: &'c BatchView<'v, u16>,
    dynamic_bytes: u32,
}

/// Reconstructs the chunks of one stream.
#[derive(Debug, Clone)]
pub struct Reconstructor {
    format: Format,
    geometry: Geometry,
    device_geometry: DeviceGeometry,
    values: Values,
    kernels: Kernels,
    multiprocessors: u32,
    shared_memory: u32,
}

impl Reconstructor {
    /// Creates a reconstructor for streams with this header and the given tiling, with the strategy that is fastest.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for a stream that is lossless or of another element type; errors of
    /// [`Device::kernel`].
    pub fn new(device: &Device, header: &Header, geometry: &Geometry) -> Result<Self> {
        let way = if !fuses(header.index, device.info().shared_memory_per_block) {
            Strategy::Decoded
        } else if strips::pays(geometry, header.element_type.size() as u64) {
            Strategy::Apart
        } else {
            Strategy::Fused
        };
        Self::with_way(device, header, geometry, way)
    }

    /// Creates a reconstructor with the given strategy, so that benches can compare strategies.
    ///
    /// # Errors
    /// The errors of [`Self::new`]; [`CudaError::InvalidArgument`] if the stream or the device does not support the
    /// strategy.
    pub fn with_way(device: &Device, header: &Header, geometry: &Geometry, way: Strategy) -> Result<Self> {
        let format = Format::new(header, geometry)?;
        let shared_memory = device.info().shared_memory_per_block;
        if way.decodes() && !fuses(header.index, shared_memory) {
            return Err(CudaError::invalid(format!(
                "only streams with the symbol index are decoded while they are reconstructed, on devices with \
                 {TO_FUSE} bytes of shared memory a block or more"
            )));
        }
        if way == Strategy::Apart && format.axes != 3 {
            return Err(CudaError::invalid("staged sums require tiles of three axes"));
        }
        let decoding = |apart| -> Result<[FusedKernels; 2]> {
            let load = |wide| -> Result<FusedKernels> {
                let kernels = FusedKernels::load(device, format, wide, apart)?;
                let kernel = &kernels.reconstruct;
                kernel.allow_shared_memory(shared_memory - OWN_SHARED_MEMORY)?;
                if apart && !wide {
                    kernel.leave_shared_memory()?;
                }
                Ok(kernels)
            };
            Ok([load(false)?, load(true)?])
        };
        let kernels = match way {
            Strategy::Fused => Kernels::Fused(decoding(false)?),
            Strategy::Apart => Kernels::Apart(decoding(true)?, Strips::new(device, format, geometry)?),
            Strategy::Decoded => {
                let codes = CodesKernels::load(device, format)?;
                codes.reconstruct_codes.allow_shared_memory(format.rows_bytes(true) * CODES_THREADS / 32)?;
                let token_codes = || match geometry.tile_size() {
                    TileSize::Small => TokenCodesKernels::load(device, format).map(TokenKernels::Small),
                    TileSize::Large => LargeTilesKernels::load(device, format).map(TokenKernels::Large),
                };
                Kernels::Decoded(codes, header.token_codes.then(token_codes).transpose()?)
            }
        };
        Ok(Self {
            format,
            geometry: geometry.clone(),
            device_geometry: DeviceGeometry::new(geometry, header.group_log2),
            values: Values::new(header),
            kernels,
            multiprocessors: device.info().multiprocessors,
            shared_memory,
        })
    }

    /// Returns the strategy of this reconstructor.
    pub fn way(&self) -> Strategy {
        match self.kernels {
            Kernels::Fused(_) => Strategy::Fused,
            Kernels::Apart(..) => Strategy::Apart,
            Kernels::Decoded(..) => Strategy::Decoded,
        }
    }

    /// Returns the bytes of its frame that a launch takes for `chunks` chunks with at most `slots` groups each.
    pub fn workspace(&self, chunks: u32, slots: u32) -> usize {
        match &self.kernels {
            Kernels::Apart(_, strips) => {
                let tiles = u64::from(chunks) * u64::from(self.geometry.tiles_per_chunk());
                Arena::bytes_for::<u16>(self.rows_len(chunks, slots)) + strips.workspace(tiles)
            }
            _ => 0,
        }
    }

    /// Returns the number of sums of rows for `chunks` chunks with at most `slots` groups each.
    fn rows_len(&self, chunks: u32, slots: u32) -> usize {
        (chunks as usize * slots as usize) << self.format.group_log2
    }

    /// Queues the reconstruction on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the codes are not of the kind that the strategy takes, if buffers are too
    /// short or misaligned, or if the array has no such chunks; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    /// Damaged streams are not an error here: see [`Reconstruction::status`].
    pub fn launch(&self, frame: &mut Frame<'_>, work: Reconstruction<'_, '_>) -> Result<()> {
        self.launch_ending(frame, work, BatchFinish::NONE).map(drop)
    }

    /// Queues the reconstruction as [`Self::launch`] does. If the last kernel can also finish the batch of `ending`, it
    /// does so, and the function returns `true`.
    ///
    /// # Errors
    /// The errors of [`Self::launch`].
    pub(crate) fn launch_ending(
        &self,
        frame: &mut Frame<'_>,
        work: Reconstruction<'_, '_>,
        ending: BatchFinish,
    ) -> Result<bool> {
        let tiles = self.check(frame, &work)?;
        if tiles.is_empty() {
            return Ok(false);
        }
        let stream = frame.stream().clone();
        let vector = 16 / self.format.element_bytes();
        // Tiles of a single row start on multiples of their length.
        let rows_aligned = self.format.axes == 1 || self.geometry.dims()[3].is_multiple_of(vector);
        let aligned = rows_aligned && work.first_element.is_multiple_of(vector);
        let address = work.output.as_view().device_ptr(&stream).0;
        let request = Request {
            first_chunk: work.first_chunk,
            tiles_start: tiles.start,
            tiles_end: tiles.end,
            first_element: work.first_element,
            parts: 1,
            dynamic_bytes: 0,
            vectors: (aligned && address.is_multiple_of(16)).into(),
            tabled: 0,
        };
        let wanted = Wanted {
            geometry: self.device_geometry,
            parsed: work.parsed.argument(&stream),
            values: self.values,
            request,
        };
        match (&self.kernels, work.codes) {
            (Kernels::Fused(kernels), Codes::Streams(batch)) => {
                let Reconstruction { input, output, status, sums, .. } = work;
                let coded =
                    Coded { wanted: &wanted, input, batch, dynamic_bytes: self.shared_memory - OWN_SHARED_MEMORY };
                for kernel in kernels {
                    let to = (&mut *output, &mut *status, &mut *sums);
                    self.launch_decoding(frame, kernel, FUSED_THREADS, &coded, to, ending)?;
                }
                Ok(true)
            }
            (Kernels::Apart([narrow, wide], strips), Codes::Streams(batch)) => {
                let len = self.rows_len(work.parsed.chunk_count, work.parsed.slots);
                let mut rows = frame.slice::<u16>(len)?;
                let mut strip_batch = strips.batch(frame, &tiles)?;
                let mut bytes = view_bytes_mut(&mut rows);
                let Reconstruction { input, output, status, sums, .. } = work;
                let least = OF_ANY_SYMBOLS.max(OF_PAIRS);
                let dynamic_bytes = (self.shared_memory - OWN_SHARED_MEMORY - strips.shared_beside()).max(least);
                let coded = Coded { wanted: &wanted, input, batch, dynamic_bytes };
                let to = (&mut bytes, &mut *status, &mut *sums);
                self.launch_decoding(frame, narrow, APART_THREADS, &coded, to, BatchFinish::NONE)?;
                // SAFETY: the decoding kernel waits for parsing before it lets this one start. It counts its blocks in
                // the last sums and otherwise does not access output, states and last sums. It has a block for each
                // multiprocessor. `check` has ensured that the output contains the elements of the tiles.
                unsafe { strips.launch_flat(frame, &wanted, &mut strip_batch, output, sums) }?;
                let to = (&mut bytes, &mut *status, &mut *sums);
                self.launch_decoding(frame, wide, APART_THREADS, &coded, to, BatchFinish::NONE)?;
                let rows = rows.as_view();
                // SAFETY: the previous kernels have written the sums of all slots and the states. `check` has ensured
                // that the output contains the elements of the tiles. `ending` points to memory of the batch of these
                // chunks.
                unsafe { strips.launch(frame, input, &wanted, &strip_batch, &rows, output, sums, ending, status) }?;
                Ok(true)
            }
            (Kernels::Decoded(kernels, _), Codes::Decoded(codes)) => {
                let warps = CODES_THREADS / 32;
                // Constant tiles are fewer units of work than others.
                let tiles = self.geometry.tiles().min(self.geometry.tiles_per_chunk().into()) as u32;
                let parts = (tiles.div_ceil(self.format.tiles_of_warp()) + 1).div_ceil(warps);
                let blocks = u64::from(parts) * u64::from(work.parsed.chunk_count);
                let blocks =
                    u32::try_from(blocks).map_err(|_| CudaError::invalid("the batch is too large: make several"))?;
                let request = Request { parts, ..request };
                let Wanted { geometry, parsed, values, .. } = wanted;
                let grid = Grid::new(blocks, CODES_THREADS).shared_memory(self.format.rows_bytes(true) * warps);
                // SAFETY: the parsing kernel has validated the results for chunks whose status is 0. Groups are bounded
                // by the slots, for which `check` has ensured that there are codes, and the output contains the
                // elements of the tiles. The shared memory holds the rows of each warp.
                unsafe {
                    launch!(kernels.reconstruct_codes on &stream, grid; work.input, geometry, parsed, values, request,
                        codes, work.output)
                }?;
                Ok(false)
            }
            (Kernels::Decoded(_, Some(kernels)), Codes::TokenCodes { codes, slots, plans }) => {
                let tiles = self.geometry.tiles().min(self.geometry.tiles_per_chunk().into()) as u32;
                let plans = plans.argument(&stream);
                let Wanted { geometry, parsed, values, .. } = wanted;
                let grid = |tiles_of_block, threads| {
                    Grid::new(tiles.div_ceil(tiles_of_block), threads).rows(work.parsed.chunk_count)
                };
                // SAFETY: the parsing kernel has validated the results for chunks whose status is 0: it accepts
                // interpolation only with schemes that have plans, in streams with plans, whose elements have the type
                // of this stream's, as `check` has ensured. Groups are bounded by the slots, for which `check` has
                // ensured that there are codes, and the output contains the elements of the tiles.
                unsafe {
                    match kernels {
                        TokenKernels::Small(kernels) => {
                            let tiles_of_block = TOKEN_CODES_THREADS / 32 * self.format.token_codes_tiles().0;
                            let grid = grid(tiles_of_block, TOKEN_CODES_THREADS);
                            launch!(kernels.reconstruct_token_codes on &stream, grid; work.input, geometry, parsed,
                                values, request, codes, slots, plans, work.output)
                        }
                        TokenKernels::Large(kernels) => {
                            launch!(kernels.reconstruct_large_tiles on &stream, grid(1,
                                LARGE_TILES_THREADS); work.input, geometry, parsed, values, request, codes, slots,
                                plans, work.output)
                        }
                    }
                }?;
                Ok(false)
            }
            _ => Err(CudaError::invalid(
                "a reconstructor that decodes requires streams of codes, any other requires decoded codes",
            )),
        }
    }

    /// Launches a kernel that decodes, either to elements or to rows of sums for all slots.
    fn launch_decoding(
        &self,
        frame: &Frame<'_>,
        kernels: &FusedKernels,
        threads: u32,
        coded: &Coded<'_, '_>,
        (output, status, sums): (&mut CudaViewMut<'_, u8>, &mut CudaViewMut<'_, u32>, &mut CudaViewMut<'_, u32>),
        ending: BatchFinish,
    ) -> Result<()> {
        let Coded { wanted, input, batch, dynamic_bytes } = *coded;
        let request = Request { dynamic_bytes, tabled: batch.has_reconstruct_tables.into(), ..wanted.request };
        let Wanted { geometry, parsed, values, .. } = *wanted;
        let BatchView { descriptors, codebooks, symbols, .. } = batch;
        // A block takes almost all shared memory of a multiprocessor, so there is one per multiprocessor; the kernel
        // divides the work equally among them.
        let grid = Grid::new(self.multiprocessors, threads).shared_memory(dynamic_bytes).early(true);
        // The kernel waits for the previous one before it reads or writes anything. There is one exception: with
        // strips, the kernel for wide codes first reads which chunks have wide codes. Parsing has written that, and the
        // previous kernel has waited for parsing. SAFETY: `check` has ensured that for each of at most MAX_CHUNKS
        // chunks there are a stream, a word of status and four words of sums, and four words more. Streams lie in the
        // input. Positions that codewords and index give are bounded by the stream's bits, and in shared memory by the
        // space after the last warp's. The parsing kernel has validated the results for chunks whose status is 0. The
        // output contains the elements of the tiles, or the rows of all slots. `ending` points to memory of the batch
        // of these chunks.
        unsafe {
            launch!(kernels.reconstruct on frame.stream(), grid; input, geometry, parsed, values, request, descriptors,
                codebooks, symbols, sums, status, output, ending)
        }
    }

    /// Checks lengths and alignments. Returns the requested tiles that are in the batch.
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
        // Tiles are in raster order, so the first element of the first tile and the last of the last tile are the
        // outermost.
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
            Codes::Streams(batch) => (batch.sizes.streams != parsed.chunk_count, false),
            Codes::Decoded(codes) => {
                let needed = (u64::from(parsed.chunk_count) * u64::from(parsed.slots)) << self.format.group_log2;
                ((codes.len() as u64) < needed, !codes.device_ptr(stream).0.is_multiple_of(16))
            }
            Codes::TokenCodes { codes, slots, plans } => {
                if plans.is_double() != self.format.double {
                    return Err(CudaError::invalid("the interpolation plans are for another element type"));
                }
                // Groups of token codes are not smaller than those of the slots of `parsed`.
                let needed = u64::from(parsed.chunk_count)
                    * u64::from(*slots)
                    * tokens::group_len(self.geometry.tile_size()) as u64;
                ((codes.len() as u64) < needed, !codes.device_ptr(stream).0.is_multiple_of(4))
            }
        };
        let problems = [
            (!inside, "the output does not hold the elements of the tiles"),
            (
                output_misaligned || input_misaligned || codes_misaligned,
                "input and codes start on multiples of 16 bytes, the output on one of an element",
            ),
            (parsed.chunk_count as usize > MAX_CHUNKS, "a batch has 256 chunks at most"),
            (codes_short, "there is a stream for each chunk, and decoded codes fill each chunk's slots"),
            (work.status.len() < parsed.chunk_count as usize, "there is one word of status for each chunk"),
            (
                matches!(work.codes, Codes::Streams(_)) && work.sums.len() < sums_len(parsed.chunk_count as usize),
                "there are four sums for each chunk, and four words more",
            ),
        ];
        match problems.iter().find(|problem| problem.0) {
            Some(&(_, problem)) => Err(CudaError::invalid(problem)),
            None => Ok(tiles),
        }
    }
}
