//! Parallel decoding without an index, by self-synchronization (Weissenberger and Schmidt, 2018, their form for
//! multicore processors).
//!
//! The bits are divided into one sequence per thread. A thread that starts at any bit soon reaches a true codeword
//! boundary and decodes correctly from there on. In phase 1, each thread decodes its sequence from its first bit and
//! records the codeword boundary after each subsequence. In phase 2, each sequence is decoded again, starting where the
//! previous one ended, until a recorded boundary is reached (synchronization). Then the symbols are counted, their
//! positions are computed by a prefix sum, and the symbols are written.
//!
//! **Cost.** Some codes never synchronize, for example if all codewords have the same length and it does not divide a
//! sequence. If the previous sequence did not synchronize, its end was wrong, and so was the start of this sequence,
//! which is then decoded again after the previous one. Every bit is thus decoded at most three times to find the
//! boundaries, and once to write the symbols: the work is at most about four times that of one thread, and the number
//! of rounds is bounded.

use rayon::prelude::*;

use super::StreamDecoder;
use super::ranges::{DecodedRange, RangeDecoder};
use crate::huffman::Symbol;

/// Bits between recorded boundaries. Longer than on a GPU (128): only to find out that two decoders are in step.
const CHECK_BITS: u32 = 1024;

/// Fewest bits that are worth a thread.
const LEAST_PER_THREAD: u32 = 16 * CHECK_BITS;

/// The record of phase 1 for a sequence: the range from its start to the first codeword at or after each subsequence
/// boundary.
struct Record {
    bits: std::ops::Range<u32>,
    ranges: Vec<DecodedRange>,
}

impl Record {
    fn new<S: Symbol>(decoder: RangeDecoder<'_, '_, '_, S>, bits: std::ops::Range<u32>) -> Self {
        let mut record = Self { bits: bits.clone(), ranges: Vec::new() };
        let mut so_far = DecodedRange { exit: bits.start, symbols: 0 };
        for end in record.boundaries() {
            let range = decoder.count(so_far.exit, end);
            so_far = DecodedRange { exit: range.exit, symbols: so_far.symbols + range.symbols };
            record.ranges.push(so_far);
        }
        record
    }

    /// Ends of the subsequences; the last is the end of the sequence.
    fn boundaries(&self) -> impl Iterator<Item = u32> + use<> {
        let end = self.bits.end;
        (self.bits.start..end).step_by(CHECK_BITS as usize).map(move |start| end.min(start.saturating_add(CHECK_BITS)))
    }

    /// Decodes the sequence starting at `entry`, shortly after its first bit, until a codeword boundary equals a
    /// recorded one.
    fn resume<S: Symbol>(&self, decoder: RangeDecoder<'_, '_, '_, S>, entry: u32) -> DecodedRange {
        let mut so_far = DecodedRange { exit: entry, symbols: 0 };
        for (end, recorded) in self.boundaries().zip(&self.ranges) {
            let range = decoder.count(so_far.exit, end);
            so_far = DecodedRange { exit: range.exit.max(so_far.exit), symbols: so_far.symbols + range.symbols };
            if so_far.exit == recorded.exit {
                let all = self.ranges.last().unwrap_or(recorded);
                return DecodedRange { exit: all.exit, symbols: so_far.symbols + all.symbols - recorded.symbols };
            }
        }
        so_far
    }
}

/// Decodes all coded groups; returns how many symbols there were.
pub fn decode<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, dense: &mut [S], threads: usize) -> usize {
    let bits = decoder.stream.codeword_bits();
    let parts = (threads as u64).min(u64::from(bits / LEAST_PER_THREAD)).max(1);
    let ranges = RangeDecoder(decoder);
    if parts == 1 {
        return ranges.write(0, bits, dense).symbols;
    }
    let cuts: Vec<u32> = (0..=parts).map(|part| (u64::from(bits) * part / parts) as u32).collect();
    let records: Vec<Record> = cuts.par_windows(2).map(|w| Record::new(ranges, w[0]..w[1])).collect();

    let guessed_entry = |part: usize| match part.checked_sub(1) {
        Some(before) => records[before].ranges.last().map_or(0, |range| range.exit),
        None => 0,
    };
    let resumed: Vec<DecodedRange> =
        records.par_iter().enumerate().map(|(part, record)| record.resume(ranges, guessed_entry(part))).collect();

    let mut bounds = vec![0];
    let mut counts = Vec::with_capacity(records.len());
    let mut entry = 0;
    for (part, record) in records.iter().enumerate() {
        let range = if entry == guessed_entry(part) { resumed[part] } else { record.resume(ranges, entry) };
        entry = range.exit;
        counts.push(range.symbols);
        bounds.push(entry);
    }
    // The write of a part ends where the next begins, not at the cut.
    write_counted(ranges, &bounds, &counts, dense)
}

/// Decodes between successive bounds (each the start of a codeword or the end of all), in parallel, given the number of
/// symbols of each part; returns how many symbols there were.
fn write_counted<S: Symbol>(
    decoder: RangeDecoder<'_, '_, '_, S>,
    bounds: &[u32],
    counts: &[usize],
    mut dense: &mut [S],
) -> usize {
    let mut parts = Vec::with_capacity(counts.len());
    for (bound, &count) in bounds.windows(2).zip(counts) {
        // Damaged codewords may count to more than there is room for.
        let (part, rest) = dense.split_at_mut(count.min(dense.len()));
        dense = rest;
        parts.push((bound, part));
    }
    parts.into_par_iter().map(|(bound, part)| decoder.write(bound[0], bound[1], part).symbols).sum()
}
