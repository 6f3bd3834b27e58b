//! Times of single stages: of each kernel on a GPU, and of the loops of the codec on one core of the CPU.

#![allow(unsafe_code, reason = "the elements of an array are viewed as bytes and as numbers")]

mod huffman;
mod tiles;

use anyhow::{Context, Result, ensure};
use syncline::{Bound, Effort};
use syncline_core::geometry::TileSize;
use syncline_core::pipeline::CoderOptions;
use syncline_cuda::cudarc::driver::CudaSlice;
use syncline_cuda::error::DriverContext;
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
        let (stream, shape) = (&self.stream, array.shape()?);
        let input = stream.clone_htod(&array.bytes).doing("uploading an array")?;
        let room = compress_bound(array.element, shape) as usize;
        let mut output: CudaSlice<u8> = stream.alloc_zeros(room).doing("allocating")?;
        let mut compressor = LosslessCompressor::new(&self.device, stream)?;
        let options = CoderOptions::default();
        let mut bytes = 0;
        self.wake()?;
        let compress = self.kernels.measure(self.runs, || {
            let (input, output) = (&input.as_view(), &mut output.as_view_mut());
            bytes = compressor.compress(input, array.element, shape, &options, output)?.bytes as usize;
            Ok(())
        })?;
        let made = output.slice(..bytes);
        let info = StreamInfo::from_device(stream, &made)?;
        let mut decompressor = LosslessDecompressor::new(&self.device, stream.clone(), &info)?;
        let mut back = stream.alloc_zeros::<u8>(array.bytes.len()).doing("allocating")?;
        let decompress = self.kernels.measure(self.runs, || decompressor.decompress(&made, &mut back.as_view_mut()))?;
        decompressor.check()?;
        let values = stream.clone_dtoh(&back).doing("reading an array")?;
        ensure!(values == array.bytes, "an element differs");
        let record = |direction: &str, workspace: u64| Record {
            bound: bound_text(None),
            options: direction.into(),
            stream_bytes: Some(bytes as u64),
            workspace: Some(workspace),
            ..self.record("stages", array, "syncline")
        };
        let (there, back) = (compressor.workspace_bytes(), decompressor.workspace_bytes() as u64);
        Ok([self.timed(&record("compress", there), &compress), self.timed(&record("decompress", back), &decompress)]
            .concat())
    }

    fn timed(&self, record: &Record, steps: &[(&str, Times)]) -> Vec<Record> {
        steps.iter().map(|(step, times)| record.clone().timed(step, times, Some(self.copy))).collect()
    }

    fn stages(&self, array: &Array, effort: Effort, relative: f64) -> Result<Vec<Record>> {
        let (stream, shape) = (&self.stream, array.shape()?);
        let tile_size = if effort == Effort::Fast { TileSize::Small } else { TileSize::Block };
        let options = CompressOptions { tile_size, ..CompressOptions::new(Bound::Rel(relative)) };
        let mut compressor = Compressor::new(&self.device, stream, Sizing::Measured)?;
        let input = stream.clone_htod(&array.bytes).doing("uploading an array")?;
        let room = compress_bound(array.element, shape) as usize;
        let mut output: CudaSlice<u8> = stream.alloc_zeros(room).doing("allocating")?;
        let mut bytes = 0;
        self.wake()?;
        let compress = self.kernels.measure(self.runs, || {
            let (input, output) = (&input.as_view(), &mut output.as_view_mut());
            bytes = compressor.compress(input, array.element, shape, &options, output)?.bytes as usize;
            Ok(())
        })?;
        let made = output.slice(..bytes);
        let info = StreamInfo::from_device(stream, &made)?;
        let mut decompressor = Decompressor::new(&self.device, stream.clone(), &info)?;
        let mut back = stream.alloc_zeros::<u8>(array.bytes.len()).doing("allocating")?;
        let decompress = self.kernels.measure(self.runs, || decompressor.decompress(&made, &mut back.as_view_mut()))?;
        decompressor.check()?;
        let host = stream.clone_dtoh(&made).doing("reading a stream")?;
        let values = stream.clone_dtoh(&back).doing("reading an array")?;
        let error = Promise::of(&host)?.check(array, relative, &values)?;
        let record = |direction: &str, workspace: u64| Record {
            bound: bound_text(Some(relative)),
            options: format!("{}, {direction}", effort.name()),
            stream_bytes: Some(bytes as u64),
            error: Some(error),
            workspace: Some(workspace),
            ..self.record("stages", array, "syncline")
        };
        let (there, back) = (compressor.workspace_bytes(), decompressor.workspace_bytes() as u64);
        Ok([self.timed(&record("compress", there), &compress), self.timed(&record("decompress", back), &decompress)]
            .concat())
    }
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
