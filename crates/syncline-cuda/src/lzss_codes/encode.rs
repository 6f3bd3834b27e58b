//! Encodes the codes of a batch of chunks as LZSS tokens: launchers of `kernels/lzss_codes/encode.cu`, and the decision
//! for or against tokens.

#![allow(unsafe_code)]

use crate::geometry::ChunkBatch;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::pipeline::{
    CODE_SAMPLE_PIECE, CODE_SAMPLE_STEP, Coder, CoderOptions, TokenCosts, code_token_params,
};
use syncline_core::predict::codes::NARROW_RADIUS;

use super::structs::NarrowCounts;
use crate::container::record::TokenLists;
use crate::container::structs::TokenParts;
use crate::device::{Device, Frame, Grid, fetch};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{DeviceGeometry, Slab};
use crate::lossless::{FoundTokens, LaidOutPlanes, TokenEncoder, TokenPlaces, TokenSections, TokenSource, sections};
use crate::quantize::{ChunkSummary, Quantized, Quantizer, SideLists, SideOffsets};
use crate::workers;

declare_kernels! {
    /// The kernels of `kernels/lzss_codes/encode.cu`.
    pub(super) struct EncodeKernels in "lzss_codes/encode.cu", by (element_bytes: u64) {
        const THREADS: u32 = 256;
        with PIECE = CODE_SAMPLE_PIECE;
        with STEP = CODE_SAMPLE_STEP;
        fn lzss_codes_narrow(
            geometry: DeviceGeometry, batch: ChunkBatch, metas: In<u16>, first_groups: In<u32>, codes: In<u16>,
            narrow: Out<u8>, outliers: Out<u16>,
        );
        fn lzss_codes_places(
            geometry: DeviceGeometry, batch: ChunkBatch, summaries: In<ChunkSummary>, offsets: In<SideOffsets>,
            outliers: Out<u16>, narrow_offsets: Out<SideOffsets>, narrowed: Out<NarrowCounts>,
        );
        fn lzss_codes_sample(narrow: In<u8>, slot: u64, sample_slot: u64, narrowed: In<NarrowCounts>, sample: Out<u8>);
    }
}
/// Takes the place of the code count of a chunk that cannot have tokens: `NOT_NARROW` in the source.
const NOT_NARROW: u32 = u32::MAX;
/// Approximate number of bytes of a sample that a block copies.
const SAMPLED: u64 = 32 << 10;

/// The codes of a batch with radius 128, one byte each.
pub(crate) struct NarrowCodes<'a> {
    /// `slot` bytes for each chunk.
    codes: CudaViewMut<'a, u8>,
    slot: u64,
    /// Number of outliers of each tile.
    outliers: CudaViewMut<'a, u16>,
    offsets: CudaViewMut<'a, SideOffsets>,
    narrowed: CudaViewMut<'a, NarrowCounts>,
    /// `sample_slot` bytes for each chunk, if the decision depends on samples.
    sample: CudaViewMut<'a, u8>,
    sample_slot: u64,
}

/// A batch whose codes are LZSS tokens in those chunks where that may save bytes.
pub(crate) struct CodedBatch<'a> {
    /// The lists for the records.
    pub lists: CodedLists<'a>,
    /// The tokens, which are not yet written.
    pub tokens: CodedTokens<'a>,
}

/// The lists of records with tokens, which replace the outliers of other records.
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

/// Encodes the codes of quantized chunks as LZSS tokens.
#[derive(Debug)]
pub(crate) struct CodeEncoder {
    element_bytes: u64,
    kernels: EncodeKernels,
    tokens: TokenEncoder,
}

impl CodeEncoder {
    /// Creates an encoder for elements of 4 or 8 bytes.
    pub fn new(device: &Device, element_bytes: u64) -> Result<Self> {
        Ok(Self {
            element_bytes,
            kernels: EncodeKernels::load(device, element_bytes)?,
            tokens: TokenEncoder::new(device)?,
        })
    }

    /// Returns the bytes of an element.
    pub fn element_bytes(&self) -> u64 {
        self.element_bytes
    }

    /// Queues the computation of narrow codes from the codes of a batch, which may be overwritten afterwards.
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
        let grid = Grid::new(batch.tiles().div_ceil(THREADS / 32), THREADS);
        // SAFETY: there are a meta, a first group and a count for each tile, and for each chunk a slot that holds its
        // tiles' groups.
        unsafe {
            launch!(self.kernels.lzss_codes_narrow on &stream, grid; *geometry, batch, &quantized.metas,
                &quantized.first_groups, &quantized.codes, &mut narrow.codes, &mut narrow.outliers)
        }?;
        // SAFETY: one entry for each chunk or tile.
        unsafe {
            launch!(self.kernels.lzss_codes_places on &stream, Grid::new(batch.chunks(), THREADS); *geometry, batch,
                &quantized.summaries, &quantized.offsets, &mut narrow.outliers, &mut narrow.offsets,
                &mut narrow.narrowed)
        }?;
        if sample_slot > 0 {
            let grid = Grid::new(batch.chunks(), THREADS).rows(sample_slot.div_ceil(SAMPLED).clamp(1, 1 << 15) as u32);
            // SAFETY: each chunk has slots, and no more codes are read than the chunk has.
            unsafe {
                launch!(self.kernels.lzss_codes_sample on &stream, grid; &narrow.codes, slot, sample_slot,
                    &narrow.narrowed, &mut narrow.sample)
            }?;
        }
        Ok(narrow)
    }

    /// Encodes the codes of those chunks as tokens where that may save bytes. `code_lengths` are the bytes of the
    /// chunks' Huffman streams. Returns `None` if there are no such chunks. Waits for the device.
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
        options: &CoderOptions,
    ) -> Result<Option<CodedBatch<'a>>> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        let narrowed = fetch(&stream, &narrow.narrowed, "reading the counts of narrow codes")?;
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
            // Excludes chunks whose outliers alone take more bytes than tokens could save.
            .filter(|(chunk, costs)| {
                let tiles = batch.tiles_of(*chunk as u32).len();
                8 * costs.narrow_outliers < 8 * costs.outliers + costs.huffman_len + tiles / 4 + 64
            })
            .collect();
        let chunks = match options.coder {
            Coder::Auto => self.worth_trying(&mut frame.nested(), &costs, options, &narrow)?,
            _ => costs.iter().map(|(chunk, _)| *chunk).collect(),
        };
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
        let mut found = self.tokens.find(frame, &sources)?;
        let laid_out = self.tokens.lay_out(frame, &mut found)?;
        let sections = sections(&found, Some(&laid_out));
        let mut parts = vec![TokenParts::default(); narrowed.len()];
        let mut first_outlier = 0;
        for (parts, narrowed) in parts.iter_mut().zip(&narrowed) {
            (parts.first_outlier, parts.outliers) = (first_outlier, narrowed.outliers);
            first_outlier += u64::from(narrowed.outliers);
        }
        for (&chunk, sections) in chunks.iter().zip(&sections) {
            // The sections have at most 2^22 bytes of tokens and little more.
            parts[chunk].bytes = sections.payload_bytes() as u32;
        }
        let device_parts = frame.upload(&parts)?;
        Ok(Some(CodedBatch {
            lists: CodedLists { parts: device_parts, positions, residuals },
            tokens: CodedTokens { chunks, sections, found, laid_out: Some(laid_out) },
        }))
    }

    /// Returns the chunks whose codes should be tried as tokens, according to core's estimate from samples of their
    /// codes.
    fn worth_trying(
        &mut self,
        frame: &mut Frame<'_>,
        costs: &[(usize, TokenCosts)],
        options: &CoderOptions,
        narrow: &NarrowCodes<'_>,
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
        let mut found = self.tokens.find(frame, &sources)?;
        let counts = self.tokens.count(frame, &mut found)?;
        let (tried, options) = (costs.to_vec(), *options);
        // The estimates take logarithms of all counts, so they are distributed to worker threads.
        let may_pay = workers::run_tasks(costs.len(), move |number| {
            let ((_, costs), (planes, blocks)): (&(usize, TokenCosts), _) = (&tried[number], &counts[number]);
            costs.may_pay(&options, planes, *blocks, sampled(costs))
        });
        let results: Vec<(usize, bool)> = may_pay.collect();
        if results.len() != costs.len() {
            return Err(CudaError::invalid("an estimate of the size of tokens is missing"));
        }
        let paying = results.into_iter().filter(|(_, may_pay)| *may_pay);
        let mut chunks: Vec<usize> = paying.map(|(number, _)| costs[number].0).collect();
        chunks.sort_unstable();
        Ok(chunks)
    }

    /// Writes the tokens of the chunks that have an offset in the output.
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        coded: &mut CodedTokens<'_>,
        chunk_places: &[Option<u64>],
        output: &mut CudaViewMut<'_, u8>,
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
        self.tokens.write(stream, &mut coded.found, laid_out, &places, output)
    }
}
