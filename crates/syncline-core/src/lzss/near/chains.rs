//! Candidates by chains, for machines without long vectors and for windows of more than 128 symbols.
//!
//! First each position of the block learns the distances of the nearest four that begin alike, all in one word: no
//! chain is walked link by link, whose every step waits for the one before. Then the candidates of a token are compared
//! side by side, without a branch for each. What that cannot decide - an alien in the chain, a match longer than a
//! vector, the end of the block - is decided one candidate after another.

use std::hint::select_unpredictable;

use super::super::ENOUGH;
use super::{Block, Bytes, Finder, MAX_BYTES, MAX_SYMBOLS, Shape, load};
use crate::arch::agree::{AGREE, Agree, Nearest};

/// log2 of the entries in the table of last positions: with the distances of 32-bit symbols it fills the first-level
/// cache, hardly more.
const HASH_BITS: u32 = 14;
/// No position yet: farther than any window from every position.
const NOWHERE: u16 = 1 << 15;
/// Bits of a distance in a word of four.
const LANE: u32 = 16;
/// A 1 in each lane.
const ONES: u64 = 0x0001_0001_0001_0001;
/// Four distances beyond every window.
const NONE: u64 = 0x4000 * ONES;

/// Stands for lanes where four are compared and then four more.
pub(super) const ROUNDS: usize = 5;
/// No position.
const NOBODY: u16 = u16::MAX;

/// Last position with each hash.
#[derive(Debug)]
pub(super) struct Heads(Box<[u16; 1 << HASH_BITS]>);

impl Default for Heads {
    fn default() -> Self {
        Self(Box::new([NOWHERE; 1 << HASH_BITS]))
    }
}

/// For each position the distances of the nearest four with its hash, the nearest in the lowest lane; beyond the window
/// if there are fewer. Or their positions: [`positions`].
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
    (distances >> (LANE * lane as u32) & 0xffff) as usize
}

/// The search with what the parameters say; `LANES` candidates are compared at once, or [`ROUNDS`]. With four,
/// distances have become positions.
pub(super) struct Chains<'a, const WIDTH: usize, const LANES: usize, A> {
    pub agree: A,
    pub shape: Shape,
    pub heads: &'a mut Heads,
}

impl<const WIDTH: usize, const LANES: usize, A: Agree> Finder for Chains<'_, WIDTH, LANES, A> {
    type Index = Distances;

    /// Fills in the block's distances.
    #[inline(always)]
    fn prepare(&mut self, block: &Block, Distances(distances): &mut Distances) {
        let Block { bytes, symbols, .. } = block;
        let symbols = *symbols;
        let (mask, window) = (self.key_mask(), self.shape.window as u64);
        let heads = &mut *self.heads.0;
        // A position too near the end starts no match.
        let keys = (symbols + 1).saturating_sub(self.shape.key_bytes / WIDTH).min(symbols);
        heads.fill(NOWHERE);
        for at in 0..keys {
            let head = &mut heads[hash(load(bytes, at * WIDTH) & mask)];
            let before = std::mem::replace(head, at as u16);
            let distance = u64::from((at as u16).wrapping_sub(before));
            // The distances of the position before, one lane up, all longer by the way to it. A lane is dropped after
            // three additions: none runs over.
            let found =
                (distances[usize::from(before) % MAX_SYMBOLS] << LANE).wrapping_add(distance.wrapping_mul(ONES));
            distances[at % MAX_SYMBOLS] = select_unpredictable(distance <= window, found, NONE);
        }
        distances[keys..symbols].fill(NONE);
        if LANES == 4 {
            // Once: every token needs them so.
            for (at, word) in distances[..symbols].iter_mut().enumerate() {
                *word = positions(at, *word, self.shape.window);
            }
        }
    }

    #[inline(always)]
    fn longest(&self, block: &Block, distances: &Distances, at: usize) -> (usize, usize) {
        match self.side_by_side(block, distances, at) {
            Some(found) => found,
            None => self.one_by_one(block, distances, at),
        }
    }
}

/// The positions of candidates at these distances from `at`. Where there are fewer, the nearest stands in for the rest;
/// where there is none, [`NOBODY`].
#[inline(always)]
fn positions(at: usize, distances: u64, window: usize) -> u64 {
    let nearest = distances as u16;
    let mut positions = 0;
    for lane in (0..4).rev() {
        let distance = (distances >> (LANE * lane)) as u16;
        let distance = if usize::from(distance) > window { nearest } else { distance };
        let position = if usize::from(nearest) > window { NOBODY } else { (at as u16).wrapping_sub(distance) };
        positions = positions << LANE | u64::from(position);
    }
    positions
}

impl<const WIDTH: usize, const LANES: usize, A: Agree> Chains<'_, WIDTH, LANES, A> {
    /// The bits of a key in the eight bytes that it starts.
    fn key_mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.shape.key_bytes)
    }

    /// As [`longest`](Finder::longest), unless that cannot be told from vectors.
    #[inline(always)]
    fn side_by_side(&self, block: &Block, Distances(distances): &Distances, at: usize) -> Option<(usize, usize)> {
        let bytes = &*block.bytes;
        let mut nearby = distances[at % MAX_SYMBOLS];
        let nearest = lane(nearby, 0);
        if nearest > if LANES == 4 { MAX_SYMBOLS - 1 } else { self.shape.window } {
            return Some((0, 0));
        }
        if at + AGREE / WIDTH > block.symbols {
            return None;
        }
        let here = vector::<WIDTH>(bytes, at);
        if LANES == 4 {
            let there = std::array::from_fn(|i| vector::<WIDTH>(bytes, lane(nearby, i)));
            let key_symbols = (self.shape.key_bytes / WIDTH) as u32;
            let Nearest { length, position, all } = self.agree.nearest::<WIDTH>(here, there, nearby, key_symbols);
            if !all || length >= (AGREE / WIDTH).min(31) {
                return None;
            }
            return Some((length, at - position));
        }
        // The most symbols that agree, less the distance; the bytes that agree in all.
        let (mut best, mut all) = (0, u32::MAX);
        let mut base = 0;
        let lanes = LANES.min(4);
        for _ in 0..self.shape.depth.div_ceil(lanes) {
            for i in 0..lanes {
                let distance = base + lane(nearby, i);
                // Where there are fewer candidates, the nearest stands in for the rest.
                let distance = select_unpredictable(distance > self.shape.window, nearest, distance);
                let same = self.agree.bytes(vector::<WIDTH>(bytes, at - distance), here);
                all &= same;
                let this = (((same.trailing_ones() as usize / WIDTH) + 1) << LANE) - distance;
                best = select_unpredictable(this > best, this, best);
            }
            base += lane(nearby, lanes - 1);
            if LANES < ROUNDS || base >= self.shape.window {
                break;
            }
            nearby = distances[(at - base) % MAX_SYMBOLS];
        }
        let (length, distance) = (best >> LANE, best.wrapping_neg() % (1 << LANE));
        if all.trailing_ones() < self.shape.key_bytes as u32 || length == AGREE / WIDTH {
            return None;
        }
        Some((length, distance))
    }

    /// As [`longest`](Finder::longest), whatever stands at `at`.
    #[inline(always)]
    fn one_by_one(&self, block: &Block, Distances(distances): &Distances, at: usize) -> (usize, usize) {
        let room = (block.symbols - at).min(self.shape.max_match);
        let mask = self.key_mask();
        let key = load(&block.bytes, at * WIDTH) & mask;
        let (mut best, mut best_distance) = (0, 0);
        let mut left = self.shape.depth;
        let mut distance = 0;
        while left > 0 && best < room {
            let next = lane(distances[(at - distance) % MAX_SYMBOLS], 0);
            distance = match LANES {
                4 if next >= MAX_SYMBOLS => break,
                4 => at - next,
                _ => distance + next,
            };
            if distance > self.shape.window {
                break;
            }
            let candidate = at - distance;
            if load(&block.bytes, candidate * WIDTH) & mask != key {
                continue;
            }
            left -= 1;
            let length = self.common(&block.bytes, candidate, at, room);
            if length > best {
                (best, best_distance) = (length, distance);
                if length >= ENOUGH {
                    break;
                }
            }
        }
        (best, best_distance)
    }

    /// Symbols that agree from `a` and `b` on, at most `most`.
    #[inline(always)]
    fn common(&self, bytes: &Bytes, a: usize, b: usize, most: usize) -> usize {
        let mut at = 0;
        while at < most {
            let same = self.agree.bytes(vector::<WIDTH>(bytes, a + at), vector::<WIDTH>(bytes, b + at));
            let length = same.trailing_ones() as usize / WIDTH;
            if length < AGREE / WIDTH {
                return (at + length).min(most);
            }
            at += length;
        }
        most
    }
}

#[inline(always)]
fn vector<const WIDTH: usize>(bytes: &Bytes, at: usize) -> &[u8; AGREE] {
    let at = at * WIDTH % MAX_BYTES;
    bytes[at..at + AGREE].try_into().expect("as many bytes")
}
