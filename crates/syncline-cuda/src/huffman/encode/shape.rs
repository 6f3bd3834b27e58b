//! The shapes of encoders: segments, blocks and constants of their kernels.

use syncline_core::huffman::IndexKind;

use super::format::{CLASSES, Format, Method};
use crate::device::{Source, Specialization, source};

const MERGED: Source = source!("huffman/encode/merged.cu");
const BASELINES: Source = source!("huffman/encode/baselines.cu");
const STREAM: Source = source!("huffman/encode/stream.cu");
const GAPS: Source = source!("huffman/encode/gaps.cu");

/// Threads of a block that lays out a stream.
pub(super) const LAYOUT_THREADS: u32 = 1024;
/// Threads of a block that writes streams.
pub(super) const WRITE_THREADS: u32 = 256;
pub(super) const MERGED_KERNEL: &str = "encode_merged";
/// Threads of a block of [`Method::Merged`], and blocks to a multiprocessor.
const MERGED_THREADS: u32 = 256;
const MERGED_BLOCKS: u32 = 4;
/// Symbols of a segment of [`Method::Merged`], in large inputs, medium and small ones.
const LARGE_SEGMENT: u32 = 8192;
const MEDIUM_SEGMENT: u32 = 4096;
const SMALL_SEGMENT: u32 = 2048;

/// Constants of an encoder that do not change what it writes, only how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub source: Source,
    pub kernel: &'static str,
    /// Symbols in a segment.
    pub segment: u32,
    pub threads: u32,
    /// Segments that a block has.
    pub segments_in_block: u32,
    /// Bytes of shared memory that a block asks for.
    pub shared_memory: u32,
    pub constants: [(&'static str, u64); 4],
}

/// Words of a warp's bit buffer (huffman/encode/merged.cu).
const BUFFER_WORDS: u32 = 4 * 128 + 16;
/// Most shared memory in bytes that a block of the encoder asks for: what every device has.
const MOST_SHARED_MEMORY: u32 = 64 << 10;

pub(super) fn merged(format: &Format, threads: u32, blocks: u32, segment: u32) -> Shape {
    let books = if format.classes { CLASSES } else { 1 };
    // A warp's bit buffer, and the bits of its groups.
    let buffer = 4 * BUFFER_WORDS;
    let own = threads / 32 * (buffer + segment / format.group() * 2);
    let table = books * format.alphabet * 4;
    let shared_table = own + table <= MOST_SHARED_MEMORY;
    Shape {
        source: MERGED,
        kernel: MERGED_KERNEL,
        segment,
        threads,
        segments_in_block: threads / 32,
        shared_memory: own + if shared_table { table } else { 0 },
        constants: [
            ("THREADS", threads.into()),
            ("BLOCKS", blocks.into()),
            ("NOTE_LENGTHS", (format.index == IndexKind::Gap).into()),
            ("SHARED_TABLE", shared_table.into()),
        ],
    }
}

fn shape(format: &Format, method: Method) -> Shape {
    let baseline = |kernel, segment, threads: u32, segments_in_block, method, reduction: u32| Shape {
        source: BASELINES,
        kernel,
        segment,
        threads,
        segments_in_block,
        shared_memory: 0,
        constants: [
            ("THREADS", threads.into()),
            ("NOTE_LENGTHS", 0),
            ("METHOD", method),
            ("REDUCTION", reduction.into()),
        ],
    };
    match method {
        Method::Merged => merged(format, MERGED_THREADS, MERGED_BLOCKS, LARGE_SEGMENT),
        Method::Coarse => baseline("encode_coarse", 4096, 128, 128, 0, 0),
        Method::PrefixSum => baseline("encode_prefix_sum", 4096, 256, 1, 1, 0),
        Method::ReduceShuffleMerge { magnitude, reduction } => {
            baseline("encode_reduce_shuffle_merge", 1 << magnitude, 1 << (magnitude - reduction), 1, 2, reduction)
        }
    }
}

impl Shape {
    pub fn specialization(&self, format: &Format) -> Specialization {
        let mut constants = format.constants(self.segment);
        constants.extend(self.constants);
        Specialization { source: self.source, constants }
    }

    pub fn stream_specialization(&self, format: &Format) -> Specialization {
        let mut constants = format.constants(self.segment);
        constants.extend([
            ("INDEX", format.index as u64),
            ("THREADS", LAYOUT_THREADS.into()),
            ("WRITE_THREADS", WRITE_THREADS.into()),
            ("NOTE_LENGTHS", self.notes_lengths().into()),
        ]);
        Specialization { source: STREAM, constants }
    }

    /// Whether the encoder notes what the gap index follows from.
    pub fn notes_lengths(&self) -> bool {
        self.constants.contains(&("NOTE_LENGTHS", 1))
    }

    /// Whether the gap index is found by reading the symbols again.
    pub fn reads_symbols_again(&self, format: &Format) -> bool {
        format.index == IndexKind::Gap && !self.notes_lengths()
    }

    pub fn gaps_specialization(&self, format: &Format) -> Specialization {
        let mut constants = format.constants(self.segment);
        constants.push(("WRITE_THREADS", WRITE_THREADS.into()));
        Specialization { source: GAPS, constants }
    }
}

/// The shapes of a method: for large inputs, and for medium and small ones, which need shorter segments to occupy the
/// device.
pub(super) fn shapes(format: &Format, method: Method) -> [Shape; 3] {
    match method {
        Method::Merged => [LARGE_SEGMENT, MEDIUM_SEGMENT, SMALL_SEGMENT]
            .map(|segment| merged(format, MERGED_THREADS, MERGED_BLOCKS, segment)),
        _ => [shape(format, method); 3],
    }
}

pub(super) fn specializations(format: &Format, method: Method) -> Vec<Specialization> {
    let [large, medium, small] = shapes(format, method);
    let mut all = Vec::new();
    for shape in if small == large { vec![large] } else { vec![large, medium, small] } {
        all.extend([shape.specialization(format), shape.stream_specialization(format)]);
        if shape.reads_symbols_again(format) {
            all.push(shape.gaps_specialization(format));
        }
    }
    all
}
