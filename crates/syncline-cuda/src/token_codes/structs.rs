//! Structs that the kernels of token streams share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use syncline_core::huffman::MAX_CLASSES;
use syncline_core::tokens::Mode;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `token_codes/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[
    TokenStream::C,
    TokenMemory::C,
    SymbolCounts::C,
    ModeBits::C,
    WideClass::C,
    WideSet::C,
    TokenGroups::C,
    TokenCodebook::C,
    ChunkCodebooks::C,
    TokenSizes::C,
    TokenLayout::C,
];

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
        pub(super) tables: CUdeviceptr as "uint32_t *",
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

device_struct! {
    /// How often the symbols of each mode but *wide* occur in a class of groups.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct SymbolCounts {
        pub(super) plain: [u32; Mode::Plain.alphabet()],
        pub(super) runs: [u32; Mode::Runs.alphabet()],
        /// Codes that mode *plain* has no symbol for.
        pub(super) outside: u32,
        /// Codes that mode *wide* has no symbol for.
        pub(super) outside_wide: u32,
    }
}

device_struct! {
    /// Estimates of the bits that a set of groups takes.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct ModeBits {
        /// In modes *plain* and *runs*.
        pub(super) bits: [u64; 2],
        /// Codes that mode *plain* has no symbol for.
        pub(super) outside: u32,
        /// Codes that mode *wide* has no symbol for.
        pub(super) outside_wide: u32,
    }
}

device_struct! {
    /// A class of groups of a stream.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct WideClass {
        pub(super) stream: u32,
        pub(super) number: u32,
    }
}

device_struct! {
    /// Classes of groups of a stream that are estimated together in mode *wide*.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct WideSet {
        pub(super) stream: u32,
        /// Bit `i` is set if class `i` is one of them.
        pub(super) classes: u32,
        /// The list entry of each class that was counted in this mode; `WIDE_NO_ENTRY` for others.
        pub(super) entries: [u32; MAX_CLASSES],
    }
}

device_struct! {
    /// The groups of a batch's chunks, `slots` for each.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct TokenGroups {
        /// 256 codes for each group.
        pub(super) codes: CUdeviceptr as "const int32_t *",
        /// Words: `token_codes/groups.cuh`.
        pub(super) groups: CUdeviceptr as "const uint32_t *",
        /// Class of each bin of activity of each chunk.
        pub(super) classes: CUdeviceptr as "const uint8_t *",
        pub(super) slots: u32,
        pub(super) chunks: u32,
    }
}

device_struct! {
    /// A codebook.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct TokenCodebook {
        /// First entry of its table: a packed codeword for each symbol, as in [`crate::huffman::codebook::unpack`].
        pub(super) table: u32,
        pub(super) mode: u32,
    }
}

device_struct! {
    /// The codebooks of a chunk.
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct ChunkCodebooks {
        pub(super) of: [TokenCodebook; MAX_CLASSES],
        /// One, or one for each class.
        pub(super) count: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Sizes of a token stream.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct TokenSizes {
        pub(crate) groups: u32,
        pub(crate) live_groups: u32,
        /// Bits of all codewords and raw bits.
        pub(crate) bits: u32,
        /// Words of the index.
        pub(crate) index_words: u32,
    }
}

device_struct! {
    /// The layout of the streams of a batch's chunks.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct TokenLayout {
        pub(super) sizes: CUdeviceptr as "TokenSizes *",
        /// First bit of each live group, and the end of the last.
        pub(super) starts: CUdeviceptr as "uint32_t *",
        /// The slot of each live group.
        pub(super) live_slots: CUdeviceptr as "uint32_t *",
        /// Bitmaps of the zero groups.
        pub(super) bitmaps: CUdeviceptr as "uint32_t *",
        /// Classes of the live groups.
        pub(super) classes: CUdeviceptr as "uint32_t *",
        pub(super) index: CUdeviceptr as "uint32_t *",
        /// Words of each chunk in the last three.
        pub(super) bitmap_words: u32,
        pub(super) class_words: u32,
        pub(super) index_words: u32,
        pub(super) unused: u32,
    }
}
