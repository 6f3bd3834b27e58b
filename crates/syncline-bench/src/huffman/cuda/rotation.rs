//! Measures calls on small sets so that the device does not wait for launches: single calls, queued while the device is
//! busy, and consecutive calls.

use anyhow::Result;
use syncline_cuda::timing;

use super::Gpu;

/// Number of copies of a set's buffers, between which calls alternate. Between two uses of a copy, 11 other copies of
/// 10 MB are written or read: more than twice the capacity of an L2 cache of 50 MB.
pub const COPIES: usize = 12;
/// Number of consecutive calls between two events, enough for the start of the first one not to matter.
pub const CALLS: usize = 3 * COPIES;

/// Results of calls that alternate between copies of their buffers: seconds, or 10^9 bytes of symbols per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AlternatingCalls {
    /// A single call between two events. The host has queued everything before the device begins.
    pub queued: f64,
    /// The mean of [`CALLS`] consecutive calls between two events.
    pub one_after_another: f64,
}

impl AlternatingCalls {
    /// Converts seconds to throughputs for `bytes` bytes.
    pub(super) fn rates(self, bytes: usize) -> Self {
        let rate = |seconds| bytes as f64 / seconds / 1e9;
        Self { queued: rate(self.queued), one_after_another: rate(self.one_after_another) }
    }
}

impl Gpu {
    /// Returns the seconds per call, where each call uses the next copy of the buffers. The results are medians: for
    /// consecutive calls over as many runs as for single calls on an idle device, and for queued calls over at least
    /// one run per copy.
    ///
    /// # Errors
    /// The errors of `call`.
    pub(super) fn time_alternating<T>(
        &mut self,
        copies: &mut [T],
        mut call: impl FnMut(&mut Self, &mut T) -> syncline_cuda::Result<()>,
    ) -> Result<AlternatingCalls> {
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
        Ok(AlternatingCalls { queued: alone.median(), one_after_another: many.median() / CALLS as f64 })
    }
}
