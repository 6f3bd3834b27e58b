//! Lossy compression on the GPU from elements to codes: the scan of the array, quantization and prediction, and side
//! lists.
//!
//! All results equal those of `syncline_core::pipeline` before entropy coding.

mod bound_scan;
mod codes;
mod entries;
mod finish;
mod gather;
mod quantized;
mod quantizer;
mod queued;
mod queued_bound;
mod scalar_tile;
mod step;
pub(crate) mod structs;
mod token_codes;
mod wide;

pub use bound_scan::BoundScan;
pub(crate) use bound_scan::{DeviceStep, PendingScan};
pub(crate) use finish::blocks_per_chunk;
pub use gather::SideLists;
pub use quantized::Quantized;
pub use quantizer::Quantizer;
pub(crate) use queued::{ListedStreams, MOST_BITMAP_BYTES, QueuedQuantizer};
pub(crate) use queued_bound::{QueuedBound, STATUS_LOSSLESS, STATUS_OTHER_CONSTANTS};
pub use structs::{ChunkSummary, SideStarts, TileSums};
pub(crate) use structs::{RecordInputsArgument, SideOffsets};
pub(crate) use token_codes::{GROUP_LOG2 as TOKEN_GROUP_LOG2, TileCodes, TokenQuantizer};

use self::step::KernelVariant;
use crate::device::Specialization;

/// Bit fields that describe a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileBits(pub u16);

impl TileBits {
    /// Whether the tile is constant: all residuals are 0 and no group is stored.
    pub fn constant(self) -> bool {
        self.0 & 1 != 0
    }

    /// Predictor, 0 to 3.
    pub fn predictor(self) -> u8 {
        self.field(1)
    }

    /// Activity class, 0 to 3, which selects the codebook.
    pub fn class(self) -> u8 {
        self.field(3)
    }

    /// Kind of the mask: 0 nothing is masked, 1 everything, 2 a bitmap says what.
    pub fn mask(self) -> u8 {
        self.field(5)
    }

    /// Number of the fill pattern, 0 to 3.
    pub fn pattern(self) -> u8 {
        self.field(7)
    }

    /// Kind of the signs: 0 no value is negative, 1 all are, 2 a bitmap says which.
    pub fn sign(self) -> u8 {
        self.field(9)
    }

    fn field(self, shift: u32) -> u8 {
        (self.0 >> shift & 3) as u8
    }
}

/// Warps of a block of the kernels that process one tile per warp on the scalar path.
const WARPS: u32 = 4;

/// Every specialization of the kernels of this module, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let mut all = bound_scan::specializations();
    all.push(finish::FinishKernels::specialization());
    all.extend([4, 8].map(queued::ListKernels::specialization));
    for element_bytes in [4, 8] {
        for (logarithm, measure) in [(false, false), (false, true), (true, false)] {
            for axes in 1..=3 {
                for patterns in [false, true] {
                    let variant = KernelVariant { element_bytes, logarithm, axes, patterns, measure };
                    all.extend(codes::specializations(variant));
                    all.extend(scalar_tile::specializations(variant));
                    if !patterns {
                        all.push(token_codes::TokenKernels::specialization(variant));
                    }
                }
            }
        }
    }
    all
}
