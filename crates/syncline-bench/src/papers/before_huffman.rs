//! Lossy compression with and without LZSS before Huffman coding, as in GPULZ's last table ("GPULZ: Optimizing LZSS
//! lossless compression for multi-byte data on modern GPUs", ICS 2023): the whole system on one core of the CPU, and
//! its coding of codes on a GPU. Streams of both are compared, and values are checked against the bound.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use syncline::ElementType;
use syncline_core::array::Shape;
use syncline_core::huffman::{self, EncodeOptions, EncodeScratch, IndexKind};
use syncline_cuda::error::DriverContext;
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::pipeline::{StreamInfo, compress_bound};
use syncline_cuda::timing::{self, Times};
use syncline_papers::cusz_gpulz_2023::{OPTIONS, Quantization, RADIUS, Rare, compress_codes, decompress_codes};

use super::GROUP_LOG2;
use crate::array::Array;
use crate::check::ensure_same;
use crate::clock::{Clock, Stopwatch};
use crate::gpu::Gpu;
use crate::record::{Record, bound_text};
use crate::statistics::{max_error, range};

/// The bound of the paper's table, and that of the other papers.
const BOUNDS: [f64; 2] = [1e-2, 1e-3];
/// Symbols of a Huffman stream, as in the measurements of Huffman coders.
const STREAM_SYMBOLS: usize = 1 << 20;
const SYSTEM: &str = "cusz_gpulz_2023";
const WITHOUT: &str = "cusz_2020";

/// Measures the system on an array of `f32`, on a GPU as well if there is one.
///
/// # Errors
/// An operation fails, streams differ, or a value misses the bound.
pub fn measure(gpu: Option<&Gpu>, runs: usize, array: &Array) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for relative in BOUNDS {
        let case = Case::new(array, relative)?;
        records.extend(case.on_cpu(runs).with_context(|| format!("on {}", array.name))?);
        if let Some(gpu) = gpu {
            gpu.wake()?;
            records.extend(case.on_gpu(gpu).with_context(|| format!("on {}", array.name))?);
        }
    }
    Ok(records)
}

/// An array with a bound, and what the system makes of it.
struct Case<'a> {
    array: &'a Array,
    relative: f64,
    bound: f64,
    values: Vec<f32>,
    quantization: Quantization,
    codes: Vec<u16>,
    rare: Rare,
    stream: Vec<u8>,
}

impl<'a> Case<'a> {
    fn new(array: &'a Array, relative: f64) -> Result<Self> {
        ensure!(array.element == ElementType::F32, "{} is of {}, not of f32", array.name, array.element);
        let values: Vec<f32> = array.bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value)).collect();
        let bound = relative * range(wide(&values));
        let quantization = Quantization::new(array.shape()?, bound);
        let (codes, rare) = quantization.codes(&values);
        let stream = compress_codes(&codes)?;
        Ok(Self { array, relative, bound, values, quantization, codes, rare, stream })
    }

    /// Returns a record on the CPU, of a stream of codes with so many bytes.
    fn record(&self, codec: &str, coded: u64) -> Record {
        Record {
            bench: "papers".to_owned(),
            device: "cpu, 1 thread".to_owned(),
            field: self.array.name.clone(),
            element: self.array.element.to_string(),
            shape: self.array.shape_text(),
            bound: bound_text(Some(self.relative)),
            codec: codec.to_owned(),
            bytes: self.array.bytes.len() as u64,
            stream_bytes: Some(coded + self.rare.stored_bytes()),
            ..Record::default()
        }
    }

    fn on_cpu(&self, runs: usize) -> Result<Vec<Record>> {
        let codes = decompress_codes(&self.stream)?;
        ensure!(codes == self.codes, "the codes do not come back");
        let back = self.quantization.values(&codes, &self.rare)?;
        let error = max_error(wide(&self.values), wide(&back)) / self.bound;
        ensure!(error <= 1.0, "an error is {error} times the bound");
        let compress = timed(runs, || compress_codes(&self.quantization.codes(&self.values).0))?;
        let decompress = timed(runs, || self.quantization.values(&decompress_codes(&self.stream)?, &self.rare))?;
        let without = timed(runs, || Ok(huffman_bytes(&self.quantization.codes(&self.values).0)))?;
        let record = Record { error: Some(error), ..self.record(SYSTEM, self.stream.len() as u64) };
        let huffman = Record { error: Some(error), ..self.record(WITHOUT, huffman_bytes(&self.codes)) };
        Ok(vec![
            record.clone().timed("compress", &compress, None),
            record.timed("decompress", &decompress, None),
            huffman.timed("compress", &without, None),
        ])
    }

    /// Measures the coding of codes in device memory, whose stream must be the CPU's.
    fn on_gpu(&self, gpu: &Gpu) -> Result<Vec<Record>> {
        let shape = Shape::new(&[self.codes.len() as u64])?;
        let codes: &[u8] = bytemuck::cast_slice(&self.codes);
        let input = gpu.stream.clone_htod(codes).doing("uploading codes")?;
        let room = compress_bound(ElementType::U16, shape) as usize;
        let mut output = gpu.stream.alloc_zeros::<u8>(room).doing("allocating a stream")?;
        let mut compressor = LosslessCompressor::new(&gpu.device, &gpu.stream)?;
        let compress = timing::seconds(&gpu.stream, gpu.runs, || {
            let (input, mut output) = (input.as_view(), output.as_view_mut());
            compressor.compress(&input, ElementType::U16, shape, &OPTIONS, &mut output).map(drop)
        })?;
        let made = output.slice(..self.stream.len());
        let on_gpu = gpu.stream.clone_dtoh(&made).doing("reading a stream")?;
        ensure_same(&on_gpu, &self.stream, "the stream of the GPU")?;

        let info = StreamInfo::from_bytes(&self.stream)?;
        let mut decompressor = LosslessDecompressor::new(&gpu.device, gpu.stream.clone(), &info)?;
        let mut back = gpu.stream.alloc_zeros::<u8>(codes.len()).doing("allocating codes")?;
        let decompress =
            timing::seconds(&gpu.stream, gpu.runs, || decompressor.decompress(&made, &mut back.as_view_mut()))?;
        decompressor.check()?;
        ensure_same(&gpu.stream.clone_dtoh(&back).doing("reading codes")?, codes, "the codes")?;
        let device = gpu.device.info().name.clone();
        let record = Record { device, ..self.record(SYSTEM, self.stream.len() as u64) };
        let timed = |what: &str, times: &Times| record.clone().timed(what, times, Some(gpu.copy));
        Ok(vec![timed("compress codes", &compress), timed("decompress codes", &decompress)])
    }
}

/// Times work on this thread.
fn wide(values: &[f32]) -> impl IndexedParallelIterator<Item = f64> {
    values.par_iter().map(|&value| value.into())
}

fn timed<T>(runs: usize, work: impl Fn() -> syncline_core::error::Result<T>) -> Result<Times> {
    let mut seconds = Vec::new();
    for _ in 0..runs.max(1) {
        let watch = Stopwatch::start(Clock::Elapsed);
        black_box(work()?);
        seconds.push(watch.seconds());
    }
    Ok(Times::new(seconds))
}

/// Returns the bytes that codes take with Huffman coding alone.
fn huffman_bytes(codes: &[u16]) -> u64 {
    let most_frequent = Some(RADIUS as u16);
    let options = EncodeOptions { group_log2: GROUP_LOG2, index: IndexKind::None, zero_bit_symbol: most_frequent };
    let (mut scratch, mut out) = (EncodeScratch::default(), Vec::new());
    let mut bytes = 0;
    for part in codes.chunks(STREAM_SYMBOLS) {
        let mut part = part.to_vec();
        part.resize(part.len().next_multiple_of(1 << GROUP_LOG2), RADIUS as u16);
        out.clear();
        huffman::encode(&part, &[], &options, &mut scratch, &mut out);
        bytes += out.len() as u64;
    }
    bytes
}
