//! Hashes of short records, compared by the kernel that parses them.

#![allow(unsafe_code)]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaViewMut, DevicePtrMut, DeviceRepr};

use crate::container::hash::{BLOCK, MAX_PARTS, sums_words};
use crate::device::{Arena, Frame};
use crate::error::{CudaError, Result};

/// Longest records whose hashes are compared while they are parsed, in bytes. What comes behind waits for both: parsing
/// takes some 20 microseconds, the chain of XXH3 by reckoning 9 for so many (30 cycles a KiB). Longer ones have not
/// been timed so.
const MAX_RECORD_BYTES: u32 = 512 << 10;
/// Bytes of a record that a block has.
const BYTES_PER_BLOCK: u32 = 32 << 10;

/// What comparing records' hashes takes.
#[derive(Debug)]
pub struct Hashing<'h, 'm> {
    /// Bytes of the longest record.
    pub longest: u32,
    /// A word a record that is 0, and is so again afterwards.
    pub progress: &'h mut CudaViewMut<'m, u64>,
    /// Whether a record's hash is another than it says, a word each. Not so of records that are not wholly there.
    pub differs: &'h mut CudaViewMut<'m, u32>,
}

/// `Hashing` of the kernel.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct DeviceHashing {
    sums: CUdeviceptr,
    progress: CUdeviceptr,
    differs: CUdeviceptr,
    longest: u32,
    pub(super) parts: u32,
}

// SAFETY: plain numbers without padding, laid out as the kernel's struct.
unsafe impl DeviceRepr for DeviceHashing {}

impl Hashing<'_, '_> {
    /// Whether this is worth it where no record has more than `longest` bytes.
    pub fn pays(longest: u32) -> bool {
        longest <= MAX_RECORD_BYTES
    }

    /// Bytes of an arena that it takes for so many records of up to `longest` bytes.
    pub fn workspace(records: usize, longest: u32) -> usize {
        Arena::bytes_for::<u64>(sums_words(records, longest))
    }

    /// With its scratch memory: room for the sums of each whole KiB of each record, and a word of progress and one to
    /// write for each of `records`.
    pub(super) fn on_device(self, frame: &mut Frame<'_>, records: usize) -> Result<DeviceHashing> {
        if self.progress.len() != records || self.differs.len() != records {
            return Err(CudaError::invalid("there must be a word for each record"));
        }
        let stream = frame.stream().clone();
        let mut sums = frame.slice::<u64>(sums_words(records, self.longest))?;
        Ok(DeviceHashing {
            sums: sums.device_ptr_mut(&stream).0,
            progress: self.progress.device_ptr_mut(&stream).0,
            differs: self.differs.device_ptr_mut(&stream).0,
            longest: self.longest / BLOCK,
            parts: self.longest.div_ceil(BYTES_PER_BLOCK).clamp(1, MAX_PARTS),
        })
    }
}
