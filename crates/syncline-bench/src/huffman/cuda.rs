//! Encoders and decoders on an NVIDIA GPU, timed with CUDA events and compared with a device-to-device copy of the same
//!
//! Outputs are filled with a pattern before they are checked. Streams are compared with those of the CPU, and decoded
//! symbols with the encoded ones.

#![allow(unsafe_code)]

mod codebooks;
mod decoders;
mod encoders;
pub mod names;
pub mod rotation;
mod staging;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use syncline_core::huffman::{self, IndexKind};
use syncline_core::predict::codes::RADIUS;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, DeviceRepr};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::DriverContext;
use syncline_cuda::timing::{KernelTimes, Runs, Times};

use super::{Row, Set, Symbols, chunk_symbols};
use crate::check::{Check, POISON, view_bytes, view_bytes_mut};
use crate::gpu::Opened;
use crate::nvcomp::{Bench, Codec, Nvcomp};
pub use codebooks::CodebookTime;
pub use decoders::Phases;
pub use staging::{SPAN_ROOMS, Staging};

/// A symbol type that both backends support.
trait Code: huffman::Symbol + syncline_cuda::huffman::Symbol + DeviceRepr {
    /// Number of symbols in the alphabet of the measured streams.
    const ALPHABET: u32;
}

impl Code for u8 {
    const ALPHABET: u32 = 256;
}

impl Code for u16 {
    const ALPHABET: u32 = 2 * RADIUS;
}

/// Which measurements are made on a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All encoders and decoders, phases, and buffer sizes.
    Everything,
    /// Our encoder and the optimized decoders, with single calls and with consecutive calls: for a small set.
    Fastest,
    /// Only the decoders, for a curve over many sets.
    Decoders,
}

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// One row for each set, encoder and decoder.
    pub rows: Vec<Row>,
    /// Throughputs of the decoders' phases.
    pub phases: Vec<Phases>,
    /// Buffer sizes of the decoders.
    pub staging: Vec<Staging>,
    /// Times of building codebooks.
    pub codebooks: Vec<CodebookTime>,
}

/// A GPU with the state of its measurements.
pub struct Gpu {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Arc<KernelTimes>,
    arena: Arena,
    check: Check,
    runs: Runs,
    copy: f64,
}

/// The symbols of a set in device memory.
struct Input<S> {
    set: String,
    symbols: CudaSlice<S>,
    /// Number of symbols in a stream.
    stream: usize,
    /// The most frequent symbol.
    common: u16,
    /// A symbol that does not occur, or the least frequent one: no group consists of it, so there are no zero-bit
    /// groups.
    rare: u16,
}

impl<S: Code> Input<S> {
    fn bytes(&self) -> usize {
        self.symbols.len() * size_of::<S>()
    }

    fn as_bytes(&self) -> CudaView<'_, u8> {
        view_bytes(&self.symbols)
    }
}

impl Gpu {
    /// Opens GPU 0 and measures its copy.
    ///
    /// # Errors
    /// There is no GPU, or it cannot be used.
    pub fn open(runs: usize) -> Result<Self> {
        let runs = Runs { warm_up: 3, counted: runs.max(1) };
        let Opened { device, stream, check, copy } = Opened::new(runs)?;
        let kernels = KernelTimes::new(&stream);
        let device = device.with_tracer(kernels.clone());
        Ok(Self { arena: Arena::new(stream.clone()), device, stream, kernels, check, runs, copy })
    }

    /// Returns the names of the device and its software.
    pub fn name(&self) -> String {
        self.device.info().to_string()
    }

    /// Returns the throughput of a device-to-device copy in bytes per second, counting each byte once.
    pub fn copy_rate(&self) -> f64 {
        self.copy
    }

    /// Measures one set.
    ///
    /// # Errors
    /// An operation fails, or the decoded symbols differ.
    pub fn measure(&mut self, set: &Set, extent: Extent, results: &mut Results) -> Result<()> {
        match &set.symbols {
            Symbols::Bytes(symbols) => self.measure_symbols(set, symbols, extent, results),
            Symbols::Codes(symbols) => self.measure_symbols(set, symbols, extent, results),
        }
        .with_context(|| format!("on {}", set.name))
    }

    /// Encodes a set with every kind of index, checks the streams, and measures the encoders and decoders of `extent`.
    fn measure_symbols<S: Code>(
        &mut self,
        set: &Set,
        symbols: &[S],
        extent: Extent,
        results: &mut Results,
    ) -> Result<()> {
        let input = self.upload(set, symbols)?;
        // The papers have no zero-bit groups; our decoders are measured with and without them.
        let free_groups: &[bool] = if extent == Extent::Decoders { &[false] } else { &[true, false] };
        for &free_groups in free_groups {
            for index in IndexKind::ALL {
                let mut streams = self.encode(&input, index, free_groups)?;
                self.check_streams(&input, &streams)?;
                if extent != Extent::Decoders {
                    self.measure_encoders(&input, &mut streams, extent, results)?;
                }
                self.measure_decoders(&input, &streams, extent, results)?;
            }
        }
        Ok(())
    }

    /// Times nvCOMP's codecs on a set.
    ///
    /// # Errors
    /// A call fails, or the decompressed symbols differ.
    pub fn measure_nvcomp(&mut self, nvcomp: &Nvcomp, set: &Set, results: &mut Results) -> Result<()> {
        match &set.symbols {
            Symbols::Bytes(symbols) => self.measure_codecs(nvcomp, set, symbols, results),
            Symbols::Codes(symbols) => self.measure_codecs(nvcomp, set, symbols, results),
        }
        .with_context(|| format!("on {}", set.name))
    }

    fn measure_codecs<S: Code>(
        &mut self,
        nvcomp: &Nvcomp,
        set: &Set,
        symbols: &[S],
        results: &mut Results,
    ) -> Result<()> {
        let input = self.upload(set, symbols)?;
        for codec in Codec::beside_huffman(size_of::<S>()) {
            let mut bench = Bench { stream: self.stream.clone(), runs: self.runs, check: &mut self.check };
            let done = nvcomp.measure(&codec, &input.as_bytes(), &mut bench)?;
            let what = |direction| What {
                direction,
                method: format!("nvCOMP {}", codec.name),
                index: names::NVCOMP.to_owned(),
                free_groups: false,
                symbols: input.symbols.len(),
                stream_bytes: done.bytes,
            };
            let bytes = input.bytes();
            results.rows.push(self.row(&input.set, bytes, what("encode"), &done.compress));
            results.rows.push(self.row(&input.set, bytes, what("decode"), &done.decompress));
        }
        Ok(())
    }

    fn upload<S: Code>(&self, set: &Set, symbols: &[S]) -> Result<Input<S>> {
        ensure!(!symbols.is_empty(), "there are no symbols");
        let mut counts = vec![0_u64; S::ALPHABET as usize];
        for &symbol in symbols {
            let number = symbol.index();
            ensure!(number < counts.len(), "symbol {number} is not below {}", S::ALPHABET);
            counts[number] += 1;
        }
        let by_count = |pick: fn(&[u64]) -> Option<usize>| pick(&counts).unwrap_or(0) as u16;
        let common = by_count(|counts| (0..counts.len()).max_by_key(|&i| counts[i]));
        let rare = by_count(|counts| (0..counts.len()).min_by_key(|&i| counts[i]));
        let length = symbols.len() * set.copies;
        // SAFETY: symbols have no invalid bit patterns, and the loop writes all of them.
        let mut whole = unsafe { self.stream.alloc::<S>(length) }.doing("allocating")?;
        for start in (0..length).step_by(symbols.len()) {
            let mut part = whole.slice_mut(start..start + symbols.len());
            self.stream.memcpy_htod(symbols, &mut part).doing("filling")?;
        }
        Ok(Input { set: set.name.clone(), symbols: whole, stream: chunk_symbols(symbols.len()), common, rare })
    }

    /// Returns a row for an operation that takes `times` for all of `bytes` bytes.
    fn row(&self, set: &str, bytes: usize, what: What, times: &Times) -> Row {
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        Row {
            set: set.to_owned(),
            bytes,
            device: self.device.info().name.clone(),
            direction: what.direction,
            method: what.method,
            index: what.index,
            free_groups: what.free_groups,
            bits: what.stream_bytes as f64 * 8.0 / what.symbols as f64,
            ratio: bytes as f64 / what.stream_bytes as f64,
            median: rate(times.median()),
            best: rate(times.shortest()),
            slowest: rate(times.longest()),
            microseconds: times.median() * 1e6,
            share_of_copy: Some(rate(times.median()) * 1e9 / self.copy),
            queued: None,
            one_after_another: None,
        }
    }
}

impl Row {
    /// Adds the results of queued and consecutive calls.
    fn with_alternating(self, rates: Option<rotation::AlternatingCalls>) -> Self {
        let (queued, one_after_another) = rates.map(|rates| (rates.queued, rates.one_after_another)).unzip();
        Self { queued, one_after_another, ..self }
    }
}

/// The description of a row.
struct What {
    direction: &'static str,
    method: String,
    index: String,
    free_groups: bool,
    symbols: usize,
    stream_bytes: u64,
}
