//! Compression that never waits for the device, called directly and captured in a CUDA graph, for arrays of the same
//! shape that differ in everything else.

#![allow(unsafe_code)]

mod common;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUgraphInstantiate_flags_enum, CUstreamCaptureMode};
use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill, Pipeline};
use syncline_core::geometry::{Geometry, TileSize};
use syncline_cuda::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::pipeline::{CompressOptions, Compressor, Sizing, compress_bound};

use common::streams::{Field, Options};
use common::{Random, pick, unless_tiny};

const POISON: u8 = 0xA5;

/// Held by each test: while one captures a graph, no other may load kernels.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the GPU, a new stream, which may be captured, and what keeps other tests waiting.
fn device() -> Option<(&'static Device, Arc<CudaStream>, MutexGuard<'static, ()>)> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = common::device()?;
    // SAFETY: every test here works on one stream.
    unsafe { device.context().disable_event_tracking() };
    Some((device, device.context().new_stream().unwrap(), alone))
}

fn options_of(options: &Options) -> CompressOptions {
    let Options { bound, fill, rewritable, tile_size } = *options;
    CompressOptions { bound, fill, rewritable, interpolates: true, tile_size }
}

fn new<'d>(
    device: &'d Device,
    stream: &Arc<CudaStream>,
    field: &Field,
    options: &Options,
    batch_bytes: u64,
) -> Result<Compressor<'d>, CudaError> {
    let Field { element, ref shape, .. } = *field;
    let options = &options_of(options);
    let sizing = Sizing::WorstCase { element_type: element, shape, options };
    Compressor::with_batch_bytes(device, stream, sizing, batch_bytes)
}

/// An array on the device, an output, and a word for the size of the stream.
struct Buffers {
    stream: Arc<CudaStream>,
    input: CudaSlice<u8>,
    output: CudaSlice<u8>,
    size: CudaSlice<u64>,
}

impl Buffers {
    fn new(stream: &Arc<CudaStream>, field: &Field) -> Self {
        let room = compress_bound(field.element, field.shape) as usize;
        Self {
            stream: stream.clone(),
            input: stream.clone_htod(&field.bytes).unwrap(),
            output: stream.alloc_zeros(room).unwrap(),
            size: stream.alloc_zeros(1).unwrap(),
        }
    }

    /// Takes another array, and forgets the results.
    fn fill(&mut self, field: &Field) {
        self.stream.memcpy_htod(&field.bytes, &mut self.input).unwrap();
        self.stream.memcpy_htod(&vec![POISON; self.output.len()], &mut self.output).unwrap();
        self.stream.memcpy_htod(&[u64::MAX], &mut self.size).unwrap();
    }

    fn queue(&mut self, compressor: &mut Compressor<'_>) {
        let size = &mut self.size.as_view_mut();
        compressor.queue(&self.input.as_view(), &mut self.output.as_view_mut(), Some(size)).unwrap();
    }

    /// Checks that the output is the CPU's stream, or that it is told that this stream is lossless.
    fn check(&self, compressor: &Compressor<'_>, field: &Field, options: &Options) {
        let what = format!("{}, {options:?}", field.name);
        if field.resolve(options).pipeline == Pipeline::Lossless {
            assert!(matches!(compressor.check(), Err(CudaError::Lossless(_))), "{what}");
            assert_eq!(self.stream.clone_dtoh(&self.size).unwrap(), [0], "{what}");
            return;
        }
        let expected = field.stream(options);
        assert_eq!(
            compressor.check().unwrap_or_else(|error| panic!("{what}: {error}")),
            expected.len() as u64,
            "{what}"
        );
        assert_eq!(self.stream.clone_dtoh(&self.size).unwrap(), [expected.len() as u64], "{what}");
        let found = self.stream.clone_dtoh(&self.output).unwrap();
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: first difference of {} bytes", expected.len());
        assert!(found[expected.len()..].iter().all(|&byte| byte == POISON), "{what}: written past the end");
    }
}

/// Arrays of the same shape: smooth, with holes and fill values, with signed zeros, with lists that make chunks raw,
/// almost constant, of whole numbers, and rough.
fn fields(element: ElementType, extents: &[u64]) -> Vec<Field> {
    let smooth = Field::smooth(element, extents, 0.01);
    let holes = smooth
        .clone()
        .with("NaN", |i| (i / 7 % 11 < 2).then_some(f64::NAN))
        .with("fill", |i| (i > 3000 && i < 5000).then_some(-9999.0))
        .with("spikes", |i| (i % 1009 == 5).then_some(60.0))
        .with("infinite", |i| (i % 503 == 1).then_some(f64::INFINITY));
    let zeros = smooth.clone().with("zeros", |i| [None, Some(-0.0), None, Some(0.0)][(i / 900 % 4) as usize]);
    let raw = Field::smooth(element, extents, 1e5).with("huge", |i| (i % 5 == 0).then_some(i as f64 * 1e20));
    let constant = Field::new("almost constant", element, extents, |i| if i == 77 { 1.5 } else { 1.25 });
    let whole = smooth.clone().with("whole numbers", |i| Some((40.0 * (i as f64 * 0.01).sin()).round()));
    vec![smooth, holes, zeros, raw, constant, whole, Field::smooth(element, extents, 25.0)]
}

/// Captures the compression of one array, and launches the graph for others.
fn check_graph(device: &Device, stream: &Arc<CudaStream>, fields: &[Field], options: &Options, batch_bytes: u64) {
    let mut buffers = Buffers::new(stream, &fields[0]);
    let mut compressor = new(device, stream, &fields[0], options, batch_bytes).unwrap();
    let held = compressor.workspace_bytes();
    buffers.fill(&fields[0]);
    buffers.queue(&mut compressor);
    buffers.check(&compressor, &fields[0], options);

    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    buffers.queue(&mut compressor);
    let graph = stream.end_capture(CUgraphInstantiate_flags_enum(0)).unwrap().unwrap();
    for field in fields.iter().chain(unless_tiny(&fields[..1], &[])) {
        buffers.fill(field);
        graph.launch().unwrap();
        buffers.check(&compressor, field, options);
    }
    assert_eq!(compressor.workspace_bytes(), held, "everything was allocated by the constructor");
}

fn every_kind(element: ElementType, extents: [&[u64]; 3]) {
    let Some((device, stream, _alone)) = device() else { return };
    for (number, extents) in extents.into_iter().enumerate() {
        let fields = fields(element, extents);
        let with = |bound, fill| Options { fill, ..Options::new(bound) };
        let fill = Fill::of(&[-9999.0, 60.0]).unwrap();
        let all = [
            with(Bound::Rel(1e-3), fill),
            with(Bound::Abs(1e-3), Fill::None),
            with(Bound::PwRel(1e-2), Fill::Value(f64::NAN)),
            Options { rewritable: true, ..with(Bound::Abs(1e-2), Fill::Value(-9999.0)) },
        ];
        for (kind, options) in all.iter().enumerate() {
            // In tiny runs, each kind once, because each has kernels of its own.
            let of_tiny = kind % 3 == number && (kind % 2 == 0) == (element == ElementType::F64);
            if unless_tiny(true, of_tiny) {
                check_graph(device, &stream, &fields, options, 1 << 30);
            }
        }
    }
}

#[test]
fn graphs_compress_every_kind_of_f32() {
    let (line, plane, cube) =
        unless_tiny((&[9001][..], &[150, 90][..], &[20, 33, 30][..]), (&[6001], &[80, 70], &[16, 17, 24]));
    every_kind(ElementType::F32, [cube, plane, line]);
}

#[test]
fn graphs_compress_every_kind_of_f64() {
    let (line, plane, cube) =
        unless_tiny((&[9001][..], &[150, 90][..], &[20, 33, 30][..]), (&[6001], &[80, 70], &[16, 17, 24]));
    every_kind(ElementType::F64, [plane, line, cube]);
}

/// Blocks of floats of 32 and 16 bits, and of integers.
#[test]
fn graphs_compress_blocks() {
    let Some((device, stream, _alone)) = device() else { return };
    let extents: &[u64] = unless_tiny(&[20, 33, 30], &[16, 17, 24]);
    for element in [ElementType::F32, ElementType::F16, ElementType::I32] {
        let scale = if element.is_integer() { 1000.0 } else { 1.0 };
        let wave = |noise: f64| move |i: u64| scale * ((i as f64 * 0.05).sin() + noise * Random(i).unit());
        let smooth = Field::new("smooth", element, extents, wave(0.01));
        let holes = smooth.clone().with("fill", |i| (i / 7 % 11 < 2).then_some(-9999.0));
        let rough = Field::new("rough", element, extents, wave(25.0));
        let zeros = smooth.clone().with("zeros", |i| (i / 900 % 4 == 1).then_some(0.0));
        let options = Options { fill: Fill::Value(-9999.0), ..Options::new(Bound::Abs(0.01 * scale)) };
        let fields = [smooth, holes, rough, zeros];
        check_graph(device, &stream, &fields, &options.with_tiles(TileSize::Block), 1 << 30);
    }
}

/// Several chunks, in one batch and in several.
#[test]
fn graphs_compress_several_batches() {
    let Some((device, stream, _alone)) = device() else { return };
    let extents = [pick(9_000_000, 1_200_000)];
    let geometry = Geometry::new(Field::smooth(ElementType::F32, &extents, 0.0).shape);
    assert!(geometry.chunks() > 1, "{}", geometry.chunks());
    let half = extents[0] / 2;
    let smooth = Field::smooth(ElementType::F32, &extents, 0.01);
    let mixed = Field::smooth(ElementType::F32, &extents, 25.0).with("half", |i| (i > half).then_some(0.5));
    let options = Options { fill: Fill::None, ..Options::new(Bound::Abs(1e-3)) };
    let spikes = smooth.clone().with("spikes", |i| (i % 1009 == 5).then_some(60.0));
    let fields = [smooth, mixed, spikes];
    for batch_bytes in unless_tiny(&[1 << 30, 1][..], &[1]) {
        check_graph(device, &stream, &fields, &options, *batch_bytes);
    }
}

#[test]
fn options_that_need_the_host_are_errors() {
    let Some((device, stream, _alone)) = device() else { return };
    let smooth = Field::smooth(ElementType::F32, &[5000], 0.01);
    let mut buffers = Buffers::new(&stream, &smooth);
    let new = |bound, fill| new(device, &stream, &smooth, &Options { fill, ..Options::new(bound) }, 1 << 30);
    let unsupported = |result: Result<Compressor<'_>, CudaError>, word: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, CudaError::Unsupported(_)) && error.to_string().contains(word), "{error}");
    };
    unsupported(new(Bound::Psnr(60.0), Fill::None), "PSNR");
    unsupported(new(Bound::Abs(0.1), Fill::Auto), "fill");
    assert!(matches!(new(Bound::Lossless, Fill::None), Err(CudaError::Lossless(_))));
    assert!(matches!(new(Bound::Abs(-1.0), Fill::None), Err(CudaError::Core(_))));

    let mut relative = new(Bound::Rel(1e-3), Fill::None).unwrap();
    assert!(matches!(relative.check(), Err(CudaError::InvalidArgument(_))), "nothing was compressed");
    buffers.fill(&Field::new("constant", ElementType::F32, &[5000], |_| 3.0));
    buffers.queue(&mut relative);
    let error = relative.check().unwrap_err();
    assert_eq!(stream.clone_dtoh(&buffers.size).unwrap(), [0]);
    assert!(matches!(error, CudaError::Lossless(_)), "{error}");
    // Nothing of it is left for the next array.
    buffers.fill(&smooth);
    buffers.queue(&mut relative);
    buffers.check(&relative, &smooth, &Options { fill: Fill::None, ..Options::new(Bound::Rel(1e-3)) });

    let short = stream.alloc_zeros::<u8>(100).unwrap();
    let wrong = relative.queue(&short.as_view(), &mut buffers.output.as_view_mut(), None);
    assert!(matches!(wrong, Err(CudaError::InvalidArgument(_))));
    let mut view = buffers.output.slice_mut(..1024);
    relative.queue(&buffers.input.as_view(), &mut view, None).unwrap();
    assert!(matches!(relative.check(), Err(CudaError::NoRoom { available: 1024, .. })));
    let mut view = buffers.output.slice_mut(..100);
    let nothing = relative.queue(&buffers.input.as_view(), &mut view, None);
    assert!(matches!(nothing, Err(CudaError::NoRoom { .. })));

    // One that waits has nothing to queue with.
    let mut measured = Compressor::new(device, &stream, Sizing::Measured).unwrap();
    let queued = measured.queue(&buffers.input.as_view(), &mut buffers.output.as_view_mut(), None);
    assert!(matches!(queued, Err(CudaError::InvalidArgument(_))));
}
