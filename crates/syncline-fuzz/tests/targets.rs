//! Runs every fuzz target with a few inputs.

use proptest::prelude::*;
use syncline::{Bound, CompressOptions, DecompressOptions, compress, decompress};
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
