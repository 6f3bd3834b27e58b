//! The other codecs respect the bound, which the comparison of codecs requires.

use syncline_bench::fields::Generator;
use syncline_bench::measure::{Task, measure};
use syncline_bench::rivals::available;

#[test]
fn every_rival_returns_the_field_within_its_bound() {
    let field = Generator::Turbulence.generate(0.1);
    // SZ3 is included if this Python has pysz.
    let (mut rivals, missing) = available("python3");
    missing.iter().for_each(|line| eprintln!("left out: {line}"));
    assert!(rivals.len() >= if cfg!(feature = "rivals") { 3 } else { 1 });
    for rival in &mut rivals {
        let row = measure(rival.as_mut(), &field, Task { relative: 1e-3, threads: 1, runs: 1 }).unwrap();
        // Syncline guarantees the bound without a tolerance.
        let allowed = match rival.name().as_str() {
            "Syncline" => 1.0,
            _ if rival.is_lossless() => 0.0,
            _ => 1.0 + 1e-6,
        };
        assert!(row.error_over_bound <= allowed, "{}: {}", row.codec, row.error_over_bound);
        assert!(row.ratio > 1.0 && row.compress_best >= row.compress_median, "{row:?}");
    }
}

#[test]
fn a_python_that_does_not_exist_is_reported_not_fatal() {
    let (_, missing) = available("no-such-python");
    assert!(missing.iter().filter(|line| line.contains("cannot start 'no-such-python'")).count() == 2, "{missing:?}");
}
