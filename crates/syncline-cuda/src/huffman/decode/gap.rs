//! Decoding with the gap index.

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{Decoder, Symbol};

use super::prepare::Preparation;
use super::subsequences::{EntryPoints, SubsequenceDecoder, SubsequenceTuning};
use super::{Decoding, TABLE_BITS};
use crate::device::{Device, Frame};
use crate::error::Result;

/// Decodes streams with the gap index.
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
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors of
    /// [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_tuning(device, group_log2, SubsequenceTuning::default())
    }

    /// Creates a decoder with other launch parameters, for benchmarks and tests.
    ///
    /// # Errors
    /// The errors of [`Self::new`]; [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) also for
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
    /// The errors of [`Indexed::launch`](super::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>) -> Result<()> {
        decoding.check(frame, Decoder::Gap, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut decoding, true, false, 0)?;
        let mut entry_points = EntryPoints::new(frame, &decoding.batch.sizes)?;
        self.decoder.count(frame, &decoding, &scratch, &mut entry_points)?;
        self.decoder.write(frame, &mut decoding, &mut scratch, &entry_points)
    }
}
