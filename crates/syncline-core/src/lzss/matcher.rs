//! The longest match by hash chains over the first bytes of a match.

use super::{ENOUGH, Params};

/// Bytes after a block that may be loaded.
pub(super) const PADDING: usize = 16;

/// log2 of the entries in the table of chains.
const HASH_BITS: u32 = 12;

/// Positions of one block by what stands there.
#[derive(Debug)]
pub(super) struct Chains {
    /// Last position with each hash, plus the `base` of its block.
    heads: Box<[u32; 1 << HASH_BITS]>,
    /// For each position the one before it with the same hash, as in `heads`.
    previous: Box<[u32; 1 << 16]>,
    /// So far above the blocks before that their positions lie outside every window: the tables need not be cleared.
    base: u32,
}

/// From the base of a block to that of the next: a block and the largest window.
const BASE_STEP: u32 = 1 << 17;

impl Default for Chains {
    fn default() -> Self {
        Self { heads: Box::new([0; 1 << HASH_BITS]), previous: Box::new([0; 1 << 16]), base: 0 }
    }
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

/// A block with what its search needs; `WIDTH` is the bytes of a symbol.
pub(super) struct Search<'a, const WIDTH: usize> {
    chains: &'a mut Chains,
    /// The block and [`PADDING`].
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
    pub(super) fn new(chains: &'a mut Chains, block: &'a [u8], params: &Params) -> Self {
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

    /// Makes position `at` known; returns the one before it with the same hash. Both count from the base.
    #[inline(always)]
    fn insert(&mut self, at: usize, key: u64) -> u32 {
        let head = &mut self.chains.heads[hash(key)];
        let before = std::mem::replace(head, self.chains.base + at as u32);
        self.chains.previous[at & 0xffff] = before;
        before
    }

    /// Makes the positions known that a match covers, its first excepted.
    #[inline(always)]
    pub(super) fn skip(&mut self, at: usize, length: usize) {
        // A position too near the end starts no match.
        let end = (at + length).min((self.symbols + 1).saturating_sub(self.key_symbols));
        for position in at + 1..end {
            self.insert(position, self.key(position));
        }
    }

    /// The match at `at` (length and distance in symbols, length 0 if there is none). Makes `at` known.
    #[inline(always)]
    pub(super) fn step(&mut self, at: usize) -> (usize, usize) {
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
            if self.same_at(candidate, at, best) {
                let length = self.common(candidate, at, room);
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
    fn same_at(&self, a: usize, b: usize, offset: usize) -> bool {
        let symbol = |at: usize| load(self.block, (at + offset) * WIDTH) << (64 - 8 * WIDTH);
        symbol(a) == symbol(b)
    }

    /// Symbols that agree from `a` and `b` on, at most `most`.
    #[inline(always)]
    fn common(&self, a: usize, b: usize, most: usize) -> usize {
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
