//! Gap arrays as published: Yamamoto, Nakano, Ito, Takafuji, Kasagi, Tabaru, "Huffman Coding with Gap Arrays
//! for GPU Acceleration", ICPP 2020 (construction of the gap array while encoding; decoding with it in one kernel; the
//! tables of encoding and decoding times).
//!
//! Differences: subsequences have 128 bits instead of 256, and tables hold one symbol per entry. The gap array is
//! computed from the symbols in a kernel of its own, between laying out and writing streams, because the positions of
//! segments are known only then. Launches `kernels/gap_array_2020/`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::{SUBSEQUENCE_BITS, Symbol};

use crate::gap_array::GapArrays;
use syncline_cuda::device::{Device, Frame, Grid, Specialization};
use syncline_cuda::device_kernels::{In, Out, declare_kernels, launch};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::huffman::decode::prepare::{Preparation, Scratch};
use syncline_cuda::huffman::decode::{
    BatchTotals, BatchView, CodebookDescriptor, Decoding, FORMATS, SEQUENCE, StreamDescriptor, TABLE_BITS, constants,
};
use syncline_cuda::huffman::encode::{EncodeInput, EncodeScratch, Encoded, Encoder, Format, checked_formats};

declare_kernels! {
    /// The kernel of `kernels/gap_array_2020/decode.cu`.
    struct DecodeKernels in "gap_array_2020/decode.cu",
        of (symbol_bytes: usize, group_log2: u32), by (has_counts: bool)
    {
        with COMMON = constants(symbol_bytes, group_log2, false);
        with SEQUENCE = SEQUENCE;
        with THREADS = SEQUENCE;
        fn gap_array_2020_decode(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            tables: In<u32>, symbols: In<u16>, map: In<u32>, entries: In<u8>, counts: Option<In<u8>>,
            totals: In<BatchTotals>, ticket: Out<u32>, states: Out<u32>, sums: Out<u32>, status: Out<u32>,
            out: CUdeviceptr as "uint8_t *",
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/gap_array_2020/encode.cu`.
    struct EncodeKernels in "gap_array_2020/encode.cu", of (format: &Format) {
        with FORMAT = format.constants(SEGMENT_SYMBOLS);
        with WRITE_THREADS = ENCODE_THREADS;
        fn gap_array_2020_encode(
            symbols: CUdeviceptr as "const uint8_t *", inputs: CUdeviceptr as "const StreamInput *", codewords: In<u32>,
            segments_in_stream: u32, all: EncodeScratch, all_gaps: Out<u8>, gaps_in_stream: u32,
        );
    }
}

/// Symbols of a segment of the encoder that gap arrays are computed with.
const SEGMENT_SYMBOLS: u32 = 4096;
/// Threads of a block that computes gaps, one warp for each segment.
const ENCODE_THREADS: u32 = 256;

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    let of =
        |has_counts| FORMATS.map(|(bytes, group_log2)| DecodeKernels::specialization(bytes, group_log2, has_counts));
    let encode = checked_formats().into_iter().filter(|format| !format.classes);
    [of(false).to_vec(), of(true).to_vec(), encode.map(|format| EncodeKernels::specialization(&format)).collect()]
        .concat()
}

/// The decoding kernel, which [`self_sync_2018`](super::self_sync_2018) shares.
#[derive(Debug, Clone)]
pub(super) struct SinglePass {
    kernels: DecodeKernels,
    multiprocessors: u32,
}

impl SinglePass {
    /// Loads the decoder's kernel. With `has_counts`, the number of codewords of each subsequence is an argument
    /// instead of being counted.
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, has_counts: bool) -> Result<Self> {
        let kernels = DecodeKernels::load(device, S::BYTES, group_log2, has_counts)?;
        Ok(Self { kernels, multiprocessors: device.info().multiprocessors })
    }

    /// Decodes all sequences from their entry points. `counts` is given exactly if the kernel was made for it.
    pub fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        decoding: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        entries: &CudaView<'_, u8>,
        counts: Option<&CudaView<'_, u8>>,
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        if sizes.sequences == 0 {
            return Ok(());
        }
        let resident = self.kernels.gap_array_2020_decode.blocks_per_multiprocessor(SEQUENCE, 0)?.max(1);
        let blocks = (resident * self.multiprocessors).min(sizes.sequences);
        let mut ticket = frame.zeros::<u32>(1)?;
        let mut states = frame.zeros::<u32>(sizes.sequences as usize)?;
        let stream = frame.stream().clone();
        let BatchView { descriptors, codebooks, symbols, totals, .. } = decoding.batch;
        let (output, _writes) = decoding.output.device_ptr_mut(&stream);
        let counts = counts.map(|counts| -> &dyn DevicePtr<u8> { counts });
        let Scratch { tables, map, sums, .. } = scratch;
        let grid = Grid::new(blocks, SEQUENCE);
        // SAFETY: the kernel reads words within the bounds of the descriptors (`Decoding::check`) and writes symbols up
        // to the number of coded groups, to groups of the stream. There is an entry point for each subsequence, and a
        // count, or null for the kernel that does not read counts. A block looks back only at blocks that took their
        // sequences earlier, which therefore run.
        unsafe {
            launch!(self.kernels.gap_array_2020_decode on &stream, grid; decoding.input, descriptors, sizes.streams,
                codebooks, tables, symbols, map, entries, counts, totals, &mut ticket, &mut states, sums,
                decoding.status, output)
        }
    }
}

/// Decodes streams with one codebook, given their gap arrays.
#[derive(Debug, Clone)]
pub struct GapArray2020<S> {
    preparation: Preparation<S>,
    kernel: SinglePass,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> GapArray2020<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `group_log2` is 6 or 7; errors
    /// of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        let preparation = Preparation::new(device, group_log2, TABLE_BITS)?;
        Ok(Self { preparation, kernel: SinglePass::new::<S>(device, group_log2, false)?, group_log2 })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](syncline_cuda::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>, gaps: &GapArrays) -> Result<()> {
        decoding.check(frame, decoding.batch.sizes.max_codebooks <= 1, self.group_log2)?;
        let gaps = gaps.of_batch(&decoding.batch.sizes)?;
        let mut scratch = self.preparation.before(frame, &mut decoding, false, true, 0)?;
        self.kernel.launch(frame, &mut decoding, &mut scratch, &gaps, None)?;
        self.preparation.after(frame, &mut decoding, &scratch)
    }
}

/// Encodes streams without an index, and computes their gap arrays.
#[derive(Debug)]
pub struct GapArrayEncoder<S> {
    encoder: Encoder<S>,
    gaps: EncodeKernels,
    format: Format,
}

impl<S: syncline_cuda::huffman::Symbol> GapArrayEncoder<S> {
    /// Compiles the kernels for batches of this format, which has no classes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the format is inconsistent or has classes; errors of [`Device::kernel`].
    pub fn new(device: &Device, format: &Format) -> Result<Self> {
        if format.classes {
            return Err(CudaError::invalid("streams with gap arrays have one codebook"));
        }
        Ok(Self {
            encoder: Encoder::with_segment_symbols(device, format, SEGMENT_SYMBOLS)?,
            gaps: EncodeKernels::load(device, format)?,
            format: *format,
        })
    }

    /// Returns the bytes of each stream's gap array in a batch whose largest stream has `groups` groups: a gap for each
    /// subsequence, and one for the end of a stream that fills its last subsequence exactly.
    pub fn gaps_in_stream(&self, groups: u32) -> u32 {
        let segments = (groups * self.format.group()).div_ceil(SEGMENT_SYMBOLS).max(1);
        segments * SEGMENT_SYMBOLS * self.format.longest() / SUBSEQUENCE_BITS + 1
    }

    /// Encodes every stream of a batch, whose largest has `groups` groups, and writes the gap array of stream `i` to
    /// `gaps` from byte `i * gaps_in_stream(groups)` on, all on the frame's stream.
    ///
    /// # Errors
    /// The errors of [`Encoder::launch`]; [`CudaError::InvalidArgument`] also if there is too little room for gaps.
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        input: &EncodeInput<'_, S>,
        groups: u32,
        encoded: &mut Encoded,
        gaps: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let (streams, own) = (input.batch.streams(), self.gaps_in_stream(groups));
        let mut laid_out = self.encoder.lay_out(frame, input, encoded)?;
        let segments = laid_out.segments();
        if segments * SEGMENT_SYMBOLS * self.format.longest() / SUBSEQUENCE_BITS >= own
            || (gaps.len() as u64) < u64::from(streams) * u64::from(own)
        {
            return Err(CudaError::invalid("the gap arrays of the batch do not fit"));
        }
        let (inputs, scratch) = (laid_out.inputs(), laid_out.scratch(&stream));
        let codewords = input.codebooks.codewords();
        let grid = Grid::new(streams * segments.div_ceil(ENCODE_THREADS / 32), ENCODE_THREADS).early(true);
        let (symbols, _reads) = input.symbols.device_ptr(&stream);
        // SAFETY: the encoder has checked that streams lie in the input. A gap lies within its stream's codewords or at
        // their end, for which there is room, as checked above. The kernel waits at its start.
        unsafe {
            launch!(self.gaps.gap_array_2020_encode on &stream, grid; symbols, inputs, &codewords, segments, scratch,
                gaps, own)
        }?;
        self.encoder.finish(&stream, &mut laid_out, input.codebooks, encoded)
    }
}
