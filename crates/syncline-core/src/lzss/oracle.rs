//! Matching as published: every position of the window is compared. Slow; what the fast search is tested against.

use super::{BlockCounts, ENOUGH, Params, Tokens};

/// Returns the match of a token at symbol `at` of the block as (length, distance) in symbols, or `None` for a literal.
///
/// # Panics
/// `block` is not whole symbols.
pub fn longest_match(block: &[u8], at: usize, params: &Params) -> Option<(usize, usize)> {
    let width = params.width.bytes();
    let symbols: Vec<&[u8]> = block.chunks_exact(width).collect();
    let key = params.key_bytes() / width;
    let mut best: Option<(usize, usize)> = None;
    let candidates = (1..=params.window().min(at))
        .filter(|&distance| (0..key).all(|k| symbols.get(at + k) == Some(&symbols[at - distance + k])));
    for distance in candidates.take(params.depth()) {
        let most = params.max_match().min(symbols.len() - at);
        let length = (0..most).take_while(|&k| symbols[at + k] == symbols[at - distance + k]).count();
        if length >= usize::from(params.min_match) && best.is_none_or(|(longest, _)| length > longest) {
            best = Some((length, distance));
            if length >= ENOUGH {
                break;
            }
        }
    }
    best
}

/// Tokens of all of `bytes`, which are whole symbols.
pub fn encode(bytes: &[u8], params: &Params) -> Tokens {
    let width = params.width.bytes();
    let mut tokens = Tokens::default();
    for block in bytes.chunks(params.block_bytes()) {
        let mut flags = Vec::new();
        let mut at = 0;
        while at < block.len() / width {
            let found = longest_match(block, at, params);
            flags.push(found.is_some());
            if let Some((length, distance)) = found {
                tokens.lengths.push((length - usize::from(params.min_match)) as u8);
                tokens.distances.extend_from_slice(&(distance as u16).to_le_bytes()[..params.distance_bytes()]);
                at += length;
            } else {
                tokens.literals.extend_from_slice(&block[at * width..(at + 1) * width]);
                at += 1;
            }
        }
        let matches = flags.iter().filter(|&&flag| flag).count() as u32;
        tokens.blocks.push(BlockCounts { tokens: flags.len() as u32, matches });
        tokens.flags.extend(flags.chunks(64).map(|word| word.iter().rev().fold(0, |w, &f| w << 1 | u64::from(f))));
    }
    tokens
}
