//! Runs every fuzz target with a few inputs.

use proptest::prelude::*;
use syncline::{Bound, CompressOptions, DecompressOptions, Effort, compress, decompress};
use syncline_fuzz::{Rng, TARGETS, repair_checksums};

#[test]
fn targets_pass_with_generated_inputs() {
    for target in TARGETS {
        for seed in 0..200 {
            (target.run)(&(target.generate)(&mut Rng(seed)));
        }
    }
}

proptest! {
    #[test]
    fn targets_pass_with_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        TARGETS.iter().for_each(|target| (target.run)(&bytes));
    }
}

proptest! {
    #[test]
    fn damaged_token_codebooks_are_errors_or_arrays(
        seed in any::<u64>(), damage in prop::collection::vec(any::<(u32, u8)>(), 1..4),
    ) {
        let extents: &[u64] = [&[2000][..], &[50, 60], &[11, 12, 20], &[2, 9, 9, 17]][seed as usize % 4];
        let count: u64 = extents.iter().product();
        let wave = |i: u64| ((i % 60) as f32 * 0.1).sin() * 20.0 + (i.wrapping_mul(seed) >> 60) as f32;
        let values: Vec<f32> = (0..count).map(wave).collect();
        let view = syncline::ArrayView::new(&values, extents).unwrap();
        let options = CompressOptions::new(Bound::Abs(0.01)).with_effort(Effort::Balanced).with_threads(1);
        let mut stream = compress(&view, &options).unwrap();
        for (at, value) in damage {
            // Sections in front of the codewords are short: they are hit more often than by their length.
            let end = if at % 3 == 0 { stream.len() } else { stream.len().min(900) };
            let at = 144 + at as usize % (end - 144);
            stream[at] = value;
        }
        repair_checksums(&mut stream);
        if let Ok(array) = decompress(&stream, &DecompressOptions::default()) {
            prop_assert_eq!(array.bytes().len() as u64, count * 4);
        }
    }
}

#[test]
fn repaired_checksums_let_damage_through() {
    let values: Vec<f32> = (0..5000).map(|i| (i as f32 * 0.01).sin()).collect();
    let view = syncline::ArrayView::new(&values, &[5000]).unwrap();
    let stream = compress(&view, &CompressOptions::new(Bound::Abs(1e-3))).unwrap();
    let mut same = stream.clone();
    repair_checksums(&mut same);
    assert_eq!(same, stream, "undamaged streams keep their checksums");

    // The requested bound is information only: no other field depends on it.
    let mut damaged = stream.clone();
    damaged[56] ^= 1;
    assert!(decompress(&damaged, &DecompressOptions::default()).is_err());
    repair_checksums(&mut damaged);
    let array = decompress(&damaged, &DecompressOptions::default()).unwrap();
    assert_eq!(array.bytes(), decompress(&stream, &DecompressOptions::default()).unwrap().bytes());
}
