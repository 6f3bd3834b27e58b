//! Copies of Zarr stores, in builds with the feature zarr.

#[cfg(feature = "zarr")]
mod contents;
#[cfg(feature = "zarr")]
mod copy;
#[cfg(feature = "zarr")]
mod folders;
#[cfg(feature = "zarr")]
mod metadata;
#[cfg(feature = "zarr")]
mod permitted;
#[cfg(feature = "zarr")]
mod recompress;

#[cfg(feature = "zarr")]
pub use copy::convert;

#[cfg(not(feature = "zarr"))]
use super::changes::Conversion;
#[cfg(not(feature = "zarr"))]
use crate::{args::ConvertArgs, message::Outcome, places::zarr::unavailable};

/// Fails.
#[cfg(not(feature = "zarr"))]
pub fn convert(args: &ConvertArgs, _: Option<&[f64]>) -> Outcome<Conversion> {
    Err(unavailable(&args.input))
}
