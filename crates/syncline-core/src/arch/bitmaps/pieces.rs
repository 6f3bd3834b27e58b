//! A block, some hundred positions at a time: keys, bitmaps, matches, tokens.

use std::ops::Range;

use super::avx512::{common, fill, matches, note_possible, reverse, write};
use super::{BITMAP_SLACK, MAX_BYTES, Rule, TokenCounts, TokensOut};
use crate::lzss::{ENOUGH, HASH_FACTOR, LENGTH_SPAN};

/// Positions that are looked at together.
pub(super) const PIECE: usize = 256;
/// Symbols of a match that are compared by bitmaps.
pub(super) const REACH: usize = 32;
/// Bitmaps behind a piece.
const AHEAD: usize = REACH + 16;
/// Bytes of a block's keys.
pub(super) const KEY_BYTES: usize = MAX_BYTES;
/// Bytes of the longest window of keys, and of those behind them.
const KEY_ROOM: usize = 256 + 64;

/// Symbols beyond the key that are compared before it is known where tokens start: fewest and most of them, beyond what
/// the shortest match takes.
const FEWEST: usize = 2;
const MOST: usize = 16;

/// What is known of a piece's positions.
#[derive(Debug)]
pub(super) struct Bitmaps {
    /// Which of the nearest 64 symbols are the same.
    pub near: [u64; PIECE + AHEAD],
    /// Which of the 64 before these.
    pub far: [u64; PIECE + AHEAD],
    /// Which positions may start a match, eight in a byte.
    pub possible: [u8; PIECE / 8],
    /// Symbols to the next token, where it may be a match.
    pub steps: [u8; PIECE],
    /// 0 for a literal.
    pub distances: [u8; PIECE],
}

/// Memory that is kept from block to block.
#[derive(Debug)]
pub(super) struct Memory {
    /// As many bytes of each symbol as tell it from others, one or two.
    keys: [u8; KEY_BYTES + KEY_ROOM],
    /// From the last to the first, which ends the first [`KEY_BYTES`].
    reversed: [u8; KEY_BYTES + KEY_ROOM],
    /// The keys of some positions, each as often as 32 bits hold it.
    repeated: [u32; PIECE + AHEAD],
    bitmaps: Bitmaps,
}

impl Default for Memory {
    fn default() -> Self {
        let none = [0; PIECE + AHEAD];
        Self {
            keys: [0; KEY_BYTES + KEY_ROOM],
            reversed: [0; KEY_BYTES + KEY_ROOM],
            repeated: [0; PIECE + AHEAD],
            bitmaps: Bitmaps {
                near: none,
                far: none,
                possible: [0; PIECE / 8],
                steps: [0; PIECE],
                distances: [0; PIECE],
            },
        }
    }
}

enabled! {
    /// See [`tokens`](super::tokens).
    pub(super) fn tokens<const WIDTH: usize>(
        bytes: &[u8],
        symbols: usize,
        rule: &Rule,
        memory: &mut Memory,
        mut out: TokensOut,
    ) -> Option<TokenCounts> {
        let Rule { window, depth, key_symbols, min_match, max_match } = *rule;
        assert!(matches!(WIDTH, 1 | 2 | 4 | 8) && symbols * WIDTH <= MAX_BYTES);
        assert!(bytes.len() >= symbols * WIDTH + BITMAP_SLACK && out.flags.len() >= symbols.div_ceil(64));
        assert!(matches!((window, depth), (32, 1) | (64, 2) | (128, 4)));
        assert!((1..=8).contains(&key_symbols) && (key_symbols..=16).contains(&min_match));
        assert!((ENOUGH..=min_match + LENGTH_SPAN).contains(&max_match));
        let keys = take_keys::<WIDTH>(&bytes[..symbols * WIDTH], &mut memory.keys);
        let key_bytes = if keys == Keys::Narrow { 1 } else { 2 };
        let Memory { keys: key_memory, reversed, repeated, bitmaps } = memory;
        match key_bytes {
            1 => reverse::<1>(key_memory, symbols, reversed),
            _ => reverse::<2>(key_memory, symbols, reversed),
        }
        // Whether most positions are literals that are told by few instructions: from how many symbols they would have
        // to agree in.
        let doublings = if min_match < 4 { 0 } else { min_match.ilog2() };
        let sparse = doublings > 0 || keys == Keys::Hashes;
        let least = (min_match - key_symbols).max(FEWEST);
        // From piece to piece.
        let mut most = least.max(MOST / 2);
        let mut written = Written::default();
        // Positions whose bitmaps are there.
        let (mut from, mut until) = (0, 0);
        while from < symbols {
            let made = make_bitmaps(from, &mut until, symbols, (key_bytes, window), (key_memory, reversed, repeated), bitmaps);
            if keys == Keys::Hashes && !verify::<WIDTH>(bytes, from, made, bitmaps) {
                return None;
            }
            let count = PIECE.min(symbols - from);
            let mut starts = [0u64; PIECE / 64];
            match window {
                _ if !sparse => bitmaps.possible.fill(0xff),
                128 => note_possible::<true>(bitmaps, count, doublings),
                _ => note_possible::<false>(bitmaps, count, doublings),
            }
            match window {
                32 => matches::<false, 1>(bitmaps, count, rule, most),
                64 => matches::<false, 2>(bitmaps, count, rule, most),
                _ => matches::<true, 4>(bitmaps, count, rule, most),
            }
            let (at, slow) = match sparse {
                false => walk::<WIDTH, false>(bytes, symbols, from, count, rule, bitmaps, &mut starts),
                true => walk::<WIDTH, true>(bytes, symbols, from, count, rule, bitmaps, &mut starts),
            };
            if slow * 32 > count {
                most = (most + 2).min(least.max(MOST));
            } else if slow < 2 {
                most = (most - 1).max(least);
            }
            for (i, &starts) in starts.iter().enumerate() {
                if starts != 0 {
                    let (steps, distances) = (&bitmaps.steps[i * 64..], &bitmaps.distances[i * 64..]);
                    let bytes = &bytes[(from + i * 64) * WIDTH..];
                    let Written { matches, literals, .. } = written;
                    let flags = write::<WIDTH>(starts, steps, distances, min_match, bytes, &mut out, (matches, literals));
                    written.add::<WIDTH>(flags, starts.count_ones(), out.flags);
                }
            }
            from += at;
        }
        if written.tokens % 64 > 0 {
            out.flags[written.tokens / 64] = written.flags;
        }
        Some(TokenCounts { tokens: written.tokens, matches: written.matches })
    }
}

/// What has been written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub tokens: usize,
    pub matches: usize,
    /// Bytes.
    pub literals: usize,
    /// Of the last word that is not whole.
    pub flags: u64,
}

impl Written {
    /// Counts tokens, and writes their flags where a word is whole.
    #[inline(always)]
    pub fn add<const WIDTH: usize>(&mut self, flags: u64, tokens: u32, out: &mut [u64]) {
        let shift = (self.tokens % 64) as u32;
        self.flags |= flags << shift;
        if shift + tokens >= 64 {
            out[self.tokens / 64] = self.flags;
            self.flags = flags.checked_shr(64 - shift).unwrap_or(0);
        }
        let matches = flags.count_ones();
        self.tokens += tokens as usize;
        self.matches += matches as usize;
        self.literals += (tokens - matches) as usize * WIDTH;
    }
}

enabled! {
    /// Goes from token to token, and marks where they start. Returns the position behind the last, and how many were
    /// compared one by one.
    fn walk<const WIDTH: usize, const SPARSE: bool>(
        bytes: &[u8],
        symbols: usize,
        from: usize,
        count: usize,
        rule: &Rule,
        bitmaps: &mut Bitmaps,
        starts: &mut [u64; PIECE / 64],
    ) -> (usize, usize) {
        let mut at = 0;
        let mut slow = 0;
        for (word, starts) in starts.iter_mut().enumerate() {
            let end = count.min((word + 1) * 64);
            let possible: [u8; 8] = bitmaps.possible[word * 8..word * 8 + 8].try_into().expect("as many");
            let possible = u64::from_le_bytes(possible);
            let mut here = 0u64;
            while at < end {
                if SPARSE {
                    // Literals up to what may be a match.
                    let next = possible >> (at % 64) << (at % 64);
                    let until = (word * 64 + next.trailing_zeros() as usize).min(end);
                    here |= u64::MAX << (at % 64) & !(u64::MAX.checked_shl((until - word * 64) as u32).unwrap_or(0));
                    at = until;
                    if at == end {
                        break;
                    }
                }
                here |= 1 << (at % 64);
                let mut step = usize::from(bitmaps.steps[at % PIECE]);
                if step == 0 {
                    slow += 1;
                    step = 1;
                    let (length, distance) = longest::<WIDTH>(bytes, symbols, from, at, rule, bitmaps);
                    if length >= rule.min_match {
                        // Modulo 256, as what is written of it: its length less the shortest.
                        bitmaps.steps[at] = length as u8;
                        bitmaps.distances[at] = distance as u8;
                        step = length;
                    }
                }
                at += step;
            }
            *starts = here;
        }
        (at, slow)
    }
}

enabled! {
    /// The match at position `at` of the piece.
    fn longest<const WIDTH: usize>(
        bytes: &[u8],
        symbols: usize,
        from: usize,
        at: usize,
        rule: &Rule,
        bitmaps: &Bitmaps,
    ) -> (usize, usize) {
        let is_far = rule.window > 64;
        let bitmap = |i: usize| u128::from(bitmaps.near[i]) | if is_far { u128::from(bitmaps.far[i]) << 64 } else { 0 };
        let mut found = (1..rule.key_symbols).fold(bitmap(at), |found, i| found & bitmap(at + i));
        let rest = (0..rule.depth).fold(found, |rest, _| rest & rest.wrapping_sub(1));
        found ^= rest;
        if found == 0 {
            return (0, 0);
        }
        let mut length = rule.key_symbols;
        while length < ENOUGH {
            let next = found & bitmap(at + length);
            if next == 0 {
                break;
            }
            found = next;
            length += 1;
        }
        let distance = found.trailing_zeros() as usize + 1;
        if length == ENOUGH {
            let (there, here) = (from + at + length - distance, from + at + length);
            let room = (symbols - from - at).min(rule.max_match) - length;
            length += common(bytes, there * WIDTH, here * WIDTH, room * WIDTH) / WIDTH;
        }
        (length, distance)
    }
}

enabled! {
    /// Makes bitmaps of a piece at `from` and of what is behind it. Those of positions up to `until` are there if they
    /// were behind the one before. Returns the numbers of those made, counted from the piece's first.
    fn make_bitmaps(
        from: usize,
        until: &mut usize,
        symbols: usize,
        (key_bytes, window): (usize, usize),
        (keys, reversed, repeated): (&[u8], &[u8], &mut [u32; PIECE + AHEAD]),
        bitmaps: &mut Bitmaps,
    ) -> Range<usize> {
        let there = until.saturating_sub(from);
        for bitmaps in [&mut bitmaps.near, &mut bitmaps.far] {
            // They end the array.
            bitmaps.copy_within(PIECE + AHEAD - there.., 0);
        }
        let (first, end) = ((from + there).min(symbols), from + PIECE + AHEAD);
        let count = end.min(symbols) - first;
        let repeated = &mut repeated[..count];
        if key_bytes == 1 {
            for (repeated, &key) in repeated.iter_mut().zip(&keys[first..]) {
                *repeated = u32::from(key) * 0x0101_0101;
            }
        } else {
            for (repeated, key) in repeated.iter_mut().zip(keys[first * 2..].as_chunks().0) {
                *repeated = u32::from(u16::from_le_bytes(*key)) * 0x0001_0001;
            }
        }
        let (near, far) = (&mut bitmaps.near[there..], &mut bitmaps.far[there..]);
        match (key_bytes, window) {
            (1, 32) => fill::<1, 1>(reversed, first, repeated, near, far),
            (1, 64) => fill::<1, 2>(reversed, first, repeated, near, far),
            (1, _) => fill::<1, 4>(reversed, first, repeated, near, far),
            (_, 32) => fill::<2, 1>(reversed, first, repeated, near, far),
            (_, 64) => fill::<2, 2>(reversed, first, repeated, near, far),
            _ => fill::<2, 4>(reversed, first, repeated, near, far),
        }
        // Nothing stands before the block, and nothing behind it is the same.
        for (i, (near, far)) in near.iter_mut().zip(&mut *far).enumerate().take(128usize.saturating_sub(first)) {
            let inside = (1u128 << (first + i)) - 1;
            *near &= inside as u64;
            *far &= (inside >> 64) as u64;
        }
        near[count..].fill(0);
        far[count..].fill(0);
        *until = end;
        there..there + count
    }
}

/// How symbols are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// By one byte.
    Narrow,
    /// By two bytes.
    Wide,
    /// By two bytes that may be the same where symbols are not.
    Hashes,
}

enabled! {
    /// Clears the bits of symbols that only have the same hash. Returns whether that was worth it: there were few of
    /// them.
    fn verify<const WIDTH: usize>(bytes: &[u8], from: usize, made: Range<usize>, bitmaps: &mut Bitmaps) -> bool {
        let symbols = bytes.as_chunks::<WIDTH>().0;
        let most = made.len() / 2 + 16;
        let mut hits = 0;
        for i in made {
            for (bitmap, nearer) in [(&mut bitmaps.near[i], 1), (&mut bitmaps.far[i], 65)] {
                let mut left = *bitmap;
                while left != 0 {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    hits += 1;
                    if symbols[from + i] != symbols[from + i - nearer - bit] {
                        *bitmap ^= 1 << bit;
                    }
                }
            }
        }
        hits <= most
    }
}

enabled! {
    /// Takes the keys of a block's symbols: one or two bytes that differ where symbols do, or hashes.
    pub(super) fn take_keys<const WIDTH: usize>(bytes: &[u8], keys: &mut [u8]) -> Keys {
        if WIDTH == 1 {
            keys[..bytes.len()].copy_from_slice(bytes);
            return Keys::Narrow;
        }
        let symbols = bytes.as_chunks::<WIDTH>().0;
        let (mut low, mut high) = (u64::MAX, 0);
        if WIDTH == 8 {
            for symbol in symbols {
                let symbol = word(symbol);
                (low, high) = (low.min(symbol), high.max(symbol));
            }
        } else {
            // As many of them as a vector has.
            let (mut least, mut greatest) = (u32::MAX, 0);
            for symbol in symbols {
                let symbol = word(symbol) as u32;
                (least, greatest) = (least.min(symbol), greatest.max(symbol));
            }
            (low, high) = (least.into(), greatest.into());
        }
        match high.wrapping_sub(low) {
            0..=0xff => {
                for (key, symbol) in keys.iter_mut().zip(symbols) {
                    *key = word(symbol).wrapping_sub(low) as u8;
                }
                Keys::Narrow
            }
            span @ 0x100..=0xffff => {
                let offset = |symbol| word(symbol).wrapping_sub(low) as u16;
                let divisor = common_divisor(symbols.iter().take(FIRST).map(offset));
                // Decimals are often multiples: of 100, where they have no cents.
                if divisor > 1 && span / u64::from(divisor) <= 0xff {
                    // Rounded up, so that quotients of multiples are exact: what that adds to them is less than `span`
                    // by 2^16.
                    let reciprocal = (1_u32 << 16).div_ceil(divisor.into());
                    let mut rest = 0;
                    for (key, symbol) in keys.iter_mut().zip(symbols) {
                        let offset = offset(symbol);
                        let quotient = ((u32::from(offset) * reciprocal) >> 16) as u16;
                        rest |= offset ^ quotient.wrapping_mul(divisor);
                        *key = quotient as u8;
                    }
                    if rest == 0 {
                        return Keys::Narrow;
                    }
                }
                for (key, symbol) in keys.as_chunks_mut().0.iter_mut().zip(symbols) {
                    *key = offset(symbol).to_le_bytes();
                }
                Keys::Wide
            }
            _ => {
                for (key, symbol) in keys.as_chunks_mut().0.iter_mut().zip(symbols) {
                    let symbol = word(symbol);
                    let both = (symbol as u32).wrapping_mul(HASH_FACTOR).wrapping_add((symbol >> 32) as u32);
                    *key = ((both.wrapping_mul(HASH_FACTOR) >> 16) as u16).to_le_bytes();
                }
                Keys::Hashes
            }
        }
    }
}

/// Symbols that are looked at for a divisor of all.
const FIRST: usize = 64;

/// The greatest common divisor; 0 of nothing but 0.
fn common_divisor(numbers: impl Iterator<Item = u16>) -> u16 {
    let mut divisor = 0;
    for mut number in numbers {
        while number != 0 {
            (divisor, number) = (number, divisor % number);
        }
        if divisor == 1 {
            break;
        }
    }
    divisor
}

/// A symbol as a number.
#[inline(always)]
fn word<const WIDTH: usize>(symbol: &[u8; WIDTH]) -> u64 {
    let mut word = [0; 8];
    word[..WIDTH].copy_from_slice(symbol);
    u64::from_le_bytes(word)
}
