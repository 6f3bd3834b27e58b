//! Tokens of blocks whose window is at most 255 symbols (levels 1 to 4).
//!
//! First each position of the block learns the distances of the nearest four that begin alike, all in one word: no chain is walked link by
//! link, whose every step waits for the one before. Then tokens are taken from the start of the block; the candidates of one are compared
//! side by side, without a branch for each. What that cannot decide - an alien in the chain, a match longer than a vector, the end of
//! the block - is decided one candidate after another.

use std::hint::select_unpredictable;

use super::{BlockCounts, ENOUGH, Params, SymbolWidth, Tokens};
use crate::arch::agree::{AGREE, Agree, Comparing, Nearest, with_best};

/// log2 of the entries in the table of last positions: with the distances of 32-bit symbols it fills the first-level cache, hardly more.
const HASH_BITS: u32 = 14;
/// Most symbols in a block.
const MAX_SYMBOLS: usize = 1 << 14;
/// Most bytes in a block.
const MAX_BYTES: usize = 1 << 14;
/// A block and what may be loaded after it.
type Bytes = [u8; MAX_BYTES + AGREE];
/// No position yet: farther than any window from every position.
const NOWHERE: u16 = 1 << 15;
/// Bits of a distance in a word of four.
const LANE: u32 = 16;
/// A 1 in each lane.
const ONES: u64 = 0x0001_0001_0001_0001;
/// Four distances beyond every window.
const NONE: u64 = 0x4000 * ONES;

/// Stands for lanes where four are compared and then four more.
const ROUNDS: usize = 5;
/// No position.
const NOBODY: u16 = u16::MAX;

/// Symbols that are compared by one hash where only matches of twice as many count: such a match covers all of an aligned group.
const GROUP: usize = 8;

/// Blocks whose tokens are taken in turn: the latencies from a token to the next add up to some 45 cycles, which leaves room for others'.
const STREAMS: usize = 4;

/// A prime near 2^32 over the golden ratio.
const FACTOR: u32 = 0x9E37_79B1;

/// Memory for the tokens of some blocks.
#[derive(Debug)]
pub(super) struct Near {
    /// Last position with each hash.
    heads: Box<[u16; 1 << HASH_BITS]>,
    /// Hashes of [`GROUP`] symbols.
    sums: Box<[u32; MAX_SYMBOLS]>,
    blocks: [Block; STREAMS],
}

impl Default for Near {
    fn default() -> Self {
        Self {
            heads: Box::new([NOWHERE; 1 << HASH_BITS]),
            sums: Box::new([0; MAX_SYMBOLS]),
            blocks: Default::default(),
        }
    }
}

/// A block and its tokens.
#[derive(Debug)]
struct Block {
    /// Its bytes and others behind them.
    bytes: Box<Bytes>,
    symbols: usize,
    /// For each position the distances of the nearest four with its hash, the nearest in the lowest lane; beyond the window if there are fewer. Or their positions:
    /// [`Search::positions`].
    distances: Box<[u64; MAX_SYMBOLS]>,
    /// Symbols that have their tokens.
    at: usize,
    count: usize,
    matches: usize,
    literal_bytes: usize,
    /// Flags of the last tokens, of a multiple of 64 before them, and of matches the rest.
    word: u64,
    flags: Box<[u64; MAX_SYMBOLS / 64]>,
    literals: Box<Bytes>,
    lengths: Box<[u8; MAX_SYMBOLS]>,
    match_distances: Box<[u8; MAX_SYMBOLS]>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            bytes: Box::new([0; MAX_BYTES + AGREE]),
            symbols: 0,
            distances: Box::new([NONE; MAX_SYMBOLS]),
            at: 0,
            count: 0,
            matches: 0,
            literal_bytes: 0,
            word: 0,
            flags: Box::new([0; MAX_SYMBOLS / 64]),
            literals: Box::new([0; MAX_BYTES + AGREE]),
            lengths: Box::new([0; MAX_SYMBOLS]),
            match_distances: Box::new([0; MAX_SYMBOLS]),
        }
    }
}

/// Appends the tokens of `bytes`, cut into blocks, to `tokens`.
pub(super) fn encode(bytes: &[u8], params: &Params, near: &mut Near, tokens: &mut Tokens) {
    with_best(Encode { bytes, params, near, tokens });
}

struct Encode<'a> {
    bytes: &'a [u8],
    params: &'a Params,
    near: &'a mut Near,
    tokens: &'a mut Tokens,
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
            1 => self.blocks::<WIDTH, 1, A>(agree),
            2 => self.blocks::<WIDTH, 2, A>(agree),
            4 => self.blocks::<WIDTH, 4, A>(agree),
            _ => self.blocks::<WIDTH, ROUNDS, A>(agree),
        }
    }

    #[inline(always)]
    fn blocks<const WIDTH: usize, const LANES: usize, A: Agree>(self, agree: A) {
        let Self { bytes, params, near, tokens } = self;
        let Near { heads, sums, blocks } = near;
        let search = Search::<WIDTH, LANES, A> {
            agree,
            window: params.window(),
            key_bytes: params.key_bytes(),
            min_match: params.min_match.into(),
            max_match: params.max_match(),
            depth: params.depth(),
        };
        for group in bytes.chunks(params.block_bytes() * STREAMS) {
            let mut used = 0;
            for (block, bytes) in blocks.iter_mut().zip(group.chunks(params.block_bytes())) {
                block.begin::<WIDTH>(bytes);
                if search.min_match < 2 * GROUP || block.may_repeat::<WIDTH>(search.window, sums) {
                    search.find_distances(heads, block);
                } else {
                    block.take_literals::<WIDTH>();
                }
                used += 1;
            }
            let blocks = &mut blocks[..used];
            while blocks.iter().all(|block| block.at < block.symbols) {
                // Not `for_each`: a closure is not compiled for this machine's vectors.
                for block in blocks.iter_mut() {
                    search.step(block);
                }
            }
            for block in blocks {
                while block.at < block.symbols {
                    search.step(block);
                }
                block.append_to(tokens);
            }
        }
    }
}

impl Block {
    /// Takes a block's bytes and forgets the tokens of the one before.
    fn begin<const WIDTH: usize>(&mut self, bytes: &[u8]) {
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.bytes[bytes.len()..bytes.len() + WIDTH].fill(0);
        self.symbols = bytes.len().div_ceil(WIDTH);
        (self.at, self.count, self.matches, self.literal_bytes, self.word) = (0, 0, 0, 0, 0);
    }

    /// Whether the hash of an aligned group is that of symbols at most `window` before it. If not, no match has `2 * GROUP` symbols.
    #[inline(always)]
    fn may_repeat<const WIDTH: usize>(&self, window: usize, sums: &mut [u32; MAX_SYMBOLS]) -> bool {
        let Some(last) = self.symbols.checked_sub(GROUP) else { return false };
        let sums = &mut sums[..self.symbols];
        for (sum, symbol) in sums.iter_mut().zip(self.bytes.as_chunks::<WIDTH>().0) {
            *sum = match WIDTH {
                1 => symbol[0].into(),
                2 => u16::from_le_bytes([symbol[0], symbol[1]]).into(),
                4 => u32::from_le_bytes([symbol[0], symbol[1], symbol[2], symbol[3]]),
                _ => {
                    let halves = symbol.as_chunks::<4>().0;
                    u32::from_le_bytes(halves[0]).wrapping_mul(FACTOR).wrapping_add(u32::from_le_bytes(halves[1]))
                }
            };
        }
        // Of two symbols, four, eight: those from each position on.
        for step in [1, 2, 4] {
            for at in 0..sums.len() - step {
                let mixed = (sums[at] ^ sums[at] >> 15).wrapping_mul(FACTOR).rotate_left(13);
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

    /// Takes all symbols as literals.
    fn take_literals<const WIDTH: usize>(&mut self) {
        (self.at, self.count, self.literal_bytes) = (self.symbols, self.symbols, self.symbols * WIDTH);
        self.flags[..self.symbols / 64].fill(0);
    }

    fn append_to(&mut self, tokens: &mut Tokens) {
        let whole = self.count / 64;
        tokens.flags.extend_from_slice(&self.flags[..whole]);
        if !self.count.is_multiple_of(64) {
            tokens.flags.push(self.word);
        }
        // A block of literals alone is they.
        let literals = if self.matches == 0 { &self.bytes } else { &self.literals };
        tokens.literals.extend_from_slice(&literals[..self.literal_bytes]);
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

#[inline(always)]
fn hash(key: u64) -> usize {
    // Knuth's multiplicative hashing with 2^64 over the golden ratio.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}

#[inline(always)]
fn lane(distances: u64, lane: usize) -> usize {
    (distances >> (LANE * lane as u32) & 0xffff) as usize
}

/// The search with what the parameters say; `LANES` candidates are compared at once, or [`ROUNDS`]. With four, distances have become positions.
struct Search<const WIDTH: usize, const LANES: usize, A> {
    agree: A,
    window: usize,
    key_bytes: usize,
    min_match: usize,
    max_match: usize,
    depth: usize,
}

impl<const WIDTH: usize, const LANES: usize, A: Agree> Search<WIDTH, LANES, A> {
    /// The bits of a key in the eight bytes that it starts.
    fn key_mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.key_bytes)
    }

    /// Fills in the block's distances.
    #[inline(always)]
    fn find_distances(&self, heads: &mut [u16; 1 << HASH_BITS], block: &mut Block) {
        let Block { bytes, symbols, distances, .. } = block;
        let symbols = *symbols;
        let (mask, window) = (self.key_mask(), self.window as u64);
        // A position too near the end starts no match.
        let keys = (symbols + 1).saturating_sub(self.key_bytes / WIDTH).min(symbols);
        heads.fill(NOWHERE);
        for at in 0..keys {
            let head = &mut heads[hash(load(bytes, at * WIDTH) & mask)];
            let before = std::mem::replace(head, at as u16);
            let distance = u64::from((at as u16).wrapping_sub(before));
            // The distances of the position before, one lane up, all longer by the way to it. A lane is dropped after three additions: none runs over.
            let found =
                (distances[usize::from(before) % MAX_SYMBOLS] << LANE).wrapping_add(distance.wrapping_mul(ONES));
            distances[at % MAX_SYMBOLS] = select_unpredictable(distance <= window, found, NONE);
        }
        distances[keys..symbols].fill(NONE);
        if LANES == 4 {
            // Once: every token needs them so.
            for (at, word) in distances[..symbols].iter_mut().enumerate() {
                *word = self.positions(at, *word);
            }
        }
    }

    /// The positions of candidates at these distances from `at`. Where there are fewer, the nearest stands in for the rest; where there is none, [`NOBODY`].
    #[inline(always)]
    fn positions(&self, at: usize, distances: u64) -> u64 {
        let nearest = distances as u16;
        let mut positions = 0;
        for lane in (0..4).rev() {
            let distance = (distances >> (LANE * lane)) as u16;
            let distance = if usize::from(distance) > self.window { nearest } else { distance };
            let position = if usize::from(nearest) > self.window { NOBODY } else { (at as u16).wrapping_sub(distance) };
            positions = positions << LANE | u64::from(position);
        }
        positions
    }

    /// Takes the block's next token.
    #[inline(always)]
    fn step(&self, block: &mut Block) {
        let at = block.at;
        let (length, distance) = self.longest(block, at);
        if length < self.min_match {
            // Eight bytes, of which those of the symbol stay.
            let to = block.literal_bytes % MAX_BYTES;
            block.literals[to..to + 8].copy_from_slice(&load(&block.bytes, at * WIDTH).to_le_bytes());
            block.literal_bytes += WIDTH;
            block.at += 1;
        } else {
            block.word |= 1 << (block.count % 64);
            block.lengths[block.matches % MAX_SYMBOLS] = (length - self.min_match) as u8;
            block.match_distances[block.matches % MAX_SYMBOLS] = distance as u8;
            block.matches += 1;
            block.at += length;
        }
        block.count += 1;
        if block.count.is_multiple_of(64) {
            block.flags[(block.count / 64 - 1) % (MAX_SYMBOLS / 64)] = std::mem::take(&mut block.word);
        }
    }

    /// The match at `at` as length and distance in symbols; a length below the shortest match if there is none.
    #[inline(always)]
    fn longest(&self, block: &Block, at: usize) -> (usize, usize) {
        match self.side_by_side(block, at) {
            Some(found) => found,
            None => self.one_by_one(block, at),
        }
    }

    /// As [`longest`](Self::longest), unless that cannot be told from vectors.
    #[inline(always)]
    fn side_by_side(&self, block: &Block, at: usize) -> Option<(usize, usize)> {
        let bytes = &*block.bytes;
        let mut distances = block.distances[at % MAX_SYMBOLS];
        let nearest = lane(distances, 0);
        if nearest > if LANES == 4 { MAX_SYMBOLS - 1 } else { self.window } {
            return Some((0, 0));
        }
        if at + AGREE / WIDTH > block.symbols {
            return None;
        }
        let here = vector::<WIDTH>(bytes, at);
        if LANES == 4 {
            let there = std::array::from_fn(|i| vector::<WIDTH>(bytes, lane(distances, i)));
            let key_symbols = (self.key_bytes / WIDTH) as u32;
            let Nearest { length, position, all } = self.agree.nearest::<WIDTH>(here, there, distances, key_symbols);
            if !all || length >= (AGREE / WIDTH).min(31) {
                return None;
            }
            return Some((length, at - position));
        }
        // The most symbols that agree, less the distance; the bytes that agree in all.
        let (mut best, mut all) = (0, u32::MAX);
        let mut base = 0;
        let lanes = LANES.min(4);
        for _ in 0..self.depth.div_ceil(lanes) {
            for i in 0..lanes {
                let distance = base + lane(distances, i);
                // Where there are fewer candidates, the nearest stands in for the rest.
                let distance = select_unpredictable(distance > self.window, nearest, distance);
                let same = self.agree.bytes(vector::<WIDTH>(bytes, at - distance), here);
                all &= same;
                let this = (((same.trailing_ones() as usize / WIDTH) + 1) << LANE) - distance;
                best = select_unpredictable(this > best, this, best);
            }
            base += lane(distances, lanes - 1);
            if LANES < ROUNDS || base >= self.window {
                break;
            }
            distances = block.distances[(at - base) % MAX_SYMBOLS];
        }
        let (length, distance) = (best >> LANE, best.wrapping_neg() % (1 << LANE));
        if all.trailing_ones() < self.key_bytes as u32 || length == AGREE / WIDTH {
            return None;
        }
        Some((length, distance))
    }

    /// As [`longest`](Self::longest), whatever stands at `at`.
    #[inline(always)]
    fn one_by_one(&self, block: &Block, at: usize) -> (usize, usize) {
        let room = (block.symbols - at).min(self.max_match);
        let mask = self.key_mask();
        let key = load(&block.bytes, at * WIDTH) & mask;
        let (mut best, mut best_distance) = (0, 0);
        let mut left = self.depth;
        let mut distance = 0;
        while left > 0 && best < room {
            let next = lane(block.distances[(at - distance) % MAX_SYMBOLS], 0);
            distance = match LANES {
                4 if next >= MAX_SYMBOLS => break,
                4 => at - next,
                _ => distance + next,
            };
            if distance > self.window {
                break;
            }
            let candidate = at - distance;
            if load(&block.bytes, candidate * WIDTH) & mask != key {
                continue;
            }
            left -= 1;
            let length = self.common(&block.bytes, candidate, at, room);
            if length > best {
                (best, best_distance) = (length, distance);
                if length >= ENOUGH {
                    break;
                }
            }
        }
        (best, best_distance)
    }

    /// Symbols that agree from `a` and `b` on, at most `most`.
    #[inline(always)]
    fn common(&self, bytes: &Bytes, a: usize, b: usize, most: usize) -> usize {
        let mut at = 0;
        while at < most {
            let same = self.agree.bytes(vector::<WIDTH>(bytes, a + at), vector::<WIDTH>(bytes, b + at));
            let length = same.trailing_ones() as usize / WIDTH;
            if length < AGREE / WIDTH {
                return (at + length).min(most);
            }
            at += length;
        }
        most
    }
}

#[inline(always)]
fn vector<const WIDTH: usize>(bytes: &Bytes, at: usize) -> &[u8; AGREE] {
    let at = at * WIDTH % MAX_BYTES;
    bytes[at..at + AGREE].try_into().expect("as many bytes")
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
            let values = [3, 11, 200, 1 << 20][bytes.len() / 8000 % 4];
            let (value, times) = (next() % values, if next() % 50 == 0 { next() % 300 } else { 1 });
            (0..times).for_each(|_| bytes.extend_from_slice(&(value as u32).to_le_bytes()));
        }
        for width in SymbolWidth::ALL {
            for level in 1..=4 {
                for more in [0, 3] {
                    let params = Params::new(width, level);
                    let params = Params { min_match: params.min_match + more, ..params };
                    let [mut best, mut portable] = [Tokens::default(), Tokens::default()];
                    encode(&bytes, &params, &mut Near::default(), &mut best);
                    let near = &mut Near::default();
                    Encode { bytes: &bytes, params: &params, near, tokens: &mut portable }.run(Portable);
                    assert!(best == portable, "{params:?}");
                    assert!(best.lengths.len() > 50, "{params:?}");
                }
            }
        }
    }
}
