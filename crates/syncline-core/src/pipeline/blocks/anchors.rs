//! The elements of a block that are not interpolated: one, or one of each slice.

use crate::contexts::{MASKS, PackedReader, PackedWriter};

/// Bits of the number of a mask.
const MASK_BITS: u32 = MASKS.ilog2() + 1;

/// An element that is not interpolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The multiple of the step that is its value; that of the anchor before, 0 at first, if it is masked.
    pub integer: i32,
    pub mask: Option<u8>,
}

/// Appends the anchors of a block: the mask of each, or its integer as the difference from the one before, the first
/// from the first one of the block before.
pub(super) fn write(anchors: &[Anchor], first: &mut i32, out: &mut PackedWriter) {
    let mut before = *first;
    for anchor in anchors {
        out.put(u32::from(anchor.mask.is_some()), 1);
        match anchor.mask {
            Some(mask) => out.put(mask.into(), MASK_BITS),
            None => {
                out.put_signed(anchor.integer.wrapping_sub(before));
                before = anchor.integer;
            }
        }
    }
    *first = anchors.first().filter(|anchor| anchor.mask.is_none()).map_or(*first, |anchor| anchor.integer);
}

/// Reads `count` anchors of a block. `None` if they are damaged.
pub(super) fn read(reader: &mut PackedReader, count: usize, first: &mut i32, out: &mut Vec<Anchor>) -> Option<()> {
    out.clear();
    let (mut before, mut integer) = (*first, 0);
    for _ in 0..count {
        let mask = match reader.take(1)? {
            0 => {
                before = before.wrapping_add(reader.take_signed()?);
                integer = before;
                None
            }
            _ => Some(reader.take(MASK_BITS)? as u8),
        };
        if mask.is_some_and(|mask| usize::from(mask) >= MASKS) {
            return None;
        }
        out.push(Anchor { integer, mask });
    }
    *first = out.first().filter(|anchor| anchor.mask.is_none()).map_or(*first, |anchor| anchor.integer);
    Some(())
}
