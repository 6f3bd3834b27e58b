//! LZSS chunks back to elements.

use super::parts::PlaneReader;
use super::{
    BLOCKS, DISTANCES, DISTANCES_BIT, FLAGS, FLAGS_BIT, LENGTHS, LENGTHS_BIT, LITERALS, LITERALS_BIT, PARAMETER_BYTES,
};
use crate::container::{Fields, Sections, TileSection, read_bases};
use crate::error::Result;
use crate::geometry::MAX_TILE_ELEMENTS;
use crate::lzss::{BlockCounts, LEVELS, MAX_MIN_MATCH, Params, SLACK, SymbolWidth, TokenParts, decode_block};
use crate::pipeline::{Context, TileSink};
use crate::predict::lorenzo::Word;
use crate::predict::words;

/// Memory that the decoder keeps from chunk to chunk.
#[derive(Default)]
pub(in super::super) struct DecodeBuffers {
    flags: Vec<u64>,
    flag_bytes: Vec<u8>,
    lengths: Vec<u8>,
    distances: Vec<u8>,
    literals: Vec<u8>,
    /// The elements or residuals, as words for their alignment.
    out: Vec<u64>,
}

/// The blocks of a chunk, their counts checked.
struct Chunk {
    params: Params,
    blocks: Vec<BlockCounts>,
    /// Bytes of all blocks.
    bytes: usize,
}

pub(in super::super) fn decode<W: Word, K: TileSink>(
    context: &Context,
    payload: &[u8],
    buffers: &mut DecodeBuffers,
    sink: &mut K,
) -> Result<()> {
    let place = context.place.as_str();
    let sections = Sections::parse(payload, place)?;
    let predicted = if sections.0[0].is_empty() {
        None
    } else {
        let tiles = TileSection::parse(sections.0[0], context.tile_count(), context.header.patterns.len(), place)?;
        let bases: Vec<W> = read_bases(sections.0[1], tiles.tiles.len(), place)?;
        Some((tiles, bases))
    };
    let is_live = |number: usize| predicted.as_ref().is_none_or(|(tiles, _)| !tiles.tiles[number].constant);
    let lengths = context.geometry.chunk(context.chunk).enumerate();
    let elements: usize = lengths.filter(|(number, _)| is_live(*number)).map(|(_, tile)| tile.len()).sum();
    let mut reader = BlockReader::new(context, &sections, elements * size_of::<W>(), buffers)?;
    let mut words = [W::ZERO; MAX_TILE_ELEMENTS];
    let (mut from, mut number) = (0, 0);
    while let Some((tile, wanted)) = sink.peek() {
        let live = number < context.tile_count() && is_live(number);
        let to = from + if live { tile.len() * size_of::<W>() } else { 0 };
        if wanted {
            let words = &mut words[..tile.len()];
            let coded: &[W] = bytemuck::cast_slice(reader.bytes(from, to).map_err(|what| context.corrupt(what))?);
            match &predicted {
                None if cfg!(target_endian = "little") => sink.put(coded)?,
                None => {
                    words.iter_mut().zip(coded).for_each(|(word, coded)| *word = from_little(*coded));
                    sink.put(words)?;
                }
                Some((tiles, bases)) => {
                    words.fill(W::ZERO);
                    words.iter_mut().zip(coded).for_each(|(word, coded)| *word = from_little(*coded));
                    words::decode(words, tile.extent, tiles.tiles[number].predictor, bases[number]);
                    words::unmap(words, context.header.element_type);
                    sink.put(words)?;
                }
            }
        } else {
            sink.skip();
        }
        (from, number) = (to, number + 1);
    }
    Ok(())
}

/// A word whose bytes in memory are little-endian.
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

/// Reads flags, lengths, distances and literals into the buffers.
fn read_parts(
    context: &Context,
    chunk: &Chunk,
    parameters: &[u8],
    sections: &Sections,
    buffers: &mut DecodeBuffers,
) -> Result<()> {
    let literal_bytes = parameters[3];
    let coded = u16::from_le_bytes([parameters[4], parameters[5]]);
    let Chunk { params, blocks, .. } = chunk;
    let sum = |count: fn(&BlockCounts) -> usize| blocks.iter().map(count).sum::<usize>();
    let words = sum(|b| (b.tokens as usize).div_ceil(64));
    let matches = sum(|b| b.matches as usize);
    let literals = sum(|b| (b.tokens - b.matches) as usize);
    let width = params.width.bytes();
    let reader = PlaneReader { decoder: context.decoder, place: &context.place };
    let DecodeBuffers { flag_bytes, lengths: length_bytes, distances, literals: literal_out, .. } = buffers;
    let section = |number: usize| sections.0[number];
    match (literal_bytes, width) {
        (0, _) => {
            reader.plain(section(FLAGS), words * 8, flag_bytes)?;
            reader.plain(section(LENGTHS), matches, length_bytes)?;
            reader.plain(section(DISTANCES), matches * params.distance_bytes(), distances)?;
            reader.plain(section(LITERALS), literals * width, literal_out)?;
        }
        (1, _) | (2, 2..) => {
            let mask = |bit: u32| coded >> bit;
            reader.planes::<u8>(section(FLAGS), 1, words * 8, mask(FLAGS_BIT), flag_bytes)?;
            reader.planes::<u8>(section(LENGTHS), 1, matches, mask(LENGTHS_BIT), length_bytes)?;
            let stride = params.distance_bytes();
            reader.planes::<u8>(section(DISTANCES), stride, matches, mask(DISTANCES_BIT), distances)?;
            let mask = mask(LITERALS_BIT);
            if literal_bytes == 1 {
                reader.planes::<u8>(section(LITERALS), width, literals, mask, literal_out)?;
            } else {
                reader.planes::<u16>(section(LITERALS), width / 2, literals, mask, literal_out)?;
            }
        }
        _ => return Err(context.corrupt("unknown width of LZSS literal planes")),
    }
    buffers.flags.clear();
    let flag_words = buffers.flag_bytes[..words * 8].chunks_exact(8);
    buffers.flags.extend(flag_words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))));
    Ok(())
}

/// The bytes behind the tokens of a chunk, decoded block by block as they are asked for.
pub(in super::super) struct BlockReader<'b> {
    chunk: Chunk,
    buffers: &'b mut DecodeBuffers,
    /// The block after those decoded or left out, and where its tokens stand.
    next: usize,
    flag: usize,
    literal: usize,
    matched: usize,
}

impl<'b> BlockReader<'b> {
    /// Checks sections 2 to 6 of a chunk of `bytes` bytes and reads the tokens; matches are checked as they are decoded.
    pub(in super::super) fn new(
        context: &Context,
        sections: &Sections,
        bytes: usize,
        buffers: &'b mut DecodeBuffers,
    ) -> Result<Self> {
        let chunk = Chunk::parse(context, sections.0[BLOCKS], bytes)?;
        read_parts(context, &chunk, sections.0[BLOCKS], sections, buffers)?;
        buffers.out.resize((chunk.bytes + SLACK).div_ceil(8), 0);
        Ok(Self { chunk, buffers, next: 0, flag: 0, literal: 0, matched: 0 })
    }

    /// Bytes `from..to`, which are in the chunk and not before any asked for earlier. If `from` is a multiple of 2, 4 or 8, so is their address.
    pub(in super::super) fn bytes(&mut self, from: usize, to: usize) -> std::result::Result<&[u8], &'static str> {
        let Chunk { params, blocks, bytes } = &self.chunk;
        let block_bytes = params.block_bytes();
        while self.next * block_bytes < to {
            let counts = blocks[self.next];
            let (tokens, matches) = (counts.tokens as usize, counts.matches as usize);
            let flags = tokens.div_ceil(64);
            let start = self.next * block_bytes;
            let end = (start + block_bytes).min(*bytes);
            if end > from {
                let parts = TokenParts {
                    tokens,
                    matches,
                    flags: &self.buffers.flags[self.flag..self.flag + flags],
                    literals: &self.buffers.literals[self.literal..],
                    lengths: &self.buffers.lengths[self.matched..],
                    distances: &self.buffers.distances[self.matched * params.distance_bytes()..],
                };
                decode_block(&parts, params, bytemuck::cast_slice_mut(&mut self.buffers.out), start, end)?;
            }
            self.next += 1;
            self.flag += flags;
            self.matched += matches;
            self.literal += (tokens - matches) * params.width.bytes();
        }
        Ok(&bytemuck::cast_slice::<u64, u8>(&self.buffers.out)[from..to])
    }
}
