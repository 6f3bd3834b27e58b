//! The elements of a block that are not interpolated: one, or one of each slice.

use crate::contexts::{PackedReader, PackedWriter};

/// Appends the integers of the anchors of a block: each as the difference from the one before, the first from the
/// first one of the block before.
pub(super) fn write(integers: &[i32], first: &mut i32, out: &mut PackedWriter) {
    let mut before = *first;
    for &integer in integers {
        out.put_signed(integer.wrapping_sub(before));
        before = integer;
    }
    *first = integers.first().copied().unwrap_or(*first);
}

/// Reads the integers of `count` anchors of a block. `None` if they are damaged.
pub(super) fn read(reader: &mut PackedReader, count: usize, first: &mut i32, out: &mut Vec<i32>) -> Option<()> {
    out.clear();
    let mut before = *first;
    for _ in 0..count {
        before = before.wrapping_add(reader.take_signed()?);
        out.push(before);
    }
    *first = out.first().copied().unwrap_or(*first);
    Some(())
}
