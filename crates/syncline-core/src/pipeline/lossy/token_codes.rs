//! Chunks with token codebooks: each tile by the cheaper of Lorenzo prediction and the chunk's interpolation scheme.

use super::quantize_tile::{QuantizedTile, Quantizer, TileQuantizer};
use super::{Coding, write_sections};
use crate::bound::ErrorSummary;
use crate::container::{ChunkKind, Header};
use crate::error::Result;
use crate::geometry::{Geometry, MAX_TILE_ELEMENTS, Tile};
use crate::pipeline::{ElementSource, EncodeScratch};
use crate::predict::interpolate::{INTERPOLATION, Interpolation, Plans, Scheme};
use crate::predict::orders;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::quantize::{Linear, Real};
use crate::tokens;

/// A sample has one tile of so many consecutive ones, if there are enough of them.
const SAMPLE_STEP: usize = 8;
/// Chunks with fewer tiles are their own sample.
const FEWEST_SAMPLED: usize = 8 * SAMPLE_STEP;

/// Memory that is kept from chunk to chunk.
#[derive(Debug, Default)]
pub(super) struct EncodeBuffers {
    codes: Codes,
    /// Of the sample, for no scheme and for each.
    samples: [Codes; 1 + Scheme::ALL.len()],
    tokens: tokens::EncodeScratch,
}

/// Codes of tiles.
#[derive(Debug, Default)]
struct Codes {
    codes: Vec<i32>,
    /// End of each group.
    ends: Vec<u32>,
    /// Verbatim values.
    verbatim: u64,
}

impl Codes {
    fn clear(&mut self) {
        self.codes.clear();
        self.ends.clear();
        self.verbatim = 0;
    }

    fn push(&mut self, codes: &[i32], group_len: usize) {
        for group in codes.chunks(group_len) {
            self.codes.extend_from_slice(group);
            self.ends.push(self.codes.len() as u32);
        }
    }
}

/// Appends the record of a chunk with token codebooks.
pub(super) fn encode<T: Real, S: ElementSource + ?Sized>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &S,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<ErrorSummary> {
    let mut encoder = TileCoder::<T>::new(header, geometry);
    let mut memory = std::mem::take(&mut scratch.quantized.token_codes);
    let scheme = match encoder.interpolation {
        Some(_) => choose_scheme(&mut encoder, geometry, source, scratch, &mut memory)?,
        None => None,
    };
    let buffers = &mut scratch.quantized;
    buffers.clear();
    memory.codes.clear();
    encoder.restart();
    for run in scratch.tiles.chunk_by(|a, b| a.origin[..3] == b.origin[..3]) {
        let window = source.window(geometry, run, &mut scratch.window)?;
        for (number, tile) in run.iter().enumerate() {
            if let Some(next) = run.get(number + 1) {
                window.prefetch(next, size_of::<T>());
            }
            window.gather(tile, &mut encoder.tiles.x);
            encoder.tile(tile, scheme, buffers, &mut memory.codes);
        }
    }
    let EncodeScratch { tiles, huffman, quantized: buffers, .. } = scratch;
    let scheme = Some(scheme.map_or(0, |scheme| scheme as u32));
    let coding = Coding { kind: ChunkKind::TokenCodes, radius: 0, classes: false, scheme, outliers: &[] };
    let EncodeBuffers { codes, tokens, .. } = &mut memory;
    write_sections(header, chunk, &coding, tiles, (buffers, huffman), out, |out, _| {
        tokens::encode(&codes.codes, &codes.ends, tokens, out);
    });
    scratch.quantized.token_codes = memory;
    Ok(encoder.tiles.summary)
}

/// Finds the scheme with which a sample of the chunk's tiles takes the fewest bits; none if Lorenzo prediction alone takes
/// no more.
fn choose_scheme<T: Real, S: ElementSource + ?Sized>(
    encoder: &mut TileCoder<T>,
    geometry: &Geometry,
    source: &S,
    scratch: &mut EncodeScratch,
    memory: &mut EncodeBuffers,
) -> Result<Option<Scheme>> {
    memory.samples.iter_mut().for_each(Codes::clear);
    let EncodeScratch { tiles, window: bytes, quantized: buffers, .. } = scratch;
    for number in sample(tiles.len()) {
        let tile = &tiles[number];
        let window = source.window(geometry, std::slice::from_ref(tile), bytes)?;
        window.gather(tile, &mut encoder.tiles.x);
        encoder.sample(tile, buffers, &mut memory.samples);
    }
    let bits_of_verbatim = 8 * (4 + size_of::<T>() as u64);
    let schemes = std::iter::once(None).chain(Scheme::of(encoder.axes).iter().copied().map(Some));
    let sizes = schemes.zip(&memory.samples).map(|(scheme, codes)| {
        let bits = tokens::estimate(&codes.codes, &codes.ends, &mut memory.tokens);
        (scheme, bits + bits_of_verbatim * codes.verbatim)
    });
    Ok(sizes.min_by_key(|&(_, bits)| bits).and_then(|(scheme, _)| scheme))
}

/// The numbers of the tiles in the sample of a chunk of so many.
fn sample(tiles: usize) -> impl Iterator<Item = usize> {
    let step = if tiles < FEWEST_SAMPLED { 1 } else { SAMPLE_STEP };
    (0..tiles.div_ceil(step)).filter_map(move |lot| {
        // Places in the lots change, so that a sample does not follow the rows of tiles.
        let place = u64::from((lot as u32).wrapping_mul(2_654_435_769)) * step as u64 >> 32;
        Some(lot * step + place as usize).filter(|&number| number < tiles)
    })
}

/// Codes tiles one after another.
struct TileCoder<'a, T: Real> {
    tiles: TileQuantizer<'a, T>,
    axes: usize,
    group_len: usize,
    /// `None` in pipelines that have none.
    interpolation: Option<Interpolation<T>>,
    plans: Plans<T>,
    /// Elements of the tiles before.
    position: u32,
}

/// A tile under one kind of prediction.
struct Candidate {
    predictor: u8,
    codes: [i32; MAX_TILE_ELEMENTS],
    cost: u32,
}

/// An interpolated tile.
struct Interpolated<T> {
    candidate: Candidate,
    values: [T; MAX_TILE_ELEMENTS],
    /// Elements that must be verbatim.
    exact: TileMask,
    /// Elements that are verbatim or masked.
    excluded: TileMask,
}

/// What a verbatim value adds to the cost of a tile.
const fn verbatim_cost<T>() -> u32 {
    (8 * (4 + size_of::<T>() as u32)) << orders::COST_LOG2
}

impl<'a, T: Real> TileCoder<'a, T> {
    fn new(header: &'a Header, geometry: &Geometry) -> Self {
        let tiles = TileQuantizer::new(header);
        let linear = matches!(tiles.quantizer, Quantizer::Linear(_));
        Self {
            interpolation: linear.then(|| Interpolation::new(header.step, header.abs_bound)),
            tiles,
            axes: geometry.axes(),
            group_len: tokens::GROUP_LEN,
            plans: Plans::new(geometry.axes()),
            position: 0,
        }
    }

    fn restart(&mut self) {
        self.tiles.base = 0;
        self.position = 0;
    }

    /// Codes a tile with Lorenzo prediction alone, and with each scheme where that is cheaper.
    fn sample(&mut self, tile: &Tile, buffers: &mut super::EncodeBuffers, samples: &mut [Codes]) {
        let quantized = self.tiles.quantize(tile, buffers);
        let count = tile.len();
        let lorenzo = self.lorenzo(tile, &quantized);
        let exact = quantized.exact.count() as u64;
        samples[0].push(&lorenzo.codes[..count], self.group_len);
        samples[0].verbatim += exact;
        for (&scheme, sample) in Scheme::of(self.axes).iter().zip(&mut samples[1..]) {
            let interpolated = self.interpolate(scheme, tile, &quantized);
            match interpolated.filter(|interpolated| interpolated.candidate.cost < lorenzo.cost) {
                Some(interpolated) => {
                    sample.push(&interpolated.candidate.codes[..count], self.group_len);
                    sample.verbatim += interpolated.exact.count() as u64;
                }
                None => {
                    sample.push(&lorenzo.codes[..count], self.group_len);
                    sample.verbatim += exact;
                }
            }
        }
    }

    /// Codes the next tile with the cheaper of Lorenzo prediction and the scheme.
    fn tile(&mut self, tile: &Tile, scheme: Option<Scheme>, buffers: &mut super::EncodeBuffers, codes: &mut Codes) {
        let count = tile.len();
        let quantized = self.tiles.quantize(tile, buffers);
        let lorenzo = self.lorenzo(tile, &quantized);
        let interpolated = scheme.and_then(|scheme| self.interpolate(scheme, tile, &quantized));
        let mut meta = quantized.meta;
        let (candidate, exact) = match &interpolated {
            Some(interpolated) if interpolated.candidate.cost < lorenzo.cost => {
                self.tiles.measure_values(&interpolated.values[..count], &interpolated.excluded);
                (&interpolated.candidate, interpolated.exact)
            }
            _ => {
                self.tiles.measure(count, &quantized.excluded);
                meta.constant = lorenzo.codes[..count].iter().all(|&code| code == 0);
                (&lorenzo, quantized.exact)
            }
        };
        if exact.any() {
            buffers.push_verbatim(self.position, &self.tiles.x, &exact);
        }
        if !meta.constant {
            meta.predictor = candidate.predictor;
            codes.push(&candidate.codes[..count], self.group_len);
        }
        self.tiles.base = self.tiles.q[0];
        self.position += count as u32;
        buffers.metas.push(meta);
        buffers.bases.push(self.tiles.base as u32);
    }

    fn lorenzo(&self, tile: &Tile, quantized: &QuantizedTile) -> Candidate {
        let count = tile.len();
        let mut codes = [0; MAX_TILE_ELEMENTS];
        let integers = self.relative_integers(count);
        let (predictor, cost) = orders::predict(&integers[..count], tile.extent, self.axes, &mut codes[..count]);
        Candidate { predictor, codes, cost: cost + verbatim_cost::<T>() * quantized.exact.count() as u32 }
    }

    /// The integers of the tile without its base.
    fn relative_integers(&self, count: usize) -> [i32; MAX_TILE_ELEMENTS] {
        let mut integers = [0; MAX_TILE_ELEMENTS];
        let base = self.tiles.q[0];
        integers[..count].iter_mut().zip(&self.tiles.q[..count]).for_each(|(out, q)| *out = q.wrapping_sub(base));
        integers
    }

    /// Returns `None` if the pipeline or the tile has no interpolation.
    fn interpolate(&mut self, scheme: Scheme, tile: &Tile, quantized: &QuantizedTile) -> Option<Interpolated<T>> {
        let (Some(interpolation), Quantizer::Linear(linear)) = (&self.interpolation, &self.tiles.quantizer) else {
            return None;
        };
        if quantized.meta.mask == MaskKind::All {
            return None;
        }
        let count = tile.len();
        let base = self.tiles.q[0];
        let integers = self.relative_integers(count);
        let plan = self.plans.get(scheme, tile.extent);
        // Values that Lorenzo prediction cannot have may be near enough to a prediction that is not quantized.
        let masked = quantized.excluded.without(&quantized.exact).union(&quantized.foreign);
        let mut exact = quantized.foreign;
        let mut codes = [0; MAX_TILE_ELEMENTS];
        let mut values = [T::from_bits(0); MAX_TILE_ELEMENTS];
        for &place in plan.anchors() {
            if quantized.exact.get(place.into()) {
                exact.set(place.into());
            }
        }
        interpolation.encode(
            plan,
            (&self.tiles.x[..count], &integers[..count]),
            &masked,
            |integer| linear.value(integer.wrapping_add(base)),
            &mut codes[..count],
            &mut exact,
            &mut values,
        );
        let cost = orders::total_cost(&codes[..count]) + verbatim_cost::<T>() * exact.count() as u32;
        let excluded = masked.union(&exact);
        Some(Interpolated { candidate: Candidate { predictor: INTERPOLATION, codes, cost }, values, exact, excluded })
    }
}

/// Reconstructs the elements of an interpolated tile from its codes, which it changes.
pub(super) fn decode_interpolated<T: Real>(
    interpolation: &Interpolation<T>,
    linear: &Linear<T>,
    plans: &mut Plans<T>,
    (scheme, tile, base): (Scheme, &Tile, i32),
    codes: &mut [i32],
    x: &mut [T],
) {
    let plan = plans.get(scheme, tile.extent);
    interpolation.decode(plan, codes, |integer| linear.value(integer.wrapping_add(base)), x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_an_eighth_of_many_tiles() {
        assert_eq!(sample(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let numbers: Vec<usize> = sample(1003).collect();
        assert!((1003 / 8..=1003 / 8 + 1).contains(&numbers.len()));
        assert!(numbers.iter().enumerate().all(|(lot, number)| number / 8 == lot));
        let places: std::collections::HashSet<usize> = numbers.iter().map(|number| number % 8).collect();
        assert_eq!(places.len(), 8);
    }
}
