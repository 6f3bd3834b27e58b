//! Structs that the kernels of reconstruction share with their launchers.

use syncline_core::container::MAX_PATTERNS;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `reconstruct/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[Values::C, Request::C, Cut::C];

device_struct! {
    /// What the header says of values.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Values {
        pub(super) step: f64,
        pub(super) patterns: [u64; MAX_PATTERNS],
        /// The sum of this and `step_low` is the step.
        pub(super) step_high: f32,
        pub(super) step_low: f32,
    }
}

device_struct! {
    /// What a launch reconstructs.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Request {
        /// First chunk of the batch.
        pub(super) first_chunk: u64,
        pub(super) tiles_start: u64,
        pub(super) tiles_end: u64,
        /// First element of the slab.
        pub(super) first_element: u64,
        /// Blocks for each chunk, where each chunk has its own.
        pub(super) parts: u32,
        /// Bytes of dynamic shared memory.
        pub(super) dynamic_bytes: u32,
        pub(super) vectors: u32,
        /// Whether codebooks of narrow symbols have tables behind their symbols.
        pub(super) tabled: u32,
    }
}

device_struct! {
    /// How a 3-D array is cut into strips of whole rows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Cut = "Strips" {
        /// The first row of tiles along x that is wanted.
        pub(super) first_row: u64,
        /// Rows of tiles in a strip; 1 if there is more than one segment.
        pub(super) rows: u32,
        /// Segments of a row of tiles.
        pub(super) segments: u32,
        /// Tiles of a segment, except the last.
        pub(super) width: u32,
        /// Elements of the image from row to row.
        pub(super) row_pitch: u32,
        /// Elements of the image from plane to plane.
        pub(super) plane_pitch: u32,
        /// Whether the image's rows follow each other as the array's.
        pub(super) whole: u32,
        /// 2^16 divided by `width`, rounded up: a strip has few tiles.
        pub(super) by_width: u32,
        pub(super) unused: u32,
    }
}
