//! Finds the tokens of blocks where only the nearest candidate counts (level 1): the distance and length of the match
//! of each position, a vector of positions at a time. Then several blocks go from token to token alternately.
//!
//! The keys of a vector of positions are compared with the keys at each distance before them, from the greatest
//! distance to the least, so that the nearest equal key remains. Permutations compare the symbols after the key,
//! because two vectors hold all candidates.

#![allow(unsafe_code, reason = "vector loads and stores")]

use std::arch::x86_64::*;

use super::super::block_tokens::{MAX_BYTES, Match, SearchRules, TokenCounts, TokensOut, WRITE_SLACK};
use super::symbol_keys::{KeyKind, write_keys};
use super::vectors::{VECTOR, common_bytes};
use super::write_tokens::{Written, write_tokens};
use crate::mem::prefetch::prefetch;

/// Greatest distance.
const WINDOW: usize = 32;
/// Unused bytes before a block's keys, which loads may reach.
const FRONT: usize = VECTOR;
/// Symbols of a match that are compared before it is known where tokens start.
const REACH: usize = 24;
/// Symbols that are compared between tests whether any match continues.
const STEPS: usize = 11;
/// Factor of the second symbol in the hash of a pair. Pairs of up to eleven values have different hashes.
const PAIR_FACTOR: u8 = 29;
/// Most symbols of a key.
const MAX_KEY: usize = 4;
/// Bytes after a block's keys that may be loaded.
const KEY_SLACK: usize = 2 * VECTOR + 2 * REACH;
/// A block with fewer matches than one in this many positions is processed match by match.
const FEW_MATCHES: usize = 16;

/// The matches of a block's positions, and buffers that are reused from block to block.
#[derive(Debug)]
pub(in super::super) struct SingleCandidates {
    keys: [u8; FRONT + MAX_BYTES + KEY_SLACK],
    /// Hashes of the two symbols from each position on, one byte each.
    pairs: [u8; FRONT + MAX_BYTES + KEY_SLACK],
    key_bytes: usize,
    symbols: usize,
    max_match: usize,
    /// Number of positions that have a match.
    possible: usize,
    /// Symbols from each position to the next token if a token starts here; 0 for a match of [`REACH`] or more symbols.
    steps: [u8; MAX_BYTES + VECTOR],
    /// Distance of the match, 0 for a literal.
    distances: [u8; MAX_BYTES + VECTOR],
    /// Which positions have a match.
    may_match: [u64; MAX_BYTES / 64],
    /// Which positions start a token. Not used if there are few matches.
    starts: [u64; MAX_BYTES / 64],
    /// The matches that tokens take, if there are few.
    few: Vec<Match>,
}

impl Default for SingleCandidates {
    fn default() -> Self {
        Self {
            keys: [0; FRONT + MAX_BYTES + KEY_SLACK],
            pairs: [0; FRONT + MAX_BYTES + KEY_SLACK],
            key_bytes: 1,
            symbols: 0,
            max_match: 0,
            possible: 0,
            steps: [0; MAX_BYTES + VECTOR],
            distances: [0; MAX_BYTES + VECTOR],
            may_match: [0; MAX_BYTES / 64],
            starts: [0; MAX_BYTES / 64],
            few: Vec::new(),
        }
    }
}

/// Implements [`find_single_candidates`](super::super::window_bitmap::find_single_candidates).
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) fn find<const WIDTH: usize>(
    bytes: &[u8],
    symbols: usize,
    rules: &SearchRules,
    next: &[u8],
    block: &mut SingleCandidates,
) -> bool {
    let SearchRules { window, depth, key_symbols, min_match, max_match } = *rules;
    assert!(symbols * WIDTH <= MAX_BYTES && symbols * WIDTH <= bytes.len());
    assert!((key_symbols..=16).contains(&min_match) && max_match > REACH);
    if (window, depth) != (WINDOW, 1) || key_symbols > MAX_KEY {
        return false;
    }
    block.key_bytes = match write_keys::<WIDTH>(&bytes[..symbols * WIDTH], &mut block.keys[FRONT..]) {
        KeyKind::Narrow => 1,
        KeyKind::Wide => 2,
        KeyKind::Hashes => return false,
    };
    (block.symbols, block.max_match) = (symbols, max_match);
    let next = (next, WIDTH);
    block.possible = match (block.key_bytes, key_symbols) {
        (1, 1) => find_by::<1, 1>(block, min_match, next),
        (1, 2) => find_by::<1, 2>(block, min_match, next),
        (1, 3) => find_by::<1, 3>(block, min_match, next),
        (1, _) => find_by::<1, 4>(block, min_match, next),
        (_, 1) => find_by::<2, 1>(block, min_match, next),
        (_, 2) => find_by::<2, 2>(block, min_match, next),
        (_, 3) => find_by::<2, 3>(block, min_match, next),
        _ => find_by::<2, 4>(block, min_match, next),
    };
    true
}

/// Finds the match of each position, by keys of `SYMBOLS` symbols of `KEY` (1 or 2) bytes each. Returns the number of
/// matches. Meanwhile prefetches `next`, symbols of `width` bytes.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn find_by<const KEY: usize, const SYMBOLS: usize>(
    block: &mut SingleCandidates,
    min_match: usize,
    (next, width): (&[u8], usize),
) -> usize {
    let lanes = VECTOR / KEY;
    let SingleCandidates { keys, pairs, symbols, steps, distances, may_match, .. } = block;
    let symbols = *symbols;
    let set = |number: usize| match KEY {
        1 => _mm512_set1_epi8(number as i8),
        _ => _mm512_set1_epi16(number as i16),
    };
    let equal = |mask: u64, a, b| match KEY {
        1 => _mm512_mask_cmpeq_epi8_mask(mask, a, b),
        _ => _mm512_mask_cmpeq_epi16_mask(mask as u32, a, b).into(),
    };
    let add = |mask: u64, a, b| match KEY {
        1 => _mm512_mask_add_epi8(a, mask, a, b),
        _ => _mm512_mask_add_epi16(a, mask as u32, a, b),
    };
    let (numbers, one) = (lane_numbers::<KEY>(), set(1));
    let has_pairs = KEY == 1 && SYMBOLS == 2;
    if has_pairs {
        write_pairs(&keys[FRONT..FRONT + symbols + 1], &mut pairs[FRONT..]);
    }
    // Vectors in which hashes gave a candidate that has other symbols.
    let mut mistaken = 0;
    let mut all = 0;
    may_match[..symbols.div_ceil(64)].fill(0);
    assert!((symbols + lanes) * KEY <= MAX_BYTES + VECTOR * KEY);
    for from in (0..symbols).step_by(lanes) {
        if let Some(next) = next.get(from * width..(from + lanes) * width) {
            prefetch(next.as_ptr(), next.len());
        }
        // The keys of these positions, shifted by `offset` symbols.
        let at = |offset: isize| {
            let start = (FRONT + from * KEY).wrapping_add_signed(offset * KEY as isize);
            debug_assert!(start + VECTOR <= keys.len());
            // SAFETY: `from` is a symbol of the block. There is a vector before the keys and `KEY_SLACK` bytes after
            // them, and offsets are from `-lanes` to `REACH`.
            unsafe { _mm512_loadu_si512(keys.as_ptr().add(start).cast()) }
        };
        // The hashes of these positions, shifted by `offset` symbols.
        let pairs_at = |offset: isize| {
            let start = (FRONT + from).wrapping_add_signed(offset);
            debug_assert!(start + VECTOR <= pairs.len());
            // SAFETY: as for the keys, with one byte a symbol.
            unsafe { _mm512_loadu_si512(pairs.as_ptr().add(start).cast()) }
        };
        let put = |distance, same: u64, number| match KEY {
            1 => _mm512_mask_mov_epi8(distance, same, number),
            _ => _mm512_mask_mov_epi16(distance, same as u32, number),
        };
        let subtract = |a, b| if KEY == 1 { _mm512_sub_epi8(a, b) } else { _mm512_sub_epi16(a, b) };
        // The keys at the candidates. This vector is the first operand, because its lanes are numbered from 0 on.
        let permute = |here, sources, before| match KEY {
            1 => _mm512_permutex2var_epi8(here, sources, before),
            _ => _mm512_permutex2var_epi16(here, sources, before),
        };
        let left = symbols - from;
        let positions = _mm512_add_epi8(numbers, set(from.min(WINDOW)));
        // Candidates before the block do not exist.
        let candidates = |distance| match KEY {
            1 => _mm512_mask_cmple_epu8_mask(_mm512_test_epi8_mask(distance, distance), distance, positions),
            _ => _mm512_mask_cmple_epu16_mask(_mm512_test_epi16_mask(distance, distance), distance, positions).into(),
        };
        let (mut distance, mut is_found) = (_mm512_setzero_si512(), false);
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
            let inside = u64::MAX.checked_shr(64u32.saturating_sub(left as u32)).unwrap_or(0);
            let is_wrong = candidates(distance) & !same & inside;
            is_found = is_wrong == 0;
            mistaken += usize::from(!is_found);
        }
        if !is_found {
            let here: [__m512i; SYMBOLS] = std::array::from_fn(|i| at(i as isize));
            let mut number = set(WINDOW);
            distance = _mm512_setzero_si512();
            // The keys at this distance before the positions, and before those after them.
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
            // Hashes compare two symbols at a time. If short matches do not count, that decides most positions.
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
            // Several symbols between branches, because the last branch is mostly mispredicted.
            for ahead in ahead..(ahead + STEPS).min(REACH) {
                let here = at(ahead as isize);
                alive = equal(alive, permute(here, sources, at(ahead as isize - lanes as isize)), here);
                length = add(alive, length, one);
            }
            ahead += STEPS;
        }
        if left < lanes + REACH {
            // A match ends at the end of the block.
            length = at_most_left::<KEY>(length, left, numbers);
            alive = equal(alive, length, set(REACH));
        }
        let is_match = match KEY {
            1 => _mm512_cmpge_epu8_mask(length, set(min_match)),
            _ => _mm512_cmpge_epu16_mask(length, set(min_match)).into(),
        };
        let keep = |mask: u64, vector| put(_mm512_setzero_si512(), mask, vector);
        let step = keep(!alive, put(one, is_match, length));
        let distance = keep(is_match, distance);
        may_match[from / 64] |= is_match << (from % 64);
        all += is_match.count_ones() as usize;
        store_bytes::<KEY>(&mut steps[from..], step);
        store_bytes::<KEY>(&mut distances[from..], distance);
    }
    all
}

/// Returns the number of each lane of `KEY` bytes.
#[target_feature(enable = "avx512vbmi")]
fn lane_numbers<const KEY: usize>() -> __m512i {
    let mut numbers = [0u8; VECTOR];
    for (i, number) in numbers.iter_mut().enumerate() {
        *number = if KEY == 1 { i as u8 } else { (i / 2) as u8 * u8::from(i % 2 == 0) };
    }
    // SAFETY: an unaligned load of the array.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

/// Writes the hashes of the pairs of consecutive symbols.
fn write_pairs(symbols: &[u8], pairs: &mut [u8]) {
    for (pair, both) in pairs.iter_mut().zip(symbols.windows(2)) {
        *pair = both[0].wrapping_add(both[1].wrapping_mul(PAIR_FACTOR));
    }
}

/// Returns the lengths of matches, at most the symbols from each lane's position to the end of the block, of which lane
/// 0 has `left`.
#[inline]
#[target_feature(enable = "avx512vbmi")]
fn at_most_left<const KEY: usize>(length: __m512i, left: usize, numbers: __m512i) -> __m512i {
    match KEY {
        1 => _mm512_min_epu8(length, _mm512_subs_epu8(_mm512_set1_epi8(left.min(255) as i8), numbers)),
        _ => _mm512_min_epu16(length, _mm512_subs_epu16(_mm512_set1_epi16(left as i16), numbers)),
    }
}

/// Stores the low byte of each lane of `KEY` bytes to the front of `bytes`, which has at least a vector.
#[inline]
#[target_feature(enable = "avx512vbmi")]
fn store_bytes<const KEY: usize>(bytes: &mut [u8], lanes: __m512i) {
    let bytes: &mut [u8; VECTOR] = bytes.first_chunk_mut().expect("VECTOR bytes");
    // SAFETY: unaligned stores to the array or its first half.
    unsafe {
        match KEY {
            1 => _mm512_storeu_si512(bytes.as_mut_ptr().cast(), lanes),
            _ => _mm256_storeu_si256(bytes.as_mut_ptr().cast(), _mm512_cvtepi16_epi8(lanes)),
        }
    }
}

/// Implements [`mark_token_starts`](super::super::window_bitmap::mark_token_starts).
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) fn mark_starts(blocks: &mut [&mut SingleCandidates]) {
    let mut dense: Vec<&mut SingleCandidates> = Vec::new();
    for block in blocks {
        block.few.clear();
        if block.possible * FEW_MATCHES < block.symbols {
            block.list_matches();
        } else {
            let words = block.symbols.div_ceil(64);
            block.starts[..words].fill(0);
            dense.push(block);
        }
    }
    match dense.as_mut_slice() {
        [] => {}
        [a] => alternately([a]),
        [a, b] => alternately([a, b]),
        [a, b, c] => alternately([a, b, c]),
        [a, b, c, d, rest @ ..] => {
            alternately([a, b, c, d]);
            rest.iter_mut().for_each(|block| alternately([block]));
        }
    }
}

/// Goes from token to token in several blocks alternately. Each step waits for a load, and the other blocks use that
/// time.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn alternately<const STREAMS: usize>(blocks: [&mut SingleCandidates; STREAMS]) {
    let mut blocks = blocks;
    let symbols: [usize; STREAMS] = std::array::from_fn(|i| blocks[i].symbols);
    let mut at = [0; STREAMS];
    while (0..STREAMS).all(|i| at[i] < symbols[i]) {
        // Not `for_each`: a closure would not be compiled for AVX-512.
        for (block, at) in blocks.iter_mut().zip(&mut at) {
            *at = block.step(*at);
        }
    }
    for (block, mut at) in blocks.into_iter().zip(at) {
        while at < block.symbols {
            at = block.step(at);
        }
    }
}

impl SingleCandidates {
    /// Marks that a token starts at `at`. Returns the start of the next token.
    #[inline(always)]
    fn step(&mut self, at: usize) -> usize {
        let at = at % MAX_BYTES;
        self.starts[at / 64] |= 1 << (at % 64);
        match usize::from(self.steps[at]) {
            0 => at + self.measure_long(at),
            step => at + step,
        }
    }

    /// Measures the long match at `at`, records its length and returns it.
    #[inline(never)]
    #[cold]
    fn measure_long(&mut self, at: usize) -> usize {
        let key = self.key_bytes;
        let here = FRONT + (at + REACH) * key;
        let there = here - usize::from(self.distances[at]) * key;
        let room = (self.symbols - at).min(self.max_match) - REACH;
        // SAFETY: only `find` records long matches, and it runs only where the processor has AVX-512 VBMI2.
        let length = REACH + unsafe { common_bytes(&self.keys, there, here, room * key) } / key;
        // The length modulo 256 is enough, because the stored length is also modulo 256.
        self.steps[at] = length as u8;
        length
    }

    /// Lists the matches that tokens take, for a block of mostly literals.
    #[inline(always)]
    fn list_matches(&mut self) {
        let mut end = 0;
        for word in 0..self.symbols.div_ceil(64) {
            let mut left = self.may_match[word];
            while left != 0 {
                let at = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if at >= end {
                    let length = match usize::from(self.steps[at]) {
                        0 => self.measure_long(at),
                        step => step,
                    };
                    self.few.push(Match { at, length, distance: self.distances[at] });
                    end = at + length;
                }
            }
        }
    }

    /// Returns the matches that tokens take, in order, if they are few.
    pub(in super::super) fn few_matches(&self) -> Option<&[Match]> {
        (self.possible * FEW_MATCHES < self.symbols).then_some(&self.few)
    }
}

/// Implements [`write_single_candidates`](super::super::window_bitmap::write_single_candidates).
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) fn write<const WIDTH: usize>(
    bytes: &[u8],
    min_match: usize,
    block: &SingleCandidates,
    mut out: TokensOut,
) -> TokenCounts {
    let symbols = block.symbols;
    assert!(bytes.len() >= symbols * WIDTH + WRITE_SLACK && out.flags.len() >= symbols.div_ceil(64));
    let mut written = Written::default();
    for (i, &starts) in block.starts[..symbols.div_ceil(64)].iter().enumerate() {
        if starts == 0 {
            continue;
        }
        let (steps, distances) = (&block.steps[i * 64..], &block.distances[i * 64..]);
        let bytes = &bytes[i * 64 * WIDTH..];
        let Written { matches, literals, .. } = written;
        let flags = write_tokens::<WIDTH>(starts, steps, distances, min_match, bytes, &mut out, (matches, literals));
        written.add::<WIDTH>(flags, starts.count_ones(), out.flags);
    }
    written.finish(out.flags)
}
