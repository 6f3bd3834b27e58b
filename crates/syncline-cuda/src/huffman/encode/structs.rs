//! Structs that the kernels of Huffman encoding share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `huffman/encode/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] =
    &[StreamInput::C, StreamPlan::C, SegmentSums::C, CodebookArrays::C, EncodeScratch::C];

device_struct! {
    /// A stream of a batch. The host has checked that its groups lie within the input.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct StreamInput {
        pub(super) first_group: u64,
        pub(super) groups: u32,
        pub(super) free_symbol: u32,
    }
}

device_struct! {
    /// Layout and statistics of one encoded stream.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct StreamPlan {
        /// Number of groups.
        pub groups: u32,
        /// Number of coded groups, which have codewords.
        pub coded_groups: u32,
        /// Bits of all codewords.
        pub codeword_bits: u32,
        /// Sum of the symbols of coded groups.
        pub sum: u32,
        /// Sum of the symbols of coded groups times their positions, counted from 1.
        pub weighted: u32,
        /// Number of codebooks: 1, or 4 if separate codebooks for the classes are shorter.
        pub codebooks: u32,
        /// Bytes of the codebooks.
        pub codebook_bytes: u32,
        /// Offset of the bitmap of zero-bit groups in the stream, in bytes.
        pub bitmap_at: u32,
        /// Offset of the index in bytes.
        pub index_at: u32,
        /// Bytes of the index.
        pub index_bytes: u32,
        /// Offset of the codewords in bytes.
        pub codewords_at: u32,
        /// Bytes of the stream.
        pub stream_bytes: u32,
        /// Length of the longest codeword in bits.
        pub longest: u32,
        /// 1 if there is a bitmap of zero-bit groups, else 0.
        pub has_free: u32,
        /// The symbol of which all symbols of a zero-bit group consist.
        pub free_symbol: u32,
        /// 0 if the stream is valid. Bit 0: a symbol has no codeword; bit 1: the stream does not fit into the output.
        pub status: u32,
    }
}

device_struct! {
    /// The results of encoding a segment.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct SegmentSums {
        pub(super) bits: u32,
        /// Coded groups, and `SEGMENT_INVALID` if a symbol had no codeword.
        pub(super) coded_groups: u32,
        /// Checksum of the coded groups, with positions relative to the segment.
        pub(super) sum: u32,
        pub(super) weighted: u32,
    }
}

device_struct! {
    /// The serialized codebooks of all streams.
    #[derive(Clone, Copy)]
    pub(super) struct CodebookArrays = "Codebooks" {
        /// For each codebook: its bytes and its longest codeword in bits.
        pub(super) summaries: CUdeviceptr as "const uint32_t *",
        /// Number of codebooks that each stream uses.
        pub(super) used: CUdeviceptr as "const uint32_t *",
        pub(super) bytes: CUdeviceptr as "const uint8_t *",
    }
}

device_struct! {
    /// Scratch memory of all streams, from the encoded segments to the written streams. The part of a stream in each
    /// array has the size that the largest stream needs.
    #[derive(Clone, Copy)]
    pub struct EncodeScratch = "EncodeScratchFields" {
        pub(super) sums: CUdeviceptr as "const SegmentSums *",
        pub(super) group_bits: CUdeviceptr as "const uint16_t *",
        /// For each segment: the bits before it, and the coded groups before it.
        pub(super) starts: CUdeviceptr as "uint2 *",
        /// Bits of the coded groups, without the zero-bit groups between them.
        pub(super) coded_group_bits: CUdeviceptr as "uint16_t *",
        pub(super) free_bitmap: CUdeviceptr as "uint32_t *",
        /// Descriptors of the symbol index.
        pub(super) descriptors: CUdeviceptr as "uint64_t *",
    }
}
