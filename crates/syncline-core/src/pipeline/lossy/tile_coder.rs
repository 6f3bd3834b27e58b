//! Codes tiles one after another: by Lorenzo predictors, and by interpolation.

use std::marker::PhantomData;

use super::quantize_tile::{QuantizedTile, Quantizer, TileQuantizer};
use super::reserved::reserved_patterns;
use crate::container::Header;
use crate::error::Result;
use crate::geometry::{Geometry, MAX_TILE_ELEMENTS, Tile};
use crate::mem::kept::Kept;
use crate::pipeline::context::runs_of_rows;
use crate::pipeline::elements::Elements;
use crate::pipeline::{CoderOptions, ElementSource};
use crate::predict::costs::{COST_GROUP, COST_LOG2, cost_factor, product_cost};
use crate::predict::interpolate::{Encoded, Interpolation, Plan, Plans, Scheme, Source, deinterleave, interleave};
use crate::predict::residuals::{Costs, Residuals};
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::quantize::stored::{ComputedIn, Visitor};
use crate::simd::{self, InstructionSet, Kernel};

/// Tiles that are coded side by side.
pub(super) const LANES: usize = 8;

/// Codes tiles one after another.
pub(super) struct TileCoder<T: Real> {
    pub(super) elements: Elements<T>,
    pub(super) quantizer: TileQuantizer<T>,
    pub(super) axes: usize,
    /// `None` if no tile may be interpolated.
    pub(super) interpolation: Option<Interpolation<T>>,
    plans: Plans<T>,
    pub(super) prepared: Vec<Prepared<T>>,
    source: Source<T, LANES>,
    /// Residuals of one tile.
    residuals: Residuals,
    pub(super) interpolated: Encoded<T, LANES>,
}

/// Memory for the tiles that are coded side by side. Its contents are of no use for other tiles, except for the plans.
#[derive(Debug)]
pub(super) struct TileMemory<T> {
    plans: Plans<T>,
    prepared: Vec<Prepared<T>>,
    source: Source<T, LANES>,
    residuals: Residuals,
    interpolated: Encoded<T, LANES>,
}

impl<T: Real> TileMemory<T> {
    /// Takes the memory that was kept, for tiles that extend along `axes` axes.
    pub(super) fn take(kept: &mut Kept, axes: usize) -> Self {
        let mut memory = kept.take().unwrap_or_else(|| Self {
            plans: Plans::new(axes),
            prepared: (0..LANES).map(|_| Prepared::default()).collect(),
            source: Source::default(),
            residuals: Residuals::default(),
            interpolated: Encoded::default(),
        });
        memory.plans.prepare(axes);
        memory
    }
}

/// A tile that is quantized.
#[derive(Debug)]
pub(super) struct Prepared<T> {
    pub(super) x: [T; MAX_TILE_ELEMENTS],
    pub(super) q: [i32; MAX_TILE_ELEMENTS],
    pub(super) quantized: QuantizedTile,
    /// The codes that were chosen.
    pub(super) codes: [i32; MAX_TILE_ELEMENTS],
}

impl<T: Real> Default for Prepared<T> {
    fn default() -> Self {
        Self {
            x: [T::from_bits(0); MAX_TILE_ELEMENTS],
            q: [0; MAX_TILE_ELEMENTS],
            quantized: QuantizedTile::default(),
            codes: [0; MAX_TILE_ELEMENTS],
        }
    }
}

/// Returns the cost of a number of verbatim values of so many bytes.
fn verbatim_cost(size: usize, count: usize) -> u32 {
    (8 * (4 + size as u32) * count as u32) << COST_LOG2
}

/// How a tile is predicted, and the cost of its codes and verbatim values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    /// Place of the Lorenzo predictor in the list; `None` for interpolation.
    pub(super) listed: Option<usize>,
    pub(super) cost: u32,
    /// Whether all codes are 0 and the tile is not interpolated.
    pub(super) is_constant: bool,
}

impl<T: Real> TileCoder<T> {
    pub(super) fn new(header: &Header, geometry: &Geometry, options: &CoderOptions, memory: TileMemory<T>) -> Self {
        let TileMemory { plans, prepared, source, residuals, interpolated } = memory;
        let quantizer = TileQuantizer::new(header);
        // Interpolated values are no multiples of the step, as those of rewritable streams and of a lattice have to be.
        let is_lattice = header.step > 2.0 * header.computed_bound();
        let is_linear = matches!(quantizer.quantizer, Quantizer::Linear(_));
        let interpolates = is_linear && options.interpolates && !is_lattice;
        Self {
            interpolation: interpolates.then(|| {
                let reserved = reserved_patterns::<T>(header);
                let interpolation = Interpolation::new(header.step, header.computed_bound());
                interpolation.for_elements(header.element_type).with_reserved(&reserved)
            }),
            elements: Elements::new(header),
            quantizer,
            axes: geometry.axes(),
            plans,
            prepared,
            source,
            residuals,
            interpolated,
        }
    }

    pub(super) fn into_memory(self) -> TileMemory<T> {
        let Self { plans, prepared, source, residuals, interpolated, .. } = self;
        TileMemory { plans, prepared, source, residuals, interpolated }
    }

    /// Calls `code` for up to [`LANES`] selected tiles of the same extents at a time, after reading their elements.
    /// Tiles that are not `interpolated` come one at a time, so that the next one is read ahead meanwhile.
    pub(super) fn for_batches(
        &mut self,
        geometry: &Geometry,
        source: &dyn ElementSource,
        (tiles, bytes): (&[Tile], &mut Vec<u8>),
        (wanted, interpolated): (impl Fn(&Tile) -> bool, bool),
        mut code: impl FnMut(&mut Self, &[Tile]),
    ) -> Result<()> {
        let most = if interpolated { LANES } else { 1 };
        let mut batch: Vec<Tile> = Vec::with_capacity(LANES);
        for run in runs_of_rows(tiles) {
            if !run.iter().any(&wanted) {
                continue;
            }
            let window = source.window(geometry, run, bytes)?;
            let mut selected = run.iter().filter(|tile| wanted(tile)).peekable();
            while let Some(tile) = selected.next() {
                if batch.len() == most || batch.first().is_some_and(|first| first.extent != tile.extent) {
                    code(self, &batch);
                    batch.clear();
                }
                self.elements.gather(&window, tile, &mut self.prepared[batch.len()].x);
                batch.push(*tile);
                if let Some(next) = selected.peek() {
                    window.prefetch(next, self.elements.stored.size());
                }
            }
        }
        if !batch.is_empty() {
            code(self, &batch);
        }
        Ok(())
    }

    /// Quantizes tiles of the same extents whose elements are read.
    pub(super) fn quantize(&mut self, tiles: &[Tile]) {
        let count = tiles[0].len();
        for (tile, prepared) in tiles.iter().zip(&mut self.prepared) {
            let Prepared { x, q, quantized, .. } = prepared;
            self.quantizer.quantize(tile, &x[..count], &mut q[..count], quantized);
        }
    }

    /// Puts tiles that are quantized side by side, to be interpolated.
    pub(super) fn gather_lanes(&mut self, tiles: &[Tile]) {
        let count = tiles[0].len();
        let prepared = &self.prepared[..tiles.len()];
        // Lanes without a tile repeat the first one.
        let tile = |lane: usize| prepared.get(lane).unwrap_or(&prepared[0]);
        interleave(std::array::from_fn(|lane| &tile(lane).x[..count]), &mut self.source.x[..], count);
        self.source.any_excluded = prepared.iter().any(|tile| tile.quantized.any_excluded);
        if self.source.any_excluded {
            self.source.excluded.fill(0);
            for (lane, tile) in prepared.iter().enumerate().filter(|(_, tile)| tile.quantized.any_excluded) {
                tile.quantized.not_coded().ones().for_each(|i| self.source.excluded[i] |= 1 << lane);
            }
        }
    }

    /// Returns the costs of a tile that is quantized under Lorenzo predictors, verbatim values included.
    pub(super) fn lorenzo_costs(&mut self, lane: usize, tile: &Tile, predictors: &[u8]) -> Costs {
        let prepared = &self.prepared[lane];
        let verbatim = verbatim_cost(self.elements.stored.size(), prepared.quantized.verbatim());
        let costs = self.residuals.predict(&prepared.q[..tile.len()], tile.extent, predictors);
        costs.map(|cost| cost.saturating_add(verbatim))
    }

    /// Predicts tiles that are quantized by the cheapest of the listed Lorenzo predictors and the scheme, and writes
    /// their codes.
    pub(super) fn predict(&mut self, tiles: &[Tile], list: &[u8], scheme: Option<Scheme>) -> [Prediction; LANES] {
        let count = tiles[0].len();
        let mut predictions = [Prediction { listed: Some(0), cost: 0, is_constant: true }; LANES];
        for (lane, (tile, prediction)) in tiles.iter().zip(&mut predictions).enumerate() {
            let costs = self.lorenzo_costs(lane, tile, list);
            let Prepared { codes, quantized, .. } = &mut self.prepared[lane];
            let of_list = list.iter().map(|&predictor| (costs[usize::from(predictor)], predictor)).enumerate();
            let (place, (cost, predictor)) = of_list.min_by_key(|&(_, (cost, _))| cost).unwrap_or_default();
            let is_constant = cost == verbatim_cost(self.elements.stored.size(), quantized.verbatim());
            *prediction = Prediction { listed: Some(place), cost, is_constant };
            if !is_constant {
                codes[..count].copy_from_slice(self.residuals.of(predictor));
            }
        }
        // Nothing costs less than nothing.
        let tries = predictions[..tiles.len()].iter().any(|prediction| prediction.cost > 0);
        let Some(scheme) = scheme.filter(|_| tries) else { return predictions };
        self.gather_lanes(tiles);
        let costs = self.interpolate(scheme, tiles);
        let mut prepared = self.prepared.iter_mut();
        let wanted = std::array::from_fn(|lane| match (prepared.next(), &mut predictions[lane]) {
            (Some(tile), prediction) if lane < tiles.len() && costs[lane] < prediction.cost => {
                *prediction = Prediction { listed: None, cost: costs[lane], is_constant: false };
                &mut tile.codes[..count]
            }
            _ => &mut [],
        });
        deinterleave(&self.interpolated.codes[..], wanted);
        predictions
    }

    /// Interpolates tiles that are quantized and side by side. Returns their costs, verbatim values included; the
    /// maximum for a tile that cannot be interpolated.
    pub(super) fn interpolate(&mut self, scheme: Scheme, tiles: &[Tile]) -> [u32; LANES] {
        let (Some(interpolation), Quantizer::Linear(linear)) = (&self.interpolation, &self.quantizer.quantizer) else {
            return [u32::MAX; LANES];
        };
        let prepared = &self.prepared[..tiles.len()];
        let plan = self.plans.get(scheme, tiles[0].extent);
        let bases: [i32; LANES] = std::array::from_fn(|lane| prepared.get(lane).map_or(0, |prepared| prepared.q[0]));
        let anchor = |lane: usize, integer: i32| linear.value(integer.wrapping_add(bases[lane]));
        let integer = |lane: usize, place: usize| {
            prepared.get(lane).map_or(0, |prepared| prepared.q[place].wrapping_sub(bases[lane]))
        };
        interpolation.encode(plan, &self.source, (integer, anchor), &mut self.interpolated);
        let stored = &self.elements.stored;
        if stored.element().is_half() || !(stored.is_same() || interpolation.reserved().is_empty()) {
            let Source { x, excluded, any_excluded } = &self.source;
            let excluded = any_excluded.then_some(&excluded[..]);
            let (x, interpolated) = (&x[..], &mut self.interpolated);
            stored.visit(CheckStored { plan, x, excluded, interpolation, interpolated });
        }
        let size = stored.size();
        let costs = simd::run(LaneCosts { plan, codes: &self.interpolated.codes[..tiles[0].len()] });
        std::array::from_fn(|lane| match prepared.get(lane) {
            Some(tile) if tile.quantized.is_empty => u32::MAX,
            Some(tile) if tile.quantized.any_excluded || self.interpolated.any_missed[lane] => {
                costs[lane] + verbatim_cost(size, exact_of(plan, tile, &self.interpolated, lane).count())
            }
            _ => costs[lane],
        })
    }

    /// Returns the elements of a tile that must be verbatim if it is interpolated as it was last; none if all can be
    /// coded.
    pub(super) fn interpolated_exact(&mut self, scheme: Scheme, extent: [usize; 3], lane: usize) -> Option<TileMask> {
        let tile = &self.prepared[lane];
        let any = tile.quantized.any_excluded || self.interpolated.any_missed[lane];
        any.then(|| exact_of(self.plans.get(scheme, extent), tile, &self.interpolated, lane))
    }
}

/// Returns the elements of an interpolated tile that must be verbatim.
fn exact_of<T: Real>(plan: &Plan<T>, tile: &Prepared<T>, interpolated: &Encoded<T, LANES>, lane: usize) -> TileMask {
    let quantized = &tile.quantized;
    let mut exact = TileMask::default();
    if quantized.any_excluded {
        exact = quantized.foreign;
        let anchors = plan.anchors().iter().map(|&place| usize::from(place));
        anchors.filter(|&place| quantized.exact.get(place)).for_each(|place| exact.set(place));
    }
    if interpolated.any_missed[lane] {
        let others = plan.points().iter().map(|point| usize::from(point.place));
        others.filter(|&place| interpolated.missed[place][lane] != 0).for_each(|place| exact.set(place));
    }
    exact
}

/// Finds the elements that miss the bound, or become a fill pattern, only when they are rounded to their type. They
/// keep their codes, so that others are predicted as before.
struct CheckStored<'a, T> {
    plan: &'a Plan<T>,
    x: &'a [[T; LANES]],
    excluded: Option<&'a [u8]>,
    interpolation: &'a Interpolation<T>,
    interpolated: &'a mut Encoded<T, LANES>,
}

impl<T: Real> Visitor<T> for CheckStored<'_, T> {
    type Output = ();

    fn visit<S: ComputedIn<T>>(self) {
        simd::run(CheckStoredAs::<S, T>(self, PhantomData));
    }
}

struct CheckStoredAs<'a, S, T>(CheckStored<'a, T>, PhantomData<S>);

impl<T: Real, S: ComputedIn<T>> Kernel for CheckStoredAs<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let CheckStored { plan, x, excluded, interpolation, interpolated } = self.0;
        let [_, _, bound] = interpolation.constants();
        let mut any = [0; LANES];
        for point in plan.points() {
            let place = usize::from(point.place) & (MAX_TILE_ELEMENTS - 1);
            let (x, values, missed) = (&x[place], &interpolated.values[place], &mut interpolated.missed[place]);
            let mut rounded = [T::zeroed(); LANES];
            for lane in 0..LANES {
                rounded[lane] = S::round(values[lane]);
            }
            for lane in 0..LANES {
                let within = (x[lane] - rounded[lane]).magnitude() < bound;
                missed[lane] |= i32::from(!within);
            }
            for reserved in interpolation.reserved() {
                for lane in 0..LANES {
                    missed[lane] |= i32::from(rounded[lane].bits() == reserved.bits());
                }
            }
            if let Some(excluded) = excluded.map(|excluded| excluded[place]).filter(|&excluded| excluded != 0) {
                for (lane, missed) in missed.iter_mut().enumerate() {
                    *missed &= i32::from(excluded >> lane & 1 == 0);
                }
            }
            for lane in 0..LANES {
                any[lane] |= missed[lane];
            }
        }
        interpolated.any_missed = any.map(|any| any != 0);
    }
}

/// Returns the sum of the costs of the codes in each lane: each anchor alone, the others of a line in groups of four.
struct LaneCosts<'a, T> {
    plan: &'a Plan<T>,
    codes: &'a [[i32; LANES]],
}

impl<T: Real> Kernel for LaneCosts<'_, T> {
    type Output = [u32; LANES];

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> [u32; LANES] {
        let Self { plan, codes } = self;
        let mut sums = [0; LANES];
        for &code in plan.anchor_codes() {
            add_cost(&mut sums, std::iter::once(&codes[usize::from(code)]));
        }
        let mut points = plan.points();
        for &length in plan.lines() {
            let (line, rest) = points.split_at(usize::from(length));
            for group in line.chunks(COST_GROUP) {
                add_cost(&mut sums, group.iter().map(|point| &codes[usize::from(point.code)]));
            }
            points = rest;
        }
        sums
    }
}

/// Adds the cost of a group of codes in each lane.
#[inline(always)]
fn add_cost<'c>(sums: &mut [u32; LANES], group: impl Iterator<Item = &'c [i32; LANES]>) {
    let mut products = [1.0; LANES];
    for codes in group {
        for (product, &code) in products.iter_mut().zip(codes) {
            *product *= cost_factor(code);
        }
    }
    for (sum, product) in sums.iter_mut().zip(products) {
        *sum += product_cost(product);
    }
}
