//! Copies that go on beside their warp. Nothing is copied before it waits for that or ends, so that a wait that is
//! missing shows.

use super::lanes::lanes;
use super::program::LANES;

/// A lane's copy that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// The lane.
    pub lane: usize,
    /// Whether it is one of many bytes, which are counted apart.
    pub bulk: bool,
    /// Where it goes.
    pub to: u64,
    /// Where it comes from.
    pub from: u64,
    /// Its length in bytes.
    pub bytes: u32,
}

/// A warp's copies that have begun.
#[derive(Debug, Default)]
pub struct Copies {
    /// Each with the number of its group.
    begun: Vec<(u32, Copy)>,
    /// Groups that each lane has made, small copies' and others'.
    groups: [[u32; LANES]; 2],
}

impl Copies {
    /// Adds one that begins.
    pub fn begin(&mut self, copy: Copy) {
        let group = self.groups[usize::from(copy.bulk)][copy.lane];
        self.begun.push((group, copy));
    }

    /// What the lanes of `mask` have begun since they last did this is a group.
    pub fn group(&mut self, bulk: bool, mask: u32) {
        lanes(mask).for_each(|lane| self.groups[usize::from(bulk)][lane] += 1);
    }

    /// Takes out those that the lanes of `mask` wait for: of all groups but the last so many, or also what is in no
    /// group yet.
    pub fn awaited(&mut self, bulk: bool, but: Option<u32>, mask: u32) -> Vec<Copy> {
        let groups = self.groups[usize::from(bulk)];
        let due = |group: u32, lane: usize| but.is_none_or(|but| group < groups[lane].saturating_sub(but));
        let of = |copy: &Copy| copy.bulk == bulk && mask >> copy.lane & 1 == 1;
        let taken = self.begun.extract_if(.., |(group, copy)| of(copy) && due(*group, copy.lane));
        taken.map(|(_, copy)| copy).collect()
    }

    /// Takes out all of the lanes of `mask`.
    pub fn all(&mut self, mask: u32) -> Vec<Copy> {
        self.begun.extract_if(.., |(_, copy)| mask >> copy.lane & 1 == 1).map(|(_, copy)| copy).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_awaited_lane_by_lane() {
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
