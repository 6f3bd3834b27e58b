//! Huffman decoders on the GPU, for batches of streams. Launches the kernels in `kernels/huffman/decode/`.
//!
//! A batch is described by the host ([`Batch`], from streams that
//! [`Stream::parse`](syncline_core::huffman::Stream::parse) has read) or on the device ([`Parser`]). Codewords, index
//! and bitmap are read on the device only and are not trusted: errors are reported in one status word per stream
//! ([`status_text`]).

#[doc(hidden)]
pub mod batch;
mod indexed;
pub(crate) mod parse;
#[doc(hidden)]
pub mod prepare;
pub(crate) mod structs;

use cudarc::driver::{CudaView, CudaViewMut, DevicePtr, DeviceRepr};
use syncline_core::huffman::Symbol;
use syncline_core::huffman::lengths::MAX_LENGTH;

pub use batch::{Batch, BatchStream, BatchView};
pub use indexed::{Indexed, IndexedTuning};
pub use parse::{Limits, Parser};
pub use structs::StreamLocation;
#[doc(hidden)]
pub use structs::{BatchTotals, CodebookDescriptor, StreamDescriptor};

use crate::device::{Frame, Specialization};
use crate::error::{CudaError, Result};

/// Coded groups per index block.
const INDEX_BLOCK: u32 = 32;
/// Subsequences per sequence, the unit of work of decoders without the symbol index.
#[doc(hidden)]
pub const SEQUENCE: u32 = 512;
/// Groups that one block of `prepare_batch` maps.
const BITMAP_BLOCK_GROUPS: u32 = 1024;
/// Bits of a table lookup.
#[doc(hidden)]
pub const TABLE_BITS: u32 = 12;
/// Words of a codebook's decoding tables (`CODEBOOK_WORDS` of `huffman/decode/decode.cuh`).
const CODEBOOK_WORDS: usize = (1 << TABLE_BITS) + LONG_ENTRIES as usize;
/// Entries of a codebook's counting tables (`COUNTS` and `ENDS` in the same file).
#[doc(hidden)]
pub const COUNT_ENTRIES: usize = (1 << 14) + (1 << TABLE_BITS);
/// Entries for codewords longer than a lookup.
#[doc(hidden)]
pub const LONG_ENTRIES: u32 = 2048;

/// Describes the error of a status word; `None` if it is 0 and the stream's symbols are correct.
pub fn status_text(status: u32) -> Option<&'static str> {
    match status {
        0 => None,
        s if s & STATUS_HEADER != 0 => Some("the header is inconsistent or does not fit the stream"),
        s if s & STATUS_CODEBOOK != 0 => Some("a codebook is not a complete code"),
        s if s & STATUS_CAPACITY != 0 => Some("it has more groups than expected"),
        s if s & STATUS_CLASS != 0 => Some("a group's class has no codewords"),
        s if s & STATUS_INDEX != 0 => Some("the index does not fit the codewords"),
        s if s & STATUS_COUNT != 0 => Some("the number of codewords does not equal the number of symbols"),
        _ => Some("the decoded symbols do not match their checksum"),
    }
}

/// Bits of a status word, as in `huffman/decode/decode.cuh` and `huffman/decode/stream_header.cuh`.
const STATUS_COUNT: u32 = 2;
const STATUS_INDEX: u32 = 4;
const STATUS_CLASS: u32 = 8;
const STATUS_HEADER: u32 = 16;
const STATUS_CODEBOOK: u32 = 32;
const STATUS_CAPACITY: u32 = 64;

/// Codewords are looked up in pairs if at least this share of lookups gives two symbols, because lanes that get one
/// hold up the others. On an H200 pairs were faster at a share of 0.98 (3.4 bits per symbol) and slower at 0.94 (4.4
/// bits).
pub(crate) const PAIRED_SHARE: f64 = 0.96;

/// Returns the constants that every decoding kernel needs.
#[doc(hidden)]
pub fn constants(symbol_bytes: usize, group_log2: u32, pairs: bool) -> Vec<(&'static str, u64)> {
    constants_for(symbol_bytes, group_log2, TABLE_BITS, pairs)
}

/// Returns the constants of [`constants`] with another number of bits per table lookup.
fn constants_for(symbol_bytes: usize, group_log2: u32, table_bits: u32, pairs: bool) -> Vec<(&'static str, u64)> {
    let constants = [
        ("SYMBOL_BYTES", symbol_bytes as u32),
        ("GROUP_LOG2", group_log2),
        ("TABLE_BITS", table_bits),
        ("LONGEST", MAX_LENGTH),
        ("PAIRS", pairs.into()),
    ];
    constants.map(|(name, value)| (name, value.into())).to_vec()
}

/// Every combination of bytes per symbol and log2 of the group size.
#[doc(hidden)]
pub const FORMATS: [(usize, u32); 4] = [(1, 6), (1, 7), (2, 6), (2, 7)];

/// Returns the specializations for the compile check.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    [
        prepare::specializations(indexed::table_bits(shared_memory)),
        parse::specializations(),
        indexed::specializations(shared_memory),
    ]
    .concat()
}

/// Input and output of a decoder, on the device.
#[derive(Debug)]
pub struct Decoding<'d, 'v, S> {
    /// The streams of the batch, at their offsets; aligned to 16 bytes.
    pub input: &'d CudaView<'v, u8>,
    /// Classes of groups; may be empty if no stream needs them.
    pub classes: &'d CudaView<'v, u8>,
    /// Descriptions of the streams.
    pub batch: &'d BatchView<'v, S>,
    /// Receives the symbols; aligned to 16 bytes. Undefined for streams whose status is not 0.
    pub output: &'d mut CudaViewMut<'v, S>,
    /// One word per stream: 0, or an error ([`status_text`]).
    pub status: &'d mut CudaViewMut<'v, u32>,
}

impl<S: Symbol + DeviceRepr> Decoding<'_, '_, S> {
    /// Checks lengths and alignments against the batch. `index_fits` is whether the decoder can read the index and the
    /// codebooks of its streams.
    #[doc(hidden)]
    pub fn check(&self, frame: &Frame<'_>, index_fits: bool, group_log2: u32) -> Result<()> {
        let sizes = &self.batch.sizes;
        let stream = frame.stream();
        let misaligned =
            self.input.device_ptr(stream).0 % 16 != 0 || self.output.as_view().device_ptr(stream).0 % 16 != 0;
        let short = |length: usize, needed: u64| (length as u64) < needed;
        let problems = [
            (short(self.input.len(), sizes.input_bytes), "the input is shorter than the batch's streams"),
            (short(self.output.len(), sizes.output_symbols), "the output is shorter than the batch's symbols"),
            (short(self.classes.len(), sizes.classes), "there are fewer classes than groups"),
            (self.status.len() != sizes.streams as usize, "there must be one status word per stream"),
            (misaligned, "input and output must be aligned to 16 bytes"),
            (sizes.streams > 0 && !index_fits, "the decoder cannot read the index or the codebooks of a stream"),
            (sizes.streams > 0 && sizes.group_log2 != group_log2, "the decoder is for another group size"),
        ];
        match problems.iter().find(|problem| problem.0) {
            Some(&(_, problem)) => Err(CudaError::invalid(problem)),
            None => Ok(()),
        }
    }
}
