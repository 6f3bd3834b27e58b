//! Chunks with token codebooks: each tile by the cheaper of Lorenzo prediction and the chunk's interpolation scheme.

use super::buffers::{Codes, EncodeBuffers, TokenCodeBuffers};
use super::quantize_tile::{QuantizedTile, Quantizer, TileQuantizer};
use super::reserved::reserved_patterns;
use super::{Coding, write_sections};
use crate::bound::ErrorSummary;
use crate::container::{ChunkKind, Header};
use crate::error::Result;
use crate::geometry::{Geometry, MAX_TILE_ELEMENTS, Tile};
use crate::huffman::IndexKind;
use crate::mem::kept::Kept;
use crate::pipeline::context::ElementSource;
use crate::pipeline::options::CoderOptions;
use crate::pipeline::scratch::EncodeScratch;
use crate::predict::interpolate::{
    Encoded, INTERPOLATION, Interpolation, Plans, Scheme, Source, deinterleave, interleave,
};
use crate::predict::orders;
use crate::quantize::Real;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::simd::dispatched;
use crate::tokens;

/// A sample has one tile of so many consecutive ones, if there are enough of them.
pub const SAMPLE_STEP: usize = 16;
/// Chunks with fewer tiles are their own sample.
pub const FEWEST_SAMPLED: usize = 8 * SAMPLE_STEP;

/// Appends the record of a chunk with token codebooks.
pub(super) fn encode<T: Real>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<ErrorSummary> {
    let mut memory = std::mem::take(&mut scratch.quantized.token_codes);
    let tile_memory = TileMemory::take(&mut memory.tiles, geometry.axes());
    let mut encoder = TileCoder::<T>::new(header, geometry, options, tile_memory);
    let EncodeScratch { tiles, window: bytes, quantized: buffers, .. } = &mut *scratch;
    let scheme = match encoder.interpolation {
        Some(_) => choose_scheme(&mut encoder, geometry, source, (tiles, bytes), buffers, &mut memory)?,
        None => None,
    };
    buffers.clear();
    memory.codes.restart(encoder.group_len);
    encoder.restart();
    encoder.for_batches(
        geometry,
        source,
        (tiles, bytes),
        |_| true,
        |encoder, batch| {
            encoder.prepare(batch, buffers);
            encoder.tiles(batch, scheme, buffers, &mut memory.codes);
        },
    )?;
    let EncodeScratch { tiles, huffman, quantized: buffers, .. } = scratch;
    let scheme = Some(scheme.map_or(0, |scheme| scheme as u32));
    let coding = Coding { kind: ChunkKind::TokenCodes, radius: 0, classes: false, scheme, outliers: &[] };
    let TokenCodeBuffers { codes, tokens, .. } = &mut memory;
    write_sections(header, chunk, &coding, tiles, (buffers, huffman), out, |out, _| {
        let has_index = header.index == IndexKind::Symbol;
        tokens::encode(&codes.codes, &codes.ends, has_index, tokens, out);
    });
    let summary = encoder.quantizer.summary;
    memory.tiles.keep(encoder.into_memory());
    scratch.quantized.token_codes = memory;
    Ok(summary)
}

/// Finds the scheme with which a sample of the chunk's tiles takes the fewest bits. Returns none if Lorenzo prediction
/// alone takes no more bits.
fn choose_scheme<T: Real>(
    encoder: &mut TileCoder<T>,
    geometry: &Geometry,
    source: &dyn ElementSource,
    (tiles, bytes): (&[Tile], &mut Vec<u8>),
    buffers: &mut EncodeBuffers,
    memory: &mut TokenCodeBuffers,
) -> Result<Option<Scheme>> {
    memory.samples.iter_mut().for_each(|codes| codes.restart(encoder.group_len));
    let first = tiles.first().map_or(0, |tile| tile.number);
    let is_sampled = |tile: &Tile| is_sampled((tile.number - first) as usize, tiles.len());
    encoder.for_batches(geometry, source, (tiles, bytes), is_sampled, |encoder, batch| {
        encoder.prepare(batch, buffers);
        encoder.sample(batch, &mut memory.samples);
    })?;
    let bits_of_verbatim = 8 * (4 + size_of::<T>() as u64);
    let schemes = std::iter::once(None).chain(Scheme::of(encoder.axes).iter().copied().map(Some));
    let sizes = schemes.zip(&memory.samples).map(|(scheme, codes)| {
        let bits = tokens::estimate(&codes.codes, &codes.ends, &mut memory.tokens);
        (scheme, bits + bits_of_verbatim * codes.verbatim)
    });
    Ok(sizes.min_by_key(|&(_, bits)| bits).and_then(|(scheme, _)| scheme))
}

/// Returns whether a tile is in the sample of a chunk of `tiles` tiles.
fn is_sampled(number: usize, tiles: usize) -> bool {
    if tiles < FEWEST_SAMPLED {
        return true;
    }
    let lot = (number / SAMPLE_STEP) as u32;
    // Places in the lots change, so that a sample does not follow the rows of tiles.
    let place = (u64::from(lot.wrapping_mul(2_654_435_769)) * SAMPLE_STEP as u64) >> 32;
    number % SAMPLE_STEP == place as usize
}

/// Tiles that are interpolated side by side.
const LANES: usize = 8;

/// Codes tiles one after another.
struct TileCoder<'a, T: Real> {
    quantizer: TileQuantizer<'a, T>,
    axes: usize,
    /// Codes of a group.
    group_len: usize,
    /// `None` in pipelines that have none.
    interpolation: Option<Interpolation<T>>,
    plans: Plans<T>,
    orders: orders::Scratch,
    prepared: Vec<Prepared<T>>,
    source: Source<T, LANES>,
    interpolated: Encoded<T, LANES>,
    /// Elements of the tiles before.
    position: u32,
}

/// Memory for the tiles that are coded side by side. Its contents are of no use for other tiles, except for the plans.
#[derive(Debug)]
struct TileMemory<T> {
    plans: Plans<T>,
    orders: orders::Scratch,
    prepared: Vec<Prepared<T>>,
    source: Source<T, LANES>,
    interpolated: Encoded<T, LANES>,
}

impl<T: Real> TileMemory<T> {
    /// Takes the memory that was kept, for tiles that extend along `axes` axes.
    fn take(kept: &mut Kept, axes: usize) -> Self {
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
struct Prepared<T> {
    x: [T; MAX_TILE_ELEMENTS],
    q: [i32; MAX_TILE_ELEMENTS],
    quantized: QuantizedTile,
    predictor: u8,
    codes: [i32; MAX_TILE_ELEMENTS],
    cost: u32,
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
struct Outcome {
    /// The cost as in [`Prepared::cost`]; the maximum if the tile is not interpolated.
    cost: u32,
    /// Elements that must be verbatim.
    exact: TileMask,
    /// Elements that are verbatim or masked.
    excluded: TileMask,
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
    fn new(header: &'a Header, geometry: &Geometry, options: &'a CoderOptions, memory: TileMemory<T>) -> Self {
        let TileMemory { plans, orders, prepared, source, interpolated } = memory;
        let quantizer = TileQuantizer::new(header);
        let interpolates = matches!(quantizer.quantizer, Quantizer::Linear(_)) && !options.rewritable;
        Self {
            interpolation: interpolates.then(|| {
                let reserved = reserved_patterns::<T>(header);
                Interpolation::new(header.step, header.abs_bound).with_reserved(&reserved)
            }),
            quantizer,
            axes: geometry.axes(),
            group_len: tokens::group_len(header.tile_size),
            plans,
            orders,
            prepared,
            source,
            interpolated,
            position: 0,
        }
    }

    fn into_memory(self) -> TileMemory<T> {
        let Self { plans, orders, prepared, source, interpolated, .. } = self;
        TileMemory { plans, orders, prepared, source, interpolated }
    }

    fn restart(&mut self) {
        self.quantizer.base = 0;
        self.position = 0;
    }

    /// Calls `code` for up to [`LANES`] selected tiles of the same extents at a time, after reading their elements.
    fn for_batches(
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

    /// Quantizes tiles whose elements are read, and predicts them by Lorenzo predictors.
    fn prepare(&mut self, tiles: &[Tile], buffers: &mut EncodeBuffers) {
        for (tile, prepared) in tiles.iter().zip(&mut self.prepared) {
            let count = tile.len();
            let q = &mut prepared.q[..count];
            prepared.quantized = self.quantizer.quantize(tile, &prepared.x[..count], q, buffers);
            let base = q[0];
            self.quantizer.base = base;
            // The codes replace the integers.
            let integers = &mut prepared.codes[..count];
            integers.iter_mut().zip(&*q).for_each(|(out, q)| *out = q.wrapping_sub(base));
            let (predictor, cost, codes) = orders::predict(integers, tile.extent, self.axes, &mut self.orders);
            integers.copy_from_slice(codes);
            prepared.predictor = predictor;
            prepared.cost = cost + verbatim_cost::<T>(&prepared.quantized.exact);
        }
    }

    /// Adds tiles that are prepared to the samples: by Lorenzo prediction alone, and by each scheme where that is
    /// cheaper.
    fn sample(&mut self, tiles: &[Tile], samples: &mut [Codes]) {
        let count = tiles[0].len();
        for prepared in &self.prepared[..tiles.len()] {
            samples[0].push(prepared.codes[..count].iter().copied());
            samples[0].verbatim += prepared.quantized.exact.count() as u64;
        }
        for (&scheme, sample) in Scheme::of(self.axes).iter().zip(&mut samples[1..]) {
            let outcomes = self.interpolate(scheme, tiles);
            for (lane, (prepared, outcome)) in self.prepared.iter().zip(outcomes).take(tiles.len()).enumerate() {
                if outcome.cost < prepared.cost {
                    sample.push(self.interpolated.codes[..count].iter().map(|codes| codes[lane]));
                    sample.verbatim += outcome.exact.count() as u64;
                } else {
                    sample.push(prepared.codes[..count].iter().copied());
                    sample.verbatim += prepared.quantized.exact.count() as u64;
                }
            }
        }
    }

    /// Codes the next tiles, which are prepared, with the cheaper of Lorenzo prediction and the scheme.
    fn tiles(&mut self, tiles: &[Tile], scheme: Option<Scheme>, buffers: &mut EncodeBuffers, codes: &mut Codes) {
        let count = tiles[0].len();
        let outcomes = scheme.map(|scheme| self.interpolate(scheme, tiles));
        let cheaper = |lane: usize, prepared: &Prepared<T>| {
            outcomes.as_ref().map(|outcomes| &outcomes[lane]).filter(|outcome| outcome.cost < prepared.cost)
        };
        // The codes of interpolation replace those of Lorenzo prediction where they are cheaper.
        let mut lanes = self.prepared.iter_mut().enumerate();
        let replaced = std::array::from_fn(|_| match lanes.next() {
            Some((lane, prepared)) if cheaper(lane, prepared).is_some() => &mut prepared.codes[..count],
            _ => &mut [],
        });
        deinterleave(&self.interpolated.codes[..], replaced);
        for (lane, prepared) in self.prepared[..tiles.len()].iter().enumerate() {
            let x = &prepared.x[..count];
            let mut meta = prepared.quantized.meta;
            let exact = match cheaper(lane, prepared) {
                Some(outcome) => {
                    meta.predictor = INTERPOLATION;
                    codes.push(prepared.codes[..count].iter().copied());
                    if self.quantizer.measures {
                        let values: Vec<T> = self.interpolated.values[..count].iter().map(|v| v[lane]).collect();
                        self.quantizer.measure_values(x, &values, &outcome.excluded);
                    }
                    outcome.exact
                }
                None => {
                    meta.constant = prepared.codes[..count].iter().all(|&code| code == 0);
                    if !meta.constant {
                        meta.predictor = prepared.predictor;
                        codes.push(prepared.codes[..count].iter().copied());
                    }
                    self.quantizer.measure(x, &prepared.q[..count], &prepared.quantized.excluded);
                    prepared.quantized.exact
                }
            };
            if exact.any() {
                buffers.push_verbatim(self.position, x, &exact);
            }
            self.position += count as u32;
            buffers.metas.push(meta);
            buffers.bases.push(prepared.q[0] as u32);
        }
    }

    /// Interpolates tiles that are prepared.
    fn interpolate(&mut self, scheme: Scheme, tiles: &[Tile]) -> [Outcome; LANES] {
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
        interleave_tiles(&mut self.source, prepared, count, plan.anchors());
        let bases: [i32; LANES] = std::array::from_fn(|lane| prepared.get(lane).map_or(0, |prepared| prepared.q[0]));
        let anchor = |lane: usize, integer: i32| linear.value(integer.wrapping_add(bases[lane]));
        interpolation.encode(plan, &self.source, anchor, &mut self.interpolated);
        let costs = lane_costs(&self.interpolated.codes[..count]);
        std::array::from_fn(|lane| {
            let Some(Prepared { quantized, .. }) = prepared.get(lane) else { return Outcome::default() };
            let mut exact = quantized.foreign;
            if quantized.exact.any() {
                let anchors = plan.anchors().iter().map(|&place| usize::from(place));
                anchors.filter(|&place| quantized.exact.get(place)).for_each(|place| exact.set(place));
            }
            if self.interpolated.any_missed[lane] {
                let others = (0..count).filter(|place| !plan.anchors().contains(&(*place as u16)));
                others.filter(|&place| self.interpolated.missed[place][lane] != 0).for_each(|place| exact.set(place));
            }
            let cost = match quantized.meta.mask {
                MaskKind::All => u32::MAX,
                _ => costs[lane] + verbatim_cost::<T>(&exact),
            };
            Outcome { cost, exact, excluded: quantized.not_coded().union(&exact) }
        })
    }
}

/// Puts tiles side by side. Lanes without a tile repeat the first one.
fn interleave_tiles<T: Real>(source: &mut Source<T, LANES>, tiles: &[Prepared<T>], count: usize, anchors: &[u16]) {
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

dispatched! {
    /// Returns the sum of the costs of the codes in each lane.
    fn lane_costs(codes: &[[i32; LANES]]) -> [u32; LANES] = lane_costs_body
}

#[inline(always)]
fn lane_costs_body(codes: &[[i32; LANES]]) -> [u32; LANES] {
    let mut sums = [0; LANES];
    for codes in codes {
        sums.iter_mut().zip(codes).for_each(|(sum, &code)| *sum += orders::cost(code));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_a_sixteenth_of_many_tiles() {
        assert!((0..127).all(|number| is_sampled(number, 127)));
        let numbers: Vec<usize> = (0..1003).filter(|&number| is_sampled(number, 1003)).collect();
        assert!((1003 / 16..=1003 / 16 + 1).contains(&numbers.len()));
        assert!(numbers.iter().enumerate().all(|(lot, number)| number / 16 == lot));
        let places: std::collections::HashSet<usize> = numbers.iter().map(|number| number % 16).collect();
        assert_eq!(places.len(), 16);
    }
}
