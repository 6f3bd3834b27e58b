//! The LZSS stage on the GPU: encodes and decodes the tokens of `syncline_core::lzss`, byte for byte as in sections 3
//! to 6 of a chunk record (docs/FORMAT.md, "LZSS").
//!
//! Launchers of `kernels/lzss/`. A call processes the bytes of many chunks in device memory. All of them have the
//! symbol width and the level that the [`Encoder`] or [`Decoder`] was created for; each chunk has its own minimum match
//! length.

mod decode;
mod encode;
mod sections;
pub(crate) mod structs;

pub use decode::{ChunkSections, DecodeBatch, Decoder, status_text};
pub use encode::{Encoder, TokenSearch};
pub(crate) use encode::{Found, Planes};
pub use sections::{Batch, ChunkRange, Encoded, Form, NO_MATCHES};
pub use structs::SectionPlan;
pub(crate) use structs::{PlaneStarts, WORD_PLANES};

use syncline_core::lzss::{ENOUGH, LENGTH_SPAN, LEVELS, MAX_MIN_MATCH, Params, SymbolWidth};

use crate::device::Specialization;
use crate::error::{CudaError, Result};

/// Maximum bytes of a chunk: 2^22 elements of 8 bytes.
const MAX_BYTES: u64 = 1 << 25;

/// Returns every specialization of the stage's kernels on a device with `shared_memory` bytes of shared memory per
/// block, for the check that all of them compile.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let compiled = KINDS.map(|(width, level)| Params::new(width, level)).map(|params| {
        [encode::specializations(&params, shared_memory), vec![decode::specialization(&params)]].concat()
    });
    compiled.concat()
}

/// Widths and levels whose kernels are compiled in checks. Levels only differ in numbers, so these cover every width,
/// short and long windows, and a single candidate.
#[doc(hidden)]
pub const KINDS: [(SymbolWidth, u8); 6] = [
    (SymbolWidth::One, 4),
    (SymbolWidth::Two, 3),
    (SymbolWidth::Four, 1),
    (SymbolWidth::Eight, 4),
    (SymbolWidth::One, 9),
    (SymbolWidth::Four, 6),
];

/// Returns the parameters with the shortest match that saves bytes, or an error if there is no such level.
fn params(width: SymbolWidth, level: u8) -> Result<Params> {
    if !LEVELS.contains(&level) {
        return Err(CudaError::invalid(format!("LZSS levels are 1 to 9, not {level}")));
    }
    Ok(Params::new(width, level))
}

/// Checks a chunk's minimum match length and number of bytes.
fn check_chunk(bytes: u64, min_match: u8) -> Result<()> {
    if !(1..=MAX_MIN_MATCH).contains(&min_match) {
        return Err(CudaError::invalid(format!("shortest matches are 1 to {MAX_MIN_MATCH} symbols, not {min_match}")));
    }
    if bytes > MAX_BYTES {
        return Err(CudaError::invalid(format!("a chunk has at most {MAX_BYTES} bytes, not {bytes}")));
    }
    Ok(())
}

/// Counts the chunks and data blocks of a batch and checks that the numbers are not too large for the kernels.
struct Counted {
    chunks: u32,
    blocks: u32,
    block_bytes: u64,
}

impl Counted {
    /// Returns the counts for `chunks` chunks, each of which must be [added](Self::add).
    fn new(params: &Params, chunks: usize) -> Result<Self> {
        let chunks = u32::try_from(chunks).ok().filter(|count| (1..=1 << 20).contains(count));
        let chunks = chunks.ok_or_else(|| CudaError::invalid("a batch has 1 to 2^20 chunks"))?;
        Ok(Self { chunks, blocks: 0, block_bytes: params.block_bytes() as u64 })
    }

    /// Adds the next chunk, which has `bytes` bytes. Returns the number of its first block, and its number of blocks.
    fn add(&mut self, bytes: u64) -> Result<(u32, u32)> {
        let (first, own) = (self.blocks, bytes.div_ceil(self.block_bytes));
        let end = u32::try_from(u64::from(first) + own).ok().filter(|&end| end < 1 << 31);
        self.blocks = end.ok_or_else(|| CudaError::invalid("a batch has fewer than 2^31 blocks"))?;
        Ok((first, self.blocks - first))
    }
}

/// Returns the constants that every kernel takes.
fn constants(params: &Params, threads: u32) -> Vec<(&'static str, u64)> {
    vec![
        ("WIDTH", params.width.bytes() as u64),
        ("BLOCK_BYTES", params.block_bytes() as u64),
        ("THREADS", threads.into()),
    ]
}

/// Returns the constants of the rule that selects matches.
fn match_constants(params: &Params) -> Vec<(&'static str, u64)> {
    vec![
        ("LEVEL", params.level.into()),
        ("WINDOW", params.window() as u64),
        ("DEPTH", params.depth() as u64),
        ("LENGTH_SPAN", LENGTH_SPAN as u64),
        ("ENOUGH", ENOUGH as u64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_numbered_up_to_where_numbers_end() {
        let params = Params::new(SymbolWidth::One, 4);
        let block = params.block_bytes() as u64;
        for chunks in [0, (1 << 20) + 1] {
            assert!(Counted::new(&params, chunks).is_err());
        }
        let mut counted = Counted::new(&params, 3).unwrap();
        assert_eq!(counted.add(block + 1).unwrap(), (0, 2));
        assert_eq!(counted.add(0).unwrap(), (2, 0));
        assert_eq!(counted.add(block).unwrap(), (2, 1));
        let last = (1 << 31) - 1;
        assert_eq!(Counted { blocks: last - 1, ..counted }.add(1).unwrap(), (last - 1, 1));
        assert!(Counted { blocks: last, chunks: 1, block_bytes: block }.add(1).is_err());
    }
}
