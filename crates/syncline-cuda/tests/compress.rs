//! Streams that the device writes equal those of the CPU byte for byte.

mod common;

use common::streams::{Field, Options};
use common::{Random, Share, pick, unless_tiny};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Pipeline};
use syncline_core::container::{HEADER_LEN, RECORD_HEADER_LEN};
use syncline_core::geometry::{Geometry, TileSize};
use syncline_cuda::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::geometry::{ChunkBatch, Slab, element_range};
use syncline_cuda::pipeline::{CompressOptions, Compressor, Sizing, compress_bound};

const ELEMENTS: [ElementType; 2] = [ElementType::F32, ElementType::F64];

fn options_of(options: &Options) -> CompressOptions {
    let Options { bound, fill, rewritable, tile_size } = *options;
    CompressOptions { bound, fill, rewritable, interpolates: true, tile_size }
}

/// Compares the device's stream with the CPU's, with several batch sizes, each into memory filled with a pattern.
fn check(device: &Device, field: &Field, options: &Options) {
    let stream = device.context().default_stream();
    let what = format!("{}, {options:?}", field.name);
    let expected = field.stream(options);
    let room = compress_bound(field.element, field.shape) as usize;
    // A PSNR bound may take several attempts, of which the last need not be the longest.
    let written = if matches!(options.bound, Bound::Psnr(_)) { room } else { expected.len() };
    let upload = stream.clone_htod(&[field.bytes.as_slice(), &[0; 16]].concat()).unwrap();
    let input = upload.slice(..field.bytes.len());
    let batches = [(0xA5_u8, 512 << 20), (0x5A, pick(5 << 20, 1))];
    // A single chunk is a single batch.
    let several = Geometry::new(field.shape).chunks() > 1;
    for &(poison, batch_bytes) in if several { &batches[..] } else { unless_tiny(&batches[..], &batches[1..]) } {
        let mut compressor = Compressor::with_batch_bytes(device, &stream, Sizing::Measured, batch_bytes).unwrap();
        for _ in 0..pick(2, 1) {
            let mut output = stream.clone_htod(&vec![poison; room + 64]).unwrap();
            let mut view = output.slice_mut(..room);
            let result =
                compressor.compress(&input, field.element, field.shape, &options_of(options), &mut view).unwrap();
            assert_eq!(result.bytes, expected.len() as u64, "{what}: length");
            let found = stream.clone_dtoh(&output).unwrap();
            let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{what}: first difference of {} bytes", expected.len());
            assert!(found[written..].iter().all(|&byte| byte == poison), "{what}: written past the end");
        }
    }
}

fn every_rank(element: ElementType, mut share: Share) {
    let Some(device) = common::device() else { return };
    for extents in [
        &[1][..],
        &[2],
        &[5000],
        &[1, 70, 1, 40],
        &[33, 70],
        &[1, 3000],
        &[3000, 2],
        &[9, 17, 30],
        &[700, 3, 3],
        &[3, 9, 8, 17],
        &[40, 2, 2, 2],
        pick(&[100, 100, 100], &[30, 30, 30]),
        pick(&[64, 128, 128], &[16, 64, 64]),
        // Large enough for several chunks.
        pick(&[1_500_000], &[600_000]),
        pick(&[1111, 1301], &[111, 301]),
    ] {
        if !share.takes() || (extents == [600_000] && unless_tiny(element == ElementType::F64, true)) {
            continue;
        }
        let field = Field::smooth(element, extents, 0.01);
        check(device, &field, &Options::new(Bound::Abs(1e-3)));
    }
}

// In tiny runs, each test has a part of every rank, and of short and ragged shapes.

#[test]
fn every_rank_and_ragged_shapes_of_f32() {
    every_rank(ElementType::F32, Share::all().if_tiny(3, 1));
}

#[test]
fn every_rank_and_ragged_shapes_of_f64() {
    every_rank(ElementType::F64, Share::all().if_tiny(3, 0));
}

/// Arrays of every kind that are small enough for the sanitizers.
#[test]
fn small_arrays_of_every_kind() {
    let Some(device) = common::device() else { return };
    // In tiny runs, two or three of the seven kinds for each array.
    let (cube, plane, line) = unless_tiny(([20, 33, 30], [150, 90], [9001]), ([16, 17, 24], [80, 70], [6001]));
    for (number, (element, extents)) in
        [(ElementType::F32, &cube[..]), (ElementType::F64, &plane), (ElementType::F32, &line)].into_iter().enumerate()
    {
        let field = Field::smooth(element, extents, 0.01);
        let rough = Field::smooth(element, extents, 1.0);
        let whole = rough.clone().with("tenths", |i| Some((100.0 * (i as f64 * 0.01).sin()).round() / 10.0));
        let holes = field
            .clone()
            .with("NaN", |i| (i / 7 % 11 < 2).then_some(f64::NAN))
            .with("fill", |i| (i > 3000 && i < 5000).then_some(-9999.0))
            .with("spikes", |i| (i % 1009 == 5).then_some(60.0))
            .with("infinite", |i| (i % 503 == 1).then_some(f64::INFINITY));
        let mut share = Share::all().if_tiny(3, number);
        for (field, options) in [
            (&field, Options::new(Bound::Rel(1e-3))),
            (&field, Options::new(Bound::Psnr(70.0))),
            (&whole, Options::new(Bound::Abs(1e-2))),
            (&rough, Options::new(Bound::Abs(1e-6))),
            (&holes, Options::new(Bound::Abs(1e-3))),
            (&rough, Options::new(Bound::Abs(1e-4))),
            (&holes, Options::new(Bound::PwRel(1e-2))),
        ] {
            if share.takes() {
                check(device, field, &options);
            }
        }
    }
}

/// Values next to fill values, and steps that depend on the bound alone.
#[test]
fn fill_values_within_the_range_and_rewritable_streams() {
    let Some(device) = common::device() else { return };
    let extents = unless_tiny([[40, 33, 30], [1, 150, 90], [1, 1, 9001]], [[9, 17, 24], [1, 40, 70], [1, 1, 2001]]);
    for (number, (element, extents)) in
        [ElementType::F32, ElementType::F64, ElementType::F32].into_iter().zip(extents).enumerate()
    {
        let field = Field::smooth(element, &extents, 0.01);
        // In tiny runs, two of the five kinds for each array.
        let mut share = Share::all().if_tiny(3, number);
        let filled = field.clone().with("fill", |i| match i % 53 {
            3 => Some(0.5),
            4 => Some(-0.0),
            5..9 => Some(0.0),
            _ => None,
        });
        let fill = Fill::of(&[0.5, 0.0]).unwrap();
        let rewritable = Options { rewritable: true, ..Options::new(Bound::Abs(1e-3)) };
        let given = Options { fill, ..Options::new(Bound::Abs(1e-2)) };
        for (field, options) in [
            (&filled, rewritable),
            (&filled, given),
            (&filled, Options { bound: Bound::PwRel(1e-3), fill, ..rewritable }),
            (&filled, Options { bound: Bound::Rel(1e-4), ..rewritable }),
            (&field, given),
        ] {
            if share.takes() {
                check(device, field, &options);
            }
        }
    }
}

/// Chunks of sizes at which samples become coarser, with codes that occur only in tiles that are not counted.
#[test]
fn chunks_with_rare_codes_are_counted_in_samples() {
    let Some(device) = common::device() else { return };
    let all = [(ElementType::F32, 511), (ElementType::F32, 512), (ElementType::F64, 1024), (ElementType::F32, 2048)];
    for &(element, tiles) in &all[..pick(all.len(), 2)] {
        // One tile in several, and not always the same one.
        let rare = |i: u64| (i / 1024).wrapping_mul(2_654_435_769) % 97 == 5;
        let smooth = Field::smooth(element, &[tiles * 1024], 0.01);
        let spikes = smooth.clone().with("rare codes", |i| (i % 50_021 == 77 && rare(i)).then_some(0.3));
        let large = smooth.clone().with("rare large codes", |i| (i % 307 == 7 && rare(i)).then_some(60.0));
        let masked = smooth.clone().with("rare NaN", |i| (i % 30 == 7 && rare(i)).then_some(f64::NAN));
        let hidden = smooth.clone().with("hardly anything", |i| Some(2.5 + f64::from(rare(i) && i % 128 == 9)));
        for field in [&smooth, &spikes, &large, &masked, &hidden] {
            check(device, field, &Options::new(Bound::Abs(1e-3)));
        }
    }
}

/// One compressor takes arrays of the same shape that differ in everything else.
fn one_after_another(element: ElementType, extents: &[u64], mut share: Share) {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let smooth = Field::smooth(element, extents, 0.01);
    let below = smooth.clone().with("below zero", |i| Some(-1e3 + (i as f64 * 1e-2).sin()));
    let large = smooth.clone().with("large", |i| Some(3e30 + 1e27 * (i as f64 * 1e-2).cos()));
    let minus = smooth.clone().with("some -0.0", |i| (i % 2003 == 7).then_some(-0.0));
    let many = smooth.clone().with("many -0.0", |i| (i % 11 == 7).then_some(-0.0));
    let holes = smooth.clone().with("NaN", |i| (i / 7 % 11 < 2).then_some(f64::NAN));
    let both = minus.clone().with("NaN in one place", |i| (i > 3000 && i < 5000).then_some(f64::NAN));
    let fill = smooth.clone().with("fill", |i| (i > 3000 && i < 5000).then_some(-9999.0));
    let infinite = smooth.clone().with("infinite", |i| (i % 503 == 1).then_some(f64::INFINITY));
    let constant = smooth.clone().with("constant", |_| Some(2.5));
    let whole = smooth.clone().with("quarters", |i| Some((100.0 * (i as f64 * 0.01).sin()).round() / 4.0));
    let shape = smooth.shape;
    let room = compress_bound(element, shape) as usize;
    for (first, bound) in [Bound::Rel(1e-3), Bound::Abs(1e-3), Bound::Rel(1e-6)].into_iter().enumerate() {
        if !share.takes() {
            continue;
        }
        let mut compressor = Compressor::new(device, &stream, Sizing::Measured).unwrap();
        let fields = [&smooth, &below, &holes, &smooth, &minus, &large, &many, &smooth, &fill, &smooth, &infinite];
        let fields = fields.into_iter().chain([&constant, &smooth, &whole, &both, &smooth]);
        for (number, field) in fields.enumerate().skip(unless_tiny(0, first)).step_by(unless_tiny(1, 3)) {
            let what = format!("{number}: {}, {bound:?}", field.name);
            let options = Options::new(bound);
            let input = stream.clone_htod(&field.bytes).unwrap();
            let mut output = stream.clone_htod(&vec![0x5A_u8; room]).unwrap();
            let made =
                compressor.compress(&input.as_view(), element, shape, &options_of(&options), &mut output.as_view_mut());
            let made = match made {
                Err(CudaError::Lossless(_)) => continue,
                made => made.unwrap(),
            };
            let expected = field.stream(&options);
            let found = stream.clone_dtoh(&output).unwrap();
            assert!(found[..made.bytes as usize] == expected, "{what}");
        }
    }
}

// In tiny runs, each test has its own bound and every third of the fields.

#[test]
fn cubes_one_after_another() {
    one_after_another(ElementType::F32, &unless_tiny([20, 33, 30], [16, 17, 24]), Share::all().if_tiny(3, 0));
}

#[test]
fn planes_one_after_another() {
    one_after_another(ElementType::F64, &unless_tiny([90, 151], [60, 91]), Share::all().if_tiny(3, 1));
}

#[test]
fn lines_one_after_another() {
    one_after_another(ElementType::F32, &unless_tiny([9001], [6001]), Share::all().if_tiny(3, 2));
}

#[test]
fn every_bound() {
    let Some(device) = common::device() else { return };
    let mut share = Share::one_in(5);
    for element in ELEMENTS {
        let field = Field::smooth(element, pick(&[70, 110, 100], &[20, 33, 30]), 0.001);
        for bound in [
            Bound::Abs(1e-2),
            Bound::Rel(1e-2),
            Bound::Rel(1e-5),
            Bound::Psnr(60.0),
            Bound::Psnr(100.0),
            Bound::PwRel(1e-2),
            Bound::PwRel(1e-4),
        ] {
            if share.takes() {
                check(device, &field, &Options::new(bound));
            }
        }
    }
}

#[test]
fn raw_chunks_and_lists() {
    let Some(device) = common::device() else { return };
    let mut share = Share::all().if_tiny(5, 0);
    for element in ELEMENTS {
        let (extents, smooth_from) =
            pick((&[100, 100, 170], 1_200_000), unless_tiny((&[30, 30, 50], 35_000), (&[20, 20, 30], 9_000)));
        let noisy = Field::smooth(element, extents, 1.0)
            .with("smooth end", |i| (i > smooth_from).then_some((i as f64 * 1e-4).sin()));
        let spikes = Field::smooth(element, &[pick(1_400_000, unless_tiny(40_000, 11_000))], 0.001)
            .with("spikes", |i| (i % 1009 == 5).then_some(1e2 * (i % 7) as f64))
            .with("infinite", |i| (i % 5003 == 1).then_some(f64::INFINITY));
        let plain = |bound| Options::new(Bound::Abs(bound));
        let infinite = noisy.clone().with("infinite", |i| (i < smooth_from && i % 8 > 0).then_some(f64::INFINITY));
        for (field, options) in [
            (&infinite, Options { fill: Fill::None, ..plain(1e-3) }),
            (&noisy, plain(5e-7)),
            (&noisy, plain(1e-6)),
            (&noisy, plain(1e-5)),
            (&noisy, plain(1e-4)),
            (&spikes, plain(1e-3)),
        ] {
            if share.takes() {
                check(device, field, &options);
            }
        }
    }
}

#[test]
fn masks_and_signs() {
    let Some(device) = common::device() else { return };
    let mut share = Share::all().if_tiny(6, 0);
    for element in ELEMENTS {
        let fill = pick(300_000..420_000, unless_tiny(15_000..21_000, 4500..6300));
        let small = unless_tiny([&[20, 30, 55][..], &[150, 220], &[33_003]], [&[16, 20, 30], &[90, 110], &[9903]]);
        let shapes = pick([&[90, 110, 70][..], &[700, 1000], &[700_003]], small);
        for extents in shapes {
            let field = Field::smooth(element, extents, 0.01)
                .with("NaN", |i| (i / 70 % 11 < 2 && i % 3 == 0).then_some(f64::NAN))
                .with("fill", |i| fill.contains(&i).then_some(-9999.0));
            let given = Options { fill: Fill::Value(-9999.0), ..Options::new(Bound::PwRel(1e-3)) };
            let unfilled = Options { fill: Fill::None, ..Options::new(Bound::Psnr(80.0)) };
            for options in [Options::new(Bound::Rel(1e-3)), Options::new(Bound::PwRel(1e-2)), given, unfilled] {
                if share.takes() {
                    check(device, &field, &options);
                }
            }
        }
        let zeros = Field::smooth(element, pick(&[50, 60, 70], &[10, 20, 30]), 0.01)
            .with("zeros", |i| (i % 7 == 0).then_some(0.0))
            .with("minus zeros", |i| (i % 11 == 0).then_some(-0.0));
        for bound in [Bound::Abs(1e-3), Bound::PwRel(1e-3), Bound::Psnr(70.0)] {
            if share.takes() {
                check(device, &zeros, &Options::new(bound));
            }
        }
    }
}

#[test]
fn any_bits() {
    let Some(device) = common::device() else { return };
    for element in ELEMENTS {
        for extents in pick([&[40, 50, 60][..], &[300_000]], [&[14, 15, 16], &[10_000]]) {
            let mut field = Field::smooth(element, extents, 0.0);
            let mut random = Random(9);
            let size = element.size();
            for i in 0..field.shape.len() as usize {
                if random.below(50) == 0 {
                    let bits = random.next().to_le_bytes();
                    field.bytes[i * size..][..size].copy_from_slice(&bits[..size]);
                }
            }
            field.name = format!("any bits {element} {}", field.shape);
            check(device, &field, &Options::new(Bound::PwRel(1e-3)));
        }
    }
}

#[test]
fn empty_arrays_are_lossless() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut compressor = Compressor::new(device, &stream, Sizing::Measured).unwrap();
    let input = stream.alloc_zeros::<u8>(16).unwrap();
    let mut output = stream.alloc_zeros::<u8>(4096).unwrap();
    let lossless = |bound,
                    extents: &[u64],
                    compressor: &mut Compressor<'_>,
                    output: &mut syncline_cuda::cudarc::driver::CudaSlice<u8>| {
        let shape = Shape::new(extents).unwrap();
        let bytes = shape.len() as usize * 4;
        let options = CompressOptions::new(bound);
        let mut view = output.as_view_mut();
        compressor.compress(&input.slice(..bytes), ElementType::F32, shape, &options, &mut view).unwrap_err()
    };
    // A range of 0, and an array without elements, have no step relative to the range.
    for (bound, extents) in [(Bound::Rel(1e-3), &[0][..]), (Bound::Rel(1e-3), &[4]), (Bound::Lossless, &[4])] {
        let error = lossless(bound, extents, &mut compressor, &mut output);
        assert!(matches!(error, CudaError::Lossless(_)), "{error}");
    }
    // An absolute bound defines the step: such streams are quantized, and empty.
    for extents in [&[0][..], &[7, 0, 3]] {
        check(device, &Field::smooth(ElementType::F32, extents, 0.0), &Options::new(Bound::Abs(1e-3)));
    }
    check(device, &Field::smooth(ElementType::F64, &[], 0.0), &Options::new(Bound::Abs(1e-3)));
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut compressor = Compressor::new(device, &stream, Sizing::Measured).unwrap();
    let field = Field::smooth(ElementType::F32, &[100, 100], 0.1);
    let options = CompressOptions::new(Bound::Abs(1e-2));
    let input = stream.clone_htod(&field.bytes).unwrap();
    let mut output = stream.alloc_zeros::<u8>(1 << 16).unwrap();
    let mut compress =
        |bytes: std::ops::Range<usize>, element, options: &CompressOptions, room: std::ops::Range<usize>| {
            let mut view = output.slice_mut(room);
            compressor.compress(&input.slice(bytes), element, field.shape, options, &mut view).map(|done| done.bytes)
        };
    let length = compress(0..40_000, ElementType::F32, &options, 0..1 << 16).unwrap();
    assert!(compress(0..39_999, ElementType::F32, &options, 0..1 << 16).is_err());
    assert!(compress(0..40_000, ElementType::I32, &options, 0..1 << 16).is_err());
    assert!(compress(0..40_000, ElementType::F32, &options, 8..1 << 16).is_err());
    assert!(compress(0..40_000, ElementType::F32, &CompressOptions::new(Bound::Abs(-1.0)), 0..1 << 16).is_err());
    assert_eq!(compress(0..40_000, ElementType::F32, &options, 0..length as usize).unwrap(), length);
    for room in [0, 100, 144, 160, 1000, length as usize - 1] {
        let error = compress(0..40_000, ElementType::F32, &options, 0..room).unwrap_err();
        assert!(matches!(error, CudaError::NoRoom { needed, .. } if needed >= length), "{room}: {error}");
    }
}

#[test]
fn ranges_of_chunks_give_the_same_records() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let field = Field::smooth(ElementType::F32, &[100, 101, 170], 0.001);
    let options = Options::new(Bound::Abs(1e-3));
    let header = field.header(&options, &field.resolve(&options));
    let geometry = Geometry::new(field.shape);
    let expected = field.stream(&options);
    let mut compressor = Compressor::new(device, &stream, Sizing::Measured).unwrap();
    let mut at = HEADER_LEN;
    for chunks in [0..1, 1..3, 3..3, 3..geometry.chunks()] {
        let batch = ChunkBatch::new(&geometry, chunks.clone()).unwrap();
        let range = element_range(&geometry, &batch);
        let bytes = &field.bytes[range.start as usize * 4..range.end as usize * 4];
        let slab = stream.clone_htod(&[bytes, &[0]].concat()).unwrap();
        let slab = Slab { bytes: slab.slice(..bytes.len()), first_element: range.start };
        let mut output = stream.alloc_zeros::<u8>(bytes.len() + 4096).unwrap();
        let records = compressor
            .compress_chunks(&header, &geometry, (chunks.clone(), true), &slab, &mut output.as_view_mut())
            .unwrap();
        assert_eq!(records.lengths.len() as u64, chunks.end - chunks.start);
        let length: u32 = records.lengths.iter().sum();
        let found = stream.clone_dtoh(&output).unwrap();
        assert!(found[..length as usize] == expected[at..at + length as usize], "chunks {chunks:?}");
        at += length as usize;
    }
}

/// Tiles without valid elements repeat the base of the tile before, and interpolation in others depends on none of
/// them.
#[test]
fn tiles_without_valid_elements() {
    let Some(device) = common::device() else { return };
    let extents = unless_tiny(&[40_u64, 64, 64][..], &[24, 16, 20]);
    for element in ELEMENTS {
        let rows = extents[1] * extents[2];
        let masked = |i: u64| (i / rows / 8 % 2 == 1 || i % extents[2] < 8).then_some(-9999.0);
        let field = Field::smooth(element, extents, 1e-4).with("whole tiles", masked);
        let both = field.clone().with("infinite", |i| (i / rows < 8).then_some(f64::INFINITY));
        let with_fill = |bound| Options { fill: Fill::Value(-9999.0), ..Options::new(bound) };
        for field in [&field, &both] {
            check(device, field, &with_fill(Bound::Abs(1e-3)));
            check(device, field, &with_fill(Bound::PwRel(1e-3)));
        }
    }
}

/// Streams of blocks: of every rank, with and without slices, masks, and a grid.
fn blocks(element: ElementType, mut share: Share) {
    let Some(device) = common::device() else { return };
    for extents in [
        &[1][..],
        &[2],
        &[5000],
        &[33, 70],
        &[3000, 2],
        &[9, 17, 30],
        &[700, 3, 3],
        &[3, 9, 8, 17],
        &[2, 2, 2, 40],
        pick(&[150, 130, 140], &[40, 36, 20]),
        pick(&[1111, 1301], &[111, 301]),
    ] {
        let field = Field::smooth(element, extents, 0.01);
        let rough = Field::smooth(element, extents, 1.0);
        let tenths = rough.clone().with("tenths", |i| Some((100.0 * (i as f64 * 0.01).sin()).round() / 10.0));
        let area: u64 = extents[1..].iter().product();
        let slices = rough.clone().with("slices", |i| Some(Random(i % area.max(1)).unit() * 9.0 + (i / area) as f64));
        let holes = field
            .clone()
            .with("NaN", |i| (i / 7 % 11 < 2).then_some(f64::NAN))
            .with("fill", |i| (i > 300 && i < 500).then_some(-9999.0))
            .with("zeros", |i| (i / 50 % 3 == 1 && i % 5 > 0).then_some(0.0))
            .with("spikes", |i| (i % 1009 == 5).then_some(60.0))
            .with("infinite", |i| (i % 503 == 1).then_some(f64::INFINITY));
        for (field, options) in [
            (&field, Options::new(Bound::Rel(1e-3))),
            (&field, Options::new(Bound::Abs(0.3))),
            (&slices, Options::new(Bound::Abs(0.01))),
            (&tenths, Options::new(Bound::Abs(1e-2))),
            (&holes, Options::new(Bound::Abs(1e-3))),
            (&rough, Options::new(Bound::Abs(1e-6))),
            (&field, Options { rewritable: true, ..Options::new(Bound::Abs(1e-3)) }),
            (&field, Options::new(Bound::Psnr(70.0))),
        ] {
            let options = options.with_tiles(TileSize::Block);
            if share.takes() && field.resolve(&options).pipeline == Pipeline::Quantized {
                check(device, field, &options);
            }
        }
    }
}

#[test]
fn blocks_of_f32() {
    blocks(ElementType::F32, Share::all().if_tiny(3, 0));
}

#[test]
fn blocks_of_f64() {
    blocks(ElementType::F64, Share::all().if_tiny(3, 1));
}

/// Returns the scheme of the blocks of the first chunk, their division, and the lanes of the first two of them as
/// exponents of 2.
fn plan_and_lanes(stream: &[u8]) -> [u8; 4] {
    let record = &stream[HEADER_LEN..];
    let length = |number: usize| {
        let at = RECORD_HEADER_LEN + 4 * number;
        u32::from_le_bytes(record[at..at + 4].try_into().unwrap()) as usize
    };
    // Behind the lengths of ten sections. Lanes are at the start of section 3.
    let plan = (RECORD_HEADER_LEN + 40).next_multiple_of(16);
    let sizes = (0..3).fold(plan, |at, number| (at + length(number)).next_multiple_of(16));
    [record[plan], record[plan + 3], record[sizes] & 15, record[sizes] >> 4]
}

/// A dense block has several units, and boxes if it takes many bytes; a small one behind it has fewer. One half of them
/// is quiet but for some elements.
#[test]
fn blocks_with_several_units_and_boxes() {
    let Some(device) = common::device() else { return };
    for (noise, plan) in [(0.1, [0, 8, 4]), (0.5, [1, 7, 4])] {
        let quiet_half = |i: u64| (i % 64 < 32).then_some(if i % 97 == 5 { 1.5 } else { 1.0 });
        let field = Field::smooth(ElementType::F32, &[72, 64, 64], noise).with("quiet half", quiet_half);
        let options = Options::new(Bound::Abs(0.01)).with_tiles(TileSize::Block);
        assert_eq!(plan_and_lanes(&field.stream(&options))[1..], plan);
        check(device, &field, &options);
    }
}

/// Zeros between small values need no masks where predictions are on a grid.
#[test]
fn blocks_with_zeros_between_small_values_are_on_a_grid() {
    let Some(device) = common::device() else { return };
    for element in [ElementType::F32, ElementType::F64] {
        let rain = |i: u64| match Random(i).below(500) {
            0 => Some(2.0),
            1..100 => Some(0.05 * Random(i + 1).unit()),
            _ => Some(0.0),
        };
        for extents in [&[40, 36, 30][..], &[200, 210], &[50_000]] {
            let field = Field::smooth(element, extents, 0.01).with("rain", rain);
            let options = Options::new(Bound::Abs(0.1)).with_tiles(TileSize::Block);
            assert_eq!(plan_and_lanes(&field.stream(&options))[0] & 2, 2, "{}", field.name);
            check(device, &field, &options);
        }
    }
}
