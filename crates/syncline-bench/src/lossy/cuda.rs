//! Compression and decompression on an NVIDIA GPU, timed with CUDA events and compared with a device-to-device copy of
//! the same run.
//!
//! Outputs are filled with a pattern before they are checked. Streams are compared with those of the CPU, and all
//! values are checked against the bound on the host.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use syncline::{Bound, Shape};
use syncline_core::container::HEADER_LEN;
use syncline_core::geometry::Geometry;
use syncline_cuda::HEADERS;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DeviceRepr};
use syncline_cuda::device::{Device, Pinned};
use syncline_cuda::error::DriverContext;
use syncline_cuda::geometry::Slab;
use syncline_cuda::pipeline::{CompressOptions, Compressed, Compressor, Decompressor, StreamInfo, compress_bound};
use syncline_cuda::reconstruct::Way;
use syncline_cuda::timing::{self, KernelTimes, Runs, Times};

use super::{Original, Quality, Rate, Results, Row, Set, Steps, Value, Values, compress_on_cpu, ensure_same};
use crate::check::{Check, POISON, view_bytes, view_bytes_mut};

/// Bytes of the device-to-device copy.
const COPY_BYTES: usize = 512 << 20;
/// Duration for which the device is kept busy before a measurement, so that its clock frequency rises.
const WAKE: Duration = Duration::from_millis(50);

/// Which optional measurements are made on a set.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Whether to compare the stream with the CPU's.
    pub compare: bool,
    /// Whether to time the steps.
    pub steps: bool,
}

/// A GPU with the state of its measurements.
pub struct Gpu {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Arc<KernelTimes>,
    check: Check,
    runs: Runs,
    way: Option<Way>,
    copies: Copies,
}

/// Throughputs of copies, in 10^9 bytes per second.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Copies {
    /// Device-to-device copy, counting each byte once.
    pub device: f64,
    /// Copy from page-locked host memory to the device.
    pub to_device: f64,
    /// Copy from the device to page-locked host memory.
    pub from_device: f64,
}

/// A set in device memory, with output buffers.
pub struct Loaded<'s> {
    set: &'s Set,
    typed: Typed<'s>,
}

enum Typed<'s> {
    F32(Buffers<'s, f32>),
    F64(Buffers<'s, f64>),
}

struct Buffers<'s, T> {
    original: Original<'s, T>,
    shape: Shape,
    /// The elements in page-locked host memory.
    host: Pinned<u8>,
    input: CudaSlice<u8>,
    /// Output buffer for a stream or for records.
    output: CudaSlice<u8>,
    records: CudaSlice<u8>,
    /// Output buffer of decompression.
    back: CudaSlice<T>,
    host_back: Pinned<u8>,
}

/// Times of compression, and the resulting stream.
struct Compression {
    made: Compressed,
    bytes: Vec<u8>,
    whole: Times,
    known: Times,
    copies: Times,
    workspace: u64,
}

/// Times of decompression, and the resulting values.
struct Decompression {
    quality: Quality,
    whole: Times,
    copies: Times,
    workspace: u64,
}

impl Gpu {
    /// Opens GPU 0 and measures its copies. `way` is the strategy of reconstruction, or `None` for the fastest one.
    ///
    /// # Errors
    /// There is no GPU, or it cannot be used.
    pub fn open(runs: usize, way: Option<Way>) -> Result<Self> {
        let device = Device::open(0, &HEADERS)?;
        // SAFETY: all memory is used on one stream, except the decompressor's own memory, whose use it orders with
        // events.
        unsafe { device.context().disable_event_tracking() };
        let stream = device.context().new_stream().doing("making a stream")?;
        let runs = Runs { warm_up: 3, counted: runs.max(1) };
        let copies = Copies::measure(&stream, runs)?;
        let check = Check::new(&device, stream.clone())?;
        let kernels = KernelTimes::new(&stream);
        let device = device.with_tracer(kernels.clone());
        Ok(Self { device, stream, kernels, check, runs, way, copies })
    }

    /// Returns the names of the device and its software.
    pub fn name(&self) -> String {
        self.device.info().to_string()
    }

    /// Returns the measured throughputs of copies.
    pub fn copies(&self) -> Copies {
        self.copies
    }

    /// Allocates device memory for a set and uploads it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn load<'s>(&self, set: &'s Set) -> Result<Loaded<'s>> {
        let typed = match &set.values {
            Values::F32(values) => Typed::F32(Buffers::new(&self.stream, set, values)?),
            Values::F64(values) => Typed::F64(Buffers::new(&self.stream, set, values)?),
        };
        Ok(Loaded { set, typed })
    }

    /// Measures a set with one bound.
    ///
    /// # Errors
    /// An operation fails, the bound is violated, or the stream differs from the CPU's.
    pub fn measure(
        &mut self,
        loaded: &mut Loaded<'_>,
        relative: f64,
        extent: Extent,
        results: &mut Results,
    ) -> Result<()> {
        match &mut loaded.typed {
            Typed::F32(buffers) => self.measure_values(loaded.set, buffers, relative, extent, results),
            Typed::F64(buffers) => self.measure_values(loaded.set, buffers, relative, extent, results),
        }
        .with_context(|| format!("on {} at {relative:e}", loaded.set.name))
    }

    fn measure_values<T: Value>(
        &mut self,
        set: &Set,
        buffers: &mut Buffers<'_, T>,
        relative: f64,
        extent: Extent,
        results: &mut Results,
    ) -> Result<()> {
        let expected = match extent.compare {
            true => Some(compress_on_cpu(set, buffers.original.values, relative, 0).context("on the CPU")?),
            false => None,
        };
        let bytes = set.bytes();
        let mut steps = |direction, times: Vec<(&'static str, Times)>| {
            let steps = times.into_iter().map(|(name, times)| (name.to_owned(), times.median() * 1e6)).collect();
            results.steps.push(Steps { set: set.name.clone(), bytes, relative, direction, steps });
        };
        let options = CompressOptions::new(Bound::Rel(relative));
        let compressing = || "compressing";
        let compression = self.compress(buffers, &options, expected.as_deref()).with_context(compressing)?;
        if extent.steps {
            steps("compress", self.compress_steps(buffers, &options).with_context(compressing)?);
        }
        let decompressing = || "decompressing";
        let (mut decompressor, mut stream) = self.decompressor(&compression.bytes).with_context(decompressing)?;
        let decompression = self.decompress(buffers, &mut decompressor, &mut stream, relative, &compression);
        let decompression = decompression.with_context(decompressing)?;
        if extent.steps {
            let view = stream.device.as_view();
            let mut back = buffers.back.as_view_mut();
            let times = self.kernels.measure(self.runs, || decompressor.decompress(&view, &mut back));
            steps("decompress", times.with_context(decompressing)?);
        }

        let Compression { made, whole, known, copies, workspace, .. } = compression;
        let rate = |times: &Times| Rate::new(bytes, times, Some(self.copies.device * 1e9));
        results.rows.push(Row {
            set: set.name.clone(),
            element: T::TYPE.to_string(),
            shape: set.shape_text(),
            bytes,
            device: self.device.info().name.clone(),
            relative,
            bound: decompression.quality.bound,
            stream_bytes: made.bytes,
            ratio: bytes as f64 / made.bytes as f64,
            bits: made.bytes as f64 * 8.0 / buffers.original.values.len() as f64,
            psnr: decompression.quality.psnr,
            error_over_bound: decompression.quality.error_over_bound,
            compress: rate(&whole),
            compress_known: Some(rate(&known)),
            compress_copies: Some(rate(&copies)),
            decompress: rate(&decompression.whole),
            decompress_copies: Some(rate(&decompression.copies)),
            compress_workspace: Some(workspace),
            decompress_workspace: Some(decompression.workspace),
            compared_with_cpu: extent.compare,
        });
        Ok(())
    }

    /// Keeps the device busy until its clock frequency has risen, because it was idle while the host worked.
    fn wake(&self, scratch: &mut CudaViewMut<'_, u8>) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < WAKE {
            self.check.poison(scratch, POISON)?;
            self.stream.synchronize().doing("waking the device")?;
        }
        Ok(())
    }

    fn compress<T: Value>(
        &mut self,
        buffers: &mut Buffers<'_, T>,
        options: &CompressOptions,
        expected: Option<&[u8]>,
    ) -> Result<Compression> {
        let stream = self.stream.clone();
        let Buffers { shape, host, input, output, records, .. } = buffers;
        let shape = *shape;
        let mut compressor = Compressor::new(&self.device, &stream)?;
        self.check.poison(&mut output.as_view_mut(), POISON)?;
        let made = compressor.compress(&input.as_view(), T::TYPE, shape, options, &mut output.as_view_mut())?;
        let length = made.bytes as usize;
        let bytes = stream.clone_dtoh(&output.slice(..length)).doing("reading a stream")?;
        stream.synchronize().doing("reading a stream")?;
        if let Some(expected) = expected {
            ensure_same(&bytes, expected, "the stream beside the CPU's")?;
        }

        self.wake(&mut records.as_view_mut())?;
        let whole = timing::seconds(&stream, self.runs, || {
            compressor.compress(&input.as_view(), T::TYPE, shape, options, &mut output.as_view_mut()).map(|_| ())
        })?;

        let geometry = Geometry::new(shape);
        let slab = Slab { bytes: input.as_view(), first_element: 0 };
        let mut records_bytes = 0;
        self.check.poison(&mut records.as_view_mut(), POISON)?;
        let known = timing::seconds(&stream, self.runs, || {
            let chunks = 0..geometry.chunks();
            let view = &mut records.as_view_mut();
            let found = compressor.compress_chunks(&made.header, &geometry, chunks, &slab, view)?;
            records_bytes = found.lengths.iter().map(|&length| length as usize).sum();
            Ok(())
        })?;
        ensure!(HEADER_LEN + records_bytes <= length, "{records_bytes} bytes of records in a stream of {length}");
        let in_stream = output.slice(HEADER_LEN..HEADER_LEN + records_bytes);
        let differences = self.check.differences(&records.slice(..records_bytes), &in_stream)?;
        ensure!(differences == 0, "{differences} bytes of the records differ from the stream's");

        let mut host_stream = Pinned::<u8>::new(&stream, length)?;
        let mut there_and_back = |input: &mut CudaSlice<u8>, output: &mut CudaSlice<u8>| {
            host.send(host.len(), input)?;
            compressor.compress(&input.as_view(), T::TYPE, shape, options, &mut output.as_view_mut())?;
            host_stream.read(&output.slice(..length))
        };
        let copies = timing::seconds(&stream, self.runs, || there_and_back(input, output))?;
        // Runs again to check the output.
        self.check.poison(&mut input.as_view_mut(), POISON)?;
        self.check.poison(&mut output.as_view_mut(), POISON)?;
        there_and_back(input, output)?;
        ensure_same(host_stream.wait()?, &bytes, "the stream of copied elements")?;
        Ok(Compression { made, bytes, whole, known, copies, workspace: compressor.workspace_bytes() })
    }

    fn compress_steps<T: Value>(
        &self,
        buffers: &mut Buffers<'_, T>,
        options: &CompressOptions,
    ) -> Result<Vec<(&'static str, Times)>> {
        let Buffers { shape, input, output, .. } = buffers;
        let mut compressor = Compressor::new(&self.device, &self.stream)?;
        Ok(self.kernels.measure(self.runs, || {
            let (input, output) = (&input.as_view(), &mut output.as_view_mut());
            compressor.compress(input, T::TYPE, *shape, options, output).map(|_| ())
        })?)
    }

    fn decompressor(&self, bytes: &[u8]) -> Result<(Decompressor, StreamBuffers)> {
        let mut host = Pinned::<u8>::new(&self.stream, bytes.len())?;
        host.fill()?.copy_from_slice(bytes);
        let device = self.stream.clone_htod(bytes).doing("uploading a stream")?;
        let info = StreamInfo::from_device(&self.stream, &device.as_view())?;
        let decompressor = match self.way {
            Some(way) => Decompressor::with_way(&self.device, self.stream.clone(), &info, way)?,
            None => Decompressor::new(&self.device, self.stream.clone(), &info)?,
        };
        Ok((decompressor, StreamBuffers { host, device }))
    }

    fn decompress<T: Value>(
        &mut self,
        buffers: &mut Buffers<'_, T>,
        decompressor: &mut Decompressor,
        from: &mut StreamBuffers,
        relative: f64,
        compression: &Compression,
    ) -> Result<Decompression> {
        let Buffers { original, back, host_back, .. } = buffers;
        let StreamBuffers { host, device } = from;
        let header = &compression.made.header;
        self.wake(&mut view_bytes_mut(back))?;
        let whole = timing::seconds(&self.stream, self.runs, || {
            decompressor.decompress(&device.as_view(), &mut back.as_view_mut())
        })?;
        decompressor.check()?;
        self.check.poison(&mut view_bytes_mut(back), POISON)?;
        host_back.fill()?.fill(POISON);
        decompressor.decompress(&device.as_view(), &mut back.as_view_mut())?;
        decompressor.check()?;
        host_back.read(&view_bytes(back))?;
        let quality = original.check(relative, header, bytemuck::cast_slice(host_back.wait()?))?;

        let mut there_and_back = |device: &mut CudaSlice<u8>, back: &mut CudaSlice<T>, host_back: &mut Pinned<u8>| {
            host.send(host.len(), device)?;
            decompressor.decompress(&device.as_view(), &mut back.as_view_mut())?;
            host_back.read(&view_bytes(back))
        };
        let copies = timing::seconds(&self.stream, self.runs, || there_and_back(device, back, host_back))?;
        // Runs again to check the output.
        self.check.poison(&mut device.as_view_mut(), POISON)?;
        self.check.poison(&mut view_bytes_mut(back), POISON)?;
        host_back.fill()?.fill(POISON);
        there_and_back(device, back, host_back)?;
        decompressor.check()?;
        original.check(relative, header, bytemuck::cast_slice(host_back.wait()?)).context("with copies")?;
        Ok(Decompression { quality, whole, copies, workspace: decompressor.workspace_bytes() as u64 })
    }
}

/// Buffers for a stream: in page-locked host memory, and in device memory.
struct StreamBuffers {
    host: Pinned<u8>,
    device: CudaSlice<u8>,
}

impl<'s, T: Value> Buffers<'s, T> {
    fn new(stream: &Arc<CudaStream>, set: &Set, values: &'s [T]) -> Result<Self> {
        let shape = Shape::new(&set.extents)?;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        ensure!(!bytes.is_empty(), "there are no values");
        let room = compress_bound(T::TYPE, shape) as usize;
        let mut host = Pinned::<u8>::new(stream, bytes.len())?;
        host.fill()?.copy_from_slice(bytes);
        let mut input = allocate::<u8>(stream, bytes.len())?;
        host.send(bytes.len(), &mut input)?;
        Ok(Self {
            original: Original::new(values),
            shape,
            host,
            input,
            output: allocate(stream, room)?,
            records: allocate(stream, room)?,
            back: allocate(stream, values.len())?,
            host_back: Pinned::new(stream, bytes.len())?,
        })
    }
}

/// Allocates device memory, which must be written before it is read.
fn allocate<T: DeviceRepr>(stream: &Arc<CudaStream>, length: usize) -> Result<CudaSlice<T>> {
    // SAFETY: bytes and floats have no invalid bit patterns.
    Ok(unsafe { stream.alloc::<T>(length) }.doing("allocating")?)
}

impl Copies {
    /// Measures copies of [`COPY_BYTES`] bytes within the device, to it, and from it, in 10^9 bytes per second.
    fn measure(stream: &Arc<CudaStream>, runs: Runs) -> Result<Self> {
        let device = timing::copy_rate(stream, COPY_BYTES, runs)?;
        let mut host = Pinned::<u8>::new(stream, COPY_BYTES)?;
        let mut buffer = allocate::<u8>(stream, COPY_BYTES)?;
        let to_device = timing::seconds(stream, runs, || host.send(COPY_BYTES, &mut buffer))?;
        let from_device = timing::seconds(stream, runs, || host.read(&buffer))?;
        let rate = |times: &Times| COPY_BYTES as f64 / times.median() / 1e9;
        Ok(Self { device: device / 1e9, to_device: rate(&to_device), from_device: rate(&from_device) })
    }
}
