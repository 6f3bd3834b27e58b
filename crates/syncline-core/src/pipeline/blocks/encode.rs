//! Elements of a chunk to the record of blocks.

use super::block::Block;
use super::masks::{Mask, MaskWriter, patterns_of};
use super::plan::Plan;
use super::quantizer::Quantizer;
use super::{anchors, sample};
use crate::bound::{Bound, ErrorSummary};
use crate::container::{ChunkKind, Header, RecordBuilder, SectionWriter, write_sparse};
use crate::contexts::lanes::{Encoder, Event, Events};
use crate::contexts::table::{Counts, Tables};
use crate::contexts::{CONTEXTS, PackedWriter, SYMBOLS, Symbol};
use crate::error::Result;
use crate::geometry::Geometry;
use crate::pipeline::CoderOptions;
use crate::pipeline::context::{ElementSource, runs_of_rows};
use crate::pipeline::elements::Elements;
use crate::pipeline::scratch::EncodeScratch;
use crate::quantize::Real;
use crate::quantize::mask::{MaskKind, TileMask};

/// What the blocks of a chunk become before their tables are known.
struct Parts {
    counts: Box<[Counts; CONTEXTS]>,
    /// The events of the units of all blocks, and where each run of a unit ends in it.
    events: Vec<Event>,
    ends: Vec<u32>,
    /// Of each unit, how many events and runs it has, and its states.
    units: Vec<[usize; 3]>,
    anchors: PackedWriter,
    masks: MaskWriter,
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
    let block = scratch.block.take().unwrap_or_default();
    let patterns = quantizer.stored.values_of(&header.patterns);
    let elements = Elements::new(header);
    let mut coder = Coder { patterns, quantizer, elements, block, masks: Vec::new(), excluded: Vec::new() };
    // Interpolated values are no multiples of the step, as those of rewritable streams and of a lattice have to be.
    let on_grid = !options.interpolates || header.step > 2.0 * header.computed_bound();
    let plan = sample::choose(&mut coder, on_grid, geometry, source, (&scratch.tiles, &mut scratch.window))?;
    let mut parts = Parts {
        counts: vec![[0; SYMBOLS]; CONTEXTS].try_into().unwrap_or_else(|_| unreachable!("as many as there are")),
        events: Vec::new(),
        ends: Vec::new(),
        units: Vec::new(),
        anchors: PackedWriter::default(),
        masks: MaskWriter::default(),
        verbatim: Vec::new(),
        verbatim_bytes: Vec::new(),
    };
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
        }
    }
    scratch.block.keep(coder.block);
    parts.write(chunk, plan, out);
    Ok((!coder.elements.any_lost).then_some(summary))
}

/// Codes blocks one after another.
pub(super) struct Coder<T: Real> {
    /// The values of fill patterns.
    patterns: Vec<u64>,
    quantizer: Quantizer<T>,
    pub elements: Elements<T>,
    pub block: Block<T>,
    /// The masks of the block, by pattern.
    masks: Vec<Mask>,
    excluded: Vec<u8>,
}

impl<T: Real> Coder<T> {
    /// Codes the elements of a block.
    fn encode(&mut self, x: &[T], extent: [usize; 3], plan: Plan) {
        self.begin(x, extent, plan);
        self.encode_unmasked(x);
        let of_header = self.patterns.len();
        self.masks[..of_header].iter_mut().for_each(|mask| mask.code(extent));
        // Zeros are kept exactly: by a mask, unless only a few are verbatim.
        let is_zero = |place: &u32| x[*place as usize].bits() == 0;
        let missed = self.block.missed.iter().filter(|place| is_zero(place)).count();
        if missed > FEW_ZEROS && self.masks.len() > of_header {
            let zeros = &mut self.masks[of_header];
            zeros.find(x, 0);
            zeros.code(extent);
            zeros.add_to(&mut self.excluded);
            self.encode_unmasked(x);
        }
    }

    /// Codes the elements of a block, as if all zeros were masked that codes do not keep.
    pub fn encode_without_zeros(&mut self, x: &[T], extent: [usize; 3], plan: Plan) {
        self.begin(x, extent, plan);
        if let Some(zeros) = self.masks.get_mut(self.patterns.len()).filter(|_| !plan.on_grid) {
            zeros.find(x, 0);
            zeros.add_to(&mut self.excluded);
        }
        self.encode_unmasked(x);
    }

    /// Finds the elements of a block that hold fill patterns.
    fn begin(&mut self, x: &[T], extent: [usize; 3], plan: Plan) {
        self.block.begin(extent, plan);
        let patterns = patterns_of(&self.patterns);
        self.masks.resize_with(patterns.len(), Mask::default);
        self.excluded.clear();
        self.excluded.resize(x.len(), 0);
        let of_header = self.patterns.len();
        for (mask, &pattern) in self.masks.iter_mut().zip(&patterns[..of_header]) {
            mask.find(x, pattern);
            mask.add_to(&mut self.excluded);
        }
        if let Some(zeros) = self.masks.get_mut(of_header) {
            zeros.kind = MaskKind::Nothing;
        }
    }

    fn encode_unmasked(&mut self, x: &[T]) {
        let any = self.masks.iter().any(|mask| mask.kind != MaskKind::Nothing);
        self.block.exclude(any.then_some(&self.excluded));
        self.block.encode(x, &self.quantizer);
    }

    /// Adds the errors of the block's elements that are neither masked nor verbatim.
    fn measure(&mut self, x: &[T], summary: &mut ErrorSummary) {
        const PIECE: usize = 1024;
        let mut back = vec![T::from_bits(0); x.len()];
        self.block.reconstructed(&mut back);
        self.elements.stored.round(&mut back);
        let mut excluded = self.excluded.clone();
        self.block.missed.iter().for_each(|&place| excluded[place as usize] = 1);
        for ((x, back), excluded) in x.chunks(PIECE).zip(back.chunks(PIECE)).zip(excluded.chunks(PIECE)) {
            let mut mask = TileMask::default();
            (0..x.len()).filter(|&place| excluded[place] != 0).for_each(|place| mask.set(place));
            summary.squared_error += u128::from(self.quantizer.linear.squared_error_of(x, back, &mask));
            summary.counted += (x.len() - mask.count()) as u64;
        }
    }
}

/// So many zeros of a block may be verbatim before a mask is considered.
const FEW_ZEROS: usize = 8;

impl Parts {
    /// Takes what a block was coded to. Its first element is number `position` of the chunk.
    fn take<T: Real>(&mut self, coder: &Coder<T>, x: &[T], position: u32, first_anchor: &mut i32) {
        let block = &coder.block;
        for unit in &block.events {
            for event in unit.coded() {
                self.counts[usize::from(event.context())][usize::from(Symbol::of(event.code()).symbol)] += 1;
            }
            self.events.extend_from_slice(&unit.events);
            self.ends.extend_from_slice(&unit.ends);
            self.units.push([unit.events.len(), unit.ends.len(), block.lanes()]);
        }
        anchors::write(&block.anchors, first_anchor, &mut self.anchors);
        coder.masks.iter().for_each(|mask| self.masks.push(mask));
        let mut missed = block.missed.clone();
        missed.sort_unstable();
        for place in missed {
            self.verbatim.push(position + place);
            Elements::append(&coder.elements.stored, [x[place as usize]], &mut self.verbatim_bytes);
        }
    }

    /// Appends the record.
    fn write(self, chunk: u64, plan: Plan, out: &mut Vec<u8>) {
        let record = RecordBuilder::begin(out, ChunkKind::Blocks, chunk);
        let mut sections = SectionWriter::begin(out);
        let mut packed = PackedWriter::default();
        let tables = Tables::build(&self.counts, &mut packed);
        let (words, sizes) = self.code(&tables);
        sections.section(out, |out| {
            out.extend_from_slice(&plan.to_bytes());
            out.extend_from_slice(&packed.finish());
        });
        sections.section(out, |out| out.extend_from_slice(&self.anchors.finish()));
        sections.section(out, |out| write_sparse(out, &self.verbatim, &self.verbatim_bytes));
        sections.section(out, |out| self.masks.write(out));
        sections.section(out, |out| write_sizes(&sizes, out));
        sections.section(out, |out| out.extend_from_slice(&words));
        record.finish(out);
    }

    /// Codes the units. Returns their words, and the number of words of each.
    fn code(&self, tables: &Tables) -> (Vec<u8>, Vec<u32>) {
        let mut words = Vec::new();
        let mut encoder = Encoder::new(tables);
        let (mut events, mut ends) = (self.events.as_slice(), self.ends.as_slice());
        let sizes = self.units.iter().map(|&[of_events, of_ends, lanes]| {
            let unit = Events { events: &events[..of_events], ends: &ends[..of_ends] };
            (events, ends) = (&events[of_events..], &ends[of_ends..]);
            encoder.encode(unit, lanes, &mut words) as u32
        });
        let sizes = sizes.collect();
        (words, sizes)
    }
}

/// Appends the sizes of units: the smallest that is not 0, less 1; the bits of the others; and for each unit 0, or by
/// how much it exceeds that number.
fn write_sizes(sizes: &[u32], out: &mut Vec<u8>) {
    let base = sizes.iter().copied().filter(|&size| size > 0).min().map_or(0, |least| least - 1);
    let above = |size: u32| size.saturating_sub(base);
    let width = 32 - sizes.iter().map(|&size| above(size)).max().unwrap_or(0).leading_zeros();
    let mut packed = PackedWriter::default();
    packed.put(base, 32);
    packed.put(width, 8);
    sizes.iter().for_each(|&size| packed.put(above(size), width));
    out.extend_from_slice(&packed.finish());
}
