//! What a sample of a chunk's tiles decides: predictors, the interpolation scheme, classes, and codebooks.

use super::quantize_tile::QuantizedTile;
use super::tile_coder::TileCoder;
use crate::container::{INTERPOLATED, MAX_CLASSES};
use crate::error::Result;
use crate::geometry::{Geometry, MAX_TILE_ELEMENTS, Tile};
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::LengthScratch;
use crate::pipeline::ElementSource;
use crate::predict::interpolate::Scheme;
use crate::predict::orders::{COST_LOG2, MOST_LISTED, PREDICTORS, predictors};
use crate::quantize::Real;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::strips::{Counts, Encoder, STRIP_LEN, Strip, build};

/// Predictors, scheme, and classes are chosen by one of so many consecutive tiles, but by at least [`FEWEST_CHOOSING`].
pub const CHOOSING_STEP: usize = 64;
/// See [`CHOOSING_STEP`].
pub const FEWEST_CHOOSING: usize = 64;
/// Codebooks are made from one of so many consecutive tiles, but from at least [`FEWEST_COUNTED`].
pub const COUNTED_STEP: usize = 16;
/// See [`COUNTED_STEP`].
pub const FEWEST_COUNTED: usize = 256;

/// Returns whether a tile is in the sample of a chunk of `tiles` tiles: one of each lot of a power of two, at most `step`
/// and such that there are at least `fewest` lots, or one tile.
fn is_sampled(number: usize, tiles: usize, step: usize, fewest: usize) -> bool {
    let lot_len = step.min((tiles / fewest).max(1));
    let lot_len = 1 << lot_len.ilog2();
    let lot = (number / lot_len) as u32;
    // Places in the lots change, so that a sample does not follow the rows of tiles.
    let place = (u64::from(lot.wrapping_mul(2_654_435_769)) * lot_len as u64) >> 32;
    number % lot_len == place as usize
}

/// Returns whether every tile is in the sample for codebooks.
fn is_complete(tiles: usize) -> bool {
    tiles < 2 * FEWEST_COUNTED
}

/// How the tiles of a chunk are predicted, and which class they have.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The Lorenzo predictors.
    pub(super) predictors: Vec<u8>,
    /// The interpolation scheme, if there is one.
    pub(super) scheme: Option<Scheme>,
    /// The smallest costs of the second class and those after it, in bits.
    thresholds: [u32; MAX_CLASSES - 1],
}

impl Choice {
    /// Returns the class of a tile of this cost.
    pub(super) fn class(&self, cost: u32) -> usize {
        self.thresholds.iter().filter(|&&threshold| cost >> COST_LOG2 >= threshold).count()
    }
}

/// Chooses the predictors, the scheme, and the classes.
pub(super) fn choose<T: Real>(
    coder: &mut TileCoder<T>,
    geometry: &Geometry,
    source: &dyn ElementSource,
    (tiles, bytes): (&[Tile], &mut Vec<u8>),
) -> Result<Choice> {
    let first = tiles.first().map_or(0, |tile| tile.number);
    let is_choosing =
        |tile: &Tile| is_sampled((tile.number - first) as usize, tiles.len(), CHOOSING_STEP, FEWEST_CHOOSING);
    let candidates = Scheme::candidates(coder.axes);
    let candidates = if coder.interpolation.is_some() { candidates } else { &[] };
    let mut sampled: Vec<SampledTile> = Vec::new();
    coder.for_batches(geometry, source, (tiles, bytes), is_choosing, |coder, batch| {
        coder.quantize(batch);
        let start = sampled.len();
        for (lane, tile) in batch.iter().enumerate() {
            let lorenzo = coder.lorenzo_costs(lane, tile);
            sampled.push(SampledTile { lorenzo, ..SampledTile::default() });
        }
        for (number, &scheme) in candidates.iter().enumerate() {
            let outcomes = coder.interpolate(scheme, batch);
            sampled[start..].iter_mut().zip(outcomes).for_each(|(tile, outcome)| tile.schemes[number] = outcome.cost);
        }
    })?;
    let list = list_predictors(&sampled, coder.axes);
    let lorenzo = |tile: &SampledTile| list.iter().map(|&p| tile.lorenzo[usize::from(p)]).min().unwrap_or(u32::MAX);
    let sum = |cost: &dyn Fn(&SampledTile) -> u32| sampled.iter().map(|tile| u64::from(cost(tile))).sum::<u64>();
    let without = sum(&lorenzo);
    let sums = candidates
        .iter()
        .enumerate()
        .map(|(number, &scheme)| (sum(&|tile| lorenzo(tile).min(tile.schemes[number])), number, scheme));
    // Interpolation takes longer, so it has to save more than 1 %.
    let best = sums.min_by_key(|&(sum, number, _)| (sum, number)).filter(|&(sum, ..)| sum * 100 < without * 99);
    let cost = |tile: &SampledTile| lorenzo(tile).min(best.map_or(u32::MAX, |(_, number, _)| tile.schemes[number]));
    let mut costs: Vec<u32> = sampled.iter().map(|tile| cost(tile) >> COST_LOG2).filter(|&cost| cost > 0).collect();
    costs.sort_unstable();
    let quartile = |number: usize| costs.get(costs.len() * number / MAX_CLASSES).copied().unwrap_or(u32::MAX);
    Ok(Choice {
        predictors: list,
        scheme: best.map(|(.., scheme)| scheme),
        thresholds: [quartile(1), quartile(2), quartile(3)],
    })
}

/// The costs of a sampled tile.
#[derive(Clone, Copy, Default)]
struct SampledTile {
    lorenzo: [u32; PREDICTORS],
    schemes: [u32; 8],
}

/// Returns up to three predictors. Each next one makes the sum of the costs of the sampled tiles the smallest, if each
/// tile takes the cheapest.
fn list_predictors(sampled: &[SampledTile], axes: usize) -> Vec<u8> {
    let mut list = Vec::new();
    let mut cheapest = vec![u32::MAX; sampled.len()];
    while list.len() < MOST_LISTED {
        let sum = |&predictor: &u8| -> u64 {
            let costs = sampled.iter().zip(&cheapest);
            costs.map(|(tile, &cost)| u64::from(cost.min(tile.lorenzo[usize::from(predictor)]))).sum()
        };
        let before: u64 = cheapest.iter().map(|&cost| u64::from(cost)).sum();
        let next = predictors(axes).map(|predictor| (sum(&predictor), predictor)).min();
        match next {
            Some((sum, predictor)) if sum < before || list.is_empty() => {
                list.push(predictor);
                for (cheapest, tile) in cheapest.iter_mut().zip(sampled) {
                    *cheapest = (*cheapest).min(tile.lorenzo[usize::from(predictor)]);
                }
            }
            _ => break,
        }
    }
    list
}

/// The codebooks of a chunk.
#[derive(Clone, Debug)]
pub(super) struct Codebooks {
    /// That of the codes, or those of their classes.
    pub(super) of_codes: Vec<Codebook>,
    /// That of the bitmaps.
    pub(super) of_bitmaps: Codebook,
}

/// Makes the codebooks of a chunk from the codes of a sample.
pub(super) fn make_codebooks<T: Real>(
    coder: &mut TileCoder<T>,
    geometry: &Geometry,
    source: &dyn ElementSource,
    (tiles, bytes): (&[Tile], &mut Vec<u8>),
    choice: &Choice,
    scratch: &mut LengthScratch,
) -> Result<Codebooks> {
    let first = tiles.first().map_or(0, |tile| tile.number);
    let is_counted = |tile: &Tile| {
        let number = (tile.number - first) as usize;
        is_complete(tiles.len()) || is_sampled(number, tiles.len(), COUNTED_STEP, FEWEST_COUNTED)
    };
    let mut counts: [Counts; MAX_CLASSES] = Default::default();
    let mut of_bitmaps = Counts::default();
    let (mut sampled, mut live) = (0u64, 0u64);
    coder.for_batches(geometry, source, (tiles, bytes), is_counted, |coder, batch| {
        coder.quantize(batch);
        coder.code(batch, choice, |coder, tile| {
            sampled += 1;
            live += u64::from(!tile.is_constant);
            coder.prepared[tile.lane].quantized.for_bitmap_strips(tile.extent, |strip| of_bitmaps.add(strip));
            let counts = &mut counts[choice.class(tile.cost)];
            tile.for_strips(|strip| counts.add(strip));
        });
    })?;
    let is_sample = !is_complete(tiles.len());
    let mut all = Counts::default();
    counts.iter().for_each(|counts| all.merge(counts));
    let one = vec![build(&all, is_sample, scratch)];
    let four: Vec<Codebook> = counts.iter().map(|counts| build(counts, is_sample, scratch)).collect();
    let of_chunk = |bits: u64| bits * tiles.len() as u64;
    let of_books = |books: &[Codebook]| -> u64 {
        let mut bytes = Vec::new();
        books.iter().for_each(|book| book.write(&mut bytes));
        8 * bytes.len() as u64 * sampled
    };
    let bits_of_one = of_chunk(all.bits(&Encoder::new(&one[0]))) + of_books(&one);
    let bits_of_four = counts.iter().zip(&four).map(|(counts, book)| counts.bits(&Encoder::new(book))).sum::<u64>();
    let bits_of_four = of_chunk(bits_of_four + 2 * live) + of_books(&four);
    let of_codes = if bits_of_four < bits_of_one { four } else { one };
    Ok(Codebooks { of_codes, of_bitmaps: build(&of_bitmaps, is_sample, scratch) })
}

impl<T: Real> TileCoder<'_, T> {
    /// Codes tiles that are quantized with the cheaper of Lorenzo prediction and the scheme. Calls `put` with the lane
    /// and the result of each.
    pub(super) fn code(&mut self, tiles: &[Tile], choice: &Choice, mut put: impl FnMut(&mut Self, CodedTile<'_>)) {
        let (extent, count) = (tiles[0].extent, tiles[0].len());
        self.predict(tiles, &choice.predictors);
        let outcomes = choice.scheme.map(|scheme| self.interpolate(scheme, tiles));
        let mut codes = std::mem::take(&mut self.coded);
        codes.resize(count, 0);
        for lane in 0..tiles.len() {
            let prepared = &self.prepared[lane];
            let outcome = outcomes.as_ref().map(|outcomes| &outcomes[lane]);
            let outcome = outcome.filter(|outcome| outcome.cost < prepared.cost).copied();
            let coded = match outcome {
                Some(outcome) => {
                    let of_lane = self.interpolated.codes[..count].iter().map(|codes| codes[lane]);
                    codes.iter_mut().zip(of_lane).for_each(|(out, code)| *out = code);
                    CodedTile {
                        lane,
                        extent,
                        codes: &codes,
                        cost: outcome.cost,
                        interpolated: Some(outcome),
                        is_constant: false,
                    }
                }
                None => {
                    codes.copy_from_slice(&prepared.codes[..count]);
                    let is_constant = codes.iter().all(|&code| code == 0);
                    CodedTile { lane, extent, codes: &codes, cost: prepared.cost, interpolated: None, is_constant }
                }
            };
            put(self, coded);
        }
        self.coded = codes;
    }
}

/// A tile that is coded.
pub(super) struct CodedTile<'c> {
    pub(super) lane: usize,
    pub(super) extent: [usize; 3],
    /// In the order of the strips.
    pub(super) codes: &'c [i32],
    pub(super) cost: u32,
    /// What interpolation made of it, if it is interpolated.
    pub(super) interpolated: Option<super::tile_coder::Outcome>,
    /// Whether all codes are 0 and the tile is not interpolated.
    pub(super) is_constant: bool,
}

/// From this average cost of its codes in bits on, a tile is dense: the numerator and the denominator.
const DENSE_COST: [usize; 2] = [3, 2];

impl<'c> CodedTile<'c> {
    /// Calls `put` with each strip of the codes of the tile, unless it is constant.
    pub(super) fn for_strips(&self, put: impl FnMut(Strip<'c>)) {
        if self.is_constant {
            return;
        }
        let [numerator, denominator] = DENSE_COST;
        let is_dense = self.cost as usize * denominator >= (self.codes.len() * numerator) << COST_LOG2;
        self.codes.chunks(STRIP_LEN).map(|codes| Strip { codes, is_dense }).for_each(put);
    }

    /// Returns the predictor of the tile in a stream.
    pub(super) fn predictor(&self, of_list: u8) -> u8 {
        match (self.is_constant, &self.interpolated) {
            (true, _) => 0,
            (_, Some(_)) => INTERPOLATED,
            (_, None) => of_list,
        }
    }
}

impl QuantizedTile {
    /// Calls `put` with each strip of the bitmaps of a tile of these extents: those of the mask, then those of the signs.
    pub(super) fn for_bitmap_strips(&self, extent: [usize; 3], mut put: impl FnMut(Strip<'_>)) {
        for (kind, bitmap) in [(self.meta.mask, &self.mask), (self.meta.sign, &self.negative)] {
            if kind == MaskKind::Bitmap {
                let mut codes = [0; TileMask::codes_of(MAX_TILE_ELEMENTS)];
                let codes = &mut codes[..TileMask::codes_of(extent.iter().product())];
                bitmap.to_codes(extent, codes);
                codes.chunks(STRIP_LEN).for_each(|codes| put(Strip { codes, is_dense: false }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_has_one_tile_of_each_lot() {
        assert!((0..511).all(|number| is_sampled(number, 511, COUNTED_STEP, FEWEST_COUNTED)));
        for (tiles, step) in [(512, 2), (1024, 4), (2048, 8), (5000, 16), (100_000, 16)] {
            let numbers: Vec<usize> =
                (0..tiles).filter(|&number| is_sampled(number, tiles, COUNTED_STEP, FEWEST_COUNTED)).collect();
            assert!((tiles / step..=tiles / step + 1).contains(&numbers.len()));
            assert!(numbers.iter().enumerate().all(|(lot, number)| number / step == lot));
            let places: std::collections::HashSet<usize> = numbers.iter().map(|number| number % step).collect();
            assert_eq!(places.len(), step);
        }
    }
}
