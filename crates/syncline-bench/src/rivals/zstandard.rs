use anyhow::Result;

use super::{Rival, Timed};
use crate::fields::Field;

/// Zstandard applied to the bytes of the values.
pub struct Zstandard {
    /// Compression level.
    pub level: i32,
}

impl Rival for Zstandard {
    fn name(&self) -> String {
        format!("zstd -{} (lossless)", self.level)
    }

    fn is_lossless(&self) -> bool {
        true
    }

    fn compress(&mut self, field: &Field, _bound: f64, _threads: usize) -> Result<Timed<Vec<u8>>> {
        Timed::run(|| Ok(zstd::bulk::compress(bytemuck::cast_slice(&field.values), self.level)?))
    }

    fn decompress(&mut self, stream: &[u8], field: &Field, _threads: usize) -> Result<Timed<Vec<f32>>> {
        Timed::run(|| {
            let mut values = vec![0f32; field.values.len()];
            zstd::bulk::decompress_to_buffer(stream, bytemuck::cast_slice_mut::<f32, u8>(&mut values))?;
            Ok(values)
        })
    }
}
