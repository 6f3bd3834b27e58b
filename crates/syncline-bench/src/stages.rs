//! Times of single stages: of each kernel on a GPU, and of the loops of the codec on one core of the CPU.

#![allow(unsafe_code, reason = "the elements of an array are viewed as bytes and as numbers")]

mod huffman;
mod tiles;

use anyhow::{Context, Result, ensure};
use syncline::{Bound, Effort};
use syncline_core::geometry::TileSize;
use syncline_core::pipeline::CoderOptions;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use syncline_cuda::error::{DriverContext, Result as CudaResult};
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::pipeline::{CompressOptions, Compressor, Decompressor, Sizing, StreamInfo, compress_bound};
use syncline_cuda::timing::Times;

use crate::array::Array;
use crate::check::Promise;
use crate::gpu::Gpu;
use crate::record::{Record, Records, bound_text};

pub use huffman::measure as huffman_on_cpu;
pub use tiles::measure as tiles_on_cpu;

/// Name of one core in records.
const CORE: &str = "cpu, 1 thread";

impl Gpu {
    /// Times the kernels of compressing an array and of decompressing its stream, in tiles with [`Effort::Fast`] and
    /// otherwise in blocks.
    ///
    /// # Errors
    /// An operation fails, or the bound is violated.
    pub fn measure_stages(&self, array: &Array, effort: Effort, relative: f64, records: &mut Records) -> Result<()> {
        let found = self.stages(array, effort, relative);
        records.add_or_complain(found.with_context(|| format!("{} with effort {}", array.name, effort.name())))
    }

    /// Times the kernels of compressing an array without loss and of decompressing its stream.
    ///
    /// # Errors
    /// An operation fails, or an element differs.
    pub fn measure_lossless_stages(&self, array: &Array, records: &mut Records) -> Result<()> {
        let found = self.lossless_stages(array);
        records.add_or_complain(found.with_context(|| format!("{} without loss", array.name)))
    }

    fn lossless_stages(&self, array: &Array) -> Result<Vec<Record>> {
        let mut compressor = LosslessCompressor::new(&self.device, &self.stream)?;
        let (shape, options) = (array.shape()?, CoderOptions::default());
        let (measured, decompressor) = self.both_ways(
            array,
            |input, output| Ok(compressor.compress(input, array.element, shape, &options, output)?.bytes),
            |info| LosslessDecompressor::new(&self.device, self.stream.clone(), info),
            LosslessDecompressor::decompress,
        )?;
        decompressor.check()?;
        ensure!(measured.values == array.bytes, "an element differs");
        let record = Record { bound: bound_text(None), ..self.record("stages", array, "syncline") };
        let workspace = [compressor.workspace_bytes(), decompressor.workspace_bytes() as u64];
        Ok(self.records(&measured, &record, "", workspace))
    }

    fn stages(&self, array: &Array, effort: Effort, relative: f64) -> Result<Vec<Record>> {
        let tile_size = if effort == Effort::Fast { TileSize::Small } else { TileSize::Block };
        let options = CompressOptions { tile_size, ..CompressOptions::new(Bound::Rel(relative)) };
        let mut compressor = Compressor::new(&self.device, &self.stream, Sizing::Measured)?;
        let shape = array.shape()?;
        let (measured, decompressor) = self.both_ways(
            array,
            |input, output| Ok(compressor.compress(input, array.element, shape, &options, output)?.bytes),
            |info| Decompressor::new(&self.device, self.stream.clone(), info),
            Decompressor::decompress,
        )?;
        decompressor.check()?;
        let error = Promise::of(&measured.stream)?.check(array, relative, &measured.values)?;
        let record = Record {
            bound: bound_text(Some(relative)),
            error: Some(error),
            ..self.record("stages", array, "syncline")
        };
        let workspace = [compressor.workspace_bytes(), decompressor.workspace_bytes() as u64];
        Ok(self.records(&measured, &record, &format!("{}, ", effort.name()), workspace))
    }

    /// Times the kernels of compressing an array and of decompressing its stream with what `open` returns.
    fn both_ways<D>(
        &self,
        array: &Array,
        mut compress: impl FnMut(&CudaView<'_, u8>, &mut CudaViewMut<'_, u8>) -> CudaResult<u64>,
        open: impl FnOnce(&StreamInfo) -> CudaResult<D>,
        decompress: impl Fn(&mut D, &CudaView<'_, u8>, &mut CudaViewMut<'_, u8>) -> CudaResult<()>,
    ) -> Result<(Measured, D)> {
        let stream = &self.stream;
        let input = stream.clone_htod(&array.bytes).doing("uploading an array")?;
        let room = compress_bound(array.element, array.shape()?) as usize;
        let mut output: CudaSlice<u8> = stream.alloc_zeros(room).doing("allocating")?;
        let mut bytes = 0;
        self.wake()?;
        let there = self.kernels.measure(self.runs, || {
            bytes = compress(&input.as_view(), &mut output.as_view_mut())? as usize;
            Ok(())
        })?;
        let made = output.slice(..bytes);
        let mut decompressor = open(&StreamInfo::from_device(stream, &made)?)?;
        let mut back = stream.alloc_zeros::<u8>(array.bytes.len()).doing("allocating")?;
        let back_again =
            self.kernels.measure(self.runs, || decompress(&mut decompressor, &made, &mut back.as_view_mut()))?;
        let stream_on_host = stream.clone_dtoh(&made).doing("reading a stream")?;
        let values = stream.clone_dtoh(&back).doing("reading an array")?;
        Ok((Measured { compress: there, decompress: back_again, stream: stream_on_host, values }, decompressor))
    }

    /// Returns a record for each kernel in both directions, with `prefix` before the direction.
    fn records(&self, measured: &Measured, record: &Record, prefix: &str, workspace: [u64; 2]) -> Vec<Record> {
        let directions = [("compress", &measured.compress), ("decompress", &measured.decompress)];
        let of_direction = |((direction, steps), workspace): ((&str, &Steps), u64)| {
            let record = Record {
                options: format!("{prefix}{direction}"),
                stream_bytes: Some(measured.stream.len() as u64),
                workspace: Some(workspace),
                ..record.clone()
            };
            steps.iter().map(|(step, times)| record.clone().timed(step, times, Some(self.copy))).collect::<Vec<_>>()
        };
        directions.into_iter().zip(workspace).flat_map(of_direction).collect()
    }
}

/// Kernels and their times.
type Steps = Vec<(&'static str, Times)>;

/// Times of both directions, the stream, and the array that it gave.
struct Measured {
    compress: Steps,
    decompress: Steps,
    stream: Vec<u8>,
    values: Vec<u8>,
}

/// Times `work` on one core, which has `bytes` bytes of input; other work on the machine only ever adds time.
fn record(field: &str, element: &str, step: &str, bytes: usize, runs: usize, mut work: impl FnMut()) -> Record {
    let seconds = (0..runs.max(1)).map(|_| {
        let start = std::time::Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    let times = Times::new(seconds.collect());
    let record = Record {
        bench: "stages".into(),
        device: CORE.into(),
        field: field.into(),
        element: element.into(),
        codec: "syncline".into(),
        bytes: bytes as u64,
        ..Record::default()
    };
    record.timed(step, &times, None)
}
