//! Prediction inside a tile (`docs/FORMAT.md`, "Prediction"): integers to residuals and codes, and back.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub mod costs;
pub mod interpolate;
pub mod levels;
pub mod orders;
pub mod residuals;
mod sums;
pub mod word;
