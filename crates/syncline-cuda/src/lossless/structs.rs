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

/// Most planes of a chunk: flags, lengths, two of distances, eight of literals.
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
    /// Bytes that the host knows, for a place in the output.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Patch {
        pub(super) at: u64,
        pub(super) bytes: u32,
        pub(super) unused: u32,
        pub(super) data: [u8; 16],
    }
}

device_struct! {
    /// Bytes of a plane that are counted: `Plane` in the source.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct CountedPlane {
        /// The first of them.
        pub start: u64,
        /// How many.
        pub count: u64,
    }
}

device_struct! {
    /// Planes to join: `PlaneJoin` in the source.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct PlaneJoin {
        /// Where the joined values go.
        pub to: CUdeviceptr as "uint8_t *",
        /// The planes.
        pub from: [CUdeviceptr; 8] as "const uint8_t *",
        /// Symbols of each plane.
        pub count: u32,
        /// Planes, at least 2.
        pub stride: u32,
        /// Bytes of a symbol.
        pub symbol_bytes: u32,
        /// The number of its chunk.
        pub chunk: u32,
    }
}

device_struct! {
    /// A plane in a record.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct HeaderPlane {
        /// Offset in the record.
        pub at: u32,
        /// Bytes there.
        pub bytes: u32,
        /// Whether they are a Huffman stream.
        pub coded: u32,
    }
}

device_struct! {
    /// What a record says of itself. All of it has been checked against the record's length and the
    /// chunk's elements.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct RecordHeader {
        pub(super) status: u32,
        pub(super) kind: u32,
        pub section_at: [u32; SECTIONS],
        pub section_bytes: [u32; SECTIONS],
        /// Elements that the tokens stand for.
        pub elements: u32,
        pub width: u32,
        pub level: u32,
        pub min_match: u32,
        /// Bytes of a symbol of the literals' planes; 0: nothing is in planes.
        pub literal_bytes: u32,
        pub tokens: u32,
        pub matches: u32,
        /// Words of 64 flags.
        pub flag_words: u32,
        pub planes: [HeaderPlane; PLANES],
    }
}

device_struct! {
    /// What the tiles of a chunk come to.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct TileSummary {
        /// Tiles that are not constant.
        pub live_tiles: u32,
        /// Their elements.
        pub live_elements: u32,
        /// Words of the packed bases.
        pub base_words: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Where the tiles of a chunk come from.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct ChunkSource {
        pub(super) bytes: CUdeviceptr as "const uint8_t *",
        pub(super) kind: u64,
    }
}

device_struct! {
    /// A tile that is looked at.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct SampleTile {
        pub(super) number: u64,
        pub(super) at: u64,
    }
}
