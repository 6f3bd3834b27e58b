//! Structs and constants that the kernels of blocks share with their launchers.

use cudarc::driver::sys::CUdeviceptr;
use syncline_core::contexts::segments::{LEAST_QUIET, QUIET_FOR_FOUND, SEGMENT};
use syncline_core::contexts::table::TABLE_LOG2;
use syncline_core::contexts::{CODE_LIMIT, CONTEXTS, FIRST_MASK, KINDS, MASKS, OF_KIND, OWN_SYMBOLS, SYMBOLS};
use syncline_core::pipeline::blocks::{BOX_LOG2, MOST_LANES_LOG2};

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `blocks/structs.cuh`.
pub(crate) const STRUCTS: &[DeviceStruct] = &[
    BlockPlan::C,
    BlockTables::C,
    EncodeTables::C,
    BlockUnit::C,
    BlockPlace::C,
    BlockRecord::C,
    ParsedBlocks::C,
    EncodedBlocks::C,
    BlockConsidered::C,
    BlockSamples::C,
];

/// Entries of the intervals of the symbols of a table for decoding, and its bytes.
pub(super) const INTERVALS: usize = SYMBOLS.next_multiple_of(4);
pub(super) const DECODE_TABLE_BYTES: usize = 4 * ((1usize << TABLE_LOG2).div_ceil(24) + INTERVALS);
/// Tables of a chunk that kernels keep in shared memory, at most.
pub(super) const NEAR_TABLES: usize = 60;

/// Bytes of what is coded of a segment: its events and four words.
pub(super) const SEGMENT_EVENTS_BYTES: usize = 4 * (SEGMENT + 1 + 4);

/// Most bytes of the tables of a chunk: each symbol takes fewer than 16 bits, and each context a few more.
pub(super) const TABLE_ROOM: usize = CONTEXTS * (2 * SYMBOLS + 2) + 2;

/// Plans that are considered for a chunk with half of its sample, and of these those that are with the other half.
pub(super) const TRIED_PLANS: usize = 13;
pub(super) const FINALISTS: usize = 3;

/// Constants that kernels use as `blocks::NAME`, from `blocks/constants.cuh`.
pub(crate) const CONSTANTS: &[(&str, u64)] = &[
    ("TABLE_LOG2", TABLE_LOG2 as u64),
    ("SYMBOLS", SYMBOLS as u64),
    ("OWN_SYMBOLS", OWN_SYMBOLS as u64),
    ("FIRST_MASK", FIRST_MASK as u64),
    ("MASKS", MASKS as u64),
    ("OF_KIND", OF_KIND as u64),
    ("KINDS", KINDS as u64),
    ("SEGMENT", SEGMENT as u64),
    ("LEAST_QUIET", LEAST_QUIET as u64),
    ("QUIET_FOR_FOUND", QUIET_FOR_FOUND as u64),
    ("CONTEXTS", CONTEXTS as u64),
    ("INTERVALS", INTERVALS as u64),
    ("DECODE_TABLE_BYTES", DECODE_TABLE_BYTES as u64),
    ("NEAR_TABLES", NEAR_TABLES as u64),
    ("MAX_LANES_LOG2", MOST_LANES_LOG2 as u64),
    ("BOX_LOG2", BOX_LOG2 as u64),
    ("CODE_LIMIT", CODE_LIMIT as u64),
    ("SEGMENT_EVENTS_BYTES", SEGMENT_EVENTS_BYTES as u64),
    ("TABLE_ROOM", TABLE_ROOM as u64),
    ("TRIED_PLANS", TRIED_PLANS as u64),
    ("FINALISTS", FINALISTS as u64),
];

device_struct! {
    /// How the blocks of a chunk are coded.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct BlockPlan {
        /// Offset of the words of all units in the input in bytes; a multiple of 16.
        pub(super) words: u64,
        pub(super) is_cubic: u32,
        pub(super) is_on_grid: u32,
        /// 0, or the axis along which nothing is interpolated: 1 for z, 2 for y, 3 for x.
        pub(super) slices: u32,
        /// The share of the slice before: 0, 1 for 3/4, or 2 for 1.
        pub(super) share: u32,
        /// How codes are divided into parts: 0 for one, 1 for boxes.
        pub(super) division: u32,
        /// Whether the chunk is raw in any case, because it has integers of 64 bits that no value stands for.
        pub(super) is_raw: u32,
    }
}

device_struct! {
    /// The tables of a chunk.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct BlockTables {
        /// `DecodeTable` in blocks/tables.cuh, one after the other.
        pub(super) tables: [u32; CONTEXTS * DECODE_TABLE_BYTES / 4],
        /// The number of the table of each context.
        pub(super) of_context: [u8; CONTEXTS.next_multiple_of(4)],
    }
}

device_struct! {
    /// What parsing a batch of chunks of blocks finds, beside [`ParsedArgument`](crate::container::structs).
    #[derive(Clone, Copy, Debug)]
    pub(super) struct ParsedBlocks {
        /// One for each chunk.
        pub(super) plans: CUdeviceptr as "BlockPlan *",
        pub(super) tables: CUdeviceptr as "BlockTables *",
        /// The first unit of each block in its chunk, and the lanes of its first part as an exponent of 2.
        pub(super) first_units: CUdeviceptr as "uint32_t *",
        pub(super) lanes_log2: CUdeviceptr as "uint8_t *",
        /// The first word of each unit of a chunk, and the end of the last one, `starts_stride` entries for each chunk.
        pub(super) starts: CUdeviceptr as "uint32_t *",
        /// The integers of anchors, and what stands for their masks, `anchors_stride` entries for each block.
        pub(super) anchors: CUdeviceptr as "int32_t *",
        pub(super) anchor_codes: CUdeviceptr as "int32_t *",
        /// Memory for `elements_stride` values and masks of each block, and whether it has masks.
        pub(super) elements: CUdeviceptr as "void *",
        pub(super) masks: CUdeviceptr as "uint8_t *",
        pub(super) has_masks: CUdeviceptr as "uint8_t *",
        /// The values of the patterns of masks.
        pub(super) patterns: [u64; MASKS],
        pub(super) pattern_count: u32,
        pub(super) starts_stride: u32,
        pub(super) anchors_stride: u32,
        pub(super) elements_stride: u32,
    }
}

device_struct! {
    /// The tables of a chunk for encoding.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct EncodeTables {
        /// Of each table and symbol an `EncodeInterval` (blocks/tables.cuh).
        pub(super) intervals: [u64; INTERVALS * CONTEXTS],
        /// The number of the table of each context.
        pub(super) of_context: [u8; CONTEXTS.next_multiple_of(4)],
        /// Bytes that the tables take in the record.
        pub(super) bytes: u32,
        pub(super) unused: u32,
        /// About how many bits the tables and all events take, and how many events there are.
        pub(super) bits: u64,
        pub(super) events: u64,
    }
}

device_struct! {
    /// A unit that is coded.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct BlockUnit {
        /// Its first word in the room of its block, and how many there are.
        pub(super) place: u32,
        pub(super) count: u32,
    }
}

device_struct! {
    /// Where the parts of a block are in the record of its chunk.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct BlockPlace {
        /// Words and verbatim values of the blocks before.
        pub(super) words: u32,
        pub(super) verbatim: u32,
        /// The lanes of its first part as an exponent of 2, and its units.
        pub(super) lanes_log2: u32,
        pub(super) units: u32,
    }
}

device_struct! {
    /// The size of the record of a chunk of blocks, and where it goes.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct BlockRecord {
        /// Offset in the output in bytes.
        pub(super) place: u64,
        pub(super) bytes: u32,
        pub(super) kind: u32,
        pub(super) lengths: [u32; 6],
    }
}

device_struct! {
    /// The blocks of a batch while they are encoded.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct EncodedBlocks {
        /// One for each chunk.
        pub(super) plans: CUdeviceptr as "BlockPlan *",
        /// Reconstructed values, and codes, of all elements, block by block, as blocks/compact.cuh has them.
        pub(super) values: CUdeviceptr as "void *",
        pub(super) codes: CUdeviceptr as "int32_t *",
        /// `bitmap_words` for each block: a bit for each element that must be verbatim.
        pub(super) missed: CUdeviceptr as "uint32_t *",
        /// The integers of anchors, `anchors_stride` for each block.
        pub(super) anchors: CUdeviceptr as "int32_t *",
        /// Symbols of each context of each chunk.
        pub(super) counts: CUdeviceptr as "uint32_t *",
        /// Zeros, verbatim values, and events of each block; all are 0 before.
        pub(super) zeros: CUdeviceptr as "uint32_t *",
        pub(super) verbatim: CUdeviceptr as "uint32_t *",
        pub(super) events: CUdeviceptr as "uint32_t *",
        /// Of each chunk; null unless errors are measured.
        pub(super) errors: CUdeviceptr as "ErrorSums *",
        /// The tables of each chunk, as they are written in `TABLE_ROOM` bytes, and for encoding.
        pub(super) table_words: CUdeviceptr as "uint32_t *",
        pub(super) encode_tables: CUdeviceptr as "EncodeTables *",
        /// `units_of_block` for each block, and the words of its units, for which `block_words_at` says where they are.
        pub(super) units: CUdeviceptr as "BlockUnit *",
        pub(super) words: CUdeviceptr as "uint16_t *",
        /// One for each block.
        pub(super) places: CUdeviceptr as "BlockPlace *",
        /// The small sections of each chunk in `head_words` words: where each of them is in these.
        pub(super) heads: CUdeviceptr as "uint32_t *",
        pub(super) head_words: u32,
        pub(super) anchors_at: u32,
        pub(super) sizes_at: u32,
        pub(super) anchors_stride: u32,
        pub(super) bitmap_words: u32,
        pub(super) units_of_block: u32,
    }
}

device_struct! {
    /// What the plans that were considered for a chunk cost.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct BlockConsidered {
        /// Bits of half of the sample with each plan; all set for one that was not tried.
        pub(super) bits: [u64; TRIED_PLANS],
        /// Numbers of the plans that are tried with the other half: `TRIED_PLANS` where there is none.
        pub(super) finalists: [u32; FINALISTS],
        pub(super) unused: u32,
    }
}

device_struct! {
    /// What codes of samples are made in, beside the values and the codes of [`EncodedBlocks`].
    #[derive(Clone, Copy, Debug)]
    pub(super) struct BlockSamples {
        /// For each piece and plan of a round: bits of verbatim elements, in `piece_words` each.
        pub(super) bits: CUdeviceptr as "uint32_t *",
        /// For each piece and plan of a round, `anchors_stride` integers.
        pub(super) anchors: CUdeviceptr as "int32_t *",
        /// For each plan of each round of each chunk: symbols by context, and the bits of everything else; 0 before.
        pub(super) counts: CUdeviceptr as "uint32_t *",
        pub(super) bits_of_plans: CUdeviceptr as "uint64_t *",
        /// One for each chunk.
        pub(super) considered: CUdeviceptr as "BlockConsidered *",
        /// Most elements of a piece, and words of a bit for each.
        pub(super) piece_elements: u32,
        pub(super) piece_words: u32,
        pub(super) anchors_stride: u32,
        pub(super) unused: u32,
    }
}
