//! Gap arrays as published: Yamamoto, Nakano, Ito, Takafuji, Kasagi, Tabaru, "Huffman Coding with Gap Arrays
//! for GPU Acceleration", ICPP 2020 (construction of the gap array while encoding; decoding with it in one kernel; the
//! tables of encoding and decoding times).
//!
//! Differences: subsequences have 128 bits instead of 256, and tables hold one symbol per entry. The gap array is computed
//! from the symbols in a kernel of its own, between laying out and writing streams, because the positions of segments
//! are known only then. Launches `kernels/gap_array_2020/`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::{CudaView, CudaViewMut, DeviceRepr};
use syncline_core::huffman::{SUBSEQUENCE_BITS, Symbol};

use crate::gap_array::GapArrays;
use syncline_cuda::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::huffman::decode::prepare::{Preparation, Scratch};
use syncline_cuda::huffman::decode::{Decoding, FORMATS, SEQUENCE, TABLE_BITS, constants};
use syncline_cuda::huffman::encode::{EncodeInput, Encoded, Encoder, Format, checked_formats};

const SOURCE: Source = source!("gap_array_2020/decode.cu");
const ENCODE: Source = source!("gap_array_2020/encode.cu");
/// Symbols of a segment of the encoder that gap arrays are computed with.
const SEGMENT_SYMBOLS: u32 = 4096;
/// Threads of a block that computes gaps, one warp for each segment.
const ENCODE_THREADS: u32 = 256;

fn specialization(symbol_bytes: usize, group_log2: u32, has_counts: bool) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into())]);
    constants.push(("HAS_COUNTS", has_counts.into()));
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    let of = |has_counts| FORMATS.map(|(bytes, group_log2)| specialization(bytes, group_log2, has_counts));
    let encode = checked_formats().into_iter().filter(|format| !format.classes);
    [of(false).to_vec(), of(true).to_vec(), encode.map(|format| encode_specialization(&format)).collect()].concat()
}

fn encode_specialization(format: &Format) -> Specialization {
    let mut constants = format.constants(SEGMENT_SYMBOLS);
    constants.push(("WRITE_THREADS", ENCODE_THREADS.into()));
    Specialization { assertions: String::new(), source: ENCODE, constants }
}

/// The decoding kernel, which [`self_sync_2018`](super::self_sync_2018) shares.
#[derive(Debug, Clone)]
pub(super) struct SinglePass {
    kernel: Kernel,
    multiprocessors: u32,
}

impl SinglePass {
    /// Loads the decoder's kernel. With `has_counts`, the number of codewords of each subsequence is an argument instead
    /// of being counted.
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, has_counts: bool) -> Result<Self> {
        let kernel = device.kernel(&specialization(S::BYTES, group_log2, has_counts), "gap_array_2020_decode")?;
        Ok(Self { kernel, multiprocessors: device.info().multiprocessors })
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
        let resident = self.kernel.blocks_per_multiprocessor(SEQUENCE, 0)?.max(1);
        let blocks = (resident * self.multiprocessors).min(sizes.sequences);
        let mut ticket = frame.zeros::<u32>(1)?;
        let mut states = frame.zeros::<u32>(sizes.sequences as usize)?;
        let (tables, map) = (scratch.tables.as_view(), scratch.map.as_view());
        let stream = frame.stream().clone();
        let mut launch = self.kernel.launch_on(&stream);
        launch.arg(decoding.input).arg(&decoding.batch.descriptors).arg(&sizes.streams);
        launch.arg(&decoding.batch.codebooks).arg(&tables).arg(&decoding.batch.symbols).arg(&map);
        launch.arg(entries);
        match counts {
            Some(counts) => launch.arg(counts),
            None => launch.arg(&0_u64),
        };
        launch.arg(&decoding.batch.totals).arg(&mut ticket).arg(&mut states);
        launch.arg(&mut scratch.sums).arg(&mut *decoding.status).arg(&mut *decoding.output);
        // SAFETY: parameters (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor *, const u32 *, const
        // u16 *, const u32 *, const u8 *, const u8 *, const BatchTotals *, u32 *, u32 *, u32 *, u32 *, u8 *). The
        // kernel reads words within the bounds of the descriptors (`Decoding::check`) and writes symbols up to the number
        // of coded groups, to groups of the stream. There is an entry point for each subsequence, and a count, or null
        // for the kernel that does not read counts. A block looks back only at blocks that took their sequences earlier, which therefore run.
        unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, 0)) }?;
        Ok(())
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
    /// [`CudaError::InvalidArgument`](syncline_cuda::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors of
    /// [`Device::kernel`].
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
    gaps: Kernel,
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
            gaps: device.kernel(&encode_specialization(format), "gap_array_2020_encode")?,
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
        let (spans, scratch) = (laid_out.spans(), laid_out.scratch(&stream));
        let codewords = input.codebooks.codewords();
        let launch = ProgrammaticDependentLaunch::new(&self.gaps, &stream).reads(input.symbols).value(spans);
        let launch = launch.reads(&codewords).value(segments).value(scratch).writes(gaps).value(own);
        let blocks = streams * segments.div_ceil(ENCODE_THREADS / 32);
        // SAFETY: the kernel's parameters are (const u8 *, const StreamInput *, const u32 *, u32, EncodeScratch, u8 *,
        // u32). The encoder has checked that streams lie in the input. A gap lies within its stream's codewords or at
        // their end, for which there is room, as checked above. The kernel waits at its start.
        unsafe { launch.launch(Kernel::grid(blocks, ENCODE_THREADS, 0)) }?;
        self.encoder.finish(&stream, &mut laid_out, input.codebooks, encoded)
    }
}
