//! The codebook builder that one block runs.

mod block;

pub(crate) use block::specializations;
pub use block::{BlockBuilder, fits};
