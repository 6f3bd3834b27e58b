//! In which order things are done that a device may do in any.

use std::cell::Cell;

use super::program::ALL;

/// Instructions of a warp until the next one is on; in other orders than the usual one at most, and often few.
const TURN: u32 = 4096;

/// Instructions of lanes in other orders until it is seen anew which go on, at most.
const MOST_APART: u32 = 256;

/// In which order blocks, warps and lanes are on.
#[derive(Debug)]
pub struct Order {
    seed: u64,
    drawn: Cell<u64>,
}

impl Order {
    /// One of its own for each seed, the usual one for 0.
    pub fn of(seed: u64) -> Self {
        Self { seed, drawn: Cell::new(seed) }
    }

    /// A number below `limit`, 0 in the usual order (SplitMix64).
    fn draw(&self, limit: usize) -> usize {
        if self.seed == 0 {
            return 0;
        }
        let state = self.drawn.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.drawn.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }

    /// All of `count`, from anywhere on.
    pub fn all(&self, count: usize) -> impl Iterator<Item = usize> {
        let first = self.draw(count.max(1));
        (0..count).map(move |number| (number + first) % count)
    }

    /// Instructions of a warp's next turn.
    pub fn turn(&self) -> u32 {
        TURN >> self.draw(TURN.ilog2() as usize + 1)
    }

    /// Which lanes of a group that could go on together do, and for how many instructions of `most`: in the usual order
    /// all, as long as they may. In others some do alone, as on a device any may, so that it shows where they should
    /// have met before they read what others of them have written.
    pub fn some(&self, group: u32, most: u32) -> (u32, u32) {
        if self.seed == 0 {
            return (group, most);
        }
        let drawn = group & self.draw(ALL as usize) as u32;
        let apart = drawn != 0 && self.draw(2) == 0;
        (if apart { drawn } else { group }, most.min(1 << self.draw(MOST_APART.ilog2() as usize + 1)))
    }
}
