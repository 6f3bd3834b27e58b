//! Streams between their layout and their bytes.

use cudarc::driver::sys::CUdeviceptr;

use super::scratch::Scratch;
use super::shape::{Shape, WRITE_THREADS};

/// A place that no stream can have.
pub const NO_PLACE: u64 = u64::MAX;

/// Streams that are laid out but not yet written: see [`Encoder::lay_out`](super::Encoder::lay_out).
pub struct Layout<'a> {
    pub(super) scratch: Scratch<'a>,
    /// Words of a stream's slots; 0: they are where its symbols were, and the list of streams says where that is.
    pub(super) slots_in_stream: u64,
    pub(super) spans: CUdeviceptr,
    pub(super) segments: u32,
    pub(super) shape: Shape,
    pub(super) streams: u32,
    /// Where the streams that are laid out are counted; 0: they are not.
    pub(super) streams_done: CUdeviceptr,
    /// Symbols of a group.
    pub(super) group: u32,
}

impl Layout<'_> {
    /// Where the streams that are laid out are counted, for who waits for them to set to 0 again; 0: they are not.
    pub(crate) fn streams_done(&self) -> CUdeviceptr {
        self.streams_done
    }

    /// The list of the streams.
    pub(crate) fn spans(&self) -> CUdeviceptr {
        self.spans
    }

    /// Groups that a block of the kernel that writes streams has.
    pub(crate) fn groups_of_block(&self) -> u32 {
        WRITE_THREADS / 32 * self.shape.segment / self.group
    }
}

/// What streams wait for that are written while the kernel before writes elsewhere, and where they say that they are
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// A word of device memory, and what it is when the places are there: the kernel before that one sets it.
    pub laid_out: (CUdeviceptr, u64),
    /// A word for each stream, which every block that has written something of it takes 1 from; 0: there are none.
    pub unwritten: CUdeviceptr,
    /// No stream has more groups than that.
    pub most_groups: u32,
}
