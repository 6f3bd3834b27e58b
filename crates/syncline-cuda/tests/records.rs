//! The device writes the CPU's records from the CPU's quantized chunks.

mod common;

use common::streams::{Bytes, Field, Options};
use common::{Share, pick, unless_tiny};
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::container::{HEADER_LEN, Header, TileMeta};
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{QuantizedChunk, quantize_chunk};
use syncline_core::predict::codes::RADIUS;
use syncline_cuda::Device;
use syncline_cuda::container::assemble::{Assembler, BatchInput, BatchPlan, Bitmaps, Codes, RecordOutput};
use syncline_cuda::container::progress::Progress;
use syncline_cuda::container::record::{Contents, Lists};
use syncline_cuda::container::table::StreamEnd;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use syncline_cuda::device::Arena;
use syncline_cuda::geometry::{ChunkBatch, DeviceGeometry, Slab};
use syncline_cuda::quantize::{ChunkSummary, TileSums};

fn packed(meta: &TileMeta) -> u16 {
    u16::from(meta.constant)
        | u16::from(meta.predictor) << 1
        | u16::from(meta.class) << 3
        | (meta.mask as u16) << 5
        | u16::from(meta.pattern) << 7
        | (meta.sign as u16) << 9
}

/// Returns the 32-bit words of packed bases: blocks of 32 zigzag-coded differences, each with the bits of the block's
/// longest.
fn words_of_bases(bases: &[u32]) -> u32 {
    let before = std::iter::once(&0).chain(bases);
    let differences: Vec<u32> = bases
        .iter()
        .zip(before)
        .map(|(base, before)| base.wrapping_sub(*before) as i32)
        .map(|difference| (difference << 1 ^ difference >> 31) as u32)
        .collect();
    differences.chunks(32).map(|block| 32 - block.iter().fold(0, |all, one| all | one).leading_zeros()).sum()
}

/// Uploads values with one more element, because an upload may not be empty.
fn upload<T: DeviceRepr + Default + Clone>(stream: &std::sync::Arc<CudaStream>, values: &[T]) -> CudaSlice<T> {
    stream.clone_htod(&[values, &[T::default()]].concat()).unwrap()
}

/// The chunks of a batch as quantizing on the device would leave them.
#[derive(Default)]
struct Arrays {
    metas: Vec<u16>,
    bases: Vec<i32>,
    codes: Vec<u16>,
    classes: Vec<u8>,
    /// Summaries as quantizing leaves them on the device, and as the host receives them.
    summaries: Vec<ChunkSummary>,
    host_summaries: Vec<ChunkSummary>,
    sums: Vec<TileSums>,
    /// The smallest code other than 0, and the largest.
    extremes: Vec<[u16; 2]>,
    outlier_positions: Vec<u32>,
    residuals: Vec<i32>,
    verbatim_positions: Vec<u32>,
    verbatim_bytes: Vec<u8>,
    masks: Vec<u8>,
    signs: Vec<u8>,
}

impl Arrays {
    fn add(&mut self, chunk: &QuantizedChunk, end: u64, group: usize, elements: u64, element_bytes: u64) {
        let live = chunk.metas.iter().filter(|meta| !meta.constant).count() as u32;
        let masks = chunk.metas.iter().any(|meta| meta.mask as u8 != 0);
        let signs = chunk.metas.iter().any(|meta| meta.sign as u8 != 0);
        self.sums.push(TileSums::new(live, masks, signs, words_of_bases(&chunk.bases)));
        let smallest = chunk.codes.iter().filter(|&&code| code > 0).min().copied().unwrap_or(0);
        self.extremes.push([smallest, chunk.codes.iter().max().copied().unwrap_or(0)]);
        self.metas.extend(chunk.metas.iter().map(packed));
        self.bases.extend(chunk.bases.iter().map(|&base| base as i32));
        // Codes and classes past the end of a chunk's must not matter.
        let end = end as usize;
        self.codes.extend_from_slice(&chunk.codes);
        self.codes.resize(end * group, 0xFFFF);
        self.classes.extend_from_slice(&chunk.classes);
        self.classes.resize(end, 0xFF);
        self.summaries.push(ChunkSummary {
            groups: (chunk.codes.len() / group) as u32,
            outliers: chunk.outlier_positions.len() as u32,
            verbatim: chunk.verbatim_positions.len() as u32,
            mask_bytes: chunk.masks.len() as u32,
            sign_bytes: chunk.signs.len() as u32,
            radius: chunk.radius,
            ..ChunkSummary::default()
        });
        let lists =
            8 * chunk.outlier_positions.len() as u64 + (4 + element_bytes) * chunk.verbatim_positions.len() as u64;
        if lists >= elements * element_bytes {
            // A raw chunk: nothing is collected for it.
            self.host_summaries.push(ChunkSummary { radius: RADIUS, ..ChunkSummary::default() });
            return;
        }
        self.host_summaries.extend(self.summaries.last());
        self.outlier_positions.extend_from_slice(&chunk.outlier_positions);
        let residuals = chunk.residuals.as_chunks::<4>().0;
        self.residuals.extend(residuals.iter().map(|&bytes| i32::from_le_bytes(bytes)));
        self.verbatim_positions.extend_from_slice(&chunk.verbatim_positions);
        self.verbatim_bytes.extend_from_slice(&chunk.verbatim_bytes);
        self.masks.extend_from_slice(&chunk.masks);
        self.signs.extend_from_slice(&chunk.signs);
    }
}

/// Makes the stream of `field` in batches of `batch_chunks` chunks from the CPU's quantized chunks, and compares it
/// with the CPU's stream.
fn check(device: &Device, field: &Field, options: &Options, batch_chunks: u64) {
    let header = field.header(options, &field.resolve(options));
    // Several chunks even for small arrays.
    let chunk_tiles = pick(header.chunk_tiles, header.chunk_tiles.min(35));
    let header = Header { chunk_tiles, ..header };
    let geometry = Geometry::with_chunk_tiles(field.shape, header.chunk_tiles).unwrap();
    let expected = field.stream_with(&header).0;
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let elements = upload(&stream, &field.bytes);
    let mut assembler = Assembler::new(device, header.index, header.group_log2, field.element.size() as u32).unwrap();
    // Twice with the same assembler, to detect state that a batch leaves behind.
    for poison in [0xA5_u8, 0x5A] {
        let mut output = stream.clone_htod(&vec![poison; field.bytes.len() + (1 << 14)]).unwrap();
        let mut progress = Progress::new(&stream, geometry.chunks()).unwrap();
        progress.start(HEADER_LEN as u64).unwrap();
        let mut first = 0;
        while first < geometry.chunks() {
            let chunks = first..(first + batch_chunks).min(geometry.chunks());
            let batch = ChunkBatch::new(&geometry, header.group_log2, chunks.clone()).unwrap();
            let mut arrays = Arrays::default();
            for chunk in chunks {
                let quantized = quantize_chunk(&header, &geometry, chunk, &Bytes(&field.bytes)).unwrap();
                let (elements, size) = (geometry.chunk_elements(chunk), field.element.size() as u64);
                let end = batch.first_slot((chunk - batch.first_chunk()) as u32 + 1);
                arrays.add(&quantized, end, 1 << header.group_log2, elements, size);
            }
            let (mut codes, classes) = (upload(&stream, &arrays.codes), upload(&stream, &arrays.classes));
            let summaries = upload(&stream, &arrays.summaries);
            let (metas, bases) = (upload(&stream, &arrays.metas), upload(&stream, &arrays.bases));
            let (outlier_positions, residuals) =
                (upload(&stream, &arrays.outlier_positions), upload(&stream, &arrays.residuals));
            let (verbatim_positions, verbatim_bytes) =
                (upload(&stream, &arrays.verbatim_positions), upload(&stream, &arrays.verbatim_bytes));
            let (masks, signs) = (upload(&stream, &arrays.masks), upload(&stream, &arrays.signs));
            let mut frame = arena.frame().unwrap();
            let classes_view = classes.as_view();
            let mut codes = codes.as_view_mut();
            let quantized = Codes { codes: &mut codes, classes: Some(&classes_view) };
            let device_geometry = DeviceGeometry::new(&geometry, header.group_log2);
            let mut record_inputs = assembler.allocate_inputs(&mut frame, &batch, batch_chunks as u32).unwrap();
            assembler
                .upload(&stream, &mut record_inputs, &batch, &arrays.host_summaries, &arrays.sums, &arrays.extremes)
                .unwrap();
            let started = assembler.start(&mut frame, record_inputs, quantized).unwrap();
            let plan = BatchPlan::new(&batch, &arrays.host_summaries);
            let contents = Contents {
                geometry: device_geometry,
                batch,
                metas: &metas.as_view(),
                bases: &bases.as_view(),
                lists: &Lists {
                    outlier_positions: outlier_positions.as_view(),
                    outlier_residuals: residuals.as_view(),
                    verbatim_positions: verbatim_positions.as_view(),
                    verbatim_values: verbatim_bytes.as_view(),
                },
                slab: &Slab { bytes: elements.as_view(), first_element: 0 },
            };
            let bitmaps = Bitmaps { masks: Some(masks.as_view()), signs: Some(signs.as_view()) };
            let mut view = output.as_view_mut();
            let summaries = &summaries.as_view();
            let input = BatchInput { plan: &plan, summaries, bitmaps: &bitmaps, contents: &contents, tokens: None };
            let to = RecordOutput { progress: &mut progress, first, output: &mut view };
            assembler.finish(&mut frame, started, input, &mut codes, to).unwrap();
            first += batch_chunks;
        }
        let bytes = header.to_bytes();
        let mut view = output.as_view_mut();
        assembler
            .finish_stream(&stream, &mut progress, StreamEnd::Known(&bytes), geometry.chunks(), &mut view)
            .unwrap();
        let outcome = progress.outcome().unwrap();
        let what = format!("{}, {options:?}, batches of {batch_chunks}", field.name);
        assert!(outcome.fits, "{what}");
        let found = stream.clone_dtoh(&output).unwrap();
        assert_eq!(outcome.bytes, expected.len() as u64, "{what}");
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: first difference");
        assert!(found[expected.len()..].iter().all(|&byte| byte == poison), "{what}: written past the end");
    }
}

#[test]
fn records_are_the_cpus() {
    let Some(device) = common::device() else { return };
    let mut share = Share::all().if_tiny(5, 0);
    for element in [ElementType::F32, ElementType::F64] {
        let (cube, line) = pick((&[100, 100, 100], &[1_500_000]), (&[30, 30, 30], unless_tiny(&[100_000], &[20_000])));
        for extents in [&[][..], &[1], &[5000], &[33, 70], &[9, 17, 30], &[3, 9, 8, 17], cube, line] {
            if !share.takes() {
                continue;
            }
            let field = Field::smooth(element, extents, 0.01);
            check(device, &field, &Options::new(Bound::Abs(1e-3)), 2);
        }
        let field = Field::smooth(element, pick(&[120, 130, 100], unless_tiny(&[30, 33, 40], &[20, 25, 40])), 0.001);
        for group_log2 in [6, 7] {
            if share.takes() {
                check(device, &field, &Options { group_log2, ..Options::new(Bound::Rel(1e-3)) }, 3);
            }
        }
    }
}

#[test]
fn raw_wide_and_sparse() {
    let Some(device) = common::device() else { return };
    let mut share = Share::all().if_tiny(3, 0);
    for element in [ElementType::F32, ElementType::F64] {
        // Noise is raw with a tight bound, and takes the wide radius with a looser one. The last chunk is smooth.
        let (extents, smooth_from) =
            pick((&[100, 100, 170], 1_200_000), unless_tiny((&[30, 30, 50], 35_000), (&[20, 20, 50], 15_000)));
        let noisy = Field::smooth(element, extents, 1.0)
            .with("smooth end", |i| (i > smooth_from).then_some((i as f64 * 1e-4).sin()));
        for bound in [5e-7, 1e-6, 1e-5, 1e-4, 1e-3] {
            if !share.takes() {
                continue;
            }
            check(device, &noisy, &Options::new(Bound::Abs(bound)), 2);
        }
        let spikes = Field::smooth(element, &[pick(1_400_000, unless_tiny(90_000, 20_000))], 0.001)
            .with("spikes", |i| (i % 1009 == 5).then_some(1e2 * (i % 7) as f64))
            .with("infinite", |i| (i % 5003 == 1).then_some(f64::INFINITY));
        check(device, &spikes, &Options::new(Bound::Abs(1e-3)), 1);
        check(device, &spikes, &Options { group_log2: 6, ..Options::new(Bound::Abs(1e-3)) }, 3);
    }
}

#[test]
fn masks_and_signs() {
    let Some(device) = common::device() else { return };
    let scale = pick(20, 1);
    for element in [ElementType::F32, ElementType::F64] {
        let field = Field::smooth(element, pick(&[90, 110, 70], &[20, 40, 45]), 0.01)
            .with("NaN", |i| (i / 70 % 11 < 2 && i % 3 == 0).then_some(f64::NAN))
            .with("fill", |i| (i > 15_000 * scale && i < 21_000 * scale).then_some(-9999.0));
        check(device, &field, &Options::new(Bound::Rel(1e-3)), 2);
        check(device, &field, &Options::new(Bound::PwRel(1e-2)), 1);
        let given = Options { fill: Fill::Value(-9999.0), ..Options::new(Bound::PwRel(1e-3)) };
        check(device, &field, &given, 2);
    }
}
