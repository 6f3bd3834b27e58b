//! Measures compression and decompression on the CPU by elapsed time.

use std::time::Instant;

use anyhow::Result;
use syncline::{Backend, DecompressOptions, StreamFile};

use super::{Original, Rate, Row, Set, Value, Values, compress_on_cpu, ensure_same, header_of};
use crate::check::POISON;
use crate::huffman::timed;

/// Measures a set with one bound and `threads` threads.
///
/// # Errors
/// The bound is violated, the stream depends on the number of threads, or the codec fails.
pub fn measure(set: &Set, relative: f64, threads: usize, runs: usize) -> Result<Row> {
    match &set.values {
        Values::F32(values) => measure_values(set, values, relative, threads, runs),
        Values::F64(values) => measure_values(set, values, relative, threads, runs),
    }
}

fn measure_values<T: Value>(set: &Set, values: &[T], relative: f64, threads: usize, runs: usize) -> Result<Row> {
    let mut stream = Vec::new();
    let compression = timed(runs, || {
        let start = Instant::now();
        stream = compress_on_cpu(set, values, relative, threads)?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    if threads != 1 {
        ensure_same(&stream, &compress_on_cpu(set, values, relative, 1)?, "the stream of several threads")?;
    }

    let options = DecompressOptions::default().with_backend(Backend::Cpu).with_threads(threads);
    let mut back = vec![T::zeroed(); values.len()];
    let decompression = timed(runs, || {
        let out: &mut [u8] = bytemuck::cast_slice_mut(&mut back);
        out.fill(POISON);
        let start = Instant::now();
        StreamFile::open(&stream[..])?.decompress_into(out, &options)?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    let quality = Original::new(values).check(relative, &header_of(&stream)?, &back)?;
    let bytes = set.bytes();
    Ok(Row {
        set: set.name.clone(),
        element: T::TYPE.to_string(),
        shape: set.shape_text(),
        bytes,
        device: format!("cpu, {threads} thread{}", if threads == 1 { "" } else { "s" }),
        relative,
        bound: quality.bound,
        stream_bytes: stream.len() as u64,
        ratio: bytes as f64 / stream.len() as f64,
        bits: stream.len() as f64 * 8.0 / values.len() as f64,
        psnr: quality.psnr,
        error_over_bound: quality.error_over_bound,
        compress: Rate::new(bytes, &compression, None),
        compress_known: None,
        compress_copies: None,
        decompress: Rate::new(bytes, &decompression, None),
        decompress_copies: None,
        compress_workspace: None,
        decompress_workspace: None,
        compared_with_cpu: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_go_through_and_back() {
        for name in Set::DEFAULT {
            let set = Set::generate(name, Some(1)).unwrap();
            let [one, two] = [1, 2].map(|threads| measure(&set, 1e-3, threads, 1).unwrap());
            assert_eq!(one.stream_bytes, two.stream_bytes);
            assert!(one.ratio > 2.0 && one.psnr > 60.0 && one.error_over_bound > 0.5, "{one:?}");
            assert!(one.compress.median > 0.0 && two.decompress.best >= two.decompress.slowest);
            let values = one.bytes as f64 / if one.element == "f64" { 8.0 } else { 4.0 };
            assert!((one.bits * values / 8.0 - one.stream_bytes as f64).abs() < 1.0);
        }
    }
}
