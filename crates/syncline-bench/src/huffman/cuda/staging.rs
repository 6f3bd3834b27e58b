//! Sizes of the buffer through which the gap decoders write symbols: tuned by class, and fixed.

use anyhow::{Context, Result};
use serde::Serialize;
use syncline_cuda::baselines::gap_array_2022::GapArray2022;
use syncline_cuda::baselines::shared_memory_tuning_2022::BufferSize;
use syncline_cuda::huffman::decode::{Gap, SubsequenceTuning};

use super::decoders::{AnyDecoder, Phases, Prepared};
use super::{Code, Gpu, Input};
use crate::huffman::GROUP_LOG2;

/// Fixed sizes in KiB. A sequence has 8 KiB of codewords, so its symbols fill a buffer of 8 KiB times the compression
/// ratio.
const SIZES: [u32; 16] = [4, 8, 12, 16, 20, 24, 28, 32, 38, 48, 56, 64, 80, 96, 128, 160];

/// Buffer sizes of our decoder in symbols per warp; `None` uses all shared memory.
pub const SPAN_ROOMS: [Option<u32>; 3] = [None, Some(1024), Some(512)];

/// Throughputs of decoding and writing alone, in GB/s of symbols.
#[derive(Clone, Debug, Serialize)]
pub struct Staging {
    /// Name of the set.
    pub set: String,
    /// Bytes of symbols.
    pub bytes: usize,
    /// Tuned by class, with classes for the ratios at which one, two or three blocks fit a multiprocessor; the paper
    /// uses one.
    pub by_class: [Tuned; 3],
    /// Each fixed size in KiB, used for all sequences, and its throughput.
    pub sizes: Vec<(u32, f64)>,
    /// Throughput of our decoder for each buffer size in symbols per warp.
    pub spans: Vec<(Option<u32>, f64)>,
}

/// Throughputs with shared memory tuned by class.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Tuned {
    /// Throughput of decoding and writing.
    pub writing: f64,
    /// Throughput of sorting sequences by class.
    pub tuning: f64,
}

#[cfg(test)]
impl Staging {
    /// Returns invented figures for tests of the tables.
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
        let (device, log2) = (self.device.clone(), GROUP_LOG2.into());
        let mut steps = |decoder: AnyDecoder<S>, what: &dyn std::fmt::Debug| -> Result<Phases> {
            self.check_decoded(input, prepared, &decoder).with_context(|| format!("gap with {what:?}"))?;
            self.time_steps(input, prepared, "gap", &decoder)
        };
        let mut tuned = |buffer| steps(AnyDecoder::GapArray2022(GapArray2022::new(&device, log2, buffer)?), &buffer);
        let mut by_class = |blocks| -> Result<Tuned> {
            let phases = tuned(BufferSize::Classes { blocks })?;
            Ok(Tuned { writing: rate(&phases, "decoding and writing")?, tuning: rate(&phases, "tuning")? })
        };
        let by_class = [by_class(1)?, by_class(2)?, by_class(3)?];
        let sizes = SIZES.map(|kibibytes| {
            let phases = tuned(BufferSize::Fixed { bytes: kibibytes << 10 })?;
            Ok((kibibytes, rate(&phases, "decoding and writing")?))
        });
        let sizes = sizes.into_iter().collect::<Result<_>>()?;
        let spans = SPAN_ROOMS.map(|room| {
            let tuning = SubsequenceTuning { room, ..SubsequenceTuning::default() };
            let phases = steps(AnyDecoder::Gap(Gap::with_tuning(&device, log2, tuning)?), &tuning)?;
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
