//! Chooses what LZSS does with a chunk from its sample alone, for other implementations of the pipeline.

use std::cell::RefCell;
use std::ops::Range;

use super::super::options::{Coder, CoderOptions};
use super::EncodeBuffers;
use super::cost_model::{ChunkModel, LzssEstimate, sample_runs};
use crate::array::ElementType;
use crate::geometry::Geometry;

/// Returns the tiles of a chunk's sample, as ranges of their numbers in the array.
pub fn lzss_sample(geometry: &Geometry, chunk: u64, element_bytes: usize, level: u8) -> Vec<Range<u64>> {
    let tiles = geometry.chunk_range(chunk);
    let first = geometry.range(tiles.clone()).next().map(|tile| tile.len());
    let runs = sample_runs((tiles.end - tiles.start) as usize, first, element_bytes, level);
    runs.into_iter().map(|run| tiles.start + run.start as u64..tiles.start + run.end as u64).collect()
}

/// Returns the number of trials for a chunk of `elements` elements with `sampled` elements in its sample.
pub fn lzss_trials(element: ElementType, options: &CoderOptions, sampled: u64, elements: u64) -> usize {
    model(element, options, sampled as usize, elements).trials()
}

/// Returns the best estimate, given what [`estimate_lzss`] returns for all trials in order. Returns `None` if the
/// estimate of the first one is missing.
pub fn best_lzss(estimates: &[Option<LzssEstimate>]) -> Option<LzssEstimate> {
    // The first trial always has an estimate.
    (*estimates.first()?)?;
    estimates.iter().copied().flatten().reduce(LzssEstimate::shorter)
}

/// Estimates one trial for a chunk of `elements` elements. `sample` contains the little-endian elements of the tiles of
/// its sample. Returns `None` if the trial equals the first one.
///
/// # Panics
/// There is no trial of this number.
pub fn estimate_lzss(
    element: ElementType,
    elements: u64,
    options: &CoderOptions,
    sample: &[u8],
    trial: usize,
) -> Option<LzssEstimate> {
    thread_local! {
        /// From sample to sample: pages that are new take a fifth of the time.
        static BUFFERS: RefCell<EncodeBuffers> = RefCell::default();
    }
    let model = model(element, options, sample.len() / element.size(), elements);
    BUFFERS.with_borrow_mut(|buffers| model.estimate_trial(trial, sample, buffers))
}

fn model(element: ElementType, options: &CoderOptions, sampled: usize, elements: u64) -> ChunkModel<'_> {
    // A chunk has at most 2^22 elements.
    let elements = elements as usize;
    ChunkModel {
        options,
        entropy_coded: options.coder != Coder::Lzss,
        element_bytes: element.size(),
        sampled,
        elements,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Shape;
    use crate::geometry::Tile;

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
                let tiles = runs.iter().flat_map(|run| geometry.range(run.clone()));
                let sampled: usize = tiles.map(|tile: Tile| tile.len()).sum();
                let bytes: Vec<u8> = (0..sampled as u32).flat_map(|i| array(i).to_le_bytes()).collect();
                let at_once = model(element, &options, sampled, 40_000).estimate(&bytes, &mut EncodeBuffers::default());
                let trials = 0..lzss_trials(element, &options, sampled as u64, 40_000);
                let estimate = |trial| estimate_lzss(element, 40_000, &options, &bytes, trial);
                let mut estimates: Vec<Option<LzssEstimate>> = trials.map(estimate).collect();
                let best = best_lzss(&estimates).unwrap().choice;
                assert_eq!(best, at_once.choice, "{options:?}");
                estimates[0] = None;
                assert_eq!(best_lzss(&estimates), None);
                without_matches += usize::from(!best.has_matches);
                without_words += usize::from(!best.has_words);
            }
        }
        // Both kinds of noise, of which level 3 also sees that planes of words cannot save anything.
        assert_eq!((without_matches, without_words), (4, 2));
    }
}
