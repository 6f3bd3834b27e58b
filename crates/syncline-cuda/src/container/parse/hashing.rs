//! Hashes of short records, compared by the kernel that parses the records.

use cudarc::driver::{CudaViewMut, DevicePtrMut};

use crate::container::hash::{BLOCK, MAX_PARTS, sums_words};
use crate::container::structs::DeviceHashing;
use crate::device::{Arena, Frame};
use crate::error::{CudaError, Result};

/// Longest records in bytes whose hashes are compared while they are parsed. Later kernels wait for both: parsing takes
/// about 20 microseconds, and the chain of XXH3 for this many bytes about 9 (computed from 30 cycles per KiB). Longer
/// records were not measured.
const MAX_RECORD_BYTES: u32 = 512 << 10;
/// Bytes of a record that one block reads.
const BYTES_PER_BLOCK: u32 = 32 << 10;

/// Memory for comparing the hashes of records.
#[derive(Debug)]
pub struct Hashing<'h, 'm> {
    /// Length of the longest record in bytes.
    pub longest: u32,
    /// One word per record, which is 0 before and after.
    pub progress: &'h mut CudaViewMut<'m, u64>,
    /// One word per record: whether its hash differs from the stored one. A record that does not lie within the input
    /// does not differ.
    pub differs: &'h mut CudaViewMut<'m, u32>,
}

impl Hashing<'_, '_> {
    /// Returns whether comparing hashes in the parsing kernel is faster for records of at most `longest` bytes.
    pub fn pays(longest: u32) -> bool {
        longest <= MAX_RECORD_BYTES
    }

    /// Returns the bytes of arena memory for `records` records of at most `longest` bytes.
    pub fn workspace(records: usize, longest: u32) -> usize {
        Arena::bytes_for::<u64>(sums_words(records, longest))
    }

    /// Returns the kernel's argument. Allocates room for the sums of each whole KiB of each record, and checks that
    /// there are one word of progress and one flag for each of `records` records.
    pub(crate) fn argument(self, frame: &mut Frame<'_>, records: usize) -> Result<DeviceHashing> {
        if self.progress.len() != records || self.differs.len() != records {
            return Err(CudaError::invalid("every record needs a progress word and a flag"));
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
