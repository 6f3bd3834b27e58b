//! Structs and constants that the kernels of blocks share with their launchers.

use cudarc::driver::sys::CUdeviceptr;
use syncline_core::container::MAX_PATTERNS;
use syncline_core::contexts::table::TABLE_LOG2;
use syncline_core::contexts::{BINS, CONTEXTS, OWN_SYMBOLS, SYMBOLS};
use syncline_core::pipeline::blocks::{BOX_LOG2, LANE_ELEMENTS, MAX_LANES_LOG2};

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `blocks/structs.cuh`.
pub(crate) const STRUCTS: &[DeviceStruct] = &[BlockPlan::C, BlockTables::C, BlockMask::C, ParsedBlocks::C];

/// Entries of the starts of the symbols of a table: one more than there are symbols, and what fills up words.
const STARTS: usize = 72;
/// Bytes of a table for decoding, with which 256 parts of its slots begin.
pub(super) const SLOT_TABLE_BYTES: usize = 256 + 2 * STARTS;
/// Masks that a block can have: one for each fill pattern, and one for 0.0.
pub(super) const MAX_MASKS: usize = MAX_PATTERNS + 1;

/// Constants that kernels use as `blocks::NAME`, from `blocks/constants.cuh`.
pub(crate) const CONSTANTS: &[(&str, u64)] = &[
    ("TABLE_LOG2", TABLE_LOG2 as u64),
    ("SYMBOLS", SYMBOLS as u64),
    ("OWN_SYMBOLS", OWN_SYMBOLS as u64),
    ("BINS", BINS as u64),
    ("CONTEXTS", CONTEXTS as u64),
    ("STARTS", STARTS as u64),
    ("SLOT_TABLE_BYTES", SLOT_TABLE_BYTES as u64),
    ("MAX_LANES_LOG2", MAX_LANES_LOG2 as u64),
    ("LANE_ELEMENTS", LANE_ELEMENTS as u64),
    ("BOX_LOG2", BOX_LOG2 as u64),
];

device_struct! {
    /// How the blocks of a chunk are coded.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct BlockPlan {
        /// Offset of the words of all units in the input in bytes; a multiple of 16.
        pub(super) words: u64,
        /// Number of tables.
        pub(super) tables: u32,
        pub(super) is_cubic: u32,
        pub(super) is_on_grid: u32,
        /// 0, or the axis along which nothing is interpolated: 1 for z, 2 for y, 3 for x.
        pub(super) slices: u32,
        /// The share of the slice before: 0, 1 for 3/4, or 2 for 1.
        pub(super) share: u32,
        /// How codes are divided into units: 0 for one, 1 for two, 2 for boxes.
        pub(super) division: u32,
        /// Most lanes of a unit, as an exponent of 2.
        pub(super) lanes_log2: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// The tables of a chunk.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct BlockTables {
        /// `SlotTable` in blocks/tables.cuh, one after the other.
        pub(super) slots: [u32; CONTEXTS * SLOT_TABLE_BYTES / 4],
        /// The number of the table of each context.
        pub(super) of_context: [u8; CONTEXTS.next_multiple_of(4)],
    }
}

device_struct! {
    /// The mask of a block and a pattern.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct BlockMask {
        /// Offset of the words of a bitmap in the input in bytes; a multiple of 2.
        pub(super) offset: u64,
        /// Number of its words of 16 bits.
        pub(super) words: u32,
        /// 0: nothing, 1: everything, 2: a bitmap.
        pub(super) kind: u32,
    }
}

device_struct! {
    /// What parsing a batch of chunks of blocks finds, beside [`ParsedArgument`](crate::container::structs).
    #[derive(Clone, Copy, Debug)]
    pub(super) struct ParsedBlocks {
        /// One for each chunk.
        pub(super) plans: CUdeviceptr as "BlockPlan *",
        pub(super) tables: CUdeviceptr as "BlockTables *",
        /// The first unit of each block in its chunk.
        pub(super) first_units: CUdeviceptr as "uint32_t *",
        /// The first word of each unit of a chunk, and the end of the last one, `starts_stride` entries for each chunk.
        pub(super) starts: CUdeviceptr as "uint32_t *",
        /// The integers of anchors, `anchors_stride` entries for each block.
        pub(super) anchors: CUdeviceptr as "int32_t *",
        /// `masks_of_block` for each block.
        pub(super) masks: CUdeviceptr as "BlockMask *",
        /// For each mask twice `bitmap_words`: its bits in raster order of the block, and memory for decoding them.
        pub(super) bitmaps: CUdeviceptr as "uint32_t *",
        /// The patterns of masks.
        pub(super) patterns: [u64; MAX_MASKS],
        pub(super) starts_stride: u32,
        pub(super) anchors_stride: u32,
        pub(super) masks_of_block: u32,
        pub(super) bitmap_words: u32,
    }
}
