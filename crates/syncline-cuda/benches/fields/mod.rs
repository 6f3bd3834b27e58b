//! Arrays in device memory for benches of compression.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::quantize::Real;
use syncline_cuda::cudarc;
use syncline_cuda::error::{DriverContext, Result};

/// Amplitude of noise relative to that of the waves, and whether a tenth of the values is fill.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub noise: f64,
    pub fill: bool,
}

/// Returns an array in device memory: some rows or planes are generated, and repeated along the slowest axis.
pub fn generate<T: Real>(stream: &Arc<CudaStream>, extents: &[u64], data: Data) -> Result<(CudaSlice<u8>, Vec<u8>)> {
    let slice: u64 = extents[1..].iter().product();
    let period = (1_u64 << 23).div_ceil(slice).next_multiple_of(8).min(extents[0]);
    let mut seed = 1_u64;
    let mut bytes = Vec::with_capacity((slice * period) as usize * size_of::<T>());
    for i in 0..slice * period {
        seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let noise = ((seed >> 40) as f64 / f64::from(1 << 24) - 0.5) * data.noise;
        let (mut rest, mut sum) = (i, 0.0);
        for (axis, &extent) in extents.iter().enumerate().rev() {
            let at = if axis == 0 { rest } else { rest % extent };
            sum += ((at as f32) * (0.011 + 0.006 * axis as f32)).sin();
            rest /= extent;
        }
        let is_fill = data.fill && (i / 700) % 10 == 3;
        let value = if is_fill { -9999.0 } else { f64::from(sum) / extents.len() as f64 + noise };
        bytes.extend_from_slice(&T::nearest(value).bits().to_le_bytes()[..size_of::<T>()]);
    }
    let length = extents.iter().product::<u64>() as usize * size_of::<T>();
    // SAFETY: every bit pattern of `u8` is valid, and the loop writes all bytes.
    let mut whole = unsafe { stream.alloc::<u8>(length) }.doing("allocating")?;
    for start in (0..length).step_by(bytes.len()) {
        let end = length.min(start + bytes.len());
        stream.memcpy_htod(&bytes[..end - start], &mut whole.slice_mut(start..end)).doing("filling")?;
    }
    Ok((whole, bytes))
}
