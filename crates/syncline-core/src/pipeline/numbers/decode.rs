//! Decoding of a chunk of numbers.

use super::{BASES, BINS, MASKS, PLAN, Plan, RAW_BITS, RAW_LENGTHS, RESTS, SYMBOLS, TileState, VERBATIM};
use crate::container::{Sections, SparseList, read_bases};
use crate::error::Result;
use crate::geometry::{MAX_TILE_ELEMENTS, Tile};
use crate::huffman::{self, Stream, Symbol};
use crate::numbers::bins::{Bin, read_bins};
use crate::numbers::raw_bits::{PADDING, read_wide, window};
use crate::numbers::tuples::{MAX_SYMBOLS, expand, symbols};
use crate::pipeline::codes::{CodeBuffer, CodeReader, GROUP, read_stream};
use crate::pipeline::context::Context;
use crate::pipeline::destination::Tiles;
use crate::predict::orders;
use crate::predict::word::Word;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::simd::{self, InstructionSet, Kernel};

/// Decodes the tiles that `sink` needs.
pub(in crate::pipeline) fn decode<W: Word, K: Tiles + ?Sized>(
    context: &Context,
    payload: &[u8],
    sink: &mut K,
) -> Result<()> {
    let place = context.place.as_str();
    let sections = Sections::parse(payload, place)?;
    if sections.0[RESTS + 1..].iter().any(|section| !section.is_empty()) {
        return Err(context.corrupt("it has more sections than a chunk of numbers"));
    }
    let (plan, states) = Plan::parse(sections.0[PLAN], context.header.element_type, context.tile_count(), place)?;
    let chunk = Chunk::<W>::parse(context, &sections, plan, states)?;
    if chunk.is_constant() {
        return chunk.decode::<u8, K>(context, &sections, sink);
    }
    match symbols(chunk.bins.len(), plan.tuple, place)? {
        ..=256 => chunk.decode::<u8, K>(context, &sections, sink),
        _ => chunk.decode::<u16, K>(context, &sections, sink),
    }
}

/// A chunk of which all is read but symbols and raw bits.
struct Chunk<'a, W> {
    plan: Plan,
    states: Vec<TileState>,
    bases: Vec<W>,
    bins: Vec<Bin>,
    /// Where the raw bits of each tile start, in bytes, and the end; nothing if there are none.
    raw_starts: Vec<usize>,
    raw: &'a [u8],
    verbatim: SparseList<'a>,
}

impl<'a, W: Word> Chunk<'a, W> {
    fn parse(context: &'a Context<'_>, sections: &Sections<'a>, plan: Plan, states: Vec<TileState>) -> Result<Self> {
        let place = context.place.as_str();
        let bases = if plan.has_bases() { read_bases(sections.0[BASES], states.len(), place)? } else { Vec::new() };
        let varying = states.iter().filter(|state| !state.constant).count();
        let bins = if varying > 0 { read_bins::<W>(sections.0[BINS], place)? } else { Vec::new() };
        let raw = sections.0[RAW_BITS];
        let mut raw_starts = Vec::new();
        if !raw.is_empty() {
            let lengths: Vec<u32> = read_bases(sections.0[RAW_LENGTHS], varying, place)?;
            let mut at = 0usize;
            raw_starts.push(0);
            for length in lengths {
                // The length of the section limits the sum.
                at = at.saturating_add(length as usize);
                raw_starts.push(at);
            }
            if at.saturating_add(PADDING) != raw.len() {
                return Err(context.corrupt("the raw bits of its tiles do not add up"));
            }
        }
        let elements = context.geometry.chunk_elements(context.chunk);
        let verbatim = SparseList::parse(sections.0[VERBATIM], size_of::<W>(), elements, place)?;
        Ok(Self { plan, states, bases, bins, raw_starts, raw, verbatim })
    }

    fn is_constant(&self) -> bool {
        self.states.iter().all(|state| state.constant)
    }

    fn decode<S: Symbol, K: Tiles + ?Sized>(
        &self,
        context: &Context,
        sections: &Sections<'_>,
        sink: &mut K,
    ) -> Result<()> {
        let tiles = || context.geometry.chunk(context.chunk).zip(&self.states);
        let tuple = self.plan.tuple;
        let symbol_count =
            tiles().filter(|(_, state)| !state.constant).map(|(tile, _)| tile.len().div_ceil(tuple)).sum();
        let mask_bytes =
            tiles().filter(|(_, state)| state.mask == MaskKind::Bitmap).map(|(tile, _)| mask_len(&tile)).sum();
        let elements = context.geometry.chunk_elements(context.chunk) as usize;
        let streams = (
            parse::<S>(context, sections.0[SYMBOLS], symbol_count)?,
            parse::<u8>(context, sections.0[MASKS], mask_bytes)?,
            parse::<u16>(context, sections.0[RESTS], if self.plan.number.has_rest() { elements } else { 0 })?,
        );
        let mut buffers = (CodeBuffer::default(), CodeBuffer::default(), CodeBuffer::default());
        let mut symbols = Reader::new(streams.0.as_ref(), &mut buffers.0)?;
        let mut masks = Reader::new(streams.1.as_ref(), &mut buffers.1)?;
        let mut rests = Reader::new(streams.2.as_ref(), &mut buffers.2)?;
        let table = Table::new(&self.bins, self.plan);

        let mut words = [W::ZERO; MAX_TILE_ELEMENTS];
        let (mut symbol, mut mask_byte, mut position, mut varying) = (0, 0, 0, 0);
        let mut number = 0;
        while let Some((tile, wanted)) = sink.peek() {
            let state = self.states.get(number).ok_or_else(|| context.corrupt("it has too few tiles"))?;
            let words = &mut words[..tile.len()];
            let of_tile = if state.constant { 0 } else { tile.len().div_ceil(tuple) };
            let of_mask = if state.mask == MaskKind::Bitmap { mask_len(&tile) } else { 0 };
            if wanted {
                if state.constant {
                    words.fill(W::narrow(self.plan.center as u64));
                } else {
                    let symbols = symbols.take(symbol, of_tile)?;
                    if !self.read_codes(&table, symbols, varying, words) {
                        return Err(context.corrupt("its raw bits do not fit its codes"));
                    }
                }
                if let Some(&base) = self.bases.get(number) {
                    words[0] = base;
                    orders::restore(words, tile.extent, self.plan.predictor, W::ZERO);
                }
                let rests = if self.plan.number.has_rest() { rests.take(position, tile.len())? } else { &[] };
                self.plan.number.restore(context.header.element_type, words, rests);
                if let Some(pattern) = self.plan.pattern {
                    match state.mask {
                        MaskKind::Nothing => {}
                        MaskKind::All => words.fill(W::narrow(pattern)),
                        MaskKind::Bitmap => {
                            let mask = TileMask::from_bytes(masks.take(mask_byte, of_mask)?, tile.extent);
                            mask.ones().filter(|&i| i < tile.len()).for_each(|i| words[i] = W::narrow(pattern));
                        }
                    }
                }
                for value in self.verbatim.within(position as u32, (position + tile.len()) as u32) {
                    let (at, bytes) = self.verbatim.value(value);
                    let bits = bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                    words[at as usize - position] = W::narrow(bits);
                }
                sink.put(words)?;
            } else {
                sink.skip();
            }
            symbol += of_tile;
            mask_byte += of_mask;
            varying += usize::from(!state.constant);
            position += tile.len();
            number += 1;
        }
        symbols.finish()?;
        masks.finish()?;
        rests.finish()
    }

    /// Reads the codes of the tile that is number `varying` of those that are not constant. Returns whether they have
    /// the raw bits that they should.
    fn read_codes<S: Symbol>(&self, table: &Table<W>, symbols: &[S], varying: usize, words: &mut [W]) -> bool {
        let (from, to) = match self.raw_starts.get(varying..varying + 2) {
            Some(&[from, to]) => (from, to),
            _ => (0, 0),
        };
        let raw = if self.raw.is_empty() { &[0; PADDING] } else { &self.raw[from..] };
        let codes = Codes { table, symbols, raw, words };
        // As many codes as fit are read from a window of 57 bits.
        let bits = match (self.plan.tuple, table.widest) {
            (1, ..=7) => simd::run(Narrow::<S, W, 1, 8>(codes)),
            (1, ..=14) => simd::run(Narrow::<S, W, 1, 4>(codes)),
            (1, ..=28) => simd::run(Narrow::<S, W, 1, 2>(codes)),
            (1, ..=57) => simd::run(Narrow::<S, W, 1, 1>(codes)),
            (2, ..=14) => simd::run(Narrow::<S, W, 2, 4>(codes)),
            (2, ..=28) => simd::run(Narrow::<S, W, 2, 2>(codes)),
            (4, ..=14) => simd::run(Narrow::<S, W, 4, 4>(codes)),
            (4, ..=28) => simd::run(Narrow::<S, W, 4, 2>(codes)),
            (8, ..=28) => simd::run(Narrow::<S, W, 8, 2>(codes)),
            (tuple, _) => simd::run(Any(codes, tuple)),
        };
        bits.div_ceil(8) == to - from
    }
}

/// Returns the bytes of the bitmap of a tile.
fn mask_len(tile: &Tile) -> usize {
    tile.len().div_ceil(8)
}

/// Reads the Huffman stream of a section, or nothing if it must have no symbols.
fn parse<'a, S: Symbol>(context: &Context, section: &'a [u8], count: usize) -> Result<Option<Stream<'a, S>>> {
    (count > 0).then(|| read_stream(context, section, count)).transpose()
}

/// Reads symbols of a stream in order, or of none.
struct Reader<'b, 's, 'a, S>(Option<CodeReader<'b, 's, 'a, S>>);

impl<'b, 's, 'a, S: Symbol> Reader<'b, 's, 'a, S> {
    fn new(stream: Option<&'s Stream<'a, S>>, buffer: &'b mut CodeBuffer<S>) -> Result<Self> {
        Ok(Self(match stream {
            Some(stream) => Some(CodeReader::new(stream, stream.decoder(huffman::Decoder::Auto, &[])?, buffer)?),
            None => None,
        }))
    }

    /// Returns symbols, all of which must be in the stream.
    #[inline]
    fn take(&mut self, first: usize, count: usize) -> Result<&[S]> {
        let Some(reader) = self.0.as_mut().filter(|_| count > 0) else { return Ok(&[]) };
        let group = first / GROUP;
        let groups = (first + count).div_ceil(GROUP) - group;
        Ok(&reader.groups(group, groups)?[first - group * GROUP..][..count])
    }

    fn finish(self) -> Result<()> {
        self.0.map_or(Ok(()), CodeReader::finish)
    }
}

/// What a symbol stands for.
struct Table<W> {
    /// The bins of each symbol; of symbols that do not exist, the first one.
    of_symbol: Box<[[u8; 8]; MAX_SYMBOLS]>,
    /// Smallest code plus center, raw bits, and shift of each bin.
    lows: [W; 256],
    widths: [u8; 256],
    shifts: [u8; 256],
    /// Most raw bits of a code; [`u8::MAX`] if there are shifts.
    widest: u8,
}

impl<W: Word> Table<W> {
    fn new(bins: &[Bin], plan: Plan) -> Self {
        let mut of_symbol = if bins.is_empty() { Vec::new() } else { expand(bins.len(), plan.tuple) };
        of_symbol.resize(MAX_SYMBOLS, [0; 8]);
        let of_symbol = of_symbol.try_into().expect("as many symbols");
        let mut table = Self { of_symbol, lows: [W::ZERO; 256], widths: [0; 256], shifts: [0; 256], widest: 0 };
        for (place, bin) in bins.iter().enumerate() {
            table.lows[place] = W::narrow(bin.low.wrapping_add(plan.center) as u64);
            (table.widths[place], table.shifts[place]) = (bin.width, bin.shift);
            table.widest = table.widest.max(if bin.shift == 0 { bin.width } else { u8::MAX });
        }
        table
    }
}

/// The codes of a tile while they are read.
struct Codes<'a, S, W> {
    table: &'a Table<W>,
    symbols: &'a [S],
    raw: &'a [u8],
    words: &'a mut [W],
}

impl<S: Symbol, W: Word> Codes<'_, S, W> {
    /// Reads the codes in the simplest way, with raw bits from bit `at` on. Returns where their raw bits end.
    #[inline(always)]
    fn read(self, mut at: usize, tuple: usize) -> usize {
        let Table { of_symbol, lows, widths, shifts, .. } = self.table;
        for (words, symbol) in self.words.chunks_mut(tuple).zip(self.symbols) {
            for (word, &bin) in words.iter_mut().zip(&of_symbol[symbol.index() % MAX_SYMBOLS]) {
                let bin = usize::from(bin);
                let raw = read_wide(self.raw, at, widths[bin].into());
                *word = W::narrow(raw << (shifts[bin] & 63)).plus(lows[bin]);
                at += usize::from(widths[bin]);
            }
        }
        at
    }
}

/// Reads codes of any bins, and of this many bins a symbol.
struct Any<'a, S, W>(Codes<'a, S, W>, usize);

impl<S: Symbol, W: Word> Kernel for Any<'_, S, W> {
    type Output = usize;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> usize {
        self.0.read(0, self.1)
    }
}

/// Reads codes of `TUPLE` bins a symbol without shifts, of which `WINDOW` in a row have at most 57 raw bits together.
struct Narrow<'a, S, W, const TUPLE: usize, const WINDOW: usize>(Codes<'a, S, W>);

impl<S: Symbol, W: Word, const TUPLE: usize, const WINDOW: usize> Kernel for Narrow<'_, S, W, TUPLE, WINDOW> {
    type Output = usize;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> usize {
        let Codes { table, symbols, raw, words } = self.0;
        let Table { of_symbol, lows, widths, .. } = table;
        // Whole symbols, two at least where a window has two codes, and what is left.
        let step = if TUPLE > WINDOW { TUPLE } else { WINDOW };
        let whole = words.len() / step * step;
        let (front, back) = words.split_at_mut(whole);
        let (front_symbols, back_symbols) = symbols.split_at(whole / TUPLE);
        let mut at = 0;
        for (words, symbols) in front.chunks_exact_mut(step).zip(front_symbols.chunks_exact(step / TUPLE)) {
            let mut of_step = [0u8; 8];
            for (slots, symbol) in of_step.chunks_exact_mut(TUPLE).zip(symbols) {
                slots.copy_from_slice(&of_symbol[symbol.index() % MAX_SYMBOLS][..TUPLE]);
            }
            for (words, of_window) in words.chunks_exact_mut(WINDOW).zip(of_step.chunks_exact(WINDOW)) {
                let mut window = window(raw, at);
                for (word, &bin) in words.iter_mut().zip(of_window) {
                    let width = widths[usize::from(bin)] & 63;
                    *word = W::narrow(window & !(u64::MAX << width)).plus(lows[usize::from(bin)]);
                    window >>= width;
                    at += usize::from(width);
                }
            }
        }
        Codes { table, symbols: back_symbols, raw, words: back }.read(at, TUPLE)
    }
}
