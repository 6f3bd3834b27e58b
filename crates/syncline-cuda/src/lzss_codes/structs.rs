//! Structs that the kernels of codes as LZSS tokens share with their launchers.

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `lzss_codes/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[NarrowCounts::C];

device_struct! {
    /// Counts of a chunk with radius 128.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct NarrowCounts {
        pub(super) codes: u32,
        pub(super) outliers: u32,
    }
}
