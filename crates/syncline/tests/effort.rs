//! Streams of every effort: bounds, regions, and equal bytes from all APIs.

mod common;

use common::{Real, Rng, check_bound, smooth};
use proptest::prelude::*;
use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, CudaDevices, DecompressOptions, Effort, ElementType,
    Fill, Shape, Writer, compress, decompress, decompress_region, inspect,
};

/// Returns a smooth field with a fill value in some places, and values that are too large for every step.
fn field(extents: &[u64], seed: u64) -> Vec<f64> {
    let mut rng = Rng(seed);
    let width = extents.last().copied().unwrap_or(1).max(1);
    let values = smooth(extents, seed).into_iter().enumerate();
    let value = |(i, value): (usize, f64)| {
        let (x, y) = (i as u64 % width / 11, i as u64 / width / 5);
        match rng.next() % 5000 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => 1e30,
            3 => -0.0,
            4 => 70.0,
            _ if (x * 5 + y * 3 + seed).is_multiple_of(7) => -9999.0,
            _ => value * 3.0,
        }
    };
    values.map(value).collect()
}

fn options(bound: Bound, effort: Effort) -> CompressOptions {
    CompressOptions::new(bound).with_effort(effort).with_threads(1).with_backend(Backend::Cpu)
}

fn check<T: Real>(values: &[f64], extents: &[u64], options: &CompressOptions) -> Vec<u8> {
    let values: Vec<T> = values.iter().map(|&value| T::from_f64(value)).collect();
    let (stream, _) = check_bound(&values, extents, options);
    stream
}

const EXTENTS: [&[u64]; 7] =
    [&[5000], &[1025], &[70, 90], &[33, 31], &[20, 21, 30], &[3, 9, 17, 12], &[2, 3, 4, 5, 6, 9]];

#[test]
fn every_type_shape_and_bound_holds() {
    let (mut interpolated, mut schemes) = (0, [0; 9]);
    for extents in EXTENTS {
        for bound in [Bound::Abs(2.0), Bound::Abs(1e-2), Bound::Rel(1e-6), Bound::Psnr(80.0), Bound::PwRel(1e-2)] {
            for effort in Effort::ALL {
                let values = field(extents, 3);
                let options = options(bound, effort).with_fill(Fill::Value(-9999.0));
                for stream in
                    [check::<f32>(&values, extents, &options), check::<f64>(&smooth(extents, 8), extents, &options)]
                {
                    let totals = inspect(&stream).unwrap().totals;
                    interpolated += totals.interpolated_tiles;
                    schemes.iter_mut().zip(totals.schemes).for_each(|(sum, count)| *sum += count);
                }
            }
        }
    }
    assert!(interpolated > 100 && schemes.iter().filter(|&&count| count > 0).count() > 4, "{interpolated} {schemes:?}");
}

#[test]
fn small_and_uniform_arrays_hold() {
    for length in [0usize, 1, 2, 3, 7, 255, 256, 257, 1023, 1024, 1025] {
        for value in [0.0, 7.5, f64::NAN, -9999.0] {
            check::<f32>(&vec![value; length], &[length as u64], &options(Bound::Abs(0.1), Effort::Balanced));
        }
        let counting: Vec<f64> = (0..length).map(|i| i as f64).collect();
        check::<f64>(&counting, &[length as u64], &options(Bound::Abs(0.1), Effort::Best));
    }
}

#[test]
fn discrete_values_take_few_bits() {
    let mut rng = Rng(5);
    let values: Vec<f64> = (0..90_000).map(|_| (rng.next() % 4) as f64 * 600.0).collect();
    let stream = check::<f32>(&values, &[300, 300], &options(Bound::Abs(0.5), Effort::Balanced));
    // Seven differences from the first value of a tile take less than three bits each.
    assert!(stream.len() < 300 * 300 * 3 / 8, "{}", stream.len());
}

#[test]
fn best_is_never_larger() {
    let wave = |i: usize| {
        let (z, y, x) = ((i / 9216) as f64, (i / 96 % 96) as f64, (i % 96) as f64);
        (z * 0.11).sin() * (y * 0.07).cos() * 40.0 + (x * 0.13 + z * 0.05).sin() * 25.0
    };
    let smooth: Vec<f64> = (0..96 * 96 * 96).map(wave).collect();
    for (values, extents) in [(&smooth, &[96, 96, 96][..]), (&field(&[200, 300], 9), &[200, 300])] {
        let of = |effort| check::<f32>(values, extents, &options(Bound::Rel(1e-4), effort)).len();
        let (fast, balanced, best) = (of(Effort::Fast), of(Effort::Balanced), of(Effort::Best));
        assert!(best <= fast.min(balanced), "{fast} {balanced} {best}");
    }
}

#[test]
fn every_path_writes_the_same_bytes() {
    let extents = [40u64, 50, 60];
    let values: Vec<f32> = field(&extents, 4).into_iter().map(|value| value as f32).collect();
    let view = ArrayView::new(&values, &extents).unwrap();
    let base = CompressOptions::new(Bound::Rel(1e-4)).with_effort(Effort::Balanced).with_fill(Fill::Value(-9999.0));
    let expected = compress(&view, &base.clone().with_threads(1)).unwrap();
    for threads in [2, 3] {
        assert!(compress(&view, &base.clone().with_threads(threads)).unwrap() == expected);
    }
    let absolute = CompressOptions::new(Bound::Abs(0.01)).with_effort(Effort::Balanced).with_fill(Fill::None);
    let expected = compress(&view, &absolute).unwrap();
    let mut written = Vec::new();
    let shape = Shape::new(&extents).unwrap();
    let (low, high) = inspect(&expected).unwrap().range.unwrap();
    let mut writer = Writer::with_range(&mut written, ElementType::F32, shape, &absolute, low, high).unwrap();
    for layer in values.chunks(7 * 50 * 60) {
        let bytes: Vec<u8> = layer.iter().flat_map(|value| value.to_le_bytes()).collect();
        writer.push(&bytes).unwrap();
    }
    writer.finish().unwrap();
    assert!(written == expected);
}

#[test]
fn unknown_efforts_are_refused() {
    assert!("slow".parse::<Effort>().unwrap_err().to_string().contains("fast, balanced, best"));
}

#[test]
fn lossless_efforts_have_the_bytes_of_their_coders_and_levels() {
    let mut values = field(&[100, 300], 3);
    values.extend_from_within(..);
    let view = ArrayView::new(&values, &[60_000]).unwrap();
    let lossless = CompressOptions::new(Bound::Lossless);
    let sizes = [(Effort::Fast, Coder::Numbers, 1), (Effort::Balanced, Coder::Auto, 3), (Effort::Best, Coder::Auto, 9)]
        .map(|(effort, coder, level)| {
            let stream = compress(&view, &lossless.clone().with_effort(effort)).unwrap();
            let named = Advanced::default().with_coder(coder).with_level(level);
            assert!(stream == compress(&view, &lossless.clone().with_advanced(named)).unwrap(), "{effort}");
            stream.len()
        });
    assert!(
        compress(&view, &lossless).unwrap().len() == sizes[1] && sizes[0] == sizes[1] && sizes[2] <= sizes[1],
        "{sizes:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn regions_are_those_of_the_array(
        number in 0..EXTENTS.len(), seed in any::<u64>(), picks in prop::collection::vec(any::<(u16, u16)>(), 6),
    ) {
        let extents = EXTENTS[number];
        let values: Vec<f32> = field(extents, seed).into_iter().map(|value| value as f32).collect();
        let view = ArrayView::new(&values, extents).unwrap();
        let options = options(Bound::Abs(0.01), Effort::Balanced);
        let stream = compress(&view, &options).unwrap();
        let whole = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<f32>().unwrap();
        let region: Vec<_> = extents
            .iter()
            .zip(&picks)
            .map(|(&extent, &(a, b))| {
                let (a, b) = (u64::from(a) % extent, u64::from(b) % extent);
                a.min(b)..a.max(b) + 1
            })
            .collect();
        let part = decompress_region(&stream, &region, &DecompressOptions::default()).unwrap();
        let expected = (0..whole.len()).filter(|&i| {
            let mut rest = i as u64;
            let mut inside = true;
            for (axis, &extent) in extents.iter().enumerate().rev() {
                inside &= region[axis].contains(&(rest % extent));
                rest /= extent;
            }
            inside
        });
        let expected: Vec<u32> = expected.map(|i| whole[i].to_bits()).collect();
        let found: Vec<u32> = part.to_vec::<f32>().unwrap().iter().map(|value| value.to_bits()).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_gpu_makes_the_same_streams_or_is_missing() {
    let view = ArrayView::new(&[1.0f32; 9], &[9]).unwrap();
    let options = CompressOptions::new(Bound::Abs(0.1)).with_effort(Effort::Balanced);
    let with_gpu = options.clone().with_backend(Backend::Cuda(CudaDevices::One(0)));
    if let Ok(stream) = compress(&view, &with_gpu) {
        assert!(stream == compress(&view, &options).unwrap());
    }
}
