//! Decoding with the symbol index: launcher of `kernels/huffman_decode_indexed.cu`.

use cudarc::driver::{DeviceRepr, PushKernelArg};
use syncline_core::huffman::{Decoder, MAX_CLASSES, Symbol};

use super::{Decoding, INDEX_BLOCK, Preparation, SHAPES, TABLE_BITS, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_decode_indexed.cu", text: include_str!("../../../kernels/huffman_decode_indexed.cu") };

/// Bytes of a row of a warp's tile, at most.
const LARGEST_ROW: u32 = 128;
/// Shared memory that a block has beside tables and tiles.
const OWN_SHARED_MEMORY: u32 = 2048;
/// Words that a warp stages at most: index blocks of more than about 8 bits a symbol are read where they are.
const MOST_STAGED_WORDS: u32 = 1536;

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexedTuning {
    /// Threads in a block.
    pub threads: u32,
    /// Waves of blocks over the device.
    pub waves: u32,
    /// Room for a warp's input in percent of the batch's mean.
    pub staged_percent: u32,
}

impl Default for IndexedTuning {
    fn default() -> Self {
        Self { threads: 512, waves: 4, staged_percent: 140 }
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, books: u32, threads: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2);
    constants.extend([("BOOKS", books.into()), ("THREADS", threads.into())]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations(_shared_memory: u32) -> Vec<Specialization> {
    let threads = IndexedTuning::default().threads;
    let of_books = |books| SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, books, threads));
    [of_books(1), of_books(MAX_CLASSES as u32)].concat()
}

/// One kernel and what its blocks need.
#[derive(Debug, Clone)]
struct Variant {
    kernel: Kernel,
    books: u32,
}

/// Decodes streams with the symbol index.
#[derive(Debug, Clone)]
pub struct Indexed<S> {
    preparation: Preparation<S>,
    /// For streams with one codebook, and with several.
    variants: [Variant; 2],
    tuning: IndexedTuning,
    group_log2: u32,
    multiprocessors: u32,
    shared_memory: u32,
}

impl<S: Symbol + DeviceRepr> Indexed<S> {
    /// A decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `group_log2` is 6 or 7; errors of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_tuning(device, group_log2, IndexedTuning::default())
    }

    /// [`Self::new`] with other numbers, to measure what they are worth.
    ///
    /// # Errors
    /// As [`Self::new`]; also for numbers that no device can do.
    pub fn with_tuning(device: &Device, group_log2: u32, tuning: IndexedTuning) -> Result<Self> {
        if !(32..=1024).contains(&tuning.threads) || !tuning.threads.is_multiple_of(32) || tuning.waves == 0 {
            return Err(CudaError::invalid("a block has 32 to 1024 threads, whole warps, and there is a wave at least"));
        }
        let shared_memory = device.info().shared_memory_per_block;
        let variant = |books| -> Result<Variant> {
            let kernel =
                device.kernel(&specialization(S::BYTES, group_log2, books, tuning.threads), "decode_indexed")?;
            kernel.allow_shared_memory(shared_memory - OWN_SHARED_MEMORY)?;
            Ok(Variant { kernel, books })
        };
        Ok(Self {
            preparation: Preparation::new(device, group_log2)?,
            variants: [variant(1)?, variant(MAX_CLASSES as u32)?],
            tuning,
            group_log2,
            multiprocessors: device.info().multiprocessors,
            shared_memory,
        })
    }

    /// Words of input that a warp stages, a multiple of 4, and the shared memory of a block then; fewer words if they do not fit.
    fn staging(&self, books: u32, bits_in_task: u64) -> (u32, u32) {
        let warps = self.tuning.threads / 32;
        let row = LARGEST_ROW.min((S::BYTES as u32) << self.group_log2);
        let fixed = books * (4 << TABLE_BITS) + warps * 32 * row;
        let room = (self.shared_memory - OWN_SHARED_MEMORY).saturating_sub(fixed) / (4 * warps);
        let wanted = bits_in_task.div_ceil(32) * u64::from(self.tuning.staged_percent) / 100 + 8;
        let words = u64::from(room.min(MOST_STAGED_WORDS)).min(wanted) as u32 / 4 * 4;
        (words, fixed + warps * words * 4)
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if a buffer is too short or misaligned or a stream has another index; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`]. Damaged streams are no error here: see [`Decoding::status`].
    pub fn launch(&self, frame: &mut Frame<'_>, mut work: Decoding<'_, '_, S>) -> Result<()> {
        work.check(frame, Decoder::Indexed, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut work)?;
        let totals = work.batch.totals;
        if totals.tasks > 0 {
            let variant = &self.variants[usize::from(totals.most_books > 1)];
            let (staged_words, shared_memory) = self.staging(variant.books, totals.bits / u64::from(totals.tasks));
            let threads = self.tuning.threads;
            let resident = variant.kernel.blocks_per_multiprocessor(threads, shared_memory)?.max(1);
            let blocks = resident * self.multiprocessors * self.tuning.waves;
            // A task a warp at least.
            let tasks_per_block = totals.tasks.div_ceil(blocks).max(threads / INDEX_BLOCK);
            let blocks = totals.tasks.div_ceil(tasks_per_block);
            let (tables, map) = (scratch.tables.as_view(), scratch.map.as_view());
            let mut launch = frame.stream().launch_builder(variant.kernel.function());
            launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
            launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols).arg(work.classes).arg(&map);
            launch.arg(&totals.tasks).arg(&tasks_per_block).arg(&staged_words);
            launch.arg(&mut scratch.sums).arg(&mut *work.status).arg(&mut *work.output);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const u8 *, const u32 *, u32, u32, u32, u32 *, u32 *,
            // u8 *). Descriptors were made from parsed streams whose bytes lie in the input, whose symbols in the output and whose classes in the array (`Decoding::check`);
            // positions that the device's bytes give are bounded by the stream's bits, groups by its groups. Shared memory is what the kernel lays out:
            // tables of BOOKS codebooks, then a tile and `staged_words` words for each warp.
            unsafe { launch.launch(Kernel::grid(blocks, threads, shared_memory)) }.doing("decoding")?;
        }
        self.preparation.after(frame, &mut work, &scratch)
    }
}
