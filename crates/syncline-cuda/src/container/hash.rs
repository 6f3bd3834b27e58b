//! XXH3-64 of many pieces of a buffer at once: launcher of `kernels/container/hash.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};
use syncline_core::container::RECORD_HEADER_LEN;

use crate::device::{Arena, Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, Result};

const SOURCE: Source = source!("container/hash.cu");
const THREADS: u32 = 256;
/// Bytes of a block of XXH3, and what its sums take.
pub(super) const BLOCK: u32 = 1024;
const SUMS_WORDS: usize = 8;
/// Blocks of threads for each that the device runs at a time.
const BLOCKS_IN_PLACE: u32 = 4;
/// Parts that a piece is read in, at most: `MAX_HASH_PARTS` in container/hash.cuh.
pub(super) const MAX_PARTS: u32 = 56;
/// Blocks of threads that a multiprocessor holds.
const BLOCKS_AT_A_TIME: u32 = 5;

pub(super) fn specialization() -> Specialization {
    let constants = vec![("THREADS", THREADS.into()), ("BLOCKS", BLOCKS_AT_A_TIME.into())];
    Specialization { source: SOURCE, constants }
}

/// Bytes of a piece that its hash leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExcludedRange {
    /// Where they start in the piece.
    pub at: u64,
    /// How many they are; every piece must have as many.
    pub bytes: u64,
}

impl ExcludedRange {
    /// Nothing is left out.
    pub const NONE: Self = Self { at: 0, bytes: 0 };
    /// A record's own hash.
    pub const RECORD: Self = Self { at: RECORD_HEADER_LEN as u64 - 8, bytes: 8 };
}

/// The pieces of a buffer: where each starts and its bytes, gap included, in device memory.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'a> {
    /// Where each starts, in bytes from the start of the buffer.
    pub starts: &'a CudaView<'a, u64>,
    /// Bytes of each.
    pub lengths: &'a CudaView<'a, u32>,
    /// No length is above this: a longer piece counts as not there.
    pub longest: u32,
    /// What is left out of each.
    pub excluded: ExcludedRange,
}

impl Pieces<'_> {
    fn sums_words(&self) -> usize {
        sums_words(self.starts.len(), self.longest)
    }
}

/// Words of what the whole KiB of so many pieces add, none longer than `longest` bytes.
pub(super) fn sums_words(pieces: usize, longest: u32) -> usize {
    pieces * (longest / BLOCK) as usize * SUMS_WORDS
}

/// How it is seen that pieces are written, where nobody waits for the kernels that do to end, and where the sums of
/// each piece go meanwhile. Addresses in device memory, or 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PendingWrites {
    /// Of each piece the number of blocks that have yet to write something of it.
    pub unwritten: CUdeviceptr,
    /// The list of streams, one of each piece: its sums go to where its groups were, which must be enough.
    pub spans: CUdeviceptr,
    /// Bytes of a group.
    pub group_bytes: u32,
    /// A number that pieces are added to when they are signed.
    pub signed: CUdeviceptr,
}

/// Where hashes go, each an address or 0: an array of them, the gaps of the pieces' own buffer, or what they are
/// compared with there and whether they differ.
#[derive(Debug, Clone, Copy, Default)]
struct HashDestination {
    hashes: CUdeviceptr,
    sign: CUdeviceptr,
    differs: CUdeviceptr,
}

/// `Pieces` in container/hash.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct DevicePieces {
    bytes: CUdeviceptr,
    available: u64,
    starts: CUdeviceptr,
    lengths: CUdeviceptr,
    excluded_at: u64,
    excluded_bytes: u64,
    sums_stride: u64,
}

// SAFETY: seven words of 64 bits, as `Pieces` has.
unsafe impl DeviceRepr for DevicePieces {}

/// Hashes pieces of buffers.
#[derive(Debug, Clone)]
pub struct Hasher {
    kernel: Kernel,
    blocks_at_a_time: u32,
}

impl Hasher {
    /// For this device.
    ///
    /// # Errors
    /// Those of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        let kernel = device.kernel(&specialization(), "container_hash")?;
        Ok(Self { kernel, blocks_at_a_time: device.info().multiprocessors * BLOCKS_AT_A_TIME })
    }

    /// Bytes of an arena that hashing so many pieces takes, none longer than `longest` bytes.
    pub fn workspace(count: usize, longest: usize) -> usize {
        let blocks_in_piece = (longest / BLOCK as usize).max(1);
        Arena::bytes_for::<u64>(count * blocks_in_piece * SUMS_WORDS) + Arena::bytes_for::<u64>(count)
    }

    /// Writes the hash of each piece of `bytes` to `hashes`, all on the frame's stream. A piece that does not lie
    /// within `bytes` has hash 0: starts and lengths are not trusted.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are not as many starts as lengths and hashes;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn hash(
        &self,
        frame: &mut Frame<'_>,
        bytes: &CudaView<'_, u8>,
        pieces: &Pieces<'_>,
        hashes: &mut CudaViewMut<'_, u64>,
    ) -> Result<()> {
        if hashes.len() != pieces.starts.len() {
            return Err(CudaError::invalid("there must be room for the hash of each piece"));
        }
        let stream = frame.stream().clone();
        let (hashes, _order) = hashes.device_ptr_mut(&stream);
        let (pointer, _reads) = bytes.device_ptr(&stream);
        let mut progress = frame.zeros::<u64>(pieces.starts.len())?;
        let mut sums = frame.slice::<u64>(pieces.sums_words())?;
        let to = HashDestination { hashes, ..HashDestination::default() };
        let sums = sums.device_ptr_mut(&stream).0;
        self.launch(&stream, pointer, bytes.len(), pieces, &mut progress, sums, to, PendingWrites::default())
    }

    /// Compares the hash of each piece of `bytes` with what it has in its gap, as records have it: writes to `differs`
    /// whether they differ. Not so for a piece that does not lie within `bytes`, or has no room for a hash in its gap.
    /// Takes words of progress that are 0, one a piece, which they are again afterwards.
    ///
    /// # Errors
    /// As [`Self::hash`].
    pub fn verify(
        &self,
        frame: &mut Frame<'_>,
        bytes: &CudaView<'_, u8>,
        pieces: &Pieces<'_>,
        progress: &mut CudaViewMut<'_, u64>,
        differs: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        if differs.len() != pieces.starts.len() {
            return Err(CudaError::invalid("there must be a word for each piece"));
        }
        let stream = frame.stream().clone();
        let (differs, _order) = differs.device_ptr_mut(&stream);
        let (pointer, _reads) = bytes.device_ptr(&stream);
        let mut sums = frame.slice::<u64>(pieces.sums_words())?;
        let to = HashDestination { differs, ..HashDestination::default() };
        let sums = sums.device_ptr_mut(&stream).0;
        self.launch(&stream, pointer, bytes.len(), pieces, progress, sums, to, PendingWrites::default())
    }

    /// Writes the hash of each piece into its gap, as records have it. A piece that does not lie within `bytes` is left
    /// as it is.
    ///
    /// # Errors
    /// As [`Self::hash`]; also unless pieces and gaps start on multiples of 8 bytes as far as the host can see.
    pub fn sign(&self, frame: &mut Frame<'_>, bytes: &mut CudaViewMut<'_, u8>, pieces: &Pieces<'_>) -> Result<()> {
        let mut progress = frame.zeros::<u64>(pieces.starts.len())?;
        let mut scratch = frame.slice::<u16>(0)?;
        self.sign_in(frame, bytes, pieces, &mut progress, &mut scratch, PendingWrites::default())
    }

    /// [`Self::sign`] with words of progress that are 0, one a piece, which they are again afterwards. Works in
    /// `scratch` if that is enough, else in memory of the frame; with a list of streams in `scratch`, where their
    /// groups were. What says that pieces are written is brought there by the kernels before on the stream, which have
    /// let this one begin when it was known where pieces start.
    pub(crate) fn sign_in(
        &self,
        frame: &mut Frame<'_>,
        bytes: &mut CudaViewMut<'_, u8>,
        pieces: &Pieces<'_>,
        progress: &mut CudaViewMut<'_, u64>,
        scratch: &mut CudaViewMut<'_, u16>,
        written: PendingWrites,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let length = bytes.len();
        let (pointer, _order) = bytes.device_ptr_mut(&stream);
        if !pointer.is_multiple_of(8) || !pieces.excluded.at.is_multiple_of(8) || pieces.excluded.bytes < 8 {
            return Err(CudaError::invalid("a hash is written to a multiple of 8 bytes, in a gap of at least as many"));
        }
        let words = pieces.sums_words();
        let sums = match written.spans != 0 || scratch.len() * size_of::<u16>() >= words * size_of::<u64>() {
            true => scratch.device_ptr_mut(&stream).0,
            false => frame.slice::<u64>(words)?.device_ptr_mut(&stream).0,
        };
        let to = HashDestination { sign: pointer, ..HashDestination::default() };
        self.launch(&stream, pointer, length, pieces, progress, sums, to, written)
    }

    #[expect(clippy::too_many_arguments, reason = "what is hashed, with what, and where hashes go")]
    fn launch(
        &self,
        stream: &Arc<CudaStream>,
        bytes: CUdeviceptr,
        available: usize,
        pieces: &Pieces<'_>,
        progress: &mut CudaViewMut<'_, u64>,
        sums: CUdeviceptr,
        to: HashDestination,
        written: PendingWrites,
    ) -> Result<()> {
        let count = u32::try_from(pieces.starts.len()).ok().filter(|&count| count < 1 << 20);
        let count = count.ok_or_else(|| CudaError::invalid("at most 2^20 pieces are hashed at a time"))?;
        if pieces.lengths.len() != count as usize || progress.len() < count as usize {
            return Err(CudaError::invalid("there must be as many lengths and words of progress as starts"));
        }
        if count == 0 {
            return Ok(());
        }
        let blocks_in_piece = pieces.longest / BLOCK;
        // Several for each place on the device, so that they are dealt out evenly; no more than the longest piece can
        // have.
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
        // Only writers of records are followed by kernels and not by copies.
        let launch = ProgrammaticDependentLaunch::new(&self.kernel, stream)
            .early(to.sign != 0)
            .value(pointers)
            .value(parts)
            .value(sums)
            .writes(progress);
        let launch = launch.value(to.hashes).value(to.sign).value(to.differs).value(written.unwritten);
        let launch = launch.value(written.signed).value(written.spans).value(written.group_bytes);
        // SAFETY: the kernel's parameters are (Pieces, u32, u64 *, u64 *, u64 *, u8 *, u32 *, const u32 *, u32 *, const
        // Span *, u32). It reads pieces only where they lie within `available` bytes, has room for the sums of as many
        // KiB as a piece of at most `longest` bytes has and a word of progress a piece, and writes one hash a piece if
        // `hashes` is not 0, a word a piece if `differs` is not; if `sign` is not 0 it is `bytes`, ours to write, and
        // gaps are within their pieces. It waits at its start, or for each piece until that is written, as the caller
        // of `sign_in` vouches for.
        unsafe { launch.launch(Kernel::grid(count * parts, THREADS, 0)) }
    }
}
