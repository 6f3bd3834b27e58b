//! Structs that the kernels of lossless arrays share with their launchers.

use cudarc::driver::sys::CUdeviceptr;
use syncline_core::container::SECTIONS;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `lossless/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[
    CopyRange::C,
    Patch::C,
    CountedPlane::C,
    PlaneJoin::C,
    HeaderPlane::C,
    RecordHeader::C,
    TileSummary::C,
    ChunkSource::C,
    SampleTile::C,
];

/// Maximum number of planes of a chunk: flags, lengths, two of distances, eight of literals.
const PLANES: usize = 12;

device_struct! {
    /// Bytes to copy within device memory.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct CopyRange {
        pub(super) from: CUdeviceptr as "const uint8_t *",
        pub(super) to: CUdeviceptr as "uint8_t *",
        pub(super) bytes: u64,
    }
}

device_struct! {
    /// Bytes that the host writes to an offset in the output.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Patch {
        pub(super) at: u64,
        pub(super) bytes: u32,
        pub(super) unused: u32,
        pub(super) data: [u8; 16],
    }
}

device_struct! {
    /// Bytes of a plane whose values are counted: `Plane` in the source.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct CountedPlane {
        /// Index of the first byte.
        pub start: u64,
        /// Number of bytes.
        pub count: u64,
    }
}

device_struct! {
    /// Planes to join: `PlaneJoin` in the source.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct PlaneJoin {
        /// Destination of the joined values.
        pub to: CUdeviceptr as "uint8_t *",
        /// The planes.
        pub from: [CUdeviceptr; 8] as "const uint8_t *",
        /// Symbols of each plane.
        pub count: u32,
        /// Number of planes, at least 2.
        pub stride: u32,
        /// Bytes of a symbol.
        pub symbol_bytes: u32,
        /// Index of the chunk's status word.
        pub chunk: u32,
    }
}

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
        /// Number of elements that the tokens decode to.
        pub elements: u32,
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
    /// Counts over the tiles of a chunk.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct TileSummary {
        /// Tiles that are not constant.
        pub live_tiles: u32,
        /// Elements of the tiles that are not constant.
        pub live_elements: u32,
        /// 32-bit words of the packed bases.
        pub base_words: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Source of the elements of a chunk's tiles.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct ChunkSource {
        pub(super) bytes: CUdeviceptr as "const uint8_t *",
        pub(super) kind: u64,
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
