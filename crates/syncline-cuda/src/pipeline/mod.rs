//! Whole streams from arrays in device memory, and back.

mod compress;

pub use compress::{ChunkRecords, CompressOptions, Compressed, Compressor, max_compressed_len};
