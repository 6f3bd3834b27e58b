//! Wires the stages on the device: streams to arrays.

mod decompress;
mod info;

pub use decompress::Decompressor;
pub use info::StreamInfo;
