//! Structs that the kernels of lossless arrays share with their launchers.

use syncline_core::container::SECTIONS;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `lossless/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[
    HeaderPlane::C,
    RecordHeader::C,
    SampleTile::C,
    NumberChunk::C,
    NumberBins::C,
    NumberTile::C,
    NumberStreams::C,
    CodedTile::C,
    CodedChunk::C,
    ChunkBins::C,
    NumberPlaces::C,
];

/// Maximum number of planes of a chunk: flags, lengths, two of distances, eight of literals.
const PLANES: usize = 12;

device_struct! {
    /// A plane in a record.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct HeaderPlane {
        /// Offset in the record in bytes.
        pub at: u32,
        /// Stored bytes of the plane.
        pub bytes: u32,
        /// Whether the plane is a Huffman stream.
        pub coded: u32,
    }
}

device_struct! {
    /// The header fields of a record, validated against the record's length and the chunk's elements.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct RecordHeader {
        pub(super) status: u32,
        pub(super) kind: u32,
        pub section_at: [u32; SECTIONS],
        pub section_bytes: [u32; SECTIONS],
        pub width: u32,
        pub level: u32,
        pub min_match: u32,
        /// Bytes of a symbol of the literals' planes; 0 if nothing is stored as planes.
        pub literal_bytes: u32,
        pub tokens: u32,
        pub matches: u32,
        /// Number of 64-bit words of flags.
        pub flag_words: u32,
        pub planes: [HeaderPlane; PLANES],
    }
}

device_struct! {
    /// A tile that is sampled.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct SampleTile {
        pub(super) number: u64,
        pub(super) at: u64,
    }
}

device_struct! {
    /// What the record of a chunk of numbers states, without its bins and tiles.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct NumberChunk {
        pub center: i64,
        /// Divisor or step, and offset, as bits.
        pub parameters: [u64; 2],
        /// Bits of masked elements.
        pub pattern: u64,
        /// Places in the input of the raw bits, and of the positions and the elements of verbatim values.
        pub raw_bits: u64,
        pub positions: u64,
        pub elements: u64,
        /// Bytes of the raw bits, 16 bytes of zeros included; 0 if there are none.
        pub raw_bytes: u32,
        /// Verbatim values.
        pub verbatim: u32,
        pub mode: u32,
        pub operations: u32,
        /// Bins of a symbol.
        pub tuple: u32,
        pub predictor: u32,
        pub bins: u32,
        /// Bytes of a symbol of bins, 1 or 2.
        pub symbol_bytes: u32,
        /// Groups of the Huffman streams of symbols, masks, and rests; 0 where there is none.
        pub groups: [u32; 3],
        /// 1 if elements that hold the pattern are masked.
        pub has_pattern: u32,
    }
}

device_struct! {
    /// The bins of a chunk of numbers.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct NumberBins {
        /// The smallest code of each, with the center added.
        pub lows: [u64; 256],
        /// Raw bits, and the shift times 2^8.
        pub sizes: [u16; 256],
    }
}

device_struct! {
    /// A tile of numbers.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct NumberTile {
        /// Number of its first symbol in the chunk.
        pub symbol: u32,
        /// Number of the first byte of its mask.
        pub mask: u32,
        /// Where its raw bits start and end in bytes.
        pub raw_start: u32,
        pub raw_end: u32,
        /// Kind of the mask times 2, plus 1 if all codes are 0.
        pub info: u32,
    }
}

device_struct! {
    /// Where the decoded streams of a chunk of numbers are.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct NumberStreams {
        /// Numbers of the first symbol of bins among those of their size, of the first byte of masks among bytes, and
        /// of the first rest among those of 16 bits.
        pub symbols: u64,
        pub masks: u64,
        pub rests: u64,
        /// Whether the chunk is to be decoded.
        pub is_wanted: u64,
    }
}

device_struct! {
    /// What a tile of numbers becomes, besides its codes.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct CodedTile {
        /// The first number that is neither masked nor verbatim, if there is one.
        pub base: u64,
        /// The smallest and the largest code.
        pub low: i64,
        pub high: i64,
        /// Codes of the tiles of the chunk before it that are not constant.
        pub codes_before: u32,
        /// Verbatim values of the chunk before it.
        pub verbatim_before: u32,
        /// Verbatim values.
        pub verbatim: u32,
        /// The largest rest.
        pub greatest_rest: u32,
        /// Bit 0: all codes are 0. Bits 1 and 2: the kind of its mask. Bit 3: it has a base.
        pub info: u32,
        /// Padding.
        pub unused: u32,
    }
}

device_struct! {
    /// What the tiles of a chunk of numbers have together.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct CodedChunk {
        /// The smallest and the largest code of the tiles that are not constant.
        pub low: i64,
        pub high: i64,
        /// Their number.
        pub codes: u32,
        /// Verbatim values.
        pub verbatim: u32,
        /// The largest rest.
        pub greatest_rest: u32,
        /// Padding.
        pub unused: u32,
    }
}

device_struct! {
    /// How the codes of a chunk are divided into bins.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct ChunkBins {
        /// The smallest code of each.
        pub lows: [i64; 256],
        /// The smallest code of each family, if its cells have equal width.
        pub cell_lows: [i64; 3],
        /// Numbers of its first symbol among those of its size, and of its first byte of masks among the bytes.
        pub symbols_at: u64,
        pub masks_at: u64,
        /// Raw bits, and the shift times 2^8.
        pub sizes: [u16; 256],
        /// Low bits of the codes of each family, all 0.
        pub shifts: [u32; 3],
        /// Binary logarithm of the width of cells of equal width; `OCTAVES` for others.
        pub cell_shifts: [u32; 3],
        pub families: u32,
        pub bins: u32,
        /// Bins of a symbol.
        pub tuple: u32,
        /// Bytes of a symbol.
        pub symbol_bytes: u32,
        /// Number of the first bin of the cells of the first family among those of all chunks.
        pub of_cell: u32,
        /// Symbols and bytes of masks, without padding.
        pub symbols: u32,
        pub mask_bytes: u32,
        /// Padding.
        pub unused: u32,
    }
}

device_struct! {
    /// Where the raw bits and the verbatim values of a chunk go in the output.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct NumberPlaces {
        /// Of the raw bits; `u64::MAX` if there are none, or if the chunk is raw.
        pub raw_bits: u64,
        /// Of the positions and the elements of verbatim values; `u64::MAX` likewise.
        pub positions: u64,
        pub elements: u64,
    }
}
