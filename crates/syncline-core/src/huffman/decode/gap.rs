//! Parallel decoding with the gap index. The index gives the first codeword of every subsequence, so that all threads
//! can start immediately. The first pass counts the symbols of each part, a prefix sum gives their positions in the
//! output, and the second pass writes them.

use rayon::prelude::*;

use super::StreamDecoder;
use super::spans::Spans;
use crate::huffman::{SUBSEQUENCE_BITS, Symbol, index};

/// Fewest subsequences that are worth a thread.
const LEAST_PER_THREAD: usize = 64;

/// Decodes all live groups; returns how many symbols there were.
pub fn decode<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, dense: &mut [S], threads: usize) -> usize {
    let stream = decoder.stream;
    let bits = stream.codeword_bits();
    let subsequences = bits.div_ceil(SUBSEQUENCE_BITS) as usize;
    let parts = threads.min(subsequences / LEAST_PER_THREAD).max(1);
    let width = index::gap_width(stream.longest_codeword());
    let bound = |part: usize| {
        let first = subsequences * part / parts;
        if first == subsequences {
            return bits;
        }
        let start = first as u32 * SUBSEQUENCE_BITS;
        (start + index::read_gap(stream.gaps, width, first)).min(bits)
    };
    let bounds: Vec<u32> = (0..=parts).map(bound).collect();
    write_parts(Spans(decoder), &bounds, dense)
}

/// Decodes between successive bounds (each the start of a codeword or the end of all), in parallel; returns how many
/// symbols there were.
pub fn write_parts<S: Symbol>(spans: Spans<'_, '_, '_, S>, bounds: &[u32], dense: &mut [S]) -> usize {
    if let &[start, end] = bounds {
        return spans.write(start, end, dense).symbols;
    }
    let counts: Vec<usize> = bounds.par_windows(2).map(|w| spans.count(w[0], w[1]).symbols).collect();
    write_counted(spans, bounds, &counts, dense)
}

/// Writes the parts like [`write_parts`], if the number of symbols of each part is known.
pub fn write_counted<S: Symbol>(
    spans: Spans<'_, '_, '_, S>,
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
    parts.into_par_iter().map(|(bound, part)| spans.write(bound[0], bound[1], part).symbols).sum()
}
