//! Which processor does the work, and why that one.

use std::fmt;
use std::str::FromStr;

use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Pipeline};
use syncline_core::container::Header;
use syncline_core::error::{Error, Result};
use syncline_core::huffman::Decoder;
use syncline_core::pipeline::LosslessPipeline;

use crate::gpu::Gpus;

/// Rates from file to file, in bytes of elements a second, measured with a field of 6.4 GB and ratio 10 in memory-backed files (`docs/SPEED.md`).
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

/// Which processor does the work. Streams and arrays are the same whichever it is.
///
/// The GPU does the lossy pipelines of `f32` and `f64`. Lossless streams, streams whose codes may be LZSS tokens, and regions whose elements do not lie one after another in
/// the array, are the CPU's work also when a GPU is asked for; [`Execution`] says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The first GPU where that is likely to be sooner done, its start included, and if there is one that can be used; else the CPU. Compressing, that is from about 1.2 GB of
    /// elements on with 2 threads and from 7 GB with 16; decompressing, where writing is the limit, only with one thread. A GPU that is missing or does not work is no error.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// NVIDIA GPUs: an error without them, or if the feature `cuda` is left out of the build.
    Cuda(CudaDevices),
}

/// Which of a machine's NVIDIA GPUs to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CudaDevices {
    /// The one with this number, from 0 on.
    One(usize),
    /// All, sharing the work.
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

    /// Chooses for work on `bytes` bytes of elements that `threads` threads could do, too; `obstacle` says why only the CPU can do it, if so.
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

/// Why only the CPU compresses such an array, if so.
pub(crate) fn encode_obstacle(element_type: ElementType, bound: Bound, pipeline: LosslessPipeline) -> Option<String> {
    if bound == Bound::Lossless || !element_type.is_lossy_capable() {
        return Some("lossless compression is done on the CPU".into());
    }
    pipeline.lzss_codes().then(|| format!("codes are compressed with pipeline {pipeline} on the CPU"))
}

/// Why only the CPU compresses an array whose bound was resolved to this pipeline, if so.
pub(crate) fn pipeline_obstacle(pipeline: Pipeline) -> Option<String> {
    let text = "no quantisation step serves this bound: the stream is lossless, which is done on the CPU";
    (pipeline == Pipeline::Lossless).then(|| text.into())
}

/// Why only the CPU decompresses from such a stream, if so.
pub(crate) fn decode_obstacle(header: &Header, decoder: Decoder, contiguous: bool) -> Option<String> {
    if header.pipeline == Pipeline::Lossless {
        return Some("lossless decompression is done on the CPU".into());
    }
    if header.lzss_codes {
        return Some("codes that may be LZSS tokens are decompressed on the CPU".into());
    }
    if decoder != Decoder::Auto {
        return Some("a decoder that is named is the CPU's".into());
    }
    let text = "a region whose elements do not lie one after another is decompressed on the CPU";
    (!contiguous).then(|| text.into())
}

#[cfg(test)]
mod tests {
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
        let obstacle = || encode_obstacle(ElementType::F32, Bound::Lossless, LosslessPipeline::Planes);
        for (backend, bytes) in [(Backend::Auto, u64::MAX), (Backend::Auto, 0), (Backend::Cpu, u64::MAX)] {
            let choice = Choice::new(backend, Work::Compress, bytes, 1, obstacle()).unwrap();
            assert!(choice.gpus.is_none(), "{backend}");
        }
        assert!(encode_obstacle(ElementType::F64, Bound::Abs(1.0), LosslessPipeline::Planes).is_none());
        assert!(encode_obstacle(ElementType::I32, Bound::Abs(1.0), LosslessPipeline::Planes).is_some());
        for pipeline in [LosslessPipeline::Auto, LosslessPipeline::LzssHuffman] {
            let obstacle = encode_obstacle(ElementType::F64, Bound::Abs(1.0), pipeline).unwrap();
            assert!(obstacle.contains(pipeline.name()), "{obstacle}");
        }
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
