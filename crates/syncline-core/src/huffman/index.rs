//! The symbol index, with which a decoder can start at every group of a stream.

use crate::bits::pack;

/// Returns the minimum and the maximum number of bytes of the symbol index of `groups` coded groups whose lengths
/// differ by at most `spread` bits.
pub fn starts_bytes(groups: usize, spread: usize) -> (usize, usize) {
    let blocks = groups.div_ceil(pack::BLOCK);
    let width = (usize::BITS - spread.leading_zeros()) as usize;
    (blocks * 8, blocks * (8 + width * 4))
}

/// Appends the symbol index of coded groups that start at `starts[..n]`; `starts[n]` is the number of bits of all.
pub fn write_starts(starts: &[u32], out: &mut Vec<u8>) {
    let groups = starts.len() - 1;
    let mut deltas = Vec::new();
    for first in (0..groups).step_by(pack::BLOCK) {
        let ends = &starts[first..=(first + pack::BLOCK).min(groups)];
        let lengths = ends.windows(2).map(|w| u64::from(w[1] - w[0]));
        // The field of the descriptor has 12 bits.
        let shortest = lengths.clone().min().unwrap_or(0).min(0xfff);
        let mut block = [0; pack::BLOCK];
        for (slot, length) in block.iter_mut().zip(lengths) {
            *slot = length - shortest;
        }
        let width = pack::width_for(&block);
        let descriptor = u64::from(ends[0]) | shortest << 32 | u64::from(width) << 44 | (deltas.len() as u64 / 4) << 48;
        pack::pack_block(&block, width, &mut deltas);
        out.extend_from_slice(&descriptor.to_le_bytes());
    }
    out.extend_from_slice(&deltas);
}

/// Reads the symbol index of `groups` coded groups: the start of each, then `bits`, the number of bits of all.
///
/// # Errors
/// What contradicts itself: lengths that do not add up, deltas out of place, bytes left over.
pub fn read_starts(index: &[u8], groups: u32, bits: u32) -> Result<Vec<u32>, &'static str> {
    let blocks = groups.div_ceil(pack::BLOCK as u32) as usize;
    if index.len() < blocks * 8 {
        return Err("index is shorter than its blocks");
    }
    let (descriptors, deltas) = index.split_at(blocks * 8);
    let mut starts = Vec::with_capacity(groups as usize + 1);
    let mut position = 0u64;
    let mut next_delta = 0;
    for descriptor in descriptors.chunks_exact(8) {
        let descriptor = u64::from_le_bytes(descriptor.try_into().expect("chunks of 8"));
        let shortest = (descriptor >> 32) as u32 & 0xfff;
        let width = (descriptor >> 44) as u32 & 0xf;
        if u64::from(descriptor as u32) != position || (descriptor >> 48) as usize * 4 != next_delta {
            return Err("index blocks do not follow one another");
        }
        let block = deltas.get(next_delta..).and_then(|d| pack::unpack_block(d, width));
        let block = block.ok_or("index is shorter than its deltas")?;
        next_delta += 4 * width as usize;
        let in_block = pack::BLOCK.min(groups as usize - starts.len());
        for &delta in &block[..in_block] {
            starts.push(position as u32);
            position += u64::from(shortest) + delta;
        }
    }
    if position != u64::from(bits) {
        return Err("group lengths do not add up to the codewords");
    }
    if next_delta != deltas.len() {
        return Err("index is longer than its deltas");
    }
    starts.push(bits);
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an index all of whose groups have the maximum number of bits that it can represent, and their sum.
    fn longest(groups: u32) -> (Vec<u8>, u64) {
        const SHORTEST: u64 = 0xfff;
        const WIDTH: u64 = 15;
        let bits = SHORTEST + (1 << WIDTH) - 1;
        let blocks = u64::from(groups) / pack::BLOCK as u64;
        let descriptor = |block: u64| {
            let position = block * pack::BLOCK as u64 * bits;
            u64::from(position as u32) | SHORTEST << 32 | WIDTH << 44 | (block * WIDTH) << 48
        };
        let mut index: Vec<u8> = (0..blocks).flat_map(|block| descriptor(block).to_le_bytes()).collect();
        index.resize(index.len() + 4 * (blocks * WIDTH) as usize, 0xff);
        (index, u64::from(groups) * bits)
    }

    #[test]
    fn groups_of_more_bits_than_can_be_counted_are_refused() {
        let (index, bits) = longest(1 << 12);
        let starts = read_starts(&index, 1 << 12, bits as u32).expect("all in order");
        assert_eq!(starts.last().copied(), Some(bits as u32));
        let (index, bits) = longest(1 << 17);
        assert!(bits > u64::from(u32::MAX));
        assert!(read_starts(&index, 1 << 17, bits as u32).is_err());
    }
}
