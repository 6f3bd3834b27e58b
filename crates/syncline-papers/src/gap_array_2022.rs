//! Optimized gap-array decoding: Rivera, Di, Tian, Yu, Tao, Cappello, "Optimizing Huffman Decoding for Error-Bounded
//! Lossy Compression on GPUs", IPDPS 2022 (Section IV; Tables II and V).
//!
//! Codewords are counted by Syncline's own kernel; symbols are written through shared memory whose size is tuned online
//! ([`shared_memory_tuning_2022`](super::shared_memory_tuning_2022)).

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::Symbol;

use super::shared_memory_tuning_2022::{BufferSize, TunedWriter};
use crate::decode::subsequences::{EntryPoints, SubsequenceDecoder, SubsequenceTuning};
use crate::gap_array::GapArrays;
use syncline_cuda::device::{Device, Frame};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::decode::prepare::Preparation;
use syncline_cuda::huffman::decode::{Decoding, TABLE_BITS};

/// Decodes streams with one codebook, given their gap arrays.
#[derive(Debug, Clone)]
pub struct GapArray2022<S> {
    preparation: Preparation<S>,
    counting: SubsequenceDecoder,
    writer: TunedWriter,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> GapArray2022<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](syncline_cuda::CudaError::InvalidArgument) unless `group_log2` is 6 or 7 and the
    /// buffer is not empty; errors of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32, buffer: BufferSize) -> Result<Self> {
        Ok(Self {
            preparation: Preparation::new(device, group_log2, TABLE_BITS)?,
            counting: SubsequenceDecoder::new::<S>(device, group_log2, SubsequenceTuning::default())?,
            writer: TunedWriter::new::<S>(device, group_log2, buffer)?,
            group_log2,
        })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](syncline_cuda::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>, gaps: &GapArrays) -> Result<()> {
        decoding.check(frame, decoding.batch.sizes.max_codebooks <= 1, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut decoding, true, true, 0)?;
        let mut entry_points = EntryPoints::new(frame, &decoding.batch.sizes)?;
        self.counting.count(frame, &decoding, &scratch, gaps, &mut entry_points)?;
        self.writer.write(frame, &mut decoding, &mut scratch, &entry_points)?;
        self.preparation.after(frame, &mut decoding, &scratch)
    }
}
