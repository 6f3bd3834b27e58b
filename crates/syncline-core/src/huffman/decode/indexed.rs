//! Decoding with the symbol index: every group's start is known, so groups are decoded side by side, each to its place.

use std::ops::Range;

use rayon::prelude::*;

use super::StreamDecoder;
use super::lane::Lane;
use super::lookup::Layout;
use crate::bits::dispatch::{self, Kernel};
use crate::huffman::{Checksum, Symbol};

/// Groups decoded side by side.
const LANES: usize = 8;

/// Groups that a thread takes at a time.
const GROUPS_PER_TASK: usize = 1024;

/// Decodes all groups with up to `threads` threads.
pub fn decode_all<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, out: &mut [S], threads: usize) -> Checksum {
    let groups = decoder.stream.groups();
    if threads <= 1 {
        return decode(decoder, 0..groups, out);
    }
    let per_task = groups.div_ceil(threads).clamp(1, GROUPS_PER_TASK);
    out.par_chunks_mut(per_task * decoder.stream.group_len())
        .enumerate()
        .map(|(i, out)| decode(decoder, i * per_task..(i * per_task + per_task).min(groups), out))
        .reduce(Checksum::default, |mut a, b| {
            a.add(b);
            a
        })
}

/// Decodes the groups of `range` to `out`, which has their length.
pub fn decode<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, range: Range<usize>, out: &mut [S]) -> Checksum {
    let rank = decoder.rank(range.start);
    match decoder.lookups[0].layout {
        Layout::Narrow => dispatch::run(Decoding::<S, 1> { decoder, range, rank, out }),
        Layout::Wide => dispatch::run(Decoding::<S, 2> { decoder, range, rank, out }),
    }
}

struct Decoding<'d, 's, 'a, S, const WIDTH: usize> {
    decoder: &'d StreamDecoder<'s, 'a, S>,
    range: Range<usize>,
    rank: usize,
    out: &'d mut [S],
}

impl<S: Symbol, const WIDTH: usize> Kernel for Decoding<'_, '_, '_, S, WIDTH> {
    type Output = Checksum;

    #[inline(always)]
    fn run(self) -> Checksum {
        let Self { decoder, range, rank, out } = self;
        let stream = decoder.stream;
        let len = stream.group_len();
        let mut targets = Targets { decoder, next: range.start, end: range.end, rank };
        let mut places = [Target::default(); LANES];
        let mut lanes = [const { None }; LANES];
        let mut active = 0;
        while active < LANES
            && let Some(target) = targets.next(out)
        {
            let class = decoder.class(target.group);
            places[active] = target;
            lanes[active] =
                Some(Lane::new(&decoder.lookups[class], &decoder.canonical[class], stream.starts[target.rank]));
            active += 1;
        }
        let mut lanes =
            lanes.map(|lane| lane.unwrap_or_else(|| Lane::new(&decoder.lookups[0], &decoder.canonical[0], 0)));
        let mut checksum = Checksum::default();
        while active > 0 {
            let mut i = 0;
            while i < active {
                let lane = &mut lanes[i];
                lane.step::<WIDTH>(&stream.words);
                if lane.count() < len {
                    i += 1;
                    continue;
                }
                let place = places[i];
                let group = &mut out[(place.group - range.start) * len..][..len];
                lane.take::<S, WIDTH>(group);
                checksum.add(Checksum::of(group, (place.rank * len) as u32));
                if let Some(target) = targets.next(out) {
                    let class = decoder.class(target.group);
                    places[i] = target;
                    lane.restart(&decoder.lookups[class], &decoder.canonical[class], stream.starts[target.rank]);
                    i += 1;
                } else {
                    active -= 1;
                    lanes.swap(i, active);
                    places.swap(i, active);
                }
            }
        }
        checksum
    }
}

/// A live group, and its number among all live groups.
#[derive(Clone, Copy, Default)]
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

impl<S: Symbol> Targets<'_, '_, '_, S> {
    /// The next live group; fills the free ones before it. `out` ends where the last group does.
    #[inline(always)]
    fn next(&mut self, out: &mut [S]) -> Option<Target> {
        let stream = self.decoder.stream;
        let len = stream.group_len();
        while self.next < self.end {
            let group = self.next;
            self.next += 1;
            if !stream.is_free(group) {
                self.rank += 1;
                return Some(Target { group, rank: self.rank - 1 });
            }
            let first = out.len() - (self.end - group) * len;
            out[first..first + len].fill(stream.free_symbol());
        }
        None
    }
}
