//! Huffman decoders on the streams of an array, as a whole and kernel by kernel. Decoded symbols are compared with the
//! encoded ones.

use anyhow::{Context, Result};
use syncline_core::huffman::{IndexKind, Stream};
use syncline_cuda::cudarc::driver::{CudaSlice, CudaView};
use syncline_cuda::device::{Arena, Frame};
use syncline_cuda::error::DriverContext;
use syncline_cuda::huffman::decode::{Batch, BatchStream, Decoding, Indexed, status_text};
use syncline_cuda::timing;
use syncline_papers::cusz_2020::CuSz2020;
use syncline_papers::decode::{Gap, SelfSync};
use syncline_papers::gap_array::{self, GapArrays};
use syncline_papers::gap_array_2020::GapArray2020;
use syncline_papers::gap_array_2022::GapArray2022;
use syncline_papers::self_sync_2018::SelfSync2018;
use syncline_papers::self_sync_2022::SelfSync2022;
use syncline_papers::shared_memory_tuning_2022::BufferSize;

use super::GROUP_LOG2;
use super::huffman::{Code, Input, Streams};
use crate::check::ensure_same;
use crate::gpu::Gpu;
use crate::record::Record;

/// Fixed sizes in KiB of the buffer of the 2022 gap decoder. A sequence has 8 KiB of codewords, so that its symbols
/// fill a buffer of 8 KiB times the compression ratio.
const BUFFERS: [u32; 8] = [4, 8, 16, 28, 38, 56, 80, 160];

/// Launches a decoder, which may read gap arrays.
type Launch<S> = Box<dyn Fn(&mut Frame<'_>, Decoding<'_, '_, S>, &GapArrays) -> syncline_cuda::Result<()>>;

/// Streams on the device, and the buffers to decode them to.
struct Prepared<'s, S> {
    input: CudaView<'s, u8>,
    batch: Batch<S>,
    /// The gap arrays of streams without an index.
    gaps: GapArrays,
    output: CudaSlice<S>,
    status: CudaSlice<u32>,
    no_classes: CudaSlice<u8>,
}

/// Times and checks every decoder of the index of the streams.
///
/// # Errors
/// A decoder fails or gives other symbols.
pub fn measure<S: Code>(gpu: &Gpu, input: &Input<'_, S>, streams: &Streams<S>) -> Result<Vec<Record>> {
    let mut prepared = Prepared::new(gpu, input, streams)?;
    let (mut records, options) = (Vec::new(), streams.options());
    for number in 0.. {
        // One at a time, because a decoder with CUDA streams of its own slows down all launches while it exists.
        let Some((name, launch)) = decoder::<S>(gpu, streams.index, streams.free_groups, number)? else { break };
        let mut arena = Arena::new(gpu.stream.clone());
        let what = |what: &str, times: &_| streams.sized(gpu.of_system(input.array, &name, &options, what, times));
        prepared.clear(gpu)?;
        let mut run = || prepared.decode(&launch, &mut arena.frame()?);
        let times = timing::seconds(&gpu.stream, gpu.runs, &mut run)?;
        // The papers' streams have no zero-bit groups.
        let kernels = match streams.free_groups {
            true => Vec::new(),
            false => gpu.kernels.measure(gpu.runs, run)?,
        };
        prepared.check(gpu, input).with_context(|| name.clone())?;
        records.push(what("decode", &times));
        records.extend(kernels.iter().map(|(kernel, times)| what(&format!("kernel {kernel}"), times)));
    }
    Ok(records)
}

/// Returns a decoder of streams with this index and its name, ours first, and those with fixed buffers last.
fn decoder<S: Code>(
    gpu: &Gpu,
    index: IndexKind,
    free_groups: bool,
    number: usize,
) -> Result<Option<(String, Launch<S>)>> {
    let (device, log2) = (&gpu.device, GROUP_LOG2.into());
    let by_class = BufferSize::Classes { blocks: 1 };
    macro_rules! decoder {
        ($name:expr, $decoder:expr) => {{
            let decoder = $decoder;
            let launch: Launch<S> = Box::new(move |frame, decoding, _| decoder.launch(frame, decoding));
            (String::from($name), launch)
        }};
    }
    macro_rules! by_gaps {
        ($name:expr, $decoder:expr) => {{
            let decoder = $decoder;
            let launch: Launch<S> = Box::new(move |frame, decoding, gaps| decoder.launch(frame, decoding, gaps));
            (String::from($name), launch)
        }};
    }
    Ok(Some(match (index, number) {
        (IndexKind::Symbol, 0) => decoder!("syncline indexed", Indexed::new(device, log2)?),
        (IndexKind::Symbol, 1) => decoder!("cusz_2020", CuSz2020::new(device, log2)?),
        (IndexKind::None, 0) => decoder!("self-sync, improved", SelfSync::new(device, log2)?),
        (IndexKind::None, 1) => decoder!("self_sync_2018", SelfSync2018::new(device, log2)?),
        (IndexKind::None, 2) => decoder!("self_sync_2022", SelfSync2022::new(device, log2, by_class)?),
        (IndexKind::None, 3) => by_gaps!("gap, improved", Gap::new(device, log2)?),
        (IndexKind::None, 4) => by_gaps!("gap_array_2020", GapArray2020::new(device, log2)?),
        (IndexKind::None, 5) => by_gaps!("gap_array_2022", GapArray2022::new(device, log2, by_class)?),
        (IndexKind::None, _) if !free_groups && S::ALPHABET > 256 && number < 6 + BUFFERS.len() => {
            let kibibytes = BUFFERS[number - 6];
            let buffer = BufferSize::Fixed { bytes: kibibytes << 10 };
            let name = format!("gap_array_2022, buffer of {kibibytes} KiB");
            by_gaps!(name, GapArray2022::new(device, log2, buffer)?)
        }
        _ => return Ok(None),
    }))
}

impl<'s, S: Code> Prepared<'s, S> {
    fn new(gpu: &Gpu, symbols: &Input<'_, S>, streams: &'s Streams<S>) -> Result<Self> {
        let input = streams.encoded.bytes().slice(..streams.end());
        let bytes = gpu.stream.clone_dtoh(&input).doing("reading the streams")?;
        let sizes = streams.places.iter().zip(&streams.sizes);
        let parsed: Vec<_> = sizes
            .map(|(&place, &size)| Stream::<S>::parse(&bytes[place as usize..place as usize + size], "a stream"))
            .collect::<Result<_, _>>()?;
        let places: Vec<_> = (parsed.iter().zip(&streams.places).enumerate())
            .map(|(i, (stream, &place))| BatchStream {
                stream,
                input_offset: place,
                output_offset: (i * streams.lengths[0]) as u64,
                classes_offset: 0,
            })
            .collect();
        let batch = Batch::new(&gpu.stream, &places)?;
        let of_stream = |(i, stream)| {
            let first = i * streams.lengths[0];
            gap_array::of_stream(stream, &symbols.host[first..first + streams.lengths[i]])
        };
        let arrays: Vec<_> = match streams.index {
            IndexKind::None => parsed.iter().enumerate().map(of_stream).collect(),
            IndexKind::Symbol => Vec::new(),
        };
        let gaps = GapArrays::new(&gpu.stream, &arrays)?;
        // SAFETY: symbols have no invalid bit patterns, and all are cleared before they are read.
        let output = unsafe { gpu.stream.alloc::<S>(streams.lengths.iter().sum()) }.doing("allocating")?;
        let status = gpu.stream.alloc_zeros(streams.lengths.len()).doing("allocating")?;
        Ok(Self { input, batch, gaps, output, status, no_classes: gpu.stream.alloc_zeros(1).doing("allocating")? })
    }

    /// Fills the output with a pattern, so that missing writes are detected.
    fn clear(&mut self, gpu: &Gpu) -> Result<()> {
        let poison = vec![S::truncate(0x5A5A); self.output.len()];
        gpu.stream.memcpy_htod(&poison, &mut self.output).doing("filling")?;
        Ok(())
    }

    fn decode(&mut self, launch: &Launch<S>, frame: &mut Frame<'_>) -> syncline_cuda::Result<()> {
        let decoding = Decoding {
            input: &self.input,
            classes: &self.no_classes.as_view(),
            batch: &self.batch.as_view(),
            output: &mut self.output.as_view_mut(),
            status: &mut self.status.as_view_mut(),
        };
        launch(frame, decoding, &self.gaps)
    }

    fn check(&self, gpu: &Gpu, input: &Input<'_, S>) -> Result<()> {
        let status = gpu.stream.clone_dtoh(&self.status).doing("reading the status")?;
        if let Some(problem) = status.into_iter().find_map(status_text) {
            anyhow::bail!("{problem}");
        }
        let back = gpu.stream.clone_dtoh(&self.output).doing("reading symbols")?;
        ensure_same(bytemuck::cast_slice(&back), bytemuck::cast_slice(&input.host), "the decoded symbols")
    }
}
