//! Published Huffman coders, LZSS, and lossy systems beside Syncline's, on a GPU. `bench/records/papers.csv` has the
//! papers' own figures.

#![allow(unsafe_code, reason = "device memory is allocated before it is written")]

mod before_huffman;
mod codebooks;
mod decoders;
mod huffman;
mod lzss;

use syncline::ElementType;
use syncline_cuda::timing::Times;

use crate::array::Array;
use crate::gpu::Gpu;
use crate::record::Record;

pub use before_huffman::measure as before_huffman;
pub use codebooks::measure as codebooks;
pub use huffman::measure as huffman;
pub use lzss::measure as lzss;

/// log2 of the number of symbols in a group.
const GROUP_LOG2: u8 = 7;

/// Returns whether an array has symbols of a Huffman code: bytes or 16-bit codes.
pub fn is_of_symbols(array: &Array) -> bool {
    matches!(array.element, ElementType::U8 | ElementType::U16)
}

impl Gpu {
    /// Returns the record of a system with these options on an array.
    fn of_system(&self, array: &Array, system: &str, options: &str, what: &str, times: &Times) -> Record {
        let record = Record { options: options.to_owned(), ..self.record("papers", array, system) };
        record.timed(what, times, Some(self.copy))
    }
}
