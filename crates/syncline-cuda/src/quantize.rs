//! Lossy compression on the GPU from elements to codes: the scan of the array, quantization and prediction, and side
//! lists.
//!
//! All results equal those of `syncline_core::pipeline` before entropy coding.

mod bound_scan;
mod queued_bound;
mod step;
pub(crate) mod structs;

pub use bound_scan::BoundScan;
pub(crate) use bound_scan::{DeviceStep, PendingScan};
pub(crate) use queued_bound::{QueuedBound, STATUS_LOSSLESS, STATUS_OTHER_CONSTANTS};
pub use structs::{ChunkSummary, SideStarts, TileSums};
pub(crate) use structs::{RecordInputsArgument, SideOffsets};

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

/// Every specialization of the kernels of this module, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    bound_scan::specializations()
}
