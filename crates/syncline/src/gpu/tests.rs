//! Arrays in device memory against the CPU: equal bytes, equal elements, and errors for whatever does not fit.

#![allow(unsafe_code, reason = "device memory is passed as raw pointers")]

mod regions;

use std::ptr::null_mut;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Bound;
use syncline_cuda::cudarc::driver::sys::{CUgraphInstantiate_flags_enum, CUstreamCaptureMode};

use super::{Compressor, Decompressor, DeviceBuffer, DeviceBytes, QueuedCompressor, RawStream, memory};
use crate::{
    Advanced, ArrayView, Backend, Coder, CompressOptions, DecompressOptions, Effort, Error, Fill, IndexKind, compress,
    compress_bound, decompress,
};

/// Held by a test while it captures a graph. Loading a kernel on another thread, which the driver does on first use,
/// would fail and end the capture.
static CAPTURE: RwLock<()> = RwLock::new(());

/// Returns a compressor of the first GPU, and what keeps other tests from capturing. Without a GPU `None`, or a failure
/// if `SYNCLINE_REQUIRE_CUDA` is 1.
fn compressor() -> Option<(Compressor, RwLockReadGuard<'static, ()>)> {
    let guard = CAPTURE.read().unwrap_or_else(PoisonError::into_inner);
    new_codec().map(|compressor| (compressor, guard))
}

fn new_codec() -> Option<Compressor> {
    match Compressor::new(0) {
        Ok(compressor) => Some(compressor),
        Err(error) if std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_some_and(|value| value == "1") => {
            panic!("SYNCLINE_REQUIRE_CUDA is set: {error}")
        }
        Err(_) => None,
    }
}

/// Smooth values with some noise, none of them 0, as bytes of the element type. An array of zeros alone has no range,
/// so that its stream is lossless.
fn field(element_type: ElementType, count: u64) -> Vec<u8> {
    let value =
        |i: u64| (i as f64 * 0.02 + 0.3).sin() * 40.0 + f64::from((i as u32).wrapping_mul(2_654_435_761) >> 24) * 1e-3;
    let middle = if element_type.is_float() || element_type.is_signed_integer() { 0.0 } else { 60.0 };
    let whole = |value: f64| if element_type.is_integer() { (value + middle).round() } else { value };
    let bits = (0..count).map(|i| element_type.bits_of_number(whole(value(i))).unwrap());
    bits.flat_map(|bits| bits.to_le_bytes()[..element_type.size()].to_vec()).collect()
}

/// Returns the stream and the decompressed elements of the CPU.
fn on_cpu(bytes: &[u8], element_type: ElementType, shape: Shape, options: &CompressOptions) -> (Vec<u8>, Vec<u8>) {
    let array = ArrayView::from_bytes(bytes, element_type, shape).unwrap();
    let stream = compress(&array, &options.clone().with_backend(Backend::Cpu)).unwrap();
    let back = decompress(&stream, &DecompressOptions::new().with_backend(Backend::Cpu)).unwrap();
    let elements = back.bytes().to_vec();
    (stream, elements)
}

fn part(of: &DeviceBuffer, offset: usize, len: usize) -> DeviceBytes {
    assert!(offset + len <= of.bytes().len);
    DeviceBytes { pointer: of.bytes().pointer + offset as u64, len }
}

/// Compresses to memory of the compressor and decompresses; compares both with the CPU.
fn round_trip(compressor: &mut Compressor, element_type: ElementType, extents: &[u64], options: &CompressOptions) {
    let shape = Shape::new(extents).unwrap();
    let bytes = field(element_type, shape.len());
    let (expected, elements) = on_cpu(&bytes, element_type, shape, options);
    let input = compressor.upload(&bytes).unwrap();
    let output = compressor.allocate(bytes.len()).unwrap();
    let what = format!("{element_type} {shape} {options:?}");
    // SAFETY: both are live buffers of this device, which nothing else uses.
    unsafe {
        let (stream, summary) =
            compressor.compress_to_buffer(input.bytes(), element_type, shape, options, null_mut()).unwrap();
        assert!(stream.to_vec().unwrap() == expected, "{what}");
        assert_eq!(summary.compressed_bytes, expected.len() as u64);
        assert!(summary.execution.on_gpu());
        assert_eq!(compressor.outline(stream.bytes(), null_mut()).unwrap().header().shape, shape);
        compressor.decompress(stream.bytes(), output.bytes(), null_mut()).unwrap();
    }
    assert!(output.to_vec().unwrap() == elements, "{what}");
}

#[test]
fn streams_without_an_index_are_refused() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let shape = Shape::new(&[900]).unwrap();
    let bytes = field(ElementType::F32, shape.len());
    let (input, output) = (compressor.upload(&bytes).unwrap(), compressor.allocate(bytes.len()).unwrap());
    let without = |bound| CompressOptions::new(bound).with_advanced(Advanced::default().with_index(IndexKind::None));
    // Streams with an error bound have an index of their own.
    round_trip(&mut compressor, ElementType::F32, &[900], &without(Bound::Abs(0.5)));
    for bound in [Bound::Lossless] {
        let options = without(bound).with_effort(Effort::Fast);
        let stream = compressor.upload(&on_cpu(&bytes, ElementType::F32, shape, &options).0).unwrap();
        // SAFETY: all are live buffers of this device, which nothing else uses.
        let (made, back) = unsafe {
            (
                compressor.compress_to_buffer(input.bytes(), ElementType::F32, shape, &options, null_mut()).map(drop),
                compressor.decompress(stream.bytes(), output.bytes(), null_mut()).map(drop),
            )
        };
        for error in [made.unwrap_err(), back.unwrap_err()] {
            assert!(error.to_string().contains("without an index"), "{bound:?}: {error}");
        }
    }
}

#[test]
fn lossy_streams_are_those_of_the_cpu() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let abs = CompressOptions::new(Bound::Abs(0.5));
    for extents in [&[1][..], &[5001], &[33, 40], &[9, 20, 17]] {
        round_trip(&mut compressor, ElementType::F32, extents, &abs);
    }
    round_trip(&mut compressor, ElementType::F64, &[2, 9, 10, 11], &abs.clone().with_rewritable(true));
    round_trip(&mut compressor, ElementType::F64, &[900], &CompressOptions::new(Bound::PwRel(1e-2)));
    round_trip(&mut compressor, ElementType::F32, &[9, 20, 17], &abs.clone().with_effort(Effort::Fast));
    for extents in [&[33, 40][..], &[20, 33, 34]] {
        round_trip(&mut compressor, ElementType::F64, extents, &abs.clone().with_effort(Effort::Best));
    }
}

#[test]
fn lossless_streams_of_all_types_are_those_of_the_cpu() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let types = [
        ElementType::F16,
        ElementType::Bf16,
        ElementType::F32,
        ElementType::F64,
        ElementType::I8,
        ElementType::I16,
        ElementType::I32,
        ElementType::I64,
        ElementType::U8,
        ElementType::U16,
        ElementType::U32,
        ElementType::U64,
    ];
    for (number, element_type) in types.into_iter().enumerate() {
        let coder = [Coder::Auto, Coder::Lzss, Coder::LzssHuffman][number % 3];
        let options = CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(coder));
        round_trip(&mut compressor, element_type, &[20, 30], &options);
        if number < 2 {
            round_trip(&mut compressor, element_type, &[0], &options);
        }
    }
}

#[test]
fn streams_with_a_bound_are_those_of_the_cpu() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    // One of each size; the tests of syncline-cuda have all types with tiles and with blocks.
    for (element_type, bound, effort) in [
        (ElementType::U8, Bound::Abs(3.0), Effort::Balanced),
        (ElementType::Bf16, Bound::Rel(1e-2), Effort::Fast),
        (ElementType::U32, Bound::Abs(3.0), Effort::Fast),
        (ElementType::F64, Bound::Rel(1e-2), Effort::Balanced),
    ] {
        round_trip(&mut compressor, element_type, &[20, 30], &CompressOptions::new(bound).with_effort(effort));
    }
}

/// The first output is too short for noise, so that it grows.
#[test]
fn outputs_grow_for_arrays_that_do_not_compress() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()
    };
    let bytes: Vec<u8> = (0..30_000).flat_map(|_| noise()).collect();
    let shape = Shape::new(&[30_000]).unwrap();
    let options = CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::Lzss));
    let (expected, _) = on_cpu(&bytes, ElementType::U64, shape, &options);
    assert!(expected.len() > bytes.len() / 4 + super::compressor::SMALLEST_OUTPUT as usize);
    let input = compressor.upload(&bytes).unwrap();
    for _ in 0..2 {
        // SAFETY: a live buffer of this device, which nothing else uses.
        let made =
            unsafe { compressor.compress_to_buffer(input.bytes(), ElementType::U64, shape, &options, null_mut()) };
        assert!(made.unwrap().0.to_vec().unwrap() == expected);
    }
}

#[test]
fn misfit_arguments_are_errors_and_later_calls_work() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let (shape, of) = (Shape::new(&[3000]).unwrap(), ElementType::F32);
    let bytes = field(of, shape.len());
    let options = CompressOptions::new(Bound::Abs(0.5)).with_effort(Effort::Fast);
    let (expected, _) = on_cpu(&bytes, of, shape, &options);
    let most = compress_bound(of, shape) as usize;
    let (input, output) = (compressor.upload(&bytes).unwrap(), compressor.allocate(most + 16).unwrap());
    let (len, stream) = (bytes.len(), null_mut());
    let wrong_input = [part(&input, 0, len - 4), part(&input, 1, len - 1), part(&input, 0, 0)];
    let wrong_output = [part(&output, 0, 0), part(&output, 0, 100), part(&output, 0, expected.len() - 1)];
    let misaligned = part(&output, 8, most);
    // SAFETY: parts of live buffers of this device, which nothing else uses.
    unsafe {
        let inputs = wrong_input.map(|input| (input, part(&output, 0, most), of, &options));
        let outputs = wrong_output.map(|output| (input.bytes(), output, of, &options));
        let others = [(input.bytes(), misaligned, of, &options)];
        for (input, output, of, options) in inputs.into_iter().chain(outputs).chain(others) {
            let error = compressor.compress(input, of, shape, options, output, stream).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { .. }), "{input:?} {output:?}: {error}");
        }
        let whole = part(&output, 0, most);
        // A bound below 1 leaves integers as they are.
        let error = compressor.compress(input.bytes(), ElementType::I32, shape, &options, whole, stream).unwrap_err();
        assert!(matches!(&error, Error::Gpu { message, .. } if message.contains("lossless")), "{error}");
        let tiny = CompressOptions::new(Bound::Abs(1e-40));
        let error = compressor.compress(input.bytes(), of, shape, &tiny, part(&output, 0, most), stream).unwrap_err();
        assert!(matches!(&error, Error::Gpu { message, .. } if message.contains("lossless")), "{error}");
        // Exactly as long as the stream.
        let made = compressor.compress(input.bytes(), of, shape, &options, part(&output, 0, expected.len()), stream);
        assert_eq!(made.unwrap().compressed_bytes, expected.len() as u64);
        assert!(output.to_vec().unwrap()[..expected.len()] == expected);

        let compressed = part(&output, 0, expected.len());
        for (from, to) in [
            (compressed, part(&input, 0, len - 4)),
            (compressed, part(&input, 2, len - 4)),
            (part(&output, 1, expected.len() - 1), input.bytes()),
        ] {
            let error = compressor.decompress(from, to, stream).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { .. }), "{from:?} {to:?}: {error}");
        }
        compressor.decompress(compressed, input.bytes(), stream).unwrap();
    }
    assert!(matches!(Compressor::new(1000), Err(Error::Gpu { .. })));
}

#[test]
fn damaged_streams_are_errors() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let (shape, of) = (Shape::new(&[40, 50]).unwrap(), ElementType::F32);
    let bytes = field(of, shape.len());
    let output = compressor.allocate(bytes.len()).unwrap();
    for options in [
        CompressOptions::new(Bound::Abs(0.5)),
        CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::LzssHuffman)),
    ] {
        let (stream, elements) = on_cpu(&bytes, of, shape, &options);
        let mut damaged: Vec<Vec<u8>> = (0..stream.len())
            .step_by(stream.len() / 24)
            .map(|at| {
                let mut copy = stream.clone();
                copy[at] ^= 0x41;
                copy
            })
            .collect();
        damaged.extend([0, 1, 50, stream.len() / 2, stream.len() - 1].map(|len| stream[..len].to_vec()));
        for damaged in damaged {
            let input = compressor.upload(&damaged).unwrap();
            // SAFETY: live buffers of this device, which nothing else uses.
            let result = unsafe { compressor.decompress(input.bytes(), output.bytes(), null_mut()) };
            let error = result.unwrap_err();
            let typed = !matches!(error, Error::Cancelled | Error::Io(_));
            assert!(typed, "{error:?}");
        }
        let input = compressor.upload(&stream).unwrap();
        // SAFETY: as above.
        unsafe { compressor.decompress(input.bytes(), output.bytes(), null_mut()) }.unwrap();
        assert!(output.to_vec().unwrap() == elements);
    }
}

/// Streams of all kinds in turn; those that need less than the one before leave the workspace as it is, but for tables
/// that depend on the extents of tiles.
#[test]
fn decompression_keeps_its_workspace() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let abs = |effort| CompressOptions::new(Bound::Abs(0.5)).with_effort(effort);
    let mut held = 0;
    for (of, extents, options, smaller) in [
        (ElementType::F32, &[9, 20, 17][..], abs(Effort::Balanced), false),
        (ElementType::F32, &[9, 20, 17], CompressOptions::new(Bound::Abs(0.1)), false),
        (ElementType::F64, &[33, 40], abs(Effort::Balanced), false),
        (ElementType::F32, &[5000], abs(Effort::Fast), false),
        (ElementType::F32, &[900], abs(Effort::Fast), true),
        (ElementType::F32, &[800], abs(Effort::Balanced), true),
        (ElementType::U16, &[9, 20, 170], CompressOptions::new(Bound::Lossless), false),
        (ElementType::U16, &[900], CompressOptions::new(Bound::Lossless), true),
    ] {
        let shape = Shape::new(extents).unwrap();
        let (stream, elements) = on_cpu(&field(of, shape.len()), of, shape, &options);
        let (input, output) = (compressor.upload(&stream).unwrap(), compressor.allocate(elements.len()).unwrap());
        for _ in 0..2 {
            // SAFETY: live buffers of this device, which nothing else uses.
            unsafe { compressor.decompress(input.bytes(), output.bytes(), null_mut()) }.unwrap();
            assert!(output.to_vec().unwrap() == elements, "{of} {shape} {options:?}");
        }
        let now = compressor.former.workspace_bytes();
        assert!(now > 0 && (!smaller || now <= held), "{of} {shape}: {held:?}, then {now:?}");
        held = now;
    }
}

/// A compressor works as before when its workspace was freed, whatever it did before.
#[test]
fn a_workspace_is_freed() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let (shape, of) = (Shape::new(&[9, 20, 17]).unwrap(), ElementType::F32);
    let bytes = field(of, shape.len());
    let abs = |effort| CompressOptions::new(Bound::Abs(0.5)).with_effort(effort);
    let lossless =
        CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::LzssHuffman));
    let options = [abs(Effort::Fast), abs(Effort::Balanced), abs(Effort::Best), lossless];
    for options in options.iter().chain(&options[..1]) {
        let (expected, elements) = on_cpu(&bytes, of, shape, options);
        let (input, output) = (compressor.upload(&bytes).unwrap(), compressor.allocate(bytes.len()).unwrap());
        // SAFETY: live buffers of this device, which nothing else uses.
        unsafe {
            let (stream, _) = compressor.compress_to_buffer(input.bytes(), of, shape, options, null_mut()).unwrap();
            assert!(stream.to_vec().unwrap() == expected, "{options:?}");
            compressor.decompress(stream.bytes(), output.bytes(), null_mut()).unwrap();
        }
        assert!(output.to_vec().unwrap() == elements, "{options:?}");
        compressor.free_workspace();
    }
}

/// The outline of one stream with the bytes of another of the same length, and with others.
#[test]
fn outline_of_another_stream_is_an_error_or_the_array() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let (shape, of) = (Shape::new(&[5000]).unwrap(), ElementType::F32);
    let options = CompressOptions::new(Bound::Abs(0.5)).with_effort(Effort::Fast);
    let (stream, elements) = on_cpu(&field(of, shape.len()), of, shape, &options);
    let (input, other) = (compressor.upload(&stream).unwrap(), compressor.upload(&vec![7; stream.len()]).unwrap());
    let (short, output) = (compressor.upload(&stream[1..]).unwrap(), compressor.allocate(elements.len()).unwrap());
    // SAFETY: live buffers of this device, which nothing else uses.
    unsafe {
        let outline = compressor.outline(input.bytes(), null_mut()).unwrap();
        compressor.decompress_outlined(&outline, other.bytes(), output.bytes(), null_mut()).unwrap_err();
        let error = compressor.decompress_outlined(&outline, short.bytes(), output.bytes(), null_mut()).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        compressor.decompress_outlined(&outline, input.bytes(), output.bytes(), null_mut()).unwrap();
    }
    assert!(output.to_vec().unwrap() == elements);
}

/// The memory pool of the device keeps memory from call to call.
#[test]
fn freed_memory_is_kept() {
    let Some((_codec, _shared)) = compressor() else { return };
    let device = memory::open(0).unwrap();
    let kept = syncline_cuda::device::keep_freed_memory(device.context(), 0).unwrap();
    assert!(kept >= device.info().memory / 32 || !device.context().has_async_alloc(), "{kept}");
}

/// The input arrives by work that is queued on the stream of the caller.
#[test]
fn work_that_the_caller_queued_comes_first() {
    let Some((mut compressor, _shared)) = compressor() else { return };
    let (shape, of) = (Shape::new(&[4000]).unwrap(), ElementType::F32);
    let bytes = field(of, shape.len());
    let options = CompressOptions::new(Bound::Abs(0.5)).with_effort(Effort::Fast);
    let (expected, elements) = on_cpu(&bytes, of, shape, &options);
    let context = memory::open(0).unwrap().context();
    let (caller, first) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let handle: RawStream = caller.cu_stream().cast();
    let mut input = compressor.allocate(bytes.len()).unwrap();
    let output = compressor.allocate(bytes.len()).unwrap();
    // The copy is queued on another stream, which the stream of the caller waits for.
    first.memcpy_htod(&bytes, input.slice_mut()).unwrap();
    caller.join(&first).unwrap();
    // SAFETY: live buffers of this device; what uses them is queued before.
    unsafe {
        let (stream, _) = compressor.compress_to_buffer(input.bytes(), of, shape, &options, handle).unwrap();
        assert!(stream.to_vec().unwrap() == expected);
        compressor.decompress(stream.bytes(), output.bytes(), handle).unwrap();
    }
    assert!(output.to_vec().unwrap() == elements);
}

#[test]
fn bytes_go_to_the_host_and_back() {
    let Some((compressor, _shared)) = compressor() else { return };
    let bytes = field(ElementType::U8, 1000);
    let (input, output) = (compressor.upload(&bytes).unwrap(), compressor.allocate(1000).unwrap());
    let stream = memory::open(0).unwrap().context().new_stream().unwrap();
    // SAFETY: live buffers of this device, which nothing else uses, and a stream that lives until the end.
    unsafe {
        super::order_streams(0, stream.cu_stream().cast(), null_mut()).unwrap();
        assert!(compressor.copy_to_host(input.bytes(), stream.cu_stream().cast()).unwrap() == bytes);
        assert!(compressor.copy_to_host(part(&input, 0, 0), null_mut()).unwrap().is_empty());
        compressor.copy_from_host(&bytes[..10], part(&output, 3, 10), null_mut()).unwrap();
        compressor.copy_from_host(&[], part(&output, 3, 0), null_mut()).unwrap();
        assert!(compressor.copy_from_host(&bytes, part(&output, 3, 10), null_mut()).is_err());
    }
    assert!(output.to_vec().unwrap()[3..13] == bytes[..10]);
}

#[test]
fn graphs_capture_decompression() {
    let _alone = CAPTURE.write().unwrap_or_else(PoisonError::into_inner);
    let Some(compressor) = new_codec() else { return };
    let (shape, of) = (Shape::new(&[30, 70]).unwrap(), ElementType::F64);
    let bytes = field(of, shape.len());
    let (expected, elements) = on_cpu(&bytes, of, shape, &CompressOptions::new(Bound::Abs(0.5)));
    let stream = memory::open(0).unwrap().context().new_stream().unwrap();
    let (input, mut output) = (compressor.upload(&expected).unwrap(), compressor.allocate(bytes.len()).unwrap());
    // SAFETY: live buffers of this device, which nothing else uses, and a stream that lives until the end.
    let mut decompressor = unsafe { Decompressor::new(0, input.bytes(), stream.cu_stream().cast()) }.unwrap();
    assert_eq!(decompressor.header().shape, shape);
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    // SAFETY: as above.
    unsafe { decompressor.decompress(input.bytes(), output.bytes()) }.unwrap();
    let graph = stream.end_capture(CUgraphInstantiate_flags_enum(0)).unwrap().unwrap();
    for _ in 0..2 {
        stream.memset_zeros(output.slice_mut()).unwrap();
        graph.launch().unwrap();
        decompressor.check().unwrap();
        assert!(output.to_vec().unwrap() == elements);
    }
    // SAFETY: as above.
    let error = unsafe { decompressor.decompress(part(&input, 0, 16), output.bytes()) }.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    let lossless = CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::Lzss));
    let (lossless, _) = on_cpu(&bytes, of, shape, &lossless);
    let lossless = compressor.upload(&lossless).unwrap();
    // SAFETY: as above.
    let error = unsafe { Decompressor::new(0, lossless.bytes(), stream.cu_stream().cast()) }.unwrap_err();
    assert!(matches!(error, Error::Gpu { .. }), "{error}");
}

#[test]
fn graphs_capture_compression() {
    let _alone = CAPTURE.write().unwrap_or_else(PoisonError::into_inner);
    let Some(compressor) = new_codec() else { return };
    let (shape, of) = (Shape::new(&[30, 70]).unwrap(), ElementType::F64);
    let bytes = field(of, shape.len());
    let options = CompressOptions::new(Bound::Rel(1e-3)).with_fill(Fill::None);
    let stream = memory::open(0).unwrap().context().new_stream().unwrap();
    let handle: RawStream = stream.cu_stream().cast();
    let (mut input, size) = (compressor.upload(&bytes).unwrap(), compressor.allocate(8).unwrap());
    let output = compressor.allocate(compress_bound(of, shape) as usize).unwrap();
    // SAFETY: a stream that lives until the end.
    let new = |options: &CompressOptions| unsafe { QueuedCompressor::new(0, of, shape, options, handle) };
    let wrong = [
        options.clone().with_fill(Fill::Auto),
        options.clone().with_bound(Bound::Psnr(60.0)),
        options.clone().with_bound(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::Numbers)),
    ];
    for options in &wrong {
        let error = new(options).unwrap_err();
        assert!(matches!(error, Error::Gpu { .. }), "{options:?}: {error}");
    }
    let mut compressor = new(&options).unwrap();
    assert_eq!(compressor.array(), (of, shape));
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let refused = [new(&options).map(drop), compressor.check().map(drop)];
    // SAFETY: as above.
    unsafe { compressor.compress(input.bytes(), output.bytes(), Some(size.bytes())) }.unwrap();
    let graph = stream.end_capture(CUgraphInstantiate_flags_enum(0)).unwrap().unwrap();
    for (call, result) in refused.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Gpu { .. }) && error.to_string().contains("capture"), "{call}: {error}");
    }
    // The range is another one, so that the bound is another one.
    let tripled = |word: &[u8; 8]| (3.0 * f64::from_le_bytes(*word)).to_le_bytes();
    let other: Vec<u8> = bytes.as_chunks().0.iter().flat_map(tripled).collect();
    for array in [&bytes, &other] {
        let (expected, _) = on_cpu(array, of, shape, &options);
        stream.memcpy_htod(array, input.slice_mut()).unwrap();
        graph.launch().unwrap();
        assert_eq!(compressor.check().unwrap(), expected.len() as u64);
        assert!(output.to_vec().unwrap()[..expected.len()] == expected);
        assert!(size.to_vec().unwrap() == (expected.len() as u64).to_le_bytes());
    }
    let invalid = [
        (part(&input, 0, 16), output.bytes(), None),
        (part(&input, 4, bytes.len() - 4), output.bytes(), None),
        (input.bytes(), part(&output, 8, 16), None),
        (input.bytes(), part(&output, 0, 16), None),
        (input.bytes(), output.bytes(), Some(part(&size, 0, 4))),
        (input.bytes(), output.bytes(), Some(part(&output, 4, 8))),
    ];
    for (number, (from, to, size)) in invalid.into_iter().enumerate() {
        // SAFETY: as above.
        let error = unsafe { compressor.compress(from, to, size) }.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{number}: {error}");
    }
}

/// What waits for the GPU is refused during a capture, which goes on.
#[test]
fn capture_of_synchronization_is_an_error() {
    let _alone = CAPTURE.write().unwrap_or_else(PoisonError::into_inner);
    let Some(mut compressor) = new_codec() else { return };
    let (shape, of) = (Shape::new(&[30, 70]).unwrap(), ElementType::F32);
    let bytes = field(of, shape.len());
    let options = CompressOptions::new(Bound::Abs(0.5));
    let (expected, elements) = on_cpu(&bytes, of, shape, &options);
    let stream = memory::open(0).unwrap().context().new_stream().unwrap();
    let handle: RawStream = stream.cu_stream().cast();
    let (array, input) = (compressor.upload(&bytes).unwrap(), compressor.upload(&expected).unwrap());
    let output = compressor.allocate(bytes.len()).unwrap();
    // SAFETY: live buffers of this device, which nothing else uses, and a stream that lives until the end.
    let mut decompressor = unsafe { Decompressor::new(0, input.bytes(), handle) }.unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    // SAFETY: as above.
    let refused = unsafe {
        [
            compressor.compress_to_buffer(array.bytes(), of, shape, &options, handle).map(drop),
            compressor.compress(array.bytes(), of, shape, &options, output.bytes(), handle).map(drop),
            compressor.decompress(input.bytes(), output.bytes(), handle),
            compressor.copy_to_host(array.bytes(), handle).map(drop),
            Decompressor::new(0, input.bytes(), handle).map(drop),
            decompressor.check(),
        ]
    };
    // SAFETY: as above.
    unsafe { decompressor.decompress(input.bytes(), output.bytes()) }.unwrap();
    let graph = stream.end_capture(CUgraphInstantiate_flags_enum(0)).unwrap().unwrap();
    for (call, result) in refused.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Gpu { .. }) && error.to_string().contains("capture"), "{call}: {error}");
    }
    graph.launch().unwrap();
    decompressor.check().unwrap();
    assert!(output.to_vec().unwrap() == elements);
    // SAFETY: as above.
    let (made, _) = unsafe { compressor.compress_to_buffer(array.bytes(), of, shape, &options, handle) }.unwrap();
    assert!(made.to_vec().unwrap() == expected);
}
