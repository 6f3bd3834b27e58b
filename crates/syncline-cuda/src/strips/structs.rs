//! Structs and constants that the kernels of quantized chunks share with their launchers.

use cudarc::driver::sys::CUdeviceptr;
use syncline_core::container::{INTERPOLATED, MAX_CLASSES};
use syncline_core::predict::costs::COST_LOG2;
use syncline_core::predict::orders::{MOST_LISTED, PREDICTORS};
use syncline_core::strips::{MAX_LENGTH, STRIP_LEN, SYMBOLS, Symbol};

use crate::device_struct::{DeviceStruct, device_struct};
use crate::geometry::BITS_OF_BITMAP_STRIP;

/// The structs of `strips/structs.cuh`.
pub(crate) const STRUCTS: &[DeviceStruct] = &[ChunkChoice::C, TileFacts::C, CodebookSize::C, TileOutputs::C];

/// Codebooks of a chunk: those of classes, then that of bitmaps.
pub const CODEBOOKS: usize = MAX_CLASSES + 1;

/// Codebooks that are made for a chunk: in addition one over all classes, the last.
pub(super) const TABLES: usize = CODEBOOKS + 1;

/// Most bytes of a serialized codebook: the size of the alphabet, and a byte for each symbol, as if no runs were longer
/// than 1, up to a multiple of 4.
pub(super) const CODEBOOK_BYTES: usize = (4 + SYMBOLS).next_multiple_of(4);

/// Bytes that a chunk's serialized codebooks have room in. Those of codes are at the start, without gaps.
pub const CODEBOOK_ROOM: usize = CODEBOOKS * CODEBOOK_BYTES;

/// Where the serialized codebook of bitmaps is among the bytes of a chunk.
pub const BITMAP_CODEBOOK_AT: usize = MAX_CLASSES * CODEBOOK_BYTES;

/// Returns the number of the symbol of a value without zeros in front.
const fn number_of(value: i32) -> u64 {
    match Symbol::of(0, value) {
        Some(symbol) => symbol.number() as u64,
        None => panic!("every value has a symbol"),
    }
}

/// Constants that kernels use as `strips::NAME`, from `strips/constants.cuh`.
pub(crate) const CONSTANTS: &[(&str, u64)] = &[
    ("STRIP_LEN", STRIP_LEN as u64),
    ("BITS_OF_BITMAP_STRIP", BITS_OF_BITMAP_STRIP as u64),
    ("SYMBOLS", SYMBOLS as u64),
    ("MAX_LENGTH", MAX_LENGTH as u64),
    ("MAX_CLASSES", MAX_CLASSES as u64),
    ("CODEBOOKS", CODEBOOKS as u64),
    ("BITMAP_CODEBOOK", MAX_CLASSES as u64),
    ("TABLES", TABLES as u64),
    ("ONE_CODEBOOK", CODEBOOKS as u64),
    ("CODEBOOK_BYTES", CODEBOOK_BYTES as u64),
    ("CODEBOOK_ROOM", CODEBOOK_ROOM as u64),
    ("BITMAP_CODEBOOK_AT", BITMAP_CODEBOOK_AT as u64),
    ("INTERPOLATED", INTERPOLATED as u64),
    ("PREDICTORS", PREDICTORS as u64),
    ("MOST_LISTED", MOST_LISTED as u64),
    ("COST_LOG2", COST_LOG2 as u64),
    ("LONG_RUN", Symbol::LONG_RUN.number() as u64),
    ("FIRST_POWER", Symbol::power(0).number() as u64),
    ("FIRST_SMALL", number_of(-16)),
    ("FIRST_LARGE", number_of(1 << 16)),
    ("ANY_VALUE", Symbol::ANY.number() as u64),
];

device_struct! {
    /// How the tiles of a chunk are coded, as its sample says.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ChunkChoice {
        /// Code of the interpolation scheme, 1 to 8; 0 for none.
        pub scheme: u8,
        /// Listed Lorenzo predictors, 1 to 3.
        pub listed: u8,
        /// The predictors, 0 to 8; the first one again in place of those that are not listed.
        pub predictors: [u8; MOST_LISTED],
        /// Codebooks of codes: 1, or 4 if tiles have classes.
        pub classes: u8,
        /// Padding.
        pub reserved: u8,
        /// 1 if the chunk is raw because it has an integer of 64 bits that no value stands for.
        pub is_raw: u8,
        /// Smallest costs of classes 1 to 3, in bits.
        pub thresholds: [u32; MAX_CLASSES - 1],
        /// Bytes of the serialized codebooks of codes.
        pub codebook_bytes: u32,
        /// Bytes of the serialized codebook of bitmaps.
        pub bitmap_codebook_bytes: u32,
        /// Padding.
        pub unused: u32,
    }
}

device_struct! {
    /// An encoded tile.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TileFacts {
        /// First word of the tile's bits in the scratch memory of its chunk. Behind the bits, at the next word, is the
        /// bitmap of the verbatim elements, if there are any.
        pub word: u32,
        /// Bits of all strips of the tile, which follow each other without gaps.
        pub bits: u32,
        /// Base. That of a tile without valid elements is 0 here, and in the record that of the tile before.
        pub base: i32,
        /// Bit fields; see [`TileFacts::constant`] and the methods after it.
        pub info: u32,
    }
}

impl TileFacts {
    /// Returns whether the tile is constant: it has no codes.
    pub fn constant(self) -> bool {
        self.info & 1 != 0
    }

    /// Returns the place of the predictor in the chunk's list, or [`INTERPOLATED`].
    pub fn predictor(self) -> u8 {
        self.field(1)
    }

    /// Returns the class, 0 to 3: the number of the codebook of the codes.
    pub fn class(self) -> u8 {
        self.field(3)
    }

    /// Returns the kind of the mask: 0 nothing is masked, 1 everything, 2 a bitmap says what.
    pub fn mask(self) -> u8 {
        self.field(5)
    }

    /// Returns the number of the fill pattern, 0 to 3.
    pub fn pattern(self) -> u8 {
        self.field(7)
    }

    /// Returns the kind of the signs: 0 no value is negative, 1 all are, 2 a bitmap says which.
    pub fn sign(self) -> u8 {
        self.field(9)
    }

    /// Returns whether no element is valid.
    pub fn empty(self) -> bool {
        self.info >> 11 & 1 != 0
    }

    /// Returns the number of verbatim values.
    pub fn verbatim(self) -> u32 {
        self.info >> 12
    }

    fn field(self, shift: u32) -> u8 {
        (self.info >> shift & 3) as u8
    }
}

device_struct! {
    /// A codebook of a chunk.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct CodebookSize {
        /// Bits of the symbols of the sample that it is for.
        pub(super) bits: u64,
        /// Bytes of the serialized codebook.
        pub(super) bytes: u64,
    }
}

device_struct! {
    /// Results for the tiles of a batch: [`Encoded`](super::Encoded).
    #[derive(Clone, Copy)]
    pub(super) struct TileOutputs {
        pub(super) facts: CUdeviceptr as "TileFacts *",
        pub(super) strip_bits: CUdeviceptr as "uint16_t *",
        pub(super) words: CUdeviceptr as "uint32_t *",
        pub(super) taken: CUdeviceptr as "uint32_t *",
        pub(super) errors: CUdeviceptr as "uint64_t *",
        pub(super) counted: CUdeviceptr as "uint32_t *",
        pub(super) chunk_words: u64,
    }
}
