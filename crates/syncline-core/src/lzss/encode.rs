//! Tokens of blocks: greedy from each block's start.

use super::matcher::{Chains, PADDING, Search};
use super::near::{self, Near};
use super::{BlockCounts, Params, SymbolWidth, Tokens};

/// Memory that the encoder keeps from call to call.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    near: Near,
    chains: Chains,
    /// A block followed by zeros.
    block: Vec<u8>,
    literals: Vec<u8>,
}

/// Appends the tokens of `bytes`, cut into blocks, to `tokens`. A last symbol that is not whole is filled up with zero
/// bytes.
///
/// # Panics
/// Parameters out of range: a mistake of the caller, whatever the data.
pub fn encode(bytes: &[u8], params: &Params, scratch: &mut EncodeScratch, tokens: &mut Tokens) {
    assert!((1..=super::MAX_MIN_MATCH).contains(&params.min_match) && super::LEVELS.contains(&params.level));
    if params.window() <= u8::MAX.into() {
        return near::encode(bytes, params, &mut scratch.near, tokens);
    }
    for block in bytes.chunks(params.block_bytes()) {
        scratch.block.clear();
        scratch.block.extend_from_slice(block);
        scratch.block.resize(block.len().next_multiple_of(params.width.bytes()) + PADDING, 0);
        match params.width {
            SymbolWidth::One => encode_block::<1>(params, scratch, tokens),
            SymbolWidth::Two => encode_block::<2>(params, scratch, tokens),
            SymbolWidth::Four => encode_block::<4>(params, scratch, tokens),
            SymbolWidth::Eight => encode_block::<8>(params, scratch, tokens),
        }
    }
}

fn encode_block<const WIDTH: usize>(params: &Params, scratch: &mut EncodeScratch, tokens: &mut Tokens) {
    let EncodeScratch { chains, block, literals, .. } = scratch;
    let symbols = (block.len() - PADDING) / WIDTH;
    literals.resize(block.len(), 0);
    let mut search = Search::<WIDTH>::new(chains, block, params);
    let (mut at, mut literal_bytes, mut count) = (0, 0, 0u32);
    let mut word = 0;
    let matches_before = tokens.lengths.len();
    while at < symbols {
        let (length, distance) = search.step(at);
        if length == 0 {
            // Eight bytes, of which those of the symbol stay.
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
