//! What a sample of a chunk's tiles decides: predictors, the interpolation scheme, classes, and codebooks.

use super::quantize_tile::QuantizedTile;
use super::tile_coder::{Prediction, Prepared, TileCoder};
use crate::bits::intervals::place_in_interval;
use crate::container::MAX_CLASSES;
use crate::error::Result;
use crate::geometry::{Geometry, MAX_TILE_ELEMENTS, Tile};
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::LengthScratch;
use crate::pipeline::ElementSource;
use crate::predict::costs::COST_LOG2;
use crate::predict::interpolate::Scheme;
use crate::predict::orders::{MOST_LISTED, predictors};
use crate::predict::residuals::Costs;
use crate::quantize::Real;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::strips::{Counts, Encoder, Frequencies, STRIP_LEN, Strip, build};

/// Predictors, scheme, and classes are chosen by one of so many consecutive tiles, but by at least [`FEWEST_CHOOSING`].
pub const CHOOSING_STEP: usize = 64;
/// See [`CHOOSING_STEP`].
pub const FEWEST_CHOOSING: usize = 64;
/// Codebooks are made from one of so many consecutive tiles, but from at least [`FEWEST_COUNTED`].
pub const COUNTED_STEP: usize = 16;
/// See [`COUNTED_STEP`].
pub const FEWEST_COUNTED: usize = 256;

/// Returns whether a tile is in the sample of a chunk of `tiles` tiles: one of each interval of a power of two, at most
/// `step` and such that there are at least `fewest` intervals, or one tile.
fn is_sampled(number: usize, tiles: usize, step: usize, fewest: usize) -> bool {
    let interval_len = step.min((tiles / fewest).max(1));
    let interval_len = 1 << interval_len.ilog2();
    // Places in the intervals change, so that a sample does not follow the rows of tiles.
    (number % interval_len) as u64 == place_in_interval((number / interval_len) as u32, interval_len as u64)
}

/// Returns whether every tile is in the sample for codebooks.
pub(super) fn is_complete(tiles: usize) -> bool {
    tiles < 2 * FEWEST_COUNTED
}

/// Returns whether a tile of a chunk of `tiles` tiles is in the sample for codebooks.
pub(super) fn is_counted(number: usize, tiles: usize) -> bool {
    is_complete(tiles) || is_sampled(number, tiles, COUNTED_STEP, FEWEST_COUNTED)
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
    let all: Vec<u8> = predictors(coder.axes).collect();
    let mut sampled: Vec<SampledTile> = Vec::new();
    coder.for_batches(geometry, source, (tiles, bytes), (is_choosing, !candidates.is_empty()), |coder, batch| {
        coder.quantize(batch);
        let start = sampled.len();
        for (lane, tile) in batch.iter().enumerate() {
            sampled.push(SampledTile { lorenzo: coder.lorenzo_costs(lane, tile, &all), schemes: [0; 8] });
        }
        if !candidates.is_empty() {
            coder.gather_lanes(batch);
        }
        for (number, &scheme) in candidates.iter().enumerate() {
            let costs = coder.interpolate(scheme, batch);
            sampled[start..].iter_mut().zip(costs).for_each(|(tile, cost)| tile.schemes[number] = cost);
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
    // Interpolation takes longer, so it has to save more than 4 %.
    let best = sums.min_by_key(|&(sum, number, _)| (sum, number)).filter(|&(sum, ..)| sum * 100 < without * 96);
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
struct SampledTile {
    lorenzo: Costs,
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

/// What the symbols of a sample of tiles tell.
#[derive(Default)]
pub(super) struct SampleCounts {
    classes: [Counts; MAX_CLASSES],
    bitmaps: Counts,
    /// Tiles, and those that are not constant.
    tiles: u64,
    varying: u64,
}

impl SampleCounts {
    /// Counts the symbols of a tile that is coded.
    pub(super) fn add<T: Real>(
        &mut self,
        tile: &Prepared<T>,
        extent: [usize; 3],
        prediction: Prediction,
        class: usize,
    ) {
        self.tiles += 1;
        self.varying += u64::from(!prediction.is_constant);
        tile.for_strips(extent, prediction, |strip, is_bitmap| {
            let counts = if is_bitmap { &mut self.bitmaps } else { &mut self.classes[class] };
            counts.add(strip);
        });
    }

    /// Makes the codebooks of a chunk of `tiles` tiles: one or one for each class, and that of bitmaps.
    pub(super) fn codebooks(&self, tiles: usize, scratch: &mut LengthScratch) -> Codebooks {
        let is_sample = !is_complete(tiles);
        let classes = self.classes.each_ref().map(Counts::frequencies);
        let one = Frequencies::sum(&classes);
        let books_of_one = vec![build(&one, is_sample, scratch)];
        let of_codes = match classes.iter().filter(|frequencies| frequencies.total() > 0).count() {
            // The codebook of the only class is that of all.
            0 | 1 => books_of_one,
            _ => {
                let books_of_four: Vec<Codebook> =
                    classes.iter().map(|frequencies| build(frequencies, is_sample, scratch)).collect();
                let bits_of_one = self.bits_of_chunk(tiles, std::slice::from_ref(&one), &books_of_one);
                let bits_of_four =
                    self.bits_of_chunk(tiles, &classes, &books_of_four) + 2 * self.varying * tiles as u64;
                if bits_of_four < bits_of_one { books_of_four } else { books_of_one }
            }
        };
        let bitmaps = self.bitmaps.frequencies();
        let of_bitmaps = match is_sample || bitmaps.total() > 0 {
            true => build(&bitmaps, is_sample, scratch),
            false => Codebook::default(),
        };
        Codebooks { of_codes, of_bitmaps }
    }

    /// Returns the bits that a chunk of so many tiles takes by the sample with these codebooks, times the tiles of the
    /// sample.
    fn bits_of_chunk(&self, tiles: usize, frequencies: &[Frequencies], books: &[Codebook]) -> u64 {
        let of_class = |(frequencies, book): (&Frequencies, _)| frequencies.bits(&Encoder::new(book));
        let bits: u64 = frequencies.iter().zip(books).map(of_class).sum();
        let mut bytes = Vec::new();
        books.iter().for_each(|book| book.write(&mut bytes));
        bits * tiles as u64 + 8 * bytes.len() as u64 * self.tiles
    }
}

/// From this average cost of its codes in bits on, a tile is dense: the numerator and the denominator.
const DENSE_COST: [usize; 2] = [3, 2];

impl<T: Real> Prepared<T> {
    /// Calls `put` with each strip of a tile of these extents, and whether it is one of a bitmap: those of the mask,
    /// those of the signs, and those of the codes unless the tile is constant.
    pub(super) fn for_strips(&self, extent: [usize; 3], prediction: Prediction, mut put: impl FnMut(Strip<'_>, bool)) {
        let count: usize = extent.iter().product();
        let QuantizedTile { info, mask, negative, .. } = &self.quantized;
        for (kind, bitmap) in [(info.mask, mask), (info.sign, negative)] {
            if kind == MaskKind::Bitmap {
                let mut codes = [0; TileMask::codes_of(MAX_TILE_ELEMENTS)];
                let codes = &mut codes[..TileMask::codes_of(count)];
                bitmap.to_codes(extent, codes);
                codes.chunks(STRIP_LEN).for_each(|codes| put(Strip { codes, is_dense: false }, true));
            }
        }
        if !prediction.is_constant {
            let [numerator, denominator] = DENSE_COST;
            let is_dense = prediction.cost as usize * denominator >= (count * numerator) << COST_LOG2;
            self.codes[..count].chunks(STRIP_LEN).for_each(|codes| put(Strip { codes, is_dense }, false));
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
            assert!(numbers.iter().enumerate().all(|(interval, number)| number / step == interval));
            let places: std::collections::HashSet<usize> = numbers.iter().map(|number| number % step).collect();
            assert_eq!(places.len(), step);
        }
    }
}
