//! Memory for the results of parsing a batch's records.

use std::marker::PhantomData;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut};

use super::results::{ParsedRecords, Tiles};
use super::{BOOKS, Format, cleared_bytes, rank_stride};
use crate::container::parsed::sums_len;
use crate::container::structs::DeviceResults;
use crate::device::{Cleared, Frame};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::decode::BatchView;
use crate::huffman::decode::parse::{ALPHABET, BYTE_ALPHABET, BatchBounds};
use crate::huffman::decode::structs::{BatchTotals, CodebookDescriptor, StreamDescriptor};

fn address<T>(view: &mut CudaViewMut<'_, T>, stream: &CudaStream) -> CUdeviceptr {
    view.device_ptr_mut(stream).0
}

fn optional<T>(view: Option<&mut CudaViewMut<'_, T>>, stream: &CudaStream) -> CUdeviceptr {
    view.map_or(0, |view| address(view, stream))
}

/// Descriptions of Huffman streams, for decoders.
struct Streams<'a> {
    descriptors: CudaViewMut<'a, StreamDescriptor>,
    books: CudaViewMut<'a, CodebookDescriptor>,
    symbols: CudaViewMut<'a, u16>,
    totals: CudaViewMut<'a, BatchTotals>,
}

impl<'a> Streams<'a> {
    fn into_view<S>(self, bounds: &BatchBounds, tabled: bool) -> Result<BatchView<'a, S>> {
        Ok(BatchView {
            descriptors: self.descriptors.into_view(),
            codebooks: self.books.into_view(),
            symbols: self.symbols.into_view(),
            totals: self.totals.into_view(),
            sizes: bounds.sizes()?,
            keep_status: true,
            has_reconstruct_tables: tabled,
            symbol: PhantomData,
        })
    }
}

/// Memory for a batch's results, and for the kernel's scratch data.
pub(super) struct ParseMemory<'a> {
    tiles: Tiles<'a>,
    codes: Streams<'a>,
    code_status: CudaViewMut<'a, u32>,
    code_sums: CudaViewMut<'a, u32>,
    /// Classes of the groups of codes; empty if not requested.
    classes: CudaViewMut<'a, u8>,
    bitmaps: Streams<'a>,
    bitmap_status: CudaViewMut<'a, u32>,
    done: CudaViewMut<'a, u32>,
    marks: CudaViewMut<'a, u8>,
    reused: (CUdeviceptr, u32),
}

impl<'a> ParseMemory<'a> {
    /// Allocates memory for a batch with `bitmap_count` streams of bitmaps. `reused` is as in
    /// [`RecordParser::parse`](super::RecordParser::parse).
    pub fn new(
        frame: &mut Frame<'a>,
        format: &Format,
        geometry: &DeviceGeometry,
        batch: &ChunkBatch,
        bitmap_count: usize,
        has_classes: bool,
        reused: Option<CudaViewMut<'a, u8>>,
    ) -> Result<Self> {
        let (chunks, tiles) = (batch.chunks() as usize, batch.tiles() as usize);
        let mut again = (0, 0);
        let mut cleared = match reused {
            Some(mut memory) => {
                again = (address(&mut memory, frame.stream()), memory.len() as u32);
                Cleared::of(memory)
            }
            None => frame.cleared(cleared_bytes(chunks, bitmap_count))?,
        };
        let rank_stride = rank_stride(batch);
        let class_count = if has_classes { chunks * batch.slots() as usize } else { 0 };
        let mut starts = |wanted: bool| wanted.then(|| frame.slice::<u32>(tiles)).transpose();
        let (mask_starts, sign_starts) = (starts(format.masks())?, starts(format.signs)?);
        Ok(Self {
            tiles: Tiles {
                chunks: cleared.take(chunks)?,
                metas: frame.slice(tiles)?,
                bases: frame.slice(tiles)?,
                order: frame.slice(tiles)?,
                first_groups: frame.slice(tiles)?,
                outlier_starts: frame.slice(tiles + chunks)?,
                verbatim_starts: frame.slice(tiles + chunks)?,
                mask_starts,
                sign_starts,
                ranks: frame.slice(chunks * rank_stride)?,
                bitmap_stride: format.bitmap_stride,
                rank_stride: rank_stride as u32,
                tiles: geometry.chunk_tiles(),
                chunk_count: batch.chunks(),
                slots: batch.slots(),
            },
            codes: Streams {
                descriptors: frame.slice(chunks)?,
                books: frame.slice(chunks * BOOKS)?,
                symbols: frame.slice(chunks * ALPHABET)?,
                totals: cleared.take(1)?,
            },
            marks: frame.slice(chunks * ALPHABET)?,
            bitmaps: Streams {
                descriptors: frame.slice(bitmap_count)?,
                books: frame.slice(bitmap_count)?,
                symbols: frame.slice(bitmap_count * BYTE_ALPHABET)?,
                totals: cleared.take(1)?,
            },
            done: cleared.take(1)?,
            code_status: cleared.take(chunks)?,
            code_sums: cleared.take(sums_len(chunks))?,
            bitmap_status: cleared.take(bitmap_count)?,
            classes: frame.slice(class_count)?,
            reused: again,
        })
    }

    /// Returns the kernel's argument. It borrows nothing: `self`, or the value that [`Self::into_parsed`] returns, must
    /// be alive when the kernel runs.
    pub fn argument(&mut self, stream: &CudaStream, format: &Format) -> DeviceResults {
        let Self { tiles, codes, bitmaps, .. } = self;
        DeviceResults {
            chunks: address(&mut tiles.chunks, stream),
            metas: address(&mut tiles.metas, stream),
            bases: address(&mut tiles.bases, stream),
            order: address(&mut tiles.order, stream),
            first_groups: address(&mut tiles.first_groups, stream),
            outlier_starts: address(&mut tiles.outlier_starts, stream),
            verbatim_starts: address(&mut tiles.verbatim_starts, stream),
            mask_starts: optional(tiles.mask_starts.as_mut(), stream),
            sign_starts: optional(tiles.sign_starts.as_mut(), stream),
            classes: optional(Some(&mut self.classes).filter(|classes| !classes.is_empty()), stream),
            ranks: address(&mut tiles.ranks, stream),
            done: address(&mut self.done, stream),
            codes: address(&mut codes.descriptors, stream),
            bitmaps: address(&mut bitmaps.descriptors, stream),
            code_books: address(&mut codes.books, stream),
            bitmap_books: address(&mut bitmaps.books, stream),
            code_symbols: address(&mut codes.symbols, stream),
            bitmap_symbols: address(&mut bitmaps.symbols, stream),
            marks: address(&mut self.marks, stream),
            totals: address(&mut codes.totals, stream),
            bitmap_totals: address(&mut bitmaps.totals, stream),
            code_status: address(&mut self.code_status, stream),
            bitmap_status: address(&mut self.bitmap_status, stream),
            bitmap_stride: format.bitmap_stride,
            rank_stride: tiles.rank_stride,
            patterns: format.patterns,
            lzss_codes: format.lzss_codes.into(),
            token_codes: format.token_codes.into(),
        }
    }

    /// Converts to the results of the kernel, once it has been launched. The bounds are those of codes and of bitmaps.
    pub fn into_parsed(
        self,
        frame: &mut Frame<'a>,
        format: &Format,
        [code_bounds, bitmap_bounds]: &[BatchBounds; 2],
        has_classes: bool,
    ) -> Result<ParsedRecords<'a>> {
        let (mut bitmap_bytes, mut bitmaps) = (None, None);
        if !self.bitmap_status.is_empty() {
            bitmap_bytes = Some(frame.slice::<u8>(self.bitmap_status.len() * format.bitmap_stride as usize)?);
            bitmaps = Some(self.bitmaps.into_view(bitmap_bounds, false)?);
        }
        Ok(ParsedRecords {
            tiles: self.tiles,
            codes: self.codes.into_view(code_bounds, !has_classes)?,
            classes: self.classes,
            code_status: self.code_status,
            code_sums: self.code_sums,
            bitmaps,
            bitmap_bytes,
            bitmap_status: self.bitmap_status,
            reused: self.reused,
        })
    }
}
