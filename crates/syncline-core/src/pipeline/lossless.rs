//! Lossless chunks: the elements in tile order, for the coder that is asked for or the one that suits them.

use super::context::{ElementSource, runs_of_rows};
use super::options::{Coder, CoderOptions};
use super::residuals::{Residuals, words_in};
use super::scratch::EncodeScratch;
use super::{lzss, numbers};
use crate::container::Header;
use crate::error::Result;
use crate::geometry::{Geometry, Tile, Window};
use crate::huffman;
use crate::predict::word::Word;

/// Levels with which [`Coder::Auto`] tries LZSS, too; of bytes, which may be text, it does with every level.
const LONG_WINDOWS: std::ops::RangeInclusive<u8> = 5..=9;

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
    let EncodeScratch { tiles, window, huffman, lzss: buffers, numbers, elements: memory, residuals, .. } = scratch;
    let elements = gather::<W>(geometry, source, tiles, window, memory)?;
    let parts = Parts { header, axes: geometry.axes(), chunk, tiles, elements };
    let of_lzss = match options.coder {
        Coder::Lzss | Coder::LzssHuffman => {
            let choice = parts.choose_lzss(options, options.coder == Coder::LzssHuffman, buffers);
            parts.write_lzss(&choice, residuals, (buffers, huffman), out);
            return Ok(());
        }
        Coder::Auto if LONG_WINDOWS.contains(&options.level) || size_of::<W>() == 1 => {
            Some(parts.choose_lzss(options, true, buffers))
        }
        Coder::Auto | Coder::Numbers => None,
    };
    let start = out.len();
    numbers::encode(header, parts.axes, chunk, (tiles, elements), (numbers, huffman), out);
    let length = out.len() - start;
    if let Some(choice) = of_lzss
        && choice.expected < (length - length / 32) as u64
    {
        parts.write_lzss(&choice, residuals, (buffers, huffman), out);
        if out.len() - start - length < length {
            out.drain(start..start + length);
        } else {
            out.truncate(start + length);
        }
    }
    Ok(())
}

/// A chunk to be coded.
struct Parts<'a, W> {
    header: &'a Header,
    axes: usize,
    chunk: u64,
    tiles: &'a [Tile],
    elements: &'a [W],
}

impl<W: Word> Parts<'_, W> {
    /// Chooses what LZSS does, by a sample.
    fn choose_lzss(
        &self,
        options: &CoderOptions,
        entropy_coded: bool,
        buffers: &mut lzss::EncodeBuffers,
    ) -> lzss::Choice {
        let Self { tiles, elements, .. } = self;
        let lengths: Vec<usize> = tiles.iter().map(Tile::len).collect();
        let (mut some_tiles, mut sample) = (Vec::new(), Vec::new());
        for range in lzss::sample_tiles(&lengths, size_of::<W>(), options.level) {
            let from: usize = lengths[..range.start].iter().sum();
            let count: usize = lengths[range.clone()].iter().sum();
            some_tiles.extend_from_slice(&tiles[range]);
            sample.extend_from_slice(&elements[from..from + count]);
        }
        let mut memory = Vec::new();
        let residuals = Residuals::new(self.header.element_type, self.axes, &some_tiles, &sample, &mut memory);
        lzss::choose(options, entropy_coded, &sample, &residuals, elements.len(), buffers)
    }

    /// Appends a record of LZSS tokens.
    fn write_lzss(
        &self,
        choice: &lzss::Choice,
        memory: &mut Vec<u64>,
        scratch: (&mut lzss::EncodeBuffers, &mut huffman::EncodeScratch),
        out: &mut Vec<u8>,
    ) {
        let Self { header, axes, chunk, tiles, elements } = *self;
        let residuals = match choice.of_residuals {
            true => Some(Residuals::new(header.element_type, axes, tiles, elements, memory)),
            false => None,
        };
        lzss::encode(header, chunk, choice, elements, residuals.as_ref(), scratch, out);
    }
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
