//! Decodes the LZSS tokens of a batch of records to codes: launchers of `kernels/lzss_codes/decode.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr};
use syncline_core::huffman::IndexKind;

use crate::container::ParsedChunk;
use crate::container::parse::{ParsedRecords, Records, STATUS_TOKENS};
use crate::device::{Arena, Device, Grid, fetch};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::ChunkBatch;
use crate::lossless::{RecordHeader, TokenDecoder, Tokens};

declare_kernels! {
    /// The kernels of `kernels/lzss_codes/decode.cu`.
    pub(super) struct DecodeKernels in "lzss_codes/decode.cu", by (group_log2: u32) {
        const THREADS: u32 = 512;
        with PARSE_BAD = STATUS_TOKENS;
        fn lzss_codes_parse(
            input: In<u8>, places: In<u64>, chunks: Out<ParsedChunk>, index_kind: u32, headers: Out<RecordHeader>,
        );
        fn lzss_codes_widen(
            bytes: In<u8>, stride: u64, failed: In<u32>, slots: u32, chunks: Out<ParsedChunk>, codes: Out<u16>,
        );
    }
}
/// Approximate number of codes that a block widens.
const WIDENED: u64 = 64 << 10;

/// Decodes the codes of chunks that store them as LZSS tokens. Waits for the device once per batch, because the
/// launches depend on the tokens that the records contain.
#[derive(Debug)]
pub(crate) struct CodeTokens {
    group_log2: u32,
    kernels: DecodeKernels,
    tokens: TokenDecoder,
    arena: Arena,
}

impl CodeTokens {
    /// Creates a decoder for streams with groups of `1 << group_log2` codes, working on `stream`.
    pub fn new(device: &Device, stream: &Arc<CudaStream>, group_log2: u32) -> Result<Self> {
        Ok(Self {
            group_log2,
            kernels: DecodeKernels::load(device, group_log2)?,
            tokens: TokenDecoder::new(device)?,
            arena: Arena::new(stream.clone()),
        })
    }

    /// Returns the bytes of device memory that are held between calls.
    pub fn workspace_bytes(&self) -> usize {
        self.arena.capacity()
    }

    /// Writes the codes of those chunks of a parsed batch that have tokens to `codes`. Errors in tokens are added to
    /// the status of the chunk, like errors of parsing.
    pub fn decode(
        &mut self,
        records: Records<'_>,
        batch: &ChunkBatch,
        parsed: &mut ParsedRecords<'_>,
        codes: &mut CudaViewMut<'_, u16>,
    ) -> Result<()> {
        let mut frame = self.arena.frame()?;
        let stream = frame.stream().clone();
        let chunks = batch.chunks() as usize;
        let slot = u64::from(batch.slots()) << self.group_log2;
        if records.lengths.len() != chunks || (codes.len() as u64) < slot * chunks as u64 {
            return Err(CudaError::invalid("there must be a record and room for codes for each chunk"));
        }
        let mut end = records.first;
        let place = |&length: &u32| {
            let start = end;
            end += u64::from(length);
            start
        };
        let places: Vec<u64> = records.lengths.iter().map(place).collect();
        let device_places = frame.upload(&places)?;
        let mut heads = frame.slice::<RecordHeader>(chunks)?;
        let index = IndexKind::Symbol as u32;
        // SAFETY: an offset, a parsed chunk and a header for each chunk. For chunks whose status is 0, parsing has
        // ensured that the record and its section of codes lie in the input.
        unsafe {
            launch!(self.kernels.lzss_codes_parse on &stream, Grid::new(batch.chunks(), THREADS); records.input,
                &device_places, parsed.tiles.chunks_mut(), index, &mut heads)
        }?;
        let heads = fetch(&stream, &heads, "reading what records have")?;
        if !heads.iter().any(RecordHeader::has_codes) {
            return Ok(());
        }

        // Groups are multiples of 16 codes, and therefore slots are, too.
        let bytes = frame.slice::<u8>(slot as usize * chunks)?;
        let first = bytes.device_ptr(&stream).0;
        let mut failed = frame.zeros::<u32>(chunks)?;
        let tokens: Vec<Tokens<'_>> = heads
            .iter()
            .zip(&places)
            .enumerate()
            .filter(|(_, (head, _))| head.has_codes())
            .map(|(chunk, (head, &record))| {
                let target = first + chunk as u64 * slot;
                Tokens { head, chunk: chunk as u32, record, target, bytes: head.elements.into() }
            })
            .collect();
        self.tokens.decode(&mut frame, records.input, &tokens, &mut failed)?;

        let failed = failed.as_view();
        let slots = batch.slots();
        let grid = Grid::new(batch.chunks(), THREADS).rows(slot.div_ceil(WIDENED).clamp(1, 1 << 15) as u32);
        // SAFETY: bytes and codes have a slot for each chunk that holds all of its groups.
        unsafe {
            launch!(self.kernels.lzss_codes_widen on &stream, grid; &bytes, slot, &failed, slots,
                parsed.tiles.chunks_mut(), codes)
        }
    }
}
