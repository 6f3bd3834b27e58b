//! Lossy compression up to the codes, on the GPU: the scan of the array, and elements to codes, metadata and side
//! lists.
//!
//! Every array that comes out holds what `syncline_core::pipeline` has for the same chunk before entropy coding.

mod bound_scan;
mod codes;
mod finish;
mod gather;
mod quantized;
mod quantizer;
mod scalar_tile;
mod step;
mod summary;
mod wide;

pub use bound_scan::BoundScan;
pub(crate) use bound_scan::{DeviceStep, PendingScan};
pub(crate) use finish::blocks_per_chunk;
pub use gather::{SideLists, SideStarts};
pub use quantized::Quantized;
pub(crate) use quantized::SideOffsets;
pub use quantizer::Quantizer;
pub(crate) use summary::RecordInputsArgument;
pub use summary::{ChunkSummary, TileSums};

use self::step::KernelVariant;
use crate::device::Specialization;

/// What a tile is, in the 16 bits that the kernels keep of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileBits(pub u16);

impl TileBits {
    /// All residuals are 0, no group is stored.
    pub fn constant(self) -> bool {
        self.0 & 1 != 0
    }

    /// Predictor, 0 to 3.
    pub fn predictor(self) -> u8 {
        self.field(1)
    }

    /// Activity class, 0 to 3.
    pub fn class(self) -> u8 {
        self.field(3)
    }

    /// Code of the mask's variant in the stream: 0 nothing masked, 1 all, 2 a bitmap.
    pub fn mask(self) -> u8 {
        self.field(5)
    }

    /// Which fill pattern, 0 to 3.
    pub fn pattern(self) -> u8 {
        self.field(7)
    }

    /// Code of the variant of signs: 0 no value negative, 1 all, 2 a bitmap.
    pub fn sign(self) -> u8 {
        self.field(9)
    }

    fn field(self, shift: u32) -> u8 {
        (self.0 >> shift & 3) as u8
    }
}

/// Every specialization of the kernels of this module, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let mut all = bound_scan::specializations();
    all.push(finish::specialization());
    for element_bytes in [4, 8] {
        for (logarithm, measure) in [(false, false), (false, true), (true, false)] {
            for axes in 1..=3 {
                for patterns in [false, true] {
                    let variant = KernelVariant { element_bytes, logarithm, axes, patterns, measure };
                    all.extend(codes::specializations(variant));
                    all.extend(scalar_tile::specializations(variant));
                }
            }
        }
    }
    all
}
