//! The choice of a chunk's parameters from its sample alone, as other implementations of the pipeline make it.

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

/// How an LZSS chunk of a lossless stream is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssChoice {
    /// Whether the residuals are coded, not the elements.
    pub of_residuals: bool,
    /// How symbols become tokens.
    pub params: Params,
    /// Whether matches are looked for; else all symbols are literals.
    pub has_matches: bool,
    /// Whether planes of 16-bit symbols may be taken instead of those of bytes.
    pub has_words: bool,
}

/// The tiles of a chunk that are its sample, as ranges of their numbers in the array.
pub fn lzss_sample(geometry: &Geometry, chunk: u64, element_bytes: usize, level: u8) -> Vec<Range<u64>> {
    let tiles = geometry.chunk_range(chunk);
    let first = geometry.range(tiles.clone()).next().map(|tile| tile.len());
    let runs = sample_runs((tiles.end - tiles.start) as usize, first, element_bytes, level);
    runs.into_iter().map(|run| tiles.start + run.start as u64..tiles.start + run.end as u64).collect()
}

/// One attempt at a chunk: a strategy to code it, and the number of its shortest match among those that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssTrial {
    /// The strategy.
    pub strategy: LzssStrategy,
    /// The number of its shortest match.
    pub number: usize,
    /// Whether it need not be made where others save enough, which [`best_lzss`] says by not asking for it.
    pub is_fallback: bool,
}

/// All that is tried of a chunk of `elements` elements of which `sampled` are in its sample.
pub fn lzss_trials(element: ElementType, options: &CoderOptions, sampled: u64, elements: u64) -> Vec<LzssTrial> {
    let model = model(element.size(), options, sampled as usize, elements);
    let trials = |strategy| {
        (0..model.trials()).map(move |number| LzssTrial { strategy, number, is_fallback: model.is_fallback(strategy) })
    };
    model.strategies().into_iter().flat_map(trials).collect()
}

/// The best of them, from what each was found to come to, in this order. `None` if one is missing that has to be made,
/// or there are others.
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
        // The first is always made.
        let made = &estimates[number * trials..][..trials];
        made[0]?;
        made.iter().copied().flatten().map(choice).reduce(Choice::shorter)
    });
    best.map(|choice| choice.to_public())
}

impl Choice {
    /// What other implementations know of it.
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

/// What the sample of a chunk says of one attempt; see [`best_lzss`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssEstimate {
    /// How the chunk is coded.
    pub choice: LzssChoice,
    /// About how many bytes it will take, and what is added for being slow.
    pub bytes: u64,
}

/// Weighs one attempt at a chunk of `elements` elements whose sample, `tiles`, has the little-endian elements `sample`;
/// `None` if it turns out to be the one before.
///
/// # Panics
/// `sample` has not the tiles' elements.
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

/// Little-endian bytes as words.
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

    /// Weighed trial by trial, a chunk is coded as when it is chosen for at once.
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
                // Those that are spared change nothing where they are not asked for.
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
