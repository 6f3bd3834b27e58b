//! Measures the encoders and returns the streams of a set.

use anyhow::{Context, Result, ensure};
use syncline_core::huffman::{EncodeOptions, EncodeScratch, IndexKind, encode};
use syncline_cuda::baselines::reduce_shuffle_merge_2021::{self, Method};
use syncline_cuda::cudarc::driver::CudaSlice;
use syncline_cuda::error::DriverContext;
use syncline_cuda::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, StreamSpan,
};
use syncline_cuda::timing::{self, Times};

use super::rotation::{AlternatingCalls, COPIES};
use super::{Code, Extent, Gpu, Input, POISON, Results, What, names};
use crate::huffman::GROUP_LOG2;

/// The streams of a set in device memory, with the encoder's inputs.
pub(super) struct Streams<S> {
    pub format: Format,
    pub free_groups: bool,
    /// Number of input symbols of each stream.
    pub lengths: Vec<usize>,
    pub encoded: Encoded,
    /// Size of each stream in bytes.
    pub sizes: Vec<usize>,
    pub places: Vec<u64>,
    pub free_symbol: u16,
    batch: Batch,
    codebooks: BatchCodebooks,
    builder: BatchCodebooksBuilder<S>,
    encoder: Encoder<S>,
}

/// A copy of a set's symbols, with the buffers for encoding it.
struct Copy<S> {
    symbols: CudaSlice<S>,
    codebooks: BatchCodebooks,
    encoded: Encoded,
}

impl<S: Code> Streams<S> {
    /// Returns the bytes of all streams.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|&size| size as u64).sum()
    }

    /// Returns the end of the last stream, including padding.
    pub fn end(&self) -> usize {
        self.places.last().map_or(0, |&end| end as usize)
    }

    pub fn what(&self, direction: &'static str, method: impl Into<String>) -> What {
        What {
            direction,
            method: method.into(),
            index: self.format.index.to_string(),
            free_groups: self.free_groups,
            symbols: self.lengths.iter().sum(),
            stream_bytes: self.bytes(),
        }
    }
}

impl Gpu {
    /// Counts symbols, builds codebooks and encodes with our encoder.
    pub(super) fn encode<S: Code>(
        &mut self,
        input: &Input<S>,
        index: IndexKind,
        free_groups: bool,
    ) -> Result<Streams<S>> {
        let symbol_bytes = <S as syncline_cuda::huffman::Symbol>::BYTES;
        let format = Format { symbol_bytes, group_log2: GROUP_LOG2, alphabet: S::ALPHABET, classes: false, index };
        let free_symbol = if free_groups { input.common } else { input.rare };
        let total = input.symbols.len();
        let lengths: Vec<usize> =
            (0..total).step_by(input.stream).map(|start| input.stream.min(total - start)).collect();
        let group = |symbols: usize| symbols >> GROUP_LOG2;
        let span = |(i, &length): (usize, &usize)| StreamSpan {
            first_group: group(i * input.stream) as u64,
            groups: group(length) as u32,
            free_symbol,
        };
        let spans: Vec<_> = lengths.iter().enumerate().map(span).collect();
        let batch = Batch::new(&self.stream, &format, &spans)?;
        let mut codebooks = BatchCodebooks::new(&self.stream, &batch)?;
        let builder = BatchCodebooksBuilder::new(&self.device, &format)?;
        let encoder = Encoder::new(&self.device, &format)?;
        let mut encoded = Encoded::new(&self.stream, &batch, batch.max_bytes())?;
        self.poison_streams(&mut encoded)?;
        let symbols = input.symbols.as_view();
        builder.launch(&mut self.arena.frame()?, &symbols, None, &batch, &mut codebooks)?;
        let given = EncodeInput { symbols: &symbols, classes: None, batch: &batch, codebooks: &codebooks };
        encoder.launch(&mut self.arena.frame()?, &given, &mut encoded)?;
        let plans = encoded.read_plans(&self.stream)?;
        let places = self.stream.clone_dtoh(encoded.offsets()).doing("reading the places")?;
        let sizes = plans.iter().map(|plan| plan.stream_bytes as usize).collect();
        if !free_groups {
            ensure!(plans.iter().all(|plan| plan.has_free == 0), "a group is free although no symbol should be");
        }
        Ok(Streams {
            format,
            free_groups,
            lengths,
            encoded,
            sizes,
            places,
            free_symbol,
            batch,
            codebooks,
            builder,
            encoder,
        })
    }

    /// Compares the first and the last stream with those of the CPU.
    pub(super) fn check_streams<S: Code>(&self, input: &Input<S>, streams: &Streams<S>) -> Result<()> {
        let options = EncodeOptions {
            group_log2: GROUP_LOG2,
            index: streams.format.index,
            zero_bit_symbol: Some(streams.free_symbol),
        };
        for i in [0, streams.lengths.len() - 1] {
            let start = i * input.stream;
            let part = input.symbols.slice(start..start + streams.lengths[i]);
            let part = self.stream.clone_dtoh(&part).doing("reading symbols")?;
            let mut expected = Vec::new();
            encode(&part, &[], &options, &mut EncodeScratch::default(), &mut expected);
            let place = streams.places[i] as usize;
            let own = streams.encoded.bytes().slice(place..place + streams.sizes[i]);
            let own = self.stream.clone_dtoh(&own).doing("reading a stream")?;
            ensure!(own == expected, "stream {i} with index {} is not the CPU's", streams.format.index);
        }
        Ok(())
    }

    pub(super) fn measure_encoders<S: Code>(
        &mut self,
        input: &Input<S>,
        streams: &mut Streams<S>,
        extent: Extent,
        results: &mut Results,
    ) -> Result<()> {
        let expected = self.stream.clone_dtod(streams.encoded.bytes()).doing("keeping the streams")?;
        let [given, whole] = match extent {
            Extent::Fastest => self.measure_alternating_encoding(input, streams, &expected)?.map(Some),
            _ => [None, None],
        };
        let mut methods = vec![None];
        if extent == Extent::Everything && streams.format.index == IndexKind::Symbol && streams.free_groups {
            methods.extend(Method::ALL.map(Some));
            // The paper's table is about 16-bit codes.
            if S::ALPHABET > 256 {
                methods.truncate(3);
                for magnitude in names::MAGNITUDES {
                    methods.extend(
                        names::REDUCTIONS.map(|reduction| Some(Method::ReduceShuffleMerge { magnitude, reduction })),
                    );
                }
            }
        }
        for method in methods {
            let (device, format) = (&self.device, &streams.format);
            let encoder = match method {
                None => Encoder::new(device, format)?,
                Some(method) => reduce_shuffle_merge_2021::encoder(device, format, method)?,
            };
            let name = match method {
                None => names::MERGED.to_owned(),
                Some(Method::ReduceShuffleMerge { magnitude, reduction }) => names::merging(magnitude, reduction),
                Some(method) => method.name().to_owned(),
            };
            let times = self.time_encoder(input, streams, &encoder)?;
            self.check_encoded(streams, &streams.encoded, &expected).with_context(|| name.clone())?;
            let row = self.row(&input.set, input.bytes(), streams.what("encode", name), &times);
            // Other methods are not measured on small sets.
            results.rows.push(row.with_alternating(given));
        }
        let times = self.time_whole_path(input, streams)?;
        self.check_encoded(streams, &streams.encoded, &expected).context(names::WHOLE_PATH)?;
        let what = streams.what("encode", names::WHOLE_PATH);
        let row = self.row(&input.set, input.bytes(), what, &times);
        results.rows.push(row.with_alternating(whole));
        Ok(())
    }

    fn poison_streams(&self, encoded: &mut Encoded) -> Result<()> {
        Ok(self.check.poison(&mut encoded.bytes_mut().as_view_mut(), POISON)?)
    }

    fn time_encoder<S: Code>(
        &mut self,
        input: &Input<S>,
        streams: &mut Streams<S>,
        encoder: &Encoder<S>,
    ) -> Result<Times> {
        let symbols = input.symbols.as_view();
        let Streams { batch, codebooks, encoded, .. } = streams;
        let (stream, runs, arena) = (&self.stream, self.runs, &mut self.arena);
        let given = EncodeInput { symbols: &symbols, classes: None, batch, codebooks };
        let mut run = || encoder.launch(&mut arena.frame()?, &given, encoded);
        let times = timing::seconds(stream, runs, &mut run)?;
        self.poison_streams(&mut streams.encoded)?;
        let Streams { batch, codebooks, encoded, .. } = streams;
        let given = EncodeInput { symbols: &symbols, classes: None, batch, codebooks };
        encoder.launch(&mut self.arena.frame()?, &given, encoded)?;
        Ok(times)
    }

    /// Times the histogram, the codebooks and our encoder together.
    fn time_whole_path<S: Code>(&mut self, input: &Input<S>, streams: &mut Streams<S>) -> Result<Times> {
        let symbols = input.symbols.as_view();
        self.poison_streams(&mut streams.encoded)?;
        let Streams { batch, codebooks, builder, encoder, encoded, .. } = streams;
        let arena = &mut self.arena;
        Ok(timing::seconds(&self.stream, self.runs, || {
            let mut frame = arena.frame()?;
            builder.launch(&mut frame.nested(), &symbols, None, batch, codebooks)?;
            encoder.launch(&mut frame, &EncodeInput { symbols: &symbols, classes: None, batch, codebooks }, encoded)
        })?)
    }

    /// Measures our encoder's calls while they alternate between copies of the buffers: with given codebooks, and from
    /// symbols on. Each copy has its own symbols, codebooks and streams; all results are checked.
    fn measure_alternating_encoding<S: Code>(
        &mut self,
        input: &Input<S>,
        streams: &Streams<S>,
        expected: &CudaSlice<u8>,
    ) -> Result<[AlternatingCalls; 2]> {
        let Streams { batch, builder, encoder, .. } = streams;
        let copy = || -> Result<Copy<S>> {
            Ok(Copy {
                symbols: self.stream.clone_dtod(&input.symbols).doing("copying symbols")?,
                codebooks: BatchCodebooks::new(&self.stream, batch)?,
                encoded: Encoded::new(&self.stream, batch, batch.max_bytes())?,
            })
        };
        let mut copies = (0..COPIES).map(|_| copy()).collect::<Result<Vec<_>>>()?;
        for Copy { symbols, codebooks, encoded } in &mut copies {
            self.poison_streams(encoded)?;
            builder.launch(&mut self.arena.frame()?, &symbols.as_view(), None, batch, codebooks)?;
        }
        let given = self.time_alternating(&mut copies, |gpu, Copy { symbols, codebooks, encoded }| {
            let given = EncodeInput { symbols: &symbols.as_view(), classes: None, batch, codebooks };
            encoder.launch(&mut gpu.arena.frame()?, &given, encoded)
        })?;
        for copy in &mut copies {
            self.check_encoded(streams, &copy.encoded, expected).context("one call after another")?;
            self.poison_streams(&mut copy.encoded)?;
        }
        let whole = self.time_alternating(&mut copies, |gpu, Copy { symbols, codebooks, encoded }| {
            let (mut frame, symbols) = (gpu.arena.frame()?, symbols.as_view());
            builder.launch(&mut frame.nested(), &symbols, None, batch, codebooks)?;
            encoder.launch(&mut frame, &EncodeInput { symbols: &symbols, classes: None, batch, codebooks }, encoded)
        })?;
        for copy in &copies {
            let checked = self.check_encoded(streams, &copy.encoded, expected);
            checked.with_context(|| format!("{}, one call after another", names::WHOLE_PATH))?;
        }
        Ok([given, whole].map(|seconds| seconds.rates(input.bytes())))
    }

    fn check_encoded<S: Code>(
        &mut self,
        streams: &Streams<S>,
        encoded: &Encoded,
        expected: &CudaSlice<u8>,
    ) -> Result<()> {
        encoded.read_plans(&self.stream)?;
        let end = streams.end();
        let differences = self.check.differences(&encoded.bytes().slice(..end), &expected.slice(..end))?;
        ensure!(differences == 0, "{differences} bytes of {end} differ from the CPU's streams");
        Ok(())
    }
}
