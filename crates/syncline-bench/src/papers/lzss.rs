//! LZSS over chunk size, window, and symbol width, as in GPULZ's tables ("GPULZ: Optimizing LZSS lossless compression
//! for multi-byte data on modern GPUs", ICS 2023). Tokens are compared with the CPU's, and decoded bytes with the
//! array.

use anyhow::{Context, Result, ensure};
use syncline_core::container::ALIGNMENT;
use syncline_core::lzss::{EncodeScratch, Params, SymbolWidth, Tokens, encode};
use syncline_cuda::cudarc::driver::CudaSlice;
use syncline_cuda::device::Arena;
use syncline_cuda::error::DriverContext;
use syncline_cuda::lzss::{
    Batch, ChunkRange, ChunkSections, DecodeBatch, Decoder, Encoded, Encoder, Form, SectionPlan,
};
use syncline_cuda::timing::{self, Runs};
use syncline_papers::gpulz_2023;

use crate::array::Array;
use crate::check::ensure_same;
use crate::gpu::Gpu;
use crate::record::Record;

/// Bytes of the chunks in the paper's tables; the last is also the size of our data blocks.
const CHUNKS: [usize; 4] = [2048, 4096, 8192, 16_384];
/// Levels with the windows of the paper's tables: 32, 64, 128, and 255 symbols.
const LEVELS: [u8; 4] = [1, 2, 3, 4];
/// Symbol widths of the paper's tables.
const WIDTHS: [SymbolWidth; 3] = [SymbolWidth::One, SymbolWidth::Two, SymbolWidth::Four];
/// Minimum bytes of a container's chunk for large inputs, by which data blocks are passed to the encoder.
const CONTAINER_CHUNK: usize = 4 << 20;
/// Runs of a kernel that compares with the whole window, which is slow.
const SLOW: Runs = Runs { warm_up: 1, counted: 2 };

/// Measures our kernels at every point of the paper's grid, and the published ones with the format's blocks.
///
/// # Errors
/// An operation fails, or tokens or decoded bytes are not right.
pub fn measure(gpu: &Gpu, array: &Array) -> Result<Vec<Record>> {
    let input = gpu.stream.clone_htod(&array.bytes).doing("uploading an array")?;
    let mut records = Vec::new();
    gpu.wake()?;
    for chunk in CHUNKS {
        for level in LEVELS {
            for width in WIDTHS {
                let point = Point { gpu, array, input: &input, chunk, params: Params::new(width, level) };
                records.extend(point.measure().with_context(|| format!("{}, {}", array.name, point.text()))?);
            }
        }
    }
    Ok(records)
}

/// A point of the grid.
struct Point<'a> {
    gpu: &'a Gpu,
    array: &'a Array,
    input: &'a CudaSlice<u8>,
    /// Bytes of a chunk.
    chunk: usize,
    params: Params,
}

impl Point<'_> {
    fn text(&self) -> String {
        format!("C {} W {} S {}", self.chunk, self.params.window(), self.params.width.bytes())
    }

    fn measure(&self) -> Result<Vec<Record>> {
        let Self { gpu, array, input, chunk, params: Params { width, level, min_match } } = *self;
        let piece = if chunk < self.params.block_bytes() { chunk } else { CONTAINER_CHUNK };
        let range = |offset: usize| ChunkRange {
            offset: offset as u64,
            bytes: piece.min(input.len() - offset) as u64,
            min_match,
            chunk: (offset / piece) as u64,
        };
        let ranges: Vec<_> = (0..input.len()).step_by(piece).map(range).collect();
        let batch = Batch::new(&gpu.stream, width, level, Form::Sections, &ranges)?;
        let encoded = |encoder: Encoder, runs| -> Result<(Encoded, timing::Times)> {
            let mut encoded = Encoded::new(&gpu.stream, &batch, batch.max_bytes())?;
            let mut arena = Arena::new(gpu.stream.clone());
            let times = timing::seconds(&gpu.stream, runs, || {
                encoder.launch(&mut arena.frame()?, &input.as_view(), &batch, &mut encoded)
            })?;
            Ok((encoded, times))
        };
        let (ours, compress) = encoded(Encoder::new(&gpu.device, width, level)?, gpu.runs)?;
        let plans = ours.read_plans(&gpu.stream)?;
        let places = gpu.stream.clone_dtoh(ours.places()).doing("reading places")?;
        self.compare_tokens(piece, &ours, &plans, &places)?;
        let bytes: u64 = plans.iter().flat_map(|plan| plan.section_bytes).map(u64::from).sum();
        let record = |system: &str, what: &str, times: &_| {
            let record = gpu.of_system(array, system, &self.text(), what, times);
            Record { stream_bytes: Some(bytes), ..record }
        };
        let sections = ranges.iter().zip(plans.iter().zip(&places));
        let sections: Vec<_> = sections.map(|(range, (plan, &place))| sections_of(range, plan, place)).collect();
        let mut records = vec![
            record("syncline", "compress", &compress),
            record("syncline", "decompress", &self.decode(&ours, &sections)?),
        ];
        if Some(&chunk) == CHUNKS.last() {
            let (again, times) = encoded(gpulz_2023::encoder(&gpu.device, width, level)?, SLOW)?;
            ensure!(again.read_plans(&gpu.stream)? == plans, "kernels as published make other tokens");
            let read = |encoded: &Encoded| {
                let end = *places.last().unwrap_or(&0) as usize;
                gpu.stream.clone_dtoh(&encoded.bytes().slice(..end)).doing("reading tokens")
            };
            ensure_same(&read(&again)?, &read(&ours)?, "the tokens of kernels as published")?;
            records.push(record("gpulz_2023", "compress", &times));
        }
        Ok(records)
    }

    /// Compares the sections of the first pieces with the CPU's tokens.
    fn compare_tokens(&self, piece: usize, encoded: &Encoded, plans: &[SectionPlan], places: &[u64]) -> Result<()> {
        let compared = if piece == CONTAINER_CHUNK { 1 } else { 3 };
        for (number, bytes) in self.array.bytes.chunks_exact(piece).take(compared).enumerate() {
            let mut tokens = Tokens::default();
            encode(bytes, &self.params, &mut EncodeScratch::default(), &mut tokens);
            let flags: Vec<u8> = tokens.flags.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut at = places[number] as usize + align(plans[number].section_bytes[0] as usize);
            for expected in [&flags, &tokens.lengths, &tokens.distances, &tokens.literals] {
                let found = self.gpu.stream.clone_dtoh(&encoded.bytes().slice(at..at + expected.len()));
                ensure_same(&found.doing("reading tokens")?, expected, &format!("the tokens of chunk {number}"))?;
                at += align(expected.len());
            }
        }
        Ok(())
    }

    fn decode(&self, encoded: &Encoded, sections: &[ChunkSections]) -> Result<timing::Times> {
        let Self { gpu, array, params: Params { width, level, .. }, .. } = *self;
        let batch = DecodeBatch::new(&gpu.stream, width, level, sections)?;
        let decoder = Decoder::new(&gpu.device, width, level)?;
        let mut back = gpu.stream.clone_htod(&vec![0xA5_u8; array.bytes.len()]).doing("allocating")?;
        let mut status = gpu.stream.alloc_zeros::<u32>(sections.len()).doing("allocating")?;
        let mut arena = Arena::new(gpu.stream.clone());
        let times = timing::seconds(&gpu.stream, gpu.runs, || {
            let (mut back, mut status) = (back.as_view_mut(), status.as_view_mut());
            decoder.launch(&mut arena.frame()?, &encoded.bytes().as_view(), &batch, &mut back, &mut status)
        })?;
        let status = gpu.stream.clone_dtoh(&status).doing("reading the status")?;
        ensure!(status.iter().all(|&status| status == 0), "a chunk was not decoded");
        ensure_same(&gpu.stream.clone_dtoh(&back).doing("reading back")?, &array.bytes, "the decoded bytes")?;
        Ok(times)
    }
}
fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}
fn sections_of(range: &ChunkRange, plan: &SectionPlan, place: u64) -> ChunkSections {
    let mut at = place;
    let mut next = |number: usize| {
        let part = (at, plan.section_bytes[number]);
        at += align(plan.section_bytes[number] as usize) as u64;
        part
    };
    // The counts of the data blocks follow 8 bytes of parameters.
    let blocks = next(0).0 + 8;
    let (flags, lengths, distances, literals) = (next(1), next(2), next(3), next(4));
    ChunkSections {
        blocks,
        flags,
        lengths,
        distances,
        literals,
        output: range.offset,
        bytes: range.bytes,
        min_match: range.min_match,
    }
}
