//! Coarse-grained decoding as in cuSZ: Tian et al., "cuSZ: An Efficient GPU-Based Error-Bounded Lossy Compression
//! Framework for Scientific Data", PACT 2020; the naive baseline of the IPDPS 2022 paper (Section III; Table V).
//!
//! Each thread decodes one independent chunk, symbol by symbol. A chunk is a block of the symbol index (32 coded
//! groups), or a whole stream without it. Launches `kernels/cusz_2020/decode.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{DevicePtrMut, DeviceRepr};
use syncline_core::huffman::{IndexKind, Symbol};

use syncline_cuda::device::{Device, Frame, Grid, Specialization};
use syncline_cuda::device_kernels::{In, Out, declare_kernels, launch};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::decode::prepare::Preparation;
use syncline_cuda::huffman::decode::{
    BatchTotals, BatchView, CodebookDescriptor, Decoding, FORMATS, StreamDescriptor, TABLE_BITS, constants,
};

declare_kernels! {
    /// The kernel of `kernels/cusz_2020/decode.cu`.
    struct DecodeKernels in "cusz_2020/decode.cu", of (symbol_bytes: usize, group_log2: u32) {
        /// Threads per block; few, since there may be few chunks.
        const THREADS: u32 = 64;
        with COMMON = constants(symbol_bytes, group_log2, false);
        fn cusz_2020_decode(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            symbols: In<u16>, classes: In<u8>, map: In<u32>, totals: In<BatchTotals>, by_index: bool, sums: Out<u32>,
            status: Out<u32>, out: CUdeviceptr as "uint8_t *",
        );
    }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, group_log2)| DecodeKernels::specialization(bytes, group_log2)).to_vec()
}

/// Decodes any stream.
#[derive(Debug, Clone)]
pub struct CuSz2020<S> {
    preparation: Preparation<S>,
    kernels: DecodeKernels,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> CuSz2020<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](syncline_cuda::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors
    /// of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        let preparation = Preparation::new(device, group_log2, TABLE_BITS)?;
        let kernels = DecodeKernels::load(device, S::BYTES, group_log2)?;
        Ok(Self { preparation, kernels, group_log2 })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](syncline_cuda::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>) -> Result<()> {
        decoding.check(frame, true, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut decoding, false, true, 0)?;
        let sizes = decoding.batch.sizes;
        let by_index = sizes.index == Some(IndexKind::Symbol);
        let chunks = if by_index { sizes.index_blocks } else { sizes.streams };
        if chunks > 0 {
            let BatchView { descriptors, codebooks, symbols, totals, .. } = decoding.batch;
            let (output, _writes) = decoding.output.device_ptr_mut(frame.stream());
            let grid = Grid::new(chunks.div_ceil(THREADS), THREADS);
            // SAFETY: `Decoding::check` has compared the descriptors with the buffers; positions are bounded by the
            // stream's bits, and groups by its groups.
            unsafe {
                launch!(self.kernels.cusz_2020_decode on frame.stream(), grid; decoding.input, descriptors,
                    sizes.streams, codebooks, symbols, decoding.classes, &scratch.map, totals, by_index,
                    &mut scratch.sums, decoding.status, output)
            }?;
        }
        self.preparation.after(frame, &mut decoding, &scratch)
    }
}
