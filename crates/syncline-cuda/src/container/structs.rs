//! Structs that the kernels of chunk records share with their launchers.

use cudarc::driver::sys::CUdeviceptr;
use syncline_core::container::HEADER_LEN;

use crate::device_struct::{DeviceStruct, device_struct};

/// Maximum number of chunks of a batch: the starts of their records are passed to a kernel by value.
pub const MAX_CHUNKS: usize = 256;

/// The structs of `container/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[
    BitRange::C,
    ErrorSums::C,
    RecordPlan::C,
    EncodedTiles::C,
    RecordHeads::C,
    RecordPlaces::C,
    DevicePieces::C,
    StreamHeader::C,
    QueuedEnd::C,
    StreamReport::C,
    ParsedChunk::C,
    TilePlace::C,
    ParsedArgument::C,
    DeviceRecords::C,
    DeviceHashing::C,
];

/// Sections of a quantized chunk: `USED_SECTIONS` in container/record.cuh.
pub(super) const USED_SECTIONS: usize = 5;

device_struct! {
    /// The bits of a tile that has any.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct BitRange {
        /// Where they start among those of the chunk.
        pub(super) bit: u32,
        /// Where they start in the chunk's memory, in words.
        pub(super) word: u32,
    }
}

device_struct! {
    /// Errors of a chunk.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ErrorSums {
        /// Sum of squared errors in the units of `syncline_core`.
        pub squared: u64,
        /// Elements in it.
        pub counted: u64,
    }
}

device_struct! {
    /// The size of a record, and where it goes.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct RecordPlan {
        /// Offset in the output in bytes.
        pub(super) place: u64,
        pub(super) bytes: u32,
        pub(super) kind: u32,
        pub(super) lengths: [u32; USED_SECTIONS],
        /// Tiles with bits.
        pub(super) tiles_with_bits: u32,
        /// Bits of all tiles.
        pub(super) bits: u32,
        /// Verbatim values.
        pub(super) verbatim: u32,
        /// Words of the head.
        pub(super) head_words: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// The tiles of a batch as encoding leaves them.
    #[derive(Clone, Copy)]
    pub(super) struct EncodedTiles {
        /// One for each chunk.
        pub(super) choices: CUdeviceptr as "const struct ChunkChoice *",
        /// `CODEBOOK_ROOM` bytes for each chunk.
        pub(super) codebooks: CUdeviceptr as "const uint8_t *",
        /// One for each tile.
        pub(super) facts: CUdeviceptr as "const struct TileFacts *",
        /// Bits of each strip, as many entries for each tile as the geometry says.
        pub(super) strip_bits: CUdeviceptr as "const uint16_t *",
        /// Bits of the tiles, `chunk_words` words for each chunk. Tiles that have no room in them make the chunk longer
        /// than its elements, so that they are not read.
        pub(super) words: CUdeviceptr as "const uint32_t *",
        /// Squared error of each tile, and the number of elements in it; null unless squared errors are measured.
        pub(super) errors: CUdeviceptr as "const uint64_t *",
        pub(super) counted: CUdeviceptr as "const uint32_t *",
        pub(super) chunk_words: u64,
    }
}

device_struct! {
    /// Memory for the parts of records that are known before their places.
    #[derive(Clone, Copy)]
    pub(super) struct RecordHeads {
        /// The head of each chunk: sections 0 and 1, and the codes without codewords; each on its alignment.
        pub(super) words: CUdeviceptr as "uint32_t *",
        /// The tiles of each chunk that have bits, in order, then their end: an entry more for each chunk than tiles.
        pub(super) bit_ranges: CUdeviceptr as "BitRange *",
        /// Bits of each strip that has any, in the room of the chunk's strips.
        pub(super) lengths: CUdeviceptr as "uint16_t *",
        /// Verbatim values of the chunk before each tile.
        pub(super) verbatim_starts: CUdeviceptr as "uint32_t *",
        /// One for each chunk; null unless squared errors are measured.
        pub(super) errors: CUdeviceptr as "ErrorSums *",
        /// Words of a chunk's head.
        pub(super) stride: u32,
        pub(super) element_bytes: u32,
    }
}

device_struct! {
    /// Destination of the records, and the state of the stream.
    #[derive(Clone, Copy)]
    pub(crate) struct RecordPlaces {
        /// Size of the output in bytes.
        pub(super) room: u64,
        /// Start of the stream's first record in bytes.
        pub(super) start: u64,
        /// Two words: the start of the next record, even if there is no room for it, and the status.
        pub(super) state: CUdeviceptr as "uint64_t *",
        /// Start of each record of the batch in bytes.
        pub(super) starts: CUdeviceptr as "uint64_t *",
        /// Length of each record of the batch in bytes.
        pub(super) lengths: CUdeviceptr as "uint32_t *",
        /// Number of checksummed records over all batches.
        pub(super) checksummed_records: CUdeviceptr as "uint32_t *",
        /// Counter of planned records, 0 before and after.
        pub(super) done: CUdeviceptr as "uint32_t *",
        /// Whether this is the stream's first batch.
        pub(super) is_first: u64,
    }
}

device_struct! {
    /// The pieces of a buffer that are hashed.
    #[derive(Clone, Copy)]
    pub(super) struct DevicePieces = "PiecesFields" {
        pub(super) bytes: CUdeviceptr as "const uint8_t *",
        /// Size of the buffer in bytes.
        pub(super) available: u64,
        /// Start of each piece in bytes.
        pub(super) starts: CUdeviceptr as "const uint64_t *",
        /// Length of each piece in bytes, including the excluded range.
        pub(super) lengths: CUdeviceptr as "const uint32_t *",
        pub(super) excluded_at: u64,
        pub(super) excluded_bytes: u64,
        /// Room for the sums of a piece, in KiB.
        pub(super) sums_stride: u64,
    }
}

device_struct! {
    /// A stream's header.
    #[derive(Clone, Copy)]
    pub(super) struct StreamHeader = "HeaderWords" {
        pub(super) words: [u32; HEADER_LEN / 4],
    }
}

device_struct! {
    /// What the end of a stream depends on if the host does not know it when it queues the kernel. All null otherwise.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct QueuedEnd {
        pub(crate) header: CUdeviceptr as "const uint32_t *",
        /// A status that is not 0 means that there is no stream.
        pub(crate) status: CUdeviceptr as "const uint32_t *",
        /// Receives the size of the stream in bytes, 0 without one; null if not wanted.
        pub(crate) size: CUdeviceptr as "uint64_t *",
    }
}

device_struct! {
    /// The device's report to the host at the end of a stream.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct StreamReport {
        pub(super) bytes: u64,
        pub(super) status: u64,
        /// Number of the stream, written last: it signals that everything else is written.
        pub(super) number: u64,
    }
}

device_struct! {
    /// A chunk as parsing found it. Offsets are bytes from the start of the input.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct ParsedChunk {
        /// Offset of the elements of a raw chunk, in tile order; a multiple of 16.
        pub raw: u64,
        /// Offset of the codewords; a multiple of 16.
        pub words: u64,
        /// Positions of verbatim values: 32 bits, ascending, in the chunk; on a multiple of 4.
        pub verbatim_positions: u64,
        /// Verbatim values; on a multiple of 8.
        pub verbatim_values: u64,
        /// Number of verbatim values.
        pub verbatim: u32,
        /// Number of the record's kind.
        pub kind: u32,
        /// Words of 32 bits of the codewords, two of padding included.
        pub word_count: u32,
        /// Number of codebooks. The last one is that of bitmaps, if there are any.
        pub codebooks: u32,
        /// Code of the interpolation scheme, 0 if no tile is interpolated.
        pub scheme: u8,
        /// The Lorenzo predictors of the chunk.
        pub predictors: [u8; 3],
        /// Number of strips.
        pub strips: u32,
    }
}

device_struct! {
    /// A tile of a quantized chunk.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct TilePlace {
        /// Number of its first strip in the chunk.
        pub first_strip: u32,
        /// The first verbatim value at or after its first element. Written only if the chunk has verbatim values.
        pub verbatim: u32,
        /// Its base.
        pub base: i32,
        /// Bit 0 constant, bits 1-2 predictor, 3-4 class, 5-6 mask kind, 7-8 pattern, 9-10 sign kind.
        pub info: u32,
    }
}

device_struct! {
    /// The arrays of a parsed batch, passed to kernels by value. Chunks and tiles are numbered from the batch's first.
    #[derive(Debug, Clone, Copy)]
    pub struct ParsedArgument = "Parsed" {
        pub(super) chunks: CUdeviceptr as "ParsedChunk *",
        /// What is wrong with each chunk, `PROBLEM_WORDS` words each: bits by the blocks that parse it, then by those
        /// that decode it. A chunk without such bits is valid, but for its codewords and its hash.
        pub(super) problems: CUdeviceptr as "uint32_t *",
        /// Entry `c * tiles + i` is that of tile `i` of chunk `c`.
        pub(super) places: CUdeviceptr as "TilePlace *",
        /// The first bit of each strip among the codewords of its chunk, and the end of the last one. Those of chunk
        /// `c` start at entry `c * starts_stride`.
        pub(super) starts: CUdeviceptr as "uint32_t *",
        /// Decoding tables of all codebooks, `CODEBOOKS` for each chunk.
        pub(super) tables: CUdeviceptr as "uint32_t *",
        /// How many tiles the kernels of ordinary tiles have left over, and their numbers. None after parsing.
        pub(super) listed: CUdeviceptr as "uint32_t *",
        pub(super) starts_stride: u32,
        /// Tiles of a whole chunk.
        pub(super) tiles: u32,
        pub(super) chunk_count: u32,
        /// Number of fill patterns in the header.
        pub(super) patterns: u32,
        /// Whether integers are logarithms.
        pub(super) is_logarithm: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// The batch's records in the input. They are adjacent; `starts` counts units of 16 bytes from `first`.
    #[derive(Clone, Copy)]
    pub(crate) struct DeviceRecords = "Records" {
        pub(super) input: CUdeviceptr as "const uint8_t *",
        pub(super) input_bytes: u64,
        pub(super) first: u64,
        pub(super) starts: [u32; MAX_CHUNKS + 1],
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Arguments for comparing the records' hashes in additional blocks of the parsing kernel.
    #[derive(Clone, Copy, Default)]
    pub(crate) struct DeviceHashing = "Hashing" {
        /// Memory for the sums of `longest` KiB per record.
        pub(super) sums: CUdeviceptr as "uint64_t *",
        /// One word per record, 0 before and after.
        pub(super) progress: CUdeviceptr as "uint64_t *",
        /// One word per record: whether its hash differs from the stored one.
        pub(super) differs: CUdeviceptr as "uint32_t *",
        pub(super) longest: u32,
        /// Maximum blocks per record; 0: hashes are not compared here.
        pub(crate) parts: u32,
    }
}
