//! Where a block may have matches at all, if only long ones count.
//!
//! A match has as many symbols as its hash, or more, so that the hash of its first ones is that of what it repeats. All
//! positions are compared with those a distance before them, for every distance of the window, vector by vector: few
//! instructions a position, and what is not found are literals, which are copied at once.

use super::super::HASH_FACTOR;
use super::{Block, MAX_SYMBOLS};
use crate::arch::agree::{Agree, KEYS};

/// Symbols of the longest window.
const LONGEST: usize = 256;

/// Symbols that are compared by one hash where only matches of twice as many count: such a match covers all of an
/// aligned group.
const GROUP: usize = 8;
/// From so many symbols on [`may_repeat`] can tell.
pub(super) const LONG: usize = 2 * GROUP;

/// What is known of a block's positions.
#[derive(Debug)]
pub(super) struct Repeats {
    is_known: bool,
    /// Which positions may start a match; what is behind those of the block does not matter.
    may_match: Box<[u64; MAX_SYMBOLS / 64]>,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { is_known: false, may_match: Box::new([0; MAX_SYMBOLS / 64]) }
    }
}

/// Hashes of the symbols from each position on.
#[derive(Debug)]
pub(super) struct Sums {
    /// Behind as many that stand before the block, and with some behind them.
    sums: Box<[u16; LONGEST + MAX_SYMBOLS + KEYS]>,
    /// Of [`GROUP`] symbols.
    groups: Box<[u32; MAX_SYMBOLS]>,
}

impl Default for Sums {
    fn default() -> Self {
        Self { sums: Box::new([0; LONGEST + MAX_SYMBOLS + KEYS]), groups: Box::new([0; MAX_SYMBOLS]) }
    }
}

/// Looks for repetitions at most `window` symbols apart, if matches have at least `min_match`. Returns whether there
/// may be any match.
#[inline(always)]
pub(super) fn survey<const WIDTH: usize, A: Agree>(
    agree: A,
    block: &mut Block,
    window: usize,
    min_match: usize,
    Sums { sums, .. }: &mut Sums,
) -> bool {
    // Of larger windows that takes too long.
    block.repeats.is_known = A::VECTORS && window <= KEYS && min_match >= 8;
    if !block.repeats.is_known {
        return true;
    }
    let Block { bytes, symbols, repeats, .. } = block;
    let all = &mut sums[LONGEST..LONGEST + *symbols];
    // Loops, not iterators' closures, which are not compiled for this machine's vectors.
    for (sum, symbol) in all.iter_mut().zip(bytes.as_chunks::<WIDTH>().0) {
        *sum = super::windows::fold::<WIDTH>(symbol);
    }
    // Of two symbols, four, eight, sixteen: those from each position on.
    add_later::<1>(all);
    add_later::<2>(all);
    add_later::<4>(all);
    if min_match >= 16 {
        add_later::<8>(all);
    }
    let mut any = 0;
    for (i, found) in repeats.may_match[..symbols.div_ceil(64)].iter_mut().enumerate() {
        let at = LONGEST + i * 64;
        let (mut low, mut high) = (0, 0);
        // What stands before the block may be found, too: then a search will find nothing.
        for distance in 1..=window {
            low |= agree.equal_keys(keys(sums, at), keys(sums, at - distance));
            high |= agree.equal_keys(keys(sums, at + KEYS), keys(sums, at + KEYS - distance));
        }
        *found = u64::from(high) << KEYS | u64::from(low);
        any |= *found;
    }
    any != 0
}

/// Whether the hash of an aligned group of a block's symbols is that of symbols at most `window` before it. If not, no
/// match has [`LONG`] symbols.
#[inline(always)]
pub(super) fn may_repeat<const WIDTH: usize>(
    bytes: &[u8],
    window: usize,
    Sums { groups: sums, .. }: &mut Sums,
) -> bool {
    let (symbols, rest) = bytes.as_chunks::<WIDTH>();
    if !rest.is_empty() {
        // What they are filled up to may be repeated, too.
        return true;
    }
    let Some(last) = symbols.len().checked_sub(GROUP) else { return false };
    let sums = &mut sums[..symbols.len()];
    for (sum, symbol) in sums.iter_mut().zip(symbols) {
        *sum = match WIDTH {
            1 => symbol[0].into(),
            2 => u16::from_le_bytes([symbol[0], symbol[1]]).into(),
            4 => u32::from_le_bytes([symbol[0], symbol[1], symbol[2], symbol[3]]),
            _ => {
                let halves = symbol.as_chunks::<4>().0;
                u32::from_le_bytes(halves[0]).wrapping_mul(HASH_FACTOR).wrapping_add(u32::from_le_bytes(halves[1]))
            }
        };
    }
    // Of two symbols, four, eight: those from each position on.
    for step in [1, 2, 4] {
        for at in 0..sums.len() - step {
            let mixed = (sums[at] ^ sums[at] >> 15).wrapping_mul(HASH_FACTOR).rotate_left(13);
            sums[at] = mixed.wrapping_add(sums[at + step]);
        }
    }
    // Loops, not iterators' closures, which are not compiled for this machine's vectors.
    let mut at = GROUP;
    while at <= last {
        let wanted = sums[at];
        let mut found = false;
        // To the end of the window: a vector has as many as a search that ends early would look at.
        for &sum in &sums[at.saturating_sub(window)..at] {
            found |= sum == wanted;
        }
        if found {
            return true;
        }
        at += GROUP;
    }
    false
}

#[inline(always)]
fn keys(sums: &[u16; LONGEST + MAX_SYMBOLS + KEYS], at: usize) -> &[u16; KEYS] {
    sums[at..at + KEYS].try_into().expect("as many keys")
}

/// Makes the hashes of `STEP` symbols those of twice as many.
#[inline(always)]
fn add_later<const STEP: usize>(sums: &mut [u16]) {
    for at in 0..sums.len().max(STEP) - STEP {
        let mixed = (sums[at] ^ sums[at] >> 7).wrapping_mul(0x9E35).rotate_left(5);
        sums[at] = mixed.wrapping_add(sums[at + STEP]);
    }
}

impl Repeats {
    /// The position before which there are only literals from `at` on; it may be behind the block.
    #[inline(always)]
    pub(super) fn literals_until(&self, at: usize) -> usize {
        if !self.is_known {
            return at;
        }
        let mut word = at / 64;
        let mut bits = self.may_match[word % (MAX_SYMBOLS / 64)] >> (at % 64) << (at % 64);
        while bits == 0 {
            word += 1;
            match self.may_match.get(word) {
                Some(&next) => bits = next,
                None => return MAX_SYMBOLS,
            }
        }
        word * 64 + bits.trailing_zeros() as usize
    }
}
