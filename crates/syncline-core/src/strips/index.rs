//! The bits of each strip, from which a decoder finds where it starts.

use crate::bits::pack;

/// Largest minimum that a descriptor can have.
const MOST_SHORTEST: u32 = 0xfff;

/// Appends the numbers of bits of strips: for each block of 32 a descriptor of 16 bits, the shortest strip and the
/// width of what the others have more; then what they have more, block by block.
pub(super) fn write(lengths: &[u32], out: &mut Vec<u8>) {
    let mut deltas = Vec::new();
    for lengths in lengths.chunks(pack::BLOCK) {
        let shortest = lengths.iter().copied().min().unwrap_or(0).min(MOST_SHORTEST);
        let mut block = [0; pack::BLOCK];
        block.iter_mut().zip(lengths).for_each(|(delta, length)| *delta = u64::from(length - shortest));
        let width = pack::width_for(&block);
        out.extend_from_slice(&((shortest | width << 12) as u16).to_le_bytes());
        pack::pack_block(&block, width, &mut deltas);
    }
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&deltas);
}

/// Reads where `strips` strips start, and where the last one ends, from an index and the number of bits of all strips.
///
/// # Errors
/// What contradicts itself: lengths that do not add up, bytes that are missing or left over.
pub(super) fn read(index: &[u8], strips: usize, bits: u32) -> Result<Vec<u32>, &'static str> {
    let blocks = strips.div_ceil(pack::BLOCK);
    let (descriptors, mut deltas) =
        index.split_at_checked((2 * blocks).next_multiple_of(4)).ok_or("index is shorter than its blocks")?;
    let (descriptors, padding) = descriptors.split_at(2 * blocks);
    if padding.iter().any(|&byte| byte != 0) {
        return Err("bytes between the parts of the index are not 0");
    }
    // Memory: the number of strips comes from the geometry of the chunk.
    let mut starts = Vec::with_capacity(strips + 1);
    let mut position = 0u64;
    for descriptor in descriptors.as_chunks::<2>().0 {
        let descriptor = u32::from(u16::from_le_bytes(*descriptor));
        let (shortest, width) = (u64::from(descriptor & MOST_SHORTEST), descriptor >> 12);
        let block = pack::unpack_block(deltas, width).ok_or("index is shorter than its deltas")?;
        deltas = &deltas[4 * width as usize..];
        for &delta in &block[..pack::BLOCK.min(strips - starts.len())] {
            // A sum that does not fit is not that of the bits, either.
            starts.push(position as u32);
            position += shortest + delta;
        }
    }
    if position != u64::from(bits) {
        return Err("lengths of strips do not add up to the codewords");
    }
    if !deltas.is_empty() {
        return Err("index is longer than its deltas");
    }
    starts.push(bits);
    Ok(starts)
}
