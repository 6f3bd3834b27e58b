//! Whether a block has a long match at all, where only these count.

use super::Block;

/// Symbols that are compared by one hash where only matches of twice as many count: such a match covers all of an aligned group.
pub(super) const GROUP: usize = 8;

/// A prime near 2^32 over the golden ratio.
const FACTOR: u32 = 0x9E37_79B1;

/// Whether the hash of an aligned group is that of symbols at most `window` before it. If not, no match has `2 * GROUP` symbols. `sums` is memory for as many hashes as a block has symbols.
#[inline(always)]
pub(super) fn may_repeat<const WIDTH: usize>(block: &Block, window: usize, sums: &mut [u32]) -> bool {
    let Some(last) = block.symbols.checked_sub(GROUP) else { return false };
    let sums = &mut sums[..block.symbols];
    for (sum, symbol) in sums.iter_mut().zip(block.bytes.as_chunks::<WIDTH>().0) {
        *sum = match WIDTH {
            1 => symbol[0].into(),
            2 => u16::from_le_bytes([symbol[0], symbol[1]]).into(),
            4 => u32::from_le_bytes([symbol[0], symbol[1], symbol[2], symbol[3]]),
            _ => {
                let halves = symbol.as_chunks::<4>().0;
                u32::from_le_bytes(halves[0]).wrapping_mul(FACTOR).wrapping_add(u32::from_le_bytes(halves[1]))
            }
        };
    }
    // Of two symbols, four, eight: those from each position on.
    for step in [1, 2, 4] {
        for at in 0..sums.len() - step {
            let mixed = (sums[at] ^ sums[at] >> 15).wrapping_mul(FACTOR).rotate_left(13);
            sums[at] = mixed.wrapping_add(sums[at + step]);
        }
    }
    // Loops, not iterators' closures, which are not compiled for this machine's vectors.
    let mut at = GROUP;
    while at <= last {
        let wanted = sums[at];
        let mut found = false;
        // To the end of the window: a vector has as many as a search that ends early would look at.
        for &sum in &sums[at.saturating_sub(window)..at] {
            found |= sum == wanted;
        }
        if found {
            return true;
        }
        at += GROUP;
    }
    false
}
