//! What compressions of small arrays leave for the next one.

use std::sync::{Mutex, PoisonError};

use super::{Lane, Part};

/// Lanes that are kept for each device, at most.
const MOST_KEPT_LANES: usize = 4;

/// A lane, and a part that was on its device, for the next small array: making these takes much longer than
/// compressing one.
pub(super) struct Kept {
    pub(super) lane: Lane,
    pub(super) part: Option<Part>,
}

/// Lanes of a device that nobody uses.
#[derive(Default)]
pub(in super::super) struct KeptLanes(Mutex<Vec<Kept>>);

impl KeptLanes {
    /// Returns a lane whose records have this room, and whose pieces have this size.
    pub(super) fn take(&self, room: u64, piece: usize) -> Option<Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let suits = |kept: &Kept| kept.lane.records.len() as u64 >= room && kept.lane.outbound.bytes == piece;
        let at = kept.iter().position(suits)?;
        Some(kept.swap_remove(at))
    }

    /// Keeps a lane whose work has succeeded, unless there are enough.
    pub(super) fn give_back(&self, kept: Kept) {
        // Nothing of its work is queued any more, so that whoever takes it next finds its memory free.
        if kept.lane.stream.synchronize().is_err() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST_KEPT_LANES {
            all.push(kept);
        }
    }
}
