//! Times the decoders on a set's streams, as a whole and step by step.

#![allow(unsafe_code)]

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use syncline_core::huffman::{IndexKind, Stream};
use syncline_cuda::baselines::cusz_2020::CuSz2020;
use syncline_cuda::baselines::gap_array_2020::GapArray2020;
use syncline_cuda::baselines::gap_array_2022::GapArray2022;
use syncline_cuda::baselines::self_sync_2018::SelfSync2018;
use syncline_cuda::baselines::self_sync_2022::SelfSync2022;
use syncline_cuda::baselines::shared_memory_tuning_2022::BufferSize;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaView};
use syncline_cuda::device::Frame;
use syncline_cuda::error::DriverContext;
use syncline_cuda::huffman::decode::{Batch, BatchStream, Decoding, Gap, Indexed, SelfSync, status_text};
use syncline_cuda::timing::{self, Times};

use super::encoders::Streams;
use super::rotation::{AlternatingCalls, COPIES};
use super::{Code, Extent, Gpu, Input, POISON, Results, names, view_bytes, view_bytes_mut};
use crate::huffman::GROUP_LOG2;

/// The throughputs of a decoder's steps.
#[derive(Clone, Debug, Serialize)]
pub struct Phases {
    /// Name of the set.
    pub set: String,
    /// Name of the decoder.
    pub method: String,
    /// Name and throughput of each step in GB/s: as in the papers, the bytes of all symbols divided by the duration of
    /// the step.
    pub steps: Vec<(String, f64)>,
    /// Throughput of all steps together, in GB/s.
    pub overall: f64,
}

/// Returns the paper's name of the phase in which a kernel runs, or the name of an additional phase of our decoders.
fn phase(kernel: &'static str) -> &'static str {
    match kernel {
        "prepare_batch" => "tables",
        "self_sync_segments" => "in sequences",
        "self_sync_join" => "between sequences",
        "compose_functions" | "compose_walk" => "composing",
        "subsequences_count"
        | "subsequences_scan"
        | "shared_memory_tuning_2022_count"
        | "shared_memory_tuning_2022_scan" => "output index",
        "shared_memory_tuning_2022_sort" => "tuning",
        "subsequences_write" | "gap_array_2020_decode" | "shared_memory_tuning_2022_write" => "decoding and writing",
        "prepare_verify" => "checksums",
        other => other,
    }
}

/// One of the measured decoders.
pub(super) enum AnyDecoder<S> {
    Indexed(Indexed<S>),
    Gap(Gap<S>),
    SelfSync(SelfSync<S>),
    CuSz2020(CuSz2020<S>),
    SelfSync2018(SelfSync2018<S>),
    GapArray2020(GapArray2020<S>),
    SelfSync2022(SelfSync2022<S>),
    GapArray2022(GapArray2022<S>),
}

impl<S: Code> AnyDecoder<S> {
    pub fn launch(&self, frame: &mut Frame<'_>, decoding: Decoding<'_, '_, S>) -> syncline_cuda::Result<()> {
        match self {
            Self::Indexed(decoder) => decoder.launch(frame, decoding),
            Self::Gap(decoder) => decoder.launch(frame, decoding),
            Self::SelfSync(decoder) => decoder.launch(frame, decoding),
            Self::CuSz2020(decoder) => decoder.launch(frame, decoding),
            Self::SelfSync2018(decoder) => decoder.launch(frame, decoding),
            Self::GapArray2020(decoder) => decoder.launch(frame, decoding),
            Self::SelfSync2022(decoder) => decoder.launch(frame, decoding),
            Self::GapArray2022(decoder) => decoder.launch(frame, decoding),
        }
    }
}

/// Streams on the device, and the buffers to decode them to.
pub(super) struct Prepared<'s, S> {
    input: CudaView<'s, u8>,
    batch: Batch<S>,
    output: CudaSlice<S>,
    status: CudaSlice<u32>,
    no_classes: CudaSlice<u8>,
}

impl Gpu {
    /// Returns the decoders that are measured on streams with this index.
    fn decoders<S: Code>(&self, index: IndexKind, extent: Extent) -> Result<Vec<(&'static str, AnyDecoder<S>)>> {
        let log2 = GROUP_LOG2.into();
        let device = &self.device;
        let by_class = BufferSize::Classes { blocks: 1 };
        let mut decoders = match index {
            IndexKind::None => vec![
                (names::SELF_SYNC, AnyDecoder::SelfSync(SelfSync::new(device, log2)?)),
                (names::SELF_SYNC_2018, AnyDecoder::SelfSync2018(SelfSync2018::new(device, log2)?)),
                (names::SELF_SYNC_2022, AnyDecoder::SelfSync2022(SelfSync2022::new(device, log2, by_class)?)),
            ],
            IndexKind::Gap => vec![
                (names::GAP, AnyDecoder::Gap(Gap::new(device, log2)?)),
                (names::GAP_2020, AnyDecoder::GapArray2020(GapArray2020::new(device, log2)?)),
                (names::GAP_2022, AnyDecoder::GapArray2022(GapArray2022::new(device, log2, by_class)?)),
            ],
            IndexKind::Symbol => vec![
                (names::INDEXED, AnyDecoder::Indexed(Indexed::new(device, log2)?)),
                (names::CHUNKED, AnyDecoder::CuSz2020(CuSz2020::new(device, log2)?)),
            ],
        };
        if extent == Extent::Fastest {
            decoders.truncate(1);
        }
        Ok(decoders)
    }

    /// Times and checks every decoder of the streams' index.
    pub(super) fn measure_decoders<S: Code>(
        &mut self,
        input: &Input<S>,
        streams: &Streams<S>,
        extent: Extent,
        results: &mut Results,
    ) -> Result<()> {
        let index = streams.format.index;
        let mut prepared = self.prepare(streams, streams.encoded.bytes().slice(..streams.end()))?;
        // Decoders are created one at a time, because a decoder with its own CUDA streams slows down all launches while
        // it exists.
        let names: Vec<&str> = self.decoders::<S>(index, extent)?.iter().map(|(name, _)| *name).collect();
        for (i, name) in names.into_iter().enumerate() {
            let (_, decoder) = self.decoders::<S>(index, extent)?.swap_remove(i);
            let times = self.time_decoder(&mut prepared, &decoder).with_context(|| name.to_owned())?;
            self.check_decoded(input, &mut prepared, &decoder).with_context(|| name.to_owned())?;
            let alternating = (extent == Extent::Fastest)
                .then(|| self.measure_alternating_decoding(input, streams, &decoder))
                .transpose()
                .with_context(|| format!("{name}, one call after another"))?;
            let row = self.row(&input.set, input.bytes(), streams.what("decode", name), &times);
            results.rows.push(row.with_alternating(alternating));
            // The papers' streams have no zero-bit groups.
            if extent == Extent::Everything && !streams.free_groups && index != IndexKind::Symbol {
                results.phases.push(self.time_steps(input, &mut prepared, name, &decoder)?);
            }
        }
        if extent == Extent::Everything && !streams.free_groups && index == IndexKind::Gap && S::ALPHABET > 256 {
            let staging = self.measure_staging(input, &mut prepared)?;
            results.staging.push(staging);
        }
        Ok(())
    }

    /// Parses the streams in `input` and allocates the outputs.
    fn prepare<'s, S: Code>(&self, streams: &Streams<S>, input: CudaView<'s, u8>) -> Result<Prepared<'s, S>> {
        let bytes = self.stream.clone_dtoh(&input).doing("reading the streams")?;
        let parsed: Vec<_> = streams
            .places
            .iter()
            .zip(&streams.sizes)
            .map(|(&place, &size)| Stream::<S>::parse(&bytes[place as usize..place as usize + size], "a stream"))
            .collect::<Result<_, _>>()?;
        let places: Vec<_> = parsed
            .iter()
            .zip(&streams.places)
            .enumerate()
            .map(|(i, (stream, &place))| BatchStream {
                stream,
                input_offset: place,
                output_offset: (i * streams.lengths[0]) as u64,
                classes_offset: 0,
            })
            .collect();
        let batch = Batch::new(&self.stream, &places)?;
        let allocate = |length| self.stream.alloc_zeros::<u32>(length).doing("allocating");
        // SAFETY: symbols have no invalid bit patterns, and all are written before they are read.
        let output = unsafe { self.stream.alloc::<S>(streams.lengths.iter().sum()) }.doing("allocating")?;
        Ok(Prepared {
            input,
            batch,
            output,
            status: allocate(streams.lengths.len())?,
            no_classes: self.stream.alloc_zeros(1).doing("allocating")?,
        })
    }

    /// Launches a decoder on prepared streams.
    fn decode<S: Code>(
        &mut self,
        prepared: &mut Prepared<'_, S>,
        decoder: &AnyDecoder<S>,
    ) -> syncline_cuda::Result<()> {
        let decoding = Decoding {
            input: &prepared.input,
            classes: &prepared.no_classes.as_view(),
            batch: &prepared.batch.as_view(),
            output: &mut prepared.output.as_view_mut(),
            status: &mut prepared.status.as_view_mut(),
        };
        decoder.launch(&mut self.arena.frame()?, decoding)
    }

    fn time_decoder<S: Code>(&mut self, prepared: &mut Prepared<'_, S>, decoder: &AnyDecoder<S>) -> Result<Times> {
        let (stream, runs) = (self.stream.clone(), self.runs);
        Ok(timing::seconds(&stream, runs, || self.decode(prepared, decoder))?)
    }

    /// Measures calls that alternate between copies of input, descriptors and output. All outputs are checked.
    fn measure_alternating_decoding<S: Code>(
        &mut self,
        input: &Input<S>,
        streams: &Streams<S>,
        decoder: &AnyDecoder<S>,
    ) -> Result<AlternatingCalls> {
        let own = streams.encoded.bytes().slice(..streams.end());
        let copy = || self.stream.clone_dtod(&own).doing("copying the streams");
        let inputs = (0..COPIES).map(|_| copy()).collect::<Result<Vec<_>, _>>()?;
        let mut copies = inputs.iter().map(|copy| self.prepare(streams, copy.as_view())).collect::<Result<Vec<_>>>()?;
        for copy in &mut copies {
            self.check.poison(&mut view_bytes_mut(&mut copy.output), POISON)?;
        }
        let seconds = self.time_alternating(&mut copies, |gpu, copy| gpu.decode(copy, decoder))?;
        copies.iter().try_for_each(|copy| self.check_output(input, copy))?;
        Ok(seconds.rates(input.bytes()))
    }

    /// Decodes into a buffer filled with a pattern and compares the result with the input.
    pub(super) fn check_decoded<S: Code>(
        &mut self,
        input: &Input<S>,
        prepared: &mut Prepared<'_, S>,
        decoder: &AnyDecoder<S>,
    ) -> Result<()> {
        self.check.poison(&mut view_bytes_mut(&mut prepared.output), POISON)?;
        self.decode(prepared, decoder)?;
        self.check_output(input, prepared)
    }

    fn check_output<S: Code>(&mut self, input: &Input<S>, prepared: &Prepared<'_, S>) -> Result<()> {
        let differences = self.check.differences(&input.as_bytes(), &view_bytes(&prepared.output))?;
        let status = self.stream.clone_dtoh(&prepared.status).doing("reading the status")?;
        if let Some(problem) = status.into_iter().find_map(status_text) {
            anyhow::bail!("{problem}");
        }
        ensure!(differences == 0, "{differences} bytes differ from what was encoded");
        Ok(())
    }

    pub(super) fn time_steps<S: Code>(
        &mut self,
        input: &Input<S>,
        prepared: &mut Prepared<'_, S>,
        name: &str,
        decoder: &AnyDecoder<S>,
    ) -> Result<Phases> {
        let (kernels, runs) = (self.kernels.clone(), self.runs);
        let mut steps: Vec<(&str, f64)> = Vec::new();
        for (kernel, times) in kernels.measure(runs, || self.decode(prepared, decoder))? {
            match steps.iter_mut().find(|(step, _)| *step == phase(kernel)) {
                Some((_, seconds)) => *seconds += times.median(),
                None => steps.push((phase(kernel), times.median())),
            }
        }
        let bytes = input.bytes() as f64 / 1e9;
        let all: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
        Ok(Phases {
            set: input.set.clone(),
            method: name.to_owned(),
            steps: steps.iter().map(|(step, seconds)| ((*step).to_owned(), bytes / seconds)).collect(),
            overall: bytes / all,
        })
    }
}
