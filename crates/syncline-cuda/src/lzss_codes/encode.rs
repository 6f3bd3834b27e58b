//! Codes of a batch of chunks to LZSS tokens: launchers of `kernels/lzss_codes/encode.cu`, and the decision for or
//! against tokens.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, PushKernelArg};
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{
    CODE_SAMPLE_PIECE, CODE_SAMPLE_STEP, Coder, CoderOptions, TokenCosts, code_token_params,
};
use syncline_core::predict::codes::NARROW_RADIUS;

use super::structs::NarrowCounts;
use crate::container::record::TokenLists;
use crate::container::structs::TokenParts;
use crate::device::{Device, Frame, Kernel, Source, Specialization, fetch, source};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{DeviceGeometry, Slab};
use crate::lossless::{FoundTokens, LaidOutPlanes, TokenEncoder, TokenPlaces, TokenSections, TokenSource, sections};
use crate::observer::Observer;
use crate::quantize::{ChunkSummary, Quantized, Quantizer, SideLists, SideOffsets};
use crate::workers;

const SOURCE: Source = source!("lzss_codes/encode.cu");
const THREADS: u32 = 256;
/// In place of the codes of a chunk that cannot have tokens: `NOT_NARROW` in the source.
const NOT_NARROW: u32 = u32::MAX;
/// Bytes of a sample that a block copies, about.
const SAMPLED: u64 = 32 << 10;

pub(super) fn specialization(element_bytes: u64) -> Specialization {
    let constants = vec![
        ("THREADS", THREADS.into()),
        ("PIECE", CODE_SAMPLE_PIECE as u64),
        ("STEP", CODE_SAMPLE_STEP as u64),
        ("ELEMENT_BYTES", element_bytes),
    ];
    Specialization { source: SOURCE, constants }
}

/// The codes of a batch with radius 128, a byte each.
pub(crate) struct NarrowCodes<'a> {
    /// `slot` bytes a chunk.
    codes: CudaViewMut<'a, u8>,
    slot: u64,
    /// Of each tile.
    outliers: CudaViewMut<'a, u16>,
    offsets: CudaViewMut<'a, SideOffsets>,
    narrowed: CudaViewMut<'a, NarrowCounts>,
    /// `sample_slot` bytes a chunk, if the decision depends on it.
    sample: CudaViewMut<'a, u8>,
    sample_slot: u64,
}

/// A batch whose codes are LZSS tokens where that may pay.
pub(crate) struct CodedBatch<'a> {
    /// What their records need.
    pub lists: CodedLists<'a>,
    /// What is written to these.
    pub tokens: CodedTokens<'a>,
}

/// What records of tokens have in place of the outliers that others have.
pub(crate) struct CodedLists<'a> {
    parts: CudaViewMut<'a, TokenParts>,
    positions: CudaViewMut<'a, u32>,
    residuals: CudaViewMut<'a, i32>,
}

impl CodedLists<'_> {
    pub fn view(&self) -> TokenLists<'_> {
        TokenLists {
            parts: self.parts.as_view(),
            positions: self.positions.as_view(),
            residuals: self.residuals.as_view(),
        }
    }
}

/// The tokens of a batch's codes, not yet written.
pub(crate) struct CodedTokens<'a> {
    /// The chunks that have tokens.
    chunks: Vec<usize>,
    sections: Vec<TokenSections>,
    found: FoundTokens<'a>,
    laid_out: Option<LaidOutPlanes<'a>>,
}

/// Makes the codes of quantized chunks LZSS tokens.
#[derive(Debug)]
pub(crate) struct CodeEncoder {
    element_bytes: u64,
    narrow: Kernel,
    places: Kernel,
    sample: Kernel,
    tokens: TokenEncoder,
}

impl CodeEncoder {
    /// For elements of 4 or 8 bytes.
    pub fn new(device: &Device, element_bytes: u64) -> Result<Self> {
        let kernel = |name| device.kernel(&specialization(element_bytes), name);
        Ok(Self {
            element_bytes,
            narrow: kernel("lzss_codes_narrow")?,
            places: kernel("lzss_codes_places")?,
            sample: kernel("lzss_codes_sample")?,
            tokens: TokenEncoder::new(device)?,
        })
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> u64 {
        self.element_bytes
    }

    /// Queues what narrow codes need of the codes of a batch, which may be gone afterwards.
    pub fn narrow<'a>(
        &self,
        frame: &mut Frame<'a>,
        geometry: &DeviceGeometry,
        quantized: &mut Quantized<'_>,
        options: &CoderOptions,
    ) -> Result<NarrowCodes<'a>> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        let (tiles, chunks) = (batch.tiles() as usize, batch.chunks() as usize);
        let slot = u64::from(batch.slots()) << geometry.group_log2();
        let sampled = slot.div_ceil((CODE_SAMPLE_PIECE * CODE_SAMPLE_STEP) as u64) * CODE_SAMPLE_PIECE as u64;
        let sample_slot = if options.coder == Coder::Auto { sampled } else { 0 };
        let mut narrow = NarrowCodes {
            codes: frame.slice(slot as usize * chunks)?,
            slot,
            outliers: frame.slice(tiles)?,
            offsets: frame.slice(tiles)?,
            narrowed: frame.slice(chunks)?,
            sample: frame.slice(sample_slot as usize * chunks)?,
            sample_slot,
        };
        if tiles == 0 {
            return Ok(narrow);
        }
        let mut launch = stream.launch_builder(self.narrow.function());
        launch.arg(geometry).arg(&batch).arg(&mut quantized.metas).arg(&mut quantized.first_groups);
        launch.arg(&mut quantized.codes).arg(&mut narrow.codes).arg(&mut narrow.outliers);
        // SAFETY: parameters (Geometry, ChunkBatch, const u16 *, const u32 *, const u16 *, u8 *, u16 *): a meta, a
        // first group and a count for each tile; a slot for each chunk, which its tiles' groups fit.
        unsafe { launch.launch(Kernel::grid(batch.tiles().div_ceil(THREADS / 32), THREADS, 0)) }
            .doing("narrowing codes")?;
        let mut launch = stream.launch_builder(self.places.function());
        launch.arg(geometry).arg(&batch).arg(&mut quantized.summaries).arg(&mut quantized.offsets);
        launch.arg(&mut narrow.outliers).arg(&mut narrow.offsets).arg(&mut narrow.narrowed);
        // SAFETY: parameters (Geometry, ChunkBatch, const ChunkSummary *, const SideOffsets *, u16 *, SideOffsets *,
        // NarrowCounts *): one of each for each chunk or tile.
        unsafe { launch.launch(Kernel::grid(batch.chunks(), THREADS, 0)) }.doing("placing outliers")?;
        if sample_slot > 0 {
            let mut launch = stream.launch_builder(self.sample.function());
            launch.arg(&mut narrow.codes).arg(&slot).arg(&sample_slot).arg(&mut narrow.narrowed);
            launch.arg(&mut narrow.sample);
            let mut grid = Kernel::grid(batch.chunks(), THREADS, 0);
            grid.grid_dim.1 = sample_slot.div_ceil(SAMPLED).clamp(1, 1 << 15) as u32;
            // SAFETY: parameters (const u8 *, u64, u64, const NarrowCounts *, u8 *): slots for each chunk, of which no
            // more codes are read than it has.
            unsafe { launch.launch(grid) }.doing("taking samples of codes")?;
        }
        Ok(narrow)
    }

    /// Makes tokens of the codes of those chunks where they may pay: `code_lengths` are the bytes of their Huffman
    /// streams. `None` if there are none. Waits for the device.
    #[expect(clippy::too_many_arguments, reason = "a batch as it was quantized, and what is known of it")]
    pub fn encode<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        quantizer: &Quantizer,
        slab: &Slab<'_>,
        quantized: &mut Quantized<'_>,
        mut narrow: NarrowCodes<'_>,
        lists: &mut SideLists<'_>,
        summaries: &[ChunkSummary],
        code_lengths: &[u32],
        (index, options): (IndexKind, &CoderOptions),
        observer: &mut Observer<'_>,
    ) -> Result<Option<CodedBatch<'a>>> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        let narrowed = fetch(&stream, &narrow.narrowed, "reading what narrow codes come to")?;
        let candidates = narrowed.iter().zip(summaries).zip(code_lengths).enumerate();
        let costs: Vec<(usize, TokenCosts)> = candidates
            .filter(|(_, ((narrowed, _), _))| narrowed.codes != NOT_NARROW)
            .map(|(chunk, ((narrowed, summary), &length))| {
                let costs = TokenCosts {
                    codes: narrowed.codes as usize,
                    narrow_outliers: narrowed.outliers as usize,
                    huffman_len: length as usize,
                    outliers: summary.outliers as usize,
                };
                (chunk, costs)
            })
            // Outliers alone take more than all that tokens could save.
            .filter(|(chunk, costs)| {
                let tiles = batch.tiles_of(*chunk as u32).len();
                8 * costs.narrow_outliers < 8 * costs.outliers + costs.huffman_len + tiles / 4 + 64
            })
            .collect();
        let chunks = match options.coder {
            Coder::Auto => self.worth_trying(&mut frame.nested(), &costs, options, &narrow, observer)?,
            _ => costs.iter().map(|(chunk, _)| *chunk).collect(),
        };
        observer("host: choice")?;
        if chunks.is_empty() {
            return Ok(None);
        }

        let of_chunks: Vec<u32> = narrowed.iter().map(|narrowed| narrowed.outliers).collect();
        let offsets = narrow.offsets.as_view();
        let (positions, residuals) = quantizer.gather_outliers(
            frame,
            slab,
            quantized,
            lists,
            NARROW_RADIUS,
            &of_chunks,
            &mut narrow.outliers,
            &offsets,
        )?;
        observer("lzss_codes_gather")?;
        let base = narrow.codes.device_ptr(&stream).0;
        let source = |&chunk: &usize| TokenSource {
            base,
            offset: chunk as u64 * narrow.slot,
            bytes: narrowed[chunk].codes.into(),
            params: code_token_params(options),
            has_matches: true,
            has_words: true,
            chunk: batch.first_chunk() + chunk as u64,
        };
        let sources: Vec<TokenSource> = chunks.iter().map(source).collect();
        let mut found = self.tokens.find(frame, &sources, observer)?;
        let laid_out = self.tokens.lay_out(frame, index, &mut found, observer)?;
        let sections = sections(&found, Some(&laid_out));
        let mut parts = vec![TokenParts::default(); narrowed.len()];
        let mut first_outlier = 0;
        for (parts, narrowed) in parts.iter_mut().zip(&narrowed) {
            (parts.first_outlier, parts.outliers) = (first_outlier, narrowed.outliers);
            first_outlier += u64::from(narrowed.outliers);
        }
        for (&chunk, sections) in chunks.iter().zip(&sections) {
            // Tokens of at most 2^22 bytes and what stands around them.
            parts[chunk].bytes = sections.payload_bytes() as u32;
        }
        let device_parts = frame.upload(&parts)?;
        observer("host: layout")?;
        Ok(Some(CodedBatch {
            lists: CodedLists { parts: device_parts, positions, residuals },
            tokens: CodedTokens { chunks, sections, found, laid_out: Some(laid_out) },
        }))
    }

    /// The chunks whose codes are worth trying as tokens, by core's estimate of those of their samples.
    fn worth_trying(
        &mut self,
        frame: &mut Frame<'_>,
        costs: &[(usize, TokenCosts)],
        options: &CoderOptions,
        narrow: &NarrowCodes<'_>,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<usize>> {
        if costs.is_empty() {
            return Ok(Vec::new());
        }
        let base = narrow.sample.device_ptr(frame.stream()).0;
        let sampled = |costs: &TokenCosts| {
            const STRIDE: usize = CODE_SAMPLE_PIECE * CODE_SAMPLE_STEP;
            costs.codes / STRIDE * CODE_SAMPLE_PIECE + (costs.codes % STRIDE).min(CODE_SAMPLE_PIECE)
        };
        let source = |(chunk, costs): &(usize, TokenCosts)| TokenSource {
            base,
            offset: *chunk as u64 * narrow.sample_slot,
            bytes: sampled(costs) as u64,
            params: code_token_params(options),
            has_matches: true,
            has_words: true,
            chunk: *chunk as u64,
        };
        let sources: Vec<TokenSource> = costs.iter().map(source).collect();
        let mut found = self.tokens.find(frame, &sources, observer)?;
        let counts = self.tokens.count(frame, &mut found)?;
        let (tried, options) = (costs.to_vec(), *options);
        // Logarithms of all counts: more than one thread should wait for.
        let may_pay = workers::spread(costs.len(), move |number| {
            let ((_, costs), (planes, blocks)): (&(usize, TokenCosts), _) = (&tried[number], &counts[number]);
            costs.may_pay(&options, planes, *blocks, sampled(costs))
        });
        let results: Vec<(usize, bool)> = may_pay.collect();
        if results.len() != costs.len() {
            return Err(CudaError::invalid("nobody estimated what tokens come to"));
        }
        let paying = results.into_iter().filter(|(_, may_pay)| *may_pay);
        let mut chunks: Vec<usize> = paying.map(|(number, _)| costs[number].0).collect();
        chunks.sort_unstable();
        Ok(chunks)
    }

    /// Writes the tokens of the chunks that have a place.
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        coded: &mut CodedTokens<'_>,
        chunk_places: &[Option<u64>],
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let laid_out = coded.laid_out.take();
        let mut places = TokenPlaces::new(&coded.found, laid_out.as_ref());
        let (pointer, _) = output.device_ptr_mut(stream);
        for (source, (&chunk, sections)) in coded.chunks.iter().zip(&coded.sections).enumerate() {
            if let Some(at) = chunk_places[chunk] {
                let tokens = (source, sections);
                places.place_payload(stream, tokens, &mut coded.found, laid_out.as_ref(), pointer, at);
            }
        }
        self.tokens.write(stream, &mut coded.found, laid_out, &places, output, observer)
    }
}
