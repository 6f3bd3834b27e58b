use anyhow::Result;
use pco::ChunkConfig;
use pco::standalone::{simple_compress, simple_decompress};

use super::{Rival, Timed};
use crate::fields::Field;

/// Pcodec, lossless, at its default level.
pub struct Pcodec;

impl Rival for Pcodec {
    fn name(&self) -> String {
        "pcodec (lossless)".into()
    }

    fn is_lossless(&self) -> bool {
        true
    }

    fn compress(&mut self, field: &Field, _bound: f64, _threads: usize) -> Result<Timed<Vec<u8>>> {
        Timed::run(|| Ok(simple_compress(&field.values, &ChunkConfig::default())?))
    }

    fn decompress(&mut self, stream: &[u8], _field: &Field, _threads: usize) -> Result<Timed<Vec<f32>>> {
        Timed::run(|| Ok(simple_decompress(stream)?))
    }
}
