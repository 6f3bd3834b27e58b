//! Distances and symbols 64 bytes at a time.

#![allow(unsafe_code)]

mod lanes;
mod note;

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use self::lanes::{Lanes, load};
use crate::mem::prefetch::{prefetch, prefetch_second};
use crate::mem::uninit::{UninitBytes, Written};

use super::{BlockTokens, Reach, SPREAD_SLACK, Spread, VECTOR, are_inside};
use crate::mem::prefetch::PrefetchTargets;

/// Bytes from the literals that are read to those that are asked for: the machine's own prefetching ends with each
/// page.
const SOON_LITERALS: usize = 1024;

/// Vectors of 64 bytes, of which some lanes are loaded, stored, expanded and permuted.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(pub(super) ());

impl Spread for Avx512 {
    #[inline(always)]
    fn note(self, entries: &mut [u8], symbols: usize, block: &BlockTokens) -> Option<usize> {
        // SAFETY: only `with_best` makes an `Avx512`, and only where it has found every feature that is asked for.
        unsafe { note::note(entries, symbols, block) }
    }

    #[inline(always)]
    fn follow<'m, const WIDTH: usize>(
        self,
        mut out: UninitBytes<'m>,
        symbols: usize,
        distances: &[u8],
        reach: Reach,
        ahead: PrefetchTargets,
        literals: &[u8],
    ) -> Written<'m> {
        assert!(matches!(WIDTH, 1 | 2 | 4 | 8) && out.len() >= symbols * WIDTH + SPREAD_SLACK);
        assert!(distances.len() >= symbols + SPREAD_SLACK && are_inside(&distances[..symbols]));
        let near = !reach.is_far;
        // SAFETY: only symbols are written.
        let bytes = unsafe { out.as_mut_slice() };
        // SAFETY: the features as above; there is slack, and no distance leads out of the block, as has just been
        // asserted.
        unsafe {
            match WIDTH {
                1 if near && !reach.is_close => in_registers::<1, 2, 4>(bytes, symbols, distances, literals, ahead),
                1 if near => in_registers::<1, 2, 6>(bytes, symbols, distances, literals, ahead),
                2 if near => in_registers::<2, 4, 5>(bytes, symbols, distances, literals, ahead),
                2 => in_registers::<2, 8, 5>(bytes, symbols, distances, literals, ahead),
                4 if near => in_registers::<4, 8, 4>(bytes, symbols, distances, literals, ahead),
                4 => in_registers::<4, 16, 4>(bytes, symbols, distances, literals, ahead),
                _ => {
                    place_literals::<WIDTH>(bytes, symbols, distances, literals);
                    copy_symbols::<WIDTH>(bytes, symbols, distances);
                }
            }
            // All symbols have been written, whole vectors of them, from literals and from symbols before.
            out.assume_written(symbols * WIDTH)
        }
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
    prefetch(next.as_ptr().wrapping_add(SOON_LITERALS), 1);
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
unsafe fn place_literals<const WIDTH: usize>(
    out: &mut [MaybeUninit<u8>],
    symbols: usize,
    distances: &[u8],
    literals: &[u8],
) {
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

/// Copies each symbol from its source; a literal onto itself.
///
/// # Safety
/// `out`, which is initialized, and `distances` have `symbols` symbols, and no distance is greater than the symbols
/// before it.
#[inline(always)]
unsafe fn copy_symbols<const WIDTH: usize>(out: &mut [MaybeUninit<u8>], symbols: usize, distances: &[u8]) {
    let start = out.as_mut_ptr().cast::<u8>();
    for (at, &distance) in distances[..symbols].iter().enumerate() {
        // SAFETY: `at` is a symbol of the block, and so is what the distance leads to, says the caller. Loads and
        // stores are unaligned.
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

/// Symbols 64 bytes at a time, none farther from its source than `VECTORS` registers hold, and of these no more than
/// `2^ROUNDS` in a row of which each is the source of the next.
///
/// # Safety
/// The machine has AVX-512 VBMI and VBMI2; `out` and `distances` have [`SPREAD_SLACK`] bytes more than `symbols`
/// symbols.
#[inline(always)]
unsafe fn in_registers<const WIDTH: usize, const VECTORS: usize, const ROUNDS: usize>(
    out: &mut [MaybeUninit<u8>],
    symbols: usize,
    distances: &[u8],
    literals: &[u8],
    ahead: PrefetchTargets,
) where
    [__m512i; VECTORS]: Window,
{
    let lanes = VECTOR / WIDTH;
    let mut numbers = [0u8; VECTOR];
    numbers.iter_mut().zip(0..).for_each(|(number, i)| *number = i);
    let mut used = 0;
    // What is not to be asked for is replaced by what is written at once: a prefetch more instead of a jump.
    let (read, written) = (ahead.read.unwrap_or(out.as_ptr().cast()), ahead.written.unwrap_or(out.as_ptr().cast()));
    // SAFETY: a vector from a symbol of the block on reaches no farther than the slack behind the last.
    unsafe {
        let numbers = Lanes::<WIDTH>::widen(numbers.as_ptr());
        // The oldest first.
        let mut window = [_mm512_setzero_si512(); VECTORS];
        for at in (0..symbols).step_by(lanes) {
            prefetch_second(read.wrapping_add(at * WIDTH));
            prefetch_second(written.wrapping_add(at * WIDTH));
            let distances = Lanes::<WIDTH>::widen(distances.as_ptr().add(at));
            let of_matches = Lanes::<WIDTH>::having(distances, -1);
            let literals = expand::<WIDTH>(!of_matches & (u64::MAX >> (VECTOR - lanes)), literals, &mut used);
            // Counted from the first of these symbols: negative where it is before them. A literal is its own source.
            let sources = Lanes::<WIDTH>::subtract(numbers, distances);
            let before = Lanes::<WIDTH>::negative(sources);
            // What is before them is found, and is its own source now.
            let mut roots = Lanes::<WIDTH>::blend(before, sources, numbers);
            // A source becomes that one's source, until it is there.
            for _ in 0..ROUNDS {
                roots = Lanes::<WIDTH>::permute(roots, roots);
            }
            let found = if WIDTH == 1 && VECTORS == 2 {
                // The highest bit but one says which vector; it is not set in a literal.
                let last = Lanes::<WIDTH>::negative(_mm512_add_epi8(sources, sources));
                let found = _mm512_mask_permutexvar_epi8(literals, before, sources, window[0]);
                _mm512_mask_permutexvar_epi8(found, last, sources, window[1])
            } else {
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
                Lanes::<WIDTH>::blend(of_matches, literals, found[0])
            };
            let made = Lanes::<WIDTH>::permute(roots, found);
            _mm512_storeu_si512(out.as_mut_ptr().add(at * WIDTH).cast(), made);
            window.push(made);
        }
    }
}

/// The last vectors of symbols, the oldest first.
trait Window {
    /// Puts another behind them, in place of the oldest.
    fn push(&mut self, made: __m512i);
}

/// Name by name: of a loop, or a rotation, the compiler makes a move of memory, and of the registers memory.
macro_rules! window {
    ($count:literal: $($kept:ident)*) => {
        impl Window for [__m512i; $count] {
            #[inline(always)]
            fn push(&mut self, made: __m512i) {
                let [_, $($kept),*] = *self;
                *self = [$($kept,)* made];
            }
        }
    };
}
window!(2: b);
window!(4: b c d);
window!(8: b c d e f g h);
window!(16: b c d e f g h i j k l m n o p);
