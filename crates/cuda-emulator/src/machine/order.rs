//! The order of execution where a device leaves it undefined.

use std::cell::Cell;

use super::program::ALL;

/// Instructions of a warp until the next warp runs. This is the maximum in orders other than the default one, where
/// turns are often shorter.
const TURN: u32 = 4096;

/// Maximum number of instructions that some lanes of a group execute alone, in orders other than the default one.
const MOST_APART: u32 = 256;

/// The order in which blocks, warps and lanes run.
#[derive(Debug)]
pub struct Order {
    seed: u64,
    drawn: Cell<u64>,
}

impl Order {
    /// Returns the order of a seed; 0 selects the default order.
    pub fn from_seed(seed: u64) -> Self {
        Self { seed, drawn: Cell::new(seed) }
    }

    /// Returns a pseudorandom number below `limit` (SplitMix64), or 0 in the default order.
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

    /// Returns all indices below `count`, starting with any of them.
    pub fn all(&self, count: usize) -> impl Iterator<Item = usize> {
        let first = self.draw(count.max(1));
        (0..count).map(move |number| (number + first) % count)
    }

    /// Returns the number of instructions of a warp's next turn.
    pub fn turn(&self) -> u32 {
        TURN >> self.draw(TURN.ilog2() as usize + 1)
    }

    /// Selects lanes of a group that could run together, and the number of instructions, up to `most`, that they
    /// execute. In the default order these are all lanes and all instructions. In other orders some lanes often run
    /// alone, which a device also permits, so that missing synchronization before reading values of other lanes becomes
    /// visible.
    pub fn select_lanes(&self, group: u32, most: u32) -> (u32, u32) {
        if self.seed == 0 {
            return (group, most);
        }
        let drawn = group & self.draw(ALL as usize) as u32;
        let apart = drawn != 0 && self.draw(2) == 0;
        (if apart { drawn } else { group }, most.min(1 << self.draw(MOST_APART.ilog2() as usize + 1)))
    }
}
