//! Chunks of blocks: mask, interpolate level by level, code by contexts; and back.

mod anchors;
mod block;
mod decode;
mod encode;
mod masks;
mod plan;
mod quantizer;
mod sample;
#[cfg(test)]
mod tests;
mod units;

pub(super) use decode::{bytes_of_units, decode};
pub(super) use encode::encode;
pub use masks::patterns_of as mask_patterns;
pub(super) use units::boxes_of;
pub use units::{BOX_LOG2, MOST_LANES_LOG2};
