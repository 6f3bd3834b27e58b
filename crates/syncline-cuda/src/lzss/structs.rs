//! Structs that the kernels of the LZSS stage share with their launchers.

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `lzss/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[DecodeSection::C, PlaneStarts::C, EncodeSection::C, SectionPlan::C];

/// Maximum number of planes of 16-bit symbols of a chunk's literals.
pub(crate) const WORD_PLANES: usize = 4;

device_struct! {
    /// [`ChunkSections`] as the kernels read it.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct DecodeSection {
        /// Offsets in the input: of the blocks' counts, and in further fields of flags, lengths, distances and
        /// literals.
        pub(super) counts: u64,
        pub(super) flags: u64,
        pub(super) lengths: u64,
        pub(super) distances: u64,
        pub(super) literals: u64,
        /// Offset of the chunk's bytes in the output.
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
    /// Starts of the planes of a chunk's tokens, in symbols from the start of all planes with symbols of the same size:
    /// `PlaneStarts` in lzss/sections.cu.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct PlaneStarts {
        pub flags: u64,
        pub lengths: u64,
        pub distances: [u64; 2],
        /// Planes of the literals as bytes.
        pub bytes: [u64; 8],
        /// Planes of the literals as 16-bit symbols.
        pub words: [u64; WORD_PLANES],
    }
}

device_struct! {
    /// [`ChunkRange`] as the kernels read it.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct EncodeSection {
        /// Offset in the input in bytes, a multiple of 16.
        pub(super) offset: u64,
        pub(super) bytes: u64,
        /// Number of the chunk, for its record.
        pub(super) chunk: u64,
        pub(super) first_block: u32,
        pub(super) min_match: u32,
    }
}

device_struct! {
    /// The layout of a chunk's sections.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct SectionPlan {
        /// Bytes of sections 2 to 6: parameters and blocks, flags, lengths, distances, literals.
        pub section_bytes: [u32; 5],
        /// Number of data blocks.
        pub blocks: u32,
        /// Number of tokens.
        pub tokens: u32,
        /// Number of matches among the tokens.
        pub matches: u32,
        /// Bytes of all five sections, each rounded up to a multiple of 16, or of the record.
        pub bytes: u32,
        /// 0, or 1 if the sections did not fit into the output and are not written.
        pub status: u32,
    }
}
