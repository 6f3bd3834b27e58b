//! Coarse-grained decoding as in cuSZ: Tian et al., "cuSZ: An Efficient GPU-Based Error-Bounded Lossy Compression
//! Framework for Scientific Data", PACT 2020; the naive baseline of the IPDPS 2022 paper (Section III; Table V).
//!
//! Each thread decodes one independent chunk, symbol by symbol. A chunk is a block of the symbol index (32 live
//! groups), or a whole stream without it. Launches `kernels/cusz_2020/decode.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{IndexKind, Symbol};

use syncline_cuda::device::{Device, Frame, Kernel, Source, Specialization, source};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::decode::prepare::Preparation;
use syncline_cuda::huffman::decode::{Decoding, FORMATS, TABLE_BITS, constants};

const SOURCE: Source = source!("cusz_2020/decode.cu");

/// Threads per block; few, since there may be few chunks.
const THREADS: u32 = 64;

fn specialization(symbol_bytes: usize, group_log2: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.push(("THREADS", THREADS.into()));
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, group_log2)| specialization(bytes, group_log2)).to_vec()
}

/// Decodes any stream.
#[derive(Debug, Clone)]
pub struct CuSz2020<S> {
    preparation: Preparation<S>,
    kernel: Kernel,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> CuSz2020<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](syncline_cuda::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors of
    /// [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        let preparation = Preparation::new(device, group_log2, TABLE_BITS)?;
        let kernel = device.kernel(&specialization(S::BYTES, group_log2), "cusz_2020_decode")?;
        Ok(Self { preparation, kernel, group_log2 })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](syncline_cuda::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>) -> Result<()> {
        decoding.check(frame, true, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut decoding, false, true, 0)?;
        let sizes = decoding.batch.sizes;
        let by_index = u32::from(sizes.index == Some(IndexKind::Symbol));
        let chunks = if by_index == 1 { sizes.index_blocks } else { sizes.streams };
        if chunks > 0 {
            let map = scratch.map.as_view();
            let mut launch = self.kernel.launch_on(frame.stream());
            launch.arg(decoding.input).arg(&decoding.batch.descriptors).arg(&sizes.streams);
            launch.arg(&decoding.batch.codebooks).arg(&decoding.batch.symbols).arg(decoding.classes).arg(&map);
            launch.arg(&decoding.batch.totals).arg(&by_index);
            launch.arg(&mut scratch.sums).arg(&mut *decoding.status).arg(&mut *decoding.output);
            // SAFETY: the kernel's parameters are (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor
            // *, const u16 *, const u8 *, const u32 *, const BatchTotals *, u32, u32 *, u32 *, u8 *). `Decoding::check`
            // has compared the descriptors with the buffers; positions are bounded by the stream's bits, and groups by
            // its groups.
            unsafe { launch.launch(Kernel::grid(chunks.div_ceil(THREADS), THREADS, 0)) }?;
        }
        self.preparation.after(frame, &mut decoding, &scratch)
    }
}
