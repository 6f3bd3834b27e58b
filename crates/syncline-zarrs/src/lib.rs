//! The codec `syncline` for arrays of Zarr formats 3 and 2 in Rust, by the crate [`zarrs`](https://docs.rs/zarrs).
//!
//! zarrs finds the codec by its name in any program that links this crate and mentions it, such as by
//! `use syncline_zarrs as _;`. It reads what `syncline.zarr` of the Python package writes, and the reverse, and in
//! format 2 what `syncline.numcodecs` writes of little-endian elements. Each chunk is a Syncline stream. A part of a
//! chunk is decoded alone: its bytes are fetched and its tiles are decoded.
//!
//! ```
//! use std::sync::Arc;
//!
//! use syncline::Bound;
//! use syncline_zarrs::SynclineCodec;
//! use zarrs::array::{ArrayBuilder, ArraySubset, data_type};
//! use zarrs::storage::store::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(MemoryStore::new());
//! let mut builder = ArrayBuilder::new(vec![64, 64], vec![32, 32], data_type::float32(), 0.0f32);
//! builder.array_to_bytes_codec(Arc::new(SynclineCodec::new(Bound::Abs(1e-3))?)).bytes_to_bytes_codecs(vec![]);
//! let array = builder.build(store, "/field")?;
//! array.store_metadata()?;
//! let field: Vec<f32> = (0..64 * 64).map(|i| (i as f32 * 0.01).sin()).collect();
//! array.store_array_subset(&array.subset_all(), &field)?;
//! let part: Vec<f32> = array.retrieve_array_subset(&ArraySubset::new_with_ranges(&[3..4, 10..12]))?;
//! assert!((part[0] - field[3 * 64 + 10]).abs() <= 1e-3);
//! # Ok(())
//! # }
//! ```

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, missing_debug_implementations)]

mod codec;
mod configuration;
mod padding;
mod partial;

pub use codec::SynclineCodec;
pub use configuration::{AdvancedSettings, FillSetting, SynclineConfiguration};
