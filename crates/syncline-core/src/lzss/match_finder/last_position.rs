//! Finds the tokens of a block by a table of the last position with each hash.
//!
//! For symbols of several bytes, this is suitable for blocks with few matches. Each position looks up the previous
//! position with the same hash, without a branch: two loads and two stores. Nearly all of these previous positions are
//! outside of the window; the chains of the others are followed link by link. For symbols of one byte, this is suitable
//! for blocks with short matches, and needs AVX-512.

use super::super::{ENOUGH, HASH_FACTOR, Params, SymbolWidth, Tokens};
use super::MatchFinder;
use super::block_tokens::{MAX_SYMBOLS, Match, SearchRules};
use super::token_block::{TokenBlock, append_few_matches};
use super::window_bitmap::{ShortTokens, find_short_tokens};
use crate::simd::{self, InstructionSet, Kernel};

/// log2 of the entries of the table. Hash collisions cause at most 3 % of the positions to be searched in vain, 1.6 %
/// up to level 3, and table and block fit into the first-level cache.
const HASH_BITS: u32 = 13;
/// An empty entry: farther than any window from every position.
const NOWHERE: u16 = 1 << 15;
/// A block suits if at most one position in this many has a candidate.
const FEW: usize = 16;
/// Positions without a candidate that are skipped at once.
const STEP: usize = size_of::<u64>();

/// Links between the positions of a block, and memory reused from block to block.
#[derive(Debug)]
struct Links {
    /// The last position with each hash.
    heads: Box<[u16; 1 << HASH_BITS]>,
    /// The hash of each position; later the previous position with the same hash.
    before: Box<[u16; MAX_SYMBOLS]>,
    /// 1 where the previous position is in the window; 0 after the last position.
    is_near: Box<[u8; MAX_SYMBOLS + STEP]>,
    matches: Vec<Match>,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            heads: Box::new([NOWHERE; 1 << HASH_BITS]),
            before: Box::new([NOWHERE; MAX_SYMBOLS]),
            is_near: Box::new([0; MAX_SYMBOLS + STEP]),
            matches: Vec::new(),
        }
    }
}

/// The match finder of blocks with few matches, or with short matches of one-byte symbols.
#[derive(Debug, Default)]
pub(in super::super) struct LastPosition {
    links: Links,
    short_tokens: ShortTokens,
    block: TokenBlock,
}

impl MatchFinder for LastPosition {
    fn append_tokens(
        &mut self,
        bytes: &[u8],
        max_blocks: usize,
        params: &Params,
        tokens: &mut Tokens,
    ) -> Option<usize> {
        debug_assert!(max_blocks > 0);
        let (block, next) = bytes.split_at(bytes.len().min(params.block_bytes()));
        let rules = SearchRules::new(params);
        match params.width {
            SymbolWidth::One => self.append_short_tokens(block, next, &rules, tokens)?,
            SymbolWidth::Two => self.append_few::<2>(block, rules, tokens)?,
            SymbolWidth::Four => self.append_few::<4>(block, rules, tokens)?,
            SymbolWidth::Eight => self.append_few::<8>(block, rules, tokens)?,
        }
        Some(block.len())
    }
}

impl LastPosition {
    /// Appends the tokens of a block of one-byte symbols, if its matches are short.
    fn append_short_tokens(
        &mut self,
        bytes: &[u8],
        next: &[u8],
        rules: &SearchRules,
        tokens: &mut Tokens,
    ) -> Option<()> {
        self.block.begin::<1>(bytes.len());
        let counts = find_short_tokens(bytes, rules, next, &mut self.short_tokens, self.block.out().1)?;
        self.block.set_counts::<1>(counts);
        self.block.append_to(bytes, tokens);
        Some(())
    }

    /// Appends the tokens of a block of complete symbols, if it has few matches.
    fn append_few<const WIDTH: usize>(&mut self, bytes: &[u8], rules: SearchRules, tokens: &mut Tokens) -> Option<()> {
        let (symbols, []) = bytes.as_chunks::<WIDTH>() else { return None };
        if !simd::run(Find { symbols, rules, links: &mut self.links }) {
            return None;
        }
        append_few_matches::<WIDTH>(&self.links.matches, rules.min_match, bytes, tokens);
        Some(())
    }
}

/// Finds the matches of a block. Returns `false` if too many positions have candidates. Compiled for AVX-512, the loops
/// that link positions take a quarter longer than for AVX2.
struct Find<'a, const WIDTH: usize> {
    symbols: &'a [[u8; WIDTH]],
    rules: SearchRules,
    links: &'a mut Links,
}

impl<const WIDTH: usize> Kernel for Find<'_, WIDTH> {
    type Output = bool;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> bool {
        let Self { symbols, rules, links } = self;
        let Some(positions) = look_back(symbols, rules, links) else { return false };
        find_matches(symbols, rules, positions, links);
        true
    }
}

/// Links each position that may start a match to the previous position with the same hash, and marks those whose link
/// is in the window. Returns the number of positions if few are marked.
#[inline(always)]
fn look_back<const WIDTH: usize>(symbols: &[[u8; WIDTH]], rules: SearchRules, links: &mut Links) -> Option<usize> {
    let Links { heads, before, is_near, .. } = links;
    // A position too close to the end starts no match.
    let positions = (symbols.len() + 1).saturating_sub(rules.key_symbols);
    let (before, is_near) = (&mut before[..positions], &mut is_near[..positions + STEP]);
    hash::<WIDTH>(symbols, rules.key_symbols, before);
    heads.fill(NOWHERE);
    for (at, before) in before.iter_mut().enumerate() {
        let head = &mut heads[usize::from(*before) % (1 << HASH_BITS)];
        *before = std::mem::replace(head, at as u16);
    }
    let window = rules.window as u16;
    let mut count = 0;
    for (at, (is_near, &before)) in is_near.iter_mut().zip(&*before).enumerate() {
        *is_near = ((at as u16).wrapping_sub(before) <= window).into();
        count += u32::from(*is_near);
    }
    is_near[positions..].fill(0);
    (count as usize <= positions / FEW).then_some(positions)
}

/// Finds the matches that tokens take, from one marked position to the next.
#[inline(always)]
fn find_matches<const WIDTH: usize>(symbols: &[[u8; WIDTH]], rules: SearchRules, positions: usize, links: &mut Links) {
    let Links { before, is_near, matches, .. } = links;
    matches.clear();
    let mut at = 0;
    while at < positions {
        let marked = u64::from_le_bytes(is_near[at..at + STEP].try_into().expect("as many"));
        if marked == 0 {
            at += STEP;
            continue;
        }
        at += marked.trailing_zeros() as usize / 8;
        let (length, distance) = longest(symbols, at, &rules, &**before);
        if length >= rules.min_match {
            matches.push(Match { at, length, distance: distance as u8 });
            at += length;
        } else {
            at += 1;
        }
    }
}

/// Hashes the first two symbols of each position's key, or its only symbol.
#[inline(always)]
fn hash<const WIDTH: usize>(symbols: &[[u8; WIDTH]], key_symbols: usize, hashes: &mut [u16]) {
    let mix = |word: u32| (word.wrapping_mul(HASH_FACTOR) >> (32 - HASH_BITS)) as u16;
    // Loops rather than closures of iterators, which are not compiled for the enabled instruction set.
    if key_symbols == 1 {
        for (hash, symbol) in hashes.iter_mut().zip(symbols) {
            *hash = mix(word(symbol));
        }
    } else {
        for ((hash, symbol), next) in hashes.iter_mut().zip(symbols).zip(&symbols[1..]) {
            *hash = mix(word(symbol).wrapping_add(word(next).rotate_left(16)));
        }
    }
}

/// Returns a symbol as 32 bits, hashed if it is longer.
#[inline(always)]
fn word<const WIDTH: usize>(symbol: &[u8; WIDTH]) -> u32 {
    let mut wide = [0; 8];
    wide[..WIDTH].copy_from_slice(symbol);
    let wide = u64::from_le_bytes(wide);
    if WIDTH == 8 { (wide as u32).wrapping_mul(HASH_FACTOR).wrapping_add((wide >> 32) as u32) } else { wide as u32 }
}

/// Returns the length and distance of the match at `at` in symbols; the length is 0 if there is none.
#[inline(always)]
fn longest<const WIDTH: usize>(
    symbols: &[[u8; WIDTH]],
    at: usize,
    rules: &SearchRules,
    before: &[u16],
) -> (usize, usize) {
    let here = &symbols[at..][..(symbols.len() - at).min(rules.max_match)];
    let (mut best, mut left, mut link) = ((0, 0), rules.depth, before[at]);
    while left > 0 && best.0 < ENOUGH {
        let distance = usize::from((at as u16).wrapping_sub(link));
        if distance > rules.window {
            break;
        }
        let there = at - distance;
        let length = here.iter().zip(&symbols[there..]).take_while(|(a, b)| a == b).count();
        // A shorter candidate only has the same hash.
        left -= usize::from(length >= rules.key_symbols);
        if length > best.0 {
            best = (length, distance);
        }
        link = before[there];
    }
    best
}
