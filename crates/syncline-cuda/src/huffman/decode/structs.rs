//! Structs that the kernels of Huffman decoding share with their launchers.

use syncline_core::huffman::lengths::MAX_LENGTH;

use crate::device_struct::{DeviceStruct, device_struct};

/// Lengths of codewords, with 0.
pub(super) const LENGTHS: usize = MAX_LENGTH as usize + 1;

/// The structs of `huffman/decode/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] =
    &[StreamDescriptor::C, CodebookDescriptor::C, BatchTotals::C, StreamLocation::C, DeviceLimits::C];

device_struct! {
    /// One stream of a batch. Offsets are in bytes from the start of the input.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct StreamDescriptor {
        pub(super) words: u64,
        pub(super) index: u64,
        pub(super) bitmap: u64,
        /// Index of its first symbol in the output.
        pub(super) out: u64,
        /// Index of its first group in the array of classes.
        pub(super) classes: u64,
        pub(super) groups: u32,
        pub(super) coded_groups: u32,
        pub(super) bits: u32,
        pub(super) index_bytes: u32,
        pub(super) sum: u32,
        pub(super) weighted: u32,
        pub(super) first_codebook: u32,
        pub(super) codebooks: u32,
        pub(super) zero_bit_symbol: u32,
        pub(super) longest: u32,
        pub(super) has_zero_bit_groups: u32,
        /// Index of the stream's first entry in the map from coded groups to groups.
        pub(super) map: u32,
        /// Index blocks of 32 coded groups in the previous streams.
        pub(super) first_index_block: u32,
        pub(super) first_sequence: u32,
        pub(super) first_subsequence: u32,
        pub(super) first_bitmap_block: u32,
    }
}

device_struct! {
    /// A canonical code.
    #[derive(Debug, Clone, Copy)]
    pub struct CodebookDescriptor {
        /// For each length, one past its last codeword, left-aligned, saturating.
        pub(super) limit: [u32; LENGTHS],
        /// For each length, the rank of the first symbol minus the first codeword, modulo 2^32.
        pub(super) offset: [u32; LENGTHS],
        pub(super) longest: u32,
        /// Index of the first symbol in the array of symbols in canonical order.
        pub(super) symbols: u32,
        pub(super) symbol_count: u32,
        /// Base of symbols in table entries.
        pub(super) base: u32,
        /// Mask of symbols in table entries.
        pub(super) mask: u32,
        /// Nonzero: the stream does not have this codebook, and it needs no tables.
        pub(super) absent: u32,
    }
}

device_struct! {
    /// Sums over the streams of a batch. Grids may be larger than these: if a batch is parsed on the device, the host
    /// knows upper bounds only, and the surplus blocks return at once.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct BatchTotals {
        pub(super) index_blocks: u32,
        pub(super) sequences: u32,
        pub(super) bitmap_blocks: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Location of a stream and of its symbols. In device memory and not trusted.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct StreamLocation {
        /// Offset of the stream in the input in bytes, a multiple of 16.
        pub offset: u64,
        /// Index of its first symbol in the output, a multiple of 16 bytes.
        pub out: u64,
        /// Index of its first group in the array of classes, for streams with several codebooks.
        pub classes: u64,
        /// Maximum number of bytes of the stream.
        pub length: u32,
        /// Capacity of the output in groups.
        pub groups: u32,
    }
}

device_struct! {
    /// Limits of all locations. A stream that exceeds them is treated as damaged.
    #[derive(Clone, Copy)]
    pub(super) struct DeviceLimits = "Limits" {
        pub(super) input_bytes: u64,
        pub(super) output_symbols: u64,
        pub(super) classes: u64,
        /// Maximum bytes of a stream.
        pub(super) length: u32,
        /// Maximum groups of a stream.
        pub(super) groups: u32,
    }
}
