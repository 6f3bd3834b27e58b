//! Reaching a PSNR: what was achieved is known only after coding, and the bound tightened by what it missed.

use super::Resolved;
use crate::array::ElementType;
use crate::error::Error;
use crate::pipeline::ChunkSummary;
use crate::quantize::linear::mean_squared_error;
use crate::quantize::log::exp2;

/// The mean squared error that a PSNR allows.
#[derive(Clone, Copy, Debug)]
pub struct PsnrGoal {
    target: f64,
    allowed: f64,
}

impl PsnrGoal {
    /// Codings to try; each is tightened by what the last one missed, so that the second nearly always does.
    pub const ATTEMPTS: usize = 8;

    /// For `target` dB of an array with this resolution.
    pub fn new(target: f64, resolved: &Resolved) -> Self {
        let (low, high) = resolved.range.unwrap_or((0.0, 0.0));
        Self { target, allowed: (high - low).powi(2) * exp2(-target / 10.0 * std::f64::consts::LOG2_10) }
    }

    /// The resolution to try next after one that came out with these errors over all chunks; `None` if it reaches the goal.
    pub fn next(&self, element: ElementType, resolved: &Resolved, summary: &ChunkSummary) -> Option<Resolved> {
        let achieved = mean_squared_error(summary.squared_error, summary.counted, resolved.resolved);
        if achieved <= self.allowed || resolved.step == 0.0 {
            return None;
        }
        // A little more than what was missed.
        Some(resolved.tightened(element, (self.allowed / achieved).sqrt() * 0.999))
    }

    /// That no attempt reached it.
    pub fn not_reached(&self) -> Error {
        Error::invalid(format!("a PSNR of {} dB is not reached: ask for an absolute bound instead", self.target))
    }
}
