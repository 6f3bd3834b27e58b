//! Calls on a small set whose launches the device need not wait for: single ones, queued while it is busy, and one
//! after another.

use anyhow::Result;
use syncline_cuda::timing;

use super::Gpu;

/// Copies of a set's buffers, which calls use in turn. Between two uses of one the others' 11 times 10 MB are written
/// or read: more than twice what a second-level cache of 50 MB holds.
pub const COPIES: usize = 12;
/// Calls between two events: some more than would hide how the first one starts.
pub const CALLS: usize = 3 * COPIES;

/// Of calls in turn on copies of their buffers: seconds, or 10^9 bytes of symbols a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct InTurn {
    /// A single call between two events, all of which the host has queued before the device begins.
    pub queued: f64,
    /// A call's share of [`CALLS`] one after another between two events.
    pub one_after_another: f64,
}

impl InTurn {
    /// Rates, from seconds for so many bytes.
    pub(super) fn rates(self, bytes: usize) -> Self {
        let rate = |seconds| bytes as f64 / seconds / 1e9;
        Self { queued: rate(self.queued), one_after_another: rate(self.one_after_another) }
    }
}

impl Gpu {
    /// Seconds of a call, each with the next of the copies: medians, of one after another of as many runs as of single
    /// calls on an idle device, and of those queued of one for each copy at least.
    ///
    /// # Errors
    /// Those of `call`.
    pub(super) fn time_in_turn<T>(
        &mut self,
        copies: &mut [T],
        mut call: impl FnMut(&mut Self, &mut T) -> syncline_cuda::Result<()>,
    ) -> Result<InTurn> {
        let (stream, runs, wait) = (self.stream.clone(), self.runs, self.check.wait());
        let many = timing::seconds(&stream, runs, || (0..CALLS).try_for_each(|i| call(self, &mut copies[i % COPIES])))?;
        let single = timing::Runs { counted: runs.counted.max(COPIES), ..runs };
        let mut calls = 0;
        let alone = timing::seconds_behind(
            &stream,
            single,
            || wait.launch(),
            || {
                calls += 1;
                call(self, &mut copies[calls % COPIES])
            },
        )?;
        Ok(InTurn { queued: alone.median(), one_after_another: many.median() / CALLS as f64 })
    }
}
