//! Codes tiles one after another: by Lorenzo predictors, and by interpolation.

use super::quantize_tile::{QuantizedTile, Quantizer, TileQuantizer};
use super::reserved::reserved_patterns;
use crate::container::Header;
use crate::error::Result;
use crate::geometry::{Geometry, MAX_TILE_ELEMENTS, Tile};
use crate::mem::kept::Kept;
use crate::pipeline::{CoderOptions, ElementSource};
use crate::predict::interpolate::{Encoded, Interpolation, Plan, Plans, Scheme, Source, interleave};
use crate::predict::orders::{self, COST_GROUP, cost_factor, product_cost};
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::simd::dispatched;

/// Tiles that are coded side by side.
pub(super) const LANES: usize = 8;

/// Codes tiles one after another.
pub(super) struct TileCoder<'a, T: Real> {
    pub(super) quantizer: TileQuantizer<'a, T>,
    pub(super) axes: usize,
    /// `None` if no tile may be interpolated.
    pub(super) interpolation: Option<Interpolation<T>>,
    plans: Plans<T>,
    orders: orders::Scratch,
    pub(super) prepared: Vec<Prepared<T>>,
    source: Source<T, LANES>,
    pub(super) interpolated: Encoded<T, LANES>,
    /// Codes of a tile.
    pub(super) coded: Vec<i32>,
}

/// Memory for the tiles that are coded side by side. Its contents are of no use for other tiles, except for the plans.
#[derive(Debug)]
pub(super) struct TileMemory<T> {
    plans: Plans<T>,
    orders: orders::Scratch,
    prepared: Vec<Prepared<T>>,
    source: Source<T, LANES>,
    interpolated: Encoded<T, LANES>,
}

impl<T: Real> TileMemory<T> {
    /// Takes the memory that was kept, for tiles that extend along `axes` axes.
    pub(super) fn take(kept: &mut Kept, axes: usize) -> Self {
        let mut memory = kept.take().unwrap_or_else(|| Self {
            plans: Plans::new(axes),
            orders: orders::Scratch::default(),
            prepared: (0..LANES).map(|_| Prepared::default()).collect(),
            source: Source::default(),
            interpolated: Encoded::default(),
        });
        memory.plans.prepare(axes);
        memory
    }
}

/// A tile with the codes of Lorenzo prediction.
#[derive(Debug)]
pub(super) struct Prepared<T> {
    pub(super) x: [T; MAX_TILE_ELEMENTS],
    pub(super) q: [i32; MAX_TILE_ELEMENTS],
    pub(super) quantized: QuantizedTile,
    /// Place of the cheapest predictor in the list.
    pub(super) predictor: u8,
    pub(super) codes: [i32; MAX_TILE_ELEMENTS],
    pub(super) cost: u32,
}

impl<T: Real> Default for Prepared<T> {
    fn default() -> Self {
        Self {
            x: [T::from_bits(0); MAX_TILE_ELEMENTS],
            q: [0; MAX_TILE_ELEMENTS],
            quantized: QuantizedTile::default(),
            predictor: 0,
            codes: [0; MAX_TILE_ELEMENTS],
            cost: 0,
        }
    }
}

/// Results of interpolating a tile other than its codes.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    /// The cost as in [`Prepared::cost`]; the maximum if the tile is not interpolated.
    pub(super) cost: u32,
    /// Elements that must be verbatim.
    pub(super) exact: TileMask,
    /// Elements that are verbatim or masked.
    pub(super) excluded: TileMask,
}

impl Outcome {
    /// That of a tile that is not interpolated.
    fn none() -> Self {
        Self { cost: u32::MAX, ..Self::default() }
    }
}

/// Returns the cost of a tile's verbatim values.
fn verbatim_cost<T>(exact: &TileMask) -> u32 {
    (8 * (4 + size_of::<T>() as u32) * exact.count() as u32) << orders::COST_LOG2
}

impl<'a, T: Real> TileCoder<'a, T> {
    pub(super) fn new(header: &'a Header, geometry: &Geometry, options: &CoderOptions, memory: TileMemory<T>) -> Self {
        let TileMemory { plans, orders, prepared, source, interpolated } = memory;
        let quantizer = TileQuantizer::new(header);
        // Interpolated values are no multiples of the step, as those of rewritable streams and of a lattice have to be.
        let is_lattice = header.step > 2.0 * header.abs_bound;
        let is_linear = matches!(quantizer.quantizer, Quantizer::Linear(_));
        let interpolates = is_linear && !options.rewritable && !is_lattice;
        Self {
            interpolation: interpolates.then(|| {
                let reserved = reserved_patterns::<T>(header);
                Interpolation::new(header.step, header.abs_bound).with_reserved(&reserved)
            }),
            quantizer,
            axes: geometry.axes(),
            plans,
            orders,
            prepared,
            source,
            interpolated,
            coded: Vec::new(),
        }
    }

    pub(super) fn into_memory(self) -> TileMemory<T> {
        let Self { plans, orders, prepared, source, interpolated, .. } = self;
        TileMemory { plans, orders, prepared, source, interpolated }
    }

    /// Calls `code` for up to [`LANES`] selected tiles of the same extents at a time, after reading their elements.
    pub(super) fn for_batches(
        &mut self,
        geometry: &Geometry,
        source: &dyn ElementSource,
        (tiles, bytes): (&[Tile], &mut Vec<u8>),
        wanted: impl Fn(&Tile) -> bool,
        mut code: impl FnMut(&mut Self, &[Tile]),
    ) -> Result<()> {
        let mut batch: Vec<Tile> = Vec::with_capacity(LANES);
        for run in tiles.chunk_by(|a, b| a.origin[..3] == b.origin[..3]) {
            if !run.iter().any(&wanted) {
                continue;
            }
            let window = source.window(geometry, run, bytes)?;
            let mut selected = run.iter().filter(|tile| wanted(tile)).peekable();
            while let Some(tile) = selected.next() {
                if let Some(next) = selected.peek() {
                    window.prefetch(next, size_of::<T>());
                }
                if batch.len() == LANES || batch.first().is_some_and(|first| first.extent != tile.extent) {
                    code(self, &batch);
                    batch.clear();
                }
                window.gather(tile, &mut self.prepared[batch.len()].x);
                batch.push(*tile);
            }
        }
        if !batch.is_empty() {
            code(self, &batch);
        }
        Ok(())
    }

    /// Quantizes tiles whose elements are read.
    pub(super) fn quantize(&mut self, tiles: &[Tile]) {
        for (tile, prepared) in tiles.iter().zip(&mut self.prepared) {
            let count = tile.len();
            let q = &mut prepared.q[..count];
            prepared.quantized = self.quantizer.quantize(tile, &prepared.x[..count], q);
            let base = q[0];
            // The codes replace the integers.
            prepared.codes[..count].iter_mut().zip(&*q).for_each(|(out, q)| *out = q.wrapping_sub(base));
        }
    }

    /// Returns the costs of a tile that is quantized under each Lorenzo predictor, verbatim values included.
    pub(super) fn lorenzo_costs(&mut self, lane: usize, tile: &Tile) -> [u32; orders::PREDICTORS] {
        let Self { prepared, orders: scratch, axes, .. } = self;
        let prepared = &mut prepared[lane];
        let verbatim = verbatim_cost::<T>(&prepared.quantized.exact);
        let costs = orders::costs(&prepared.codes[..tile.len()], tile.extent, *axes, scratch);
        let costs = costs.map(|cost| cost.saturating_add(verbatim));
        prepared.cost = costs.iter().copied().min().unwrap_or(u32::MAX);
        costs
    }

    /// Predicts tiles that are quantized by the cheapest of the listed Lorenzo predictors.
    pub(super) fn predict(&mut self, tiles: &[Tile], list: &[u8]) {
        for (tile, prepared) in tiles.iter().zip(&mut self.prepared) {
            let integers = &mut prepared.codes[..tile.len()];
            let (predictor, cost, codes) = orders::predict(integers, tile.extent, list, &mut self.orders);
            integers.copy_from_slice(codes);
            prepared.predictor = predictor;
            prepared.cost = cost + verbatim_cost::<T>(&prepared.quantized.exact);
        }
    }

    /// Interpolates tiles that are quantized, whose costs are those of Lorenzo prediction.
    pub(super) fn interpolate(&mut self, scheme: Scheme, tiles: &[Tile]) -> [Outcome; LANES] {
        let (Some(interpolation), Quantizer::Linear(linear)) = (&self.interpolation, &self.quantizer.quantizer) else {
            return [Outcome::none(); LANES];
        };
        let count = tiles[0].len();
        let prepared = &self.prepared[..tiles.len()];
        // Nothing costs less than nothing.
        if prepared.iter().all(|prepared| prepared.cost == 0) {
            return [Outcome::none(); LANES];
        }
        let plan = self.plans.get(scheme, tiles[0].extent);
        transpose(&mut self.source, prepared, count, plan.anchors());
        let bases: [i32; LANES] = std::array::from_fn(|lane| prepared.get(lane).map_or(0, |prepared| prepared.q[0]));
        let anchor = |lane: usize, integer: i32| linear.value(integer.wrapping_add(bases[lane]));
        interpolation.encode(plan, &self.source, anchor, &mut self.interpolated);
        let costs = lane_costs(plan, &self.interpolated.codes[..count]);
        std::array::from_fn(|lane| {
            let Some(Prepared { quantized, .. }) = prepared.get(lane) else { return Outcome::default() };
            let mut exact = quantized.foreign;
            if quantized.exact.any() {
                let anchors = plan.anchors().iter().map(|&place| usize::from(place));
                anchors.filter(|&place| quantized.exact.get(place)).for_each(|place| exact.set(place));
            }
            if self.interpolated.any_missed[lane] {
                let others = plan.points().iter().map(|point| usize::from(point.place));
                others.filter(|&place| self.interpolated.missed[place][lane] != 0).for_each(|place| exact.set(place));
            }
            let cost = if quantized.is_empty { u32::MAX } else { costs[lane] + verbatim_cost::<T>(&exact) };
            Outcome { cost, exact, excluded: quantized.not_coded().union(&exact) }
        })
    }
}

/// Puts tiles side by side. Lanes without a tile repeat the first one.
fn transpose<T: Real>(source: &mut Source<T, LANES>, tiles: &[Prepared<T>], count: usize, anchors: &[u16]) {
    let tile = |lane: usize| tiles.get(lane).unwrap_or(&tiles[0]);
    interleave(std::array::from_fn(|lane| &tile(lane).x[..count]), &mut source.x[..], count);
    for lane in 0..LANES {
        let q = &tile(lane).q;
        let base = q[0];
        for place in anchors.iter().map(|&place| usize::from(place)) {
            source.q[place][lane] = q[place].wrapping_sub(base);
        }
    }
    source.any_excluded = tiles.iter().any(|tile| tile.quantized.excluded.any());
    if source.any_excluded {
        source.excluded.fill(0);
        for lane in 0..LANES {
            tile(lane).quantized.not_coded().ones().for_each(|i| source.excluded[i] |= 1 << lane);
        }
    }
}

/// Returns the sum of the costs of the codes in each lane: each anchor alone, the others of a line in groups of four.
fn lane_costs<T: Real>(plan: &Plan<T>, codes: &[[i32; LANES]]) -> [u32; LANES] {
    let mut sums = [0; LANES];
    for &code in plan.anchor_codes() {
        add_cost(&mut sums, &[code], codes);
    }
    let mut points = plan.points();
    let mut places = [0; COST_GROUP];
    for &length in plan.lines() {
        let (line, rest) = points.split_at(usize::from(length));
        for group in line.chunks(COST_GROUP) {
            places.iter_mut().zip(group).for_each(|(place, point)| *place = point.code);
            add_cost(&mut sums, &places[..group.len()], codes);
        }
        points = rest;
    }
    sums
}

dispatched! {
    /// Adds the cost of a group of codes in each lane.
    fn add_cost(sums: &mut [u32; LANES], group: &[u16], codes: &[[i32; LANES]]) = add_cost_body
}

#[inline(always)]
fn add_cost_body(sums: &mut [u32; LANES], group: &[u16], codes: &[[i32; LANES]]) {
    let mut products = [1.0; LANES];
    for &code in group {
        let codes = codes[usize::from(code)].map(cost_factor);
        products.iter_mut().zip(codes).for_each(|(product, factor)| *product *= factor);
    }
    sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product_cost(product));
}
