//! Results of parsing: the arrays of a batch's chunks and tiles, and the Huffman streams to decode.

use cudarc::driver::CudaViewMut;
use cudarc::driver::sys::CUdeviceptr;

use crate::container::parsed::Parsed;
use crate::container::structs::ParsedChunk;
use crate::huffman::decode::BatchView;

/// The arrays of chunks and tiles of a parsed batch.
#[derive(Debug)]
pub struct Tiles<'a> {
    pub(super) chunks: CudaViewMut<'a, ParsedChunk>,
    pub(super) metas: CudaViewMut<'a, u16>,
    pub(super) bases: CudaViewMut<'a, i32>,
    pub(super) first_groups: CudaViewMut<'a, u32>,
    pub(super) order: CudaViewMut<'a, u16>,
    pub(super) outlier_starts: CudaViewMut<'a, u32>,
    pub(super) verbatim_starts: CudaViewMut<'a, u32>,
    pub(super) mask_starts: Option<CudaViewMut<'a, u32>>,
    pub(super) sign_starts: Option<CudaViewMut<'a, u32>>,
    pub(super) ranks: CudaViewMut<'a, u32>,
    pub(super) bitmap_stride: u64,
    pub(super) rank_stride: u32,
    pub(super) tiles: u32,
    pub(super) chunk_count: u32,
    pub(super) slots: u32,
}

impl<'a> Tiles<'a> {
    /// Returns the chunks, so that later stages can add to their status.
    pub(crate) fn chunks_mut(&mut self) -> &mut CudaViewMut<'a, ParsedChunk> {
        &mut self.chunks
    }

    /// Returns the input of reconstruction. `bitmaps` are the decoded bytes of [`ParsedRecords::bitmap_bytes`].
    pub fn parsed<'t>(&'t self, bitmaps: Option<&'t CudaViewMut<'_, u8>>) -> Parsed<'t> {
        let kind_bytes = self.bitmap_stride as usize * self.chunk_count as usize;
        let part = |present: bool, number: usize| {
            bitmaps.filter(|_| present).map(|bytes| bytes.slice(number * kind_bytes..(number + 1) * kind_bytes))
        };
        let has_masks = self.mask_starts.is_some();
        Parsed {
            chunks: self.chunks.as_view(),
            metas: self.metas.as_view(),
            bases: self.bases.as_view(),
            first_groups: self.first_groups.as_view(),
            order: self.order.as_view(),
            outlier_starts: self.outlier_starts.as_view(),
            verbatim_starts: self.verbatim_starts.as_view(),
            mask_starts: self.mask_starts.as_ref().map(CudaViewMut::as_view),
            sign_starts: self.sign_starts.as_ref().map(CudaViewMut::as_view),
            masks: part(has_masks, 0),
            signs: part(self.sign_starts.is_some(), usize::from(has_masks)),
            ranks: self.ranks.as_view(),
            bitmap_stride: self.bitmap_stride,
            rank_stride: self.rank_stride,
            tiles: self.tiles,
            chunk_count: self.chunk_count,
            slots: self.slots,
        }
    }
}

/// A batch of records, parsed on the device.
#[derive(Debug)]
pub struct ParsedRecords<'a> {
    /// Chunks and tiles.
    pub tiles: Tiles<'a>,
    /// The streams of codes, one per chunk. Each chunk's symbols go to `slots` groups.
    pub codes: BatchView<'a, u16>,
    /// Classes of the groups of codes, `slots` per chunk; empty unless requested.
    pub classes: CudaViewMut<'a, u8>,
    /// Status of each stream of codes.
    pub code_status: CudaViewMut<'a, u32>,
    /// Words for [`Reconstruction::sums`](crate::reconstruct::Reconstruction::sums).
    pub code_sums: CudaViewMut<'a, u32>,
    /// The streams of bitmaps: masks of all chunks, then signs of all chunks. `None` if no chunk can have any.
    pub bitmaps: Option<BatchView<'a, u8>>,
    /// Destination of the decoded bitmaps, for [`Tiles::parsed`].
    pub bitmap_bytes: Option<CudaViewMut<'a, u8>>,
    /// Status of each stream of bitmaps.
    pub bitmap_status: CudaViewMut<'a, u32>,
    /// Address and bytes of the memory that the last kernel of the batch must clear.
    pub(super) reused: (CUdeviceptr, u32),
}
