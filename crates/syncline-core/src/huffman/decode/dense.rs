//! Decoders that do not know where groups start write the coded groups without the zero-bit ones between them; here
//! they move to their places.

use super::StreamDecoder;
use crate::error::{Error, Result};
use crate::huffman::{Checksum, Symbol};
use crate::simd::{self, InstructionSet, Kernel};

/// Runs `decode_coded` on the front of `out`, where the coded groups fit, computes their checksum, and moves them to
/// their final positions.
///
/// # Errors
/// [`Error::Corrupt`] if `decode_coded` returns another number of symbols.
pub fn decode<S: Symbol>(
    decoder: &StreamDecoder<'_, '_, S>,
    out: &mut [S],
    decode_coded: impl FnOnce(&mut [S]) -> usize,
) -> Result<Checksum> {
    let stream = decoder.stream;
    let dense = stream.coded_groups() * stream.group_len();
    let decoded = decode_coded(&mut out[..dense]);
    if decoded != dense {
        let what = format!("Huffman stream: {decoded} symbols where {dense} should be");
        return Err(Error::corrupt(&*stream.place, what));
    }
    let checksum = simd::run(Sum(&out[..dense]));
    spread(decoder, out);
    Ok(checksum)
}

struct Sum<'a, S>(&'a [S]);

impl<S: Symbol> Kernel for Sum<'_, S> {
    type Output = Checksum;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Checksum {
        Checksum::of(self.0, 0)
    }
}

/// Moves the coded groups to their final positions, from the last to the first: none of them moves towards the front.
fn spread<S: Symbol>(decoder: &StreamDecoder<'_, '_, S>, out: &mut [S]) {
    let stream = decoder.stream;
    let len = stream.group_len();
    let mut coded = stream.coded_groups();
    for group in (0..stream.groups()).rev() {
        let place = group * len;
        if stream.is_zero_bit(group) {
            out[place..place + len].fill(stream.zero_bit_symbol());
        } else {
            coded -= 1;
            if coded == group {
                // Nothing zero-bit before it: this and all before are where they belong.
                return;
            }
            out.copy_within(coded * len..(coded + 1) * len, place);
        }
    }
}
