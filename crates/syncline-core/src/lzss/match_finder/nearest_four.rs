//! Finds matches among the nearest candidates of each position, four at a time. It suits all blocks and processors.
//!
//! First each position gets the distances of the nearest four positions with the same hash, packed into one word. So no
//! chain is followed link by link, where each step would wait for the previous one. Then the candidates of a token are
//! compared side by side, without a branch for each. Candidates are compared one by one where that is not enough: after
//! a hash collision, for a match longer than a vector, and at the end of the block.

use std::hint::select_unpredictable;

use super::super::ENOUGH;
use super::block_tokens::{MAX_BYTES, MAX_SYMBOLS, SearchRules};
use super::compare_bytes::{COMPARED_BYTES, Nearest, equal_bytes, nearest_of_four};
use super::token_block::{Bytes, TokenBlock, load};
use crate::simd::InstructionSet;

/// log2 of the entries of the table of last positions. Together with the distances of 32-bit symbols it just fills the
/// first-level cache.
const HASH_BITS: u32 = 14;
/// An empty entry: farther than any window from every position.
const NOWHERE: u16 = 1 << 15;
/// Bits of a distance in a word of four.
const LANE_BITS: u32 = 16;
/// A 1 in each lane.
const ONES: u64 = 0x0001_0001_0001_0001;
/// Four distances beyond every window.
const NONE: u64 = 0x4000 * ONES;

/// In place of a number of lanes: compares four candidates, then four more, up to the depth.
pub(super) const ROUNDS: usize = 5;
/// In place of a position: there is no candidate.
const NO_POSITION: u16 = u16::MAX;

/// The last position with each hash.
#[derive(Debug)]
pub(super) struct Heads(Box<[u16; 1 << HASH_BITS]>);

impl Default for Heads {
    fn default() -> Self {
        Self(Box::new([NOWHERE; 1 << HASH_BITS]))
    }
}

/// For each position, the distances of the nearest four positions with the same hash, the nearest in the lowest 16
/// bits. Missing ones are outside the window. With four lanes, positions instead of distances: see [`positions`].
#[derive(Debug)]
pub(super) struct Distances(Box<[u64; MAX_SYMBOLS]>);

impl Default for Distances {
    fn default() -> Self {
        Self(Box::new([NONE; MAX_SYMBOLS]))
    }
}

#[inline(always)]
fn hash(key: u64) -> usize {
    // Knuth's multiplicative hashing with 2^64 over the golden ratio.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}

#[inline(always)]
fn lane(distances: u64, lane: usize) -> usize {
    (distances >> (LANE_BITS * lane as u32) & 0xffff) as usize
}

/// The search with the rules of the parameters. It compares `LANES` candidates at once, or [`ROUNDS`].
pub(super) struct NearestFour<'a, const WIDTH: usize, const LANES: usize, I> {
    pub isa: I,
    pub rules: SearchRules,
    pub heads: &'a mut Heads,
}

impl<const WIDTH: usize, const LANES: usize, I: InstructionSet> NearestFour<'_, WIDTH, LANES, I> {
    /// Computes the distances of the block's positions.
    #[inline(always)]
    pub(super) fn prepare(&mut self, block: &TokenBlock, Distances(distances): &mut Distances) {
        let TokenBlock { bytes, symbols, .. } = block;
        let symbols = *symbols;
        let (mask, window) = (self.key_mask(), self.rules.window as u64);
        let heads = &mut *self.heads.0;
        // A position too close to the end starts no match.
        let keys = (symbols + 1).saturating_sub(self.rules.key_symbols).min(symbols);
        heads.fill(NOWHERE);
        for at in 0..keys {
            let head = &mut heads[hash(load(bytes, at * WIDTH) & mask)];
            let before = std::mem::replace(head, at as u16);
            let distance = u64::from((at as u16).wrapping_sub(before));
            // The distances of the previous position, one lane higher, plus the distance to it. A lane is dropped after
            // three additions, so none overflows.
            let found =
                (distances[usize::from(before) % MAX_SYMBOLS] << LANE_BITS).wrapping_add(distance.wrapping_mul(ONES));
            distances[at % MAX_SYMBOLS] = select_unpredictable(distance <= window, found, NONE);
        }
        distances[keys..symbols].fill(NONE);
        if LANES == 4 {
            // Converted once, because every token needs positions.
            for (at, word) in distances[..symbols].iter_mut().enumerate() {
                *word = positions(at, *word, self.rules.window);
            }
        }
    }

    /// Returns the length and distance of the match at `at` in symbols. Without a match the length is below the
    /// shortest.
    #[inline(always)]
    pub(super) fn longest(&self, block: &TokenBlock, distances: &Distances, at: usize) -> (usize, usize) {
        match self.side_by_side(block, distances, at) {
            Some(found) => found,
            None => self.one_by_one(block, distances, at),
        }
    }
}

/// Returns the positions of the candidates at these distances from `at`. The nearest one replaces missing ones; without
/// candidates all are [`NO_POSITION`].
#[inline(always)]
fn positions(at: usize, distances: u64, window: usize) -> u64 {
    let nearest = distances as u16;
    let mut positions = 0;
    for lane in (0..4).rev() {
        let distance = (distances >> (LANE_BITS * lane)) as u16;
        let distance = if usize::from(distance) > window { nearest } else { distance };
        let position = if usize::from(nearest) > window { NO_POSITION } else { (at as u16).wrapping_sub(distance) };
        positions = positions << LANE_BITS | u64::from(position);
    }
    positions
}

impl<const WIDTH: usize, const LANES: usize, I: InstructionSet> NearestFour<'_, WIDTH, LANES, I> {
    /// Returns the mask of a key in the eight bytes from its position on.
    fn key_mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * (self.rules.key_symbols * WIDTH))
    }

    /// Does what [`longest`](Self::longest) does, or returns `None` if the candidates must be compared one by one.
    #[inline(always)]
    fn side_by_side(&self, block: &TokenBlock, Distances(distances): &Distances, at: usize) -> Option<(usize, usize)> {
        let bytes = &*block.bytes;
        let mut nearby = distances[at % MAX_SYMBOLS];
        let nearest = lane(nearby, 0);
        if nearest > if LANES == 4 { MAX_SYMBOLS - 1 } else { self.rules.window } {
            return Some((0, 0));
        }
        if at + COMPARED_BYTES / WIDTH > block.symbols {
            return None;
        }
        let here = vector::<WIDTH>(bytes, at);
        if LANES == 4 {
            let there = std::array::from_fn(|i| vector::<WIDTH>(bytes, lane(nearby, i)));
            let key_symbols = (self.rules.key_symbols) as u32;
            let Nearest { length, position, all } =
                nearest_of_four::<WIDTH, I>(self.isa, here, there, nearby, key_symbols);
            if !all || length >= (COMPARED_BYTES / WIDTH).min(31) {
                return None;
            }
            return Some((length, at - position));
        }
        // The greatest number of equal symbols minus the distance, and the bytes that are equal in all candidates.
        let (mut best, mut all) = (0, u32::MAX);
        let mut base = 0;
        let lanes = LANES.min(4);
        for _ in 0..self.rules.depth.div_ceil(lanes) {
            for i in 0..lanes {
                let distance = base + lane(nearby, i);
                // The nearest candidate replaces missing ones.
                let distance = select_unpredictable(distance > self.rules.window, nearest, distance);
                let same = equal_bytes(self.isa, vector::<WIDTH>(bytes, at - distance), here);
                all &= same;
                let this = (((same.trailing_ones() as usize / WIDTH) + 1) << LANE_BITS) - distance;
                best = select_unpredictable(this > best, this, best);
            }
            base += lane(nearby, lanes - 1);
            if LANES < ROUNDS || base >= self.rules.window {
                break;
            }
            nearby = distances[(at - base) % MAX_SYMBOLS];
        }
        let (length, distance) = (best >> LANE_BITS, best.wrapping_neg() % (1 << LANE_BITS));
        if all.trailing_ones() < (self.rules.key_symbols * WIDTH) as u32 || length == COMPARED_BYTES / WIDTH {
            return None;
        }
        Some((length, distance))
    }

    /// Does what [`longest`](Self::longest) does for any candidates.
    #[inline(always)]
    fn one_by_one(&self, block: &TokenBlock, Distances(distances): &Distances, at: usize) -> (usize, usize) {
        let room = (block.symbols - at).min(self.rules.max_match);
        let mask = self.key_mask();
        let key = load(&block.bytes, at * WIDTH) & mask;
        let (mut best, mut best_distance) = (0, 0);
        let mut left = self.rules.depth;
        let mut distance = 0;
        while left > 0 && best < room {
            let next = lane(distances[(at - distance) % MAX_SYMBOLS], 0);
            distance = match LANES {
                4 if next >= MAX_SYMBOLS => break,
                4 => at - next,
                _ => distance + next,
            };
            if distance > self.rules.window {
                break;
            }
            let candidate = at - distance;
            if load(&block.bytes, candidate * WIDTH) & mask != key {
                continue;
            }
            left -= 1;
            let length = self.match_length(&block.bytes, candidate, at, room);
            if length > best {
                (best, best_distance) = (length, distance);
                if length >= ENOUGH {
                    break;
                }
            }
        }
        (best, best_distance)
    }

    /// Returns the number of equal symbols from `a` and `b` on, at most `most`.
    #[inline(always)]
    fn match_length(&self, bytes: &Bytes, a: usize, b: usize, most: usize) -> usize {
        let mut at = 0;
        while at < most {
            let same = equal_bytes(self.isa, vector::<WIDTH>(bytes, a + at), vector::<WIDTH>(bytes, b + at));
            let length = same.trailing_ones() as usize / WIDTH;
            if length < COMPARED_BYTES / WIDTH {
                return (at + length).min(most);
            }
            at += length;
        }
        most
    }
}

#[inline(always)]
fn vector<const WIDTH: usize>(bytes: &Bytes, at: usize) -> &[u8; COMPARED_BYTES] {
    let at = at * WIDTH % MAX_BYTES;
    bytes[at..at + COMPARED_BYTES].try_into().expect("COMPARED_BYTES bytes")
}
