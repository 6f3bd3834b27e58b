//! Streams whose layout is known but whose bytes are not yet written.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUdeviceptr;

use super::scratch::Scratch;
use super::segments::SegmentKernel;
use super::structs::EncodeScratch;

/// The offset of a stream that is not written.
pub(crate) const NO_OFFSET: u64 = u64::MAX;

/// Streams that [`Encoder::lay_out`](super::Encoder::lay_out) has planned and that are not yet written.
#[derive(Debug)]
pub struct LaidOutStreams<'a> {
    pub(super) scratch: Scratch<'a>,
    /// Words of a stream's slots.
    pub(super) slots_in_stream: u64,
    /// Address of the batch's list of streams.
    pub(super) inputs: CUdeviceptr,
    /// Segments of the largest stream.
    pub(super) segments: u32,
    pub(super) kernel: SegmentKernel,
    pub(super) streams: u32,
}

impl LaidOutStreams<'_> {
    /// Returns the address of the batch's list of streams.
    pub fn inputs(&self) -> CUdeviceptr {
        self.inputs
    }

    /// Returns the maximum number of segments of a stream.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Returns the addresses of the encoder's scratch memory, which must not be used after the streams.
    pub fn scratch(&mut self, stream: &Arc<CudaStream>) -> EncodeScratch {
        self.scratch.addresses(stream)
    }
}
