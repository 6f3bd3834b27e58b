//! Which processor does the work, and why that one.

use std::fmt;
use std::str::FromStr;

use syncline_core::bound::{Bound, Pipeline};
use syncline_core::container::Header;
use syncline_core::error::{Error, Result};
use syncline_core::huffman::Decoder;
use syncline_core::pipeline::{Coder, CoderOptions};

use crate::gpu_backend::Gpus;

/// Rates from file to file, in bytes of elements a second, measured with a field of 6.4 GB and ratio 10 in
/// memory-backed files (`docs/SPEED.md`).
struct Rates {
    /// Of each thread of a CPU.
    thread: f64,
    /// Of a CPU with as many threads as you like: memory and files are the limit.
    cpu: f64,
    /// Of a GPU once it has started: reading, writing and page-locked memory are the limit, not its own work.
    gpu: f64,
}

const COMPRESS: Rates = Rates { thread: 1.1e9, cpu: 7e9, gpu: 13e9 };
const DECOMPRESS: Rates = Rates { thread: 1.5e9, cpu: 2.6e9, gpu: 2.5e9 };
/// Seconds that it takes to open a GPU, load kernels, lock memory, and close all of it in the end.
const GPU_START: f64 = 0.45;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Compress,
    Decompress,
}

/// Seconds that `bytes` bytes of elements are likely to take on so many threads, and on a GPU.
fn estimates(work: Work, bytes: u64, threads: usize) -> (f64, f64) {
    let rates = match work {
        Work::Compress => COMPRESS,
        Work::Decompress => DECOMPRESS,
    };
    let bytes = bytes as f64;
    (bytes / (rates.thread * threads as f64).min(rates.cpu), GPU_START + bytes / rates.gpu)
}

/// The processor that does the work. Streams and arrays are the same on each.
///
/// GPUs compress and decompress streams of `f32` and `f64` with an error bound, and lossless streams of the coders
/// `lzss` and `lzss+huffman` if [`Backend::Cuda`] is chosen. The CPU does everything else, even if a GPU is chosen; for
/// example regions whose elements are not contiguous in the array. [`Execution`] reports which processor did the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The first GPU if it is usable and likely to be faster, its start included; otherwise the CPU. For compression,
    /// the GPU is chosen from about 1.2 GB of elements with 2 threads, and from 7 GB with 16 threads. For
    /// decompression, which is limited by writing to memory, it is chosen only with one thread. A missing or failing
    /// GPU is not an error.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// NVIDIA GPUs. An error if there are none, or if the library was built without the feature `cuda`.
    Cuda(CudaDevices),
}

/// The NVIDIA GPUs to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaDevices {
    /// The GPU with this number, counted from 0.
    One(usize),
    /// All GPUs. They share the work.
    All,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(CudaDevices::All) => f.write_str("cuda:all"),
            Self::Cuda(CudaDevices::One(ordinal)) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for Backend {
    type Err = Error;

    /// Parses `auto`, `cpu`, `cuda` (the first GPU), `cuda:1` or `cuda:all`.
    fn from_str(name: &str) -> Result<Self> {
        let unknown = || Error::invalid(format!("unknown device '{name}': use auto, cpu, cuda, cuda:N or cuda:all"));
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(CudaDevices::One(0))),
            "cuda:all" => Ok(Self::Cuda(CudaDevices::All)),
            _ => {
                let number = name.strip_prefix("cuda:").ok_or_else(unknown)?;
                // `parse` would take a sign.
                let digits = number.bytes().all(|byte| byte.is_ascii_digit());
                number.parse().ok().filter(|_| digits).map(|n| Self::Cuda(CudaDevices::One(n))).ok_or_else(unknown)
            }
        }
    }
}

/// Where a piece of work was done, and why there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// GPUs that did it, as "cuda:0 (NVIDIA H200)"; none if it was the CPU.
    pub gpus: Vec<String>,
    /// Why there.
    pub reason: String,
}

impl Execution {
    pub(crate) fn cpu(reason: impl Into<String>) -> Self {
        Self { gpus: Vec::new(), reason: reason.into() }
    }

    /// Whether a GPU did it.
    pub fn on_gpu(&self) -> bool {
        !self.gpus.is_empty()
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.on_gpu() { self.gpus.join(", ") } else { "the CPU".into() };
        write!(f, "{place}: {}", self.reason)
    }
}

/// The processor chosen for a piece of work.
pub(crate) struct Choice {
    /// None for the CPU.
    pub(crate) gpus: Option<Gpus>,
    pub(crate) reason: String,
}

impl Choice {
    fn cpu(reason: impl Into<String>) -> Self {
        Self { gpus: None, reason: reason.into() }
    }

    /// Chooses for work on `bytes` bytes of elements that `threads` threads could do, too; `obstacle` says why only the
    /// CPU can do it, if so.
    ///
    /// # Errors
    /// A GPU is asked for and not to be had, whether or not it would do this work.
    pub(crate) fn new(
        backend: Backend,
        work: Work,
        bytes: u64,
        threads: usize,
        obstacle: Option<String>,
    ) -> Result<Self> {
        let (cpu, gpu) = estimates(work, bytes, threads);
        match (backend, obstacle) {
            (Backend::Cpu, _) => Ok(Self::cpu("as asked for")),
            (Backend::Cuda(devices), Some(obstacle)) => {
                Gpus::check(devices)?;
                Ok(Self::cpu(obstacle))
            }
            (Backend::Cuda(devices), None) => {
                Ok(Self { gpus: Some(Gpus::open(devices)?), reason: "as asked for".into() })
            }
            (Backend::Auto, Some(obstacle)) => Ok(Self::cpu(obstacle)),
            (Backend::Auto, None) if cpu <= gpu => Ok(Self::cpu(format!(
                "{threads} threads are likely to take {cpu:.2} s, a GPU with its start {gpu:.2} s"
            ))),
            (Backend::Auto, None) => Ok(match Gpus::open(CudaDevices::One(0)) {
                Ok(gpus) => {
                    let reason = format!("likely to take {gpu:.2} s with its start, {threads} threads {cpu:.2} s");
                    Self { gpus: Some(gpus), reason }
                }
                Err(error) => Self::cpu(error.to_string()),
            }),
        }
    }

    /// Where the work is done if nothing comes in between.
    pub(crate) fn execution(&self) -> Execution {
        Execution { gpus: self.gpus.as_ref().map_or_else(Vec::new, Gpus::names), reason: self.reason.clone() }
    }
}

/// Whether the GPU makes and reads lossless chunks of this pipeline.
pub(crate) fn is_on_gpu(pipeline: Coder) -> bool {
    matches!(pipeline, Coder::Lzss | Coder::LzssHuffman)
}

/// Why only the CPU compresses an array with such a bound, one that its element type can have, if so.
pub(crate) fn encode_obstacle(backend: Backend, bound: Bound, lossless: &CoderOptions) -> Option<String> {
    match (bound, backend) {
        (Bound::Lossless, Backend::Cuda(_)) if is_on_gpu(lossless.coder) => None,
        (Bound::Lossless, Backend::Cuda(_)) => Some(format!(
            "lossless compression by pipeline {} is done on the CPU: the GPU has lzss and lzss+huffman",
            lossless.coder
        )),
        (Bound::Lossless, _) => Some("lossless compression is done on the CPU unless a GPU is asked for".into()),
        _ => None,
    }
}

/// Why only the CPU compresses an array whose bound was resolved to this pipeline, if so.
pub(crate) fn pipeline_obstacle(pipeline: Pipeline, lossless: &CoderOptions) -> Option<String> {
    let text = "no quantization step serves this bound: the stream is lossless, which is done on the CPU";
    (pipeline == Pipeline::Lossless && !is_on_gpu(lossless.coder)).then(|| text.into())
}

/// Why only the CPU decompresses from such a stream, if so. `has_planes` says whether it has lossless chunks of planes,
/// which is asked only if it matters.
pub(crate) fn decode_obstacle(
    backend: Backend,
    header: &Header,
    decoder: Decoder,
    contiguous: bool,
    has_planes: impl FnOnce() -> Result<bool>,
) -> Result<Option<String>> {
    let text = match header.pipeline {
        _ if decoder != Decoder::Auto => "a decoder that is named is the CPU's",
        _ if !contiguous => "a region whose elements do not lie one after another is decompressed on the CPU",
        Pipeline::Lossless if !matches!(backend, Backend::Cuda(_)) => {
            "lossless decompression is done on the CPU unless a GPU is asked for"
        }
        Pipeline::Lossless if has_planes()? => "lossless chunks of planes are decompressed on the CPU",
        _ => return Ok(None),
    };
    Ok(Some(text.into()))
}

#[cfg(test)]
mod tests {
    use syncline_core::array::{ElementType, Shape};
    use syncline_core::bound::Resolved;
    use syncline_core::huffman::IndexKind;

    use super::*;

    #[test]
    fn names() {
        for (name, backend) in [
            ("auto", Backend::Auto),
            ("cpu", Backend::Cpu),
            ("cuda:0", Backend::Cuda(CudaDevices::One(0))),
            ("cuda:17", Backend::Cuda(CudaDevices::One(17))),
            ("cuda:all", Backend::Cuda(CudaDevices::All)),
        ] {
            assert_eq!(name.parse::<Backend>().unwrap(), backend);
            assert_eq!(backend.to_string(), name);
        }
        assert_eq!("cuda".parse::<Backend>().unwrap(), Backend::Cuda(CudaDevices::One(0)));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:99999999999999999999", "CUDA", "cuda:0,1"] {
            let error = wrong.parse::<Backend>().unwrap_err();
            assert!(error.to_string().contains("cuda:all"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_only_the_cpu_does_goes_there() {
        let of = |pipeline| CoderOptions { coder: pipeline, ..CoderOptions::default() };
        let obstacle = |backend, pipeline| encode_obstacle(backend, Bound::Lossless, &of(pipeline));
        for (backend, bytes) in [(Backend::Auto, u64::MAX), (Backend::Auto, 0), (Backend::Cpu, u64::MAX)] {
            let obstacle = obstacle(backend, Coder::Lzss);
            let choice = Choice::new(backend, Work::Compress, bytes, 1, obstacle).unwrap();
            assert!(choice.gpus.is_none(), "{backend}");
        }
        let cuda = Backend::Cuda(CudaDevices::All);
        assert!(obstacle(cuda, Coder::Huffman).is_some() && obstacle(cuda, Coder::Auto).is_some());
        assert!(obstacle(cuda, Coder::LzssHuffman).is_none());
        for pipeline in [Coder::Auto, Coder::LzssHuffman, Coder::Huffman] {
            assert!(encode_obstacle(cuda, Bound::Abs(1.0), &of(pipeline)).is_none());
        }
        let shape = Shape::new(&[1]).unwrap();
        let header = Header::new(ElementType::F32, shape, IndexKind::Symbol, &Resolved::lossless());
        let decode = |backend, planes| decode_obstacle(backend, &header, Decoder::Auto, true, || Ok(planes)).unwrap();
        assert!(decode(cuda, false).is_none() && decode(cuda, true).is_some());
        assert!(decode(Backend::Auto, false).is_some());
    }

    #[test]
    fn a_gpu_has_to_make_up_for_its_start() {
        let faster = |work, bytes, threads| {
            let (cpu, gpu) = estimates(work, bytes, threads);
            gpu < cpu
        };
        for work in [Work::Compress, Work::Decompress] {
            assert!(!faster(work, 100 << 20, 1) && !faster(work, 0, 1) && faster(work, 4 << 30, 1));
            assert!(!faster(work, 4 << 30, 16));
        }
        assert!(faster(Work::Compress, 4 << 30, 2) && faster(Work::Compress, 16 << 30, 16));
        let choice = Choice::new(Backend::Auto, Work::Compress, 1 << 20, 2, None).unwrap();
        assert!(!choice.execution().on_gpu() && choice.reason.contains("2 threads"), "{}", choice.reason);
    }
}
