//! The layout of the record of a chunk of numbers, computed on the host from counts of the device.

use syncline_core::container::{ALIGNMENT, ChunkKind, RECORD_HEADER_LEN, SECTIONS, record_header, write_bases};
use syncline_core::numbers::raw_bits::PADDING;

use super::number_choices::CodedNumbers;
use super::records::{TOKENS_AT, write_table};
use super::structs::NumberPlaces;
use crate::device::Patches;

/// Sections of a chunk of numbers.
const PLAN: usize = 0;
const BASES: usize = 1;
const BINS: usize = 2;
pub(super) const SYMBOLS: usize = 3;
const RAW_LENGTHS: usize = 4;
const RAW_BITS: usize = 5;
const VERBATIM: usize = 6;
pub(super) const MASKS: usize = 7;
pub(super) const RESTS: usize = 8;

/// No place in the output.
const NOWHERE: u64 = u64::MAX;

/// The record of a chunk of numbers.
#[derive(Debug)]
pub(super) struct NumberRecord {
    /// Size of the record in bytes.
    pub bytes: u64,
    lengths: [u64; SECTIONS],
    /// Sections that the host has made.
    made: [(usize, Vec<u8>); 4],
    /// Bytes of the raw bits of the chunk before each tile.
    pub raw_before: Vec<u32>,
    verbatim: u64,
}

impl NumberRecord {
    /// Lays out the record of a chunk. `raw_bytes` are the bytes of the raw bits of its tiles, unspecified for those
    /// that are constant, and `streams` those of the streams of symbols, masks, and rests; 0 where there is none.
    pub fn new(chunk: &mut CodedNumbers, raw_bytes: &[u32], streams: [u64; 3], element_bytes: u64) -> Self {
        let (mut raw_before, mut raw, mut of_varying) = (Vec::with_capacity(raw_bytes.len()), 0, Vec::new());
        for (&bytes, &is_varying) in raw_bytes.iter().zip(&chunk.are_varying) {
            raw_before.push(raw);
            if is_varying {
                raw += bytes;
                of_varying.push(bytes);
            }
        }
        let mut raw_lengths = Vec::new();
        if raw > 0 {
            write_bases(&mut raw_lengths, &of_varying);
        }
        let verbatim = u64::from(chunk.verbatim);
        let made = [
            (PLAN, std::mem::take(&mut chunk.plan)),
            (BASES, std::mem::take(&mut chunk.bases)),
            (BINS, std::mem::take(&mut chunk.bins)),
            (RAW_LENGTHS, raw_lengths),
        ];
        let mut lengths = [0; SECTIONS];
        made.iter().for_each(|(section, bytes)| lengths[*section] = bytes.len() as u64);
        [lengths[SYMBOLS], lengths[MASKS], lengths[RESTS]] = streams;
        lengths[RAW_BITS] = if raw > 0 { u64::from(raw) + PADDING as u64 } else { 0 };
        lengths[VERBATIM] = if verbatim > 0 { elements_at(verbatim) + verbatim * element_bytes } else { 0 };
        let mut record = Self { bytes: 0, lengths, made, raw_before, verbatim };
        record.bytes = record.section_at(SECTIONS);
        record
    }

    /// Returns the offset of a section from the start of the record. The number after the last section gives the bytes
    /// of the record.
    pub fn section_at(&self, section: usize) -> u64 {
        let padded = self.lengths[..section].iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT as u64));
        TOKENS_AT + padded.sum::<u64>()
    }

    /// Returns the sections that the host has made, with their offsets from the start of the record.
    pub fn made(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.made.iter().map(|(section, bytes)| (self.section_at(*section), &bytes[..]))
    }

    /// Returns where the device writes raw bits and verbatim values of the record that starts at byte `at` of the
    /// output.
    pub fn places(&self, at: u64) -> NumberPlaces {
        let place = |section, offset| match self.lengths[section] {
            0 => NOWHERE,
            _ => at + self.section_at(section) + offset,
        };
        NumberPlaces {
            raw_bits: place(RAW_BITS, 0),
            positions: place(VERBATIM, 4),
            elements: place(VERBATIM, elements_at(self.verbatim)),
        }
    }

    /// Adds the bytes of the record that the host knows, but for sections: the header without the hash, the table,
    /// zeros between parts, and the number of verbatim values. The record starts at byte `at` of the output.
    pub fn patch(&self, at: u64, chunk: u64, patches: &mut Patches) {
        let mut head = [0; TOKENS_AT as usize];
        // A record that is written is shorter than its chunk stored raw, which has at most 2^25 bytes.
        head[..RECORD_HEADER_LEN].copy_from_slice(&record_header(ChunkKind::Numbers, chunk, self.bytes as u32));
        write_table(&mut head[RECORD_HEADER_LEN..], &self.lengths);
        patches.add(at, &head);
        for (section, &bytes) in self.lengths.iter().enumerate() {
            patches.align(at + self.section_at(section) + bytes);
        }
        if self.lengths[RAW_BITS] > 0 {
            let end = at + self.section_at(RAW_BITS) + self.lengths[RAW_BITS];
            patches.add(end - PADDING as u64, &[0; PADDING]);
        }
        if self.verbatim > 0 {
            let section = at + self.section_at(VERBATIM);
            patches.add(section, &(self.verbatim as u32).to_le_bytes());
            let end = 4 + 4 * self.verbatim;
            patches.add(section + end, &[0; 8][..(elements_at(self.verbatim) - end) as usize]);
        }
    }
}

/// Returns the offset of the elements in a list of so many verbatim values.
fn elements_at(verbatim: u64) -> u64 {
    (4 + 4 * verbatim).next_multiple_of(8)
}

/// Returns where nothing of a chunk is written.
pub(super) fn nowhere() -> NumberPlaces {
    NumberPlaces { raw_bits: NOWHERE, positions: NOWHERE, elements: NOWHERE }
}
