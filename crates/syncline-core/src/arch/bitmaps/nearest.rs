//! Where only the nearest candidate counts (level 1): its distance, and the match that it makes, for many positions at
//! once, without bitmaps. Then several blocks go from token to token in turn.
//!
//! The symbols of as many positions as a vector has are compared with those a distance before them, from the greatest
//! distance to the least, so that the nearest is what stays. What agrees behind the key is found by permutations:
//! candidates are so near that two vectors hold them.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::avx512::{common, write};
use super::pieces::{Keys, Written, take_keys};
use super::{BITMAP_SLACK, MAX_BYTES, Match, Rule, TokenCounts, TokensOut};
use crate::mem::prefetch::prefetch;

/// Greatest distance.
const WINDOW: usize = 32;
/// Bytes of a vector.
const VECTOR: usize = 64;
/// Bytes before a block's keys, for what is before them.
const FRONT: usize = VECTOR;
/// Symbols of a match that are compared before it is known where tokens start.
const REACH: usize = 24;
/// How many are compared before it is asked whether any match goes on.
const STEPS: usize = 11;
/// What the second symbol of a pair is multiplied with: pairs of up to eleven values differ.
const PAIR_FACTOR: u8 = 29;
/// Most symbols of a key.
const MOST_KEY: usize = 4;
/// Bytes behind a block's keys that may be loaded.
const BEHIND: usize = 2 * VECTOR + 2 * REACH;
/// Blocks in which fewer positions than one in so many start matches are walked through match by match.
const RARE: usize = 16;

/// A block's positions.
#[derive(Debug)]
pub(super) struct Memory {
    keys: [u8; FRONT + MAX_BYTES + BEHIND],
    /// Hashes of keys of two symbols, a byte each.
    pairs: [u8; FRONT + MAX_BYTES + BEHIND],
    key_bytes: usize,
    symbols: usize,
    max_match: usize,
    /// How many positions may start a match.
    possible: usize,
    /// Of each position the symbols to the next token, if it starts one; 0 if that is a match of [`REACH`] symbols or
    /// more.
    steps: [u8; MAX_BYTES + VECTOR],
    /// 0 for a literal.
    distances: [u8; MAX_BYTES + VECTOR],
    /// Which positions may start a match.
    may_match: [u64; MAX_BYTES / 64],
    /// Which start a token, unless matches are rare.
    starts: [u64; MAX_BYTES / 64],
    /// The matches of the block, where they are rare.
    rare: Vec<Match>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            keys: [0; FRONT + MAX_BYTES + BEHIND],
            pairs: [0; FRONT + MAX_BYTES + BEHIND],
            key_bytes: 1,
            symbols: 0,
            max_match: 0,
            possible: 0,
            steps: [0; MAX_BYTES + VECTOR],
            distances: [0; MAX_BYTES + VECTOR],
            may_match: [0; MAX_BYTES / 64],
            starts: [0; MAX_BYTES / 64],
            rare: Vec::new(),
        }
    }
}

enabled! {
    /// See [`find`](super::find).
    pub(super) fn find<const WIDTH: usize>(bytes: &[u8], symbols: usize, rule: &Rule, next: &[u8], memory: &mut Memory) -> Option<usize> {
        let Rule { window, depth, key_symbols, min_match, max_match } = *rule;
        assert!(symbols * WIDTH <= MAX_BYTES && symbols * WIDTH <= bytes.len());
        assert!((key_symbols..=16).contains(&min_match) && max_match > REACH);
        if (window, depth) != (WINDOW, 1) || key_symbols > MOST_KEY {
            return None;
        }
        memory.key_bytes = match take_keys::<WIDTH>(&bytes[..symbols * WIDTH], &mut memory.keys[FRONT..]) {
            Keys::Narrow => 1,
            Keys::Wide => 2,
            Keys::Hashes => return None,
        };
        (memory.symbols, memory.max_match) = (symbols, max_match);
        let next = (next, WIDTH);
        memory.possible = match (memory.key_bytes, key_symbols) {
            (1, 1) => find_by::<1, 1>(memory, min_match, next),
            (1, 2) => find_by::<1, 2>(memory, min_match, next),
            (1, 3) => find_by::<1, 3>(memory, min_match, next),
            (1, _) => find_by::<1, 4>(memory, min_match, next),
            (_, 1) => find_by::<2, 1>(memory, min_match, next),
            (_, 2) => find_by::<2, 2>(memory, min_match, next),
            (_, 3) => find_by::<2, 3>(memory, min_match, next),
            _ => find_by::<2, 4>(memory, min_match, next),
        };
        Some(memory.possible)
    }

    /// Finds the match of each position, by keys of `KEY` (1 or 2) bytes a symbol, `SYMBOLS` of them. Returns how many
    /// there are. Meanwhile asks for what comes next, symbols of so many bytes: all this takes nothing from memory.
    fn find_by<const KEY: usize, const SYMBOLS: usize>(memory: &mut Memory, min_match: usize, (next, width): (&[u8], usize)) -> usize {
        let lanes = VECTOR / KEY;
        let Memory { keys, pairs, symbols, steps, distances, may_match, .. } = memory;
        let symbols = *symbols;
        let set = |number: usize| if KEY == 1 { _mm512_set1_epi8(number as i8) } else { _mm512_set1_epi16(number as i16) };
        let equal = |mask: u64, a, b| match KEY {
            1 => _mm512_mask_cmpeq_epi8_mask(mask, a, b),
            _ => _mm512_mask_cmpeq_epi16_mask(mask as u32, a, b).into(),
        };
        let add = |mask: u64, a, b| match KEY {
            1 => _mm512_mask_add_epi8(a, mask, a, b),
            _ => _mm512_mask_add_epi16(a, mask as u32, a, b),
        };
        let mut numbers = [0u8; VECTOR];
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = if KEY == 1 { i as u8 } else { (i / 2) as u8 * u8::from(i % 2 == 0) };
        }
        // SAFETY: a load of the array.
        let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
        let one = set(1);
        let has_pairs = KEY == 1 && SYMBOLS == 2;
        if has_pairs {
            let symbols = &keys[FRONT..FRONT + symbols + 1];
            for (pair, both) in pairs[FRONT..].iter_mut().zip(symbols.windows(2)) {
                *pair = both[0].wrapping_add(both[1].wrapping_mul(PAIR_FACTOR));
            }
        }
        // Vectors whose nearest candidates by hashes were not those by symbols.
        let mut mistaken = 0;
        let mut all = 0;
        may_match[..symbols.div_ceil(64)].fill(0);
        assert!((symbols + lanes) * KEY <= MAX_BYTES + VECTOR * KEY);
        for from in (0..symbols).step_by(lanes) {
            if let Some(next) = next.get(from * width..(from + lanes) * width) {
                prefetch(next.as_ptr(), next.len());
            }
            // The keys of as many positions, from so many symbols before or behind these on.
            let at = |offset: isize| {
                let start = (FRONT + from * KEY).wrapping_add_signed(offset * KEY as isize);
                debug_assert!(start + VECTOR <= keys.len());
                // SAFETY: `from` is a symbol of the block; before it there is a vector, behind the block's keys
                // `BEHIND`, and offsets are from `-lanes` to `REACH`.
                unsafe { _mm512_loadu_si512(keys.as_ptr().add(start).cast()) }
            };
            // Likewise hashes.
            let pairs_at = |offset: isize| {
                let start = (FRONT + from).wrapping_add_signed(offset);
                debug_assert!(start + VECTOR <= pairs.len());
                // SAFETY: as above, with keys of one byte.
                unsafe { _mm512_loadu_si512(pairs.as_ptr().add(start).cast()) }
            };
            let put = |distance, same: u64, number| if KEY == 1 { _mm512_mask_mov_epi8(distance, same, number) } else { _mm512_mask_mov_epi16(distance, same as u32, number) };
            let subtract = |a, b| if KEY == 1 { _mm512_sub_epi8(a, b) } else { _mm512_sub_epi16(a, b) };
            // What stands at the candidates, of what stands here and in the vector before. The lanes here are numbered
            // from 0 on, so that this comes first.
            let permute = |here, sources, before| if KEY == 1 { _mm512_permutex2var_epi8(here, sources, before) } else { _mm512_permutex2var_epi16(here, sources, before) };
            let left = symbols - from;
            let positions = _mm512_add_epi8(numbers, set(from.min(WINDOW)));
            // Nothing stands before the block.
            let candidates = |distance| match KEY {
                1 => _mm512_mask_cmple_epu8_mask(_mm512_test_epi8_mask(distance, distance), distance, positions),
                _ => _mm512_mask_cmple_epu16_mask(_mm512_test_epi16_mask(distance, distance), distance, positions).into(),
            };
            let mut distance = _mm512_setzero_si512();
            let mut is_found = false;
            if has_pairs && mistaken * 4 <= from / lanes {
                let here = pairs_at(0);
                let mut number = set(WINDOW);
                for four in (0..WINDOW as isize / 4).rev() {
                    for back in [4, 3, 2, 1] {
                        distance = put(distance, equal(u64::MAX, here, pairs_at(-4 * four - back)), number);
                        number = subtract(number, one);
                    }
                }
                let sources = subtract(numbers, distance);
                let mut same = u64::MAX;
                for ahead in 0..SYMBOLS as isize {
                    let here = at(ahead);
                    same = equal(same, permute(here, sources, at(ahead - lanes as isize)), here);
                }
                let is_wrong = candidates(distance) & !same & u64::MAX.checked_shr(64u32.saturating_sub(left as u32)).unwrap_or(0);
                is_found = is_wrong == 0;
                mistaken += usize::from(!is_found);
            }
            if !is_found {
                let here: [__m512i; SYMBOLS] = std::array::from_fn(|i| at(i as isize));
                let mut number = set(WINDOW);
                distance = _mm512_setzero_si512();
                // What stands so far before the positions, and before those behind them.
                let mut there: [__m512i; SYMBOLS] = std::array::from_fn(|i| at(i as isize - WINDOW as isize));
                for four in (0..WINDOW as isize / 4).rev() {
                    for back in [4, 3, 2, 1] {
                        let mut same = u64::MAX;
                        for i in 0..SYMBOLS {
                            same = equal(same, here[i], there[i]);
                        }
                        distance = put(distance, same, number);
                        number = subtract(number, one);
                        for i in 1..SYMBOLS {
                            there[i - 1] = there[i];
                        }
                        there[SYMBOLS - 1] = at(SYMBOLS as isize - 4 * four - back);
                    }
                }
            }
            let mut alive = candidates(distance);
            let sources = subtract(numbers, distance);
            if has_pairs {
                // By hashes first, two symbols at a time: where short matches do not count most positions are done
                // with.
                let mut ahead = SYMBOLS;
                while ahead + 2 <= min_match && alive != 0 {
                    let here = pairs_at(ahead as isize);
                    alive = equal(alive, permute(here, sources, pairs_at(ahead as isize - lanes as isize)), here);
                    ahead += 2;
                }
            }
            let mut length = add(alive, _mm512_setzero_si512(), set(SYMBOLS));
            let mut ahead = SYMBOLS;
            while ahead < REACH && alive != 0 {
                // Several between jumps, as the last is mispredicted mostly.
                for ahead in ahead..(ahead + STEPS).min(REACH) {
                    let here = at(ahead as isize);
                    alive = equal(alive, permute(here, sources, at(ahead as isize - lanes as isize)), here);
                    length = add(alive, length, one);
                }
                ahead += STEPS;
            }
            if left < lanes + REACH {
                // What is behind the block is no part of it.
                let room = if KEY == 1 { _mm512_subs_epu8(set(left.min(255)), numbers) } else { _mm512_subs_epu16(set(left), numbers) };
                length = if KEY == 1 { _mm512_min_epu8(length, room) } else { _mm512_min_epu16(length, room) };
                alive = equal(alive, length, set(REACH));
            }
            let is_match = if KEY == 1 { _mm512_cmpge_epu8_mask(length, set(min_match)) } else { _mm512_cmpge_epu16_mask(length, set(min_match)).into() };
            let step = if KEY == 1 { _mm512_mask_mov_epi8(one, is_match, length) } else { _mm512_mask_mov_epi16(one, is_match as u32, length) };
            let step = if KEY == 1 { _mm512_maskz_mov_epi8(!alive, step) } else { _mm512_maskz_mov_epi16(!alive as u32, step) };
            let distance = if KEY == 1 { _mm512_maskz_mov_epi8(is_match, distance) } else { _mm512_maskz_mov_epi16(is_match as u32, distance) };
            may_match[from / 64] |= is_match << (from % 64);
            all += is_match.count_ones() as usize;
            for (bytes, vector) in [(&mut *steps, step), (&mut *distances, distance)] {
                let bytes: &mut [u8; VECTOR] = (&mut bytes[from..from + VECTOR]).try_into().expect("as many");
                // SAFETY: stores to the array, all of it or half.
                unsafe {
                    match KEY {
                        1 => _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector),
                        _ => _mm256_storeu_si256(bytes.as_mut_ptr().cast(), _mm512_cvtepi16_epi8(vector)),
                    }
                }
            }
        }
        all
    }
}

enabled! {
    /// See [`walk`](super::walk).
    pub(super) fn walk(memories: &mut [&mut Memory]) {
        let mut dense: Vec<&mut Memory> = Vec::new();
        for memory in memories {
            memory.rare.clear();
            if memory.possible * RARE < memory.symbols {
                memory.walk_matches();
            } else {
                let words = memory.symbols.div_ceil(64);
                memory.starts[..words].fill(0);
                dense.push(memory);
            }
        }
        match dense.as_mut_slice() {
            [] => {}
            [a] => in_turn([a]),
            [a, b] => in_turn([a, b]),
            [a, b, c] => in_turn([a, b, c]),
            [a, b, c, d, rest @ ..] => {
                in_turn([a, b, c, d]);
                // The caller has no more than four.
                rest.iter_mut().for_each(|memory| in_turn([memory]));
            }
        }
    }

    /// Goes from token to token in several blocks at once: from one to the next takes as long as a load, which leaves
    /// room for others'.
    fn in_turn<const STREAMS: usize>(memories: [&mut Memory; STREAMS]) {
        let mut memories = memories;
        let symbols: [usize; STREAMS] = std::array::from_fn(|i| memories[i].symbols);
        let mut at = [0; STREAMS];
        while (0..STREAMS).all(|i| at[i] < symbols[i]) {
            // Not `for_each`: a closure is not compiled for this machine's vectors.
            for (memory, at) in memories.iter_mut().zip(&mut at) {
                *at = memory.step(*at);
            }
        }
        for (memory, mut at) in memories.into_iter().zip(at) {
            while at < memory.symbols {
                at = memory.step(at);
            }
        }
    }
}

impl Memory {
    /// Notes that a token starts at `at`. Returns where the next one does.
    #[inline(always)]
    fn step(&mut self, at: usize) -> usize {
        let at = at % MAX_BYTES;
        self.starts[at / 64] |= 1 << (at % 64);
        match usize::from(self.steps[at]) {
            0 => at + self.long(at),
            step => at + step,
        }
    }

    /// The symbols of the long match at `at`, which is noted.
    #[inline(never)]
    #[cold]
    fn long(&mut self, at: usize) -> usize {
        let key = self.key_bytes;
        let here = FRONT + (at + REACH) * key;
        let there = here - usize::from(self.distances[at]) * key;
        let room = (self.symbols - at).min(self.max_match) - REACH;
        // SAFETY: only `find` makes positions with long matches, whose callers have found the features.
        let length = REACH + unsafe { common(&self.keys, there, here, room * key) } / key;
        // Modulo 256, as what is written of it: its length less the shortest.
        self.steps[at] = length as u8;
        length
    }

    /// As [`step`](Self::step) for all of the block, of which most are literals.
    #[inline(always)]
    fn walk_matches(&mut self) {
        let mut end = 0;
        for word in 0..self.symbols.div_ceil(64) {
            let mut left = self.may_match[word];
            while left != 0 {
                let at = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if at >= end {
                    let length = match usize::from(self.steps[at]) {
                        0 => self.long(at),
                        step => step,
                    };
                    self.rare.push(Match { at, length, distance: self.distances[at] });
                    end = at + length;
                }
            }
        }
    }

    /// The matches, in order, if there are so few that they have been listed.
    pub(super) fn rare(&self) -> Option<&[Match]> {
        (self.possible * RARE < self.symbols).then_some(&self.rare)
    }
}

enabled! {
    /// See [`write_found`](super::write_found).
    pub(super) fn write_found<const WIDTH: usize>(bytes: &[u8], min_match: usize, memory: &Memory, mut out: TokensOut) -> TokenCounts {
        let symbols = memory.symbols;
        assert!(bytes.len() >= symbols * WIDTH + BITMAP_SLACK && out.flags.len() >= symbols.div_ceil(64));
        let mut written = Written::default();
        for (i, &starts) in memory.starts[..symbols.div_ceil(64)].iter().enumerate() {
            if starts == 0 {
                continue;
            }
            let (steps, distances) = (&memory.steps[i * 64..], &memory.distances[i * 64..]);
            let bytes = &bytes[i * 64 * WIDTH..];
            let Written { matches, literals, .. } = written;
            let flags = write::<WIDTH>(starts, steps, distances, min_match, bytes, &mut out, (matches, literals));
            written.add::<WIDTH>(flags, starts.count_ones(), out.flags);
        }
        if written.tokens % 64 > 0 {
            out.flags[written.tokens / 64] = written.flags;
        }
        TokenCounts { tokens: written.tokens, matches: written.matches }
    }
}
