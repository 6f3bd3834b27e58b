//! Structs that the kernels of transfers share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `device/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[CopyRange::C, Patch::C, PlaneJoin::C];

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
    /// Bytes that the host writes to an offset in the output.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Patch {
        pub(super) at: u64,
        pub(super) bytes: u32,
        pub(super) unused: u32,
        pub(super) data: [u8; 16],
    }
}

device_struct! {
    /// Planes to join: `PlaneJoin` in the source.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct PlaneJoin {
        /// Destination of the joined values.
        pub to: CUdeviceptr as "uint8_t *",
        /// The planes.
        pub from: [CUdeviceptr; 8] as "const uint8_t *",
        /// Symbols of each plane.
        pub count: u32,
        /// Number of planes, at least 2.
        pub stride: u32,
        /// Bytes of a symbol.
        pub symbol_bytes: u32,
        /// Index of the chunk's status word.
        pub chunk: u32,
    }
}
