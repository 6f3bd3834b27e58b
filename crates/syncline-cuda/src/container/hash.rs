//! Computes XXH3-64 of many pieces of a buffer: launcher of `kernels/container/hash.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

mod pieces;

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};

use pieces::HashDestination;
pub(super) use pieces::sums_words;
pub use pieces::{ExcludedRange, Pieces};

use super::structs::DevicePieces;
use crate::device::{Arena, Device, Frame, Grid};
use crate::device_kernels::{Out, declare_kernels, launch};
use crate::error::{CudaError, Result};

declare_kernels! {
    /// The kernel of `kernels/container/hash.cu`.
    pub(super) struct HashKernels in "container/hash.cu" {
        const THREADS: u32 = 256;
        with BLOCKS = BLOCKS_AT_A_TIME;
        fn container_hash(
            pieces: DevicePieces, parts: u32, sums: CUdeviceptr as "uint64_t *", progress: Out<u64>,
            hashes: CUdeviceptr as "uint64_t *", checksummed_bytes: CUdeviceptr as "uint8_t *",
            differs: CUdeviceptr as "uint32_t *", checksummed: CUdeviceptr as "uint32_t *",
        );
    }
}

/// Bytes of an XXH3 block.
pub(super) const BLOCK: u32 = 1024;
const SUMS_WORDS: usize = 8;
/// Blocks of threads launched per block that the device runs concurrently, so that work is balanced.
const BLOCKS_IN_PLACE: u32 = 4;
/// Maximum number of parts that one piece is read in: `MAX_HASH_PARTS` in container/hash.cuh.
pub(super) const MAX_PARTS: u32 = 56;
/// Blocks of threads per multiprocessor.
const BLOCKS_AT_A_TIME: u32 = 5;

/// Hashes pieces of buffers.
#[derive(Debug, Clone)]
pub struct Hasher {
    kernels: HashKernels,
    blocks_at_a_time: u32,
}

impl Hasher {
    /// Loads the kernel for this device.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        let kernels = HashKernels::load(device)?;
        Ok(Self { kernels, blocks_at_a_time: device.info().multiprocessors * BLOCKS_AT_A_TIME })
    }

    /// Returns the bytes of arena memory that hashing `count` pieces of at most `longest` bytes takes.
    pub fn workspace(count: usize, longest: usize) -> usize {
        let blocks_in_piece = (longest / BLOCK as usize).max(1);
        Arena::bytes_for::<u64>(count * blocks_in_piece * SUMS_WORDS) + Arena::bytes_for::<u64>(count)
    }

    /// Writes the hash of each piece of `bytes` to `hashes` on the frame's stream. Starts and lengths are not trusted:
    /// the hash of a piece that does not lie within `bytes` is 0.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are as many lengths and hashes as starts;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn hash(
        &self,
        frame: &mut Frame<'_>,
        bytes: &CudaView<'_, u8>,
        pieces: &Pieces<'_>,
        hashes: &mut CudaViewMut<'_, u64>,
    ) -> Result<()> {
        if hashes.len() != pieces.starts.len() {
            return Err(CudaError::invalid("every piece needs room for its hash"));
        }
        let stream = frame.stream().clone();
        let (hashes, _order) = hashes.device_ptr_mut(&stream);
        let (pointer, _reads) = bytes.device_ptr(&stream);
        let mut progress = frame.zeros::<u64>(pieces.starts.len())?;
        let mut sums = frame.slice::<u64>(pieces.sums_words())?;
        let to = HashDestination { hashes, ..HashDestination::default() };
        let sums = sums.device_ptr_mut(&stream).0;
        self.launch(&stream, pointer, bytes.len(), pieces, &mut progress, sums, to)
    }

    /// Compares the hash of each piece of `bytes` with the one stored in its excluded range, and writes to `differs`
    /// whether they differ. A piece that does not lie within `bytes`, or whose excluded range is too short for a hash,
    /// does not differ. `progress` has one word per piece, which is 0 before and after.
    ///
    /// # Errors
    /// The errors of [`Self::hash`].
    pub fn verify(
        &self,
        frame: &mut Frame<'_>,
        bytes: &CudaView<'_, u8>,
        pieces: &Pieces<'_>,
        progress: &mut CudaViewMut<'_, u64>,
        differs: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        if differs.len() != pieces.starts.len() {
            return Err(CudaError::invalid("every piece needs a flag"));
        }
        let stream = frame.stream().clone();
        let (differs, _order) = differs.device_ptr_mut(&stream);
        let (pointer, _reads) = bytes.device_ptr(&stream);
        let mut sums = frame.slice::<u64>(pieces.sums_words())?;
        let to = HashDestination { differs, ..HashDestination::default() };
        let sums = sums.device_ptr_mut(&stream).0;
        self.launch(&stream, pointer, bytes.len(), pieces, progress, sums, to)
    }

    /// Writes the hash of each piece into its excluded range. Leaves a piece that does not lie within `bytes`
    /// unchanged.
    ///
    /// # Errors
    /// The errors of [`Self::hash`]; [`CudaError::InvalidArgument`] also if the buffer or the excluded range does not
    /// start on a multiple of 8 bytes.
    pub fn checksum(&self, frame: &mut Frame<'_>, bytes: &mut CudaViewMut<'_, u8>, pieces: &Pieces<'_>) -> Result<()> {
        let mut progress = frame.zeros::<u64>(pieces.starts.len())?;
        let mut sums = frame.slice::<u64>(pieces.sums_words())?;
        let sums = sums.device_ptr_mut(frame.stream()).0;
        self.write_hashes(frame.stream(), bytes, pieces, (&mut progress, sums), 0)
    }

    /// Writes the hashes as [`Self::checksum`] does, and adds the number of pieces to the counter at `checksummed`.
    /// `progress` has a word for each piece, 0 before and after. The contents of `scratch` are lost.
    pub(super) fn checksum_counted(
        &self,
        frame: &mut Frame<'_>,
        bytes: &mut CudaViewMut<'_, u8>,
        pieces: &Pieces<'_>,
        (progress, scratch): (&mut CudaViewMut<'_, u64>, &mut CudaViewMut<'_, u32>),
        checksummed: CUdeviceptr,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let words = pieces.sums_words();
        let sums = match scratch.len() * size_of::<u32>() >= words * size_of::<u64>() {
            true => scratch.device_ptr_mut(&stream).0,
            false => frame.slice::<u64>(words)?.device_ptr_mut(&stream).0,
        };
        self.write_hashes(&stream, bytes, pieces, (progress, sums), checksummed)
    }

    /// Writes the hashes, with memory for sums of all pieces at an address.
    fn write_hashes(
        &self,
        stream: &Arc<CudaStream>,
        bytes: &mut CudaViewMut<'_, u8>,
        pieces: &Pieces<'_>,
        (progress, sums): (&mut CudaViewMut<'_, u64>, CUdeviceptr),
        checksummed: CUdeviceptr,
    ) -> Result<()> {
        let length = bytes.len();
        let (pointer, _order) = bytes.device_ptr_mut(stream);
        if !pointer.is_multiple_of(8) || !pieces.excluded.at.is_multiple_of(8) || pieces.excluded.bytes < 8 {
            return Err(CudaError::invalid(
                "hashes must be stored in excluded ranges of at least 8 bytes that start on multiples of 8",
            ));
        }
        let to = HashDestination { checksummed_bytes: pointer, checksummed, ..HashDestination::default() };
        self.launch(stream, pointer, length, pieces, progress, sums, to)
    }

    #[expect(clippy::too_many_arguments, reason = "all arguments of the kernel")]
    fn launch(
        &self,
        stream: &Arc<CudaStream>,
        bytes: CUdeviceptr,
        available: usize,
        pieces: &Pieces<'_>,
        progress: &mut CudaViewMut<'_, u64>,
        sums: CUdeviceptr,
        to: HashDestination,
    ) -> Result<()> {
        let count = u32::try_from(pieces.starts.len()).ok().filter(|&count| count < 1 << 20);
        let count = count.ok_or_else(|| CudaError::invalid("at most 2^20 pieces can be hashed at a time"))?;
        if pieces.lengths.len() != count as usize || progress.len() < count as usize {
            return Err(CudaError::invalid("every piece needs a length and a progress word"));
        }
        if count == 0 {
            return Ok(());
        }
        let blocks_in_piece = pieces.longest / BLOCK;
        // Several parts per block that the device runs concurrently balance the load, but not more than the longest
        // piece has.
        let parts = (BLOCKS_IN_PLACE * self.blocks_at_a_time)
            .div_ceil(count)
            .min(blocks_in_piece.div_ceil(THREADS / 32))
            .clamp(1, MAX_PARTS);
        let pointers = DevicePieces {
            bytes,
            available: available as u64,
            starts: pieces.starts.device_ptr(stream).0,
            lengths: pieces.lengths.device_ptr(stream).0,
            excluded_at: pieces.excluded.at,
            excluded_bytes: pieces.excluded.bytes,
            sums_stride: u64::from(blocks_in_piece),
        };
        // Another kernel follows only when records are written; after other uses, copies follow.
        let grid = Grid::new(count * parts, THREADS).early(to.checksummed_bytes != 0);
        let HashDestination { hashes, checksummed_bytes, checksummed, differs } = to;
        // SAFETY: the kernel reads pieces only where they lie within `available` bytes. `sums` has room for the KiB of
        // `count` pieces of at most `longest` bytes. There is one word of progress, hash or flag per piece. A
        // `checksummed_bytes` that is not 0 is `bytes`, borrowed mutably by the caller, and excluded ranges lie within
        // their pieces. The kernel waits for the previous one at its start.
        unsafe {
            launch!(self.kernels.container_hash on stream, grid; pointers, parts, sums, progress, hashes,
                checksummed_bytes, differs, checksummed)
        }
    }
}
