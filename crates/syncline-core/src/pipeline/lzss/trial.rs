//! Chooses a chunk's parameters from its sample alone, for other implementations of the pipeline.

use std::cell::RefCell;
use std::ops::Range;

use super::super::options::{Coder, CoderOptions};
use super::super::residuals::Residuals;
pub use super::cost_model::Strategy as LzssStrategy;
use super::cost_model::{ChunkModel, sample_runs};
use super::{Choice, EncodeBuffers, bytes_of};
use crate::array::ElementType;
use crate::geometry::{Geometry, Tile};
use crate::lzss::Params;
use crate::predict::word::Word;

/// Parameters of an LZSS chunk of a lossless stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssChoice {
    /// Whether the residuals are coded instead of the elements.
    pub of_residuals: bool,
    /// Parameters of the tokens.
    pub params: Params,
    /// Whether matches are searched; otherwise all symbols are literals.
    pub has_matches: bool,
    /// Whether planes of 16-bit symbols may be chosen instead of planes of bytes.
    pub has_words: bool,
}

/// Returns the tiles of a chunk's sample, as ranges of their numbers in the array.
pub fn lzss_sample(geometry: &Geometry, chunk: u64, element_bytes: usize, level: u8) -> Vec<Range<u64>> {
    let tiles = geometry.chunk_range(chunk);
    let first = geometry.range(tiles.clone()).next().map(|tile| tile.len());
    let runs = sample_runs((tiles.end - tiles.start) as usize, first, element_bytes, level);
    runs.into_iter().map(|run| tiles.start + run.start as u64..tiles.start + run.end as u64).collect()
}

/// A trial encoding of a chunk's sample: a strategy, and the number of the minimum match length among those that are
/// tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssTrial {
    /// The strategy.
    pub strategy: LzssStrategy,
    /// The number of the minimum match length.
    pub number: usize,
    /// Whether the trial is only needed if the strategies before it do not save enough. [`best_lzss`] accepts a missing
    /// estimate then.
    pub is_fallback: bool,
}

/// Returns all trials of a chunk of `elements` elements with `sampled` elements in its sample.
pub fn lzss_trials(element: ElementType, options: &CoderOptions, sampled: u64, elements: u64) -> Vec<LzssTrial> {
    let model = model(element.size(), options, sampled as usize, elements);
    let trials = |strategy| {
        (0..model.trials()).map(move |number| LzssTrial { strategy, number, is_fallback: model.is_fallback(strategy) })
    };
    model.strategies().into_iter().flat_map(trials).collect()
}

/// Returns the best choice, given the estimates of the trials of [`lzss_trials`] in the same order. Returns `None` if
/// an estimate that is needed is missing, or if their number is wrong.
pub fn best_lzss(
    element: ElementType,
    options: &CoderOptions,
    sampled: u64,
    elements: u64,
    estimates: &[Option<LzssEstimate>],
) -> Option<LzssChoice> {
    let model = model(element.size(), options, sampled as usize, elements);
    let (entropy_coded, trials) = (model.entropy_coded, model.trials());
    if estimates.len() != model.strategies().len() * trials {
        return None;
    }
    let choice = |estimates: LzssEstimate| {
        let LzssEstimate { choice: LzssChoice { of_residuals, params, has_matches, has_words }, bytes } = estimates;
        Choice { of_residuals, entropy_coded, params, has_matches, has_words, bytes, expected: bytes }
    };
    let best = model.best(|number, _| {
        // The first trial of a strategy always has an estimate.
        let made = &estimates[number * trials..][..trials];
        made[0]?;
        made.iter().copied().flatten().map(choice).reduce(Choice::shorter)
    });
    best.map(|choice| choice.to_public())
}

impl Choice {
    /// Returns the part of the choice that other implementations need.
    fn to_public(self) -> LzssChoice {
        let Self { of_residuals, params, has_matches, has_words, .. } = self;
        LzssChoice { of_residuals, params, has_matches, has_words }
    }
}

fn model(element_bytes: usize, options: &CoderOptions, sampled: usize, elements: u64) -> ChunkModel<'_> {
    // A chunk has at most 2^22 elements.
    let elements = elements as usize;
    ChunkModel { options, entropy_coded: options.coder != Coder::Lzss, element_bytes, sampled, elements }
}

/// The estimate of one trial, computed from the sample of a chunk; see [`best_lzss`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssEstimate {
    /// The parameters of the chunk.
    pub choice: LzssChoice,
    /// Estimated number of bytes of the chunk, plus a penalty for slow strategies.
    pub bytes: u64,
}

/// Estimates one trial for a chunk of `elements` elements. `sample` contains the little-endian elements of the tiles of
/// its sample, `tiles`. Returns `None` if the trial equals the one before it.
///
/// # Panics
/// `sample` does not have the length of the tiles' elements.
pub fn estimate_lzss(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &CoderOptions,
    sample: &[u8],
    trial: LzssTrial,
) -> Option<LzssEstimate> {
    let estimate = match element.size() {
        1 => estimate_words::<u8>,
        2 => estimate_words::<u16>,
        4 => estimate_words::<u32>,
        _ => estimate_words::<u64>,
    };
    estimate(element, geometry, tiles, elements, options, sample, trial)
}

fn estimate_words<W: Word>(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &CoderOptions,
    sample: &[u8],
    trial: LzssTrial,
) -> Option<LzssEstimate> {
    let sample = words_of::<W>(sample);
    thread_local! {
        /// From sample to sample: pages that are new take a fifth of the time.
        static BUFFERS: RefCell<EncodeBuffers> = RefCell::default();
    }
    let model = model(size_of::<W>(), options, sample.len(), elements);
    let estimate = |bytes: &[u8], bases| {
        BUFFERS.with_borrow_mut(|buffers| model.estimate_trial(trial.strategy, trial.number, bytes, bases, buffers))
    };
    let choice = if trial.strategy.of_residuals {
        let tiles: Vec<Tile> = tiles.iter().flat_map(|run| geometry.range(run.clone())).collect();
        let mut memory = Vec::new();
        let residuals = Residuals::new(element, geometry.axes(), &tiles, &sample, &mut memory);
        estimate(&bytes_of(residuals.words), residuals.bases.len())
    } else {
        estimate(&bytes_of(&sample), 0)
    };
    let choice = choice?;
    Some(LzssEstimate { choice: choice.to_public(), bytes: choice.bytes })
}

/// Returns little-endian bytes as words.
fn words_of<W: Word>(bytes: &[u8]) -> Vec<W> {
    if cfg!(target_endian = "little") {
        let mut words = vec![W::narrow(0); bytes.len() / size_of::<W>()];
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(bytes);
        return words;
    }
    let little = |bytes: &[u8]| W::narrow(bytes.iter().rev().fold(0, |wide, &b| wide << 8 | u64::from(b)));
    bytes.chunks_exact(size_of::<W>()).map(little).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Shape;
    use crate::pipeline::lzss::choose;

    /// Choosing from the estimates of separate trials gives the same choice as choosing at once.
    #[test]
    fn the_best_of_all_ways_is_what_is_chosen() {
        let shape = Shape::new(&[40_000]).unwrap();
        let geometry = Geometry::new(shape);
        let element = ElementType::I32;
        let arrays: [fn(u32) -> u32; 5] = [
            |i| i / 3,
            |i| i % 37 * 0x0101_0003,
            |i| i.wrapping_mul(0x9E37_79B9) >> 7,
            |i| i.wrapping_mul(0x9E37_79B9) >> 8,
            |i| i / 900 % 4 * 77,
        ];
        let (mut without_matches, mut without_words) = (0, 0);
        for array in arrays {
            for (pipeline, level) in [Coder::Lzss, Coder::LzssHuffman].into_iter().flat_map(|p| [(p, 3), (p, 6)]) {
                let options = CoderOptions { coder: pipeline, level, ..CoderOptions::default() };
                let runs = lzss_sample(&geometry, 0, 4, level);
                let tiles: Vec<Tile> = runs.iter().flat_map(|run| geometry.range(run.clone())).collect();
                let sampled: usize = tiles.iter().map(Tile::len).sum();
                let words: Vec<u32> = (0..sampled as u32).map(array).collect();
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let mut memory = Vec::new();
                let residuals = Residuals::new(element, geometry.axes(), &tiles, &words, &mut memory);
                let coded = pipeline != Coder::Lzss;
                let at_once = choose(&options, coded, &words, &residuals, 40_000, &mut EncodeBuffers::default());
                let trials = lzss_trials(element, &options, sampled as u64, 40_000);
                let estimate = |trial| estimate_lzss(element, &geometry, &runs, 40_000, &options, &bytes, trial);
                let estimates: Vec<Option<LzssEstimate>> = trials.into_iter().map(estimate).collect();
                let best = best_lzss(element, &options, sampled as u64, 40_000, &estimates).unwrap();
                assert_eq!(best, at_once.to_public(), "{options:?}");
                assert_eq!(best_lzss(element, &options, sampled as u64, 40_000, &estimates[1..]), None);
                without_matches += usize::from(!best.has_matches);
                without_words += usize::from(!best.has_words);
                // Trials that are skipped do not change the choice.
                let trials = lzss_trials(element, &options, sampled as u64, 40_000);
                let made =
                    |(estimates, trial): (&Option<LzssEstimate>, &LzssTrial)| estimates.filter(|_| !trial.is_fallback);
                let spared: Vec<Option<LzssEstimate>> = estimates.iter().zip(&trials).map(made).collect();
                let without = best_lzss(element, &options, sampled as u64, 40_000, &spared);
                assert!(without.is_none_or(|without| without == best), "{options:?}");
            }
        }
        // Of noise: once with as many values as bytes say alone.
        assert_eq!((without_matches, without_words), (2, 1));
    }
}
