//! Distances and symbols 64 bytes at a time.

use std::arch::x86_64::*;

use super::{ROW, ROWS, SHORT, SPREAD_ROOM, SPREAD_SLACK, Spread, TokenWord, are_inside, write_match};

/// Bytes of a vector.
const VECTOR: usize = 64;
/// The longest distance of levels 1 to 3.
const WINDOW: usize = 128;
/// What it costs to take all tokens of a word in groups, and for each long one, in matches taken one by one.
const GROUPS_COST: u32 = 12;
const LONG_COST: u32 = 5;

/// Vectors of 64 bytes, of which some lanes are loaded, stored, expanded and permuted.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(pub(super) ());

impl Spread for Avx512 {
    #[inline(always)]
    fn note(
        self,
        entries: &mut [u8],
        mut at: usize,
        symbols: usize,
        word: TokenWord,
        min_match: usize,
    ) -> Option<usize> {
        assert!(entries.len() >= symbols + SPREAD_ROOM && at <= symbols);
        let TokenWord { flags, tokens, lengths, distances } = word;
        let (some_lengths, some_distances) = (&lengths[..VECTOR], &distances[..VECTOR]);
        // By token: symbols beyond the first, distances, whether it is too long to be taken with others.
        let (mut more, mut back) = ([0u8; VECTOR + SHORT], [0u8; VECTOR + SHORT]);
        // SAFETY: only `with_best` makes an `Avx512`, and only where it has found every feature of these instructions. Loads and stores are of slices and arrays of a
        // vector's length.
        let long = unsafe {
            let lengths = load(some_lengths.as_ptr());
            // A match of more than 256 symbols counts as one of 256: it is long.
            let beyond = _mm512_adds_epu8(lengths, _mm512_set1_epi8((min_match - 1) as i8));
            let long = _mm512_cmpge_epu8_mask(beyond, _mm512_set1_epi8(SHORT as i8));
            _mm512_storeu_si512(more.as_mut_ptr().cast(), _mm512_maskz_expand_epi8(flags, beyond));
            let distances = load(some_distances.as_ptr());
            _mm512_storeu_si512(back.as_mut_ptr().cast(), _mm512_maskz_expand_epi8(flags, distances));
            _pdep_u64(long, flags)
        };
        if flags.count_ones() < GROUPS_COST + LONG_COST * long.count_ones() {
            return match_by_match(entries, at, symbols, word, min_match);
        }
        let mut token = 0;
        while token < tokens {
            let next_long = (long >> token) as u8;
            let count = if next_long == 0 { SHORT.min(tokens - token) } else { next_long.trailing_zeros() as usize };
            let group = |bytes: &[u8; VECTOR + SHORT]| -> i64 {
                i64::from_le_bytes(bytes[token..token + SHORT].try_into().expect("as many"))
            };
            let to: &mut [u8; VECTOR] = (&mut entries[at..at + VECTOR]).try_into().expect("as many");
            // SAFETY: the features as above; the store is of the array.
            at += unsafe { write_group(group(&more), group(&back), count, to) };
            token += count;
            if next_long != 0 {
                let number = (flags & !(u64::MAX << token)).count_ones() as usize;
                let end = at + usize::from(lengths[number]) + min_match;
                if end > symbols {
                    return None;
                }
                write_match(&mut entries[at..end], back[token]);
                at = end;
                token += 1;
            }
        }
        Some(at).filter(|&at| at <= symbols)
    }

    #[inline(always)]
    fn follow<const WIDTH: usize>(
        self,
        out: &mut [u8],
        symbols: usize,
        distances: &[u8],
        farthest: u8,
        literals: &[u8],
    ) {
        assert!(matches!(WIDTH, 1 | 2 | 4 | 8) && out.len() >= symbols * WIDTH + SPREAD_SLACK);
        assert!(distances.len() >= symbols + SPREAD_SLACK && are_inside(&distances[..symbols]));
        let near = usize::from(farthest) <= WINDOW;
        // SAFETY: the features as above; there is slack, and no distance leads out of the block, as has just been asserted.
        unsafe {
            match WIDTH {
                1 if near => in_registers::<1, 2>(out, symbols, distances, literals),
                2 if near => in_registers::<2, 4>(out, symbols, distances, literals),
                2 => in_registers::<2, 8>(out, symbols, distances, literals),
                4 if near => in_registers::<4, 8>(out, symbols, distances, literals),
                4 => in_registers::<4, 16>(out, symbols, distances, literals),
                _ => {
                    place_literals::<WIDTH>(out, symbols, distances, literals);
                    copy_symbols::<WIDTH>(out, symbols, distances);
                }
            }
        }
    }
}

/// As [`Spread::note`], where matches are few or long. What is behind `at` is 0.
#[inline(always)]
fn match_by_match(entries: &mut [u8], at: usize, symbols: usize, word: TokenWord, min_match: usize) -> Option<usize> {
    let mut flags = word.flags;
    // Where the word's tokens would start, which their positions are added to, if matches were as long as literals.
    let mut start = at;
    for (&length, &distance) in word.lengths.iter().zip(word.distances).take(flags.count_ones() as usize) {
        let first = start + flags.trailing_zeros() as usize;
        flags &= flags.wrapping_sub(1);
        let length = usize::from(length) + min_match;
        start += length - 1;
        if first + length > symbols {
            return None;
        }
        let row: &mut [u8; ROW] = (&mut entries[first..first + ROW]).try_into().expect("as many");
        // SAFETY: only `with_best` makes an `Avx512`, for which alone this is called, and only where it has found every feature of these instructions; a row is read and at
        // most as much is written.
        unsafe {
            let distances = _mm256_loadu_si256(ROWS[usize::from(distance)].as_ptr().cast());
            let mask = _bzhi_u32(u32::MAX, length as u32);
            _mm256_mask_storeu_epi8(row.as_mut_ptr().cast(), mask, distances);
        }
        if length > ROW {
            write_match(&mut entries[first..first + length], distance);
        }
    }
    Some(start + word.tokens).filter(|&at| at <= symbols)
}

/// Writes the distances of the first `count` of [`SHORT`] tokens, each as often as it has symbols, of which those beyond the first are given. Returns how many.
///
/// # Safety
/// The machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn write_group(more: i64, back: i64, count: usize, to: &mut [u8; VECTOR]) -> usize {
    const { assert!(SHORT * SHORT == VECTOR) };
    // SAFETY: the store is of the array; the features are the caller's.
    unsafe {
        // Eight places for each token: of them it takes the first ones.
        let tokens = _mm512_set_epi64(
            0x0707_0707_0707_0707,
            0x0606_0606_0606_0606,
            0x0505_0505_0505_0505,
            0x0404_0404_0404_0404,
            0x0303_0303_0303_0303,
            0x0202_0202_0202_0202,
            0x0101_0101_0101_0101,
            0,
        );
        let places = _mm512_set1_epi64(0x0706_0504_0302_0100);
        let more = _mm512_shuffle_epi8(_mm512_set1_epi64(more), tokens);
        let back = _mm512_shuffle_epi8(_mm512_set1_epi64(back), tokens);
        let taken = _bzhi_u64(_mm512_cmple_epu8_mask(places, more), (count * SHORT) as u32);
        _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(taken, back));
        taken.count_ones() as usize
    }
}

/// The next literals, of symbols of `WIDTH` bytes, in the lanes of a mask; 0 in the others.
///
/// # Safety
/// The machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn expand<const WIDTH: usize>(mask: u64, literals: &[u8], used: &mut usize) -> __m512i {
    let next: &[u8; VECTOR] = literals[*used..*used + VECTOR].try_into().expect("as many");
    *used += mask.count_ones() as usize * WIDTH;
    // SAFETY: the load is of the array; the features are the caller's.
    unsafe {
        let next = _mm512_loadu_si512(next.as_ptr().cast());
        match WIDTH {
            1 => _mm512_maskz_expand_epi8(mask, next),
            2 => _mm512_maskz_expand_epi16(mask as u32, next),
            4 => _mm512_maskz_expand_epi32(mask as u16, next),
            _ => _mm512_maskz_expand_epi64(mask as u8, next),
        }
    }
}

/// Writes the literals to their places, and 0 to the others.
///
/// # Safety
/// The machine has AVX-512 VBMI2; `out` and `distances` have [`SPREAD_SLACK`] bytes more than `symbols` symbols.
#[inline(always)]
unsafe fn place_literals<const WIDTH: usize>(out: &mut [u8], symbols: usize, distances: &[u8], literals: &[u8]) {
    let lanes = VECTOR / WIDTH;
    let mut used = 0;
    for at in (0..symbols).step_by(lanes) {
        // SAFETY: a vector from a symbol of the block on reaches no farther than the slack behind the last.
        unsafe {
            let distances = distances.as_ptr().add(at);
            let mask = match WIDTH {
                1 => _mm512_testn_epi8_mask(load(distances), load(distances)),
                2 => {
                    let distances = _mm256_loadu_si256(distances.cast());
                    _mm256_testn_epi8_mask(distances, distances).into()
                }
                4 => {
                    let distances = _mm_loadu_si128(distances.cast());
                    _mm_testn_epi8_mask(distances, distances).into()
                }
                _ => {
                    let distances = _mm_loadl_epi64(distances.cast());
                    u64::from(_mm_testn_epi8_mask(distances, distances)) & 0xff
                }
            };
            let literals = expand::<WIDTH>(mask, literals, &mut used);
            _mm512_storeu_si512(out.as_mut_ptr().add(at * WIDTH).cast(), literals);
        }
    }
}

/// A vector from anywhere.
///
/// # Safety
/// 64 bytes from `at` on may be read; the machine has AVX-512.
#[inline(always)]
unsafe fn load(at: *const u8) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

/// Copies each symbol from its source; a literal onto itself.
///
/// # Safety
/// `out` and `distances` have `symbols` symbols, and no distance is greater than the symbols before it.
#[inline(always)]
unsafe fn copy_symbols<const WIDTH: usize>(out: &mut [u8], symbols: usize, distances: &[u8]) {
    let start = out.as_mut_ptr();
    for (at, &distance) in distances[..symbols].iter().enumerate() {
        // SAFETY: `at` is a symbol of the block, and so is what the distance leads to, says the caller. Loads and stores are unaligned.
        unsafe {
            let (from, to) = (start.add((at - usize::from(distance)) * WIDTH), start.add(at * WIDTH));
            match WIDTH {
                1 => to.write(from.read()),
                2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
                4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
                _ => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            }
        }
    }
}

/// Instructions on lanes of `WIDTH` (1, 2 or 4) bytes.
struct Lanes<const WIDTH: usize>;

impl<const WIDTH: usize> Lanes<WIDTH> {
    /// Bytes from `at` on, one a lane.
    ///
    /// # Safety
    /// `64 / WIDTH` bytes from `at` on may be read, and the machine has AVX-512 BW.
    #[inline(always)]
    unsafe fn widen(at: *const u8) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => load(at),
                2 => _mm512_cvtepu8_epi16(_mm256_loadu_si256(at.cast())),
                _ => _mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())),
            }
        }
    }

    /// `a` less `b`, lane by lane.
    ///
    /// # Safety
    /// The machine has AVX-512 BW.
    #[inline(always)]
    unsafe fn subtract(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_sub_epi8(a, b),
                2 => _mm512_sub_epi16(a, b),
                _ => _mm512_sub_epi32(a, b),
            }
        }
    }

    /// The lanes that have any of these bits.
    ///
    /// # Safety
    /// The machine has AVX-512 BW.
    #[inline(always)]
    unsafe fn having(a: __m512i, bits: i32) -> u64 {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_test_epi8_mask(a, _mm512_set1_epi8(bits as i8)),
                2 => _mm512_test_epi16_mask(a, _mm512_set1_epi16(bits as i16)).into(),
                _ => _mm512_test_epi32_mask(a, _mm512_set1_epi32(bits)).into(),
            }
        }
    }

    /// In the lanes of the mask, what `a` has in the lane that `index` names; elsewhere `other`.
    ///
    /// # Safety
    /// The machine has AVX-512 VBMI.
    #[inline(always)]
    unsafe fn permute(other: __m512i, mask: u64, index: __m512i, a: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_mask_permutexvar_epi8(other, mask, index, a),
                2 => _mm512_mask_permutexvar_epi16(other, mask as u32, index, a),
                _ => _mm512_mask_permutexvar_epi32(other, mask as u16, index, a),
            }
        }
    }

    /// What the lanes of `a`, then of `b`, have that `index` names.
    ///
    /// # Safety
    /// The machine has AVX-512 VBMI.
    #[inline(always)]
    unsafe fn permute_both(a: __m512i, index: __m512i, b: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_permutex2var_epi8(a, index, b),
                2 => _mm512_permutex2var_epi16(a, index, b),
                _ => _mm512_permutex2var_epi32(a, index, b),
            }
        }
    }

    /// `b` in the lanes of the mask, `a` elsewhere.
    ///
    /// # Safety
    /// The machine has AVX-512 BW.
    #[inline(always)]
    unsafe fn blend(mask: u64, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_mask_blend_epi8(mask, a, b),
                2 => _mm512_mask_blend_epi16(mask as u32, a, b),
                _ => _mm512_mask_blend_epi32(mask as u16, a, b),
            }
        }
    }
}

/// Symbols 64 bytes at a time, none farther from its source than `VECTORS` registers hold.
///
/// # Safety
/// The machine has AVX-512 VBMI and VBMI2; `out` and `distances` have [`SPREAD_SLACK`] bytes more than `symbols` symbols.
#[inline(always)]
unsafe fn in_registers<const WIDTH: usize, const VECTORS: usize>(
    out: &mut [u8],
    symbols: usize,
    distances: &[u8],
    literals: &[u8],
) {
    let lanes = VECTOR / WIDTH;
    const BEFORE: i32 = -128;
    let mut numbers = [0u8; VECTOR];
    numbers.iter_mut().zip(0..).for_each(|(number, i)| *number = i);
    let mut used = 0;
    // SAFETY: a vector from a symbol of the block on reaches no farther than the slack behind the last.
    unsafe {
        let numbers = Lanes::<WIDTH>::widen(numbers.as_ptr());
        // The oldest first.
        let mut window = [_mm512_setzero_si512(); VECTORS];
        for at in (0..symbols).step_by(lanes) {
            let distances = Lanes::<WIDTH>::widen(distances.as_ptr().add(at));
            let of_matches = Lanes::<WIDTH>::having(distances, -1);
            let literals = expand::<WIDTH>(!of_matches & (u64::MAX >> (VECTOR - lanes)), literals, &mut used);
            // Counted from the first of these symbols: negative where it is before them. A literal is its own source.
            let mut sources = Lanes::<WIDTH>::subtract(numbers, distances);
            // A source among these symbols becomes that one's source, until it is a literal or before them.
            let mut within = !Lanes::<WIDTH>::having(sources, BEFORE);
            for _ in 0..lanes.ilog2() {
                sources = Lanes::<WIDTH>::permute(sources, within, sources, sources);
                within = !Lanes::<WIDTH>::having(sources, BEFORE);
            }
            // Pairs of vectors, then pairs of pairs, chosen by the bits of the source above those of its lane.
            let mut found = window;
            let mut left = VECTORS / 2;
            for i in 0..left {
                found[i] = Lanes::<WIDTH>::permute_both(found[2 * i], sources, found[2 * i + 1]);
            }
            let mut bit = 2 * lanes as i32;
            while left > 1 {
                let odd = Lanes::<WIDTH>::having(sources, bit);
                left /= 2;
                for i in 0..left {
                    found[i] = Lanes::<WIDTH>::blend(odd, found[2 * i], found[2 * i + 1]);
                }
                bit *= 2;
            }
            let made = Lanes::<WIDTH>::permute(found[0], within, sources, literals);
            _mm512_storeu_si512(out.as_mut_ptr().add(at * WIDTH).cast(), made);
            window.rotate_left(1);
            window[VECTORS - 1] = made;
        }
    }
}
