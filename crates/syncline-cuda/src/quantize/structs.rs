//! Structs that the kernels of quantization share with their launchers.

use cudarc::driver::sys::CUdeviceptr;
use syncline_core::container::MAX_PATTERNS;
use syncline_core::predict::interpolate::MAX_RESERVED;

use crate::device_struct::{DeviceStruct, device_struct};
use crate::geometry::Divider32;

/// The structs of `quantize/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[
    Step::C,
    BoundRequest::C,
    ExcludedBits::C,
    ScanReport::C,
    ChunkSummary::C,
    TileSums::C,
    RecordInputsArgument::C,
    SideOffsets::C,
    SideStarts::C,
    SideListPointers::C,
    BatchLists::C,
    Outputs::C,
    CodesLaunch::C,
    StagedLaunch::C,
    InterpolationStep::C,
    TokenOutputs::C,
];

device_struct! {
    /// The constants of a stream's quantizer.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(super) struct Step {
        pub(super) inverse: f64,
        pub(super) step: f64,
        /// The bound; in the logarithmic pipeline the relative bound, lowered by two steps.
        pub(super) limit: f64,
        /// Scale of errors in sums of squared errors.
        pub(super) error_scale: f64,
        pub(super) inverse_high: f32,
        pub(super) inverse_low: f32,
        pub(super) high: f32,
        pub(super) low: f32,
        pub(super) bound: f32,
        /// f32: an integer of at most `short_reach` whose error is below `short_bound` is the one that the format
        /// defines, even if found with a single rounding. Unused if `short_reach` is 0.
        pub(super) short_bound: f32,
        pub(super) short_reach: f32,
        /// log2 of twice `short_reach`.
        pub(super) short_bits: u32,
        /// Whether all integers are below 2^21 in magnitude, except those of patterns, infinities and NaN.
        pub(super) reach_known: u32,
        pub(super) pattern_count: u32,
        /// Whether there may be -0.0 among the elements.
        pub(super) minus_zeros: u32,
        /// Bit `i` is set if no other value may become pattern `i`. If there are any, all tiles take the scalar path.
        pub(super) reserved: u32,
        pub(super) patterns: [u64; MAX_PATTERNS],
    }
}

device_struct! {
    /// A requested bound, from which the kernel computes the quantizer's constants.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct BoundRequest {
        pub(super) bound: f64,
        /// Whether the bound is relative to the range.
        pub(super) relative: u32,
        pub(super) element_bytes: u32,
    }
}

device_struct! {
    /// Bit patterns of elements that a scan leaves out.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct ExcludedBits {
        pub(super) patterns: [u64; MAX_PATTERNS],
    }
}

device_struct! {
    /// The report of the kernel that scans an array, for the host. Extremes, and the number of the first NaN, are
    /// stored such that larger numbers are more extreme and 0 means none.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct ScanReport {
        /// Complement of the lowest ordered number.
        pub(super) lowest: u64,
        pub(super) highest: u64,
        /// Elements with each of the excluded bit patterns.
        pub(super) excluded: [u64; MAX_PATTERNS],
        /// NaN, infinities, -0.0 and 0.0.
        pub(super) counts: [u64; 4],
        /// Complement of the number of the first NaN.
        pub(super) first_nan: u64,
        /// Number of samples, all finite.
        pub(super) samples: u64,
        /// Samples equal to the lowest of them.
        pub(super) at_lowest: u64,
        pub(super) at_highest: u64,
        /// Complement of the smallest ordered number above the lowest sample.
        pub(super) least_above: u64,
        /// Largest ordered number below the highest sample.
        pub(super) greatest_below: u64,
        /// Samples whose magnitude is at least the limit.
        pub(super) too_large: u64,
        /// Bits of the first NaN.
        pub(super) nan_bits: u64,
        /// 1 if one element alone is known to be the lowest, and the highest.
        pub(super) single: [u64; 2],
        /// The quantizer's constants, if requested.
        pub(super) step: Step,
        /// Number of the scan, written last: it tells the host that the report is complete.
        pub(super) number: u64,
    }
}

device_struct! {
    /// Counts of a quantized chunk, for the radius that the chunk takes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ChunkSummary = "ChunkSummaryFields" {
        /// Groups of codes.
        pub groups: u32,
        /// Residuals that no code represents.
        pub outliers: u32,
        /// Values stored verbatim.
        pub verbatim: u32,
        /// Bytes of the bitmaps of masks.
        pub mask_bytes: u32,
        /// Bytes of the bitmaps of signs.
        pub sign_bytes: u32,
        /// Radius of the chunk's codes: 512 or 32,768.
        pub radius: u32,
        /// Sum of the squared errors in `syncline_core`'s units, if the bound is a PSNR.
        pub squared_error: u64,
        /// Elements in `squared_error`.
        pub counted: u64,
    }
}

device_struct! {
    /// Sums over some of a chunk's tiles.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct TileSums {
        /// Tiles that are not constant.
        pub live: u32,
        /// Bit 0: some tile has a mask. Bit 2: some tile has signs.
        pub flags: u32,
        /// Words of 32 bits of the packed bases.
        pub words_of_bases: u32,
        pub(super) unused: u32,
    }
}

impl TileSums {
    /// Sums over tiles of which `live` are not constant and whose packed bases take `words_of_bases` words.
    pub fn new(live: u32, masks: bool, signs: bool, words_of_bases: u32) -> Self {
        Self { live, flags: u32::from(masks) | u32::from(signs) << 2, words_of_bases, unused: 0 }
    }
}

device_struct! {
    /// Destinations of the values that quantizing computes for the records.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct RecordInputsArgument = "RecordInputs" {
        /// The spans of `streams` streams, the chunks' first; null if no records are made.
        pub spans: CUdeviceptr as "struct StreamInput *",
        /// One entry per chunk and block that works on the chunk.
        pub tile_sums: CUdeviceptr as "TileSums *",
        /// Progress of hashing, one word per chunk, to be cleared.
        pub hash_progress: CUdeviceptr as "uint64_t *",
        /// The summaries in the host's memory; null if not needed.
        pub host: CUdeviceptr as "struct ChunkSummary *",
        /// Control words to be cleared, with the extreme codes of chunks.
        pub control: CUdeviceptr as "uint32_t *",
        pub control_words: u64,
        pub streams: u32,
        pub element_bytes: u32,
    }
}

device_struct! {
    /// Start of a tile's entries in its chunk's lists.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct SideOffsets {
        pub(super) outliers: u32,
        pub(super) verbatim: u32,
        pub(super) masks: u32,
        pub(super) signs: u32,
    }
}

device_struct! {
    /// Start of each chunk's entries in the side lists of the batch.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SideStarts {
        /// First outlier.
        pub outliers: u32,
        /// First verbatim value.
        pub verbatim: u32,
        /// First byte of the bitmaps of masks, a multiple of 64.
        pub masks: u32,
        /// First byte of the bitmaps of signs, a multiple of 64.
        pub signs: u32,
        /// Radius of the chunk's codes; 0 if there is nothing to gather.
        pub(super) radius: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Destinations of outliers, verbatim values and bitmaps.
    #[derive(Clone, Copy)]
    pub(super) struct SideListPointers = "SideLists" {
        pub(super) outlier_positions: CUdeviceptr as "uint32_t *",
        pub(super) residuals: CUdeviceptr as "int32_t *",
        pub(super) verbatim_positions: CUdeviceptr as "uint32_t *",
        /// Elements.
        pub(super) verbatim_values: CUdeviceptr as "void *",
        pub(super) masks: CUdeviceptr as "uint8_t *",
        pub(super) signs: CUdeviceptr as "uint8_t *",
    }
}

device_struct! {
    /// Lists of the parts that only some chunks of a batch have.
    #[derive(Clone, Copy)]
    pub(super) struct BatchLists {
        /// One entry per chunk.
        pub(super) starts: CUdeviceptr as "SideStarts *",
        /// Chunks that take the wide radius, and their streams, `streams` entries each; null without room for them.
        pub(super) wide_chunks: CUdeviceptr as "uint32_t *",
        pub(super) wide: CUdeviceptr as "struct StreamInput *",
        /// Streams of bitmaps, `streams` entries each; null if there are none.
        pub(super) masks: CUdeviceptr as "struct StreamInput *",
        pub(super) signs: CUdeviceptr as "struct StreamInput *",
        pub(super) status: CUdeviceptr as "uint32_t *",
        pub(super) streams: u64,
    }
}

device_struct! {
    /// Results for each tile of a batch, and its codes.
    #[derive(Clone, Copy)]
    pub(super) struct Outputs {
        pub(super) metas: CUdeviceptr as "uint16_t *",
        pub(super) bases: CUdeviceptr as "int32_t *",
        pub(super) bins: CUdeviceptr as "uint8_t *",
        /// Number of residuals without a code of radius 512.
        pub(super) outliers: CUdeviceptr as "uint16_t *",
        /// Number of residuals without a code of radius 32,768.
        pub(super) wide_outliers: CUdeviceptr as "uint16_t *",
        pub(super) verbatim: CUdeviceptr as "uint16_t *",
        /// First group of each tile, counted in its chunk.
        pub(super) first_groups: CUdeviceptr as "uint32_t *",
        /// Squared error of each tile; null unless squared errors are measured.
        pub(super) errors: CUdeviceptr as "uint64_t *",
        /// Number of elements in each squared error; null unless squared errors are measured.
        pub(super) counted: CUdeviceptr as "uint16_t *",
        /// Codes; those of chunk `c` start at group `first_slot(c)`.
        pub(super) codes: CUdeviceptr as "uint16_t *",
    }
}

device_struct! {
    /// Arguments of the kernels from elements to codes, for a batch.
    #[derive(Clone, Copy)]
    pub(super) struct CodesLaunch {
        /// First element of the slab.
        pub(super) first_element: u64,
        /// Blocks of work of a chunk.
        pub(super) chunk_blocks: u32,
        /// Whether quads of elements start on multiples of 16 bytes.
        pub(super) aligned: u32,
        pub(super) use_vector: u32,
        pub(super) chunks_per_wave: u32,
        /// Whether the kernel does nothing if the constants have patterns and it is not compiled for them, or the other
        /// way around. For kernels that are queued before the host knows the constants.
        pub(super) skips_unfit: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Arguments of the staged kernel: those of [`CodesLaunch`], and the order of its work.
    #[derive(Clone, Copy)]
    pub(super) struct StagedLaunch {
        pub(super) codes: CodesLaunch,
        /// Divides by the tickets of a wave of chunks.
        pub(super) by_wave_tickets: Divider32,
        /// Divides by the chunks of a wave.
        pub(super) by_wave_chunks: Divider32,
        /// Divides by the chunks of the last wave.
        pub(super) by_last_wave_chunks: Divider32,
        /// Divides by the chunks of the last wave without the batch's last, which may be shorter.
        pub(super) by_last_wave_full_chunks: Divider32,
        /// Divide by the tiles along z, y, x.
        pub(super) by_grid: [Divider32; 3],
        /// Whether the array's tile numbers fit 32 bits, as `by_grid` requires.
        pub(super) has_32_bit_tiles: u32,
        /// Blocks of work of the batch's last chunk.
        pub(super) last_chunk_blocks: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// The constants of interpolation, of the element's type.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(super) struct InterpolationStep {
        pub(super) step: f64,
        /// Inverse of the step, rounded.
        pub(super) inverse: f64,
        /// The bound, rounded down.
        pub(super) bound: f64,
        /// Bits of values that no element may be reconstructed as, because they are fill patterns.
        pub(super) reserved: [u64; MAX_RESERVED],
        pub(super) reserved_count: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Results for each tile of a batch whose chunks have token codebooks.
    #[derive(Clone, Copy)]
    pub(super) struct TokenOutputs {
        pub(super) metas: CUdeviceptr as "uint16_t *",
        pub(super) bases: CUdeviceptr as "int32_t *",
        pub(super) verbatim: CUdeviceptr as "uint16_t *",
        /// Bitmaps of the verbatim values, of the tiles that have any.
        pub(super) exact: CUdeviceptr as "uint32_t *",
        /// Squared error of each tile; null unless squared errors are measured.
        pub(super) errors: CUdeviceptr as "uint64_t *",
        /// Number of elements in each squared error; null unless squared errors are measured.
        pub(super) counted: CUdeviceptr as "uint16_t *",
        /// Words of the groups of each tile: `token_codes/groups.cuh`.
        pub(super) groups: CUdeviceptr as "uint32_t *",
        /// Codes, with room for the elements of an unclipped tile for each.
        pub(super) codes: CUdeviceptr as "int32_t *",
    }
}
