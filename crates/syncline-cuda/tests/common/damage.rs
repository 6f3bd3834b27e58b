//! Damage that no checksum detects, and the comparison of both backends' results.

use std::ops::Range;

use syncline_core::container::RECORD_HEADER_LEN;
use syncline_cuda::error::CudaError;

use super::Random;

/// Flips a bit of a byte in this range of a record.
pub fn flip(record: &mut [u8], random: &mut Random, range: Range<u64>) {
    record[(range.start + random.below(range.end - range.start)) as usize] ^= 1 << random.below(8);
}

/// Replaces one of the `words` 32-bit words from `at` on by a wrong number.
pub fn lie(record: &mut [u8], random: &mut Random, at: u64, words: u64) {
    let at = (at + random.below(words) * 4) as usize;
    let lie = [0, 1, u32::MAX, 1 << 31, random.next() as u32][random.below(5) as usize];
    record[at..at + 4].copy_from_slice(&lie.to_le_bytes());
}

/// Truncates the record and updates its length in the header.
pub fn cut(record: &mut Vec<u8>, random: &mut Random) {
    let header = RECORD_HEADER_LEN;
    let kept = header + random.below((record.len() - header) as u64) as usize;
    record.truncate((kept / 16 * 16).max(header));
    let length = record.len() as u32;
    record[4..8].copy_from_slice(&length.to_le_bytes());
}

/// Numbers of damaged streams by result.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Rejected by the GPU.
    pub found: usize,
    /// Decompressed by both backends with the same result.
    pub harmless: usize,
}

impl Tally {
    /// Compares the arrays that the CPU and the GPU decompress from a damaged stream; `good` is the original array.
    pub fn add(
        &mut self,
        cpu: syncline_core::error::Result<Vec<u8>>,
        gpu: Result<Vec<u8>, CudaError>,
        good: &[u8],
        what: &str,
    ) {
        match (cpu, gpu) {
            (Ok(cpu), Ok(gpu)) => {
                assert!(cpu == gpu, "{what}: other elements than the CPU's");
                self.harmless += 1;
            }
            (Err(error), Ok(gpu)) => assert!(gpu == good, "{what}: {error}"),
            (_, Err(CudaError::Core(_))) => self.found += 1,
            (_, Err(other)) => panic!("{what}: {other}"),
        }
    }
}
