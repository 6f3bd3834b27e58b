//! Tokens of a block by bitmaps: of each position, which of the symbols shortly before it are the same.
//!
//! With `E(i)` for that bitmap, bit `d - 1` for distance `d`, the candidates of a token at `i` are `E(i) & E(i + 1) &
//! ...`, as many as a key has symbols, and those of them that agree in one symbol more are what `E` of the next
//! position leaves. So candidates are found and compared by a few instructions for many positions at once, before it is
//! known where tokens start; then a token only waits for the length of the one before.

#![allow(unsafe_code)]

use crate::lzss::NEAR_BLOCK_BYTES;

/// Functions compiled for the instructions that [`is_fast`] looks for.
#[cfg(target_arch = "x86_64")]
macro_rules! enabled {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident $(<$(const $generic:ident: $kind:ty),+>)? ($($arg:tt)*) $(-> $ret:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        $vis fn $name $(<$(const $generic: $kind),+>)? ($($arg)*) $(-> $ret)? $body
    )*};
}
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod links;
#[cfg(target_arch = "x86_64")]
mod nearest;
#[cfg(target_arch = "x86_64")]
mod pieces;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

/// Most bytes in a block.
pub const MAX_BYTES: usize = NEAR_BLOCK_BYTES;
/// Bytes that may be read after a block's, and written after its literals, lengths and distances.
pub const BITMAP_SLACK: usize = 64 * 8;

/// Which candidates are found, and what of them is a match.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Greatest distance: 32, 64 or 128.
    pub window: usize,
    /// How many candidates are compared, the nearest first: 1, 2 or 4.
    pub depth: usize,
    /// Symbols by which a candidate is recognized, 1 to 8.
    pub key_symbols: usize,
    /// Fewest symbols in a match, `key_symbols` to 16.
    pub min_match: usize,
    /// Most symbols in a match, from [`ENOUGH`](crate::lzss::ENOUGH) to `min_match` and
    /// [`LENGTH_SPAN`](crate::lzss::LENGTH_SPAN) more.
    pub max_match: usize,
}

/// Where tokens go. All but the flags have [`BITMAP_SLACK`] bytes more than a block has symbols, or literals bytes.
#[derive(Debug)]
pub struct TokensOut<'a> {
    /// Bit `i mod 64` of word `i / 64` becomes whether token `i` is a match; those behind the last become 0, as far as
    /// its word goes.
    pub flags: &'a mut [u64],
    /// Symbols of the literals.
    pub literals: &'a mut [u8],
    /// Of each match its length less the shortest.
    pub lengths: &'a mut [u8],
    /// Of each match its distance.
    pub distances: &'a mut [u8],
}

/// What a block came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCounts {
    /// Tokens.
    pub tokens: usize,
    /// Matches among them.
    pub matches: usize,
}

/// Memory that is kept from block to block.
#[derive(Debug, Default)]
pub struct Scratch {
    #[cfg(target_arch = "x86_64")]
    memory: Option<Box<pieces::Memory>>,
    #[cfg(target_arch = "x86_64")]
    links: Option<Box<links::Memory>>,
    /// Calls for which links will not be tried.
    #[cfg(target_arch = "x86_64")]
    waiting: u8,
}

/// Makes the tokens of a block of `symbols` symbols of `WIDTH` (1, 2, 4 or 8) bytes, which are at the start of `bytes`.
/// Returns `None`, whatever it has written to `out`, if this machine has not the instructions, or if the block's
/// symbols differ by more than 16 bits can say and many of them seem to repeat.
///
/// # Panics
/// There is less memory than described, the block is too long, or the rule is none of those: mistakes of the caller,
/// whatever the data.
pub fn tokens<const WIDTH: usize>(
    bytes: &[u8],
    symbols: usize,
    rule: &Rule,
    scratch: &mut Scratch,
    out: TokensOut,
) -> Option<TokenCounts> {
    #[cfg(target_arch = "x86_64")]
    if is_fast() {
        let memory = scratch.memory.get_or_insert_default();
        // SAFETY: `is_fast` has just found every feature that this enables.
        return unsafe { pieces::tokens::<WIDTH>(bytes, symbols, rule, memory, out) };
    }
    let _ = (bytes, symbols, rule, scratch, out);
    None
}

/// A call for a block with too many longer matches, and those after it that are taken to be the same.
#[cfg(target_arch = "x86_64")]
const LIKEWISE: u8 = 8;

/// Makes the tokens of a block of symbols of one byte, if a rule has keys and shortest matches of three symbols and two
/// candidates or four, and if few matches are longer. Returns `None`, whatever it has written to `out`, if not, or if
/// this machine has not the instructions.
///
/// `next` is what will be asked for next, if it is known: it is brought to the cache.
///
/// # Panics
/// There is less memory than described, or the block is too long: mistakes of the caller, whatever the data.
pub fn short_tokens(
    bytes: &[u8],
    rule: &Rule,
    next: &[u8],
    scratch: &mut Scratch,
    out: TokensOut,
) -> Option<TokenCounts> {
    #[cfg(target_arch = "x86_64")]
    if (rule.key_symbols, rule.min_match) == (3, 3) && is_fast() {
        if scratch.waiting > 0 {
            scratch.waiting -= 1;
            return None;
        }
        let memory = scratch.links.get_or_insert_default();
        let few = links::FEW;
        // SAFETY: `is_fast` has just found every feature that these enable.
        let counts = unsafe {
            match (rule.window, rule.depth) {
                (64, 2) => links::tokens::<2>(bytes, rule, few, next, memory, out),
                (128, 4) => links::tokens::<4>(bytes, rule, few, next, memory, out),
                _ => return None,
            }
        };
        if counts.is_none() {
            scratch.waiting = LIKEWISE - 1;
        }
        return counts;
    }
    let _ = (bytes, rule, next, scratch, out);
    None
}

/// The matches of a block's positions, where a rule has one candidate; kept from block to block for its memory.
#[derive(Debug, Default)]
pub struct Found {
    #[cfg(target_arch = "x86_64")]
    memory: Option<Box<nearest::Memory>>,
}

/// A match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Position of its first symbol.
    pub at: usize,
    /// Symbols.
    pub length: usize,
    /// How far back what it repeats is.
    pub distance: u8,
}

impl Found {
    /// All matches of the block, in order, if they are few; then what is not part of one is literals, and
    /// [`write_found`] need not be called.
    pub fn rare(&self) -> Option<&[Match]> {
        #[cfg(target_arch = "x86_64")]
        return self.memory.as_deref().and_then(nearest::Memory::rare);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

/// Finds the match of each position of a block of `symbols` symbols of `WIDTH` (1, 2, 4 or 8) bytes, which are at the
/// start of `bytes`, if a rule has one candidate, at most 32 symbols away, with a key of at most 4 symbols. Returns how
/// many positions have one. Returns `None`, whatever has been found, if the rule is another, this machine has not the
/// instructions, or the block's symbols differ by more than 16 bits can say.
///
/// `next` is what will be asked for next, if it is known: it is brought to the cache.
///
/// # Panics
/// There is less memory than described, the block is too long, or the rule is impossible: mistakes of the caller,
/// whatever the data.
pub fn find<const WIDTH: usize>(
    bytes: &[u8],
    symbols: usize,
    rule: &Rule,
    next: &[u8],
    found: &mut Found,
) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if is_fast() {
        let memory = found.memory.get_or_insert_default();
        // SAFETY: `is_fast` has just found every feature that this enables.
        return unsafe { nearest::find::<WIDTH>(bytes, symbols, rule, next, memory) };
    }
    let _ = (bytes, symbols, rule, next, found);
    None
}

/// Finds out where tokens start in blocks whose matches [`find`] has found: four at most, which go on in turn.
pub fn walk<'f>(found: impl Iterator<Item = &'f mut Found>) {
    #[cfg(target_arch = "x86_64")]
    if is_fast() {
        let mut memories: Vec<_> = found.filter_map(|found| found.memory.as_deref_mut()).collect();
        // SAFETY: `is_fast` has just found every feature that this enables.
        unsafe { nearest::walk(&mut memories) };
    }
}

/// Writes the tokens of a block that [`find`] and then [`walk`] have been called for, with the same bytes and shortest
/// match.
///
/// # Panics
/// They have not, or there is less memory than described: mistakes of the caller, whatever the data.
pub fn write_found<const WIDTH: usize>(bytes: &[u8], min_match: usize, found: &Found, out: TokensOut) -> TokenCounts {
    #[cfg(target_arch = "x86_64")]
    if let Some(memory) = found.memory.as_deref().filter(|_| is_fast()) {
        // SAFETY: `is_fast` has just found every feature that this enables.
        return unsafe { nearest::write_found::<WIDTH>(bytes, min_match, memory, out) };
    }
    let _ = (bytes, min_match, out);
    unreachable!("nothing was found: {found:?}");
}

/// Whether the machine has what this takes.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_fast() -> bool {
    super::has_avx512_vbmi2() && is_x86_feature_detected!("avx512vpopcntdq")
}
