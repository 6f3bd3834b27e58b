//! Finds the tokens of blocks of levels 5 to 9 by hash chains over the first bytes of a match.

use super::super::{BlockCounts, ENOUGH, Params, SymbolWidth, Tokens};
use super::MatchFinder;

/// Bytes after a block that may be loaded.
const PADDING: usize = 16;

/// log2 of the entries in the table of chain heads.
const HASH_BITS: u32 = 12;

/// The positions of one block by the hash of their key.
#[derive(Debug)]
struct Chains {
    /// The last position with each hash, plus the `base` of its block.
    heads: Box<[u32; 1 << HASH_BITS]>,
    /// For each position, the previous position with the same hash, plus the `base` of its block.
    previous: Box<[u32; 1 << 16]>,
    /// Large enough that positions of earlier blocks lie outside every window, so that the tables need not be cleared.
    base: u32,
}

/// Difference between the bases of consecutive blocks: a block and the largest window.
const BASE_STEP: u32 = 1 << 17;

impl Default for Chains {
    fn default() -> Self {
        Self { heads: Box::new([0; 1 << HASH_BITS]), previous: Box::new([0; 1 << 16]), base: 0 }
    }
}

/// The match finder of long windows.
#[derive(Debug, Default)]
pub(in super::super) struct HashChain {
    chains: Chains,
    /// A block followed by [`PADDING`] zeros.
    block: Vec<u8>,
    literals: Vec<u8>,
}

impl MatchFinder for HashChain {
    fn append_tokens(
        &mut self,
        bytes: &[u8],
        max_blocks: usize,
        params: &Params,
        tokens: &mut Tokens,
    ) -> Option<usize> {
        let bytes = &bytes[..bytes.len().min(max_blocks * params.block_bytes())];
        for block in bytes.chunks(params.block_bytes()) {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.block.resize(block.len().next_multiple_of(params.width.bytes()) + PADDING, 0);
            match params.width {
                SymbolWidth::One => append_block::<1>(params, self, tokens),
                SymbolWidth::Two => append_block::<2>(params, self, tokens),
                SymbolWidth::Four => append_block::<4>(params, self, tokens),
                SymbolWidth::Eight => append_block::<8>(params, self, tokens),
            }
        }
        Some(bytes.len())
    }
}

/// Appends the tokens of the block in `finder.block`.
fn append_block<const WIDTH: usize>(params: &Params, finder: &mut HashChain, tokens: &mut Tokens) {
    let HashChain { chains, block, literals } = finder;
    let symbols = (block.len() - PADDING) / WIDTH;
    literals.resize(block.len(), 0);
    let mut search = Search::<WIDTH>::new(chains, block, params);
    let (mut at, mut literal_bytes, mut count) = (0, 0, 0u32);
    let mut word = 0;
    let matches_before = tokens.lengths.len();
    while at < symbols {
        let (length, distance) = search.step(at);
        if length == 0 {
            // Copies eight bytes; the next literal overwrites those after the symbol.
            let symbol: [u8; 8] = block[at * WIDTH..at * WIDTH + 8].try_into().expect("8 bytes");
            literals[literal_bytes..literal_bytes + 8].copy_from_slice(&symbol);
            literal_bytes += WIDTH;
            at += 1;
        } else {
            word |= 1 << (count % 64);
            tokens.lengths.push((length - usize::from(params.min_match)) as u8);
            let [low, high] = (distance as u16).to_le_bytes();
            tokens.distances.push(low);
            if params.distance_bytes() == 2 {
                tokens.distances.push(high);
            }
            search.skip(at, length);
            at += length;
        }
        count += 1;
        if count.is_multiple_of(64) {
            tokens.flags.push(std::mem::take(&mut word));
        }
    }
    if !count.is_multiple_of(64) {
        tokens.flags.push(word);
    }
    tokens.literals.extend_from_slice(&literals[..literal_bytes]);
    let matches = (tokens.lengths.len() - matches_before) as u32;
    tokens.blocks.push(BlockCounts { tokens: count, matches });
}

#[inline(always)]
fn load(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"))
}

#[inline(always)]
fn hash(key: u64) -> usize {
    // Knuth's multiplicative hashing with 2^64 over the golden ratio.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}

/// The search in one block of symbols of `WIDTH` bytes.
struct Search<'a, const WIDTH: usize> {
    chains: &'a mut Chains,
    /// The block and [`PADDING`] more bytes.
    block: &'a [u8],
    symbols: usize,
    key_mask: u64,
    key_symbols: usize,
    min_match: usize,
    max_match: usize,
    window: usize,
    depth: usize,
}

impl<'a, const WIDTH: usize> Search<'a, WIDTH> {
    fn new(chains: &'a mut Chains, block: &'a [u8], params: &Params) -> Self {
        chains.base = chains.base.wrapping_add(BASE_STEP);
        if chains.base == 0 {
            chains.heads.fill(0);
            chains.base = BASE_STEP;
        }
        Self {
            chains,
            block,
            symbols: (block.len() - PADDING) / WIDTH,
            key_mask: u64::MAX >> (64 - 8 * params.key_bytes()),
            key_symbols: params.key_bytes() / WIDTH,
            min_match: params.min_match.into(),
            max_match: params.max_match(),
            window: params.window(),
            depth: params.depth(),
        }
    }

    #[inline(always)]
    fn key(&self, at: usize) -> u64 {
        load(self.block, at * WIDTH) & self.key_mask
    }

    /// Inserts position `at`. Returns the previous position with the same hash, plus the base of its block.
    #[inline(always)]
    fn insert(&mut self, at: usize, key: u64) -> u32 {
        let head = &mut self.chains.heads[hash(key)];
        let before = std::mem::replace(head, self.chains.base + at as u32);
        self.chains.previous[at & 0xffff] = before;
        before
    }

    /// Inserts the positions that a match covers, except for its first.
    #[inline(always)]
    fn skip(&mut self, at: usize, length: usize) {
        // A position too close to the end starts no match.
        let end = (at + length).min((self.symbols + 1).saturating_sub(self.key_symbols));
        for position in at + 1..end {
            self.insert(position, self.key(position));
        }
    }

    /// Inserts `at`. Returns the length and distance of its match in symbols; the length is 0 if there is none.
    #[inline(always)]
    fn step(&mut self, at: usize) -> (usize, usize) {
        let room = (self.symbols - at).min(self.max_match);
        if room < self.key_symbols {
            return (0, 0);
        }
        let key = self.key(at);
        let mut next = self.insert(at, key);
        let here = self.chains.base + at as u32;
        let (mut best, mut best_distance) = (self.min_match - 1, 0);
        let mut left = self.depth;
        while best < room {
            let distance = (here - next) as usize;
            if distance > self.window {
                break;
            }
            let candidate = at - distance;
            next = self.chains.previous[candidate & 0xffff];
            if self.key(candidate) != key {
                continue;
            }
            if self.is_same_at(candidate, at, best) {
                let length = self.match_length(candidate, at, room);
                if length > best {
                    (best, best_distance) = (length, distance);
                    if length >= ENOUGH {
                        break;
                    }
                }
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
        if best_distance == 0 { (0, 0) } else { (best, best_distance) }
    }

    #[inline(always)]
    fn is_same_at(&self, a: usize, b: usize, offset: usize) -> bool {
        let symbol = |at: usize| load(self.block, (at + offset) * WIDTH) << (64 - 8 * WIDTH);
        symbol(a) == symbol(b)
    }

    /// Returns the number of equal symbols from `a` and `b` on, at most `most`.
    #[inline(always)]
    fn match_length(&self, a: usize, b: usize, most: usize) -> usize {
        let end = most * WIDTH;
        let mut at = 0;
        while at < end {
            let differ = load(self.block, a * WIDTH + at) ^ load(self.block, b * WIDTH + at);
            if differ != 0 {
                return ((at + differ.trailing_zeros() as usize / 8) / WIDTH).min(most);
            }
            at += 8;
        }
        most
    }
}
