//! Times a codec on a field and checks the decompressed values.

use anyhow::Result;
use serde::Serialize;

use crate::fields::Field;
use crate::rivals::Rival;
use crate::statistics::max_error;

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Bound relative to the range of values.
    pub relative: f64,
    /// Number of threads.
    pub threads: usize,
    /// Number of timed runs of compression and of decompression.
    pub runs: usize,
}

/// One row of the table. Throughputs are in 10^6 bytes of uncompressed data per second.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Name of the field.
    pub field: String,
    /// Extents, slowest axis first.
    pub shape: String,
    /// Name of the codec.
    pub codec: String,
    /// Bound relative to the range of values; `None` for lossless codecs.
    pub relative: Option<f64>,
    /// Number of threads.
    pub threads: usize,
    /// Uncompressed bytes divided by compressed bytes.
    pub ratio: f64,
    /// Compression throughput of the fastest run.
    pub compress_best: f64,
    /// Compression throughput of the median run.
    pub compress_median: f64,
    /// Decompression throughput of the fastest run.
    pub decompress_best: f64,
    /// Decompression throughput of the median run.
    pub decompress_median: f64,
    /// Largest error divided by the bound: at most 1 if the codec respects the bound. For lossless codecs, divided by
    /// the range.
    pub error_over_bound: f64,
}

/// Measures compression and decompression alternately, after a warm-up run of each.
///
/// # Errors
/// The errors of the codec.
pub fn measure(rival: &mut dyn Rival, field: &Field, task: Task) -> Result<Measurement> {
    let range = field.range();
    let bound = task.relative * range;
    let stream = rival.compress(field, bound, task.threads)?.value;
    let restored = rival.decompress(&stream, field, task.threads)?.value;
    let scale = if rival.is_lossless() { range } else { bound };
    let error = max_error(&field.values, &restored);
    drop(restored);

    let (mut compress, mut decompress) = (Vec::new(), Vec::new());
    for _ in 0..task.runs.max(1) {
        compress.push(rival.compress(field, bound, task.threads)?.seconds);
        decompress.push(rival.decompress(&stream, field, task.threads)?.seconds);
    }
    let bytes = size_of_val(&field.values[..]) as f64;
    let rates = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        (bytes / 1e6 / seconds[0], bytes / 1e6 / seconds[seconds.len() / 2])
    };
    let ((compress_best, compress_median), (decompress_best, decompress_median)) = (rates(compress), rates(decompress));
    Ok(Measurement {
        field: field.name.clone(),
        shape: field.shape_text(),
        codec: rival.name(),
        relative: (!rival.is_lossless()).then_some(task.relative),
        threads: task.threads,
        ratio: bytes / stream.len() as f64,
        compress_best,
        compress_median,
        decompress_best,
        decompress_median,
        error_over_bound: if error == 0.0 { 0.0 } else { error / scale },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::Timed;

    /// A codec that stores every value but shifts it by a share of the bound.
    struct Shift(f64);

    impl Rival for Shift {
        fn name(&self) -> String {
            "shift".into()
        }

        fn compress(&mut self, field: &Field, bound: f64, _threads: usize) -> Result<Timed<Vec<u8>>> {
            let moved: Vec<f32> = field.values.iter().map(|v| v + (self.0 * bound) as f32).collect();
            Ok(Timed { value: bytemuck::cast_slice(&moved).to_vec(), seconds: 0.5 })
        }

        fn decompress(&mut self, stream: &[u8], _field: &Field, _threads: usize) -> Result<Timed<Vec<f32>>> {
            Ok(Timed { value: crate::fields::floats(stream), seconds: 0.25 })
        }
    }

    #[test]
    fn rates_ratio_and_error_are_what_the_codec_did() {
        let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let field = Field { name: "ramp".into(), values, extents: vec![10, 100], lorenzo_rank: 1 };
        for share in [0.5, 1.5] {
            let row = measure(&mut Shift(share), &field, Task { relative: 0.1, threads: 1, runs: 3 }).unwrap();
            assert_eq!((row.ratio, row.compress_best, row.decompress_median), (1.0, 0.008, 0.016));
            assert!((row.error_over_bound - share).abs() < 1e-5);
            assert_eq!(row.shape, "10x100");
        }
    }
}
