//! Codes of interpolated blocks as bits: symbols, the contexts that choose their distributions, and rANS
//! (`docs/FORMAT.md`, "Blocks (kind 4)").
//!
//! Large codes stand next to large codes. The magnitudes of the codes around an element, which the decoder already
//! knows, choose one of several static distributions for the element's own code.

mod activity;
mod bits;
mod event;
pub mod lanes;
pub mod segments;
mod symbol;
pub mod table;

pub use activity::{CONTEXT_ROOM, CONTEXTS, Contexts, KINDS, OF_KIND, RowPart, context_row, kind_of};
pub use bits::{PackedReader, PackedWriter};
pub use event::{Event, EventCounts};
pub use symbol::{CODE_LIMIT, FIRST_MASK, MASKS, OWN_SYMBOLS, SYMBOLS, Symbol, code_of_mask, mask_of_code};
