//! Lossless chunks: the elements in tile order, for the coder that is asked for or the one that suits them.

use super::context::{ElementSource, runs_of_rows};
use super::lzss::{ChunkModel, LzssEstimate};
use super::options::{Coder, CoderOptions};
use super::scratch::{EncodeScratch, words_in};
use super::{lzss, numbers};
use crate::container::Header;
use crate::error::Result;
use crate::geometry::{Geometry, Tile, Window};
use crate::predict::word::Word;

/// Appends the record of a chunk.
pub(super) fn encode<W: Word>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<()> {
    let EncodeScratch { tiles, window, huffman, lzss: buffers, numbers, elements: memory, .. } = scratch;
    let elements = gather::<W>(geometry, source, tiles, window, memory)?;
    let bytes = lzss::bytes_of(elements);
    let of_lzss = options.tries_lzss(size_of::<W>()).then(|| {
        let sample = sample_of(tiles, elements, options.level);
        let model = ChunkModel {
            options,
            entropy_coded: options.coder != Coder::Lzss,
            element_bytes: size_of::<W>(),
            sampled: sample.len(),
            elements: elements.len(),
        };
        model.estimate(&lzss::bytes_of(&sample), buffers)
    });
    let start = out.len();
    if let (Coder::Lzss | Coder::LzssHuffman, Some(LzssEstimate { choice, .. })) = (options.coder, of_lzss) {
        let huffman = (options.coder == Coder::LzssHuffman).then_some(huffman);
        lzss::encode(header, chunk, &choice, &bytes, (buffers, huffman), out);
        return Ok(());
    }
    numbers::encode(header, geometry.axes(), chunk, (tiles, elements), (numbers, huffman), out);
    let length = out.len() - start;
    if let Some(LzssEstimate { choice, expected, .. }) = of_lzss
        && CoderOptions::is_promising(expected, length as u64)
    {
        lzss::encode(header, chunk, &choice, &bytes, (buffers, Some(huffman)), out);
        if out.len() - start - length < length {
            out.drain(start..start + length);
        } else {
            out.truncate(start + length);
        }
    }
    Ok(())
}

/// Returns the elements of the tiles in a chunk's sample for LZSS of this level.
fn sample_of<W: Word>(tiles: &[Tile], elements: &[W], level: u8) -> Vec<W> {
    let lengths: Vec<usize> = tiles.iter().map(Tile::len).collect();
    let mut sample = Vec::new();
    for range in lzss::sample_tiles(&lengths, size_of::<W>(), level) {
        let from: usize = lengths[..range.start].iter().sum();
        let count: usize = lengths[range].iter().sum();
        sample.extend_from_slice(&elements[from..from + count]);
    }
    sample
}

/// Returns the elements of the chunk's tiles in tile order: a slice of the window if they are contiguous there, or else
/// copied to `memory`.
fn gather<'m, W: Word>(
    geometry: &Geometry,
    source: &'m dyn ElementSource,
    tiles: &[Tile],
    buffer: &'m mut Vec<u8>,
    memory: &'m mut Vec<u64>,
) -> Result<&'m [W]> {
    let runs = || runs_of_rows(tiles);
    if runs().count() == 1 {
        let window = source.window(geometry, tiles, buffer)?;
        return Ok(match window.whole(tiles) {
            Some(elements) => elements,
            None => {
                let elements = words_in(memory, tiles.iter().map(Tile::len).sum());
                gather_run(&window, tiles, elements);
                elements
            }
        });
    }
    let elements = words_in(memory, tiles.iter().map(Tile::len).sum());
    let mut rest = &mut *elements;
    for run in runs() {
        let window = source.window(geometry, run, buffer)?;
        rest = gather_run(&window, run, rest);
    }
    Ok(elements)
}

/// Copies the elements of tiles to the front of `out`; returns the rest.
fn gather_run<'o, W: Word>(window: &Window, tiles: &[Tile], out: &'o mut [W]) -> &'o mut [W] {
    tiles.iter().fold(out, |out, tile| {
        let (these, others) = out.split_at_mut(tile.len());
        window.gather(tile, these);
        others
    })
}
