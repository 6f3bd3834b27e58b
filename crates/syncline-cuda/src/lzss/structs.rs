//! Structs that the kernels of the LZSS stage share with their launchers.

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `lzss/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[DecodeSection::C, PlaneStarts::C, EncodeSection::C, SectionPlan::C];

/// Planes of two bytes that the literals of a chunk may have.
pub(crate) const WORD_PLANES: usize = 4;

device_struct! {
    /// [`DecodeSpan`] as the kernels read it.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct DecodeSection {
        /// Offset in the input of the counts of the blocks; of the flags, lengths, distances and literals likewise.
        pub(super) counts: u64,
        pub(super) flags: u64,
        pub(super) lengths: u64,
        pub(super) distances: u64,
        pub(super) literals: u64,
        /// Offset in the output.
        pub(super) out: u64,
        /// Bytes of the symbols, the last of which may be incomplete.
        pub(super) bytes: u64,
        pub(super) flag_bytes: u32,
        pub(super) length_bytes: u32,
        pub(super) distance_bytes: u32,
        pub(super) literal_bytes: u32,
        pub(super) first_block: u32,
        pub(super) min_match: u32,
        /// The chunk that a status is reported for.
        pub(super) chunk: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Where the planes of a chunk's tokens start, in symbols from the start of all with as many bytes: `PlaneStarts`
    /// in lzss/sections.cu.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct PlaneStarts {
        pub flags: u64,
        pub lengths: u64,
        pub distances: [u64; 2],
        /// Of the literals, in bytes.
        pub bytes: [u64; 8],
        /// Of the literals, in symbols of two bytes.
        pub words: [u64; WORD_PLANES],
    }
}

device_struct! {
    /// [`Span`] as the kernels read it.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct EncodeSection {
        /// In the input, a multiple of 16.
        pub(super) offset: u64,
        pub(super) bytes: u64,
        /// Number of the chunk, for its record.
        pub(super) chunk: u64,
        pub(super) first_block: u32,
        pub(super) min_match: u32,
    }
}

device_struct! {
    /// What a chunk's sections came out as.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct SectionPlan {
        /// Bytes of sections 2 to 6: parameters and blocks, flags, lengths, distances, literals.
        pub section_bytes: [u32; 5],
        /// Blocks.
        pub blocks: u32,
        /// Tokens.
        pub tokens: u32,
        /// Matches among them.
        pub matches: u32,
        /// Bytes of all five sections, each up to a multiple of 16, or of the record.
        pub bytes: u32,
        /// 0, or 1 if they did not fit into the room given: they are then not written.
        pub status: u32,
    }
}
