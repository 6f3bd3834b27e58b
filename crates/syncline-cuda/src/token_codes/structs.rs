//! Structs that the kernels of token streams share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `token_codes/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[TokenStream::C, TokenMemory::C];

device_struct! {
    /// A parsed token stream. Offsets are in bytes from the start of the input.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct TokenStream {
        /// The bitmap of zero groups, on a multiple of 4.
        pub(super) bitmap: u64,
        /// Classes of the live groups, two bits each.
        pub(super) classes: u64,
        /// The codewords and raw bits, on a multiple of 16.
        pub(super) words: u64,
        /// Number of their last word.
        pub(super) last_word: u32,
        pub(super) codebooks: u32,
        /// Two bits for each codebook.
        pub(super) modes: u32,
        pub(super) has_zero_groups: u32,
    }
}

device_struct! {
    /// Results of parsing token streams. There are four codebooks per chunk.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct TokenMemory {
        /// One per chunk.
        pub(super) streams: CUdeviceptr as "TokenStream *",
        pub(super) codebooks: CUdeviceptr as "struct CodebookDescriptor *",
        /// `TOKEN_TABLE` entries per codebook.
        pub(super) tables: CUdeviceptr as "uint2 *",
        /// Symbols in canonical order, room for the largest alphabet per codebook.
        pub(super) symbols: CUdeviceptr as "uint16_t *",
        /// Scratch memory of parsing, likewise.
        pub(super) marks: CUdeviceptr as "uint8_t *",
        /// First bit of each live group, and the end of the last: `slots + 1` per chunk.
        pub(super) starts: CUdeviceptr as "uint32_t *",
        /// Number of live groups before every 32nd group, `rank_stride` per chunk.
        pub(super) ranks: CUdeviceptr as "uint32_t *",
        /// Maximum groups of a chunk.
        pub(super) slots: u32,
        pub(super) rank_stride: u32,
    }
}
