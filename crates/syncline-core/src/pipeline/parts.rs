//! Reading parts of a chunk of codes: which bytes of its record some of its tiles need, and decoding them.

use std::ops::Range;

use super::chunk::{decode_chunk, decode_parts};
use super::context::Context;
use super::destination::Destination;
use super::scratch::DecodeScratch;
use super::{blocks, lossy};
use crate::array::ElementType;
use crate::bound::Pipeline;
use crate::container::{
    ChunkKind, Header, LONGEST_WITHOUT_PIECES, Pieces, RECORD_HEAD_LEN, RECORD_HEADER_LEN, parse_unchecked,
};
use crate::error::Result;
use crate::geometry::{Geometry, Tile, TileSize};
use crate::strips::{CODES_HEADER_LEN, STRIP_LEN, codewords_at};

/// Bytes between two ranges that are read as well, so that there is one range: a request takes longer.
const SHORTEST_GAP: usize = 1 << 14;

/// A chunk, and which of its tiles are needed.
#[derive(Clone, Copy)]
pub struct NeededTiles<'a> {
    /// The header of the stream.
    pub header: &'a Header,
    /// The tiles and chunks of the array.
    pub geometry: &'a Geometry,
    /// Number of the chunk.
    pub chunk: u64,
    /// Returns whether a tile is needed.
    pub needs: &'a (dyn Fn(&Tile) -> bool + Sync),
}

impl std::fmt::Debug for NeededTiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NeededTiles").field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

impl NeededTiles<'_> {
    /// Returns whether reading parts of a record of `len` bytes makes sense: no more than half of the tiles are needed,
    /// and the record is neither short nor longer than the chunk's elements.
    pub fn are_few(&self, len: usize) -> bool {
        let elements = self.geometry.chunk_elements(self.chunk) as usize * self.header.element_type.size();
        let may_have_pieces = self.header.pipeline != Pipeline::Lossless && len > LONGEST_WITHOUT_PIECES;
        if !may_have_pieces || len > elements + LONGEST_WITHOUT_PIECES {
            return false;
        }
        let (mut needed, mut all) = (0, 0);
        for tile in self.geometry.chunk(self.chunk) {
            let parts = if self.is_blocks() { blocks::boxes_of(&tile) } else { vec![tile] };
            needed += parts.iter().filter(|part| (self.needs)(part)).count();
            all += parts.len();
        }
        2 * needed <= all
    }

    fn is_blocks(&self) -> bool {
        self.geometry.tile_size() == TileSize::Block
    }

    fn context(&self) -> Context<'_> {
        Context {
            header: self.header,
            geometry: self.geometry,
            chunk: self.chunk,
            place: format!("chunk {}", self.chunk),
        }
    }

    /// Returns the bytes that a record of `len` bytes usually has at most before its codewords: the tiles and their
    /// bases, the bits of each strip, codebooks, and checksums; or tables, anchors, sizes of units, and checksums.
    fn usual_front(&self, len: usize) -> usize {
        if self.is_blocks() {
            return 4096 + len / 256;
        }
        let tiles = self.context().tile_count();
        let strips = tiles * (self.geometry.unclipped_len() as usize).div_ceil(STRIP_LEN);
        2048 + 3 * tiles + strips * 13 / 8 + len / 1024
    }
}

/// The record of a chunk of which only some bytes are known.
#[derive(Debug)]
pub struct PartialRecord {
    /// All bytes; 0 where they are not known.
    bytes: Vec<u8>,
    /// What is known: in ascending order, with gaps between.
    known: Vec<Range<usize>>,
}

/// What is known of the bytes before the codewords.
enum Front {
    /// These bytes are not known.
    Lacks(Range<usize>),
    /// The record has no pieces: it is read as a whole.
    Whole,
    /// The bytes are known and not damaged.
    Known(Pieces),
}

impl PartialRecord {
    /// Returns a record of `len` bytes, of which none is known.
    pub fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], known: Vec::new() }
    }

    /// Returns the memory for bytes that the caller now sets.
    ///
    /// # Panics
    /// They are not in the record.
    pub fn add(&mut self, range: Range<usize>) -> &mut [u8] {
        self.known.push(range.clone());
        self.known.sort_unstable_by_key(|known| known.start);
        self.known = merged(std::mem::take(&mut self.known), 0);
        &mut self.bytes[range]
    }

    /// Returns the bytes to add before [`Self::decode`], in ascending order; none if that can be called. When these are
    /// added, there may be others.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::error::Error::Corrupt) if a piece that is known is damaged.
    pub fn missing(&self, tiles: &NeededTiles<'_>) -> Result<Vec<Range<usize>>> {
        let needed = match self.front(tiles)? {
            Front::Lacks(range) => vec![range],
            Front::Whole => std::iter::once(0..self.bytes.len()).collect(),
            Front::Known(pieces) => {
                let of_codewords = self.codewords(tiles, &pieces)?;
                of_codewords.iter().map(|range| pieces.widened(range)).collect()
            }
        };
        let unknown: Vec<_> = merged(needed, 0).into_iter().flat_map(|range| self.unknown(range)).collect();
        Ok(merged(unknown, SHORTEST_GAP))
    }

    /// Decodes the tiles that are needed, which `destination` must not exceed. What is decoded was not damaged.
    ///
    /// # Errors
    /// A damaged record, or the destination's.
    pub fn decode<'s, 'm: 's>(
        &self,
        tiles: &NeededTiles<'_>,
        scratch: &mut DecodeScratch,
        destination: impl Into<Destination<'s, 'm>>,
    ) -> Result<()> {
        let context = tiles.context();
        match self.front(tiles)? {
            Front::Known(pieces) => {
                let codewords = self.codewords(tiles, &pieces)?;
                for range in codewords {
                    pieces.verify(&self.bytes, &range, &context.place)?;
                }
                decode_parts(&context, &self.bytes[RECORD_HEADER_LEN..], scratch, destination.into())
            }
            // The checksum of the whole record tells if something is not known.
            Front::Whole | Front::Lacks(_) => {
                decode_chunk(tiles.header, tiles.geometry, tiles.chunk, &self.bytes, scratch, destination)
            }
        }
    }

    fn front(&self, tiles: &NeededTiles<'_>) -> Result<Front> {
        let len = self.bytes.len();
        let lacks = |end: usize| self.unknown(0..end.min(len)).next().map(Front::Lacks);
        let usual = tiles.usual_front(len);
        if self.unknown(0..RECORD_HEAD_LEN.min(len)).next().is_some() {
            return Ok(Front::Lacks(0..usual.min(len)));
        }
        let context = tiles.context();
        let kind = parse_unchecked(&self.bytes, tiles.chunk)?.kind?;
        if kind != if tiles.is_blocks() { ChunkKind::Blocks } else { ChunkKind::Quantized } {
            return Ok(Front::Whole);
        }
        let found = Pieces::of_record(kind, &self.bytes, len, &context.place)?;
        let Some(pieces) = found else { return Ok(Front::Whole) };
        let codes = pieces.codes();
        // Words of blocks have nothing before them in their section.
        let mut front = 0..codes.start;
        if !tiles.is_blocks() {
            if self.unknown(0..(codes.start + CODES_HEADER_LEN).min(len)).next().is_some() {
                return Ok(lacks(codes.start + usual).unwrap_or(Front::Whole));
            }
            let bad = || context.corrupt("its codewords do not fit its codes");
            front.end += codewords_at(&self.bytes[codes.clone()], codes.len()).ok_or_else(bad)?;
        }
        // The checksums end behind the last piece before them.
        if let Some(unknown) = lacks(pieces.widened(&front).end.max(front.end)) {
            return Ok(unknown);
        }
        pieces.verify(&self.bytes, &front, &context.place)?;
        Ok(Front::Known(pieces))
    }

    /// Returns the bytes with the codewords of the tiles that are needed. The bytes before all codewords are known.
    fn codewords(&self, tiles: &NeededTiles<'_>, pieces: &Pieces) -> Result<Vec<Range<usize>>> {
        let (context, payload) = (tiles.context(), &self.bytes[RECORD_HEADER_LEN..]);
        let ranges = match tiles.header.element_type.computed() {
            ElementType::F32 if tiles.is_blocks() => blocks::bytes_of_units::<f32>(&context, payload, tiles.needs),
            _ if tiles.is_blocks() => blocks::bytes_of_units::<f64>(&context, payload, tiles.needs),
            ElementType::F32 => lossy::bytes_of_tiles::<f32>(&context, payload, tiles.needs),
            _ => lossy::bytes_of_tiles::<f64>(&context, payload, tiles.needs),
        }?;
        let start = pieces.codes().start;
        Ok(merged(ranges.into_iter().map(|range| start + range.start..start + range.end).collect(), 0))
    }

    /// Returns the parts of a range that are not known.
    fn unknown(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let ends = self.known.iter().map(|known| known.start).chain([usize::MAX]);
        let starts = std::iter::once(0).chain(self.known.iter().map(|known| known.end));
        let gaps = starts.zip(ends).map(move |(start, end)| start.max(range.start)..end.min(range.end));
        gaps.filter(|gap| !gap.is_empty())
    }
}

/// Merges ascending ranges with at most `gap` bytes between them.
fn merged(ranges: Vec<Range<usize>>, gap: usize) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end + gap => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
