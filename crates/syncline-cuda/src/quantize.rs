//! Lossy compression up to the codes, on the GPU: the scan of the array, and elements to codes, metadata and side
//! lists.
//!
//! Every array that comes out holds what `syncline_core::pipeline` has for the same chunk before entropy coding.

mod gather;
mod kernels;
mod quantizer;
mod scan;
mod step;

pub(crate) use gather::SideOffsets;
pub use gather::{SideLists, SideStarts};
pub(crate) use quantizer::parts_of_chunk;
pub use quantizer::{ChunkSummary, Quantized, Quantizer};
pub use scan::BoundScan;
pub(crate) use scan::{FoundStep, ScanBegun};

use self::step::Kind;
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

    /// Code of the mask's kind in the stream: 0 nothing masked, 1 all, 2 a bitmap.
    pub fn mask(self) -> u8 {
        self.field(5)
    }

    /// Which fill pattern, 0 to 3.
    pub fn pattern(self) -> u8 {
        self.field(7)
    }

    /// Code of the kind of signs: 0 no value negative, 1 all, 2 a bitmap.
    pub fn sign(self) -> u8 {
        self.field(9)
    }

    fn field(self, shift: u32) -> u8 {
        (self.0 >> shift & 3) as u8
    }
}

/// Every specialization of these stages' kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let mut all = scan::specializations();
    for element_bytes in [4, 8] {
        for (logarithm, measure) in [(false, false), (false, true), (true, false)] {
            for axes in 1..=3 {
                for patterns in [false, true] {
                    all.extend(kernels::specializations(Kind { element_bytes, logarithm, axes, patterns, measure }));
                }
            }
        }
    }
    all
}
