//! Structs that the kernels of lossless arrays share with their launchers.

use syncline_core::container::SECTIONS;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `lossless/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[HeaderPlane::C, RecordHeader::C, SampleTile::C];

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
