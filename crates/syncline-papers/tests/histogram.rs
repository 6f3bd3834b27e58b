//! The histogram equals a sequential count.

#[path = "../../syncline-cuda/tests/common/mod.rs"]
mod common;

use common::{Random, Share, Spread, pick, symbols, unless_tiny};
use syncline_cuda::Device;
use syncline_cuda::huffman::Symbol;
use syncline_papers::reduce_shuffle_merge_2021::histogram::Histogram;

/// Counts sequentially; symbols outside of the alphabet are counted after the last bin.
fn reference(symbols: impl IntoIterator<Item = u32>, bins: u32) -> Vec<u64> {
    let mut counts = vec![0; bins as usize + 1];
    symbols.into_iter().for_each(|symbol| counts[symbol.min(bins) as usize] += 1);
    counts
}

/// Checks one input with several starting addresses in device memory, because the kernel reads aligned vectors.
fn check<S: Symbol + Copy + Into<u32> + Default>(device: &Device, bins: u32, input: &[S], what: &str) {
    let stream = device.context().default_stream();
    let histogram = Histogram::<S>::new(device, bins).unwrap();
    // One more symbol, which is not counted, because an empty buffer cannot be allocated.
    let buffer = stream.clone_htod(&[input, &[S::default()]].concat()).unwrap();
    for &skip in unless_tiny(&[0, 1, 3, 7, 8][..], &[0, 7]) {
        if skip > input.len() {
            continue;
        }
        // Filled with a pattern, so that missing writes are detected.
        let mut counts = stream.clone_htod(&vec![u64::MAX; histogram.counts_len() + 1]).unwrap();
        histogram.launch(&stream, &buffer.slice(skip..input.len()), &mut counts.as_view_mut()).unwrap();
        let counts = stream.clone_dtoh(&counts).unwrap();
        let expected = reference(input[skip..].iter().map(|&symbol| symbol.into()), bins);
        assert!(counts[..expected.len()] == expected, "{what}, {bins} bins, from {skip}");
        assert_eq!(counts[expected.len()], u64::MAX, "{what}: written past the counts");
    }
}

#[test]
fn sixteen_bit_symbols() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    let spreads = [Spread::Flat, Spread::One, Spread::Geometric(0.98), Spread::Geometric(0.5), Spread::Geometric(0.1)];
    let mut share = Share::one_in(3);
    for bins in [1, 2, 256, 1000, 1024, 4096, 16_384, 32_768, 65_535, 65_536] {
        for (seed, spread) in spreads.into_iter().enumerate() {
            if share.takes() {
                let input = symbols(spread, bins, pick(1_000_003, 40_003), seed as u64);
                check(device, bins, &input, &format!("{spread:?}"));
            }
        }
    }
}

#[test]
fn bytes() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    for spread in [Spread::Flat, Spread::One, Spread::Geometric(0.98), Spread::Geometric(0.3)] {
        let input = symbols(spread, 256, pick(3_000_017, 60_017), 5);
        let input: Vec<u8> = input.into_iter().map(|symbol| symbol as u8).collect();
        for bins in [256, 200, 1] {
            check(device, bins, &input, &format!("{spread:?}"));
        }
    }
}

#[test]
fn lengths_at_every_edge() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    let short = (0..70).step_by(pick(1, unless_tiny(9, 33)));
    let long = [4095, 4096, 4097, 16_384, 32_767, 32_768, 32_769, 65_537].into_iter().step_by(unless_tiny(1, 3));
    for length in short.chain(long) {
        let input = symbols(Spread::Geometric(0.4), 1024, length, length as u64);
        check(device, 1024, &input, "short");
        check(device, 65_536, &input, "short");
    }
}

#[test]
fn symbols_outside_of_the_alphabet_are_counted_apart() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    for bins in [1, 3, 1000, 40_000] {
        let input = symbols(Spread::Flat, 65_536, pick(300_000, 30_000), 11);
        check(device, bins, &input, "outside");
        check(device, bins, &vec![u16::MAX; pick(100_000, 10_000)], "all outside");
    }
}

/// Distributions that change along the input, and two symbols that share a bank.
#[test]
fn runs_and_alternations() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    let run = pick(100_000, 1000);
    let input: Vec<u16> = (0..100 * run).map(|i| [7, 40_000, 7, 32_775][i / run % 4]).collect();
    check(device, 65_536, &input, "runs");
    let mut random = Random(3);
    let input: Vec<u16> = (0..50 * run).map(|_| if random.below(2) == 0 { 100 } else { 32_868 }).collect();
    check(device, 65_536, &input, "two symbols");
    check(device, 32_869, &input, "two symbols");
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    assert!(Histogram::<u16>::new(device, 0).is_err());
    assert!(Histogram::<u16>::new(device, 65_537).is_err());
    assert!(Histogram::<u8>::new(device, 257).is_err());
    let stream = device.context().default_stream();
    let histogram = Histogram::<u16>::new(device, 16).unwrap();
    let input = stream.clone_htod(&[1_u16, 2, 3]).unwrap();
    let mut counts = stream.alloc_zeros::<u64>(16).unwrap();
    assert!(histogram.launch(&stream, &input.as_view(), &mut counts.as_view_mut()).is_err());
}
