//! Compression of batches of chunks with token codebooks.
//!
//! The host takes part three times in a batch: it chooses interpolation schemes by the estimates of samples, chooses
//! the modes of codebooks, and lays out records. Each time it waits for the device and reads a few hundred bytes per
//! chunk.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::bound::ErrorSummary;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::tokens::GROUP_LEN;

use crate::container::assemble::Bitmaps;
use crate::container::record::{Contents, Lists};
use crate::container::token_records::{TokenAssembler, TokenRecordInput};
use crate::device::{Device, Frame, fetch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::huffman::encode::structs::StreamInput;
use crate::quantize::{
    ChunkSummary, RecordInputsArgument, TOKEN_GROUP_LOG2, TileSums, TokenQuantizer, blocks_per_chunk,
};
use crate::token_codes::{Statistics, TokenCodeEncoder, TokenCodebooksBuilder};

/// Most bytes of a batch's codes.
const BATCH_BYTES: u64 = 512 << 20;
/// Most chunks of a batch, which limits the memory for counts where chunks are small.
const MOST_CHUNKS: u64 = 1024;
/// Bytes of workspace for each byte of codes: the codes, samples of them, and what is known of tiles and groups.
const WORKSPACE: [u64; 2] = [7, 4];
/// Bytes of workspace for each chunk: counts of symbols, of samples as well, and layouts.
const CHUNK_WORKSPACE: u64 = 384 << 10;

/// Compresses chunks of streams with token codebooks.
#[derive(Debug)]
pub(super) struct TokenCompressor {
    quantizer: Option<TokenQuantizer>,
    statistics: Statistics,
    codebooks: TokenCodebooksBuilder,
    encoder: TokenCodeEncoder,
    assembler: TokenAssembler,
    /// Number of partial sums over tiles for each chunk.
    sums_per_chunk: u32,
}

/// The records of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchRecords {
    pub lengths: Vec<u32>,
    /// Of each chunk.
    pub errors: Vec<ErrorSummary>,
}

/// Returns the bytes of the codes of a chunk, with room for all elements of an unclipped tile for each tile.
fn chunk_bytes(geometry: &Geometry) -> u64 {
    let tiles = u64::from(geometry.tiles_per_chunk()).min(geometry.tiles().max(1));
    tiles * geometry.unclipped_len() * size_of::<i32>() as u64
}

/// Returns the chunks of a batch of about `batch_bytes` bytes of codes.
pub(super) fn chunks_of_batch(geometry: &Geometry, batch_bytes: u64) -> u64 {
    let most = (batch_bytes.min(BATCH_BYTES) / chunk_bytes(geometry)).max(1);
    most.min(MOST_CHUNKS).min(ChunkBatch::most_chunks(&DeviceGeometry::new(geometry, TOKEN_GROUP_LOG2)))
}

/// Returns the bytes of device memory that compressing such an array takes in addition to input and output.
pub(super) fn needed_workspace(geometry: &Geometry, batch_bytes: u64) -> u64 {
    let chunks = chunks_of_batch(geometry, batch_bytes).min(geometry.chunks());
    chunks * (chunk_bytes(geometry) * WORKSPACE[0] / WORKSPACE[1] + CHUNK_WORKSPACE)
}

impl TokenCompressor {
    /// Loads the kernels for elements of 4 or 8 bytes, except those that depend on the stream.
    pub fn new(device: &Device, element_bytes: u32) -> Result<Self> {
        Ok(Self {
            quantizer: None,
            statistics: Statistics::new(device)?,
            codebooks: TokenCodebooksBuilder::new(device)?,
            encoder: TokenCodeEncoder::new(device)?,
            assembler: TokenAssembler::new(device, element_bytes)?,
            sums_per_chunk: blocks_per_chunk(device),
        })
    }

    /// Returns the bytes of an element.
    pub fn element_bytes(&self) -> u32 {
        self.assembler.element_bytes()
    }

    /// Prepares for streams with this header over an array with this tiling. `rewritable` streams have no interpolated
    /// tiles.
    pub fn prepare(
        &mut self,
        device: &Device,
        stream: &Arc<CudaStream>,
        header: &Header,
        geometry: &Geometry,
        rewritable: bool,
    ) -> Result<()> {
        if !self.quantizer.as_mut().is_some_and(|quantizer| quantizer.adapt(header, geometry)) {
            self.quantizer = None;
        }
        let quantizer = match self.quantizer.take() {
            Some(quantizer) => quantizer,
            None => TokenQuantizer::new(device, stream, header, geometry)?,
        };
        self.quantizer.insert(quantizer).set_interpolates(!rewritable);
        Ok(())
    }

    /// Writes the records of some chunks, one batch, from byte `at` of the output on. Waits for the device, but for
    /// the last steps.
    pub fn batch(
        &mut self,
        frame: &mut Frame<'_>,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        at: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<BatchRecords> {
        let Self { quantizer, statistics, codebooks, encoder, assembler, sums_per_chunk } = self;
        let batch = ChunkBatch::new(geometry, TOKEN_GROUP_LOG2, chunks)?;
        let Some(quantizer) = quantizer.as_ref().filter(|_| batch.tiles() > 0) else {
            return Ok(BatchRecords::default());
        };
        let stream = frame.stream().clone();
        let schemes = choose_schemes(frame, quantizer, statistics, slab, &batch)?;

        let (device_schemes, count) = (frame.upload(&schemes)?, batch.chunks() as usize);
        let mut tile_sums = frame.slice::<TileSums>(count * *sums_per_chunk as usize)?;
        // The kernel that sums up chunks also lists Huffman streams and clears the progress of hashing, which are not
        // used here.
        let mut spans = frame.slice::<StreamInput>(count)?;
        let mut hash_progress = frame.slice::<u64>(count)?;
        let records = RecordInputsArgument {
            spans: spans.device_ptr_mut(&stream).0,
            tile_sums: tile_sums.device_ptr_mut(&stream).0,
            hash_progress: hash_progress.device_ptr_mut(&stream).0,
            streams: batch.chunks(),
            element_bytes: quantizer.element_bytes(),
            ..RecordInputsArgument::default()
        };
        let mut quantized = quantizer.quantize(frame, slab, &batch, &device_schemes.as_view(), records)?;
        let measured = statistics.measure(frame, &mut quantized.codes, true)?;
        let codebooks = codebooks.make(frame, measured.choices, &measured.counts)?;
        let laid_out = encoder.lay_out(frame, &quantized.codes, &measured.classes.as_view(), codebooks)?;
        let summaries = fetch(&stream, &quantized.summaries, "reading summaries")?;
        let tile_sums = fetch(&stream, &tile_sums, "reading sums over tiles")?;

        let is_raw: Vec<bool> =
            (0..).zip(&summaries).map(|(chunk, own)| is_raw(quantizer, &batch, chunk, own)).collect();
        let counted = |(summary, &is_raw): (&ChunkSummary, &bool)| {
            let nothing = ChunkSummary { radius: summary.radius, ..ChunkSummary::default() };
            if is_raw { nothing } else { *summary }
        };
        let listed: Vec<ChunkSummary> = summaries.iter().zip(&is_raw).map(counted).collect();
        let side = quantizer.gather(frame, slab, &mut quantized, &listed)?;
        let lists = Lists {
            outlier_positions: side.outlier_positions.as_view(),
            outlier_residuals: side.residuals.as_view(),
            verbatim_positions: side.verbatim_positions.as_view(),
            verbatim_values: side.verbatim_values.as_view(),
        };
        let (metas, bases): (CudaView<'_, u16>, CudaView<'_, i32>) =
            (quantized.metas.as_view(), quantized.bases.as_view());
        let contents =
            Contents { geometry: *quantizer.geometry(), batch, metas: &metas, bases: &bases, lists: &lists, slab };
        let sums: Vec<TileSums> = tile_sums.chunks(*sums_per_chunk as usize).map(added).collect();
        let input = TokenRecordInput {
            contents: &contents,
            summaries: &listed,
            is_raw: &is_raw,
            sums: &sums,
            schemes: &schemes,
            bitmaps: &Bitmaps { masks: Some(side.masks.as_view()), signs: Some(side.signs.as_view()) },
            tokens: &laid_out,
        };
        let lengths = assembler.write(frame, &input, encoder, at, output)?;
        let error = |summary: &ChunkSummary| ErrorSummary {
            squared_error: summary.squared_error.into(),
            counted: summary.counted,
        };
        Ok(BatchRecords { lengths, errors: summaries.iter().map(error).collect() })
    }
}

/// Chooses the interpolation scheme of each chunk, 0 for none, by the estimated sizes of a sample.
fn choose_schemes(
    frame: &mut Frame<'_>,
    quantizer: &TokenQuantizer,
    statistics: &Statistics,
    slab: &Slab<'_>,
    batch: &ChunkBatch,
) -> Result<Vec<u32>> {
    // The memory of the samples is free again afterwards.
    let mut frame = frame.nested();
    let stream = frame.stream().clone();
    let Some(mut sample) = quantizer.sample(&mut frame, slab, batch)? else {
        return Ok(vec![0; batch.chunks() as usize]);
    };
    let measured = statistics.measure(&mut frame, &mut sample.codes, false)?;
    let verbatim = fetch(&stream, &sample.verbatim, "reading numbers of verbatim values")?;
    let bits_of_verbatim = 8 * (4 + u64::from(quantizer.element_bytes()));
    let bits: Vec<u64> = measured
        .choices
        .iter()
        .zip(&verbatim)
        .map(|(choice, &verbatim)| choice.bits + bits_of_verbatim * u64::from(verbatim))
        .collect();
    let codes: Vec<u32> = std::iter::once(0).chain(quantizer.schemes().iter().map(|&scheme| scheme as u32)).collect();
    let best = |bits: &[u64]| codes.iter().zip(bits).min_by_key(|&(_, bits)| bits).map_or(0, |(&code, _)| code);
    Ok(bits.chunks(codes.len()).map(best).collect())
}

/// Returns whether the lists of a chunk alone are as long as its elements, as `ChunkSummary::is_raw` in
/// `kernels/quantize/summary.cuh`.
fn is_raw(quantizer: &TokenQuantizer, batch: &ChunkBatch, chunk: u32, summary: &ChunkSummary) -> bool {
    let tiles = batch.tiles_of(chunk);
    let before = |tile: u32| quantizer.geometry().elements_before(batch.first_tile() + u64::from(tile));
    let element_bytes = u64::from(quantizer.element_bytes());
    (4 + element_bytes) * u64::from(summary.verbatim) >= (before(tiles.end) - before(tiles.start)) * element_bytes
}

fn added(parts: &[TileSums]) -> TileSums {
    parts.iter().fold(TileSums::default(), |mut sum, part| {
        sum.live += part.live;
        sum.flags |= part.flags;
        sum.words_of_bases += part.words_of_bases;
        sum
    })
}

const _: () = assert!(GROUP_LEN == 1 << TOKEN_GROUP_LOG2);
