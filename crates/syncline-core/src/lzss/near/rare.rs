//! Matches of a block of which hardly any symbol repeats one of the window: what comes out raw, or nearly so.
//!
//! Each position learns the last one before it with the same hash, from a table, without a jump: two loads and two
//! stores. Where that one is farther than the window, which is nearly everywhere, there is no candidate; what is left
//! is searched link by link. Bitmaps compare every position with all of its window.

use super::super::{BlockCounts, ENOUGH, HASH_FACTOR, Tokens};
use super::{MAX_SYMBOLS, Shape};
use crate::arch::bitmaps::Match;
use crate::bits::dispatch::{self, Kernel};

/// log2 of the entries in the table of last positions: of symbols that never repeat at most 3 % are looked at in vain,
/// 1.6 % up to level 3, and table and block fit a first-level cache.
const HASH_BITS: u32 = 13;
/// No position yet: farther than any window from every position.
const NOWHERE: u16 = 1 << 15;
/// Links are not for blocks where more than one position in so many has one.
const RARELY: usize = 16;
/// Blocks after one with too many that are taken to be the same.
const LIKEWISE: u8 = 15;
/// Positions that are passed at once.
const STEP: usize = size_of::<u64>();

/// Memory that is kept from block to block.
#[derive(Debug)]
pub(super) struct Rare {
    /// Last position with each hash.
    heads: Box<[u16; 1 << HASH_BITS]>,
    /// Of each position its hash, then the last position before it with the same.
    before: Box<[u16; MAX_SYMBOLS]>,
    /// 1 where that is in the window; 0 behind the last position.
    is_near: Box<[u8; MAX_SYMBOLS + STEP]>,
    matches: Vec<Match>,
    /// Blocks that are not looked at.
    waiting: u8,
}

impl Default for Rare {
    fn default() -> Self {
        Self {
            heads: Box::new([NOWHERE; 1 << HASH_BITS]),
            before: Box::new([NOWHERE; MAX_SYMBOLS]),
            is_near: Box::new([0; MAX_SYMBOLS + STEP]),
            matches: Vec::new(),
            waiting: 0,
        }
    }
}

/// The matches of a block of whole symbols, in order, if few positions may start one.
pub(super) fn find<'r, const WIDTH: usize>(
    symbols: &[[u8; WIDTH]],
    shape: Shape,
    min_match: usize,
    rare: &'r mut Rare,
) -> Option<&'r [Match]> {
    if rare.waiting > 0 {
        rare.waiting -= 1;
        return None;
    }
    if !dispatch::run(Find { symbols, shape, min_match, rare }) {
        rare.waiting = LIKEWISE;
        return None;
    }
    Some(&rare.matches)
}

struct Find<'a, const WIDTH: usize> {
    symbols: &'a [[u8; WIDTH]],
    shape: Shape,
    min_match: usize,
    rare: &'a mut Rare,
}

impl<const WIDTH: usize> Kernel for Find<'_, WIDTH> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self { symbols, shape, min_match, rare } = self;
        let Some(positions) = look_back(symbols, shape, rare) else { return false };
        take_matches(symbols, shape, min_match, positions, rare);
        true
    }
}

/// Learns of each position that may start a match, by its key, the last one before it with the same hash, and whether
/// that is near. Returns how many positions there are, if few are near.
#[inline(always)]
fn look_back<const WIDTH: usize>(symbols: &[[u8; WIDTH]], shape: Shape, rare: &mut Rare) -> Option<usize> {
    let Rare { heads, before, is_near, .. } = rare;
    // A position too near the end starts no match.
    let positions = (symbols.len() + 1).saturating_sub(shape.key_bytes / WIDTH);
    let (before, is_near) = (&mut before[..positions], &mut is_near[..positions + STEP]);
    hash::<WIDTH>(symbols, shape.key_bytes / WIDTH, before);
    heads.fill(NOWHERE);
    for (at, before) in before.iter_mut().enumerate() {
        let head = &mut heads[usize::from(*before) % (1 << HASH_BITS)];
        *before = std::mem::replace(head, at as u16);
    }
    let window = shape.window as u16;
    let mut count = 0;
    for (at, (is_near, &before)) in is_near.iter_mut().zip(&*before).enumerate() {
        *is_near = ((at as u16).wrapping_sub(before) <= window).into();
        count += u32::from(*is_near);
    }
    is_near[positions..].fill(0);
    (count as usize <= positions / RARELY).then_some(positions)
}

/// Finds the matches that tokens take, from one near position to the next.
#[inline(always)]
fn take_matches<const WIDTH: usize>(
    symbols: &[[u8; WIDTH]],
    shape: Shape,
    min_match: usize,
    positions: usize,
    rare: &mut Rare,
) {
    let Rare { before, is_near, matches, .. } = rare;
    matches.clear();
    let mut at = 0;
    while at < positions {
        let near = u64::from_le_bytes(is_near[at..at + STEP].try_into().expect("as many"));
        if near == 0 {
            at += STEP;
            continue;
        }
        at += near.trailing_zeros() as usize / 8;
        let (length, distance) = longest(symbols, at, shape, &**before);
        if length >= min_match {
            matches.push(Match { at, length, distance: distance as u8 });
            at += length;
        } else {
            at += 1;
        }
    }
}

/// Hashes of what stands at each position: of the key's first two symbols, or the only one.
#[inline(always)]
fn hash<const WIDTH: usize>(symbols: &[[u8; WIDTH]], key_symbols: usize, hashes: &mut [u16]) {
    let mix = |word: u32| (word.wrapping_mul(HASH_FACTOR) >> (32 - HASH_BITS)) as u16;
    // Loops, not iterators' closures, which are not compiled for this machine's vectors.
    if key_symbols == 1 {
        for (hash, symbol) in hashes.iter_mut().zip(symbols) {
            *hash = mix(word(symbol));
        }
    } else {
        for ((hash, symbol), next) in hashes.iter_mut().zip(symbols).zip(&symbols[1..]) {
            *hash = mix(word(symbol).wrapping_add(word(next).rotate_left(16)));
        }
    }
}

/// A symbol as 32 bits.
#[inline(always)]
fn word<const WIDTH: usize>(symbol: &[u8; WIDTH]) -> u32 {
    let mut wide = [0; 8];
    wide[..WIDTH].copy_from_slice(symbol);
    let wide = u64::from_le_bytes(wide);
    if WIDTH == 8 { (wide as u32).wrapping_mul(HASH_FACTOR).wrapping_add((wide >> 32) as u32) } else { wide as u32 }
}

/// The match at `at` as length and distance in symbols; a length of 0 if there is none.
#[inline(always)]
fn longest<const WIDTH: usize>(symbols: &[[u8; WIDTH]], at: usize, shape: Shape, before: &[u16]) -> (usize, usize) {
    let key_symbols = shape.key_bytes / WIDTH;
    let here = &symbols[at..][..(symbols.len() - at).min(shape.max_match)];
    let (mut best, mut left, mut link) = ((0, 0), shape.depth, before[at]);
    while left > 0 && best.0 < ENOUGH {
        let distance = usize::from((at as u16).wrapping_sub(link));
        if distance > shape.window {
            break;
        }
        let there = at - distance;
        let length = here.iter().zip(&symbols[there..]).take_while(|(a, b)| a == b).count();
        // Else it only has the same hash.
        left -= usize::from(length >= key_symbols);
        if length > best.0 {
            best = (length, distance);
        }
        link = before[there];
    }
    best
}

/// Appends the tokens of a block of these bytes, whole symbols, whose matches are few. Returns how many tokens there
/// are, and how many matches.
pub(super) fn append<const WIDTH: usize>(
    matches: &[Match],
    min_match: usize,
    bytes: &[u8],
    tokens: &mut Tokens,
) -> (usize, usize) {
    let symbols = bytes.len() / WIDTH;
    let covered: usize = matches.iter().map(|found| found.length - 1).sum();
    let first_word = tokens.flags.len();
    tokens.flags.resize(first_word + (symbols - covered).div_ceil(64), 0);
    let (mut at, mut count) = (0, 0);
    for found in matches {
        tokens.literals.extend_from_slice(&bytes[at * WIDTH..found.at * WIDTH]);
        count += found.at - at;
        tokens.flags[first_word + count / 64] |= 1 << (count % 64);
        count += 1;
        tokens.lengths.push((found.length - min_match) as u8);
        tokens.distances.push(found.distance);
        at = found.at + found.length;
    }
    tokens.literals.extend_from_slice(&bytes[at * WIDTH..]);
    count += symbols - at;
    tokens.blocks.push(BlockCounts { tokens: count as u32, matches: matches.len() as u32 });
    (count, matches.len())
}
