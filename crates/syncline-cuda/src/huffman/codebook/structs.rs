//! Structs that the kernels of codebooks share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `huffman/codebook/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[StreamCodes::C];

device_struct! {
    /// Device arrays of the streams whose codebooks are built.
    #[derive(Debug, Clone, Copy)]
    pub(in crate::huffman) struct StreamCodes {
        /// Bytes and longest codeword of each codebook, two 32-bit words.
        pub summaries: CUdeviceptr as "uint32_t *",
        /// Serialized codebooks, `SYMBOLS + 4` bytes each.
        pub bytes: CUdeviceptr as "uint8_t *",
        /// Number of codebooks that each stream uses.
        pub codebooks_used: CUdeviceptr as "uint32_t *",
        /// Status of each stream.
        pub status: CUdeviceptr as "uint32_t *",
        /// Bits of all codewords of each codebook.
        pub codebook_bits: CUdeviceptr as "uint64_t *",
        /// Finished codebooks of each stream; 0 between launches.
        pub finished: CUdeviceptr as "uint32_t *",
        /// Candidate trees, `CANDIDATE_TREES_WORDS` words for each codebook.
        pub trees: CUdeviceptr as "struct LimitedCode *",
        /// Finished blocks of each codebook; 0 between launches.
        pub arrived: CUdeviceptr as "uint32_t *",
    }
}
