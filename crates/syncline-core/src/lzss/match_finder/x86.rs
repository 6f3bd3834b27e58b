//! Strategies that need AVX-512 with VBMI2 and VPOPCNTDQ. Their functions may only be called where
//! [`Avx512Vbmi2`](crate::simd::Avx512Vbmi2) has been detected.

mod bitmaps;
pub(super) mod last_position;
pub(super) mod single_candidate;
mod symbol_keys;
#[cfg(test)]
mod tests;
mod vectors;
pub(super) mod window_bitmap;
mod write_tokens;
