//! The choice of the processor for a piece of work, and the reason for it.

mod measured;

use std::fmt;

use syncline_core::bound::{Bound, Pipeline};
use syncline_core::container::Header;
use syncline_core::error::Result;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::Effort;

use crate::devices::{Backend, CudaDevices};
use crate::gpu_backend::Gpus;
use crate::options::CompressOptions;

use measured::Measurements;
pub(crate) use measured::Stopwatch;

/// Speeds that are expected until this process has measured its own, in bytes of elements per second
/// (`bench/notes/host.md`).
struct Rates {
    /// Of each thread of a CPU.
    thread: f64,
    /// Of a CPU with any number of threads: memory and files are the limit.
    cpu: f64,
    /// Of a GPU after its start: reading, writing, and page-locked memory are the limit, not the GPU itself.
    gpu: f64,
}

// From file to file, measured with a field of 6.4 GB and ratio 10 in memory-backed files.
const COMPRESS: Rates = Rates { thread: 0.5e9, cpu: 7e9, gpu: 13e9 };
const DECOMPRESS: Rates = Rates { thread: 1.5e9, cpu: 2.6e9, gpu: 2.5e9 };
/// To memory, measured with 64 MiB.
const DECOMPRESS_TO_MEMORY: Rates = Rates { thread: 0.5e9, cpu: 20e9, gpu: 15e9 };
/// Lossless: threads as they were measured over columns and fields, of a GPU for compression what is below all that was
/// measured in its memory, which also stands for the host's choices (`bench/notes/numbers.md`).
const COMPRESS_LOSSLESS: Rates = Rates { thread: 0.25e9, cpu: 7e9, gpu: 6e9 };
/// Threads that decompress without loss, to whatever target.
const LOSSLESS_THREAD: f64 = 0.7e9;
/// Seconds to open a GPU, load kernels, lock memory, and release all of it.
const GPU_START: f64 = 0.45;
/// Seconds of a call on a GPU, however few bytes there are.
const GPU_CALL: f64 = 1e-3;

/// Share of the speed of a CPU's thread that remains with the efforts above fast: 0.5 to 0.75 were measured
/// (`bench/notes/contexts.md`).
const MORE_EFFORT: f64 = 0.6;

/// Where decompressed elements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Memory,
    /// A file, whose speed is the limit.
    Writer,
}

/// The kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Compress(Effort),
    Decompress(Target),
    CompressLossless,
    DecompressLossless(Target),
}

impl Work {
    /// Kinds that are measured apart.
    const KINDS: usize = 7;

    /// Returns the kind of compression with these options.
    pub(crate) fn compression(options: &CompressOptions) -> Self {
        match options.bound() {
            Bound::Lossless => Self::CompressLossless,
            _ => Self::Compress(options.effort()),
        }
    }

    /// Returns the kind of decompression of a stream with this header.
    pub(crate) fn decompression(header: &Header, target: Target) -> Self {
        match header.pipeline {
            Pipeline::Lossless => Self::DecompressLossless(target),
            _ => Self::Decompress(target),
        }
    }

    /// Returns the number of the kind.
    fn kind(self) -> usize {
        match self {
            Self::Compress(Effort::Fast) => 0,
            Self::Compress(_) => 1,
            Self::CompressLossless => 2,
            Self::Decompress(target) => 3 + target as usize,
            Self::DecompressLossless(target) => 5 + target as usize,
        }
    }

    /// Returns the rates that are expected before anything was measured.
    fn rates(self) -> Rates {
        match self {
            Self::Compress(Effort::Fast) => COMPRESS,
            Self::Compress(_) => Rates { thread: COMPRESS.thread * MORE_EFFORT, ..COMPRESS },
            Self::CompressLossless => COMPRESS_LOSSLESS,
            Self::Decompress(Target::Writer) => DECOMPRESS,
            Self::Decompress(Target::Memory) => DECOMPRESS_TO_MEMORY,
            Self::DecompressLossless(target) => Rates { thread: LOSSLESS_THREAD, ..Self::Decompress(target).rates() },
        }
    }
}

/// The processor that did a piece of work, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// The GPUs that did the work, such as "cuda:0 (NVIDIA H200)"; empty if the CPU did it.
    pub gpus: Vec<String>,
    /// The reason for the choice.
    pub reason: String,
}

impl Execution {
    pub(crate) fn cpu(reason: impl Into<String>) -> Self {
        Self { gpus: Vec::new(), reason: reason.into() }
    }

    /// Returns whether a GPU did the work.
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
    /// The GPUs; `None` for the CPU.
    pub(crate) gpus: Option<Gpus>,
    pub(crate) reason: String,
}

impl Choice {
    fn cpu(reason: impl Into<String>) -> Self {
        Self { gpus: None, reason: reason.into() }
    }

    /// Chooses the processor for `bytes` bytes of elements, if the CPU would use `threads` threads. `obstacle` is the
    /// reason why only the CPU can do the work, if there is one.
    ///
    /// # Errors
    /// [`Error::Gpu`] if a GPU is requested and cannot be used, even if the CPU would do this work.
    pub(crate) fn new(
        backend: Backend,
        work: Work,
        bytes: u64,
        threads: usize,
        obstacle: Option<String>,
    ) -> Result<Self> {
        let (cpu, gpu) = Measurements::so_far().estimates(work, bytes, threads);
        match (backend, obstacle) {
            (Backend::Cpu, _) => Ok(Self::cpu("as requested")),
            (Backend::Cuda(devices), Some(obstacle)) => {
                Gpus::check(devices)?;
                Ok(Self::cpu(obstacle))
            }
            (Backend::Cuda(devices), None) => {
                Ok(Self { gpus: Some(Gpus::open(devices)?), reason: "as requested".into() })
            }
            (Backend::Auto, Some(obstacle)) => Ok(Self::cpu(obstacle)),
            (Backend::Auto, None) if cpu <= gpu => {
                Ok(Self::cpu(format!("estimated time: {cpu:.2} s with {threads} threads, {gpu:.2} s with a GPU")))
            }
            (Backend::Auto, None) => Ok(match Gpus::open(CudaDevices::One(0)) {
                Ok(gpus) => {
                    let reason = format!("estimated time: {gpu:.2} s, {cpu:.2} s with {threads} threads");
                    Self { gpus: Some(gpus), reason }
                }
                Err(error) => Self::cpu(error.to_string()),
            }),
        }
    }

    /// Returns the processor that does the work unless it fails.
    pub(crate) fn execution(&self) -> Execution {
        Execution { gpus: self.gpus.as_ref().map_or_else(Vec::new, Gpus::names), reason: self.reason.clone() }
    }
}

/// Returns the reason why only the CPU compresses an array with this valid bound, if there is one.
pub(crate) fn encode_obstacle(options: &CompressOptions) -> Option<String> {
    let has_index = options.advanced().index == IndexKind::Symbol;
    (options.bound() == Bound::Lossless && !has_index)
        .then(|| "streams without an index are compressed on the CPU".into())
}

/// Returns the reason why only the CPU compresses an array to a stream with this header, if there is one.
pub(crate) fn stream_obstacle(header: &Header) -> Option<String> {
    let text = "the bound is too small for quantization, so that the stream is lossless, without an index, and made on \
                the CPU";
    lacks_index(header).then(|| text.into())
}

/// Returns the reason why only the CPU decompresses from such a stream, if there is one.
pub(crate) fn decode_obstacle(header: &Header) -> Option<String> {
    lacks_index(header).then(|| "lossless streams without an index are decompressed on the CPU".into())
}

/// Returns whether a stream is lossless and has no index, without which GPUs cannot work.
fn lacks_index(header: &Header) -> bool {
    header.pipeline == Pipeline::Lossless && header.index != IndexKind::Symbol
}

#[cfg(test)]
mod tests {
    use syncline_core::array::{ElementType, Shape};
    use syncline_core::bound::Resolved;

    use crate::{Advanced, Coder};

    use super::*;

    #[test]
    fn work_without_a_kernel_runs_on_the_cpu() {
        let of = |bound, coder| CompressOptions::new(bound).with_advanced(Advanced::default().with_coder(coder));
        let obstacle = |backend, coder| encode_obstacle(&of(Bound::Lossless, coder).with_backend(backend));
        for (backend, bytes) in [(Backend::Auto, u64::MAX), (Backend::Auto, 0), (Backend::Cpu, u64::MAX)] {
            let obstacle = Some("no kernel".to_owned());
            let choice = Choice::new(backend, Work::Compress(Effort::Fast), bytes, 1, obstacle).unwrap();
            assert!(choice.gpus.is_none(), "{backend}");
        }
        let cuda = Backend::Cuda(CudaDevices::All);
        for pipeline in [Coder::Auto, Coder::LzssHuffman, Coder::Numbers] {
            assert!(obstacle(cuda, pipeline).is_none() && obstacle(Backend::Auto, pipeline).is_none());
            for effort in Effort::ALL {
                let options = of(Bound::Abs(1.0), pipeline).with_effort(effort).with_backend(cuda);
                assert!(encode_obstacle(&options).is_none());
            }
        }
        let shape = Shape::new(&[1]).unwrap();
        let header = Header::new(ElementType::F32, shape, IndexKind::Symbol, &Resolved::lossless());
        let lossy = Header { pipeline: Pipeline::Quantized, ..header.clone() };
        for header in [&header, &lossy] {
            assert!(decode_obstacle(header).is_none() && stream_obstacle(header).is_none());
        }
        let no_index = Header { index: IndexKind::None, ..header };
        assert!(decode_obstacle(&no_index).is_some() && stream_obstacle(&no_index).is_some());
        let with_index = of(Bound::Lossless, Coder::LzssHuffman).with_backend(cuda);
        let no_index = with_index.advanced().with_index(IndexKind::None);
        assert!(encode_obstacle(&with_index.with_advanced(no_index)).is_some());
    }

    #[test]
    fn a_gpu_has_to_make_up_for_its_start() {
        let faster = |work, bytes, threads| {
            let (cpu, gpu) = Measurements::default().estimates(work, bytes, threads);
            gpu < cpu
        };
        for work in [Work::Compress(Effort::Fast), Work::Decompress(Target::Writer)] {
            assert!(!faster(work, 100 << 20, 1) && !faster(work, 0, 1) && faster(work, 4 << 30, 1));
            assert!(!faster(work, 4 << 30, 16));
        }
        let to_memory = Work::Decompress(Target::Memory);
        assert!(!faster(to_memory, 100 << 20, 1) && faster(to_memory, 1 << 30, 1) && !faster(to_memory, 1 << 30, 16));
        for work in [Work::CompressLossless, Work::DecompressLossless(Target::Writer)] {
            assert!(!faster(work, 100 << 20, 1) && faster(work, 4 << 30, 1) && !faster(work, 1 << 30, 16));
        }
        let compress = Work::Compress(Effort::Fast);
        assert!(faster(compress, 1 << 30, 2) && faster(compress, 16 << 30, 16));
        let balanced = Work::Compress(Effort::Balanced);
        assert!(faster(balanced, 400 << 20, 2) && !faster(compress, 400 << 20, 2) && faster(balanced, 4 << 30, 16));
        let choice = Choice::new(Backend::Auto, compress, 1 << 20, 2, None).unwrap();
        assert!(!choice.execution().on_gpu() && choice.reason.contains("2 threads"), "{}", choice.reason);
    }
}
