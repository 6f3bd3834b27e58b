//! Streams whose layout is known but whose bytes are not yet written.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut};

use super::scratch::Scratch;
use super::segments::{SegmentKernel, WRITE_THREADS};
use super::structs::EncodeScratch;

/// The offset of a stream that is not written.
pub(crate) const NO_OFFSET: u64 = u64::MAX;

/// Streams that [`Encoder::lay_out`](super::Encoder::lay_out) has planned and that are not yet written.
#[derive(Debug)]
pub struct LaidOutStreams<'a> {
    pub(super) scratch: Scratch<'a>,
    /// Words of a stream's slots, or 0 if the slots are in place of the symbols.
    pub(super) slots_in_stream: u64,
    /// Address of the batch's list of streams.
    pub(super) spans: CUdeviceptr,
    /// Segments of the largest stream.
    pub(super) segments: u32,
    pub(super) kernel: SegmentKernel,
    pub(super) streams: u32,
    /// Address of the counter of streams that are laid out, or 0 if they are not counted.
    pub(super) streams_done: CUdeviceptr,
    /// Symbols of a group.
    pub(super) group: u32,
}

impl LaidOutStreams<'_> {
    /// Returns the address of the counter of streams that are laid out, which the kernel that waits for it resets to 0;
    /// or 0 if they are not counted.
    pub fn streams_done(&self) -> CUdeviceptr {
        self.streams_done
    }

    /// Returns the address of the batch's list of streams.
    pub fn spans(&self) -> CUdeviceptr {
        self.spans
    }

    /// Returns the maximum number of segments of a stream.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Returns the addresses of the encoder's scratch memory, which must not be used after the streams.
    pub fn scratch(&mut self, stream: &Arc<CudaStream>) -> EncodeScratch {
        self.scratch.addresses(stream)
    }

    /// Returns the groups that a block of the writing kernel handles.
    pub fn groups_of_block(&self) -> u32 {
        WRITE_THREADS / 32 * self.kernel.segment / self.group
    }
}

/// Destination of streams.
pub(crate) struct StreamTarget<'a, 'o> {
    /// The output, which the streams' offsets refer to.
    pub output: &'a mut CudaViewMut<'o, u8>,
    /// Set if the previous kernel on the stream may still write other parts of the output.
    pub overlap: Option<Overlap>,
}

/// The signals between the writing of streams and other kernels that write the same output at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// Address of a 64-bit word, and the value that it has when the offsets are set. A kernel before the previous one
    /// sets it.
    pub laid_out: (CUdeviceptr, u64),
    /// Address of a 32-bit counter for each stream, which each block that has written a part of the stream decrements;
    /// or 0.
    pub unwritten: CUdeviceptr,
    /// Maximum number of groups of a stream.
    pub most_groups: u32,
}
