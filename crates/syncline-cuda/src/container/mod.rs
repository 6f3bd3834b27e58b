//! Chunk records on the GPU: the container of `syncline_core::container`, on the device.

pub mod parsed;

pub use parsed::{Parsed, ParsedArgument, ParsedChunk};
