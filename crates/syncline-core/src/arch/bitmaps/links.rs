//! Symbols of one byte whose matches are mostly of the shortest kind, three symbols: no bitmaps, but of each position
//! the nearest before it that begins alike.
//!
//! A table of the last position with each hash of three symbols is kept going position by position, whatever is a
//! token, so that nothing waits for anything and nothing is mispredicted. All else is done for 64 positions at a time.
//! The window fits three vectors, so that one permutation fetches what stands at the candidates of all 64, be it a
//! symbol or where the next candidate is. What a match of three leaves out are the next two positions, so that the
//! greedy choice is a few shifts of a word. Only matches of four symbols or more, if they start a token, are measured
//! one by one.

use std::arch::x86_64::*;
use std::hint::select_unpredictable;

use super::avx512::{common, load, store, write};
use super::pieces::Written;
use super::{BITMAP_SLACK, MAX_BYTES, Rule, TokenCounts, TokensOut};
use crate::lzss::ENOUGH;
use crate::mem::prefetch::prefetch;

/// Symbols of a key, and of the shortest match.
const KEY: usize = 3;
/// Positions that are looked at together.
const LINE: usize = 64;
/// Greatest window: what two vectors before a line hold.
const FRONT: usize = 2 * LINE;
/// Positions whose keys are looked up together: far enough apart from where that is read again.
const PIECE: usize = 1024;
/// log2 of the entries in the table of last positions. With 13 bits every second line has keys that have only the hash
/// in common with their candidate, with 14 every fourth; 15 fill the first-level cache.
const HASH_BITS: u32 = 14;
const HEADS: usize = 1 << HASH_BITS;
/// No position yet: farther than any window from every position.
const NOWHERE: u16 = 1 << 15;
/// What pairs of symbols are multiplied with: a prime near 2^16 over the golden ratio.
const PAIR_FACTOR: i16 = 0x9E35_u16 as i16;
/// Spreads the third symbol over a hash, all values differently.
const THIRD_FACTOR: i16 = (1 << (HASH_BITS - 8)) - 1;

/// Matches of more than three symbols in a piece that are not too many: measuring them one by one takes longer than
/// bitmaps do from about twice as many on.
pub(super) const FEW: usize = PIECE / 24;

/// Memory that is kept from block to block. Aligned as a line of the cache, as lines here are: loads and stores that
/// span two of these took 4 % of the time.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Memory {
    /// The block behind [`FRONT`] others, as all that follows.
    bytes: [u8; FRONT + MAX_BYTES + BITMAP_SLACK],
    /// Of each position how far back the nearest with the same hash is, 0 if there is none in the window.
    same_hash: [u8; FRONT + MAX_BYTES + LINE],
    /// The same of the nearest with the same key.
    links: [u8; FRONT + MAX_BYTES + LINE],
    hashes: [u16; PIECE],
    /// Of the positions of a piece the last one before with the same hash.
    before: [u16; PIECE],
    /// As many as a number of 16 bits needs no check for; those behind [`HEADS`] are never touched.
    heads: [u16; 1 << u16::BITS],
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            bytes: [0; FRONT + MAX_BYTES + BITMAP_SLACK],
            same_hash: [0; FRONT + MAX_BYTES + LINE],
            links: [0; FRONT + MAX_BYTES + LINE],
            hashes: [0; PIECE],
            before: [0; PIECE],
            heads: [NOWHERE; 1 << u16::BITS],
        }
    }
}

/// What is known of a line.
#[derive(Clone, Copy)]
struct Line {
    /// Of each position how far back the nearest candidate is, 0 if there is none.
    distances: __m512i,
    /// Which positions start a match, if they start a token.
    found: u64,
    /// Which of them start a match of more than three symbols.
    longer: u64,
}

/// How far tokens have come.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// Where the next token starts.
    at: usize,
    /// How many matches of more than three symbols there were.
    longer: usize,
    written: Written,
}

enabled! {
    /// Makes the tokens of a block by a rule with keys and shortest matches of three symbols of one byte, `DEPTH`
    /// candidates (2 or 4) and a window of at most 128 symbols. Returns `None`, whatever it has written to `out`, if in
    /// some piece more than `most` matches are longer. Meanwhile asks for what comes `next`.
    pub(super) fn tokens<const DEPTH: usize>(bytes: &[u8], rule: &Rule, most: usize, next: &[u8], memory: &mut Memory, mut out: TokensOut) -> Option<TokenCounts> {
        let symbols = bytes.len();
        assert!(symbols <= MAX_BYTES && out.flags.len() >= symbols.div_ceil(64));
        assert!(rule.depth == DEPTH && rule.window <= FRONT && (rule.key_symbols, rule.min_match) == (KEY, KEY));
        memory.bytes[FRONT..FRONT + symbols].copy_from_slice(bytes);
        memory.heads[..HEADS].fill(NOWHERE);
        let mut walk = Walk::default();
        for piece in (0..symbols).step_by(PIECE) {
            let end = (piece + PIECE).min(symbols);
            look_up(memory, piece, end);
            let longer_before = walk.longer;
            for from in (piece..end).step_by(LINE) {
                if let Some(next) = next.get(from..from + LINE) {
                    prefetch(next.as_ptr(), next.len());
                }
                let line = search_line::<DEPTH>(memory, from, from - piece, symbols, rule.window);
                if walk.at < from + LINE {
                    take_line::<DEPTH>(memory, from, symbols, rule, line, &mut walk, &mut out);
                }
            }
            if walk.longer - longer_before > most {
                return None;
            }
        }
        let Written { tokens, matches, flags, .. } = walk.written;
        if tokens % 64 > 0 {
            out.flags[tokens / 64] = flags;
        }
        Some(TokenCounts { tokens, matches })
    }

    /// Finds the last position before with the same hash of each position from `piece` to `end`, at most [`PIECE`] of
    /// them.
    fn look_up(memory: &mut Memory, piece: usize, end: usize) {
        let Memory { bytes, hashes, before, heads, .. } = memory;
        for at in (0..end - piece).step_by(LINE) {
            hash_line(&bytes[FRONT + piece + at..], bytemuck::cast_slice_mut(&mut hashes[at..at + LINE]));
        }
        let eights = before.as_chunks_mut::<8>().0.iter_mut().zip(hashes.as_chunks::<8>().0);
        let mut at = piece as u16;
        for (before, hashes) in eights.take((end - piece).div_ceil(8)) {
            // One store for eight: stores are what this waits for.
            let mut eight = _mm_setzero_si128();
            macro_rules! look_up {
                ($($lane:literal)*) => {$(
                    let head = &mut heads[usize::from(hashes[$lane])];
                    eight = _mm_insert_epi16::<$lane>(eight, i32::from(*head));
                    *head = at + $lane;
                )*};
            }
            look_up!(0 1 2 3 4 5 6 7);
            *before = bytemuck::cast([_mm_cvtsi128_si64(eight), _mm_extract_epi64::<1>(eight)]);
            at += 8;
        }
    }

    /// Writes the hashes of the keys at the first [`LINE`] of some symbols. Of keys whose first two symbols are the
    /// same those with different third ones differ.
    #[inline]
    fn hash_line(bytes: &[u8], hashes: &mut [u8]) {
        let low = _mm512_set1_epi16(0xff);
        let hash = |at: usize| {
            let (pairs, thirds) = (load(bytes, at), _mm512_and_si512(load(bytes, at + 2), low));
            let factor = _mm512_set1_epi16(PAIR_FACTOR);
            let mixed = _mm512_xor_si512(_mm512_mullo_epi16(pairs, factor), _mm512_mulhi_epu16(pairs, factor));
            let thirds = _mm512_mullo_epi16(thirds, _mm512_set1_epi16(THIRD_FACTOR));
            _mm512_xor_si512(_mm512_srli_epi16::<{ 16 - HASH_BITS }>(mixed), thirds)
        };
        let (even, odd) = (hash(0), hash(1));
        let mut order = [0u16; LINE];
        for (i, number) in order.iter_mut().enumerate() {
            *number = (i / 2 + i % 2 * 32) as u16;
        }
        let order: &[u8] = bytemuck::cast_slice(&order);
        for half in [0, LINE] {
            store(hashes, half, _mm512_permutex2var_epi16(even, load(order, half), odd));
        }
    }

    /// Finds the candidates of the 64 positions from `from` on, the `number`th and on of a piece that has been looked
    /// up.
    #[inline]
    fn search_line<const DEPTH: usize>(memory: &mut Memory, from: usize, number: usize, symbols: usize, window: usize) -> Line {
        let Memory { bytes, same_hash, links, before, .. } = memory;
        // The line and what is before and behind it.
        let bytes: &[u8; 4 * LINE] = bytes[from..from + 4 * LINE].try_into().expect("as many");
        let before = bytemuck::cast_slice(&before[number..number + LINE]);
        let mut distances = distances_to(before, from, window);
        if from + LINE + KEY > symbols + 1 {
            // A position too near the end starts no match.
            let keys = (symbols + 1).saturating_sub(from + KEY) as u32;
            distances = _mm512_maskz_mov_epi8(!u64::MAX.checked_shl(keys).unwrap_or(0), distances);
        }
        store(same_hash, FRONT + from, distances);
        let mut sources = sources_at(distances);
        // The third symbols are the same where hashes and the first two are.
        let verify = |mask, sources| {
            let same = |mask, at| _mm512_mask_cmpeq_epi8_mask(mask, fetch(three(bytes, at), sources), load(bytes, FRONT + at));
            same(same(mask, 0), 1)
        };
        let same_hash: &[u8; 3 * LINE] = same_hash[from..from + 3 * LINE].try_into().expect("as many");
        let window = _mm512_set1_epi8(window as i8);
        let hashed = _mm512_test_epi8_mask(distances, distances);
        let mut found = verify(hashed, sources);
        let mut aliens = hashed & !found;
        while aliens != 0 {
            // To the next one with the same hash.
            let more = fetch(three(same_hash, 0), sources);
            let farther = _mm512_adds_epu8(distances, more);
            let next = _mm512_mask_cmple_epu8_mask(_mm512_mask_test_epi8_mask(aliens, more, more), farther, window);
            distances = _mm512_mask_mov_epi8(distances, aliens, _mm512_maskz_mov_epi8(next, farther));
            sources = sources_at(distances);
            let same = verify(next, sources);
            found |= same;
            aliens = next & !same;
        }
        store(links, FRONT + from, distances);
        // Whether the nearest candidate, or one of those behind it, agrees in a fourth symbol.
        let links: &[u8; 3 * LINE] = links[from..from + 3 * LINE].try_into().expect("as many");
        let fourth = load(bytes, FRONT + KEY);
        let mut longer = _mm512_mask_cmpeq_epi8_mask(found, fetch(three(bytes, KEY), sources), fourth);
        let mut farther = distances;
        for _ in 1..DEPTH {
            // Where there are no more, the last one again.
            farther = _mm512_adds_epu8(farther, fetch(three(links, 0), sources));
            sources = sources_at(farther);
            let inside = _mm512_mask_cmple_epu8_mask(found, farther, window);
            longer |= _mm512_mask_cmpeq_epi8_mask(inside, fetch(three(bytes, KEY), sources), fourth);
        }
        Line { distances, found, longer }
    }

    /// The distances of the 64 positions from `from` on to those `before` them, of 16 bits each; 0 for those beyond the
    /// window.
    #[inline]
    fn distances_to(before: &[u8], from: usize, window: usize) -> __m512i {
        let mut numbers = [0u16; LINE];
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = i as u16;
        }
        let numbers: &[u8] = bytemuck::cast_slice(&numbers);
        let half = |at: usize| {
            let here = _mm512_add_epi16(_mm512_set1_epi16(from as i16), load(numbers, at));
            let distances = _mm512_sub_epi16(here, load(before, at));
            _mm512_maskz_mov_epi16(_mm512_cmple_epu16_mask(distances, _mm512_set1_epi16(window as i16)), distances)
        };
        // Packed by quarters of both.
        let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        _mm512_permutexvar_epi64(order, _mm512_packus_epi16(half(0), half(LINE)))
    }

    /// Where in three vectors, of which a line is the last, what is so far back stands.
    #[inline]
    fn sources_at(distances: __m512i) -> __m512i {
        let mut numbers = [0u8; LINE];
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = (FRONT + i) as u8;
        }
        _mm512_sub_epi8(load(&numbers, 0), distances)
    }

    /// The vectors from `at` on.
    #[inline]
    fn three<const BYTES: usize>(bytes: &[u8; BYTES], at: usize) -> [__m512i; 3] {
        [load(bytes, at), load(bytes, at + LINE), load(bytes, at + 2 * LINE)]
    }

    /// What stands at some places of three vectors.
    #[inline]
    fn fetch(vectors: [__m512i; 3], places: __m512i) -> __m512i {
        let before = _mm512_permutex2var_epi8(vectors[0], places, vectors[1]);
        _mm512_mask_permutexvar_epi8(before, _mm512_movepi8_mask(places), places, vectors[2])
    }

    /// Takes the tokens that start in the line from `from` on.
    #[inline]
    fn take_line<const DEPTH: usize>(memory: &Memory, from: usize, symbols: usize, rule: &Rule, line: Line, walk: &mut Walk, out: &mut TokensOut) {
        let Walk { at, longer, written } = walk;
        let mut outside = (1u64 << at.saturating_sub(from)) - 1;
        if symbols - from < LINE {
            outside |= u64::MAX << (symbols - from);
        }
        let mut left = line.found & !outside;
        let mut distances = line.distances;
        let mut lengths = _mm512_set1_epi8(KEY as i8);
        // What longer matches cover, and where the last of them ends.
        let (mut covered, mut end) = (0u64, 0);
        let mut starts = greedy(left);
        let mut unmeasured = starts & line.longer;
        while unmeasured != 0 {
            let i = unmeasured.trailing_zeros();
            let (length, distance) = longest::<DEPTH>(memory, from + i as usize, symbols, rule);
            distances = _mm512_mask_set1_epi8(distances, 1 << i, distance as i8);
            // Modulo 256, as what is written of it: its length less the shortest.
            lengths = _mm512_mask_set1_epi8(lengths, 1 << i, length as i8);
            let behind = u64::MAX << i << 1;
            end = i as usize + length;
            let covers = behind & !u64::MAX.checked_shl(end as u32).unwrap_or(0);
            covered |= covers;
            left &= !covers;
            starts = greedy(left);
            unmeasured = starts & line.longer & behind;
            *longer += 1;
        }
        // Of a match of three at one of the last two positions one or two symbols are behind the line.
        *at = from + (LINE + (starts >> (LINE - 2)) as usize).max(end);
        let tokens = !(covered | starts << 1 | starts << 2 | outside);
        let Written { matches, literals, .. } = *written;
        let bytes = &memory.bytes[FRONT + from..];
        let mut fields = [0u8; 2 * LINE];
        store(&mut fields, 0, lengths);
        store(&mut fields, LINE, distances);
        let (lengths, distances) = fields.split_at(LINE);
        let flags = write::<1>(tokens, lengths, distances, KEY, bytes, out, (matches, literals));
        written.add::<1>(flags, tokens.count_ones(), out.flags);
    }
}

/// Which of these positions start tokens, if all would start matches of three symbols.
#[inline(always)]
fn greedy(mut left: u64) -> u64 {
    // Those that none before them can cover do, and what they cover does not. Twice is mostly enough.
    let mut settle = || {
        let open = left & (left << 1 | left << 2);
        let sure = left & !open;
        left &= !(sure << 1 | sure << 2);
        open
    };
    settle();
    while settle() != 0 {}
    left
}

enabled! {
    /// The match at `at`, which has at least one candidate.
    #[inline]
    fn longest<const DEPTH: usize>(memory: &Memory, at: usize, symbols: usize, rule: &Rule) -> (usize, usize) {
        let Memory { bytes, links, .. } = memory;
        let room = (symbols - at).min(rule.max_match);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let here = word(FRONT + at);
        let (mut best, mut distance) = (0, 0);
        for _ in 0..DEPTH {
            let farther = distance + usize::from(links[FRONT + at - distance]);
            // Where there are no more, the last one again.
            distance = select_unpredictable(farther > rule.window, distance, farther);
            let same = (here ^ word(FRONT + at - distance)).trailing_zeros() as usize / 8;
            // The most symbols, then the least distance.
            best = best.max(same << 8 | (255 - distance));
        }
        let (length, distance) = (best >> 8, 255 - best % 256);
        if length == 8 || room < 8 { one_by_one::<DEPTH>(memory, at, room, rule.window) } else { (length, distance) }
    }

    /// The same, whatever the length.
    #[inline(never)]
    fn one_by_one<const DEPTH: usize>(memory: &Memory, at: usize, room: usize, window: usize) -> (usize, usize) {
        let Memory { bytes, links, .. } = memory;
        let (mut best, mut best_distance, mut distance) = (0, 0, 0);
        for _ in 0..DEPTH {
            let link = usize::from(links[FRONT + at - distance]);
            distance += link;
            if link == 0 || distance > window {
                break;
            }
            let length = common(bytes, FRONT + at - distance, FRONT + at, room);
            if length > best {
                (best, best_distance) = (length, distance);
                if length >= ENOUGH {
                    break;
                }
            }
        }
        (best, best_distance)
    }
}
