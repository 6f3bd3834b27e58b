//! The stages wired for one chunk: elements to a record and back.

pub mod blocks;
mod chunk;
mod codes;
mod context;
mod destination;
mod elements;
mod lossless;
mod lossy;
mod lzss;
mod numbers;
mod options;
mod parts;
mod raw;
mod report;
mod scratch;
mod sizes;

pub use chunk::{decode_chunk, encode_chunk};
pub use context::ElementSource;
pub use destination::{Destination, TileSink};

#[doc(hidden)]
pub use lossy::{CHOOSING_STEP, COUNTED_STEP, FEWEST_CHOOSING, FEWEST_COUNTED, reserved_patterns};
#[doc(hidden)]
pub use lzss::{LzssChoice, LzssEstimate, best_lzss, estimate_lzss, lzss_sample, lzss_trials};
#[doc(hidden)]
pub use numbers::{
    MOST_SAMPLED_CODES, NumberBinning, Plan as NumberPlan, SAMPLED_NUMBER_ELEMENTS, TileState as NumberTileState,
    choose_number_bins, choose_number_plan, number_sample, sampled_code_rows,
};
pub use options::{Coder, CoderOptions, Effort};
pub use parts::{NeededTiles, PartialRecord};
pub use report::{ChunkReport, inspect_chunk};
pub use scratch::{DecodeScratch, EncodeScratch};
pub use sizes::{compress_bound, decode_memory, encode_memory, max_stream_len};
