//! How much shared memory the gap decoder's symbols have: by class of ratio, against every size there is.

use anyhow::{Context, Result};
use serde::Serialize;
use syncline_cuda::huffman::decode::{Gap, Room, SpansTuning, Writing};

use super::decoders::{AnyDecoder, Phases, Prepared};
use super::{Code, Gpu, Input};
use crate::huffman::GROUP_LOG2;

/// Sizes that a search would try, in KiB: a sequence of 8 KiB of codewords fills so many at a ratio of an eighth of it.
const SIZES: [u32; 16] = [4, 8, 12, 16, 20, 24, 28, 32, 38, 48, 56, 64, 80, 96, 128, 160];

/// Symbols that warps which decode spans have room for: what there is, and less.
pub const SPAN_ROOMS: [Option<u32>; 3] = [None, Some(1024), Some(512)];

/// Rates of decoding and writing alone, unless said otherwise: 10^9 bytes of symbols a second.
#[derive(Clone, Debug, Serialize)]
pub struct Staging {
    /// The set.
    pub set: String,
    /// Bytes of symbols.
    pub bytes: usize,
    /// Shared memory by class, with classes for so high ratios that one, two and three blocks fit a multiprocessor: one
    /// is as published.
    pub by_class: [Tuned; 3],
    /// Each size in KiB, the same for all sequences.
    pub sizes: Vec<(u32, f64)>,
    /// Decoding by spans instead, whose warps have room for so many symbols.
    pub spans: Vec<(Option<u32>, f64)>,
}

/// With shared memory by class.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Tuned {
    /// Decoding and writing.
    pub writing: f64,
    /// Sorting sequences by class.
    pub tuning: f64,
}

#[cfg(test)]
impl Staging {
    /// Made-up figures for the tests of tables.
    pub fn example(set: &str) -> Self {
        let tuned = Tuned { writing: 900.0, tuning: 4000.0 };
        let sizes = vec![(8, 500.0), (16, 1000.0), (32, 700.0)];
        Self {
            set: set.to_owned(),
            bytes: 1 << 28,
            by_class: [tuned; 3],
            sizes,
            spans: vec![(None, 950.0), (Some(512), 800.0)],
        }
    }
}

impl Gpu {
    pub(super) fn measure_staging<S: Code>(
        &mut self,
        input: &Input<S>,
        prepared: &mut Prepared<'_, S>,
    ) -> Result<Staging> {
        let mut steps = |writing: Writing| -> Result<Phases> {
            let decoder = AnyDecoder::Gap(Gap::with_writing(&self.device, GROUP_LOG2.into(), writing)?);
            self.check_decoded(input, prepared, &decoder).with_context(|| format!("gap with {writing:?}"))?;
            self.time_steps(input, prepared, "gap", &decoder)
        };
        let mut tuned = |blocks| -> Result<Tuned> {
            let phases = steps(Writing::Tuned(Room::Classes { blocks }))?;
            Ok(Tuned { writing: rate(&phases, "decoding and writing")?, tuning: rate(&phases, "tuning")? })
        };
        let by_class = [tuned(1)?, tuned(2)?, tuned(3)?];
        let sizes = SIZES.map(|kibibytes| {
            let phases = steps(Writing::Tuned(Room::Fixed { bytes: kibibytes << 10 }))?;
            Ok((kibibytes, rate(&phases, "decoding and writing")?))
        });
        let sizes = sizes.into_iter().collect::<Result<_>>()?;
        let spans = SPAN_ROOMS.map(|room| {
            let phases = steps(Writing::Spans(SpansTuning { room, ..SpansTuning::default() }))?;
            Ok((room, rate(&phases, "decoding and writing")?))
        });
        let spans = spans.into_iter().collect::<Result<_>>()?;
        Ok(Staging { set: input.set.clone(), bytes: input.bytes(), by_class, sizes, spans })
    }
}

fn rate(phases: &Phases, step: &str) -> Result<f64> {
    let found = phases.steps.iter().find(|(name, _)| name == step);
    found.map(|&(_, rate)| rate).with_context(|| format!("the decoder has no step '{step}'"))
}
