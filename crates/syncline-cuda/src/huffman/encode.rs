//! Encoding batches of Huffman streams: launchers of `kernels/huffman/encode/`.
//!
//! A batch is many streams over one buffer of symbols: the chunks of a field. An encoder codes *segments* of every
//! stream side by side, each to a slot of its own; the layout of each stream follows from their sizes, and a last
//! kernel writes the streams' bytes, those of `syncline_core::huffman::encode`. Nothing goes through the host, and no
//! block waits for another but in small batches, which are encoded in one cooperative launch.

mod batch;
mod books;
mod encoder;
mod format;
mod layout;
mod scratch;
mod shape;
mod small;

pub use batch::{Batch, Encoded, Plan, Span, StreamSpan};
pub use books::{Books, BooksBuilder};
pub use encoder::Encoder;
pub use format::{Format, Method};
pub(crate) use layout::Beside;
pub use layout::{Layout, NO_PLACE};

use crate::device::Specialization;

/// What the compile check compiles, for a device with this much shared memory a block.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    format::checked()
        .into_iter()
        .flat_map(|format| {
            let methods = Method::ALL.into_iter().flat_map(move |method| shape::specializations(&format, method));
            methods.chain(books::specializations(&format, shared_memory)).chain(small::specializations(&format))
        })
        .collect()
}
