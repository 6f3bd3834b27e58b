//! The kernels before and after each decoder: building tables, locating groups, comparing checksums. Launches
//! `kernels/huffman/decode/prepare.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use crate::device::Specialization;
use crate::huffman::decode::structs::{BatchTotals, CodebookDescriptor, StreamDescriptor};
use cudarc::driver::sys::CUdeviceptr;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use cudarc::driver::{CudaView, CudaViewMut, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::Symbol;

use super::batch::BatchView;
use super::{CODEBOOK_WORDS, COUNT_ENTRIES, Decoding, FORMATS, TABLE_BITS, constants_for};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};

declare_kernels! {
    /// The kernels of `kernels/huffman/decode/prepare.cu`.
    struct PrepareKernels in "huffman/decode/prepare.cu",
        of (symbol_bytes: usize, group_log2: u32, table_bits: u32)
    {
        /// Threads per block.
        const THREADS: u32 = 256;
        with COMMON = constants_for(symbol_bytes, group_log2, table_bits, false);
        fn prepare_batch(
            codebooks: In<CodebookDescriptor>, symbols: In<u16>, input: In<u8>, streams: In<StreamDescriptor>,
            stream_count: u32, totals: In<BatchTotals>, parts: u32, first_bitmap_block: u32, fill: bool,
            keep_status: bool, tables: Out<u32>, count_tables: Option<Out<u16>>, map: Out<u32>, sums: Out<u32>,
            cleared: Out<u32>, cleared_words: u32, status: Out<u32>, out: CUdeviceptr as "uint8_t *",
        );
        fn prepare_verify(streams: In<StreamDescriptor>, stream_count: u32, sums: In<u32>, status: Out<u32>);
    }
}

/// Blocks that build the tables of one codebook; more if there are few codebooks, to fill the device.
const TABLE_BLOCKS: RangeInclusive<u32> = 16..=64;
/// Approximate number of blocks that build tables.
const ALL_TABLE_BLOCKS: u32 = 1024;

/// Returns the specializations for the compile check. The indexed decoder looks up `indexed_bits` bits.
pub(super) fn specializations(indexed_bits: u32) -> Vec<Specialization> {
    let mut table_bits = vec![TABLE_BITS, indexed_bits];
    table_bits.dedup();
    let of = |bits| FORMATS.map(|(bytes, group_log2)| PrepareKernels::specialization(bytes, group_log2, bits));
    table_bits.into_iter().flat_map(of).collect()
}

/// The kernels before and after each decoder.
#[derive(Debug, Clone)]
pub struct Preparation<S> {
    kernels: PrepareKernels,
    symbol: PhantomData<S>,
}

/// Scratch memory of one launch.
pub struct Scratch<'a> {
    /// Decoding tables of all codebooks.
    pub tables: CudaViewMut<'a, u32>,
    /// Counting tables of all codebooks, if requested.
    pub counts: Option<CudaViewMut<'a, u16>>,
    /// The group of each rank of coded groups, for streams with zero-bit groups.
    pub map: CudaViewMut<'a, u32>,
    /// Checksums of all streams.
    pub sums: CudaViewMut<'a, u32>,
    /// Words set to 0, as many as the decoder requested.
    pub cleared: CudaViewMut<'a, u32>,
}

impl<'a> Scratch<'a> {
    /// Returns the counting tables.
    pub fn counts(&self) -> Result<CudaView<'_, u16>> {
        self.counts.as_ref().map(CudaViewMut::as_view).ok_or_else(Self::no_counts)
    }

    /// Returns the counting tables and the zeroed words.
    pub fn counts_and_cleared(&mut self) -> Result<(CudaView<'_, u16>, &mut CudaViewMut<'a, u32>)> {
        let counts = self.counts.as_ref().map(CudaViewMut::as_view).ok_or_else(Self::no_counts)?;
        Ok((counts, &mut self.cleared))
    }

    fn no_counts() -> CudaError {
        CudaError::invalid("counting tables were not built")
    }
}

impl<S: Symbol + DeviceRepr> Preparation<S> {
    pub fn new(device: &Device, group_log2: u32, table_bits: u32) -> Result<Self> {
        if !matches!(group_log2, 6 | 7) {
            return Err(CudaError::invalid("groups must have 64 or 128 symbols"));
        }
        let kernels = PrepareKernels::load(device, S::BYTES, group_log2, table_bits)?;
        Ok(Self { kernels, symbol: PhantomData })
    }

    /// Builds the decoding tables, and the counting tables if `counting`; maps groups; fills zero-bit groups if
    /// `filling`; clears checksums, status and `cleared` words for the decoder.
    pub fn before<'a>(
        &self,
        frame: &mut Frame<'a>,
        decoding: &mut Decoding<'_, '_, S>,
        counting: bool,
        filling: bool,
        cleared: usize,
    ) -> Result<Scratch<'a>> {
        let sizes = decoding.batch.sizes;
        let stream = frame.stream().clone();
        let mut counts = match counting {
            true => Some(frame.slice(sizes.codebooks as usize * COUNT_ENTRIES)?),
            false => None,
        };
        let mut tables = frame.slice(sizes.codebooks as usize * CODEBOOK_WORDS)?;
        let mut map = frame.slice(sizes.mapped_groups.max(1) as usize)?;
        let mut sums = frame.slice(2 * sizes.streams as usize + 1)?;
        let cleared_words = cleared as u32;
        let mut cleared = frame.slice(cleared)?;
        if sizes.streams > 0 {
            let parts = (ALL_TABLE_BLOCKS / sizes.codebooks.max(1)).clamp(*TABLE_BLOCKS.start(), *TABLE_BLOCKS.end());
            let first_bitmap_block = sizes.codebooks * parts;
            let BatchView { codebooks, symbols, descriptors, totals, keep_status, .. } = decoding.batch;
            let (output, _writes) = decoding.output.device_ptr_mut(&stream);
            let grid = Grid::new(first_bitmap_block + sizes.bitmap_blocks, THREADS).early(true);
            let counts = counts.as_mut().map(|counts| -> &mut dyn DevicePtrMut<u16> { counts });
            // SAFETY: there are blocks for each of the batch's codebooks, which index the batch's symbols, and for each
            // codebook up to CODEBOOK_WORDS words of tables and COUNT_ENTRIES counts (or null). There are two sums and
            // a status word for each stream, and one more sum. Bitmaps lie in the input and groups in the output, as
            // `Decoding::check` ensures. Ranks are bounded by the stream's coded groups, for which the map has entries.
            unsafe {
                launch!(self.kernels.prepare_batch on &stream, grid; codebooks, symbols, decoding.input, descriptors,
                    sizes.streams, totals, parts, first_bitmap_block, filling, *keep_status, &mut tables, counts,
                    &mut map, &mut sums, &mut cleared, cleared_words, decoding.status, output)
            }?;
        }
        Ok(Scratch { tables, counts, map, sums, cleared })
    }

    /// Compares the checksums, for decoders that do not compare them themselves.
    pub fn after(&self, frame: &Frame<'_>, decoding: &mut Decoding<'_, '_, S>, scratch: &Scratch<'_>) -> Result<()> {
        let streams = decoding.batch.sizes.streams;
        if streams == 0 {
            return Ok(());
        }
        let stream = frame.stream();
        let grid = Grid::new(streams.div_ceil(THREADS), THREADS).early(true);
        // SAFETY: two sums and a status word for each stream.
        unsafe {
            launch!(self.kernels.prepare_verify on stream, grid; &decoding.batch.descriptors, streams, &scratch.sums,
                decoding.status)
        }
    }
}
