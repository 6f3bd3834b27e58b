//! Calls one after another: what a small set takes where the device need not wait for the host between calls.

use anyhow::Result;
use syncline_cuda::timing;

use super::Gpu;

/// Copies of a set's buffers, which calls use in turn. Between two uses of one the others' 11 times 10 MB are written or read: more than twice what a second-level cache of 50 MB holds.
pub const COPIES: usize = 12;
/// Calls between two events: some more than would hide how the first one starts.
pub const CALLS: usize = 3 * COPIES;

impl Gpu {
    /// Seconds a call of [`CALLS`] one after another, each with the next of the copies: median of as many runs as of single calls.
    ///
    /// # Errors
    /// Those of `call`.
    pub(super) fn time_in_turn<T>(
        &mut self,
        copies: &mut [T],
        mut call: impl FnMut(&mut Self, &mut T) -> syncline_cuda::Result<()>,
    ) -> Result<f64> {
        let (stream, runs) = (self.stream.clone(), self.runs);
        let times =
            timing::seconds(&stream, runs, || (0..CALLS).try_for_each(|i| call(self, &mut copies[i % COPIES])))?;
        Ok(times.median() / CALLS as f64)
    }
}
