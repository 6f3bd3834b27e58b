//! Decoding with the symbol index: every group's start is known, so groups are decoded side by side, each to its place.
//! The codewords of a group must end where those of the next one start.

use std::ops::Range;

use rayon::prelude::*;

use super::interleaved::InterleavedDecoder;
use super::lookup::Layout;
use super::{StreamDecoder, direct};
use crate::huffman::{Checksum, Symbol};
use crate::simd::{self, InstructionSet, Kernel};

/// Groups decoded side by side. Five to ten are equally fast (measured); fewer leave less undone at the end of a range.
const LANES: usize = 6;

/// Groups that a thread decodes at a time.
const GROUPS_PER_TASK: usize = 1024;

/// Decodes all groups with up to `threads` threads. Returns `None` if a group does not end where it must.
pub fn decode_all<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, out: &mut [S], threads: usize) -> Option<Checksum> {
    let groups = decoder.stream.groups();
    if threads <= 1 {
        return decode(decoder, 0..groups, out);
    }
    let per_task = groups.div_ceil(threads).clamp(1, GROUPS_PER_TASK);
    out.par_chunks_mut(per_task * decoder.stream.group_len())
        .enumerate()
        .map(|(i, out)| decode(decoder, i * per_task..(i * per_task + per_task).min(groups), out))
        .try_reduce(Checksum::default, |mut a, b| {
            a.add(b);
            Some(a)
        })
}

/// Decodes the groups of `range` to `out`, which has their length. Returns `None` if one does not end where it must.
pub fn decode<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, range: Range<usize>, out: &mut [S]) -> Option<Checksum> {
    let rank = decoder.rank(range.start);
    if !decoder.direct.is_empty() {
        return match decoder.stream.group_len() {
            64 => simd::run(direct::Decoding::<S, 64> { decoder, range, rank, out: out.as_chunks_mut().0 }),
            _ => simd::run(direct::Decoding::<S, 128> { decoder, range, rank, out: out.as_chunks_mut().0 }),
        };
    }
    match (decoder.lookups[0].layout, decoder.stream.group_len()) {
        (Layout::Narrow, 64) => simd::run(Decoding::<S, 1, 64> { decoder, range, rank, out: out.as_chunks_mut().0 }),
        (Layout::Narrow, _) => simd::run(Decoding::<S, 1, 128> { decoder, range, rank, out: out.as_chunks_mut().0 }),
        (Layout::Wide, 64) => simd::run(Decoding::<S, 2, 64> { decoder, range, rank, out: out.as_chunks_mut().0 }),
        (Layout::Wide, _) => simd::run(Decoding::<S, 2, 128> { decoder, range, rank, out: out.as_chunks_mut().0 }),
    }
}

/// `WIDTH`: bytes of a symbol in the tables; `LEN`: symbols in a group.
struct Decoding<'d, 's, 'a, S, const WIDTH: usize, const LEN: usize> {
    decoder: &'d StreamDecoder<'s, 'a, S>,
    range: Range<usize>,
    rank: usize,
    out: &'d mut [[S; LEN]],
}

impl<S: Symbol, const WIDTH: usize, const LEN: usize> Kernel for Decoding<'_, '_, '_, S, WIDTH, LEN> {
    type Output = Option<Checksum>;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Option<Checksum> {
        let Self { decoder, range, rank, out } = self;
        let stream = decoder.stream;
        let words = stream.words;
        let first = range.start;
        let mut targets = Targets { decoder, next: first, end: range.end, rank };
        let mut places: [Option<Target>; LANES] = [None; LANES];
        let mut decoders: [InterleavedDecoder<'_>; LANES] =
            std::array::from_fn(|_| InterleavedDecoder::new(&decoder.lookups[0], &decoder.canonical[0], 0));
        let mut active = 0;
        for (lane, place) in decoders.iter_mut().zip(&mut places) {
            *place = targets.start_next(lane, out, first);
            active += usize::from(place.is_some());
        }
        let (mut checksum, mut are_whole) = (Checksum::default(), true);
        // Lanes without a group idle along: only while the last groups of a range are decoded.
        while active > 0 {
            for (lane, place) in decoders.iter_mut().zip(&mut places) {
                lane.step::<WIDTH>(&words);
                if lane.count() < LEN {
                    continue;
                }
                let Some(done) = *place else {
                    lane.restart(&decoder.lookups[0], &decoder.canonical[0], 0);
                    continue;
                };
                let lengths = stream.codebooks[decoder.class(done.group)].lengths();
                are_whole &= lane.end_of::<WIDTH>(LEN, lengths) == stream.starts[done.rank + 1];
                let group = &mut out[done.group - first];
                lane.take_group::<S, WIDTH, LEN>(group);
                checksum.add(Checksum::of_group(group, (done.rank * LEN) as u32));
                *place = targets.start_next(lane, out, first);
                active -= usize::from(place.is_none());
            }
        }
        are_whole.then_some(checksum)
    }
}

/// A coded group, and its number among all coded groups.
#[derive(Clone, Copy)]
struct Target {
    group: usize,
    rank: usize,
}

/// Walks over groups.
struct Targets<'d, 's, 'a, S> {
    decoder: &'d StreamDecoder<'s, 'a, S>,
    next: usize,
    end: usize,
    rank: usize,
}

impl<'d, S: Symbol> Targets<'d, '_, '_, S> {
    /// Starts `lane` on the next coded group; fills the zero-bit ones before it. `out` starts at group `first`.
    #[inline(always)]
    fn start_next<const LEN: usize>(
        &mut self,
        lane: &mut InterleavedDecoder<'d>,
        out: &mut [[S; LEN]],
        first: usize,
    ) -> Option<Target> {
        let Self { decoder, .. } = *self;
        while self.next < self.end {
            let group = self.next;
            self.next += 1;
            if decoder.stream.is_zero_bit(group) {
                out[group - first] = [decoder.stream.zero_bit_symbol(); LEN];
                continue;
            }
            let target = Target { group, rank: self.rank };
            self.rank += 1;
            let class = decoder.class(group);
            lane.restart(&decoder.lookups[class], &decoder.canonical[class], decoder.stream.starts[target.rank]);
            return Some(target);
        }
        None
    }
}
