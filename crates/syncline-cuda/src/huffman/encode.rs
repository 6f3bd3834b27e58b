//! Encoding of batches of Huffman streams: launchers of `kernels/huffman/encode/`.
//!
//! A batch is a list of streams over one buffer of symbols: the chunks of a field. One kernel encodes *segments* of all
//! streams in parallel, each into its own slot. A second kernel computes the layout of each stream from the sizes of
//! its segments, and a third writes the bytes of the streams, which equal those of `syncline_core::huffman::encode`.
//! Nothing is copied to the host.

mod batch;
mod codebooks;
mod encoder;
mod format;
mod laid_out;
mod scratch;
mod segments;
pub(crate) mod structs;

pub use batch::{Batch, Encoded, StreamRange};
pub use codebooks::{BatchCodebooks, BatchCodebooksBuilder};
pub use encoder::{EncodeInput, Encoder};
pub use format::Format;
#[doc(hidden)]
pub use format::checked_formats;
#[doc(hidden)]
pub use laid_out::LaidOutStreams;
pub(crate) use laid_out::NO_OFFSET;
#[doc(hidden)]
pub use segments::SegmentKernel;
#[doc(hidden)]
pub use structs::EncodeScratch;
pub use structs::StreamPlan;

use crate::device::Specialization;

/// Returns the specializations for the compile check on a device with this much shared memory per block, in bytes.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    format::checked_formats()
        .into_iter()
        .flat_map(|format| {
            let segments = segments::kernels(&format);
            let segments = segments.into_iter().flat_map(move |kernel| kernel.specializations(&format));
            segments.chain(codebooks::specializations(&format, shared_memory))
        })
        .collect()
}
