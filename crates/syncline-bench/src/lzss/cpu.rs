//! Measures the stage on one thread of the CPU.

use std::time::Instant;

use anyhow::{Result, ensure};
use syncline_core::lzss::{EncodeScratch, Params, SLACK, SymbolWidth, TokenParts, Tokens, decode_block, encode};

use super::{Row, STAGE, Set};
use crate::check::POISON;
use crate::huffman::timed;
use crate::lossy::Rate;

/// Name of one CPU thread in rows.
pub const DEVICE: &str = "cpu, 1 thread";

/// Measures the stage at one point of the grid. Chunks are independent of each other.
///
/// # Errors
/// The decompressed bytes differ.
pub fn measure(set: &Set, chunk: usize, level: u8, width: SymbolWidth, runs: usize) -> Result<Row> {
    let params = Params::new(width, level);
    let bytes = set.bytes.as_slice();
    let (mut scratch, mut tokens) = (EncodeScratch::default(), Tokens::default());
    let compression = timed(runs, || {
        let start = Instant::now();
        tokens.clear();
        encode_chunks(bytes, chunk, &params, &mut scratch, &mut tokens);
        Ok(start.elapsed().as_secs_f64())
    })?;
    let length = tokens.len();
    for part in [&mut tokens.literals, &mut tokens.lengths, &mut tokens.distances] {
        part.resize(part.len() + SLACK, 0);
    }
    let padded = bytes.len().next_multiple_of(width.bytes());
    let mut back = vec![0; padded + SLACK];
    let decompression = timed(runs, || {
        back.fill(POISON);
        let start = Instant::now();
        decode_chunks(&tokens, chunk, &params, &mut back)?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    ensure!(back[..bytes.len()] == *bytes, "other bytes came back from {}", set.name);
    let rate = |times| Rate::new(bytes.len() as u64, times, None);
    Ok(Row {
        set: set.name.clone(),
        element: set.element.to_string(),
        bytes: bytes.len() as u64,
        device: DEVICE.to_owned(),
        codec: STAGE.to_owned(),
        chunk: Some(chunk),
        level: Some(level),
        symbol: Some(width.bytes()),
        ratio: bytes.len() as f64 / length as f64,
        compress: rate(&compression),
        decompress: Some(rate(&decompression)),
    })
}

/// Returns the bytes of the data blocks that a chunk is split into: the whole chunk, unless the format's blocks are
/// smaller.
fn block_bytes(chunk: usize, params: &Params) -> usize {
    chunk.min(params.block_bytes())
}

fn encode_chunks(bytes: &[u8], chunk: usize, params: &Params, scratch: &mut EncodeScratch, tokens: &mut Tokens) {
    if chunk >= params.block_bytes() {
        // Data blocks of the format's own size are encoded several at a time.
        return encode(bytes, params, scratch, tokens);
    }
    bytes.chunks(chunk).for_each(|chunk| encode(chunk, params, scratch, tokens));
}

fn decode_chunks(tokens: &Tokens, chunk: usize, params: &Params, out: &mut [u8]) -> Result<()> {
    let end = out.len() - SLACK;
    let (mut flag, mut literal, mut matched) = (0, 0, 0);
    for (counts, start) in tokens.blocks.iter().zip((0..end).step_by(block_bytes(chunk, params))) {
        let (count, matches) = (counts.tokens as usize, counts.matches as usize);
        let words = count.div_ceil(64);
        let parts = TokenParts {
            tokens: count,
            matches,
            flags: &tokens.flags[flag..flag + words],
            literals: &tokens.literals[literal..],
            lengths: &tokens.lengths[matched..],
            distances: &tokens.distances[matched * params.distance_bytes()..],
        };
        let to = end.min(start + block_bytes(chunk, params));
        decode_block(&parts, params, out, start, to).map_err(anyhow::Error::msg)?;
        flag += words;
        matched += matches;
        literal += (count - matches) * params.width.bytes();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{CHUNKS, LEVELS, WIDTHS};
    use super::*;

    #[test]
    fn the_whole_grid_and_long_windows() {
        let mut set = Set::load("tpch-linenumber", 1).unwrap();
        // Not a multiple of any chunk size or width.
        set.bytes.truncate(100_003);
        let ratio = |chunk, level, width| measure(&set, chunk, level, width, 1).unwrap().ratio;
        for width in WIDTHS {
            for level in LEVELS.into_iter().chain([6]) {
                let ratios = CHUNKS.map(|chunk| ratio(chunk, level, width));
                assert!(ratios.is_sorted(), "{width:?} {level}: {ratios:?}");
            }
        }
        // Larger chunks have fewer incomplete windows.
        assert!(ratio(16_384, 3, SymbolWidth::Four) > 1.1 * ratio(2048, 3, SymbolWidth::Four));
    }
}
