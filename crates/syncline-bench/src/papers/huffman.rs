//! Huffman encoders on the symbols of an array, and the streams that they make. Each stream is compared with the CPU's.

use anyhow::{Context, Result, ensure};
use syncline::ElementType;
use syncline_core::huffman::{self, EncodeOptions, EncodeScratch, IndexKind, encode};
use syncline_cuda::cudarc::driver::{CudaSlice, DeviceRepr};
use syncline_cuda::device::Arena;
use syncline_cuda::error::DriverContext;
use syncline_cuda::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, StreamRange,
};
use syncline_cuda::timing;
use syncline_papers::gap_array_2020::GapArrayEncoder;
use syncline_papers::reduce_shuffle_merge_2021::{self, Method};

use super::{GROUP_LOG2, decoders};
use crate::array::Array;
use crate::check::ensure_same;
use crate::gpu::Gpu;
use crate::record::Record;

/// Symbols of a stream: those of a chunk of the container.
const STREAM_SYMBOLS: usize = 1 << 20;
/// Chunk magnitudes and reduction factors of the 2021 paper's table.
const MAGNITUDES: [u32; 3] = [12, 11, 10];
const REDUCTIONS: [u32; 3] = [4, 3, 2];

/// A symbol type that both backends support.
pub(super) trait Code: huffman::Symbol + syncline_cuda::huffman::Symbol + DeviceRepr + bytemuck::Pod {
    /// Number of symbols in the alphabet of the measured streams.
    const ALPHABET: u32;
}

impl Code for u8 {
    const ALPHABET: u32 = 256;
}

impl Code for u16 {
    /// That of most quantization codes around 512.
    const ALPHABET: u32 = 1024;
}

/// The symbols of an array in host and device memory.
pub(super) struct Input<'a, S> {
    pub array: &'a Array,
    pub host: Vec<S>,
    pub device: CudaSlice<S>,
    /// The most frequent symbol.
    common: u16,
    /// The least frequent one. No group consists of it, so that there are no zero-bit groups.
    rare: u16,
}

/// The streams of an array in device memory, with the inputs of the encoder.
pub(super) struct Streams<S> {
    pub index: IndexKind,
    /// Whether groups of the most frequent symbol take no bits. The papers' streams have none.
    pub free_groups: bool,
    /// Symbols of each stream.
    pub lengths: Vec<usize>,
    pub encoded: Encoded,
    /// Bytes of each stream, and where it starts; the last start is the end of all.
    pub sizes: Vec<usize>,
    pub places: Vec<u64>,
    batch: Batch,
    codebooks: BatchCodebooks,
    builder: BatchCodebooksBuilder<S>,
    format: Format,
}

impl<S> Streams<S> {
    /// Returns the options of the streams in records.
    pub fn options(&self) -> String {
        let groups = if self.free_groups { "free groups" } else { "all groups coded" };
        format!("index {}, {groups}", self.index)
    }

    /// Returns the end of the last stream.
    pub fn end(&self) -> usize {
        self.places.last().map_or(0, |&end| end as usize)
    }

    /// Returns the record with the size of the streams.
    pub fn sized(&self, record: Record) -> Record {
        Record { stream_bytes: Some(self.sizes.iter().map(|&size| size as u64).sum()), ..record }
    }
}

/// Measures all encoders and decoders on an array of bytes or of 16-bit codes.
///
/// # Errors
/// An operation fails, or streams or symbols are not right.
pub fn measure(gpu: &Gpu, array: &Array) -> Result<Vec<Record>> {
    let records = match array.element {
        ElementType::U8 => measure_symbols::<u8>(gpu, array),
        _ => measure_symbols::<u16>(gpu, array),
    };
    records.with_context(|| format!("on {}", array.name))
}

fn measure_symbols<S: Code>(gpu: &Gpu, array: &Array) -> Result<Vec<Record>> {
    let input = Input::<S>::new(gpu, array)?;
    let mut records = Vec::new();
    gpu.wake()?;
    for free_groups in [true, false] {
        for index in IndexKind::ALL {
            let mut streams = encode_all(gpu, &input, index, free_groups)?;
            check_streams(gpu, &input, &streams)?;
            records.extend(measure_encoders(gpu, &input, &mut streams)?);
            records.extend(decoders::measure(gpu, &input, &streams)?);
        }
    }
    Ok(records)
}

impl<'a, S: Code> Input<'a, S> {
    fn new(gpu: &Gpu, array: &'a Array) -> Result<Self> {
        let host: Vec<S> = array.bytes.chunks_exact(size_of::<S>()).map(bytemuck::pod_read_unaligned).collect();
        ensure!(!host.is_empty(), "there are no symbols");
        ensure!(host.len().is_multiple_of(1 << GROUP_LOG2), "there are no whole groups");
        let mut counts = vec![0_u64; S::ALPHABET as usize];
        for &symbol in &host {
            let number = symbol.index();
            ensure!(number < counts.len(), "symbol {number} is not below {}", S::ALPHABET);
            counts[number] += 1;
        }
        let symbols = || 0..counts.len();
        let common = symbols().max_by_key(|&symbol| counts[symbol]).unwrap_or(0) as u16;
        let rare = symbols().min_by_key(|&symbol| counts[symbol]).unwrap_or(0) as u16;
        let device = gpu.stream.clone_htod(&host).doing("uploading symbols")?;
        Ok(Self { array, host, device, common, rare })
    }

    fn free_symbol(&self, free_groups: bool) -> u16 {
        if free_groups { self.common } else { self.rare }
    }
}

/// Counts symbols, builds codebooks, and encodes with our encoder.
fn encode_all<S: Code>(gpu: &Gpu, input: &Input<'_, S>, index: IndexKind, free_groups: bool) -> Result<Streams<S>> {
    let symbol_bytes = <S as syncline_cuda::huffman::Symbol>::BYTES;
    let format = Format { symbol_bytes, group_log2: GROUP_LOG2, alphabet: S::ALPHABET, classes: false, index };
    let lengths: Vec<usize> = input.host.chunks(STREAM_SYMBOLS).map(<[S]>::len).collect();
    let range = |(i, &length): (usize, &usize)| StreamRange {
        first_group: ((i * STREAM_SYMBOLS) >> GROUP_LOG2) as u64,
        groups: (length >> GROUP_LOG2) as u32,
        free_symbol: input.free_symbol(free_groups),
    };
    let ranges: Vec<_> = lengths.iter().enumerate().map(range).collect();
    let batch = Batch::new(&gpu.stream, &format, &ranges)?;
    let mut codebooks = BatchCodebooks::new(&gpu.stream, &batch)?;
    let builder = BatchCodebooksBuilder::new(&gpu.device, &format)?;
    let mut encoded = Encoded::new(&gpu.stream, &batch, batch.max_bytes())?;
    let (mut arena, symbols) = (Arena::new(gpu.stream.clone()), input.device.as_view());
    builder.launch(&mut arena.frame()?, &symbols, None, &batch, &mut codebooks)?;
    let given = EncodeInput { symbols: &symbols, classes: None, batch: &batch, codebooks: &codebooks };
    Encoder::new(&gpu.device, &format)?.launch(&mut arena.frame()?, &given, &mut encoded)?;
    let plans = encoded.read_plans(&gpu.stream)?;
    let places = gpu.stream.clone_dtoh(encoded.offsets()).doing("reading the places")?;
    let sizes = plans.iter().map(|plan| plan.stream_bytes as usize).collect();
    let any_free = plans.iter().any(|plan| plan.has_free != 0);
    ensure!(free_groups || !any_free, "a group is free although no symbol should be");
    Ok(Streams { index, free_groups, lengths, encoded, sizes, places, batch, codebooks, builder, format })
}

/// Compares the first and the last stream with those of the CPU.
fn check_streams<S: Code>(gpu: &Gpu, input: &Input<'_, S>, streams: &Streams<S>) -> Result<()> {
    let free = Some(input.free_symbol(streams.free_groups));
    let options = EncodeOptions { group_log2: GROUP_LOG2, index: streams.index, zero_bit_symbol: free };
    for i in [0, streams.lengths.len() - 1] {
        let part = &input.host[i * STREAM_SYMBOLS..][..streams.lengths[i]];
        let mut expected = Vec::new();
        encode(part, &[], &options, &mut EncodeScratch::default(), &mut expected);
        let place = streams.places[i] as usize;
        let own = streams.encoded.bytes().slice(place..place + streams.sizes[i]);
        let own = gpu.stream.clone_dtoh(&own).doing("reading a stream")?;
        ensure_same(&own, &expected, &format!("stream {i} with index {}", streams.index))?;
    }
    Ok(())
}

fn measure_encoders<S: Code>(gpu: &Gpu, input: &Input<'_, S>, streams: &mut Streams<S>) -> Result<Vec<Record>> {
    let read = |encoded: &Encoded, end: usize| gpu.stream.clone_dtoh(&encoded.bytes().slice(..end)).doing("reading");
    let (end, options) = (streams.end(), streams.options());
    let expected = read(&streams.encoded, end)?;
    let (mut arena, symbols) = (Arena::new(gpu.stream.clone()), input.device.as_view());
    let mut records = Vec::new();
    for (name, encoder) in encoders::<S>(gpu, streams)? {
        gpu.stream.memset_zeros(streams.encoded.bytes_mut()).doing("clearing")?;
        let Streams { batch, codebooks, encoded, .. } = streams;
        let given = EncodeInput { symbols: &symbols, classes: None, batch, codebooks };
        let times = timing::seconds(&gpu.stream, gpu.runs, || encoder.launch(&mut arena.frame()?, &given, encoded))?;
        streams.encoded.read_plans(&gpu.stream)?;
        ensure_same(&read(&streams.encoded, end)?, &expected, &name)?;
        records.push(streams.sized(gpu.of_system(input.array, &name, &options, "encode", &times)));
    }
    if streams.index == IndexKind::None {
        let encoder = GapArrayEncoder::<S>::new(&gpu.device, &streams.format)?;
        let groups = streams.lengths.iter().map(|&length| (length >> GROUP_LOG2) as u32).max().unwrap_or(0);
        let bytes = streams.lengths.len() * encoder.gaps_in_stream(groups) as usize;
        let mut gaps = gpu.stream.alloc_zeros::<u8>(bytes).doing("allocating gap arrays")?;
        let Streams { batch, codebooks, encoded, .. } = streams;
        let given = EncodeInput { symbols: &symbols, classes: None, batch, codebooks };
        let times = timing::seconds(&gpu.stream, gpu.runs, || {
            encoder.launch(&mut arena.frame()?, &given, groups, encoded, &mut gaps.as_view_mut())
        })?;
        ensure_same(&read(&streams.encoded, end)?, &expected, "gap_array_2020")?;
        records.push(streams.sized(gpu.of_system(input.array, "gap_array_2020", &options, "encode", &times)));
    }
    let encoder = Encoder::new(&gpu.device, &streams.format)?;
    let Streams { batch, codebooks, builder, encoded, .. } = streams;
    let times = timing::seconds(&gpu.stream, gpu.runs, || {
        let mut frame = arena.frame()?;
        builder.launch(&mut frame.nested(), &symbols, None, batch, codebooks)?;
        encoder.launch(&mut frame, &EncodeInput { symbols: &symbols, classes: None, batch, codebooks }, encoded)
    })?;
    streams.encoded.read_plans(&gpu.stream)?;
    let what = "histogram, codebooks, encode";
    ensure_same(&read(&streams.encoded, end)?, &expected, what)?;
    records.push(streams.sized(gpu.of_system(input.array, "syncline", &options, what, &times)));
    Ok(records)
}

/// Returns our encoder, and the published ones for the streams that they are compared on.
fn encoders<S: Code>(gpu: &Gpu, streams: &Streams<S>) -> Result<Vec<(String, Encoder<S>)>> {
    let (device, format) = (&gpu.device, &streams.format);
    let mut found = vec![("syncline".to_owned(), Encoder::new(device, format)?)];
    if streams.index == IndexKind::Symbol && streams.free_groups {
        let mut methods: Vec<Method> = Method::ALL.to_vec();
        // The paper's table is about 16-bit codes.
        if S::ALPHABET > 256 {
            methods.retain(|method| !matches!(method, Method::ReduceShuffleMerge { .. }));
            let merging = |magnitude| REDUCTIONS.map(|reduction| Method::ReduceShuffleMerge { magnitude, reduction });
            methods.extend(MAGNITUDES.into_iter().flat_map(merging));
        }
        for method in methods {
            let name = match method {
                Method::ReduceShuffleMerge { magnitude, reduction } => {
                    format!("reduce_shuffle_merge_2021 M={magnitude} r={reduction}")
                }
                _ => method.name().to_owned(),
            };
            found.push((name, reduce_shuffle_merge_2021::encoder(device, format, method)?));
        }
    }
    Ok(found)
}
