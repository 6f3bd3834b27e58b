//! Elements of a chunk to the record of blocks.

use super::block::Block;
use super::masks::{self, patterns_of};
use super::plan::Plan;
use super::quantizer::Quantizer;
use super::units::{MOST_LANES_LOG2, Units};
use super::{anchors, sample};
use crate::bound::{Bound, ErrorSummary};
use crate::container::{ChunkKind, Header, RecordBuilder, SectionWriter, write_sparse};
use crate::contexts::lanes::Encoder;
use crate::contexts::segments::PartEvents;
use crate::contexts::table::Tables;
use crate::contexts::{EventCounts, PackedWriter};
use crate::error::Result;
use crate::geometry::Geometry;
use crate::pipeline::CoderOptions;
use crate::pipeline::context::{ElementSource, runs_of_rows};
use crate::pipeline::elements::Elements;
use crate::pipeline::scratch::EncodeScratch;
use crate::quantize::Real;
use crate::quantize::mask::TileMask;

/// What the blocks of a chunk become besides their units.
#[derive(Default)]
struct Parts {
    anchors: PackedWriter,
    verbatim: Vec<u32>,
    verbatim_bytes: Vec<u8>,
}

/// Appends the record of a chunk of blocks. Returns `None` if it has elements that no value stands for.
pub(in super::super) fn encode<T: Real>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<Option<ErrorSummary>> {
    let quantizer = Quantizer::<T>::new(header);
    let memory = scratch.block.take().unwrap_or_default();
    let patterns = quantizer.stored.values_of(&header.patterns);
    let elements = Elements::new(header);
    let mut coder = Coder { patterns, quantizer, elements, memory };
    // Interpolated values are no multiples of the step, as those of rewritable streams and of a lattice have to be.
    let on_grid = !options.interpolates || header.step > 2.0 * header.computed_bound();
    let plan = sample::choose(&mut coder, on_grid, geometry, source, (&scratch.tiles, &mut scratch.window))?;
    coder.memory.counts.clear();
    let mut parts = Parts::default();
    let (mut summary, mut position, mut first_anchor) = (ErrorSummary::default(), 0, 0);
    let mut x = Vec::new();
    for run in runs_of_rows(&scratch.tiles) {
        let window = source.window(geometry, run, &mut scratch.window)?;
        for tile in run {
            x.resize(tile.len(), T::from_bits(0));
            coder.elements.gather(&window, tile, &mut x);
            coder.encode(&x, tile.extent, plan);
            if matches!(header.bound, Bound::Psnr(_)) {
                coder.measure(&x, &mut summary);
            }
            parts.take(&coder, &x, position, &mut first_anchor);
            position += tile.len() as u32;
            coder.memory.block.keep_parts();
        }
    }
    parts.write(&mut coder.memory, (chunk, plan), out);
    coder.memory.block.forget_parts();
    scratch.block.keep(coder.memory);
    Ok((!coder.elements.any_lost).then_some(summary))
}

/// Codes blocks one after another.
pub(super) struct Coder<T: Real> {
    /// The values of fill patterns.
    patterns: Vec<u64>,
    quantizer: Quantizer<T>,
    pub elements: Elements<T>,
    pub memory: Memory<T>,
}

/// What is kept from chunk to chunk.
pub(super) struct Memory<T> {
    pub block: Block<T>,
    /// The events of all blocks.
    pub counts: EventCounts,
    /// The masks of the elements of the block: 0, or the number of the pattern plus 1.
    masks: Vec<u8>,
    encoder: Encoder,
}

impl<T: Real> Default for Memory<T> {
    fn default() -> Self {
        let (block, counts) = (Block::default(), EventCounts::default());
        Self { block, counts, masks: Vec::new(), encoder: Encoder::default() }
    }
}

/// So many zeros of a block have no mask: if they are not kept by codes, they are verbatim.
const FEW_ZEROS: usize = 8;

impl<T: Real> Coder<T> {
    /// Codes the elements of a block. Elements that hold fill patterns are masked; so are zeros of floats, which are
    /// kept exactly, unless there are few or all are on a grid.
    pub fn encode(&mut self, x: &[T], extent: [usize; 3], plan: Plan) {
        let Memory { block, counts, masks, .. } = &mut self.memory;
        block.begin(extent, plan);
        let patterns = patterns_of(&self.patterns);
        // Zeros of integers are values like others.
        let keeps_zeros = !plan.on_grid && !self.elements.stored.element().is_integer();
        let few = if keeps_zeros { FEW_ZEROS } else { usize::MAX };
        let any = masks::find(x, self.patterns.len(), &patterns, few, masks);
        block.mask(any.then_some(masks));
        block.encode(x, &self.quantizer, counts);
    }

    /// Adds the errors of the block's elements that are neither masked nor verbatim.
    fn measure(&mut self, x: &[T], summary: &mut ErrorSummary) {
        const PIECE: usize = 1024;
        let mut back = vec![T::from_bits(0); x.len()];
        self.memory.block.reconstructed(&mut back);
        self.elements.stored.round(&mut back);
        let mut excluded = self.memory.masks.clone();
        self.memory.block.missed.iter().for_each(|&place| excluded[place as usize] = 1);
        for ((x, back), excluded) in x.chunks(PIECE).zip(back.chunks(PIECE)).zip(excluded.chunks(PIECE)) {
            let mut mask = TileMask::default();
            (0..x.len()).filter(|&place| excluded[place] != 0).for_each(|place| mask.set(place));
            summary.squared_error += u128::from(self.quantizer.linear.squared_error_of(x, back, &mask));
            summary.counted += (x.len() - mask.count()) as u64;
        }
    }
}

impl Parts {
    /// Takes what a block was coded to. Its first element is number `position` of the chunk.
    fn take<T: Real>(&mut self, coder: &Coder<T>, x: &[T], position: u32, first_anchor: &mut i32) {
        let Memory { block, .. } = &coder.memory;
        anchors::write(&block.anchors, first_anchor, &mut self.anchors);
        let mut missed = block.missed.clone();
        missed.sort_unstable();
        for place in missed {
            self.verbatim.push(position + place);
            Elements::append(&coder.elements.stored, [x[place as usize]], &mut self.verbatim_bytes);
        }
    }

    /// Appends the record.
    fn write<T: Real>(self, memory: &mut Memory<T>, (chunk, plan): (u64, Plan), out: &mut Vec<u8>) {
        let record = RecordBuilder::begin(out, ChunkKind::Blocks, chunk);
        let mut sections = SectionWriter::begin(out);
        let mut packed = PackedWriter::default();
        let Memory { block, counts, encoder, .. } = memory;
        let (tables, bits) = Tables::build(&counts.of_contexts(), &mut packed);
        let bits = bits + counts.bits_behind();
        encoder.prepare(&tables);
        let (mut words, mut sizes) = (Vec::new(), UnitSizes::default());
        for parts in block.kept_blocks() {
            let events: usize = parts.iter().map(PartEvents::count).sum();
            let bytes = bits * events as u64 / counts.total().max(1) / 8;
            let lanes_log2 = Units::choose_lanes(bytes, parts.len());
            sizes.lanes_log2.push(lanes_log2);
            let units = Units::new(lanes_log2, parts.len());
            for unit in 0..units.count() {
                let [part, number] = units.place(unit);
                let events = parts[part].of_unit([number, units.of_part(part)]);
                sizes.words.push(encoder.encode(events, units.lanes(unit), &mut words) as u32);
            }
        }
        sections.section(out, |out| {
            out.extend_from_slice(&plan.to_bytes());
            out.extend_from_slice(&packed.finish());
        });
        sections.section(out, |out| out.extend_from_slice(&self.anchors.finish()));
        sections.section(out, |out| write_sparse(out, &self.verbatim, &self.verbatim_bytes));
        sections.section(out, |out| sizes.write(out));
        sections.skip();
        sections.section(out, |out| out.extend_from_slice(&words));
        record.finish(out);
    }
}

/// The states of blocks, and the words of their units.
#[derive(Default)]
struct UnitSizes {
    lanes_log2: Vec<u8>,
    words: Vec<u32>,
}

impl UnitSizes {
    /// Appends them: the states of the blocks; the smallest size that is not 0, less 1; the bits of the others; and for
    /// each unit 0, or by how much it exceeds that number.
    fn write(&self, out: &mut Vec<u8>) {
        let base = self.words.iter().copied().filter(|&size| size > 0).min().map_or(0, |least| least - 1);
        let above = |size: u32| size.saturating_sub(base);
        let width = 32 - self.words.iter().map(|&size| above(size)).max().unwrap_or(0).leading_zeros();
        let mut packed = PackedWriter::default();
        self.lanes_log2.iter().for_each(|&log2| packed.put(log2.into(), LANES_BITS));
        packed.put(base, 32);
        packed.put(width, 8);
        self.words.iter().for_each(|&size| packed.put(above(size), width));
        out.extend_from_slice(&packed.finish());
    }
}

/// Bits of the binary logarithm of the states of a block.
pub(super) const LANES_BITS: u32 = 4;
const _: () = assert!(MOST_LANES_LOG2 < 1 << LANES_BITS);
