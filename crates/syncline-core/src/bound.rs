//! Error bounds, and the quantization steps that hold them.

mod fill;
mod lattice;
mod limits;
mod linear;
mod pieces;
mod psnr;
mod resolve;
pub mod scan;
mod stats;

use crate::array::ElementType;
use crate::error::{Error, Result};

pub use fill::{Fill, FillValues, MAX_FILLS, Pattern};
pub use linear::computed_bound;
pub use pieces::{PieceBound, Scaling};
pub use psnr::{ErrorSummary, PsnrGoal};
pub use resolve::{MOST_DISTANT, Resolved, resolve};
pub use scan::Scan;
pub use stats::ArrayStats;

/// A bound on the error of every finite value. Values that are not finite, and fill values, are always kept exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Bound {
    /// No error: every element is restored bit for bit.
    Lossless,
    /// Largest absolute error, in the unit of the values. Errors of integers are whole numbers, so that what counts is
    /// the number without its fraction, and a bound below 1 is lossless.
    Abs(f64),
    /// Largest absolute error as a fraction of the value range: the largest minus the smallest finite value that is not
    /// fill.
    Rel(f64),
    /// Smallest peak signal-to-noise ratio in dB. The peak is the value range. Single errors are not limited.
    Psnr(f64),
    /// Largest error of each value as a fraction of its magnitude.
    PwRel(f64),
}

impl Bound {
    /// Returns the code of the kind of bound in the stream.
    pub fn code(self) -> u8 {
        match self {
            Self::Lossless => 0,
            Self::Abs(_) => 1,
            Self::Rel(_) => 2,
            Self::Psnr(_) => 3,
            Self::PwRel(_) => 4,
        }
    }

    /// Returns the name of the kind of bound: `lossless`, `abs`, `rel`, `psnr`, or `pw_rel`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Abs(_) => "abs",
            Self::Rel(_) => "rel",
            Self::Psnr(_) => "psnr",
            Self::PwRel(_) => "pw_rel",
        }
    }

    /// Returns the number of the bound; 0 if lossless.
    pub fn value(self) -> f64 {
        match self {
            Self::Lossless => 0.0,
            Self::Abs(v) | Self::Rel(v) | Self::Psnr(v) | Self::PwRel(v) => v,
        }
    }

    /// Returns the bound with a code and a number from the header of a stream; `None` for an unknown code.
    pub fn from_code(code: u8, value: f64) -> Option<Self> {
        Some(match code {
            0 => Self::Lossless,
            1 => Self::Abs(value),
            2 => Self::Rel(value),
            3 => Self::Psnr(value),
            4 => Self::PwRel(value),
            _ => return None,
        })
    }

    /// Checks that elements of this type can be compressed with the bound.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the number is not positive and finite, where an absolute bound of integers may
    /// also be 0, for a point-wise relative bound of 1 or more, and for any point-wise relative bound of integers.
    pub fn validate(self, element: ElementType) -> Result<()> {
        if self == Self::Lossless {
            return Ok(());
        }
        if element.is_integer() && matches!(self, Self::PwRel(_)) {
            return Err(Error::invalid(format!(
                "arrays of {element} have no point-wise relative bound: use an absolute bound in counts, or one \
                 relative to the range"
            )));
        }
        let value = self.value();
        let is_zero = value == 0.0 && element.is_integer() && matches!(self, Self::Abs(_));
        if !(value.is_finite() && (value > 0.0 || is_zero)) {
            return Err(Error::invalid(format!(
                "the error bound is {value:?}, but it must be positive and finite: use another number, or lossless"
            )));
        }
        if matches!(self, Self::PwRel(r) if r >= 1.0) {
            return Err(Error::invalid(format!(
                "the point-wise relative bound is {value:?}, which would allow every value to become 0: use a number \
                 below 1, or an absolute bound"
            )));
        }
        Ok(())
    }
}

/// The kind of a stream: how elements become integers. The discriminant is the code in the stream.
///
/// The kinds are those of a format version, so that a match may name them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pipeline {
    /// The elements' bits.
    Lossless = 1,
    /// Linear quantization, for absolute bounds.
    Quantized = 2,
    /// Quantization of the logarithm, for point-wise relative bounds.
    LogQuantized = 3,
}

impl Pipeline {
    /// Returns the pipeline with this code in a stream.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Lossless, Self::Quantized, Self::LogQuantized].into_iter().find(|p| *p as u8 == code)
    }
}

impl std::fmt::Display for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Lossless => "lossless",
            Self::Quantized => "quantized",
            Self::LogQuantized => "log-quantized",
        })
    }
}
