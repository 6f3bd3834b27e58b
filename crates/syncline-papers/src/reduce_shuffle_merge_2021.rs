//! The encoder of Tian et al., "Revisiting Huffman Coding: Toward Extreme Performance on Modern GPU Architectures"
//! (IPDPS 2021), and the encoders that the paper compares it with.
//!
//! [`histogram`] reproduces the replicated shared-memory histogram (section IV-A). [`encoder`] reproduces
//! reduce-shuffle-merge (section IV-C) over the chunk magnitudes and reduction factors of the paper's table of encoding
//! throughput, the coarse-grained encoder of cuSZ, and the fine-grained prefix-sum encoder. The parallel codebook
//! construction (section IV-B) is what the product uses: see [`syncline_cuda::huffman::codebook`].
//!
//! All of them write Syncline's streams. A dense stream cannot store units that exceed a word ("breaking" units) apart,
//! so a chunk with such a unit is merged with wider units. Launches `kernels/reduce_shuffle_merge_2021/`.

pub mod histogram;

use syncline_cuda::device::{Device, Source, Specialization, source};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::huffman::Symbol;
use syncline_cuda::huffman::encode::{Encoder, Format, SegmentKernel, checked_formats};

const SOURCE: Source = source!("reduce_shuffle_merge_2021/encode.cu");

/// An encoding method of the paper. All write the same bytes as Syncline's own encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// The coarse-grained encoder: one thread encodes a segment symbol by symbol.
    Coarse,
    /// The fine-grained encoder: a prefix sum of the codeword lengths places each symbol.
    PrefixSum,
    /// Reduce-shuffle-merge: chunks of `2^magnitude` symbols, of which a thread merges `2^reduction` codewords. Batch
    /// moves then merge the results in pairs.
    ReduceShuffleMerge {
        /// Logarithm of the symbols in a chunk: 10 to 12.
        magnitude: u32,
        /// Logarithm of the codewords that a thread merges: 1 to 4.
        reduction: u32,
    },
}

impl Method {
    /// All methods, reduce-shuffle-merge with the constants that the paper recommends.
    pub const ALL: [Self; 3] =
        [Self::Coarse, Self::PrefixSum, Self::ReduceShuffleMerge { magnitude: 10, reduction: 3 }];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coarse => "coarse",
            Self::PrefixSum => "prefix-sum",
            Self::ReduceShuffleMerge { .. } => "reduce-shuffle-merge",
        }
    }

    /// Returns the kernel of this method.
    fn kernel(self) -> SegmentKernel {
        let kernel = |name, segment, threads: u32, segments_in_block, method, reduction: u32| SegmentKernel {
            source: SOURCE,
            name,
            segment,
            threads,
            segments_in_block,
            shared_memory: 0,
            constants: [("METHOD", method), ("REDUCTION", reduction.into())],
        };
        match self {
            Self::Coarse => kernel("reduce_shuffle_merge_2021_coarse", 4096, 128, 128, 0, 0),
            Self::PrefixSum => kernel("reduce_shuffle_merge_2021_prefix_sum", 4096, 256, 1, 1, 0),
            Self::ReduceShuffleMerge { magnitude, reduction } => {
                let threads = 1 << (magnitude - reduction);
                kernel("reduce_shuffle_merge_2021_encode", 1 << magnitude, threads, 1, 2, reduction)
            }
        }
    }
}

/// Returns an encoder of `method` for batches of this format.
///
/// # Errors
/// [`CudaError::InvalidArgument`] if the format is inconsistent or the method's constants are out of range; errors of
/// [`Device::kernel`].
pub fn encoder<S: Symbol>(device: &Device, format: &Format, method: Method) -> Result<Encoder<S>> {
    format.check()?;
    if let Method::ReduceShuffleMerge { magnitude, reduction } = method
        && !((10..=12).contains(&magnitude) && (1..=4).contains(&reduction) && magnitude - reduction <= 10)
    {
        return Err(CudaError::invalid(format!(
            "reduce-shuffle-merge does not support magnitude {magnitude} with reduction {reduction}"
        )));
    }
    Encoder::with_kernels(device, format, [method.kernel(); 3])
}

/// Returns the specializations for the compile check on a device with this much shared memory per block, in bytes.
pub(crate) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let of_format =
        |format: Format| Method::ALL.into_iter().flat_map(move |method| method.kernel().specializations(&format));
    let mut all: Vec<_> = checked_formats().into_iter().flat_map(of_format).collect();
    all.extend(histogram::specializations(shared_memory));
    all
}
