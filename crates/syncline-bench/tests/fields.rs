//! The generators give the same fields with any number of threads, and have the statistics that they are tuned to.

use clap::ValueEnum;
use syncline_bench::bytes;
use syncline_bench::codes::{RADIUS, quantization_codes};
use syncline_bench::fields::{Field, Generator};
use syncline_bench::statistics::{histogram, huffman_bits};

fn on_threads<T: Send>(threads: usize, make: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(make)
}

#[test]
fn fields_do_not_depend_on_the_thread_count() {
    for &generator in Generator::value_variants() {
        let make = || generator.generate(0.08);
        let (one, five) = (on_threads(1, make), on_threads(5, make));
        assert!(!one.values.is_empty() && one.values.iter().all(|v| v.is_finite()), "{generator:?}");
        assert!(one.range() > 0.0, "{generator:?} is constant");
        assert!(one.values.iter().zip(&five.values).all(|(a, b)| a.to_bits() == b.to_bits()), "{generator:?}");
        assert_eq!(one.extents, five.extents);
        let codes = |threads| on_threads(threads, || quantization_codes(&one, 1e-3));
        assert_eq!(codes(1), codes(5), "{generator:?}");
    }
}

#[test]
fn bytes_do_not_depend_on_the_thread_count() {
    let make =
        || [bytes::text(200_000, 1), bytes::geometric(200_000, 0.8, 2), bytes::never_synchronizing_flat(200_000)];
    assert_eq!(on_threads(1, make), on_threads(5, make));
}

#[test]
fn any_scale_gives_a_field_of_its_shape() {
    for &generator in Generator::value_variants() {
        for scale in [1e-6, 0.01, 0.033] {
            let Field { values, extents, .. } = generator.generate(scale);
            assert_eq!(values.len(), extents.iter().product::<usize>(), "{generator:?} at {scale}");
            assert!(!values.is_empty());
        }
    }
}

/// Returns the Huffman ratio of 16-bit codes and the share of zero deltas.
fn ratio_and_zeros(generator: Generator, scale: f64) -> (f64, f64) {
    let codes = quantization_codes(&generator.generate(scale), 1e-3);
    let counts = histogram(&codes);
    assert!((counts[0] as f64) < 0.01 * codes.len() as f64, "{generator:?}: too many outliers");
    (16.0 / huffman_bits(&counts), counts[RADIUS as usize] as f64 / codes.len() as f64)
}

/// Checks ratios at scales where the constants are valid, within about a tenth of those that the papers report for the
/// originals. Most fields become smoother with their size; these are the smallest scales that are close to the full
/// one.
#[test]
#[ignore = "takes long"]
fn ratios_are_near_the_papers() {
    for (generator, scale, tolerance) in [
        (Generator::Nyx, 0.3, 0.10),
        (Generator::Hurricane, 0.8, 0.15),
        (Generator::Rtm, 0.25, 0.15),
        (Generator::Hacc, 0.4, 0.12),
        (Generator::Qmcpack, 0.5, 0.10),
        (Generator::Exaalt, 0.15, 0.03),
        (Generator::Gamess, 0.5, 0.06),
    ] {
        let paper = generator.paper_ratio().unwrap();
        let (ratio, _) = ratio_and_zeros(generator, scale);
        assert!((ratio / paper - 1.0).abs() < tolerance, "{generator:?} at {scale}: {ratio:.2}, the paper has {paper}");
    }
}

/// Sparse fields have almost only zero deltas and noisy ones hardly any, which determines the speed of decoders.
#[test]
#[ignore = "takes long"]
fn zero_deltas_are_as_common_as_in_the_reference_implementation() {
    for (generator, scale, low, high) in [
        (Generator::Nyx, 0.25, 0.88, 0.98),
        (Generator::Cesm, 0.25, 0.73, 0.78),
        (Generator::Rtm, 0.25, 0.81, 0.83),
        (Generator::Hacc, 0.25, 0.027, 0.032),
        (Generator::Haccx, 0.25, 0.20, 0.215),
        (Generator::Qmcpack, 0.25, 0.003, 0.006),
    ] {
        let (_, zeros) = ratio_and_zeros(generator, scale);
        assert!((low..high).contains(&zeros), "{generator:?}: {zeros}");
    }
}
