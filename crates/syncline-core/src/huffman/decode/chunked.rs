//! The baseline: one codeword after the other.

use super::StreamDecoder;
use crate::huffman::Symbol;

/// Decodes all coded groups, one after the other.
pub fn decode<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, dense: &mut [S]) -> usize {
    let stream = decoder.stream;
    let coded = (0..stream.groups()).filter(|&g| !stream.is_zero_bit(g));
    let mut position = 0;
    for (group, out) in coded.zip(dense.chunks_exact_mut(stream.group_len())) {
        let code = &decoder.canonical[decoder.class(group)];
        for symbol in out {
            let (number, length) = code.decode(stream.words.window(position), 1);
            *symbol = S::truncate(number);
            position += length;
        }
    }
    dense.len()
}
