//! Reads records except for their tokens: launcher of `kernels/lossless/record_headers.cu`.

#![allow(unsafe_code)]

use crate::geometry::DeviceGeometry;
use cudarc::driver::{CudaView, CudaViewMut};
use syncline_core::huffman::IndexKind;

use super::structs::RecordHeader;
use super::tiles::Tiles;
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::ChunkBatch;

declare_kernels! {
    /// The kernel of `kernels/lossless/record_headers.cu`.
    pub(super) struct RecordHeaderKernels in "lossless/record_headers.cu" {
        const THREADS: u32 = 512;
        fn record_headers_parse(
            geometry: DeviceGeometry, batch: ChunkBatch, element_bytes: u32, input: In<u8>, places: In<u64>,
            lengths: In<u32>, index_kind: u32, headers: Out<RecordHeader>,
        );
    }
}
/// Number of the first plane of each section of tokens.
pub(super) const FIRST_PLANES: [usize; 4] = [0, 1, 2, 4];

impl RecordHeader {
    /// Returns the error of the record, if it has one.
    pub fn problem(&self) -> Option<&'static str> {
        match self.status {
            0 => None,
            1 => Some("there is no chunk record at the position in the chunk table"),
            2 => Some("it is the record of another chunk"),
            3 => Some("its kind does not fit the stream's pipeline"),
            4 => Some("its sections do not fit its record"),
            5 => Some("a raw chunk has another length than its elements"),
            6 => Some("impossible LZSS parameters"),
            7 => Some("its LZSS blocks do not fit its elements"),
            8 => Some("an LZSS section does not fit the token counts"),
            9 => Some("the plan of its numbers is impossible"),
            10 => Some("its tile bases do not fit its tiles"),
            11 => Some("its bins are impossible"),
            12 => Some("the raw bits of its tiles do not add up"),
            13 => Some("its list of verbatim values is impossible"),
            _ => Some("its symbols do not fit its tiles"),
        }
    }

    /// Returns whether there is no record, so that it does not matter what its checksum is.
    pub fn is_missing(&self) -> bool {
        self.status == 1
    }

    /// Returns whether the chunk consists of numbers.
    pub fn is_of_numbers(&self) -> bool {
        self.kind == 1
    }

    pub fn is_raw(&self) -> bool {
        self.kind == 0
    }
}

/// The records of a batch in the input.
pub(super) struct Records<'r> {
    /// The stream.
    pub input: &'r CudaView<'r, u8>,
    /// Offset of each record in the input in bytes, a multiple of 16.
    pub places: &'r CudaView<'r, u64>,
    /// Length of each record in bytes. Records lie within the input.
    pub lengths: &'r CudaView<'r, u32>,
}

/// Reads the headers of records.
#[derive(Debug)]
pub(super) struct RecordHeaderParser(RecordHeaderKernels);

impl RecordHeaderParser {
    pub fn new(device: &Device) -> Result<Self> {
        RecordHeaderKernels::load(device).map(Self)
    }

    /// Queues the kernel that reads the headers of the batch's records.
    pub fn launch<'a>(
        &self,
        frame: &mut Frame<'a>,
        tiles: &Tiles,
        batch: &ChunkBatch,
        records: &Records<'_>,
        index: IndexKind,
    ) -> Result<CudaViewMut<'a, RecordHeader>> {
        let stream = frame.stream().clone();
        let mut heads = frame.slice(batch.chunks() as usize)?;
        let (element_bytes, index) = (tiles.element_bytes() as u32, index as u32);
        // SAFETY: the caller guarantees a record in the input and its length for each chunk, for each of which the
        // slice above has a header.
        unsafe {
            launch!(self.0.record_headers_parse on &stream, Grid::new(batch.chunks(), THREADS); *tiles.geometry(),
                *batch, element_bytes, records.input, records.places, records.lengths, index, &mut heads)
        }?;
        Ok(heads)
    }
}
