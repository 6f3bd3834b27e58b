//! Huffman decoders for streams without the symbol index: the published ideas, improved.
//!
//! [`Gap`] starts at every subsequence that a gap array locates; [`SelfSync`] finds these starts itself, and
//! composes functions where codes do not synchronize. Both count codewords, add up the counts, and write symbols
//! through buffers as large as shared memory allows.

mod compose;
mod gap;
pub(crate) mod self_sync;
pub(crate) mod subsequences;

pub use gap::Gap;
pub use self_sync::{SelfSync, SelfSyncTuning};
pub use subsequences::SubsequenceTuning;

use syncline_cuda::device::Specialization;

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    [subsequences::specializations(), self_sync::specializations(), compose::specializations()].concat()
}
