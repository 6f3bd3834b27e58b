//! Finds the tokens of blocks of levels 1 to 4, whose windows have at most 255 symbols.
//!
//! Up to level 3 (level 2 for symbols of one byte) and with AVX-512, [`window_bitmap`] finds all matches of a block if
//! 16 bits distinguish its symbols. For other blocks and processors, [`NearestFour`] finds the match of each token.
//! Four blocks are searched alternately, because the latencies from one token to the next sum to about 45 cycles.

use super::super::{Params, SymbolWidth, Tokens};
use super::MatchFinder;
use super::block_tokens::SearchRules;
use super::long_repeats::{self, GroupHashes};
use super::nearest_four::{Distances, Heads, NearestFour, ROUNDS};
use super::token_block::{TokenBlock, append_few_matches};
use super::window_bitmap::{self, WindowBitmap};
use crate::simd::{self, InstructionSet, Isa, Kernel};

/// Blocks that are searched alternately.
const BLOCKS: usize = 4;
/// Most candidates that bitmaps compare.
const MAX_BITMAP_DEPTH: usize = 4;

/// The match finder of short windows, which suits all blocks.
#[derive(Debug, Default)]
pub(in super::super) struct ShortWindow {
    group_hashes: GroupHashes,
    window_bitmap: WindowBitmap,
    blocks: [TokenBlock; BLOCKS],
    distances: [Distances; BLOCKS],
    heads: Heads,
}

impl MatchFinder for ShortWindow {
    fn append_tokens(
        &mut self,
        bytes: &[u8],
        max_blocks: usize,
        params: &Params,
        tokens: &mut Tokens,
    ) -> Option<usize> {
        let block_bytes = params.block_bytes();
        let taken = bytes.len().min(max_blocks * block_bytes);
        simd::run(AppendTokens { bytes, taken, params, finder: self, tokens, only: None });
        Some(taken)
    }
}

/// The method that finds the matches of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// One candidate for each position, found for a vector of positions at once.
    SingleCandidate,
    /// Bitmaps of equal symbols.
    WindowBitmap,
    /// The nearest candidates with the same hash.
    #[cfg_attr(not(test), expect(dead_code, reason = "suits every block, so it is never chosen explicitly"))]
    NearestFour,
}

/// Appends the tokens of the first `taken` bytes of `bytes`.
struct AppendTokens<'a> {
    bytes: &'a [u8],
    taken: usize,
    params: &'a Params,
    finder: &'a mut ShortWindow,
    tokens: &'a mut Tokens,
    /// The only search that is tried before [`Search::NearestFour`]. `None` tries each one, the fastest first.
    only: Option<Search>,
}

impl Kernel for AppendTokens<'_> {
    type Output = ();

    const WIDEST: Isa = Isa::Avx512;

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        match self.params.width {
            SymbolWidth::One => self.at_depth::<1, I>(isa),
            SymbolWidth::Two => self.at_depth::<2, I>(isa),
            SymbolWidth::Four => self.at_depth::<4, I>(isa),
            SymbolWidth::Eight => self.at_depth::<8, I>(isa),
        }
    }
}

impl AppendTokens<'_> {
    #[inline(always)]
    fn at_depth<const WIDTH: usize, I: InstructionSet>(self, isa: I) {
        match self.params.depth() {
            1 => self.all_blocks::<WIDTH, 1, I>(isa),
            2 => self.all_blocks::<WIDTH, 2, I>(isa),
            4 => self.all_blocks::<WIDTH, 4, I>(isa),
            _ => self.all_blocks::<WIDTH, ROUNDS, I>(isa),
        }
    }

    #[inline(always)]
    fn all_blocks<const WIDTH: usize, const LANES: usize, I: InstructionSet>(mut self, isa: I) {
        let batch_bytes = self.params.block_bytes() * BLOCKS;
        for start in (0..self.taken).step_by(batch_bytes) {
            let end = self.taken.min(start + batch_bytes);
            self.append_batch::<WIDTH, LANES, I>(isa, start, end);
        }
    }

    /// Appends the tokens of at most [`BLOCKS`] blocks.
    #[inline(always)]
    fn append_batch<const WIDTH: usize, const LANES: usize, I: InstructionSet>(
        &mut self,
        isa: I,
        start: usize,
        end: usize,
    ) {
        let Self { params, finder, tokens, only, .. } = self;
        let ShortWindow { group_hashes, window_bitmap, blocks, distances, heads } = &mut **finder;
        let rules = SearchRules::new(params);
        let min_match = rules.min_match;
        let tries = |search| only.is_none_or(|only| only == search);
        let block_bytes = params.block_bytes();
        let (batch, rest) = (&self.bytes[start..end], &self.bytes[start..]);
        let mut search = NearestFour::<WIDTH, LANES, I> { isa, rules, heads };
        let mut used = 0;
        for ((block, distances), bytes) in blocks.iter_mut().zip(distances.iter_mut()).zip(batch.chunks(block_bytes)) {
            used += 1;
            block.begin::<WIDTH>(bytes.len());
            if long_repeats::applies_to(min_match)
                && !long_repeats::may_repeat::<WIDTH>(bytes, rules.window, group_hashes)
            {
                block.set_literals::<WIDTH>();
                continue;
            }
            if tries(Search::SingleCandidate) && bytes.len().is_multiple_of(WIDTH) {
                let next = rest.get(used * block_bytes..).unwrap_or_default();
                let symbols = block.symbols;
                let candidates = &mut block.candidates;
                if window_bitmap::find_single_candidates::<WIDTH>(bytes, symbols, &rules, next, candidates) {
                    (block.at, block.has_candidates) = (symbols, true);
                    continue;
                }
            }
            block.copy_bytes::<WIDTH>(bytes);
            // With four candidates and symbols of one byte, finding them by their hashes is mostly faster: by 2.1 times
            // on short strings.
            let compares_windows = rules.depth <= if WIDTH == 1 { 2 } else { MAX_BITMAP_DEPTH };
            if compares_windows && tries(Search::WindowBitmap) {
                let symbols = block.symbols;
                let (bytes, out, _) = block.out();
                let counts = window_bitmap::find_tokens::<WIDTH>(bytes, symbols, &rules, window_bitmap, out);
                if let Some(counts) = counts {
                    block.set_counts::<WIDTH>(counts);
                    continue;
                }
            }
            search.prepare(block, distances);
        }
        let blocks = &mut blocks[..used];
        let with_candidates = blocks.iter_mut().filter(|block| block.has_candidates);
        window_bitmap::mark_token_starts(with_candidates.map(|block| &mut block.candidates));
        while blocks.iter().all(|block| block.at < block.symbols) {
            // Not `for_each`: a closure would not be compiled for the enabled instruction set.
            for (block, distances) in blocks.iter_mut().zip(distances.iter()) {
                push_token(&search, block, distances);
            }
        }
        for ((block, distances), bytes) in blocks.iter_mut().zip(distances.iter()).zip(batch.chunks(block_bytes)) {
            while block.at < block.symbols {
                push_token(&search, block, distances);
            }
            if block.has_candidates {
                if let Some(matches) = block.candidates.few_matches() {
                    append_few_matches::<WIDTH>(matches, min_match, bytes, tokens);
                    continue;
                }
                block.copy_bytes::<WIDTH>(bytes);
                let (bytes, out, candidates) = block.out();
                let counts = window_bitmap::write_single_candidates::<WIDTH>(bytes, min_match, candidates, out);
                block.set_counts::<WIDTH>(counts);
            }
            block.append_to(bytes, tokens);
        }
    }
}

/// Adds the block's next token.
#[inline(always)]
fn push_token<const WIDTH: usize, const LANES: usize, I: InstructionSet>(
    search: &NearestFour<WIDTH, LANES, I>,
    block: &mut TokenBlock,
    distances: &Distances,
) {
    let (length, distance) = search.longest(block, distances, block.at);
    if length < search.rules.min_match {
        block.push_literal::<WIDTH>();
    } else {
        block.push_match(length, distance, search.rules.min_match);
    }
}

#[cfg(test)]
mod tests {
    use super::super::LastPosition;
    use super::*;
    use crate::simd::Portable;

    #[test]
    fn every_search_finds_the_same_tokens() {
        // Few values, then many, with runs in between.
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            state >> 33
        };
        let mut bytes = Vec::new();
        while bytes.len() < 100_003 {
            let values = [3, 11, 200, 5000, 1 << 20][bytes.len() / 8000 % 5];
            let (value, times) = (next() % values, if next() % 50 == 0 { next() % 300 } else { 1 });
            (0..times).for_each(|_| bytes.extend_from_slice(&(value as u32).to_le_bytes()));
        }
        for width in SymbolWidth::ALL {
            for level in 1..=4 {
                for more in [0, 3] {
                    let params = Params::new(width, level);
                    let params = Params { min_match: params.min_match + more, ..params };
                    let finder = &mut ShortWindow::default();
                    let mut best = Tokens::default();
                    finder.append_tokens(&bytes, usize::MAX >> 20, &params, &mut best);
                    for search in [Search::SingleCandidate, Search::WindowBitmap, Search::NearestFour] {
                        let (mut tokens, mut portable) = (Tokens::default(), Tokens::default());
                        let mut append = |tokens: &mut Tokens, is_portable: bool| {
                            let (taken, only) = (bytes.len(), Some(search));
                            let append = AppendTokens { bytes: &bytes, taken, params: &params, finder, tokens, only };
                            if is_portable { append.run(Portable) } else { simd::run(append) }
                        };
                        append(&mut tokens, false);
                        append(&mut portable, true);
                        assert!(best == tokens && best == portable, "{params:?} {search:?}");
                    }
                    // Block by block, with the general match finder for blocks that do not suit the other one.
                    let (mut tokens, mut last_position) = (Tokens::default(), LastPosition::default());
                    for block in bytes.chunks(params.block_bytes()) {
                        if last_position.append_tokens(block, 1, &params, &mut tokens).is_none() {
                            finder.append_tokens(block, 1, &params, &mut tokens);
                        }
                    }
                    assert!(best == tokens, "{params:?}");
                    assert!(best.lengths.len() > 50, "{params:?}");
                }
            }
        }
    }
}
