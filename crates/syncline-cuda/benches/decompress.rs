//! Times decompression of whole streams on GPU 0 against a device-to-device copy of the same run: `cargo bench -p
//! syncline-cuda --bench decompress`.
//!
//! Reports medians of CUDA-event times after warm-up, with kernels queued one by one and as a CUDA graph, and those of
//! the parts: parsing, hashing, reconstruction. Outputs are compared with the CPU's. Throughputs are of written
//! elements; that of the copy counts each byte once. Arguments: parts of the names of the lines to run, and files
//! ending in `.syn`, which contain streams; these are also measured repeated along their slowest axis to 1 GiB of
//! elements.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags_enum, CUstreamCaptureMode};
use cudarc::driver::{CudaStream, DeviceRepr, ValidAsZeroBits};
use syncline_core::array::{Element, ElementType};
use syncline_core::bound::Bound;
use syncline_core::container::HEADER_LEN;
use syncline_core::geometry::TileSize;
use syncline_core::pipeline::{CoderOptions, Effort};
use syncline_cuda::container::MAX_CHUNKS;
use syncline_cuda::container::hash::{ExcludedRange, Hasher, Pieces};
use syncline_cuda::container::parse::{Format, RecordParser, Records};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::geometry::{ChunkBatch, DeviceGeometry};
use syncline_cuda::pipeline::{Decompressor, StreamInfo};
use syncline_cuda::reconstruct::{Codes, Reconstruction, Reconstructor};
use syncline_cuda::timing::KernelTimes;

#[path = "../tests/common/stream.rs"]
mod streams;
mod timing;
mod waves;
use streams::{Making, compress, compress_by, decompress, opened};
use timing::Runs;
use waves::Field;

const RUNS: Runs = Runs { warm_up: 3, counted: 11 };
/// Bytes of a large field.
const LARGE: u64 = 1 << 30;

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    // SAFETY: all memory is used on one stream, except the decompressor's own memory, whose use it orders by events.
    unsafe { device.context().disable_event_tracking() };
    let stream = device.context().new_stream().doing("making a stream")?;
    let copy = timing::copy_rate(&stream, RUNS)?;
    // `cargo bench` passes its own flag.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let (files, wanted): (Vec<_>, Vec<_>) = arguments.into_iter().partition(|argument| argument.ends_with(".syn"));
    let bench = Bench { device: &device, stream, copy, wanted };
    println!(
        "{:44} {:>6} {:>6} {:>8} {:>6} {:>8} {:>6} | microseconds: {:>7} {:>7} {:>7} {:>7}",
        "field", "bits", "MiB", "us", "of C", "graph us", "of C", "parse", "hash", "rebuild", "finish"
    );
    let wave = |wavelength: f64, noise: f64| Field { wavelength, noise, flat: 0.0 };
    bench.field("hurricane, 3-D f32", &[100, 500, 500], wave(60.0, 0.3), ElementType::F32)?;
    bench.field("smooth, 3-D f32", &[1024, 512, 512], wave(60.0, 0.3), ElementType::F32)?;
    bench.field("smooth, 3-D f64", &[512, 512, 512], wave(60.0, 0.3), ElementType::F64)?;
    bench.field("rough, 1-D f32", &[1 << 28], wave(300.0, 4.0), ElementType::F32)?;
    let empty = Field { wavelength: 60.0, noise: 2.0, flat: 0.9 };
    bench.field("nearly empty, 3-D f32", &[1024, 512, 512], empty, ElementType::F32)?;
    let planes = (timing::SMALL / 4 / 65_536) as u64;
    bench.field("small, 3-D f32", &[planes, 256, 256], wave(60.0, 0.3), ElementType::F32)?;
    for (tile_size, name) in [(TileSize::Small, "token codes"), (TileSize::Large, "token codes, large tiles")] {
        let balanced = |axes, extents, field, element| {
            bench.balanced(&format!("{name}, {axes} {element}"), extents, field, element, tile_size)
        };
        balanced("1-D", &[1 << 26], wave(300.0, 4.0), ElementType::F32)?;
        balanced("2-D", &[8192, 8192], wave(60.0, 0.3), ElementType::F32)?;
        balanced("3-D", &[256, 512, 512], wave(60.0, 0.3), ElementType::F32)?;
        balanced("3-D", &[128, 512, 512], wave(60.0, 0.3), ElementType::F64)?;
    }
    for file in &files {
        bench.file(file)?;
    }
    Ok(())
}

struct Bench<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    copy: f64,
    wanted: Vec<String>,
}

impl Bench<'_> {
    fn field(&self, name: &str, extents: &[u64], field: Field, element: ElementType) -> Result<()> {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|part| name.contains(part.as_str())) {
            return Ok(());
        }
        let bytes = field.bytes(extents, element);
        let making = Making::default();
        self.time(name, &compress(&bytes, element, extents, Bound::Abs(Field::BOUND), &making))
    }

    /// Measures a stream with token codebooks, and its steps.
    fn balanced(
        &self,
        name: &str,
        extents: &[u64],
        field: Field,
        element: ElementType,
        tile_size: TileSize,
    ) -> Result<()> {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|part| name.contains(part.as_str())) {
            return Ok(());
        }
        let bytes = field.bytes(extents, element);
        let options = CoderOptions { effort: Effort::Balanced, ..CoderOptions::default() };
        let bound = Bound::Abs(Field::BOUND);
        let stream = compress_by(&bytes, element, extents, bound, &Making { tile_size, ..Making::default() }, &options);
        self.time(name, &stream)?;
        match element {
            ElementType::F32 => self.kernels::<f32>(&stream),
            _ => self.kernels::<f64>(&stream),
        }
    }

    fn kernels<T: Element + DeviceRepr + ValidAsZeroBits>(&self, bytes: &[u8]) -> Result<()> {
        let info = StreamInfo::from_bytes(bytes)?;
        let input = self.stream.clone_htod(bytes).doing("copying the stream")?;
        let mut output = self.stream.alloc_zeros::<T>(info.elements() as usize).doing("allocating")?;
        let kernels = KernelTimes::new(&self.stream);
        let device = self.device.clone().with_tracer(kernels.clone());
        let mut decompressor = Decompressor::new(&device, self.stream.clone(), &info)?;
        let (input, mut output) = (input.as_view(), output.as_view_mut());
        for (kernel, times) in kernels.measure(RUNS, || decompressor.decompress(&input, &mut output))? {
            println!("    {kernel:40} {:8.1} us", times.median() * 1e6);
        }
        Ok(())
    }

    fn file(&self, path: &str) -> Result<()> {
        let stream = std::fs::read(path).expect("a stream of Syncline");
        let (header, _) = opened(&stream);
        let mut extents = header.shape.extents().to_vec();
        self.time(&format!("{path} {extents:?}"), &stream)?;
        let once = decompress(&stream);
        let times = LARGE / once.len() as u64;
        if times > 1 {
            extents[0] *= times;
            let bytes = once.repeat(times as usize);
            let bound = Bound::Abs(header.abs_bound);
            let stream = compress(&bytes, header.element_type, &extents, bound, &Making::default());
            self.time(&format!("{path} {extents:?}"), &stream)?;
        }
        Ok(())
    }

    fn time(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match StreamInfo::from_bytes(bytes)?.header().element_type {
            ElementType::F32 => self.time_of::<f32>(name, bytes),
            _ => self.time_of::<f64>(name, bytes),
        }
    }

    fn time_of<T: Element + DeviceRepr>(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let info = StreamInfo::from_bytes(bytes)?;
        let stream = &self.stream;
        let input = stream.clone_htod(bytes).doing("copying the stream")?;
        let poison = vec![0xa5_u8; info.decompressed_len() as usize];
        let mut output = stream.clone_htod(bytemuck::cast_slice::<u8, T>(&poison)).doing("poisoning")?;
        let mut decompressor = Decompressor::new(self.device, stream.clone(), &info)?;
        let (queued, _) =
            timing::seconds(stream, RUNS, || decompressor.decompress(&input.as_view(), &mut output.as_view_mut()))?;
        decompressor.check()?;
        let got = stream.clone_dtoh(&output).doing("reading back")?;
        assert!(bytemuck::cast_slice::<T, u8>(&got) == decompress(bytes), "{name}: wrong elements");

        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.begin_capture(mode).doing("capturing")?;
        decompressor.decompress(&input.as_view(), &mut output.as_view_mut())?;
        let graph = stream.end_capture(CUgraphInstantiate_flags_enum(0)).doing("capturing")?.expect("a graph");
        let (replayed, _) = timing::seconds(stream, RUNS, || graph.launch().doing("replaying"))?;
        decompressor.check()?;

        let parts = self.parts::<T>(&info, &input.as_view(), &mut output.as_view_mut())?;
        let length = info.decompressed_len() as f64;
        let of_copy = |seconds: f64| length / seconds / self.copy;
        println!(
            "{name:44} {:6.2} {:6.0} {:8.1} {:6.2} {:8.1} {:6.2} |               {:7.1} {:7.1} {:7.1} {:7.1} | \
             workspace {:.1} MiB",
            bytes.len() as f64 * 8.0 / info.elements() as f64,
            length / f64::from(1 << 20),
            queued * 1e6,
            of_copy(queued),
            replayed * 1e6,
            of_copy(replayed),
            parts[0] * 1e6,
            parts[1] * 1e6,
            parts[2] * 1e6,
            parts[3] * 1e6,
            decompressor.workspace_bytes() as f64 / f64::from(1 << 20),
        );
        Ok(())
    }

    /// Returns the seconds of parsing (including clearing memory), of hashing, of reconstruction, and of combining
    /// statuses, for the first batch of chunks, each as a separate graph.
    fn parts<T: Element + DeviceRepr>(
        &self,
        info: &StreamInfo,
        input: &cudarc::driver::CudaView<'_, u8>,
        output: &mut cudarc::driver::CudaViewMut<'_, T>,
    ) -> Result<[f64; 4]> {
        let stream = &self.stream;
        let (header, geometry) = (info.header(), info.geometry());
        let chunks = 0..geometry.chunks().min(MAX_CHUNKS as u64);
        let lengths: Vec<u32> = chunks.clone().map(|chunk| info.record(chunk).1 as u32).collect();
        let parser = RecordParser::new(self.device, header.element_type.size())?;
        let batch = ChunkBatch::new(geometry, header.group_log2, chunks)?;
        let format = Format::new(header, geometry);
        let device_geometry = DeviceGeometry::new(geometry, header.group_log2);
        let mut arena = Arena::with_capacity(stream.clone(), 1 << 30)?;
        let records = Records { input, first: HEADER_LEN as u64, lengths: &lengths };
        let parsing = self.replayed(|| {
            let mut frame = arena.frame()?;
            parser.parse(&mut frame, records, &format, &device_geometry, &batch, false, None, None).map(drop)
        })?;

        let mut frame = arena.frame()?;
        let mut parsed = parser.parse(&mut frame, records, &format, &device_geometry, &batch, false, None, None)?;
        let hasher = Hasher::new(self.device)?;
        let mut hashes = frame.slice::<u64>(lengths.len())?;
        let mut hash_arena = Arena::with_capacity(stream.clone(), 1 << 28)?;
        let places = parser.locate(&mut frame, records)?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let pieces =
            Pieces { starts: &places.starts, lengths: &places.lengths, longest, excluded: ExcludedRange::RECORD };
        let hashing = self.replayed(|| hasher.hash(&mut hash_arena.frame()?, input, &pieces, &mut hashes))?;

        let mut rebuilding = 0.0;
        let reconstructor = Reconstructor::new(self.device, header, geometry)?;
        if reconstructor.way().decodes() && parsed.bitmaps.is_none() {
            let tiles = parsed.tiles.parsed(None);
            let length = output.len() * size_of::<T>();
            // SAFETY: the elements have `length` bytes.
            let mut bytes = unsafe { output.transmute_mut::<u8>(length) }.expect("as many bytes");
            let mut own_arena = Arena::with_capacity(stream.clone(), 1 << 28)?;
            rebuilding = self.replayed(|| {
                let work = Reconstruction {
                    input: &input.slice(..),
                    parsed: &tiles,
                    codes: Codes::Streams(&parsed.codes),
                    first_chunk: 0,
                    tiles: 0..u64::MAX,
                    output: &mut bytes.slice_mut(..),
                    first_element: 0,
                    status: &mut parsed.code_status.slice_mut(..),
                    sums: &mut parsed.code_sums.slice_mut(..),
                };
                reconstructor.launch(&mut own_arena.frame()?, work)
            })?;
        }
        let mut statuses = stream.alloc_zeros::<u32>(lengths.len()).doing("allocating")?;
        let finishing = self.replayed(|| parser.finish(stream, &mut parsed, &mut statuses.as_view_mut()))?;
        Ok([parsing, hashing, rebuilding, finishing])
    }

    /// Returns the median seconds of some work as a graph, which excludes the host's time for launches.
    fn replayed(&self, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
        let stream = &self.stream;
        work()?;
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).doing("capturing")?;
        work()?;
        let graph = stream.end_capture(CUgraphInstantiate_flags_enum(0)).doing("capturing")?.expect("a graph");
        timing::seconds(stream, RUNS, || graph.launch().doing("replaying")).map(|(median, _)| median)
    }
}
