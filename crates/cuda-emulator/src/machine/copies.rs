//! Asynchronous copies. Bytes are copied when the warp waits for the copy or exits, so that a missing wait becomes
//! visible.

use super::lanes::lanes;
use super::program::LANES;

/// A pending copy of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Number of the lane.
    pub lane: usize,
    /// Whether this is a bulk copy; bulk copies have their own groups.
    pub bulk: bool,
    /// Destination address.
    pub to: u64,
    /// Source address.
    pub from: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// The pending copies of a warp.
#[derive(Debug, Default)]
pub struct Copies {
    /// The copies with the numbers of their groups.
    begun: Vec<(u32, Copy)>,
    /// Number of groups that each lane has committed: of small copies, and of bulk copies.
    groups: [[u32; LANES]; 2],
}

impl Copies {
    /// Adds a copy.
    pub fn begin(&mut self, copy: Copy) {
        let group = self.groups[usize::from(copy.bulk)][copy.lane];
        self.begun.push((group, copy));
    }

    /// Commits the copies that the lanes of `mask` have started since their last commit as a group.
    pub fn group(&mut self, bulk: bool, mask: u32) {
        lanes(mask).for_each(|lane| self.groups[usize::from(bulk)][lane] += 1);
    }

    /// Removes and returns the copies that the lanes of `mask` wait for: those of all groups except the last `but`, or
    /// all copies including uncommitted ones if that is `None`.
    pub fn awaited(&mut self, bulk: bool, but: Option<u32>, mask: u32) -> Vec<Copy> {
        let groups = self.groups[usize::from(bulk)];
        let due = |group: u32, lane: usize| but.is_none_or(|but| group < groups[lane].saturating_sub(but));
        let of = |copy: &Copy| copy.bulk == bulk && mask >> copy.lane & 1 == 1;
        let taken = self.begun.extract_if(.., |(group, copy)| of(copy) && due(*group, copy.lane));
        taken.map(|(_, copy)| copy).collect()
    }

    /// Removes and returns all copies of the lanes of `mask`.
    pub fn all(&mut self, mask: u32) -> Vec<Copy> {
        self.begun.extract_if(.., |(_, copy)| mask >> copy.lane & 1 == 1).map(|(_, copy)| copy).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_groups_are_waited_for_by_each_lane() {
        let copy = |lane, to, bulk| Copy { lane, bulk, to, from: 0, bytes: 4 };
        let mut copies = Copies::default();
        copies.begin(copy(3, 10, false));
        copies.group(false, 1 << 3);
        copies.begin(copy(3, 20, false));
        copies.begin(copy(4, 30, false));
        copies.begin(copy(3, 40, true));
        copies.group(false, 1 << 3);
        let mut to =
            |bulk, but, mask| -> Vec<u64> { copies.awaited(bulk, but, mask).iter().map(|copy| copy.to).collect() };
        assert_eq!(to(false, Some(2), !0), [0; 0]);
        assert_eq!(to(false, Some(1), !0), [10]);
        assert_eq!(to(false, Some(0), !0), [20]);
        assert_eq!(to(true, Some(0), !0), [0; 0], "it is in no group");
        assert_eq!(to(false, None, 1 << 3), [0; 0]);
        assert_eq!(to(false, None, 1 << 4), [30]);
        assert_eq!(copies.all(!0), [copy(3, 40, true)]);
    }
}
