//! LZSS chunks back to elements.

use super::token_sections::{PaddedBytes, PlaneReader};
use super::{
    BLOCKS, DISTANCES, DISTANCES_BIT, FLAGS, FLAGS_BIT, LENGTHS, LENGTHS_BIT, LITERALS, LITERALS_BIT, PARAMETER_BYTES,
};
use crate::bits::fields::Fields;
use crate::container::{RecordChecksum, Sections};
use crate::error::Result;
use crate::geometry::MAX_TILE_ELEMENTS;
use crate::lzss::{
    BlockCounts, LEVELS, MAX_MIN_MATCH, Params, SLACK, SymbolWidth, TokenParts, decode_block_with_prefetch,
    decode_short_window_block,
};
use crate::mem::prefetch::PrefetchTargets;
use crate::mem::uninit::{UninitBytes, Written};
use crate::pipeline::context::Context;
use crate::pipeline::destination::Tiles;
use crate::predict::word::Word;

/// Offset in the parameters of the number of bytes of a symbol in the literals' planes; 0 if there are no planes.
const LITERAL_BYTES_AT: usize = 3;

/// Memory that the decoder keeps from chunk to chunk.
#[derive(Debug, Default)]
pub(in super::super) struct DecodeBuffers {
    tokens: TokenBuffers,
    /// The elements that may be requested next, as words because of their alignment.
    out: Vec<u64>,
}

/// Memory for tokens that are entropy-coded, or that are not followed by enough readable bytes.
#[derive(Debug, Default)]
struct TokenBuffers {
    flags: Vec<u64>,
    flag_bytes: Vec<u8>,
    lengths: Vec<u8>,
    distances: Vec<u8>,
    literals: Vec<u8>,
}

/// The blocks of a chunk, their counts checked.
struct Chunk {
    params: Params,
    blocks: Vec<BlockCounts>,
    /// Bytes of all blocks.
    bytes: usize,
}

/// Decodes a payload to `sink`. Verifies the record's checksum first if the tokens are entropy-coded. Otherwise hashes
/// the payload while blocks are decoded; the caller must verify the checksum before the output is used.
pub(in super::super) fn decode<W: Word, K: Tiles + ?Sized>(
    context: &Context,
    (payload, checksum, buffers): (&[u8], &mut RecordChecksum, &mut DecodeBuffers),
    sink: &mut K,
) -> Result<()> {
    let place = context.place.as_str();
    let sections = Sections::parse(payload, place)?;
    if sections.0[BLOCKS].get(LITERAL_BYTES_AT) != Some(&0) {
        checksum.verify()?;
    }
    let mut unused = sections.0[..BLOCKS].iter().chain(&sections.0[LITERALS + 1..]);
    if unused.any(|section| !section.is_empty()) {
        return Err(context.corrupt("it has sections that LZSS chunks do not have"));
    }
    let bytes = context.geometry.chunk_elements(context.chunk) as usize * size_of::<W>();
    let mut reader = BlockReader::new(context, &sections, bytes, buffers)?;
    let mut from = 0;
    while let Some((tile, wanted)) = sink.peek() {
        if let Some(block) = reader.near_block_at(from) {
            let read = Some(checksum.next());
            if let Some(filled) = sink.fill(block, SLACK, |place| reader.decode_next(place, read)) {
                filled.map_err(|what| context.corrupt(what))?;
                from += block;
                checksum.keep_up(from, bytes);
                continue;
            }
        }
        let to = from + tile.len() * size_of::<W>();
        if wanted {
            let ahead = PrefetchTargets { read: Some(checksum.next()), written: None };
            let coded = reader.bytes(from, to, ahead).map_err(|what| context.corrupt(what))?;
            let coded: &[W] = bytemuck::cast_slice(coded);
            if cfg!(target_endian = "little") {
                sink.put(coded)?;
            } else {
                let words = &mut [W::ZERO; MAX_TILE_ELEMENTS][..tile.len()];
                words.iter_mut().zip(coded).for_each(|(word, coded)| *word = from_little(*coded));
                sink.put(words)?;
            }
        } else {
            sink.skip();
        }
        checksum.keep_up(to, bytes);
        from = to;
    }
    Ok(())
}

/// Converts a word that was loaded from little-endian bytes.
#[inline(always)]
fn from_little<W: Word>(word: W) -> W {
    if cfg!(target_endian = "little") {
        return word;
    }
    W::narrow(word.widen().swap_bytes() >> (64 - W::BITS))
}

impl Chunk {
    /// Reads the parameters and the blocks of a chunk of `bytes` bytes.
    fn parse(context: &Context, section: &[u8], bytes: usize) -> Result<Self> {
        let mut fields = Fields::new(section, &context.place);
        let [width, level, min_match] = [fields.u8()?, fields.u8()?, fields.u8()?];
        let width = SymbolWidth::from_bytes(width.into());
        let Some(width) = width.filter(|_| LEVELS.contains(&level) && (1..=MAX_MIN_MATCH).contains(&min_match)) else {
            return Err(context.corrupt("impossible LZSS parameters"));
        };
        fields.take(PARAMETER_BYTES - 3)?;
        let params = Params { width, level, min_match };
        let bytes = bytes.next_multiple_of(width.bytes());
        let blocks = fields.rest();
        if blocks.len() != bytes.div_ceil(params.block_bytes()) * 8 {
            return Err(context.corrupt("its LZSS blocks do not fit its elements"));
        }
        let mut parsed = Vec::with_capacity(blocks.len() / 8);
        for (number, block) in blocks.chunks_exact(8).enumerate() {
            let mut fields = Fields::new(block, &context.place);
            let counts = BlockCounts { tokens: fields.u32()?, matches: fields.u32()? };
            let symbols = (bytes - number * params.block_bytes()).min(params.block_bytes()) / width.bytes();
            if counts.matches > counts.tokens || counts.tokens as usize > symbols {
                return Err(context.corrupt("impossible LZSS token counts"));
            }
            parsed.push(counts);
        }
        Ok(Self { params, blocks: parsed, bytes })
    }
}

/// The tokens of a chunk, each part followed by [`SLACK`] bytes.
struct Parts<'b> {
    flags: &'b [u64],
    lengths: PaddedBytes<'b>,
    distances: PaddedBytes<'b>,
    literals: PaddedBytes<'b>,
}

/// Finds flags, lengths, distances, and literals. Decodes those that are entropy-coded to the buffers.
fn read_parts<'b>(
    context: &Context,
    chunk: &Chunk,
    sections: &Sections<'b>,
    buffers: &'b mut TokenBuffers,
) -> Result<Parts<'b>> {
    let parameters = sections.0[BLOCKS];
    let literal_bytes = parameters[LITERAL_BYTES_AT];
    let coded = u16::from_le_bytes([parameters[4], parameters[5]]);
    let Chunk { params, blocks, .. } = chunk;
    let sum = |count: fn(&BlockCounts) -> usize| blocks.iter().map(count).sum::<usize>();
    let words = sum(|b| (b.tokens as usize).div_ceil(64));
    let matches = sum(|b| b.matches as usize);
    let literals = sum(|b| (b.tokens - b.matches) as usize);
    let width = params.width.bytes();
    let reader = PlaneReader { context };
    let TokenBuffers { flags, flag_bytes, lengths, distances, literals: literal_out } = buffers;
    let (bytes, parts) = match (literal_bytes, width) {
        (0, _) => {
            // No block has more symbols than bytes, nor more distances than symbols.
            let most = 2 * params.block_bytes();
            let plain = |number: usize, length, buffer| {
                reader.plain(sections.0[number], sections.1[number], (length, most), buffer)
            };
            let lengths = plain(LENGTHS, matches, lengths)?;
            let distances = plain(DISTANCES, matches * params.distance_bytes(), distances)?;
            let literals = plain(LITERALS, literals * width, literal_out)?;
            reader.check_length(sections.0[FLAGS], words * 8)?;
            (sections.0[FLAGS], Parts { flags: &[], lengths, distances, literals })
        }
        (1, _) | (2, 2..) => {
            let mask = |bit: u32| coded >> bit;
            let section = |number: usize| sections.0[number];
            reader.planes::<u8>(section(FLAGS), 1, words * 8, mask(FLAGS_BIT), flag_bytes)?;
            reader.planes::<u8>(section(LENGTHS), 1, matches, mask(LENGTHS_BIT), lengths)?;
            let stride = params.distance_bytes();
            reader.planes::<u8>(section(DISTANCES), stride, matches, mask(DISTANCES_BIT), distances)?;
            let mask = mask(LITERALS_BIT);
            if literal_bytes == 1 {
                reader.planes::<u8>(section(LITERALS), width, literals, mask, literal_out)?;
            } else {
                reader.planes::<u16>(section(LITERALS), width / 2, literals, mask, literal_out)?;
            }
            let [lengths, distances, literals] =
                [&*lengths, &*distances, &*literal_out].map(|part| part.as_slice().into());
            (&flag_bytes[..words * 8], Parts { flags: &[], lengths, distances, literals })
        }
        _ => return Err(context.corrupt("unknown width of LZSS literal planes")),
    };
    // Flags are read several times, so those that are not decoded to memory of our own are copied: bytes of a caller
    // that changes them meanwhile must not lead to other numbers of matches.
    flags.clear();
    flags.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
    Ok(Parts { flags, ..parts })
}

/// Number of blocks that are held: few, so that they are still in the L1 cache when they are requested.
const HELD_BLOCKS: usize = 2;

/// Reads the decoded bytes of a chunk's tokens. Blocks are decoded on request.
pub(in super::super) struct BlockReader<'b> {
    chunk: Chunk,
    parts: Parts<'b>,
    /// Decoded bytes from byte `base` of the chunk on, a multiple of 8, and [`SLACK`].
    out: &'b mut Vec<u64>,
    base: usize,
    /// The next block to decode, and the position of its tokens.
    next: usize,
    flag: usize,
    literal: usize,
    matched: usize,
}

impl<'b> BlockReader<'b> {
    /// Checks sections 2 to 6 of a chunk of `bytes` bytes and reads the tokens; matches are checked as they are
    /// decoded.
    pub(in super::super) fn new(
        context: &Context,
        sections: &Sections<'b>,
        bytes: usize,
        buffers: &'b mut DecodeBuffers,
    ) -> Result<Self> {
        let chunk = Chunk::parse(context, sections.0[BLOCKS], bytes)?;
        let parts = read_parts(context, &chunk, sections, &mut buffers.tokens)?;
        Ok(Self { chunk, parts, out: &mut buffers.out, base: 0, next: 0, flag: 0, literal: 0, matched: 0 })
    }

    /// Returns bytes `from..to` of the chunk. Calls must be in ascending order. If `from` is a multiple of 2, 4 or 8,
    /// the address is one, too. Each block that is decoded prefetches `ahead`.
    pub(in super::super) fn bytes(
        &mut self,
        from: usize,
        to: usize,
        ahead: PrefetchTargets,
    ) -> std::result::Result<&[u8], &'static str> {
        let block_bytes = self.chunk.params.block_bytes();
        while self.next * block_bytes < to {
            let start = self.next * block_bytes;
            let end = (start + block_bytes).min(self.chunk.bytes);
            if end > from {
                self.make_room(from.min(start), start, end);
                let (place, parts) = (start - self.base..end - self.base, self.next_parts());
                let out = bytemuck::cast_slice_mut(self.out);
                decode_block_with_prefetch(&parts, &self.chunk.params, out, place, ahead)?;
            }
            self.leave_next();
        }
        let bytes = bytemuck::cast_slice::<u64, u8>(self.out);
        // No bytes, but where any would be aligned.
        Ok(if from == to { &bytes[..0] } else { &bytes[from - self.base..to - self.base] })
    }

    /// Returns the number of bytes of the block that starts at byte `from`, if it is the next one, whole, and of a
    /// level up to 4.
    fn near_block_at(&self, from: usize) -> Option<usize> {
        let bytes = self.chunk.params.block_bytes();
        let is_next = self.next * bytes == from && from + bytes <= self.chunk.bytes;
        (is_next && self.chunk.params.distance_bytes() == 1).then_some(bytes)
    }

    /// Decodes that block to another place. Prefetches `read` and the place of the block after it.
    fn decode_next<'m>(
        &mut self,
        place: UninitBytes<'m>,
        read: Option<*const u8>,
    ) -> std::result::Result<Written<'m>, &'static str> {
        let params = self.chunk.params;
        let ahead = PrefetchTargets { read, written: Some(place.address().wrapping_add(params.block_bytes())) };
        let written = decode_short_window_block(&self.next_parts(), &params, place, ahead)?;
        self.leave_next();
        Ok(written)
    }

    /// Returns the tokens of the next block, which must exist.
    fn next_parts(&self) -> TokenParts<'b> {
        let BlockCounts { tokens, matches } = self.chunk.blocks[self.next];
        let (tokens, matches) = (tokens as usize, matches as usize);
        let (width, stride) = (self.chunk.params.width.bytes(), self.chunk.params.distance_bytes());
        TokenParts {
            tokens,
            matches,
            flags: &self.parts.flags[self.flag..self.flag + tokens.div_ceil(64)],
            literals: self.parts.literals.piece(self.literal, (tokens - matches) * width),
            lengths: self.parts.lengths.piece(self.matched, matches),
            distances: self.parts.distances.piece(self.matched * stride, matches * stride),
        }
    }

    /// Goes on to the block after it.
    fn leave_next(&mut self) {
        let BlockCounts { tokens, matches } = self.chunk.blocks[self.next];
        let (tokens, matches) = (tokens as usize, matches as usize);
        self.next += 1;
        self.flag += tokens.div_ceil(64);
        self.matched += matches;
        self.literal += (tokens - matches) * self.chunk.params.width.bytes();
    }

    /// Makes room for bytes `start..end`. Bytes before `from` are removed if necessary.
    fn make_room(&mut self, from: usize, start: usize, end: usize) {
        let needed = |base: usize| (end - base + SLACK).div_ceil(8);
        if needed(self.base) > self.out.len() {
            let base = from / 8 * 8;
            // Blocks that were skipped, and so are not in memory, are before `from`.
            let there = base.max(self.base)..start.max(self.base);
            if !there.is_empty() {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(self.out);
                bytes.copy_within(there.start - self.base..there.end - self.base, 0);
            }
            self.base = base;
            let held = HELD_BLOCKS * self.chunk.params.block_bytes() + SLACK;
            let length = needed(base).max(held.div_ceil(8));
            if length > self.out.len() {
                self.out.resize(length, 0);
            }
        }
    }
}
