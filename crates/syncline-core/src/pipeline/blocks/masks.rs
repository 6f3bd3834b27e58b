//! The masks of blocks: elements that hold a fill pattern, or 0.0, and have a mask in the place of a code.

use crate::quantize::Real;

/// Returns the patterns that masks of blocks may have: those of the header, then 0.0, which is kept exactly.
pub fn patterns_of(of_header: &[u64]) -> Vec<u64> {
    let mut patterns = of_header.to_vec();
    if !patterns.contains(&0) {
        patterns.push(0);
    }
    patterns
}

/// Finds the elements that hold patterns: `masks` is 0, or the number of the pattern plus 1. Of 0.0, which is no
/// pattern of the header, they are masked only if there are more than `few`. Returns whether there are any.
pub(super) fn find<T: Real>(x: &[T], of_header: usize, patterns: &[u64], few: usize, masks: &mut Vec<u8>) -> bool {
    masks.clear();
    masks.resize(x.len(), 0);
    let mut any = false;
    for (number, &pattern) in patterns.iter().enumerate() {
        let count = x.iter().filter(|x| x.bits() == pattern).count();
        if count > if number < of_header { 0 } else { few } {
            any = true;
            let own = number as u8 + 1;
            masks.iter_mut().zip(x).for_each(|(mask, x)| *mask = if x.bits() == pattern { own } else { *mask });
        }
    }
    any
}
