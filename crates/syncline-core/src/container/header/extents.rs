//! The extents of an array in the header of a stream.

use crate::array::{MAX_RANK, Shape};

/// Bytes of the header that hold the extents.
pub(super) const EXTENT_BYTES: usize = 32;

/// Number of axes up to which each extent is a u64. Extents of more axes are packed.
const UNPACKED_AXES: usize = EXTENT_BYTES / size_of::<u64>();

/// Number of half bytes of the field. Each contains three bits of an extent and a bit that is set if more follow.
/// Because the product of the extents is at most 2^60, all axes together take at most `MAX_RANK + 60 / 3` half bytes.
const HALVES: usize = 2 * EXTENT_BYTES;
const _: () = assert!(MAX_RANK + 20 <= HALVES);

/// Returns the field that holds the extents of a shape.
pub(super) fn write_extents(shape: Shape) -> [u8; EXTENT_BYTES] {
    let mut field = [0; EXTENT_BYTES];
    if shape.rank() <= UNPACKED_AXES {
        for (bytes, extent) in field.chunks_exact_mut(size_of::<u64>()).zip(shape.extents()) {
            bytes.copy_from_slice(&extent.to_le_bytes());
        }
        return field;
    }
    let mut at = 0;
    let mut push = |half: u64| {
        field[at / 2] |= (half as u8) << (at % 2 * 4);
        at += 1;
    };
    for &extent in shape.extents() {
        let mut rest = extent;
        while rest > 7 {
            push(rest & 7 | 8);
            rest >>= 3;
        }
        push(rest);
    }
    field
}

/// Returns the shape of `rank` axes in a field, or `None` if no writer makes such a field.
pub(super) fn read_extents(field: &[u8; EXTENT_BYTES], rank: usize) -> Option<Shape> {
    if rank > MAX_RANK {
        return None;
    }
    let mut extents = [0_u64; MAX_RANK];
    if rank <= UNPACKED_AXES {
        for (extent, bytes) in extents.iter_mut().zip(field.chunks_exact(size_of::<u64>())) {
            *extent = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        return Shape::new(&extents[..rank]).ok();
    }
    let mut halves = field.iter().flat_map(|byte| [u64::from(byte & 15), u64::from(byte >> 4)]);
    for extent in &mut extents[..rank] {
        let mut shift = 0;
        loop {
            let half = halves.next()?;
            *extent |= (half & 7).checked_shl(shift).filter(|bits| bits >> shift == half & 7)?;
            if half < 8 {
                // Each extent has one encoding.
                if half == 0 && shift > 0 {
                    return None;
                }
                break;
            }
            shift += 3;
        }
    }
    let shape = Shape::new(&extents[..rank]).ok()?;
    halves.all(|half| half == 0).then_some(shape)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the extents of up to `MAX_RANK` axes with a product of at most 2^60.
    fn extents() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0_u32..61, any::<u64>()), 0..=MAX_RANK).prop_map(|axes| {
            let mut left = 60;
            let mut extents = Vec::new();
            for (bits, value) in axes {
                let bits = bits.min(left);
                let extent = (value >> 4) & ((1 << bits) - 1);
                left -= u64::BITS - extent.saturating_sub(1).leading_zeros();
                extents.push(extent);
            }
            extents
        })
    }

    proptest! {
        #[test]
        fn every_shape_is_read_back(extents in extents()) {
            let shape = Shape::new(&extents).unwrap();
            prop_assert_eq!(read_extents(&write_extents(shape), shape.rank()), Some(shape));
        }

        #[test]
        fn every_field_is_refused_or_has_one_meaning(field in any::<[u8; EXTENT_BYTES]>(), rank in 5_usize..40) {
            if let Some(shape) = read_extents(&field, rank) {
                prop_assert_eq!(write_extents(shape), field);
            }
        }
    }

    #[test]
    fn the_longest_fields() {
        for extents in [[1; MAX_RANK], [0; MAX_RANK]] {
            let shape = Shape::new(&extents).unwrap();
            assert_eq!(read_extents(&write_extents(shape), MAX_RANK), Some(shape));
        }
        // The largest extents that take one half byte more than those below them.
        let mut extents = [1; MAX_RANK];
        extents[12..].fill(8);
        let shape = Shape::new(&extents).unwrap();
        let field = write_extents(shape);
        assert_eq!(field[26..], [0; 6]);
        assert_eq!(read_extents(&field, MAX_RANK), Some(shape));
    }

    #[test]
    fn fields_that_no_writer_makes_are_refused() {
        let shape = Shape::new(&[2, 3, 4, 5, 600]).unwrap();
        let field = write_extents(shape);
        assert_eq!(field[..4], [0x32, 0x54, 0xB8, 0x19], "600 is 1130 in base 8");
        let with = |at: usize, byte: u8| {
            let mut field = field;
            field[at] = byte;
            read_extents(&field, 5)
        };
        assert_eq!(with(31, 1), None, "after the last extent");
        assert_eq!(with(3, 0x09), None, "an extent with more half bytes than it needs");
        assert_eq!(read_extents(&[0xFF; EXTENT_BYTES], 5), None, "an extent without an end");
        assert_eq!(read_extents(&field, MAX_RANK + 1), None);
    }
}
