//! The stage on an NVIDIA GPU, timed with CUDA events and compared with a device-to-device copy of the same run, and
//! nvCOMP's codecs on the same bytes.
//!
//! Outputs are filled with a pattern before they are checked. Tokens of the first chunks are compared with those of the
//! CPU, and decoded bytes with the encoded ones.

#![allow(unsafe_code)]

mod streams;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use syncline_core::container::ALIGNMENT;
use syncline_core::lzss::{EncodeScratch, Params, SymbolWidth, Tokens, encode};
use syncline_cuda::HEADERS;
use syncline_cuda::baselines::gpulz_2023;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::DriverContext;
use syncline_cuda::lzss::{Batch, DecodeBatch, DecodeSpan, Decoder, Encoded, Encoder, Form, SectionPlan, Span};
use syncline_cuda::timing::{self, Runs, Times};

use super::{PUBLISHED, Row, STAGE, Set};
use crate::check::{Check, POISON};
use crate::gpu::Opened;
use crate::lossy::Rate;
use crate::nvcomp::{Bench, Codec, Nvcomp};

/// Minimum bytes of a container's chunk for large inputs, by which data blocks are passed to the encoder.
const CONTAINER_CHUNK: usize = 4 << 20;
/// Number of pieces whose tokens are compared with the CPU's; one if the pieces are as large as a container's chunk.
const COMPARED: usize = 3;
/// Runs of a kernel that compares with the whole window, which is slow.
const SLOW: Runs = Runs { warm_up: 1, counted: 2 };

/// A GPU with the state of its measurements.
pub struct Gpu {
    device: Device,
    stream: Arc<CudaStream>,
    arena: Arena,
    check: Check,
    runs: Runs,
    copy: f64,
}

/// A set in device memory, repeated until it is large.
pub struct Loaded<'s> {
    set: &'s Set,
    name: String,
    input: CudaSlice<u8>,
}

/// Compiles the kernels for the grid concurrently into the disk cache, because a device compiles kernels one after
/// another.
///
/// # Errors
/// There is no GPU, or a kernel does not compile.
pub fn compile(grid: &[(SymbolWidth, u8)], published: bool) -> Result<()> {
    let pairs = || grid.par_iter();
    type Compile = fn(&Device, SymbolWidth, u8) -> syncline_cuda::Result<()>;
    let encoder: Compile = |device, width, level| Encoder::new(device, width, level).map(drop);
    let decoder: Compile = |device, width, level| Decoder::new(device, width, level).map(drop);
    let baseline: Compile = |device, width, level| gpulz_2023::encoder(device, width, level).map(drop);
    let all = [Some(encoder), Some(decoder), published.then_some(baseline)].into_par_iter().flatten();
    all.flat_map(|compile| pairs().map(move |&(width, level)| (compile, width, level)))
        .try_for_each(|(compile, width, level)| compile(&Device::open(0, &HEADERS)?, width, level))?;
    Ok(())
}

impl Gpu {
    /// Opens GPU 0 and measures its copy.
    ///
    /// # Errors
    /// There is no GPU, or it cannot be used.
    pub fn open(runs: usize) -> Result<Self> {
        let runs = Runs { warm_up: 2, counted: runs.max(1) };
        let Opened { device, stream, check, copy } = Opened::new(runs)?;
        Ok(Self { arena: Arena::new(stream.clone()), device, stream, check, runs, copy })
    }

    /// Returns the names of the device and its software.
    pub fn name(&self) -> String {
        self.device.info().to_string()
    }

    /// Returns the throughput of a device-to-device copy in bytes per second, counting each byte once.
    pub fn copy_rate(&self) -> f64 {
        self.copy
    }

    /// Uploads a set, repeated until it has `mebibytes` MiB.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn load<'s>(&self, set: &'s Set, mebibytes: usize) -> Result<Loaded<'s>> {
        let length = set.bytes.len();
        let copies = (mebibytes << 20).div_ceil(length).max(1);
        // SAFETY: bytes have no invalid bit patterns, and the loop writes all of them.
        let mut input = unsafe { self.stream.alloc::<u8>(copies * length) }.doing("allocating")?;
        for copy in 0..copies {
            let mut part = input.slice_mut(copy * length..(copy + 1) * length);
            self.stream.memcpy_htod(&set.bytes, &mut part).doing("filling")?;
        }
        let name = if copies > 1 { format!("{}-x{copies}", set.name) } else { set.name.clone() };
        Ok(Loaded { set, name, input })
    }

    /// Measures the stage at one point of the grid, and the kernels as published if requested.
    ///
    /// # Errors
    /// An operation fails, or the decoded bytes differ.
    pub fn measure(
        &mut self,
        loaded: &Loaded<'_>,
        chunk: usize,
        level: u8,
        width: SymbolWidth,
        published: bool,
    ) -> Result<Vec<Row>> {
        let context = || format!("{}, C {chunk}, level {level}, S {}", loaded.name, width.bytes());
        self.stage(loaded, chunk, Params::new(width, level), published).with_context(context)
    }

    fn stage(&mut self, loaded: &Loaded<'_>, chunk: usize, params: Params, published: bool) -> Result<Vec<Row>> {
        let Params { width, level, min_match } = params;
        let length = loaded.input.len();
        let piece = if chunk < params.block_bytes() { chunk } else { CONTAINER_CHUNK };
        let span = |offset: usize| Span {
            offset: offset as u64,
            bytes: piece.min(length - offset) as u64,
            min_match,
            chunk: (offset / piece) as u64,
        };
        let spans: Vec<_> = (0..length).step_by(piece).map(span).collect();
        let batch = Batch::new(&self.stream, width, level, Form::Sections, &spans)?;
        let mut encoded = Encoded::new(&self.stream, &batch, batch.max_bytes())?;
        self.check.poison(&mut encoded.bytes_mut().as_view_mut(), POISON)?;

        let encoder = Encoder::new(&self.device, width, level)?;
        let (arena, input) = (&mut self.arena, loaded.input.as_view());
        let compression = timing::seconds(&self.stream, self.runs, || {
            encoder.launch(&mut arena.frame()?, &input, &batch, &mut encoded)
        })?;
        let plans = encoded.read_plans(&self.stream)?;
        let places = self.stream.clone_dtoh(encoded.places()).doing("reading places")?;
        self.compare_tokens(loaded.set, &params, piece, &encoded, &plans, &places)?;

        let spans: Vec<_> = spans
            .iter()
            .zip(plans.iter().zip(&places))
            .map(|(span, (plan, &place))| sections_of(span, plan, place))
            .collect();
        let decode_batch = DecodeBatch::new(&self.stream, width, level, &spans)?;
        let decoder = Decoder::new(&self.device, width, level)?;
        let mut back = self.stream.alloc_zeros::<u8>(length).doing("allocating")?;
        let mut status = self.stream.alloc_zeros::<u32>(spans.len()).doing("allocating")?;
        self.check.poison(&mut back.as_view_mut(), POISON)?;
        let arena = &mut self.arena;
        let decompression = timing::seconds(&self.stream, self.runs, || {
            let (mut back, mut status) = (back.as_view_mut(), status.as_view_mut());
            decoder.launch(&mut arena.frame()?, &encoded.bytes().as_view(), &decode_batch, &mut back, &mut status)
        })?;
        let status = self.stream.clone_dtoh(&status).doing("reading the status")?;
        ensure!(status.iter().all(|&status| status == 0), "a chunk was not decoded");
        let differences = self.check.differences(&loaded.input.as_view(), &back.as_view())?;
        ensure!(differences == 0, "{differences} bytes differ from what was encoded");

        let bytes: u64 = plans.iter().flat_map(|plan| plan.section_bytes).map(u64::from).sum();
        let row = |codec: &str, times: &Times, decompress: Option<&Times>| Row {
            chunk: Some(chunk),
            level: Some(level),
            symbol: Some(width.bytes()),
            ..self.row(loaded, codec, bytes, times, decompress)
        };
        let mut rows = vec![row(STAGE, &compression, Some(&decompression))];
        if published {
            let encoder = gpulz_2023::encoder(&self.device, width, level)?;
            let mut again = Encoded::new(&self.stream, &batch, batch.max_bytes())?;
            let arena = &mut self.arena;
            let times = timing::seconds(&self.stream, SLOW, || {
                encoder.launch(&mut arena.frame()?, &input, &batch, &mut again)
            })?;
            ensure!(again.read_plans(&self.stream)? == plans, "kernels as published make other tokens");
            let end = *places.last().unwrap_or(&0) as usize;
            let differences = self.check.differences(&encoded.bytes().slice(..end), &again.bytes().slice(..end))?;
            ensure!(differences == 0, "{differences} bytes of the published kernels' tokens are others");
            let row = Row { decompress: None, ..self.row(loaded, PUBLISHED, bytes, &times, None) };
            rows.push(Row { chunk: Some(chunk), level: Some(level), symbol: Some(width.bytes()), ..row });
        }
        Ok(rows)
    }

    /// Compares the first chunks' sections with the CPU's tokens.
    fn compare_tokens(
        &self,
        set: &Set,
        params: &Params,
        piece: usize,
        encoded: &Encoded,
        plans: &[SectionPlan],
        places: &[u64],
    ) -> Result<()> {
        let compared = if piece == CONTAINER_CHUNK { 1 } else { COMPARED };
        for (number, bytes) in set.bytes.chunks_exact(piece).take(compared).enumerate() {
            let mut tokens = Tokens::default();
            encode(bytes, params, &mut EncodeScratch::default(), &mut tokens);
            let flags: Vec<u8> = tokens.flags.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut at = places[number] as usize + align(plans[number].section_bytes[0] as usize);
            for expected in [&flags, &tokens.lengths, &tokens.distances, &tokens.literals] {
                let found = self.stream.clone_dtoh(&encoded.bytes().slice(at..at + expected.len()));
                ensure!(found.doing("reading tokens")? == *expected, "chunk {number} has other tokens than the CPU's");
                at += align(expected.len());
            }
        }
        Ok(())
    }

    /// Times nvCOMP's codecs on a set.
    ///
    /// # Errors
    /// A call fails, or the decompressed bytes differ.
    pub fn measure_nvcomp(&mut self, nvcomp: &Nvcomp, loaded: &Loaded<'_>) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for codec in Codec::beside_lzss(loaded.set.element.size()) {
            let mut bench = Bench { stream: self.stream.clone(), runs: self.runs, check: &mut self.check };
            let done = nvcomp.measure(&codec, &loaded.input.as_view(), &mut bench);
            let done = done.with_context(|| format!("on {}", loaded.name))?;
            let name = format!("nvCOMP {}", codec.name);
            rows.push(self.row(loaded, &name, done.bytes, &done.compress, Some(&done.decompress)));
        }
        Ok(rows)
    }

    fn row(&self, loaded: &Loaded<'_>, codec: &str, stream: u64, compress: &Times, decompress: Option<&Times>) -> Row {
        let bytes = loaded.input.len() as u64;
        let rate = |times: &Times| Rate::new(bytes, times, Some(self.copy));
        Row {
            set: loaded.name.clone(),
            element: loaded.set.element.to_string(),
            bytes,
            device: self.device.info().name.clone(),
            codec: codec.to_owned(),
            chunk: None,
            level: None,
            symbol: None,
            ratio: bytes as f64 / stream as f64,
            compress: rate(compress),
            decompress: decompress.map(rate),
        }
    }
}

fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Returns the locations of a chunk's sections, which start at `place`.
fn sections_of(span: &Span, plan: &SectionPlan, place: u64) -> DecodeSpan {
    let mut at = place;
    let mut next = |number: usize| {
        let part = (at, plan.section_bytes[number]);
        at += align(plan.section_bytes[number] as usize) as u64;
        part
    };
    // The counts of the data blocks follow 8 bytes of parameters.
    let blocks = next(0).0 + 8;
    let (flags, lengths, distances, literals) = (next(1), next(2), next(3), next(4));
    DecodeSpan {
        blocks,
        flags,
        lengths,
        distances,
        literals,
        output: span.offset,
        bytes: span.bytes,
        min_match: span.min_match,
    }
}
