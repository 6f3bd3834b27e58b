//! The results of parsing in device memory, which reconstruction reads.

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, DevicePtr};
use syncline_core::container::ChunkKind;

use super::structs::{BatchFinish, ParsedArgument, ParsedChunk};

/// [`ParsedChunk::kind`] of a chunk stored verbatim.
pub const CHUNK_RAW: u32 = ChunkKind::Raw as u32;
/// [`ParsedChunk::kind`] of a chunk of codes.
pub const CHUNK_QUANTIZED: u32 = ChunkKind::Quantized as u32;
/// [`ParsedChunk::kind`] of a chunk whose codes are LZSS tokens.
pub const CHUNK_TOKENS: u32 = ChunkKind::LzssCodes as u32;
/// [`ParsedChunk::kind`] of a chunk with token codebooks.
pub const CHUNK_TOKEN_CODES: u32 = ChunkKind::TokenCodes as u32;

/// The parsed records of a batch of chunks. Chunks and tiles are numbered from the batch's first.
#[derive(Debug)]
pub struct Parsed<'a> {
    /// One struct per chunk.
    pub chunks: CudaView<'a, ParsedChunk>,
    /// Bit fields of each tile: bit 0 constant, bits 1-2 predictor, 3-4 class, 5-6 mask kind, 7-8 pattern, 9-10 sign
    /// kind. In chunks with token codebooks, bits 1-4 are the predictor.
    pub metas: CudaView<'a, u16>,
    /// Base of each tile.
    pub bases: CudaView<'a, i32>,
    /// First group of each tile in its chunk.
    pub first_groups: CudaView<'a, u32>,
    /// Tile numbers of each chunk: first those that are not constant, then the others.
    pub order: CudaView<'a, u16>,
    /// First outlier of each tile and the end of the last: `tiles + 1` entries per chunk.
    pub outlier_starts: CudaView<'a, u32>,
    /// First verbatim value of each tile and the end of the last: `tiles + 1` entries per chunk.
    pub verbatim_starts: CudaView<'a, u32>,
    /// First byte of each tile's mask in its chunk's masks; `None` if no tile can have one.
    pub mask_starts: Option<CudaView<'a, u32>>,
    /// First byte of each tile's sign bitmap; `None` if no tile can have one.
    pub sign_starts: Option<CudaView<'a, u32>>,
    /// Decoded bitmaps of masks, `bitmap_stride` bytes per chunk.
    pub masks: Option<CudaView<'a, u8>>,
    /// Decoded bitmaps of signs, `bitmap_stride` bytes per chunk.
    pub signs: Option<CudaView<'a, u8>>,
    /// Number of live groups before every 32nd group, `rank_stride` entries per chunk.
    pub ranks: CudaView<'a, u32>,
    /// Maximum bytes of bitmaps of a chunk.
    pub bitmap_stride: u64,
    /// Entries of `ranks` per chunk.
    pub rank_stride: u32,
    /// Tiles of a whole chunk.
    pub tiles: u32,
    /// Chunks of the batch.
    pub chunk_count: u32,
    /// Maximum number of groups of a chunk.
    pub slots: u32,
}

impl Parsed<'_> {
    /// Returns the kernels' argument. It borrows nothing: `self` must be alive when the kernel is launched.
    pub fn argument(&self, stream: &CudaStream) -> ParsedArgument {
        fn address<T>(view: &CudaView<'_, T>, stream: &CudaStream) -> CUdeviceptr {
            view.device_ptr(stream).0
        }
        fn optional<T>(view: Option<&CudaView<'_, T>>, stream: &CudaStream) -> CUdeviceptr {
            view.map_or(0, |view| address(view, stream))
        }
        ParsedArgument {
            chunks: address(&self.chunks, stream),
            metas: address(&self.metas, stream),
            bases: address(&self.bases, stream),
            first_groups: address(&self.first_groups, stream),
            order: address(&self.order, stream),
            outlier_starts: address(&self.outlier_starts, stream),
            verbatim_starts: address(&self.verbatim_starts, stream),
            mask_starts: optional(self.mask_starts.as_ref(), stream),
            sign_starts: optional(self.sign_starts.as_ref(), stream),
            masks: optional(self.masks.as_ref(), stream),
            signs: optional(self.signs.as_ref(), stream),
            ranks: address(&self.ranks, stream),
            bitmap_stride: self.bitmap_stride,
            rank_stride: self.rank_stride,
            tiles: self.tiles,
            chunk_count: self.chunk_count,
            slots: self.slots,
        }
    }
}

/// Returns the number of words of [`Reconstruction::sums`](crate::reconstruct::Reconstruction::sums) for `chunks`
/// chunks.
pub fn sums_len(chunks: usize) -> usize {
    4 * chunks + 4
}

impl BatchFinish {
    /// No argument: another kernel finishes the batch.
    pub(crate) const NONE: Self = Self { result: 0, bitmap_status: 0, clear: 0, clear_bytes: 0, bitmaps: 0 };
}
