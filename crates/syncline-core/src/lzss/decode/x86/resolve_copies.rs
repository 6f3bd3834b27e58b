//! Resolves each symbol to its literal or to a copy of an earlier symbol, 64 bytes at a time.
//!
//! One instruction expands the literals of 64 bytes to their places. Registers hold the window, so that permutations
//! find the copied symbols whatever the lengths of matches.

#![allow(unsafe_code, reason = "vector instructions, and output memory that need not be initialized")]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::super::expand_matches::{DistanceRange, VECTOR, are_inside};
use super::super::token_parts::SLACK;
use super::lanes::{Lanes, load};
use crate::mem::prefetch::{PrefetchTargets, prefetch, prefetch_second};
use crate::mem::uninit::{UninitBytes, Written};

/// Distance in bytes at which literals are prefetched. The hardware prefetcher stops at each page.
const PREFETCH_DISTANCE: usize = 1024;

/// Does what [`resolve_copies`](super::super::expand_matches::resolve_copies) does. `out`, `distances` and `literals`
/// have [`SLACK`] bytes more. Meanwhile prefetches as many bytes as it writes.
///
/// # Safety
/// The processor has AVX-512 VBMI2.
///
/// # Panics
/// A slice is too short, or a distance leads out of the block.
#[inline(always)]
pub(in super::super) unsafe fn resolve_copies<'m, const WIDTH: usize>(
    mut out: UninitBytes<'m>,
    symbols: usize,
    distances: &[u8],
    range: DistanceRange,
    prefetch: PrefetchTargets,
    literals: &[u8],
) -> Written<'m> {
    assert!(matches!(WIDTH, 1 | 2 | 4 | 8) && out.len() >= symbols * WIDTH + SLACK);
    assert!(distances.len() >= symbols + SLACK && are_inside(&distances[..symbols]));
    let near = !range.has_far;
    // SAFETY: the caller promises the instructions. There are `SLACK` bytes, and no distance leads out of the block, as
    // asserted above. All symbols are written, whole vectors of literals and of earlier symbols, all initialized.
    unsafe {
        let bytes = out.as_mut_slice();
        match WIDTH {
            1 if near && !range.has_close => in_registers::<1, 2, 4>(bytes, symbols, distances, literals, prefetch),
            1 if near => in_registers::<1, 2, 6>(bytes, symbols, distances, literals, prefetch),
            2 if near => in_registers::<2, 4, 5>(bytes, symbols, distances, literals, prefetch),
            2 => in_registers::<2, 8, 5>(bytes, symbols, distances, literals, prefetch),
            4 if near => in_registers::<4, 8, 4>(bytes, symbols, distances, literals, prefetch),
            4 => in_registers::<4, 16, 4>(bytes, symbols, distances, literals, prefetch),
            _ => {
                place_literals::<WIDTH>(bytes, symbols, distances, literals);
                copy_symbols::<WIDTH>(bytes, symbols, distances);
            }
        }
        out.assume_written(symbols * WIDTH)
    }
}

/// Returns the next literals, symbols of `WIDTH` bytes, in the lanes of a mask, and 0 in the others.
///
/// # Safety
/// The processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn expand<const WIDTH: usize>(mask: u64, literals: &[u8], used: &mut usize) -> __m512i {
    // Only bytes of a caller that changes them meanwhile have fewer literals than distances of 0.
    let from = (*used).min(literals.len() - VECTOR);
    let next: &[u8; VECTOR] = literals[from..from + VECTOR].try_into().expect("VECTOR bytes");
    *used += mask.count_ones() as usize * WIDTH;
    prefetch(next.as_ptr().wrapping_add(PREFETCH_DISTANCE), 1);
    // SAFETY: an unaligned load of the array. The caller promises the instructions.
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

/// Writes the literals to their places, and 0 to the other places.
///
/// # Safety
/// The processor has AVX-512 VBMI2; `out` and `distances` have [`SLACK`] bytes more than `symbols` symbols.
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
        // SAFETY: a vector that starts at a symbol of the block ends within the slack after the last symbol.
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

/// Copies each symbol from its source. Literals are copied onto themselves.
///
/// # Safety
/// `out` and `distances` have `symbols` symbols, `out` is initialized, and no distance leads out of the block.
#[inline(always)]
unsafe fn copy_symbols<const WIDTH: usize>(out: &mut [MaybeUninit<u8>], symbols: usize, distances: &[u8]) {
    let start = out.as_mut_ptr().cast::<u8>();
    for (at, &distance) in distances[..symbols].iter().enumerate() {
        // SAFETY: `at` and the source are symbols of the block, as the caller promises. Loads and stores are unaligned.
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

/// Resolves 64 bytes at a time. `VECTORS` registers hold the window, and 64 bytes contain chains of at most `2^ROUNDS`
/// symbols that copy from each other.
///
/// # Safety
/// The processor has AVX-512 VBMI2; `out` and `distances` have [`SLACK`] bytes more than `symbols` symbols.
#[inline(always)]
unsafe fn in_registers<const WIDTH: usize, const VECTORS: usize, const ROUNDS: usize>(
    out: &mut [MaybeUninit<u8>],
    symbols: usize,
    distances: &[u8],
    literals: &[u8],
    prefetch: PrefetchTargets,
) where
    [__m512i; VECTORS]: Window,
{
    let lanes = VECTOR / WIDTH;
    let mut numbers = [0u8; VECTOR];
    numbers.iter_mut().zip(0..).for_each(|(number, i)| *number = i);
    let mut used = 0;
    // Without a target the output is prefetched, which is cheaper than a branch.
    let [read, written] = [prefetch.read, prefetch.written].map(|start| start.unwrap_or(out.as_ptr().cast()));
    // SAFETY: a vector that starts at a symbol of the block ends within the slack after the last symbol.
    unsafe {
        let numbers = Lanes::<WIDTH>::widen(numbers.as_ptr());
        let mut window = [_mm512_setzero_si512(); VECTORS];
        for at in (0..symbols).step_by(lanes) {
            prefetch_second(read.wrapping_add(at * WIDTH));
            prefetch_second(written.wrapping_add(at * WIDTH));
            let distances = Lanes::<WIDTH>::widen(distances.as_ptr().add(at));
            let of_matches = Lanes::<WIDTH>::any_bit(distances, -1);
            let literals = expand::<WIDTH>(!of_matches & (u64::MAX >> (VECTOR - lanes)), literals, &mut used);
            // Relative to the first of these symbols, so negative for earlier ones. A literal is its own source.
            let sources = Lanes::<WIDTH>::subtract(numbers, distances);
            let before = Lanes::<WIDTH>::negative(sources);
            // A symbol with an earlier source is the root of its chain.
            let mut roots = Lanes::<WIDTH>::blend(before, sources, numbers);
            // Each round replaces a source by the source of that source.
            for _ in 0..ROUNDS {
                roots = Lanes::<WIDTH>::permute(roots, roots);
            }
            let found = if WIDTH == 1 && VECTORS == 2 {
                // The second-highest bit selects the vector; it is not set in a literal.
                let last = Lanes::<WIDTH>::negative(_mm512_add_epi8(sources, sources));
                let found = _mm512_mask_permutexvar_epi8(literals, before, sources, window[0]);
                _mm512_mask_permutexvar_epi8(found, last, sources, window[1])
            } else {
                // Permutes pairs of vectors, then selects between the results by the higher bits of the source.
                let mut found = window;
                let mut left = VECTORS / 2;
                for i in 0..left {
                    found[i] = Lanes::<WIDTH>::permute2(found[2 * i], sources, found[2 * i + 1]);
                }
                let mut bit = 2 * lanes as i32;
                while left > 1 {
                    let odd = Lanes::<WIDTH>::any_bit(sources, bit);
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

/// The vectors of the window, the oldest first.
trait Window {
    /// Appends a vector and drops the oldest.
    fn push(&mut self, made: __m512i);
}

/// Moves each element by name. The compiler would turn a loop or a rotation into a copy in memory.
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
