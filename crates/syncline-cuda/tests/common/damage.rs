//! Damage that no checksum notices, and how both backends take it.

use std::ops::Range;

use syncline_core::container::RECORD_HEADER_LEN;
use syncline_cuda::error::CudaError;

use super::Random;

/// Flips a bit of a byte in this range of a record.
pub fn flip(record: &mut [u8], random: &mut Random, range: Range<u64>) {
    record[(range.start + random.below(range.end - range.start)) as usize] ^= 1 << random.below(8);
}

/// Puts a number that lies over one of the `words` words of 32 bits from `at` on.
pub fn lie(record: &mut [u8], random: &mut Random, at: u64, words: u64) {
    let at = (at + random.below(words) * 4) as usize;
    let lie = [0, 1, u32::MAX, 1 << 31, random.next() as u32][random.below(5) as usize];
    record[at..at + 4].copy_from_slice(&lie.to_le_bytes());
}

/// Cuts the end off, and says so in the header.
pub fn cut(record: &mut Vec<u8>, random: &mut Random) {
    let header = RECORD_HEADER_LEN;
    let kept = header + random.below((record.len() - header) as u64) as usize;
    record.truncate((kept / 16 * 16).max(header));
    let length = record.len() as u32;
    record[4..8].copy_from_slice(&length.to_le_bytes());
}

/// What became of damaged streams.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Refused by the GPU.
    pub found: usize,
    /// Decompressed to the same by both.
    pub harmless: usize,
}

impl Tally {
    /// Compares the CPU's and the GPU's arrays of a stream that was damaged, whose array is `good`.
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
