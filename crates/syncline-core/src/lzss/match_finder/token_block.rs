//! The tokens of one block while they are found.

use super::super::{BlockCounts, Tokens};
use super::block_tokens::{MAX_BYTES, MAX_SYMBOLS, Match, TokenCounts, TokensOut, WRITE_SLACK};
use super::window_bitmap::SingleCandidates;

/// A block and the bytes that may be loaded after it.
pub(super) type Bytes = [u8; MAX_BYTES + WRITE_SLACK];

/// A block and its tokens.
#[derive(Debug)]
pub(super) struct TokenBlock {
    /// The block's bytes, and others after them.
    pub bytes: Box<Bytes>,
    /// Number of symbols.
    pub symbols: usize,
    /// The matches of all positions, if `has_candidates`.
    pub candidates: SingleCandidates,
    pub has_candidates: bool,
    /// Number of symbols that have tokens.
    pub at: usize,
    matches: usize,
    literal_bytes: usize,
    /// Number of tokens. Not next to `at`: the compiler would add to both by one vector instruction, for which the next
    /// token would wait longer.
    count: usize,
    /// Which tokens are matches; 0 after the last token.
    flags: Box<[u64; MAX_SYMBOLS / 64]>,
    literals: Box<Bytes>,
    lengths: Box<[u8; MAX_SYMBOLS + WRITE_SLACK]>,
    distances: Box<[u8; MAX_SYMBOLS + WRITE_SLACK]>,
}

impl Default for TokenBlock {
    fn default() -> Self {
        Self {
            bytes: Box::new([0; MAX_BYTES + WRITE_SLACK]),
            symbols: 0,
            candidates: SingleCandidates::default(),
            has_candidates: false,
            at: 0,
            count: 0,
            matches: 0,
            literal_bytes: 0,
            flags: Box::new([0; MAX_SYMBOLS / 64]),
            literals: Box::new([0; MAX_BYTES + WRITE_SLACK]),
            lengths: Box::new([0; MAX_SYMBOLS + WRITE_SLACK]),
            distances: Box::new([0; MAX_SYMBOLS + WRITE_SLACK]),
        }
    }
}

impl TokenBlock {
    /// Starts a block of this many bytes without tokens.
    pub(super) fn begin<const WIDTH: usize>(&mut self, bytes: usize) {
        self.symbols = bytes.div_ceil(WIDTH);
        (self.at, self.count, self.matches, self.literal_bytes) = (0, 0, 0, 0);
        self.has_candidates = false;
        self.flags[..self.symbols.div_ceil(64)].fill(0);
    }

    /// Copies the block's bytes, padded to complete symbols.
    pub(super) fn copy_bytes<const WIDTH: usize>(&mut self, bytes: &[u8]) {
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.bytes[bytes.len()..bytes.len() + WIDTH].fill(0);
    }

    /// Returns the block's bytes, and where its tokens are written.
    pub(super) fn out(&mut self) -> (&Bytes, TokensOut<'_>, &SingleCandidates) {
        let Self { bytes, candidates, flags, literals, lengths, distances, .. } = self;
        let out = TokensOut {
            flags: &mut **flags,
            literals: &mut **literals,
            lengths: &mut **lengths,
            distances: &mut **distances,
        };
        (bytes, out, candidates)
    }

    /// Makes all symbols literals. Their bytes need not have been copied.
    pub(super) fn set_literals<const WIDTH: usize>(&mut self) {
        self.set_counts::<WIDTH>(TokenCounts { tokens: self.symbols, matches: 0 });
    }

    /// Sets the counts after all tokens have been written to [`out`](Self::out).
    pub(super) fn set_counts<const WIDTH: usize>(&mut self, TokenCounts { tokens, matches }: TokenCounts) {
        (self.at, self.count, self.matches) = (self.symbols, tokens, matches);
        self.literal_bytes = (tokens - matches) * WIDTH;
    }

    /// Adds a literal.
    #[inline(always)]
    pub(super) fn push_literal<const WIDTH: usize>(&mut self) {
        // Copies eight bytes; the next literal overwrites those after the symbol.
        let to = self.literal_bytes % MAX_BYTES;
        self.literals[to..to + 8].copy_from_slice(&load(&self.bytes, self.at * WIDTH).to_le_bytes());
        self.literal_bytes += WIDTH;
        self.at += 1;
        self.count += 1;
    }

    /// Adds a match.
    #[inline(always)]
    pub(super) fn push_match(&mut self, length: usize, distance: usize, min_match: usize) {
        let (number, count) = (self.matches, self.count);
        self.flags[count / 64 % (MAX_SYMBOLS / 64)] |= 1 << (count % 64);
        self.lengths[number % MAX_SYMBOLS] = (length - min_match) as u8;
        self.distances[number % MAX_SYMBOLS] = distance as u8;
        self.matches = number + 1;
        self.at += length;
        self.count = count + 1;
    }

    /// Appends the tokens, which are those of `bytes`.
    pub(super) fn append_to(&self, bytes: &[u8], tokens: &mut Tokens) {
        tokens.flags.extend_from_slice(&self.flags[..self.count.div_ceil(64)]);
        if self.matches == 0 {
            // An incomplete last symbol is padded.
            tokens.literals.extend_from_slice(bytes);
            tokens.literals.resize(tokens.literals.len() + self.literal_bytes - bytes.len(), 0);
        } else {
            tokens.literals.extend_from_slice(&self.literals[..self.literal_bytes]);
        }
        tokens.lengths.extend_from_slice(&self.lengths[..self.matches]);
        tokens.distances.extend_from_slice(&self.distances[..self.matches]);
        tokens.blocks.push(BlockCounts { tokens: self.count as u32, matches: self.matches as u32 });
    }
}

/// Loads eight bytes from `at` on.
#[inline(always)]
pub(super) fn load(bytes: &Bytes, at: usize) -> u64 {
    let at = at % MAX_BYTES;
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Appends the tokens of a block of complete symbols from its list of matches.
pub(super) fn append_few_matches<const WIDTH: usize>(
    matches: &[Match],
    min_match: usize,
    bytes: &[u8],
    tokens: &mut Tokens,
) {
    let symbols = bytes.len() / WIDTH;
    let covered: usize = matches.iter().map(|found| found.length - 1).sum();
    let first_word = tokens.flags.len();
    tokens.flags.resize(first_word + (symbols - covered).div_ceil(64), 0);
    let (mut at, mut count) = (0, 0);
    for found in matches {
        tokens.literals.extend_from_slice(&bytes[at * WIDTH..found.at * WIDTH]);
        count += found.at - at;
        tokens.flags[first_word + count / 64] |= 1 << (count % 64);
        count += 1;
        tokens.lengths.push((found.length - min_match) as u8);
        tokens.distances.push(found.distance);
        at = found.at + found.length;
    }
    tokens.literals.extend_from_slice(&bytes[at * WIDTH..]);
    count += symbols - at;
    tokens.blocks.push(BlockCounts { tokens: count as u32, matches: matches.len() as u32 });
}
