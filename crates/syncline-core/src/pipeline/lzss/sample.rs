//! The choice of a chunk's parameters from its sample alone, as other implementations of the pipeline make it.

use std::cell::RefCell;
use std::ops::Range;

use super::super::lossless::Residuals;
use super::super::options::{Coder, CoderOptions};
pub use super::estimate::Way as LzssWay;
use super::estimate::{Case, sample_runs};
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

/// One attempt at a chunk: a way to code it, and the number of its shortest match among those that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LzssTrial {
    /// The way.
    pub way: LzssWay,
    /// The number of its shortest match.
    pub number: usize,
    /// Whether it need not be made where others save enough, which [`best_lzss`] says by not asking for it.
    pub is_spare: bool,
}

/// All that is tried of a chunk of `elements` elements of which `sampled` are in its sample.
pub fn lzss_trials(element: ElementType, options: &CoderOptions, sampled: u64, elements: u64) -> Vec<LzssTrial> {
    let case = case(element.size(), options, sampled as usize, elements);
    let trials = |way| (0..case.trials()).map(move |number| LzssTrial { way, number, is_spare: case.is_spare(way) });
    case.ways().into_iter().flat_map(trials).collect()
}

/// The best of them, from what each was found to come to, in this order. `None` if one is missing that has to be made,
/// or there are others.
pub fn best_lzss(
    element: ElementType,
    options: &CoderOptions,
    sampled: u64,
    elements: u64,
    weighed: &[Option<WeighedLzss>],
) -> Option<LzssChoice> {
    let case = case(element.size(), options, sampled as usize, elements);
    let (entropy_coded, trials) = (case.entropy_coded, case.trials());
    if weighed.len() != case.ways().len() * trials {
        return None;
    }
    let choice = |weighed: WeighedLzss| {
        let WeighedLzss { choice: LzssChoice { of_residuals, params, has_matches, has_words }, bytes } = weighed;
        Choice { of_residuals, entropy_coded, params, has_matches, has_words, bytes }
    };
    let best = case.best(|number, _| {
        // The first is always made.
        let made = &weighed[number * trials..][..trials];
        made[0]?;
        made.iter().copied().flatten().map(choice).reduce(Choice::shorter)
    });
    best.map(|choice| choice.for_others())
}

impl Choice {
    /// What other implementations know of it.
    fn for_others(self) -> LzssChoice {
        let Self { of_residuals, params, has_matches, has_words, .. } = self;
        LzssChoice { of_residuals, params, has_matches, has_words }
    }
}

fn case(element_bytes: usize, options: &CoderOptions, sampled: usize, elements: u64) -> Case<'_> {
    // A chunk has at most 2^22 elements.
    let elements = elements as usize;
    Case { options, entropy_coded: options.coder != Coder::Lzss, element_bytes, sampled, elements }
}

/// What the sample of a chunk says of one attempt; see [`best_lzss`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeighedLzss {
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
pub fn weigh_lzss(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &CoderOptions,
    sample: &[u8],
    trial: LzssTrial,
) -> Option<WeighedLzss> {
    let weigh = match element.size() {
        1 => by_sample::<u8>,
        2 => by_sample::<u16>,
        4 => by_sample::<u32>,
        _ => by_sample::<u64>,
    };
    weigh(element, geometry, tiles, elements, options, sample, trial)
}

fn by_sample<W: Word>(
    element: ElementType,
    geometry: &Geometry,
    tiles: &[Range<u64>],
    elements: u64,
    options: &CoderOptions,
    sample: &[u8],
    trial: LzssTrial,
) -> Option<WeighedLzss> {
    let sample = words_of::<W>(sample);
    thread_local! {
        /// From sample to sample: pages that are new take a fifth of the time.
        static BUFFERS: RefCell<EncodeBuffers> = RefCell::default();
    }
    let case = case(size_of::<W>(), options, sample.len(), elements);
    let weigh = |bytes: &[u8], bases| {
        BUFFERS.with_borrow_mut(|buffers| case.weigh_trial(trial.way, trial.number, bytes, bases, buffers))
    };
    let choice = if trial.way.of_residuals {
        let tiles: Vec<Tile> = tiles.iter().flat_map(|run| geometry.range(run.clone())).collect();
        let mut memory = Vec::new();
        let residuals = Residuals::new(element, geometry.axes(), &tiles, &sample, &mut memory);
        weigh(&bytes_of(residuals.words), residuals.bases.len())
    } else {
        weigh(&bytes_of(&sample), 0)
    };
    let choice = choice?;
    Some(WeighedLzss { choice: choice.for_others(), bytes: choice.bytes })
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
                let options = CoderOptions { coder: pipeline, level, symbol: None };
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
                let weigh = |trial| weigh_lzss(element, &geometry, &runs, 40_000, &options, &bytes, trial);
                let weighed: Vec<Option<WeighedLzss>> = trials.into_iter().map(weigh).collect();
                let best = best_lzss(element, &options, sampled as u64, 40_000, &weighed).unwrap();
                assert_eq!(best, at_once.for_others(), "{options:?}");
                assert_eq!(best_lzss(element, &options, sampled as u64, 40_000, &weighed[1..]), None);
                without_matches += usize::from(!best.has_matches);
                without_words += usize::from(!best.has_words);
                // Those that are spared change nothing where they are not asked for.
                let trials = lzss_trials(element, &options, sampled as u64, 40_000);
                let made = |(weighed, trial): (&Option<WeighedLzss>, &LzssTrial)| weighed.filter(|_| !trial.is_spare);
                let spared: Vec<Option<WeighedLzss>> = weighed.iter().zip(&trials).map(made).collect();
                let without = best_lzss(element, &options, sampled as u64, 40_000, &spared);
                assert!(without.is_none_or(|without| without == best), "{options:?}");
            }
        }
        // Of noise: once with as many values as bytes say alone.
        assert_eq!((without_matches, without_words), (2, 1));
    }
}
