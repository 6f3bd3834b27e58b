//! Whole streams from arrays in device memory, and back.

mod compress;
mod decompress;
mod info;

pub use compress::{ChunkRecords, CompressOptions, Compressed, Compressor, max_compressed_len};
pub use decompress::Decompressor;
pub use info::StreamInfo;
