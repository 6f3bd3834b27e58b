//! Arrays of the element types that streams of codes support, and decompression of such streams on the device.

// Each test binary uses some of these items.
#![allow(dead_code)]

use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr};
use syncline_core::array::Element;
use syncline_cuda::cudarc;
use syncline_cuda::error::CudaError;
use syncline_cuda::pipeline::Decompressor;

/// An element type that streams of codes support.
pub trait Real: Element + DeviceRepr + PartialEq + Default {
    fn of(value: f64) -> Self;
}

impl Real for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
}

impl Real for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

/// Returns values as bytes of this type.
pub fn bytes_of<T: Real>(values: &[f64]) -> Vec<u8> {
    let values: Vec<T> = values.iter().map(|&v| T::of(v)).collect();
    bytemuck::cast_slice(&values).to_vec()
}

/// The byte that memory is filled with before tests, to detect missing writes.
pub const POISON: u8 = 0x5c;

/// Decompresses a whole stream into a buffer after which nothing may be written.
pub fn on_gpu(decompressor: &mut Decompressor, stream: &Arc<CudaStream>, bytes: &[u8]) -> Result<Vec<u8>, CudaError> {
    let length = decompressor.info().decompressed_len() as usize;
    let input = stream.clone_htod(bytes).unwrap();
    let mut output = stream.clone_htod(&vec![POISON; length + 64]).unwrap();
    decompressor.decompress(&input.as_view(), &mut output.slice_mut(..length))?;
    decompressor.check()?;
    let all = stream.clone_dtoh(&output).unwrap();
    let (out, guard) = all.split_at(length);
    assert!(guard.iter().all(|&byte| byte == POISON), "nothing is written behind the output");
    Ok(out.to_vec())
}
