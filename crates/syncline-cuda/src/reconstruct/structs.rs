//! Structs that the kernels of reconstruction share with their launchers.

use syncline_core::container::MAX_PATTERNS;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `reconstruct/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[Values::C, Request::C, Cut::C];

device_struct! {
    /// The constants from the stream's header that map integers to values.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Values {
        pub(super) step: f64,
        pub(super) patterns: [u64; MAX_PATTERNS],
        /// The sum of this and `step_low` is the step.
        pub(super) step_high: f32,
        pub(super) step_low: f32,
        /// The range to which reconstructed values are limited; infinite if it is not known.
        pub(super) low: f64,
        pub(super) high: f64,
        /// The same for f32.
        pub(super) narrow_low: f32,
        pub(super) narrow_high: f32,
    }
}

device_struct! {
    /// The tiles and elements that a launch reconstructs.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Request {
        /// First chunk of the batch.
        pub(super) first_chunk: u64,
        pub(super) tiles_start: u64,
        pub(super) tiles_end: u64,
        /// First element of the slab.
        pub(super) first_element: u64,
        /// Blocks per chunk, for kernels in which a block works on one chunk.
        pub(super) parts: u32,
        /// Bytes of dynamic shared memory.
        pub(super) dynamic_bytes: u32,
        pub(super) vectors: u32,
        /// Whether tables follow the symbols of codebooks with few symbols.
        pub(super) tabled: u32,
    }
}

device_struct! {
    /// Division of a 3-D array into strips of whole rows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Cut = "Strips" {
        /// The first requested row of tiles along x.
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
        /// Whether the rows of the image are adjacent as in the array.
        pub(super) whole: u32,
        /// 2^16 divided by `width`, rounded up. Exact for the tile numbers in a strip, which are small.
        pub(super) by_width: u32,
        pub(super) unused: u32,
    }
}
