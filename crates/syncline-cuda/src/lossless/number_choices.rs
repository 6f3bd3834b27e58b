//! Chooses how chunks are coded as numbers: on the host, with the code of `syncline-core`, from samples and counts that
//! the device takes.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use syncline_core::array::ElementType;
use syncline_core::container::write_bases;
use syncline_core::geometry::Geometry;
use syncline_core::numbers::bins::write_bins;
use syncline_core::numbers::cells::{self, MAX_CELLS};
use syncline_core::numbers::number::{Number, Scale};
use syncline_core::pipeline::{
    MOST_SAMPLED_CODES, NumberBinning, NumberPlan, NumberTileState, SAMPLED_NUMBER_ELEMENTS, choose_number_bins,
    choose_number_plan, number_sample, sampled_code_rows,
};
use syncline_core::predict::word::Word;
use syncline_core::quantize::mask::MaskKind;

use super::structs::{ChunkBins, CodedChunk, CodedTile, NumberChunk};
use crate::device::Pinned;
use crate::error::{CudaError, Result};
use crate::workers;

/// `OCTAVES` in `kernels/lossless/bins.cuh`.
const OCTAVES: u32 = 64;
/// Bits of `CodedTile::info`.
const INFO_CONSTANT: u32 = 1;
const INFO_HAS_BASE: u32 = 8;

/// Page-locked memory that results are copied to, kept between calls.
pub(super) type Shared<T> = Option<Arc<Pinned<T>>>;

/// Copies what the device has made to the host, and waits for it. The memory is reused only if no thread still works on
/// what the previous call has copied.
pub(super) fn read<T: DeviceRepr + ValidAsZeroBits + Copy + Default>(
    stream: &Arc<CudaStream>,
    memory: &mut Shared<T>,
    from: &impl DevicePtr<T>,
) -> Result<Arc<Pinned<T>>> {
    let free = memory.take().and_then(Arc::into_inner).filter(|memory| memory.len() >= from.len());
    let mut copy = match free {
        Some(memory) => memory.on(stream)?,
        None => Pinned::new(stream, from.len().next_power_of_two())?,
    };
    copy.read(from)?;
    copy.wait()?;
    Ok(memory.insert(Arc::new(copy)).clone())
}

/// Runs a task for each chunk on worker threads, and returns the results in order.
fn for_chunks<R: Send + 'static>(
    chunks: usize,
    task: impl Fn(usize) -> Option<R> + Send + Sync + 'static,
) -> Result<Vec<R>> {
    let mut made: Vec<Option<R>> = (0..chunks).map(|_| None).collect();
    workers::run_tasks(chunks, task).for_each(|(chunk, result)| made[chunk] = result);
    let all: Option<Vec<R>> = made.into_iter().collect();
    all.ok_or_else(|| CudaError::invalid("the choice of the coding of a chunk is missing"))
}

/// The tiles of a chunk that its plan is chosen with.
pub(super) struct SampledTiles {
    /// Their numbers in the array.
    pub runs: Vec<Range<u64>>,
    extents: Vec<[usize; 3]>,
    /// Elements of the chunk, and of these tiles.
    elements: usize,
    of_tiles: usize,
}

impl SampledTiles {
    pub fn new(geometry: &Geometry, chunk: u64) -> Self {
        let tiles = geometry.chunk_range(chunk);
        let first = geometry.tile(tiles.start).len();
        let numbers = number_sample((tiles.end - tiles.start) as usize, first).into_iter();
        let numbers: Vec<u64> = numbers.map(|number| tiles.start + number as u64).collect();
        let extents: Vec<_> = numbers.iter().map(|&number| geometry.tile(number).extent).collect();
        Self {
            runs: numbers.into_iter().map(|number| number..number + 1).collect(),
            of_tiles: extents.iter().map(|extent| extent.iter().product::<usize>()).sum(),
            extents,
            elements: geometry.chunk_elements(chunk) as usize,
        }
    }
}

/// Chooses the plan of each chunk. `elements` has room for the most sampled elements of each chunk, and `of_tiles` the
/// elements of all sampled tiles.
pub(super) fn choose_plans(
    element: ElementType,
    axes: usize,
    sampled: Vec<SampledTiles>,
    (elements, of_tiles): (Arc<Pinned<u8>>, Arc<Pinned<u8>>),
) -> Result<Vec<NumberPlan>> {
    let size = element.size();
    let mut ends = Vec::with_capacity(sampled.len());
    let mut end = 0;
    for chunk in &sampled {
        end += chunk.of_tiles * size;
        ends.push(end);
    }
    for_chunks(sampled.len(), move |number| {
        let SampledTiles { extents, elements: count, of_tiles: in_tiles, .. } = &sampled[number];
        let interval = count.div_ceil(SAMPLED_NUMBER_ELEMENTS).max(1);
        let from = number * SAMPLED_NUMBER_ELEMENTS * size;
        let elements = &elements.wait().ok()?[from..from + count.div_ceil(interval) * size];
        let of_tiles = &of_tiles.wait().ok()?[ends[number] - in_tiles * size..ends[number]];
        Some(choose_number_plan(element, axes, elements, extents, of_tiles))
    })
}

/// Returns a plan as the kernels read it.
pub(super) fn device_plan(plan: &NumberPlan) -> NumberChunk {
    let scale = |Scale { how, step, offset }: Scale| (how as u32, [step.to_bits(), offset.to_bits()]);
    let (mode, (operations, parameters)) = match plan.number {
        Number::Ordered => (0, (0, [0; 2])),
        Number::Multiple { divisor, offset } => (1, (0, [divisor, offset])),
        Number::Scaled(number) => (2, scale(number)),
        Number::ScaledUlps(number) => (3, scale(number)),
        Number::Split => (4, (0, [0; 2])),
    };
    NumberChunk {
        center: plan.center,
        parameters,
        pattern: plan.pattern.unwrap_or(0),
        mode,
        operations,
        predictor: plan.predictor.into(),
        has_pattern: plan.pattern.is_some().into(),
        ..NumberChunk::default()
    }
}

/// What the host decides about a chunk once its codes are there.
#[derive(Debug)]
pub(super) struct CodedNumbers {
    /// Sections of the plan, of the bases, and of the bins.
    pub plan: Vec<u8>,
    pub bases: Vec<u8>,
    pub bins: Vec<u8>,
    /// The bins, unless all tiles are constant.
    pub binning: Option<NumberBinning>,
    /// Symbols and bytes of masks of the chunk before each tile, and all.
    pub symbols_before: Vec<u32>,
    pub masks_before: Vec<u32>,
    pub symbols: u32,
    pub mask_bytes: u32,
    pub verbatim: u32,
    pub greatest_rest: u32,
    /// Tiles that are not constant.
    pub are_varying: Vec<bool>,
}

/// What the device has made of the tiles of a batch.
pub(super) struct CodedBatch {
    pub geometry: Geometry,
    pub element: ElementType,
    pub first_chunk: u64,
    pub plans: Vec<NumberPlan>,
    pub chunks: Vec<CodedChunk>,
    pub tiles: Arc<Pinned<CodedTile>>,
    /// The sampled codes, with room for the most of each chunk.
    pub sample: Arc<Pinned<u8>>,
}

impl CodedBatch {
    /// Chooses the bins of all chunks, and makes the sections that the host makes.
    pub fn choose(self) -> Result<Vec<CodedNumbers>> {
        let first_tile = self.geometry.chunk_range(self.first_chunk).start;
        for_chunks(self.plans.len(), move |number| {
            let range = self.geometry.chunk_range(self.first_chunk + number as u64);
            let own = (range.start - first_tile) as usize..(range.end - first_tile) as usize;
            let tiles = &self.tiles.wait().ok()?[own];
            let lengths: Vec<u32> = self.geometry.range(range).map(|tile| tile.len() as u32).collect();
            let size = self.element.size();
            let CodedChunk { low, high, codes, verbatim, greatest_rest, .. } = self.chunks[number];
            let mut plan = self.plans[number];
            let binning = (codes > 0).then(|| {
                let (row, step) = sampled_code_rows(codes as usize);
                let rows = (codes as usize).div_ceil(row).div_ceil(step);
                // All sampled rows are whole, except that the last row of all may be the last one sampled.
                let last = ((rows - 1) * step * row..codes as usize).len().min(row);
                let sampled = (rows - 1) * row + last;
                let from = number * MOST_SAMPLED_CODES * size;
                let sample = &self.sample.wait().ok()?[from..from + sampled * size];
                let range = cells::Range { low, high };
                Some(choose_number_bins(self.element, plan.predictor, sample, codes as usize, range))
            });
            let binning = match binning {
                Some(binning) => Some(binning?),
                None => None,
            };
            plan.tuple = binning.as_ref().map_or(plan.tuple, |binning| binning.tuple);
            let mut made = CodedNumbers {
                plan: Vec::new(),
                bases: Vec::new(),
                bins: Vec::new(),
                symbols_before: Vec::with_capacity(tiles.len()),
                masks_before: Vec::with_capacity(tiles.len()),
                symbols: 0,
                mask_bytes: 0,
                verbatim,
                greatest_rest,
                are_varying: tiles.iter().map(|tile| tile.info & INFO_CONSTANT == 0).collect(),
                binning,
            };
            let states: Option<Vec<NumberTileState>> = tiles.iter().map(state_of).collect();
            let states = states?;
            for ((tile, state), length) in tiles.iter().zip(&states).zip(lengths) {
                made.symbols_before.push(made.symbols);
                made.masks_before.push(made.mask_bytes);
                let is_varying = tile.info & INFO_CONSTANT == 0;
                made.symbols += if is_varying { length.div_ceil(plan.tuple as u32) } else { 0 };
                made.mask_bytes += if state.mask == MaskKind::Bitmap { length.div_ceil(8) } else { 0 };
            }
            plan.write(&states, &mut made.plan);
            if plan.has_bases() {
                made.bases = match size {
                    1 => bases::<u8>(tiles),
                    2 => bases::<u16>(tiles),
                    4 => bases::<u32>(tiles),
                    _ => bases::<u64>(tiles),
                };
            }
            if let Some(binning) = &made.binning {
                write_bins(&binning.bins, &mut made.bins);
            }
            Some(made)
        })
    }
}

fn state_of(tile: &CodedTile) -> Option<NumberTileState> {
    let mask = MaskKind::from_code((tile.info >> 1 & 3) as u8)?;
    Some(NumberTileState { constant: tile.info & INFO_CONSTANT != 0, mask })
}

/// Returns the section of bases. A tile without one repeats that of the tile before.
fn bases<W: Word>(tiles: &[CodedTile]) -> Vec<u8> {
    let mut base = W::ZERO;
    let each = tiles.iter().map(|tile| {
        if tile.info & INFO_HAS_BASE != 0 {
            base = W::narrow(tile.base);
        }
        base
    });
    let (bases, mut section): (Vec<W>, _) = (each.collect(), Vec::new());
    write_bases(&mut section, &bases);
    section
}

/// Returns the bins of a chunk as the kernels read them, without the places of its streams. `of_cell` is the number of
/// the first bin of its cells among those of all chunks.
pub(super) fn device_bins(chunk: &CodedNumbers, of_cell: u32) -> ChunkBins {
    let mut bins = ChunkBins {
        lows: [0; 256],
        cell_lows: [0; 3],
        symbols_at: 0,
        masks_at: 0,
        sizes: [0; 256],
        shifts: [0; 3],
        cell_shifts: [OCTAVES; 3],
        families: 0,
        bins: 0,
        tuple: 1,
        symbol_bytes: 1,
        of_cell,
        symbols: chunk.symbols,
        mask_bytes: chunk.mask_bytes,
        unused: 0,
    };
    let Some(binning) = &chunk.binning else { return bins };
    for (number, bin) in binning.bins.iter().enumerate() {
        bins.lows[number] = bin.low;
        bins.sizes[number] = u16::from(bin.width) | u16::from(bin.shift) << 8;
    }
    for (number, &(shift, cells)) in binning.families.iter().enumerate() {
        bins.shifts[number] = shift.into();
        if let cells::Cells::Equal { low, shift } = cells {
            bins.cell_lows[number] = low;
            bins.cell_shifts[number] = shift;
        }
    }
    debug_assert_eq!(binning.of_cell.len(), MAX_CELLS * binning.families.len());
    bins.families = binning.families.len() as u32;
    bins.bins = binning.bins.len() as u32;
    bins.tuple = binning.tuple as u32;
    bins.symbol_bytes = if binning.symbols <= 256 { 1 } else { 2 };
    bins
}
