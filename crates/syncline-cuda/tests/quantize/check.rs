//! Compares the device's results for an array with those of the core.

use std::fmt::Debug;
use std::ops::Range;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::scan::ScanResult;
use syncline_core::bound::{ArrayStats, Bound, Fill, Pipeline, Scan, resolve};
use syncline_core::container::Header;
use syncline_core::error::Result as CoreResult;
use syncline_core::geometry::{Geometry, Tile, TileSize, Window};
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{ElementSource, QuantizedChunk, quantize_chunk};
use syncline_core::quantize::Real;
use syncline_cuda::cudarc::driver::{CudaStream, CudaView, DeviceRepr};
use syncline_cuda::geometry::{ChunkBatch, Slab, element_span};
use syncline_cuda::quantize::{BoundScan, Quantizer, TileBits};
use syncline_cuda::{Arena, CudaError, Device};

use super::common::{unless_tiny, unless_tiny_one};

/// A whole array in memory.
struct Memory<'a>(&'a [u8]);

impl ElementSource for Memory<'_> {
    fn window<'s>(&'s self, geometry: &Geometry, _: &[Tile], _: &'s mut Vec<u8>) -> CoreResult<Window<'s>> {
        Ok(Window::raster(self.0, 0, geometry))
    }
}

/// The settings that a test varies in addition to the data.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub bound: Bound,
    pub fill: Fill,
    pub group_log2: u8,
    pub chunk_tiles: Option<u32>,
}

impl Setting {
    pub fn new(bound: Bound) -> Self {
        Self { bound, fill: Fill::Auto, group_log2: 7, chunk_tiles: None }
    }
}

pub fn bytes_of<T: Real>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|value| value.bits().to_le_bytes()[..size_of::<T>()].to_vec()).collect()
}

fn core_scan<T: Real>(bytes: &[u8], bound: Bound, fill: Fill) -> Scan {
    Scan::of(T::TYPE, bytes, bound, fill)
}

pub fn header_of<T: Real>(bytes: &[u8], shape: Shape, setting: Setting) -> (Header, Geometry) {
    let resolved = resolve(&core_scan::<T>(bytes, setting.bound, setting.fill), false).unwrap();
    let geometry = match setting.chunk_tiles {
        Some(tiles) => Geometry::with_chunk_tiles(shape, tiles).unwrap(),
        None => Geometry::new(shape),
    };
    let header = Header {
        element_type: T::TYPE,
        shape,
        pipeline: resolved.pipeline,
        index: IndexKind::Symbol,
        group_log2: setting.group_log2,
        lzss_codes: false,
        token_codes: false,
        tile_size: TileSize::Small,
        bound: setting.bound,
        abs_bound: resolved.abs_bound,
        step: resolved.step,
        range: resolved.range,
        patterns: resolved.patterns.iter().map(|p| p.bits).collect(),
        chunk_tiles: geometry.tiles_per_chunk(),
    };
    (header, geometry)
}

fn read<T: DeviceRepr + Clone + Default>(stream: &std::sync::Arc<CudaStream>, view: CudaView<'_, T>) -> Vec<T> {
    if view.is_empty() { Vec::new() } else { stream.clone_dtoh(&view).unwrap() }
}

#[track_caller]
fn same<T: PartialEq + Debug>(found: &[T], expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
        let end = (at + 8).min(found.len());
        panic!("{what}: entry {at} of {}: {:?}, expected {:?}", found.len(), &found[at..end], &expected[at..end]);
    }
}

/// Quantizes chunks `chunks` on the device, from a slab of only their elements, and compares all results with the
/// core's.
fn check_chunks(
    device: &Device,
    header: &Header,
    geometry: &Geometry,
    bytes: &[u8],
    chunks: Range<u64>,
    vector: bool,
    what: &str,
) {
    let stream = device.context().default_stream();
    let quantizer = Quantizer::new(device, header, geometry).unwrap();
    let quantizer = if vector { quantizer } else { quantizer.scalar_only() };
    let size = header.element_type.size();
    let batch = ChunkBatch::new(geometry, header.group_log2, chunks.clone()).unwrap();
    let span = element_span(geometry, &batch);
    let part = &bytes[span.start as usize * size..span.end as usize * size];
    let buffer = stream.clone_htod(if part.is_empty() { &[0_u8][..] } else { part }).unwrap();
    let slab = Slab { bytes: buffer.slice(..part.len()), first_element: span.start };
    // Scratch memory is filled with a pattern, so that results that were not written do not pass.
    let room = Arena::bytes_for::<u8>((2 << 20) + 40 * bytes.len());
    let mut arena = Arena::with_capacity(stream.clone(), room).unwrap();
    {
        let mut frame = arena.frame().unwrap();
        let mut all = frame.slice::<u8>(room).unwrap();
        stream.memcpy_htod(&vec![0xA5_u8; all.len()], &mut all).unwrap();
    }
    assert_eq!(arena.capacity(), room, "{what}: another piece of memory than was poisoned");
    let mut frame = arena.frame().unwrap();
    let mut out = quantizer.quantize(&mut frame, &slab, chunks.clone()).unwrap();
    let summaries = out.read_summaries(&stream).unwrap();
    quantizer.widen(&mut frame, &slab, &mut out, &summaries).unwrap();
    let lists = quantizer.gather(&mut frame, &slab, &mut out, &summaries).unwrap();
    let metas = read(&stream, out.metas.as_view());
    let bases = read(&stream, out.bases.as_view());
    let bins = read(&stream, out.bins.as_view());
    let outliers = read(&stream, out.outliers.as_view());
    let verbatim = read(&stream, out.verbatim.as_view());
    let codes = read(&stream, out.codes.as_view());
    let classes = read(&stream, out.group_classes.as_view());
    let outlier_positions = read(&stream, lists.outlier_positions.as_view());
    let residuals = read(&stream, lists.residuals.as_view());
    let verbatim_positions = read(&stream, lists.verbatim_positions.as_view());
    let verbatim_values = read(&stream, lists.verbatim_values.as_view());
    let masks = read(&stream, lists.masks.as_view());
    let signs = read(&stream, lists.signs.as_view());
    assert_eq!(summaries.len() as u64, chunks.end - chunks.start);

    for (i, chunk) in chunks.enumerate() {
        let what = format!("{what}, chunk {chunk}, vector path {vector}");
        let expected: QuantizedChunk = quantize_chunk(header, geometry, chunk, &Memory(bytes)).unwrap();
        let tiles = batch.tiles_of(i as u32);
        let tiles = tiles.start as usize..tiles.end as usize;
        let fields = |bits: u16| {
            let t = TileBits(bits);
            (t.constant(), t.predictor(), t.class(), t.mask(), t.pattern(), t.sign())
        };
        let found: Vec<_> = metas[tiles.clone()].iter().map(|&bits| fields(bits)).collect();
        let wanted: Vec<_> = expected
            .metas
            .iter()
            .map(|m| (m.constant, m.predictor, m.class, m.mask as u8, m.pattern, m.sign as u8))
            .collect();
        same(&found, &wanted, &format!("{what}: metas"));
        assert!(metas[tiles.clone()].iter().all(|&bits| bits >> 11 == 0), "{what}: bits left over");
        let wanted: Vec<i32> = expected.bases.iter().map(|&b| b as i32).collect();
        same(&bases[tiles.clone()], &wanted, &format!("{what}: bases"));
        same(&bins[tiles.clone()], &expected.bins, &format!("{what}: bins"));
        let summary = summaries[i];
        let first = batch.first_slot(i as u32) as usize;
        let groups = first..first + summary.groups as usize;
        let log2 = header.group_log2;
        assert_eq!(summary.radius, expected.radius, "{what}: radius");
        same(&codes[groups.start << log2..groups.end << log2], &expected.codes, &format!("{what}: codes"));
        if !expected.classes.is_empty() {
            same(&classes[groups], &expected.classes, &format!("{what}: classes"));
        }
        let sum = |counts: &[u16]| counts[tiles.clone()].iter().map(|&n| u32::from(n)).sum::<u32>();
        assert_eq!((sum(&outliers), sum(&verbatim)), (summary.outliers, summary.verbatim), "{what}: counts");
        let start = lists.starts[i];
        let range = |start: u32, count: u32| start as usize..(start + count) as usize;
        let entries = range(start.outliers, summary.outliers);
        same(&outlier_positions[entries.clone()], &expected.outlier_positions, &format!("{what}: outlier positions"));
        let found: Vec<u8> = residuals[entries].iter().flat_map(|r| r.to_le_bytes()).collect();
        same(&found, &expected.residuals, &format!("{what}: residuals"));
        let entries = range(start.verbatim, summary.verbatim);
        let at = entries.start * size..entries.end * size;
        same(&verbatim_positions[entries], &expected.verbatim_positions, &format!("{what}: verbatim positions"));
        same(&verbatim_values[at], &expected.verbatim_bytes, &format!("{what}: verbatim values"));
        same(&masks[range(start.masks, summary.mask_bytes)], &expected.masks, &format!("{what}: masks"));
        same(&signs[range(start.signs, summary.sign_bytes)], &expected.signs, &format!("{what}: signs"));
        assert_eq!(u128::from(summary.squared_error), expected.squared_error, "{what}: squared error");
        assert_eq!(summary.counted, expected.counted, "{what}: counted");
    }
}

pub fn check<T: Real>(device: &Device, values: &[T], extents: &[u64], setting: Setting, what: &str) {
    let bytes = bytes_of(values);
    let shape = Shape::new(extents).unwrap();
    assert_eq!(shape.len() as usize, values.len());
    let what = format!("{what}, {} {extents:?}, {setting:?}", T::TYPE);
    check_scan::<T>(device, &bytes, setting.bound, setting.fill, &what);
    let (header, geometry) = header_of::<T>(&bytes, shape, setting);
    if header.pipeline == Pipeline::Lossless {
        assert!(Quantizer::new(device, &header, &geometry).is_err(), "{what}: a lossless stream must be rejected");
        return;
    }
    let chunks = geometry.chunks();
    for vector in [true, false] {
        check_chunks(device, &header, &geometry, &bytes, 0..chunks, vector, &what);
    }
    if chunks > 1 {
        if unless_tiny(true, false) {
            check_chunks(device, &header, &geometry, &bytes, 1..chunks, true, &what);
        }
        check_chunks(device, &header, &geometry, &bytes, chunks / 2..chunks / 2 + 1, true, &what);
    }
}

pub fn check_scan<T: Real>(device: &Device, bytes: &[u8], bound: Bound, fill: Fill, what: &str) {
    let stream = device.context().default_stream();
    let mut scan = BoundScan::new(device, T::TYPE).unwrap();
    let expected = core_scan::<T>(bytes, bound, fill);
    let same = |found: &Scan, what: &str| {
        assert_eq!(found.range(), expected.range(), "{what}: range");
        assert_eq!(found.excluded(), expected.excluded(), "{what}: excluded");
        assert_eq!((found.count(), found.valid()), (expected.count(), expected.valid()), "{what}: counts");
        assert_eq!(ArrayStats::from(found), ArrayStats::from(&expected), "{what}: statistics");
    };
    // Also at an address that is not aligned for vector loads.
    for &skip in unless_tiny_one(&[0, size_of::<T>()], bytes.len() / size_of::<T>()) {
        let shifted = [&vec![0; skip], bytes, &[0]].concat();
        let buffer = stream.clone_htod(&shifted).unwrap();
        let view = buffer.slice(skip..skip + bytes.len());
        same(&scan.scan(&stream, &view, bound, fill).unwrap(), what);
        // Also scans the array in parts, as with several devices.
        let len = bytes.len() / size_of::<T>();
        let empty = Scan::new(T::TYPE, len as u64, bound, fill);
        let mut look = |empty: &Scan| {
            let mut part = |from: usize, to: usize| {
                let view = buffer.slice(skip + from * size_of::<T>()..skip + to * size_of::<T>());
                scan.scan_range(&stream, &view, from as u64, empty)
            };
            let (a, b) = (len / 3, len * 3 / 5);
            Ok::<_, CudaError>(part(0, a)?.merge(part(a, b)?).merge(part(b, len)?))
        };
        let found = look(&empty).unwrap();
        check_single::<T>(&found, bytes, what);
        same(&empty.settle_result(&found, &mut look).unwrap(), &format!("{what}, in parts"));
    }
}

/// A scan says of an extreme that it is single only where one element alone has its bits.
fn check_single<T: Real>(found: &ScanResult, bytes: &[u8], what: &str) {
    let count = |extreme: i64| bytes.chunks_exact(size_of::<T>()).filter(|word| key_of(word) == extreme).count();
    for (end, extreme) in [found.stats.lowest, found.stats.highest].into_iter().enumerate() {
        assert!(!found.single[end] || count(extreme) == 1, "{what}: extreme {end} is not single");
    }
}

/// Returns the key of an f32 or f64, given as bytes.
fn key_of(word: &[u8]) -> i64 {
    match *word {
        [a, b, c, d] => {
            let bits = i32::from_le_bytes([a, b, c, d]);
            i64::from(bits ^ (bits >> 31 & i32::MAX))
        }
        _ => {
            let bits = i64::from_le_bytes(word.try_into().unwrap());
            bits ^ (bits >> 63 & i64::MAX)
        }
    }
}

/// Checks whether a scan on the device finds that one element alone is the highest.
pub fn check_single_highest(device: &Device, values: &[f32], expected: bool, what: &str) {
    let stream = device.context().default_stream();
    let buffer = stream.clone_htod(&bytes_of(values)).unwrap();
    let mut scan = BoundScan::new(device, ElementType::F32).unwrap();
    let empty = Scan::new(ElementType::F32, values.len() as u64, Bound::Rel(1e-3), Fill::Auto);
    let found = scan.scan_range(&stream, &buffer.as_view(), 0, &empty).unwrap();
    assert_eq!(found.single[1], expected, "{what}");
}
