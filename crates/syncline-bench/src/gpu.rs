//! Measures arrays in device memory through the public library, and nvCOMP's codecs on the same bytes, beside a
//! device-to-device copy of the same run. Times are between CUDA events of a stream of this program.

#![allow(unsafe_code, reason = "device memory is handed to the library as raw pointers")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use syncline::gpu::{Compressor, Decompressor, DeviceBuffer, DeviceBytes, RawStream};
use syncline::{ArrayView, Backend, Bound, CompressOptions, compress_bound};
use syncline_cuda::CudaError;
use syncline_cuda::cudarc::driver::CudaStream;
use syncline_cuda::device::Device;
use syncline_cuda::error::DriverContext;
use syncline_cuda::timing::{self, KernelTimes, Runs};

use crate::array::Array;
use crate::check::{Promise, ensure_same};
use crate::codec::Variant;
use crate::nvcomp::{self, Nvcomp};
use crate::record::{Record, bound_text};

/// Bytes of the device-to-device copy.
const COPY_BYTES: usize = 512 << 20;
/// Duration for which the device is kept busy before a measurement, so that its clock frequency rises.
const WAKE: Duration = Duration::from_millis(50);
/// The byte that outputs are filled with before they are checked.
const POISON: u8 = 0xA5;

/// GPU 0 with the state of its measurements.
pub struct Gpu {
    /// The device.
    pub device: Device,
    /// The stream of the events.
    pub stream: Arc<CudaStream>,
    /// Measures kernels that this device launches on this stream.
    pub kernels: Arc<KernelTimes>,
    /// Numbers of runs.
    pub runs: Runs,
    /// Throughput of a device-to-device copy in bytes per second, counting each byte once.
    pub copy: f64,
}

/// A stream in device memory and on the host.
struct Made {
    device: DeviceBuffer,
    host: Vec<u8>,
}

impl Gpu {
    /// Opens GPU 0, and measures its copy.
    ///
    /// # Errors
    /// There is no GPU, or it cannot be used.
    pub fn open(runs: usize) -> Result<Self> {
        let device = Device::open(0, &syncline_papers::HEADERS)?;
        let stream = device.context().new_stream().doing("creating a stream")?;
        let kernels = KernelTimes::new(&stream);
        let device = device.with_tracer(kernels.clone());
        let runs = Runs { warm_up: 3, counted: runs.max(1) };
        let copy = timing::copy_rate(&stream, COPY_BYTES, runs)?;
        eprintln!("{}; device copy: {:.0} GB/s", device.info(), copy / 1e9);
        Ok(Self { device, stream, kernels, runs, copy })
    }

    /// Returns a record of an array with this compressor.
    pub fn record(&self, bench: &str, array: &Array, codec: &str) -> Record {
        Record {
            bench: bench.to_owned(),
            device: self.device.info().name.clone(),
            field: array.name.clone(),
            element: array.element.to_string(),
            shape: array.shape_text(),
            codec: codec.to_owned(),
            bytes: array.bytes.len() as u64,
            ..Record::default()
        }
    }

    /// Keeps the device busy until its clock frequency has risen, because it was idle while the host worked.
    ///
    /// # Errors
    /// The device fails.
    pub fn wake(&self) -> Result<()> {
        let mut memory = self.stream.alloc_zeros::<u8>(COPY_BYTES / 4).doing("allocating")?;
        let start = Instant::now();
        while start.elapsed() < WAKE {
            self.stream.memset_zeros(&mut memory).doing("waking the device")?;
            self.stream.synchronize().doing("waking the device")?;
        }
        Ok(())
    }

    fn raw_stream(&self) -> RawStream {
        self.stream.cu_stream().cast()
    }

    /// Measures Syncline on an array in both directions, with a relative bound or without loss.
    ///
    /// # Errors
    /// An operation fails, the bound is violated, or the stream differs from the CPU's.
    pub fn measure(&self, bench: &str, array: &Array, variant: &Variant, relative: Option<f64>) -> Result<Vec<Record>> {
        self.both(bench, array, variant, relative).with_context(|| context(array, variant))
    }

    fn both(&self, bench: &str, array: &Array, variant: &Variant, relative: Option<f64>) -> Result<Vec<Record>> {
        let options = variant.options.clone().with_bound(relative.map_or(Bound::Lossless, Bound::Rel));
        let mut compressor = Compressor::new(0)?;
        let input = compressor.upload(&array.bytes)?;
        let (made, compress) = self.compress(&mut compressor, array, &options, input.bytes())?;
        ensure_same(&made.host, &on_cpu(array, &options)?, "the stream beside the CPU's")?;
        let record = self.record_of(bench, array, variant, relative, &made);
        let mut records = vec![record.clone().timed("compress", &compress, Some(self.copy))];
        let back = input;
        let mut decompress = vec![self.decompress(&mut compressor, &made, back.bytes())?];
        if relative.is_some() {
            decompress.push(self.decompress_again(&compressor, &made, back.bytes())?);
        }
        for (what, times, values) in decompress {
            let error = match relative {
                Some(relative) => Some(Promise::of(&made.host)?.check(array, relative, &values)?),
                None => ensure_same(&values, &array.bytes, "the decompressed array").map(|()| None)?,
            };
            records.push(Record { error, ..record.clone().timed(what, &times, Some(self.copy)) });
        }
        Ok(records)
    }

    fn record_of(&self, bench: &str, array: &Array, variant: &Variant, relative: Option<f64>, made: &Made) -> Record {
        Record {
            bound: bound_text(relative),
            options: variant.name.clone(),
            stream_bytes: Some(made.host.len() as u64),
            ..self.record(bench, array, "syncline")
        }
    }

    fn compress(
        &self,
        compressor: &mut Compressor,
        array: &Array,
        options: &CompressOptions,
        input: DeviceBytes,
    ) -> Result<(Made, timing::Times)> {
        let (element, shape, stream) = (array.element, array.shape()?, self.raw_stream());
        let output = compressor.allocate(compress_bound(element, shape) as usize)?;
        let mut bytes = 0;
        self.wake()?;
        let times = timing::seconds(&self.stream, self.runs, || {
            // SAFETY: both buffers are device memory of this compressor's GPU that nothing else uses during the call,
            // and the stream lives as long as `self`.
            let made = unsafe { compressor.compress(input, element, shape, options, output.bytes(), stream) };
            bytes = made.map_err(to_cuda)?.compressed_bytes as usize;
            Ok(())
        })?;
        let written = DeviceBytes { len: bytes, ..output.bytes() };
        // SAFETY: as above; the call has returned, so that the stream is complete.
        let host = unsafe { compressor.copy_to_host(written, stream) }?;
        // In memory of its own, which has the length of the stream.
        Ok((Made { device: compressor.upload(&host)?, host }, times))
    }

    /// Times whole calls, and returns the values.
    fn decompress(&self, compressor: &mut Compressor, made: &Made, back: DeviceBytes) -> Result<Timed> {
        let stream = self.raw_stream();
        poison(compressor, back, stream)?;
        self.wake()?;
        let times = timing::seconds(&self.stream, self.runs, || {
            // SAFETY: both buffers are device memory of this compressor's GPU that nothing else uses during the call.
            unsafe { compressor.decompress(made.device.bytes(), back, stream) }.map_err(to_cuda)
        })?;
        // SAFETY: the calls have returned.
        let values = unsafe { compressor.copy_to_host(back, stream) }?;
        Ok(("decompress", times, values))
    }

    /// Times calls of an object that has read the header of the stream, and queues its work without waiting.
    fn decompress_again(&self, compressor: &Compressor, made: &Made, back: DeviceBytes) -> Result<Timed> {
        let stream = self.raw_stream();
        poison(compressor, back, stream)?;
        // SAFETY: the stream's bytes are live device memory that nothing writes to, and the CUDA stream outlives the
        // object.
        let mut decompressor = unsafe { Decompressor::new(0, made.device.bytes(), stream) }?;
        self.wake()?;
        let times = timing::seconds(&self.stream, self.runs, || {
            // SAFETY: the buffers are used by work on this stream alone until it is synchronized.
            unsafe { decompressor.decompress(made.device.bytes(), back) }.map_err(to_cuda)
        })?;
        decompressor.check()?;
        // SAFETY: the check has waited for the work.
        let values = unsafe { compressor.copy_to_host(back, stream) }?;
        Ok(("decompress again", times, values))
    }

    /// Measures nvCOMP's codecs on the bytes of an array.
    ///
    /// # Errors
    /// A call fails, or the decompressed bytes differ.
    pub fn measure_nvcomp(&self, bench: &str, nvcomp: &Nvcomp, array: &Array) -> Result<Vec<Record>> {
        let input = self.stream.clone_htod(&array.bytes).doing("uploading an array")?;
        let mut records = Vec::new();
        self.wake()?;
        for codec in nvcomp::Codec::all(array.element.size()) {
            let done = nvcomp.measure(&codec, &input.as_view(), &self.stream, self.runs)?;
            ensure_same(&done.back, &array.bytes, codec.name)?;
            let record = Record {
                bound: bound_text(None),
                options: codec.name.to_owned(),
                stream_bytes: Some(done.bytes),
                ..self.record(bench, array, "nvCOMP")
            };
            records.push(record.clone().timed("compress", &done.compress, Some(self.copy)));
            records.push(record.timed("decompress", &done.decompress, Some(self.copy)));
        }
        Ok(records)
    }
}

/// What was timed, its times, and the decompressed values.
type Timed = (&'static str, timing::Times, Vec<u8>);

fn context(array: &Array, variant: &Variant) -> String {
    format!("{} with {}", array.name, variant.name)
}

fn to_cuda(error: syncline::Error) -> CudaError {
    CudaError::invalid(error.to_string())
}

/// Fills memory with a pattern, so that missing writes are detected.
fn poison(compressor: &Compressor, memory: DeviceBytes, stream: RawStream) -> Result<()> {
    // SAFETY: the memory belongs to the caller, and nothing else uses it.
    Ok(unsafe { compressor.copy_from_host(&vec![POISON; memory.len], memory, stream) }?)
}

/// Returns the stream that the CPU makes.
fn on_cpu(array: &Array, options: &CompressOptions) -> Result<Vec<u8>> {
    let view = ArrayView::from_bytes(&array.bytes, array.element, array.shape()?)?;
    Ok(syncline::compress(&view, &options.clone().with_backend(Backend::Cpu))?)
}
