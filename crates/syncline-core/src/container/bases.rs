//! Section 1: the base of each tile, as differences between tiles.

use crate::bits::fields::{Fields, align};
use crate::bits::pack::{BLOCK, pack_block, unpack_block, width_for};
use crate::error::{Error, Result};
use crate::predict::word::Word;

/// Appends the bases of a chunk's tiles; `out` must be aligned to 4.
pub fn write_bases<W: Word>(out: &mut Vec<u8>, bases: &[W]) {
    let mut previous = W::ZERO;
    let blocks: Vec<[u64; BLOCK]> = bases
        .chunks(BLOCK)
        .map(|bases| {
            let mut block = [0; BLOCK];
            for (slot, &base) in block.iter_mut().zip(bases) {
                *slot = base.minus(previous).zigzag().widen();
                previous = base;
            }
            block
        })
        .collect();
    out.extend(blocks.iter().map(|block| width_for(block) as u8));
    align(out, 4);
    for block in &blocks {
        pack_block(block, width_for(block), out);
    }
}

/// Reads the bases of `tiles` tiles.
///
/// # Errors
/// Wrong length or impossible widths.
pub fn read_bases<W: Word>(section: &[u8], tiles: usize, place: &str) -> Result<Vec<W>> {
    let mut fields = Fields::new(section, place);
    let widths = fields.take(tiles.div_ceil(BLOCK))?;
    fields.align(4)?;
    let mut bases = Vec::with_capacity(tiles);
    let mut base = W::ZERO;
    for (block, &width) in widths.iter().enumerate() {
        let values = unpack_block(fields.take(4 * usize::from(width))?, u32::from(width));
        let values = values.ok_or_else(|| Error::corrupt(place, "impossible width of tile bases"))?;
        for &value in &values[..BLOCK.min(tiles - block * BLOCK)] {
            base = base.plus(W::narrow(value).unzigzag());
            bases.push(base);
        }
    }
    if !fields.rest().is_empty() {
        return Err(Error::corrupt(place, "its section of tile bases is too long"));
    }
    Ok(bases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip<W: Word>(bases: &[W]) {
        let mut bytes = Vec::new();
        write_bases(&mut bytes, bases);
        assert_eq!(read_bases::<W>(&bytes, bases.len(), "test").unwrap(), bases);
        for length in 0..bytes.len() {
            assert!(read_bases::<W>(&bytes[..length], bases.len(), "test").is_err());
        }
    }

    proptest! {
        #[test]
        fn bases_come_back(bases in prop::collection::vec(any::<u64>(), 0..100), shift in 0..64u32) {
            round_trip(&bases.iter().map(|b| b >> shift).collect::<Vec<u64>>());
            round_trip(&bases.iter().map(|b| (b >> shift) as u32).collect::<Vec<u32>>());
            round_trip(&bases.iter().map(|b| (b >> shift) as u8).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn equal_bases_take_a_byte_a_block() {
        let mut bytes = Vec::new();
        write_bases(&mut bytes, &[0u32; 2048]);
        assert_eq!(bytes.len(), 64);
    }
}
