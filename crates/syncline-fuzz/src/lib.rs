//! Fuzz targets: functions of arbitrary bytes that panic if the codec breaks a promise.
//!
//! `fuzz/` runs them with libFuzzer, `cargo xtask fuzz SECONDS` with random inputs on stable Rust, and the tests of
//! this crate with inputs of proptest.

mod arrays;
mod checksums;
mod input;
mod readers;
mod stages;
mod streams;

pub use checksums::repair_checksums;
pub use input::Rng;
pub use readers::readers;
pub use stages::{huffman_stream, lzss_round_trip, lzss_tokens};
pub use streams::{damaged_stream, decompress_bytes, round_trip};

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the function, and of the file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// The function. It panics if it finds a defect.
    pub run: fn(&[u8]),
    /// Generates a random input that reaches further than random bytes would.
    pub generate: fn(&mut Rng) -> Vec<u8>,
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target { name: "decompress_bytes", run: decompress_bytes, generate: streams::generate_damaged },
    Target { name: "damaged_stream", run: damaged_stream, generate: input::generate_bytes },
    Target { name: "readers", run: readers, generate: input::generate_bytes },
    Target { name: "round_trip", run: round_trip, generate: input::generate_bytes },
    Target { name: "huffman_stream", run: huffman_stream, generate: stages::generate_huffman },
    Target { name: "lzss_tokens", run: lzss_tokens, generate: input::generate_bytes },
    Target { name: "lzss_round_trip", run: lzss_round_trip, generate: input::generate_bytes },
];
