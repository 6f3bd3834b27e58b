//! Damage that no checksum detects, and the comparison of both backends' results.

use std::ops::Range;

use syncline_core::container::{ChunkKind, RECORD_HEADER_LEN, SECTIONS};
use syncline_core::huffman::stream::HEADER_BYTES;
use syncline_cuda::error::CudaError;
use xxhash_rust::xxh3::Xxh3Default;

use super::Random;

/// Returns the number of mutants of a stream: `SYNCLINE_MUTANTS`, or this one if it is not set.
pub fn mutants(usual: u64) -> u64 {
    let requested = std::env::var("SYNCLINE_MUTANTS").ok();
    requested.map_or(usual, |number| number.parse().expect("SYNCLINE_MUTANTS is a number"))
}

/// Returns where the sections of a record are, in bytes from its start.
pub fn sections(record: &[u8]) -> Vec<Range<usize>> {
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap()) as usize;
    let mut end = RECORD_HEADER_LEN + 4 * SECTIONS;
    let mut section = |number: usize| {
        let length = word(RECORD_HEADER_LEN + 4 * number);
        let start = if length > 0 { end.next_multiple_of(16) } else { end };
        end = start + length;
        start..end
    };
    (0..SECTIONS).map(&mut section).collect()
}

/// Returns a record whose section `number` has these bytes, with the lengths and the hash of that.
pub fn with_section(record: &[u8], number: usize, bytes: &[u8]) -> Vec<u8> {
    let parts = sections(record);
    let mut made = record[..RECORD_HEADER_LEN + 4 * SECTIONS].to_vec();
    for (section, range) in parts.into_iter().enumerate() {
        let bytes = if section == number { bytes } else { &record[range] };
        let length = RECORD_HEADER_LEN + 4 * section;
        made[length..length + 4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        if !bytes.is_empty() {
            made.resize(made.len().next_multiple_of(16), 0);
            made.extend_from_slice(bytes);
        }
    }
    made.resize(made.len().next_multiple_of(16), 0);
    let length = made.len() as u32;
    made[4..8].copy_from_slice(&length.to_le_bytes());
    repair_checksum(&mut made);
    made
}

/// Changes something of a record: a byte of some section, more often near its start, or a word of the table of sections
/// or of a section's header.
pub fn mutate(record: &mut [u8], random: &mut Random) {
    let table_end = RECORD_HEADER_LEN + 4 * SECTIONS;
    let whole = 0..record.len() as u64;
    if record[16] == ChunkKind::Raw as u8 || record.len() < table_end {
        return flip(record, random, whole);
    }
    let parts = sections(record);
    // The table may be damaged already.
    let filled: Vec<_> =
        parts.into_iter().filter(|section| !section.is_empty() && section.end <= record.len()).collect();
    match random.below(12) {
        0 => lie(record, random, RECORD_HEADER_LEN as u64, SECTIONS as u64),
        1 => flip(record, random, 0..table_end as u64),
        choice => {
            let Some(section) = filled.get(random.below(filled.len().max(1) as u64) as usize) else { return };
            let start = section.start as u64;
            let length = match choice % 3 {
                0 => section.len().min(28),
                1 => section.len().min(150),
                _ => section.len(),
            } as u64;
            if choice < 4 && length >= 4 {
                lie(record, random, start, length / 4);
            } else {
                flip(record, random, start..start + length);
            }
        }
    }
}

/// Flips a bit of a byte in this range of a record.
fn flip(record: &mut [u8], random: &mut Random, range: Range<u64>) {
    record[(range.start + random.below(range.end - range.start)) as usize] ^= 1 << random.below(8);
}

/// Replaces one of the `words` 32-bit words from `at` on by a wrong number.
fn lie(record: &mut [u8], random: &mut Random, at: u64, words: u64) {
    let at = (at + random.below(words) * 4) as usize;
    let lie = [0, 1, u32::MAX, 1 << 31, random.next() as u32][random.below(5) as usize];
    record[at..at + 4].copy_from_slice(&lie.to_le_bytes());
}

/// Truncates the record and updates its length in the header.
fn cut(record: &mut Vec<u8>, random: &mut Random) {
    let header = RECORD_HEADER_LEN;
    let kept = header + random.below((record.len() - header) as u64) as usize;
    record.truncate((kept / 16 * 16).max(header));
    let length = record.len() as u32;
    record[4..8].copy_from_slice(&length.to_le_bytes());
}

/// Writes the correct hash into a record again.
pub fn repair_checksum(record: &mut [u8]) {
    let mut hash = Xxh3Default::new();
    hash.update(&record[..24]);
    hash.update(&record[32..]);
    record[24..32].copy_from_slice(&hash.digest().to_le_bytes());
}

/// Truncates a record, or changes one thing of it or two. Its checksum is then made right, but for one record in eight.
pub fn damage_record(record: &mut Vec<u8>, random: &mut Random) {
    if random.below(4) == 0 {
        cut(record, random);
    } else {
        (0..1 + random.below(2)).for_each(|_| mutate(record, random));
    }
    if random.below(8) != 0 {
        repair_checksum(record);
    }
}

/// Returns mutants of a record whose Huffman streams have other numbers of bits, another kind of index, or an index
/// that does not add up.
pub fn index_mutants(record: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    // One codebook, the symbol index, and groups of 128 symbols of one or two bytes.
    let is_stream = |&at: &usize| matches!(record[at + 8..at + 12], [7, 1 | 2, 2, 1]) && word(at + 36) == 0;
    let mut mutants = Vec::new();
    for at in (RECORD_HEADER_LEN..record.len() - HEADER_BYTES).step_by(16).filter(is_stream) {
        let mut change = |place: usize, by: u32| {
            let mut mutant = record.to_vec();
            mutant[place..place + 4].copy_from_slice(&word(place).wrapping_add(by).to_le_bytes());
            repair_checksum(&mut mutant);
            mutants.push(mutant);
        };
        let (bits, codebook_bytes, index_bytes) = (at + 24, at + 28, at + 32);
        change(at + 8, 0u32.wrapping_sub(2 << 16));
        change(bits, 1);
        change(bits, u32::MAX);
        change(index_bytes, 4);
        let bitmap_at = (at + HEADER_BYTES + word(codebook_bytes) as usize).next_multiple_of(4);
        let bitmap_bytes = if record[at + 15] == 1 { word(at).div_ceil(8) as usize } else { 0 };
        let index_at = (bitmap_at + bitmap_bytes).next_multiple_of(8);
        if word(index_bytes) >= 8 {
            // The position of the first index block, its shortest group, and the place of its deltas.
            change(index_at, 1);
            change(index_at + 4, 1);
            change(index_at + 4, 1 << 16);
        }
    }
    mutants
}

/// Numbers of damaged streams by result, which is the same on both backends.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Refused.
    pub refused: u64,
    /// Decompressed, to whatever values.
    pub read: u64,
}

impl Tally {
    /// Compares what the CPU and the GPU make of a damaged stream: both refuse it, or both read the same bytes.
    pub fn add(&mut self, cpu: syncline_core::error::Result<Vec<u8>>, gpu: Result<Vec<u8>, CudaError>, what: &str) {
        match (cpu, gpu) {
            (Ok(cpu), Ok(gpu)) => {
                let wrong = cpu.iter().zip(&gpu).position(|(a, b)| a != b);
                assert!(cpu == gpu, "{what}: differs from the CPU's at byte {wrong:?}");
                self.read += 1;
            }
            (Err(_), Err(CudaError::Core(_))) => self.refused += 1,
            (cpu, gpu) => panic!("{what}: the CPU says {:?}, the GPU {:?}", cpu.err(), gpu.err()),
        }
    }
}
