//! Self-synchronizing decoding as published: Weißenberger, Schmidt, "Massively Parallel Huffman Decoding on GPUs",
//! ICPP 2018 (Section 4, Algorithms 2 to 5; Figures 7 and 10).
//!
//! Differences: phases 1 and 2 (synchronization in and between sequences) are Syncline's, which give up on streams that
//! do not synchronize; phases 3 and 4 (output index, decoding and writing) are the single kernel of
//! [`gap_array_2020`](super::gap_array_2020), which writes symbol by symbol as CUHD does.

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::Symbol;

use super::gap_array_2020::SinglePass;
use crate::decode::self_sync::{ROUNDS, Synchronizer};
use syncline_cuda::device::{Device, Frame};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::decode::prepare::Preparation;
use syncline_cuda::huffman::decode::{Decoding, TABLE_BITS};

/// Decodes streams with one codebook, whatever their index.
#[derive(Debug, Clone)]
pub struct SelfSync2018<S> {
    preparation: Preparation<S>,
    synchronizer: Synchronizer,
    kernel: SinglePass,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> SelfSync2018<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](syncline_cuda::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors
    /// of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Ok(Self {
            preparation: Preparation::new(device, group_log2, TABLE_BITS)?,
            synchronizer: Synchronizer::new::<S>(device, group_log2, ROUNDS)?,
            kernel: SinglePass::new::<S>(device, group_log2, true)?,
            group_log2,
        })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](syncline_cuda::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>) -> Result<()> {
        decoding.check(frame, decoding.batch.sizes.max_codebooks <= 1, self.group_log2)?;
        let flags = Synchronizer::flags(&decoding.batch.sizes);
        let mut scratch = self.preparation.before(frame, &mut decoding, true, true, flags)?;
        if decoding.batch.sizes.sequences > 0 {
            let entry_points = self.synchronizer.find_entry_points(frame, &decoding, &mut scratch)?;
            let (entries, counts) = (entry_points.entries.as_view(), entry_points.counts.as_view());
            self.kernel.launch(frame, &mut decoding, &mut scratch, &entries, Some(&counts))?;
        }
        self.preparation.after(frame, &mut decoding, &scratch)
    }
}
