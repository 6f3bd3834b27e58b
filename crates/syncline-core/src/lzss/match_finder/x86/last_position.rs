//! Finds the tokens of a block of one-byte symbols whose matches mostly have the shortest length, three symbols, by a
//! table of the last position with each hash.
//!
//! Every position updates the table, whether it starts a token or not, so that no lookup waits for a token and no
//! branch is mispredicted. Everything else handles 64 positions at a time. Three vectors hold the window, so that one
//! permutation fetches a symbol or a link at the candidates of all 64 positions. A match of three symbols covers the
//! next two positions, so the greedy choice takes a few shifts of a word. Only matches of four or more symbols that
//! start a token are measured one by one.

use std::arch::x86_64::*;
use std::hint::select_unpredictable;

use super::super::block_tokens::{MAX_BYTES, SearchRules, TokenCounts, TokensOut, WRITE_SLACK};
use super::vectors::{common_bytes, load, store};
use super::write_tokens::{Written, write_tokens};
use crate::lzss::ENOUGH;
use crate::mem::prefetch::prefetch;

/// Symbols of a key and of the shortest match.
const KEY: usize = 3;
/// Positions that are searched together.
const LINE: usize = 64;
/// Greatest window: the two vectors before a line.
const FRONT: usize = 2 * LINE;
/// Positions whose hashes are looked up together, so that the results are stored long before they are loaded.
const PIECE: usize = 1024;
/// log2 of the entries of the table. With 13 bits every second line has a hash collision, with 14 bits every fourth; 15
/// bits would fill the first-level cache.
const HASH_BITS: u32 = 14;
const HEADS: usize = 1 << HASH_BITS;
/// An empty entry: farther than any window from every position.
const NOWHERE: u16 = 1 << 15;
/// Factor of a pair of symbols in the hash: a prime near 2^16 divided by the golden ratio.
const PAIR_FACTOR: i16 = 0x9E35_u16 as i16;
/// Factor of the third symbol in the hash, which gives all its values different hashes.
const THIRD_FACTOR: i16 = (1 << (HASH_BITS - 8)) - 1;

/// Most matches of more than three symbols in a piece. Measuring about twice as many one by one takes longer than
/// bitmaps do.
pub(in super::super) const MAX_LONGER: usize = PIECE / 24;

/// Memory that is reused from block to block. Aligned to cache lines, because loads and stores that span two of them
/// took 4 % of the time.
#[derive(Debug)]
#[repr(C, align(64))]
pub(in super::super) struct LastPositionBuffers {
    /// The block after [`FRONT`] unused bytes, as in the following arrays.
    bytes: [u8; FRONT + MAX_BYTES + WRITE_SLACK],
    /// Distance from each position to the nearest one with the same hash, 0 if there is none in the window.
    same_hash: [u8; FRONT + MAX_BYTES + LINE],
    /// Distance from each position to the nearest one with the same key, 0 if there is none in the window.
    links: [u8; FRONT + MAX_BYTES + LINE],
    hashes: [u16; PIECE],
    /// For each position of a piece, the previous position with the same hash.
    before: [u16; PIECE],
    /// The last position with each hash. Only [`HEADS`] entries are used; with 2^16 no index needs a bounds check.
    heads: [u16; 1 << u16::BITS],
}

impl Default for LastPositionBuffers {
    fn default() -> Self {
        Self {
            bytes: [0; FRONT + MAX_BYTES + WRITE_SLACK],
            same_hash: [0; FRONT + MAX_BYTES + LINE],
            links: [0; FRONT + MAX_BYTES + LINE],
            hashes: [0; PIECE],
            before: [0; PIECE],
            heads: [NOWHERE; 1 << u16::BITS],
        }
    }
}

/// The candidates of a line of 64 positions.
#[derive(Clone, Copy)]
struct Line {
    /// Distance from each position to the nearest candidate, 0 if there is none.
    distances: __m512i,
    /// Which positions have a match.
    found: u64,
    /// Which positions have a match of more than three symbols.
    longer: u64,
}

/// The progress of the tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Position of the next token.
    at: usize,
    /// Number of matches of more than three symbols so far.
    longer: usize,
    written: Written,
}

/// Finds the tokens of a block of one-byte symbols with keys and shortest matches of three symbols, `DEPTH` (2 or 4)
/// candidates and a window of at most 128 symbols. Returns `None`, with `out` unspecified, if more than `max_longer`
/// matches of some piece are longer than three symbols. Meanwhile prefetches `next`.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) fn find_tokens<const DEPTH: usize>(
    bytes: &[u8],
    rules: &SearchRules,
    max_longer: usize,
    next: &[u8],
    buffers: &mut LastPositionBuffers,
    mut out: TokensOut,
) -> Option<TokenCounts> {
    let symbols = bytes.len();
    assert!(symbols <= MAX_BYTES && out.flags.len() >= symbols.div_ceil(64));
    assert!(rules.depth == DEPTH && rules.window <= FRONT && (rules.key_symbols, rules.min_match) == (KEY, KEY));
    buffers.bytes[FRONT..FRONT + symbols].copy_from_slice(bytes);
    buffers.heads[..HEADS].fill(NOWHERE);
    let mut progress = Progress::default();
    for piece in (0..symbols).step_by(PIECE) {
        let end = (piece + PIECE).min(symbols);
        look_up(buffers, piece, end);
        let longer_before = progress.longer;
        for from in (piece..end).step_by(LINE) {
            if let Some(next) = next.get(from..from + LINE) {
                prefetch(next.as_ptr(), next.len());
            }
            let line = search_line::<DEPTH>(buffers, from, from - piece, symbols, rules.window);
            if progress.at < from + LINE {
                write_line::<DEPTH>(buffers, from, symbols, rules, line, &mut progress, &mut out);
            }
        }
        if progress.longer - longer_before > max_longer {
            return None;
        }
    }
    Some(progress.written.finish(out.flags))
}

/// Looks up the previous position with the same hash of each position from `piece` to `end`, at most [`PIECE`] of them.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn look_up(buffers: &mut LastPositionBuffers, piece: usize, end: usize) {
    let LastPositionBuffers { bytes, hashes, before, heads, .. } = buffers;
    for at in (0..end - piece).step_by(LINE) {
        hash_line(&bytes[FRONT + piece + at..], bytemuck::cast_slice_mut(&mut hashes[at..at + LINE]));
    }
    let eights = before.as_chunks_mut::<8>().0.iter_mut().zip(hashes.as_chunks::<8>().0);
    let mut at = piece as u16;
    for (before, hashes) in eights.take((end - piece).div_ceil(8)) {
        // One store for eight positions, because stores limit this loop.
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

/// Writes the hashes of the keys at the first [`LINE`] symbols. Keys that differ only in the third symbol have
/// different hashes.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
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

/// Finds the candidates of the 64 positions from `from` on, which are those from `number` on of a piece that has been
/// looked up.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn search_line<const DEPTH: usize>(
    buffers: &mut LastPositionBuffers,
    from: usize,
    number: usize,
    symbols: usize,
    window: usize,
) -> Line {
    let LastPositionBuffers { bytes, same_hash, links, before, .. } = buffers;
    // The line with the lines before and after it.
    let bytes: &[u8; 4 * LINE] = bytes[from..from + 4 * LINE].try_into().expect("enough lines");
    let before = bytemuck::cast_slice(&before[number..number + LINE]);
    let mut distances = distances_to(before, from, window);
    if from + LINE + KEY > symbols + 1 {
        // A position too close to the end starts no match.
        let keys = (symbols + 1).saturating_sub(from + KEY) as u32;
        distances = _mm512_maskz_mov_epi8(!u64::MAX.checked_shl(keys).unwrap_or(0), distances);
    }
    store(same_hash, FRONT + from, distances);
    let mut sources = sources_at(distances);
    // If the hashes and the first two symbols are equal, so are the third symbols.
    let verify = |mask, sources| {
        let same =
            |mask, at| _mm512_mask_cmpeq_epi8_mask(mask, fetch(three(bytes, at), sources), load(bytes, FRONT + at));
        same(same(mask, 0), 1)
    };
    let same_hash: &[u8; 3 * LINE] = same_hash[from..from + 3 * LINE].try_into().expect("enough lines");
    let window = _mm512_set1_epi8(window as i8);
    let hashed = _mm512_test_epi8_mask(distances, distances);
    let mut found = verify(hashed, sources);
    let mut collisions = hashed & !found;
    while collisions != 0 {
        // Go on to the next position with the same hash.
        let more = fetch(three(same_hash, 0), sources);
        let farther = _mm512_adds_epu8(distances, more);
        let next = _mm512_mask_cmple_epu8_mask(_mm512_mask_test_epi8_mask(collisions, more, more), farther, window);
        distances = _mm512_mask_mov_epi8(distances, collisions, _mm512_maskz_mov_epi8(next, farther));
        sources = sources_at(distances);
        let same = verify(next, sources);
        found |= same;
        collisions = next & !same;
    }
    store(links, FRONT + from, distances);
    // Whether the nearest candidate or a farther one agrees in a fourth symbol.
    let links: &[u8; 3 * LINE] = links[from..from + 3 * LINE].try_into().expect("enough lines");
    let fourth = load(bytes, FRONT + KEY);
    let mut longer = _mm512_mask_cmpeq_epi8_mask(found, fetch(three(bytes, KEY), sources), fourth);
    let mut farther = distances;
    for _ in 1..DEPTH {
        // Without a further candidate the last one is used again.
        farther = _mm512_adds_epu8(farther, fetch(three(links, 0), sources));
        sources = sources_at(farther);
        let inside = _mm512_mask_cmple_epu8_mask(found, farther, window);
        longer |= _mm512_mask_cmpeq_epi8_mask(inside, fetch(three(bytes, KEY), sources), fourth);
    }
    Line { distances, found, longer }
}

/// Returns the distances from the 64 positions from `from` on to the positions in `before`, 16 bits each; 0 for those
/// outside the window.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
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
    // Packing interleaves quarters of both vectors.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_permutexvar_epi64(order, _mm512_packus_epi16(half(0), half(LINE)))
}

/// Returns the index of the symbol at each distance in three vectors of which the line is the last.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn sources_at(distances: __m512i) -> __m512i {
    let mut numbers = [0u8; LINE];
    for (i, number) in numbers.iter_mut().enumerate() {
        *number = (FRONT + i) as u8;
    }
    _mm512_sub_epi8(load(&numbers, 0), distances)
}

/// Loads three vectors from `at` on.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn three<const BYTES: usize>(bytes: &[u8; BYTES], at: usize) -> [__m512i; 3] {
    [load(bytes, at), load(bytes, at + LINE), load(bytes, at + 2 * LINE)]
}

/// Returns the bytes of three vectors at the given indices.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn fetch(vectors: [__m512i; 3], indices: __m512i) -> __m512i {
    let before = _mm512_permutex2var_epi8(vectors[0], indices, vectors[1]);
    _mm512_mask_permutexvar_epi8(before, _mm512_movepi8_mask(indices), indices, vectors[2])
}

/// Writes the tokens that start in the line from `from` on.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn write_line<const DEPTH: usize>(
    buffers: &LastPositionBuffers,
    from: usize,
    symbols: usize,
    rules: &SearchRules,
    line: Line,
    progress: &mut Progress,
    out: &mut TokensOut,
) {
    let Progress { at, longer, written } = progress;
    let mut outside = (1u64 << at.saturating_sub(from)) - 1;
    if symbols - from < LINE {
        outside |= u64::MAX << (symbols - from);
    }
    let mut left = line.found & !outside;
    let mut distances = line.distances;
    let mut lengths = _mm512_set1_epi8(KEY as i8);
    // The positions that longer matches cover, and the end of the last one.
    let (mut covered, mut end) = (0u64, 0);
    let mut starts = greedy(left);
    let mut unmeasured = starts & line.longer;
    while unmeasured != 0 {
        let i = unmeasured.trailing_zeros();
        let (length, distance) = longest::<DEPTH>(buffers, from + i as usize, symbols, rules);
        distances = _mm512_mask_set1_epi8(distances, 1 << i, distance as i8);
        // The length modulo 256 is enough, because the stored length is also modulo 256.
        lengths = _mm512_mask_set1_epi8(lengths, 1 << i, length as i8);
        let after = u64::MAX << i << 1;
        end = i as usize + length;
        let covers = after & !u64::MAX.checked_shl(end as u32).unwrap_or(0);
        covered |= covers;
        left &= !covers;
        starts = greedy(left);
        unmeasured = starts & line.longer & after;
        *longer += 1;
    }
    // A match of three symbols at one of the last two positions extends one or two symbols past the line.
    *at = from + (LINE + (starts >> (LINE - 2)) as usize).max(end);
    let tokens = !(covered | starts << 1 | starts << 2 | outside);
    let Written { matches, literals, .. } = *written;
    let bytes = &buffers.bytes[FRONT + from..];
    let mut fields = [0u8; 2 * LINE];
    store(&mut fields, 0, lengths);
    store(&mut fields, LINE, distances);
    let (lengths, distances) = fields.split_at(LINE);
    let flags = write_tokens::<1>(tokens, lengths, distances, KEY, bytes, out, (matches, literals));
    written.add::<1>(flags, tokens.count_ones(), out.flags);
}

/// Returns which of these positions start tokens if each has a match of three symbols.
#[inline(always)]
fn greedy(mut left: u64) -> u64 {
    // A position that no earlier one can cover starts a token and covers the next two. Two rounds are mostly enough.
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

/// Returns the length and distance of the match at `at`, which has at least one candidate.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn longest<const DEPTH: usize>(
    buffers: &LastPositionBuffers,
    at: usize,
    symbols: usize,
    rules: &SearchRules,
) -> (usize, usize) {
    let LastPositionBuffers { bytes, links, .. } = buffers;
    let room = (symbols - at).min(rules.max_match);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let here = word(FRONT + at);
    let (mut best, mut distance) = (0, 0);
    for _ in 0..DEPTH {
        let farther = distance + usize::from(links[FRONT + at - distance]);
        // Without a further candidate the last one is used again.
        distance = select_unpredictable(farther > rules.window, distance, farther);
        let same = (here ^ word(FRONT + at - distance)).trailing_zeros() as usize / 8;
        // The greatest length, then the least distance.
        best = best.max(same << 8 | (255 - distance));
    }
    let (length, distance) = (best >> 8, 255 - best % 256);
    if length == 8 || room < 8 { one_by_one::<DEPTH>(buffers, at, room, rules.window) } else { (length, distance) }
}

/// Does the same for any length.
#[inline(never)]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn one_by_one<const DEPTH: usize>(
    buffers: &LastPositionBuffers,
    at: usize,
    room: usize,
    window: usize,
) -> (usize, usize) {
    let LastPositionBuffers { bytes, links, .. } = buffers;
    let (mut best, mut best_distance, mut distance) = (0, 0, 0);
    for _ in 0..DEPTH {
        let link = usize::from(links[FRONT + at - distance]);
        distance += link;
        if link == 0 || distance > window {
            break;
        }
        let length = common_bytes(bytes, FRONT + at - distance, FRONT + at, room);
        if length > best {
            (best, best_distance) = (length, distance);
            if length >= ENOUGH {
                break;
            }
        }
    }
    (best, best_distance)
}
