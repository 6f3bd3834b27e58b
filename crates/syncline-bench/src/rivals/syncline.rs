use anyhow::Result;
use syncline::{ArrayView, Bound, CompressOptions, DecompressOptions, Effort};

use super::{Rival, Timed};
use crate::fields::{Field, floats};

/// Syncline with the effort fast.
pub struct Syncline;

impl Rival for Syncline {
    fn name(&self) -> String {
        "Syncline".into()
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn compress(&mut self, field: &Field, bound: f64, threads: usize) -> Result<Timed<Vec<u8>>> {
        let extents: Vec<u64> = field.extents.iter().map(|&e| e as u64).collect();
        let view = ArrayView::new(&field.values, &extents)?;
        let options = CompressOptions::new(Bound::Abs(bound)).with_effort(Effort::Fast).with_threads(threads);
        Timed::run(|| Ok(syncline::compress(&view, &options)?))
    }

    fn decompress(&mut self, stream: &[u8], _field: &Field, threads: usize) -> Result<Timed<Vec<f32>>> {
        let options = DecompressOptions::default().with_threads(threads);
        let Timed { value, seconds } = Timed::run(|| Ok(syncline::decompress(stream, &options)?))?;
        Ok(Timed { value: floats(value.bytes()), seconds })
    }
}
