//! Tokens of blocks whose window is at most 255 symbols (levels 1 to 4).
//!
//! Blocks that hardly repeat anything are taken by [`rare`], wherever that is faster. Of the others, with AVX-512 and
//! up to level 3, those that [`bitmaps`](crate::arch::bitmaps) can tell the symbols of apart are taken by these, but
//! symbols of one byte at levels 2 and 3, where matches are short, by links to what begins alike. Else, and on other
//! machines, a [`Finder`] learns about all of a block, then finds the match of each token. [`chains`] learns which
//! positions begin alike, which takes as long for every position; [`windows`] compares each token with the whole
//! window, which is worth it with AVX-512 where tokens are few. All find the same matches.

mod chains;
mod rare;
mod repeats;
mod windows;

use self::chains::{Chains, ROUNDS};
use self::windows::{MOST_DEPTH, Windows};
use super::{BlockCounts, NEAR_BLOCK_BYTES, Params, SymbolWidth, Tokens};
use crate::arch::agree::{Agree, Comparing, with_best};
use crate::arch::bitmaps::{self, BITMAP_SLACK, Rule, TokenCounts, TokensOut};

/// Most bytes in a block.
const MAX_BYTES: usize = NEAR_BLOCK_BYTES;
/// Most symbols in a block.
const MAX_SYMBOLS: usize = MAX_BYTES;
/// A block and what may be loaded after it.
type Bytes = [u8; MAX_BYTES + BITMAP_SLACK];

/// Blocks whose tokens are taken in turn: the latencies from a token to the next add up to some 45 cycles, which leaves
/// room for others'.
const STREAMS: usize = 4;
/// Chains are taken where there were more tokens than one in so many symbols.
const OFTEN: usize = 4;

/// Memory for the tokens of some blocks.
#[derive(Debug, Default)]
pub(super) struct Near {
    sums: repeats::Sums,
    bitmaps: bitmaps::Scratch,
    rare: rare::Rare,
    blocks: [Block; STREAMS],
    /// For the ways that are taken.
    chains: Option<Box<([chains::Distances; STREAMS], chains::Heads)>>,
    keys: Option<Box<[windows::Keys; STREAMS]>>,
    /// Whether there were many tokens in the last blocks.
    often: bool,
    /// Whether there were matches in the last block of which there were bitmaps.
    repeating: bool,
}

/// A block and its tokens.
#[derive(Debug)]
struct Block {
    /// Its bytes and others behind them.
    bytes: Box<Bytes>,
    symbols: usize,
    repeats: repeats::Repeats,
    found: bitmaps::Found,
    /// Whether its matches are there.
    is_found: bool,
    /// Symbols that have their tokens.
    at: usize,
    matches: usize,
    literal_bytes: usize,
    /// Tokens. Not next to `at`: both would be added to at once, in a vector, for which the next token waits longer.
    count: usize,
    /// Which tokens are matches; 0 behind the last one.
    flags: Box<[u64; MAX_SYMBOLS / 64]>,
    literals: Box<Bytes>,
    lengths: Box<[u8; MAX_SYMBOLS + BITMAP_SLACK]>,
    match_distances: Box<[u8; MAX_SYMBOLS + BITMAP_SLACK]>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            bytes: Box::new([0; MAX_BYTES + BITMAP_SLACK]),
            symbols: 0,
            repeats: Default::default(),
            found: Default::default(),
            is_found: false,
            at: 0,
            count: 0,
            matches: 0,
            literal_bytes: 0,
            flags: Box::new([0; MAX_SYMBOLS / 64]),
            literals: Box::new([0; MAX_BYTES + BITMAP_SLACK]),
            lengths: Box::new([0; MAX_SYMBOLS + BITMAP_SLACK]),
            match_distances: Box::new([0; MAX_SYMBOLS + BITMAP_SLACK]),
        }
    }
}

/// What the parameters say of a search.
#[derive(Clone, Copy, Debug)]
struct Shape {
    window: usize,
    key_bytes: usize,
    max_match: usize,
    depth: usize,
}

impl Shape {
    fn new(params: &Params) -> Self {
        Self {
            window: params.window(),
            key_bytes: params.key_bytes(),
            max_match: params.max_match(),
            depth: params.depth(),
        }
    }

    /// The same for bitmaps.
    fn rule<const WIDTH: usize>(self, min_match: usize) -> Rule {
        let Self { window, key_bytes, max_match, depth } = self;
        Rule { window, depth, key_symbols: key_bytes / WIDTH, min_match, max_match }
    }
}

/// A search for matches. Everything in it must be `#[inline(always)]`.
trait Finder {
    /// What is learnt about a block.
    type Index;

    /// Learns about a block.
    fn prepare(&mut self, block: &Block, index: &mut Self::Index);

    /// The match at `at` as length and distance in symbols; a length below the shortest match if there is none.
    fn longest(&self, block: &Block, index: &Self::Index, at: usize) -> (usize, usize);
}

/// Appends the tokens of `bytes`, cut into blocks, to `tokens`.
pub(super) fn encode(bytes: &[u8], params: &Params, near: &mut Near, tokens: &mut Tokens) {
    // At once: as much as they may take, where a large allocation's pages are none until they are written.
    tokens.literals.reserve(bytes.len() + size_of::<u64>());
    with_best(Encode { bytes, params, near, tokens, way: None });
}

/// A way to find matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Positions,
    Rare,
    Links,
    Bitmaps,
    #[cfg_attr(not(test), expect(dead_code, reason = "what is left"))]
    Chains,
    Windows,
}

struct Encode<'a> {
    bytes: &'a [u8],
    params: &'a Params,
    near: &'a mut Near,
    tokens: &'a mut Tokens,
    /// How matches are found, where that way is possible; if nothing is said, as is fastest.
    way: Option<Way>,
}

impl Comparing for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Agree>(self, agree: A) {
        match self.params.width {
            SymbolWidth::One => self.at_depth::<1, A>(agree),
            SymbolWidth::Two => self.at_depth::<2, A>(agree),
            SymbolWidth::Four => self.at_depth::<4, A>(agree),
            SymbolWidth::Eight => self.at_depth::<8, A>(agree),
        }
    }
}

impl Encode<'_> {
    #[inline(always)]
    fn at_depth<const WIDTH: usize, A: Agree>(self, agree: A) {
        match self.params.depth() {
            1 => self.all::<WIDTH, 1, A>(agree),
            2 => self.all::<WIDTH, 2, A>(agree),
            MOST_DEPTH => self.all::<WIDTH, MOST_DEPTH, A>(agree),
            _ => self.all::<WIDTH, ROUNDS, A>(agree),
        }
    }

    #[inline(always)]
    fn all<const WIDTH: usize, const LANES: usize, A: Agree>(mut self, agree: A) {
        let params = self.params;
        let shape = Shape::new(params);
        let mut rest = self.bytes;
        while !rest.is_empty() {
            let is_done = if WIDTH == 1 { self.append_by_links(rest) } else { self.append_if_rare::<WIDTH>(rest) };
            if is_done {
                rest = &rest[rest.len().min(params.block_bytes())..];
                continue;
            }
            let worth = A::WINDOWS && (LANES == 1 || !self.near.often);
            if LANES > MOST_DEPTH || !self.way.map_or(worth, |way| way == Way::Windows) {
                let mut memory = self.near.chains.take().unwrap_or_default();
                let (distances, heads) = &mut *memory;
                self.blocks::<WIDTH, A, _>(agree, rest, Chains::<WIDTH, LANES, A> { agree, shape, heads }, distances);
                self.near.chains = Some(memory);
            } else {
                let mut memory = self.near.keys.take().unwrap_or_default();
                self.blocks::<WIDTH, A, _>(agree, rest, Windows::<WIDTH, LANES, A> { agree, shape }, &mut memory);
                self.near.keys = Some(memory);
            }
            rest = &rest[rest.len().min(params.block_bytes() * STREAMS)..];
        }
    }

    /// Appends the tokens of one block, the first of `rest`, symbols of one byte each, if most of its matches are
    /// short: at once, while they are in the first cache.
    fn append_by_links(&mut self, rest: &[u8]) -> bool {
        let Self { params, near, tokens, way, .. } = self;
        let Near { blocks: [block, ..], bitmaps, .. } = &mut **near;
        if way.is_some_and(|way| way != Way::Links) {
            return false;
        }
        let (bytes, next) = rest.split_at(rest.len().min(params.block_bytes()));
        block.begin::<1>(bytes.len());
        let rule = Shape::new(params).rule::<1>(params.min_match.into());
        let (.., out) = block.parts();
        let counts = bitmaps::short_tokens(bytes, &rule, next, bitmaps, out);
        let Some(counts) = counts else { return false };
        block.count_all::<1>(counts);
        block.append_to(bytes, tokens);
        true
    }

    /// Appends the tokens of one block, the first of `rest`, if hardly any symbol repeats one of the window.
    fn append_if_rare<const WIDTH: usize>(&mut self, rest: &[u8]) -> bool {
        let Self { params, near, tokens, way, .. } = self;
        let shape = Shape::new(params);
        // One candidate is found as fast for every position.
        if way.map_or(shape.depth == 1, |way| way != Way::Rare) {
            return false;
        }
        let bytes = &rest[..rest.len().min(params.block_bytes())];
        let (symbols, []) = bytes.as_chunks::<WIDTH>() else { return false };
        let min_match = params.min_match.into();
        let Some(matches) = rare::find(symbols, shape, min_match, &mut near.rare) else { return false };
        rare::append::<WIDTH>(matches, min_match, bytes, tokens);
        true
    }

    /// Appends the tokens of some blocks, the first of `rest`.
    #[inline(always)]
    fn blocks<const WIDTH: usize, A: Agree, F: Finder>(
        &mut self,
        agree: A,
        rest: &[u8],
        mut finder: F,
        indices: &mut [F::Index; STREAMS],
    ) {
        let Self { params, near, tokens, way, .. } = self;
        let Near { sums, bitmaps, blocks, often, repeating, .. } = &mut **near;
        let min_match = usize::from(params.min_match);
        let shape = Shape::new(params);
        // Of larger windows or more candidates there are no bitmaps.
        let by_bitmaps = shape.depth <= MOST_DEPTH && way.is_none_or(|way| way == Way::Bitmaps);
        let by_positions = way.is_none_or(|way| way == Way::Positions);
        let block_bytes = params.block_bytes();
        let bytes = &rest[..rest.len().min(block_bytes * STREAMS)];
        let mut used = 0;
        for ((block, index), bytes) in blocks.iter_mut().zip(indices.iter_mut()).zip(bytes.chunks(block_bytes)) {
            used += 1;
            let next = rest.get(used * block_bytes..).unwrap_or_default();
            block.begin::<WIDTH>(bytes.len());
            // Bitmaps take longer than this, which is in vain where there are repetitions.
            let is_tried = min_match < repeats::LONG || (by_bitmaps || by_positions) && *repeating;
            if !is_tried && !repeats::may_repeat::<WIDTH>(bytes, params.window(), sums) {
                // Of all of them the block is not asked for.
                (block.at, block.count, block.literal_bytes) = (block.symbols, block.symbols, block.symbols * WIDTH);
                continue;
            }
            let is_whole = bytes.len().is_multiple_of(WIDTH);
            if by_positions && is_whole {
                let rule = shape.rule::<WIDTH>(min_match);
                if let Some(possible) = bitmaps::find::<WIDTH>(bytes, block.symbols, &rule, next, &mut block.found) {
                    *repeating = possible > 0;
                    (block.at, block.is_found) = (block.symbols, true);
                    continue;
                }
            }
            block.take::<WIDTH>(bytes);
            if by_bitmaps && block.take_by_bitmaps::<WIDTH>(shape, min_match, bitmaps) {
                *repeating = block.matches > 0;
                continue;
            }
            *repeating = false;
            if repeats::survey::<WIDTH, A>(agree, block, params.window(), min_match, sums) {
                finder.prepare(block, index);
            } else {
                block.take_literals::<WIDTH>(block.symbols);
            }
        }
        let blocks = &mut blocks[..used];
        let found = blocks.iter_mut().filter(|block| block.is_found);
        bitmaps::walk(found.map(|block| &mut block.found));
        while blocks.iter().all(|block| block.at < block.symbols) {
            // Not `for_each`: a closure is not compiled for this machine's vectors.
            for (block, index) in blocks.iter_mut().zip(indices.iter()) {
                step::<WIDTH, F>(&finder, block, index, min_match);
            }
        }
        for ((block, index), bytes) in blocks.iter_mut().zip(indices.iter()).zip(bytes.chunks(block_bytes)) {
            while block.at < block.symbols {
                step::<WIDTH, F>(&finder, block, index, min_match);
            }
            if block.is_found {
                match block.found.rare() {
                    Some(matches) => {
                        (block.count, block.matches) = rare::append::<WIDTH>(matches, min_match, bytes, tokens);
                        continue;
                    }
                    None => {
                        block.take::<WIDTH>(bytes);
                        block.write_found::<WIDTH>(min_match);
                    }
                }
            }
            block.append_to(bytes, tokens);
        }
        let sum = |count: fn(&Block) -> usize| blocks.iter().map(count).sum::<usize>();
        *often = sum(|block| block.count) * OFTEN > sum(|block| block.symbols);
    }
}

/// Takes the block's next token.
#[inline(always)]
fn step<const WIDTH: usize, F: Finder>(finder: &F, block: &mut Block, index: &F::Index, min_match: usize) {
    let (at, count) = (block.at, block.count);
    let until = block.repeats.literals_until(at);
    if until > at {
        return block.take_literals::<WIDTH>(until.min(block.symbols));
    }
    let (length, distance) = finder.longest(block, index, at);
    if length < min_match {
        // Eight bytes, of which those of the symbol stay.
        let to = block.literal_bytes % MAX_BYTES;
        block.literals[to..to + 8].copy_from_slice(&load(&block.bytes, at * WIDTH).to_le_bytes());
        block.literal_bytes += WIDTH;
        block.at = at + 1;
    } else {
        let number = block.matches;
        block.flags[count / 64 % (MAX_SYMBOLS / 64)] |= 1 << (count % 64);
        block.lengths[number % MAX_SYMBOLS] = (length - min_match) as u8;
        block.match_distances[number % MAX_SYMBOLS] = distance as u8;
        block.matches = number + 1;
        block.at = at + length;
    }
    block.count = count + 1;
}

impl Block {
    /// Forgets the tokens of the block before; this one has so many bytes.
    fn begin<const WIDTH: usize>(&mut self, bytes: usize) {
        self.symbols = bytes.div_ceil(WIDTH);
        (self.at, self.count, self.matches, self.literal_bytes) = (0, 0, 0, 0);
        self.is_found = false;
        self.flags[..self.symbols.div_ceil(64)].fill(0);
    }

    /// Takes the block's bytes.
    fn take<const WIDTH: usize>(&mut self, bytes: &[u8]) {
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.bytes[bytes.len()..bytes.len() + WIDTH].fill(0);
    }

    /// Its bytes, what has been found of them, and where tokens go.
    fn parts(&mut self) -> (&Bytes, &bitmaps::Found, TokensOut<'_>) {
        let Self { bytes, found, flags, literals, lengths, match_distances, .. } = self;
        let out = TokensOut {
            flags: &mut **flags,
            literals: &mut **literals,
            lengths: &mut **lengths,
            distances: &mut **match_distances,
        };
        (bytes, found, out)
    }

    /// Takes the symbols before `until` as literals.
    #[inline(always)]
    fn take_literals<const WIDTH: usize>(&mut self, until: usize) {
        let bytes = &self.bytes[self.at * WIDTH..until * WIDTH];
        // A block of literals alone is they: nobody looks at these.
        if self.matches > 0 || until < self.symbols {
            self.literals[self.literal_bytes..self.literal_bytes + bytes.len()].copy_from_slice(bytes);
        }
        self.literal_bytes += bytes.len();
        self.count += until - self.at;
        self.at = until;
    }

    /// Takes all of the block's tokens, if bitmaps can tell its symbols apart.
    fn take_by_bitmaps<const WIDTH: usize>(
        &mut self,
        shape: Shape,
        min_match: usize,
        scratch: &mut bitmaps::Scratch,
    ) -> bool {
        let (rule, symbols) = (shape.rule::<WIDTH>(min_match), self.symbols);
        let (bytes, _, out) = self.parts();
        let counts = bitmaps::tokens::<WIDTH>(bytes, symbols, &rule, scratch, out);
        counts.map(|counts| self.count_all::<WIDTH>(counts)).is_some()
    }

    /// Takes all of the block's tokens, whose matches have been found.
    fn write_found<const WIDTH: usize>(&mut self, min_match: usize) {
        let (bytes, found, out) = self.parts();
        let counts = bitmaps::write_found::<WIDTH>(bytes, min_match, found, out);
        self.count_all::<WIDTH>(counts);
    }

    /// Counts all tokens of the block, which are there.
    fn count_all<const WIDTH: usize>(&mut self, TokenCounts { tokens, matches }: TokenCounts) {
        (self.at, self.count, self.matches) = (self.symbols, tokens, matches);
        self.literal_bytes = (tokens - matches) * WIDTH;
    }

    /// Appends the tokens of these bytes.
    fn append_to(&self, bytes: &[u8], tokens: &mut Tokens) {
        tokens.flags.extend_from_slice(&self.flags[..self.count.div_ceil(64)]);
        if self.matches == 0 {
            // A last symbol that is not whole is filled up.
            tokens.literals.extend_from_slice(bytes);
            tokens.literals.resize(tokens.literals.len() + self.literal_bytes - bytes.len(), 0);
        } else {
            tokens.literals.extend_from_slice(&self.literals[..self.literal_bytes]);
        }
        tokens.lengths.extend_from_slice(&self.lengths[..self.matches]);
        tokens.distances.extend_from_slice(&self.match_distances[..self.matches]);
        tokens.blocks.push(BlockCounts { tokens: self.count as u32, matches: self.matches as u32 });
    }
}

#[inline(always)]
fn load(bytes: &Bytes, at: usize) -> u64 {
    let at = at % MAX_BYTES;
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::agree::Portable;

    #[test]
    fn every_way_to_compare_gives_the_same_tokens() {
        // Few values, then many; runs in between.
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
                    let near = &mut Near::default();
                    let [mut best, mut positions, mut rare, mut links, mut bitmaps, mut chains, mut windows] =
                        [(); 7].map(|()| Tokens::default());
                    encode(&bytes, &params, near, &mut best);
                    let ways = [
                        (&mut positions, Way::Positions),
                        (&mut rare, Way::Rare),
                        (&mut links, Way::Links),
                        (&mut bitmaps, Way::Bitmaps),
                        (&mut chains, Way::Chains),
                        (&mut windows, Way::Windows),
                    ];
                    for (tokens, way) in ways {
                        Encode { bytes: &bytes, params: &params, near, tokens, way: Some(way) }.run(Portable);
                    }
                    for other in [positions, rare, links, bitmaps, chains, windows] {
                        assert!(best == other, "{params:?}");
                    }
                    assert!(best.lengths.len() > 50, "{params:?}");
                }
            }
        }
    }
}
