//! Candidates by looking at the whole window at once, where vectors are long enough for that: no position within a
//! match costs more than its key, and there is no table to wait for.
//!
//! Keys stand from the last position to the first, so that a window is read from the nearest on, and its lowest bits
//! are the nearest.

use super::super::{ENOUGH, HASH_FACTOR};
use super::{Block, Bytes, Finder, MAX_BYTES, MAX_SYMBOLS, Shape};
use crate::arch::agree::{Agree, Found, VECTOR, WINDOW};

/// Larger windows are not searched so.
pub(super) const MOST_DEPTH: usize = 4;

/// What the symbols of a key are multiplied with.
const FACTORS: [u16; 8] = [1, 0x79B1, 0xCA77, 0xAE3D, 0x9A85, 0x37F9, 0xEB4F, 0x67C5];

/// Of each position of a block, the last first, hashes of the symbols by which candidates are recognized; what is
/// behind those of the block is not looked at.
#[derive(Debug)]
pub(super) struct Keys {
    keys: Box<[u16; MAX_SYMBOLS + WINDOW]>,
    /// The symbols as 16 bits.
    folded: Box<[u16; MAX_SYMBOLS]>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { keys: Box::new([0; MAX_SYMBOLS + WINDOW]), folded: Box::new([0; MAX_SYMBOLS]) }
    }
}

/// The search by keys with what the parameters say; `DEPTH` is theirs: 1, 2 or 4, for windows of 32, 64 and 128
/// symbols.
pub(super) struct Windows<const WIDTH: usize, const DEPTH: usize, A> {
    pub agree: A,
    pub shape: Shape,
}

impl<const WIDTH: usize, const DEPTH: usize, A: Agree> Finder for Windows<WIDTH, DEPTH, A> {
    type Index = Keys;

    #[inline(always)]
    fn prepare(&mut self, block: &Block, index: &mut Keys) {
        let symbols = block.symbols;
        let more = self.shape.key_bytes / WIDTH - 1;
        // Loops, not iterators' closures, which are not compiled for this machine's vectors.
        let folded = &mut index.folded[MAX_SYMBOLS - symbols..];
        let bytes = &block.bytes.as_chunks::<WIDTH>().0[..symbols];
        for i in 0..symbols {
            folded[symbols - 1 - i] = fold::<WIDTH>(&bytes[i]);
        }
        // A position too near the end starts no match.
        let Some(count) = symbols.checked_sub(more) else { return };
        let keys = &mut index.keys[MAX_SYMBOLS - count..MAX_SYMBOLS];
        keys.copy_from_slice(&folded[more..]);
        for j in 1..=more {
            let factor = FACTORS[j % FACTORS.len()];
            for (key, &symbol) in keys.iter_mut().zip(&folded[more - j..symbols - j]) {
                *key = key.wrapping_add(symbol.wrapping_mul(factor));
            }
        }
    }

    #[inline(always)]
    fn longest(&self, block: &Block, index: &Keys, at: usize) -> (usize, usize) {
        let Self { agree, shape } = *self;
        let key_symbols = shape.key_bytes / WIDTH;
        if at + key_symbols > block.symbols {
            return (0, 0);
        }
        let (window, key) = window(&index.keys, at);
        let found = there(agree.keys_in_window::<DEPTH>(window, key), at);
        if found[0] | found[1] == 0 {
            return (0, 0);
        }
        if DEPTH == 1 {
            let distance = found[0].trailing_zeros() as usize + 1;
            let room = (block.symbols - at).min(shape.max_match);
            let length = common::<WIDTH, A>(agree, &block.bytes, at - distance, at, room);
            // Else it only has the same hash.
            if length >= key_symbols {
                return (length, distance);
            }
        }
        one_by_one::<WIDTH, DEPTH, A>(agree, shape, block, found, at)
    }
}

/// What stands before position `at`, the nearest first, and at it.
#[inline(always)]
fn window(reversed: &[u16; MAX_SYMBOLS + WINDOW], at: usize) -> (&[u16; WINDOW], u16) {
    let first = MAX_SYMBOLS - at % MAX_SYMBOLS;
    (reversed[first..first + WINDOW].try_into().expect("as many"), reversed[first - 1])
}

/// Without those before the block.
#[inline(always)]
fn there(found: Found, at: usize) -> Found {
    if at >= WINDOW {
        return found;
    }
    let there = (1_u128 << at) - 1;
    [found[0] & there as u64, found[1] & (there >> 64) as u64]
}

/// The longest match among candidates that were found by their keys, one after another.
#[inline(always)]
fn one_by_one<const WIDTH: usize, const DEPTH: usize, A: Agree>(
    agree: A,
    shape: Shape,
    block: &Block,
    found: Found,
    at: usize,
) -> (usize, usize) {
    let room = (block.symbols - at).min(shape.max_match);
    let (mut best, mut best_distance) = (0, 0);
    let mut left = DEPTH;
    for (mut found, nearer) in found.into_iter().zip([0, 64]) {
        while found != 0 && left > 0 && best < room.min(ENOUGH) {
            let distance = nearer + found.trailing_zeros() as usize + 1;
            found &= found - 1;
            let length = common::<WIDTH, A>(agree, &block.bytes, at - distance, at, room);
            // Else it only has the same hash.
            left -= usize::from(length * WIDTH >= shape.key_bytes);
            if length > best {
                (best, best_distance) = (length, distance);
            }
        }
    }
    (best, best_distance)
}

/// Symbols that agree from `a` and `b` on, at most `most`.
#[inline(always)]
fn common<const WIDTH: usize, A: Agree>(agree: A, bytes: &Bytes, a: usize, b: usize, most: usize) -> usize {
    let mut at = 0;
    while at < most {
        let length = agree.common(vector::<WIDTH>(bytes, a + at), vector::<WIDTH>(bytes, b + at)) / WIDTH;
        at += length;
        if length < VECTOR / WIDTH {
            break;
        }
    }
    at.min(most)
}

/// A symbol as 16 bits.
#[inline(always)]
pub(super) fn fold<const WIDTH: usize>(symbol: &[u8; WIDTH]) -> u16 {
    let mut word = [0; 8];
    word[..WIDTH].copy_from_slice(symbol);
    let [low, high] =
        [[word[0], word[1], word[2], word[3]], [word[4], word[5], word[6], word[7]]].map(u32::from_le_bytes);
    match WIDTH {
        1 | 2 => low as u16,
        4 => (low.wrapping_mul(HASH_FACTOR) >> 16) as u16,
        _ => (low.wrapping_mul(HASH_FACTOR).wrapping_add(high).wrapping_mul(HASH_FACTOR) >> 16) as u16,
    }
}

#[inline(always)]
fn vector<const WIDTH: usize>(bytes: &Bytes, at: usize) -> &[u8; VECTOR] {
    let at = at * WIDTH % MAX_BYTES;
    bytes[at..at + VECTOR].try_into().expect("as many bytes")
}
