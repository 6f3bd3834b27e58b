//! Times whole compressions on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda
//! --bench lossy`.
//!
//! Measures from device memory to device memory with everything included: the scan for the bound's range, the host's
//! decisions, hashes and the chunk table. Reports medians of CUDA-event times after warm-up; throughputs are of the
//! array's bytes. Below each line are the microseconds of each kernel, and of the gaps between them. `tests/compress.rs` and `tests/token_codes` check the results. Arguments: the
//! efforts to run, such as `balanced`; `queued` for compression that a CUDA graph has captured, beside the same without
//! a graph.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags_enum, CUstreamCaptureMode};
use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::array::{Element, Shape};
use syncline_core::bound::{Bound, Fill};
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{Coder, CoderOptions, Effort};
use syncline_core::quantize::Real;
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::pipeline::{CompressOptions, Compressor, QueuedCompressor, compress_bound};
use syncline_cuda::timing::KernelTimes;

mod fields;
mod timing;
use fields::Data;
use timing::Runs;

const RUNS: Runs = Runs { warm_up: 2, counted: 9 };

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    // SAFETY: all memory is used on one stream, except the compressor's own memory, whose use it orders by events.
    unsafe { device.context().disable_event_tracking() };
    let stream = device.context().new_stream().doing("creating a stream")?;
    let copy = timing::copy_rate(&stream, RUNS)?;
    let kernels = KernelTimes::new(&stream);
    let device = device.with_tracer(kernels.clone());
    let bench = Bench { device: &device, stream, kernels, copy, effort: Effort::Fast };
    println!(
        "array, bound: ratio, GB/s (share of C), microseconds, workspace as a share of the array (what was foreseen); \
         by kernel"
    );
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let runs = |effort: Effort| wanted.is_empty() || wanted.iter().any(|name| name == effort.name());
    let smooth = Data { noise: 0.002, fill: false };
    let rel = Bound::Rel(1e-3);
    if wanted.is_empty() || wanted.iter().any(|name| name == "queued") {
        // The last bound takes codes of 16 bits.
        for bound in [Bound::Rel(1e-2), rel, Bound::Rel(1e-4), Bound::Rel(2e-7)] {
            bench.queued::<f32>(&[512, 512, 512], bound, smooth)?;
        }
        bench.queued::<f32>(&[1 << 27], rel, smooth)?;
        bench.queued::<f64>(&[256, 512, 512], rel, smooth)?;
        bench.queued::<f32>(&[512, 512, 512], Bound::PwRel(1e-3), smooth)?;
        for side in [10, 32, 100] {
            bench.queued::<f32>(&[side, side, side], rel, smooth)?;
        }
    }
    if runs(Effort::Fast) {
        for bound in [Bound::Rel(1e-2), rel, Bound::Rel(1e-4)] {
            bench.compress::<f32>(&[1024, 512, 512], bound, smooth)?;
        }
        bench.compress::<f32>(&[100, 500, 500], rel, smooth)?;
        bench.compress::<f32>(&[16384, 16384], rel, smooth)?;
        bench.compress::<f32>(&[1 << 28], rel, smooth)?;
        bench.compress::<f64>(&[512, 512, 512], rel, smooth)?;
        bench.compress::<f64>(&[1 << 27], rel, smooth)?;
        bench.compress::<f32>(&[1024, 512, 512], rel, Data { fill: true, ..smooth })?;
        bench.compress::<f32>(&[1024, 512, 512], Bound::PwRel(1e-3), smooth)?;
    }
    for effort in [Effort::Balanced, Effort::Best].into_iter().filter(|&effort| runs(effort)) {
        let bench = Bench { effort, kernels: bench.kernels.clone(), stream: bench.stream.clone(), ..bench };
        for bound in [Bound::Rel(1e-2), rel, Bound::Rel(1e-4)] {
            bench.compress::<f32>(&[256, 512, 512], bound, smooth)?;
        }
        bench.compress::<f32>(&[8192, 8192], rel, smooth)?;
        bench.compress::<f32>(&[1 << 26], rel, smooth)?;
        bench.compress::<f64>(&[128, 512, 512], rel, smooth)?;
        bench.compress::<f32>(&[256, 512, 512], rel, Data { fill: true, ..smooth })?;
        bench.compress::<f32>(&[256, 512, 512], Bound::PwRel(1e-3), smooth)?;
        bench.compress::<f32>(&[1024, 512, 512], rel, smooth)?;
    }
    Ok(())
}

struct Bench<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    kernels: Arc<KernelTimes>,
    copy: f64,
    effort: Effort,
}

impl Bench<'_> {
    /// Times compression by calls, work that is only queued, and launches of a graph that captured it.
    fn queued<T: Real + Element>(&self, extents: &[u64], bound: Bound, data: Data) -> Result<()> {
        let (shape, stream) = (Shape::new(extents)?, &self.stream);
        let (array, _) = fields::generate::<T>(stream, extents, data)?;
        let room = compress_bound(T::TYPE, shape) as usize;
        let mut output: CudaSlice<u8> = stream.alloc_zeros(room).doing("allocating")?;
        let options = CompressOptions { fill: Fill::None, ..CompressOptions::new(bound) };
        let input = array.as_view();
        let mut compressor = Compressor::new(self.device, stream)?;
        let (call, _) = timing::seconds(stream, RUNS, || {
            compressor.compress(&input, T::TYPE, shape, &options, &mut output.as_view_mut()).map(drop)
        })?;
        let mut compressor = QueuedCompressor::new(self.device, stream, &input, (T::TYPE, shape), &options, false)?;
        let (queued, _) =
            timing::seconds(stream, RUNS, || compressor.compress(&input, &mut output.as_view_mut(), None))?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.begin_capture(mode).doing("beginning a capture")?;
        compressor.compress(&input, &mut output.as_view_mut(), None)?;
        let graph = stream.end_capture(CUgraphInstantiate_flags_enum(0)).doing("ending a capture")?;
        let Some(graph) = graph else { return Ok(()) };
        let (graph, _) = timing::seconds(stream, RUNS, || graph.launch().doing("launching a graph"))?;
        let bytes = compressor.check()?;
        let rate = |seconds: f64| array.len() as f64 / seconds;
        let text = |seconds: f64| {
            let rate = rate(seconds);
            format!("{:.1} GB/s ({:.2} C) {:.0} us", rate / 1e9, rate / self.copy, seconds * 1e6)
        };
        println!(
            "{} {shape} {bound:?}: {:.2}; call {}, queued {}, graph {}; workspace {:.2}",
            T::TYPE,
            array.len() as f64 / bytes as f64,
            text(call),
            text(queued),
            text(graph),
            compressor.workspace_bytes() as f64 / array.len() as f64,
        );
        self.print_kernels(|| compressor.compress(&input, &mut output.as_view_mut(), None))
    }

    fn compress<T: Real + Element>(&self, extents: &[u64], bound: Bound, data: Data) -> Result<()> {
        let shape = Shape::new(extents)?;
        let (array, _) = fields::generate::<T>(&self.stream, extents, data)?;
        let room = compress_bound(T::TYPE, shape) as usize;
        // SAFETY: every bit pattern of `u8` is valid, and only written bytes are read.
        let mut output: CudaSlice<u8> = unsafe { self.stream.alloc(room) }.doing("allocating")?;
        let options = CompressOptions::new(bound);
        let input = array.as_view();
        for batch in [512_u64, 2048] {
            let coder = if self.effort == Effort::Best { Coder::Auto } else { Coder::Huffman };
            let lossless = CoderOptions { effort: self.effort, coder, ..CoderOptions::default() };
            let compressor = Compressor::new(self.device, &self.stream)?.with_coder(lossless);
            let mut compressor = compressor.with_batch_bytes(batch << 20);
            let mut made = None;
            let (median, _) = timing::seconds(&self.stream, RUNS, || {
                let mut view = output.as_view_mut();
                made = Some(compressor.compress(&input, T::TYPE, shape, &options, &mut view)?);
                Ok(())
            })?;
            let Some(made) = made else { return Ok(()) };
            let rate = array.len() as f64 / median;
            let share = |bytes: u64| bytes as f64 / array.len() as f64;
            println!(
                "{} {shape} {bound:?} {data:?}, {}, batches of {batch} MiB: {:.2}, {:.1} GB/s ({:.2} C), {:.0} us, \
                 {:.2} ({:.2})",
                T::TYPE,
                self.effort,
                array.len() as f64 / made.bytes as f64,
                rate / 1e9,
                rate / self.copy,
                median * 1e6,
                share(compressor.workspace_bytes()),
                share(compressor.needed_workspace(&made.header, &Geometry::new(shape))),
            );
            self.print_kernels(|| {
                let mut view = output.as_view_mut();
                compressor.compress(&input, T::TYPE, shape, &options, &mut view).map(drop)
            })?;
            if array.len() < 256 << 20 || self.effort != Effort::Fast {
                break;
            }
        }
        Ok(())
    }

    /// Prints the microseconds of each kernel of a compression.
    fn print_kernels(&self, compress: impl FnMut() -> Result<()>) -> Result<()> {
        let times = self.kernels.measure(Runs { warm_up: 0, counted: 1 }, compress)?;
        let parts = times.iter().map(|(name, times)| format!("{name} {:.0}", times.median() * 1e6));
        println!("    {}", parts.collect::<Vec<_>>().join(", "));
        Ok(())
    }
}
