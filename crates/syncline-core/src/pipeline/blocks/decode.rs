//! The record of blocks back to elements.

use std::ops::Range;

use super::anchors;
use super::block::{Block, parts_of};
use super::encode::LANES_BITS;
use super::masks::patterns_of;
use super::plan::{PLAN_BYTES, Plan};
use super::quantizer::Quantizer;
use super::units::{MOST_LANES_LOG2, Units};
use crate::bound::Pipeline;
use crate::container::{Sections, SparseList};
use crate::contexts::PackedReader;
use crate::contexts::lanes::{Decoder, SlotTables};
use crate::contexts::table::Tables;
use crate::error::Result;
use crate::geometry::Tile;
use crate::pipeline::context::Context;
use crate::pipeline::destination::Tiles;
use crate::pipeline::elements::Elements;
use crate::pipeline::scratch::DecodeScratch;
use crate::quantize::Real;

/// Decodes the blocks that `sink` needs from the payload of a chunk of blocks.
///
/// # Errors
/// Damage, or the sink's.
pub(in super::super) fn decode<T: Real, K: Tiles + ?Sized>(
    context: &Context,
    payload: &[u8],
    scratch: &mut DecodeScratch,
    sink: &mut K,
) -> Result<()> {
    let chunk = Chunk::parse(context, payload)?;
    let DecodeScratch { block: kept, slots, .. } = scratch;
    slots.prepare(&chunk.tables);
    let quantizer = Quantizer::<T>::new(context.header);
    let mut elements = Elements::new(context.header);
    let patterns = patterns_of(&quantizer.stored.values_of(&context.header.patterns));
    let mut block = kept.take::<Block<T>>().unwrap_or_default();
    let mut x = Vec::new();
    let mut anchors = PackedReader::new(chunk.anchors);
    let (mut position, mut unit, mut word, mut first_anchor) = (0, 0, 0, 0);
    let damaged = || context.corrupt("a block is damaged");
    for (tile, &units) in context.geometry.chunk(context.chunk).zip(&chunk.units) {
        block.begin(tile.extent, chunk.plan);
        let sizes = chunk.sizes.get(unit..unit + units.count()).ok_or_else(damaged)?;
        let bytes: usize = sizes.iter().map(|&size| size as usize * 2).sum();
        let words = chunk.words.get(word..word + bytes).ok_or_else(damaged)?;
        // The anchors of a block follow from those before.
        let mut read = std::mem::take(&mut block.anchors);
        anchors::read(&mut anchors, block.anchor_count(), &mut first_anchor, &mut read).ok_or_else(damaged)?;
        block.anchors = read;
        if sink.needs(&tile) {
            let is_needed = |part| block.needs_part(part, &tile, |tile| sink.needs(tile));
            let needed: Vec<bool> = (0..block.part_count()).map(is_needed).collect();
            chunk.read_codes(&mut block, (&quantizer, slots), words, (units, sizes, &needed)).ok_or_else(damaged)?;
            x.resize(tile.len(), T::from_bits(0));
            block.reconstruct(&quantizer, &mut x);
            if let Some(range) = &quantizer.range {
                range.clamp(&mut x);
            }
            block.restore_masked(&patterns, &mut x).ok_or_else(damaged)?;
            chunk.verbatim.restore(&mut x, position, &elements.stored);
            sink.skip_to(&tile);
            elements.put(&x, sink)?;
        }
        position += tile.len() as u32;
        unit += sizes.len();
        word += bytes;
    }
    if unit != chunk.sizes.len() || word != chunk.words.len() || !anchors.is_finished() {
        return Err(context.corrupt("it has more units than blocks"));
    }
    kept.keep(block);
    Ok(())
}

/// Returns the bytes of the section of words, from its start, with the units that some elements of a chunk need. The
/// sections before it must be there.
///
/// # Errors
/// Damage.
pub(in super::super) fn bytes_of_units<T: Real>(
    context: &Context,
    payload: &[u8],
    needs: &dyn Fn(&Tile) -> bool,
) -> Result<Vec<Range<usize>>> {
    let chunk = Chunk::parse(context, payload)?;
    let mut block = Block::<T>::default();
    let (mut ranges, mut sizes, mut at) = (Vec::new(), chunk.sizes.iter(), 0);
    for (tile, units) in context.geometry.chunk(context.chunk).zip(&chunk.units) {
        block.begin(tile.extent, chunk.plan);
        for (unit, &size) in (0..units.count()).zip(&mut sizes) {
            let range = at..at + size as usize * 2;
            at = range.end;
            let [part, _] = units.place(unit);
            if needs(&tile) && block.needs_part(part, &tile, needs) {
                ranges.push(range);
            }
        }
    }
    if at != chunk.words.len() {
        return Err(context.corrupt("its units do not fill its words"));
    }
    Ok(ranges)
}

/// The sections of a chunk, read and checked.
struct Chunk<'a> {
    plan: Plan,
    tables: Tables,
    anchors: &'a [u8],
    verbatim: SparseList<'a>,
    /// The units of each block, and the number of words of each unit.
    units: Vec<Units>,
    sizes: Vec<u32>,
    words: &'a [u8],
}

impl<'a> Chunk<'a> {
    fn parse(context: &'a Context<'a>, payload: &'a [u8]) -> Result<Self> {
        let (header, place) = (context.header, context.place.as_str());
        let [parameters, anchors, verbatim, sizes, _, words, rest @ ..] = Sections::parse(payload, place)?.0;
        if header.pipeline != Pipeline::Quantized || rest.iter().any(|section| !section.is_empty()) {
            return Err(context.corrupt("it has more sections than a chunk of blocks, or is none"));
        }
        let fields = parameters.split_first_chunk::<PLAN_BYTES>();
        let parsed = fields.and_then(|(fields, tables)| {
            let plan = Plan::parse(*fields, context.geometry.axes())?;
            let mut reader = PackedReader::new(tables);
            let tables = Tables::read(&mut reader)?;
            reader.is_finished().then_some((plan, tables))
        });
        let (plan, tables) =
            parsed.ok_or_else(|| context.corrupt("unknown prediction of blocks, or damaged tables"))?;
        let elements = context.geometry.chunk_elements(context.chunk);
        let verbatim = SparseList::parse(verbatim, header.element_type.size(), elements, place)?;
        let parts = context.geometry.chunk(context.chunk).map(|tile| parts_of(tile.extent, plan));
        let (units, sizes) = read_sizes(sizes, parts).ok_or_else(|| context.corrupt("sizes of units are damaged"))?;
        Ok(Self { plan, tables, anchors, verbatim, units, sizes, words })
    }

    /// Reads the codes of the parts that are needed of a block that was begun and whose anchors are known. Those of
    /// others are 0.
    fn read_codes<T: Real>(
        &self,
        block: &mut Block<T>,
        (quantizer, slots): (&Quantizer<T>, &SlotTables),
        words: &[u8],
        (units, sizes, needed): (Units, &[u32], &[bool]),
    ) -> Option<()> {
        let mut rest = words;
        let (mut coarse, mut boxes) = (Vec::new(), Vec::with_capacity(sizes.len()));
        for (unit, &size) in sizes.iter().enumerate() {
            let (words, after) = rest.split_at_checked(size as usize * 2)?;
            rest = after;
            let [part, _] = units.place(unit);
            if !needed[part] {
                continue;
            }
            let decoder = if size > 0 { Some(Decoder::new(words, units.lanes(unit))?) } else { None };
            match part.checked_sub(1) {
                None => coarse.push(decoder),
                Some(number) => boxes.push((number, decoder)),
            }
        }
        let is_good = block.decode_coarse(coarse, slots, quantizer) && block.decode_boxes(boxes, slots);
        is_good.then_some(())
    }
}

/// Reads the units of blocks with so many parts, and their numbers of words. `None` if they are damaged.
fn read_sizes(section: &[u8], parts: impl Iterator<Item = usize>) -> Option<(Vec<Units>, Vec<u32>)> {
    let mut reader = PackedReader::new(section);
    let mut units_of = |parts: usize| {
        let lanes_log2 = reader.take(LANES_BITS)? as u8;
        (lanes_log2 <= MOST_LANES_LOG2).then(|| Units::new(lanes_log2, parts))
    };
    let units: Vec<Units> = parts.map(&mut units_of).collect::<Option<_>>()?;
    let base = reader.take(32)?;
    let width = reader.take(8).filter(|&width| width <= 32)?;
    let read = |reader: &mut PackedReader| match reader.take(width)? {
        0 => Some(0),
        above => base.checked_add(above),
    };
    let count = units.iter().map(Units::count).sum::<usize>();
    let sizes: Option<Vec<u32>> = (0..count).map(|_| read(&mut reader)).collect();
    reader.is_finished().then_some((units, sizes?))
}
