//! Decoding with gap arrays, improved: Yamamoto et al., "Huffman Coding with Gap Arrays for GPU Acceleration", ICPP
//! 2020 (decoding; the table of decoding times), with symbols staged in shared memory as in Rivera et al., "Optimizing
//! Huffman Decoding for Error-Bounded Lossy Compression on GPUs", IPDPS 2022 (Section IV; Table V).
//!
//! Codewords are counted by tables with several codewords per lookup, and each warp works for itself.

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::Symbol;

use super::subsequences::{EntryPoints, SubsequenceDecoder, SubsequenceTuning};
use crate::gap_array::GapArrays;
use syncline_cuda::device::{Device, Frame};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::decode::prepare::Preparation;
use syncline_cuda::huffman::decode::{Decoding, TABLE_BITS};

/// Decodes streams with one codebook, given their gap arrays.
#[derive(Debug, Clone)]
pub struct Gap<S> {
    preparation: Preparation<S>,
    decoder: SubsequenceDecoder,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> Gap<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](syncline_cuda::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors
    /// of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_tuning(device, group_log2, SubsequenceTuning::default())
    }

    /// Creates a decoder with other launch parameters, for benchmarks and tests.
    ///
    /// # Errors
    /// The errors of [`Self::new`]; [`CudaError::InvalidArgument`](syncline_cuda::CudaError::InvalidArgument) also for
    /// parameters that no device supports.
    pub fn with_tuning(device: &Device, group_log2: u32, tuning: SubsequenceTuning) -> Result<Self> {
        Ok(Self {
            preparation: Preparation::new(device, group_log2, TABLE_BITS)?,
            decoder: SubsequenceDecoder::new::<S>(device, group_log2, tuning)?,
            group_log2,
        })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](syncline_cuda::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>, gaps: &GapArrays) -> Result<()> {
        decoding.check(frame, decoding.batch.sizes.max_codebooks <= 1, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut decoding, true, false, 0)?;
        let mut entry_points = EntryPoints::new(frame, &decoding.batch.sizes)?;
        self.decoder.count(frame, &decoding, &scratch, gaps, &mut entry_points)?;
        self.decoder.write(frame, &mut decoding, &mut scratch, &entry_points)
    }
}
