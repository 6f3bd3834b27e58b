//! Records read as far as they are not tokens: launcher of `kernels/lossless/record_headers.cu`.

#![allow(unsafe_code)]

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};
use syncline_core::huffman::IndexKind;

use super::structs::RecordHeader;
use super::tiles::Tiles;
use crate::container::parsed::CHUNK_TOKENS;
use crate::device::{Device, Frame, Kernel, Source, Specialization, source};
use crate::error::{DriverContext, Result};
use crate::geometry::ChunkBatch;

const SOURCE: Source = source!("lossless/record_headers.cu");
const THREADS: u32 = 512;
/// The first plane of each section of tokens.
pub(super) const FIRST_PLANES: [usize; 4] = [0, 1, 2, 4];

pub(super) fn specialization(element_bytes: u64) -> Specialization {
    Specialization { source: SOURCE, constants: vec![("ELEMENT_BYTES", element_bytes), ("THREADS", THREADS.into())] }
}

impl RecordHeader {
    /// What is wrong with the record, if anything.
    pub fn problem(&self) -> Option<&'static str> {
        match self.status {
            0 => None,
            1 => Some("there is no chunk record at the position in the chunk table"),
            2 => Some("its checksum does not match; other chunks may still be readable"),
            3 => Some("it is the record of another chunk"),
            4 => Some("its kind does not fit the stream's pipeline"),
            5 => Some("its sections do not fit its record"),
            6 => Some("a raw chunk has another length than its elements"),
            7 => Some("its tile section does not fit the shape"),
            8 => Some("its tile bases do not fit its tiles"),
            9 => Some("impossible LZSS parameters"),
            10 => Some("its LZSS blocks do not fit its elements"),
            _ => Some("an LZSS section does not fit the token counts"),
        }
    }

    /// Whether codes stand as tokens, and all that was read of them is right.
    pub fn has_codes(&self) -> bool {
        self.status == 0 && self.kind == CHUNK_TOKENS
    }

    /// Whether it is of planes of residuals, which are not decompressed here.
    pub fn is_of_planes(&self) -> bool {
        self.status == 4 && self.kind == 1
    }

    pub fn is_raw(&self) -> bool {
        self.kind == 0
    }

    /// Whether the tokens stand for residuals.
    pub fn is_of_residuals(&self) -> bool {
        self.section_bytes[0] > 0
    }
}

/// The records of a batch in the input.
pub(super) struct Records<'r> {
    /// The input.
    pub input: &'r CudaView<'r, u8>,
    /// Where each starts in it, a multiple of 16.
    pub places: &'r CudaView<'r, u64>,
    /// Bytes of each, which lie in the input.
    pub lengths: &'r CudaView<'r, u32>,
    /// What their bytes hash to.
    pub hashes: &'r CudaView<'r, u64>,
}

/// What was read of a batch.
pub(super) struct RecordHeaders<'a> {
    pub heads: CudaViewMut<'a, RecordHeader>,
    pub metas: CudaViewMut<'a, u8>,
    /// As bytes.
    pub bases: CudaViewMut<'a, u8>,
    pub starts: CudaViewMut<'a, u32>,
}

/// Reads records.
#[derive(Debug)]
pub(super) struct RecordHeaderParser(Kernel);

impl RecordHeaderParser {
    pub fn new(device: &Device, element_bytes: u64) -> Result<Self> {
        device.kernel(&specialization(element_bytes), "record_headers_parse").map(Self)
    }

    /// Reads the records of a batch.
    pub fn launch<'a>(
        &self,
        frame: &mut Frame<'a>,
        tiles: &Tiles,
        batch: &ChunkBatch,
        records: &Records<'_>,
        index: IndexKind,
    ) -> Result<RecordHeaders<'a>> {
        let stream = frame.stream().clone();
        let count = batch.tiles() as usize;
        let mut heads = RecordHeaders {
            heads: frame.slice(batch.chunks() as usize)?,
            metas: frame.slice(count)?,
            bases: frame.slice(count * tiles.element_bytes() as usize)?,
            starts: frame.slice(count)?,
        };
        let index = index as u32;
        let mut launch = stream.launch_builder(self.0.function());
        launch.arg(tiles.geometry()).arg(batch).arg(records.input).arg(records.places).arg(records.lengths);
        launch.arg(records.hashes).arg(&index);
        launch.arg(&mut heads.metas).arg(&mut heads.bases).arg(&mut heads.starts).arg(&mut heads.heads);
        // SAFETY: parameters (Geometry, ChunkBatch, const u8 *, const u64 *, const u32 *, const u64 *, u32, u8 *,
        // word_t *, u32 *, RecordHeader *): a record in the input, its length and hash and a head for each chunk, which
        // the caller sees to; a meta, a base and a start for each tile.
        unsafe { launch.launch(Kernel::grid(batch.chunks(), THREADS, 0)) }.doing("reading records")?;
        Ok(heads)
    }
}
