//! Decoding everything between two bit positions: what the parallel decoders without a symbol index are made of.

use super::StreamDecoder;
use super::interleaved::InterleavedDecoder;
use super::lookup::{LOOKUPS_PER_WINDOW, Layout, TABLE_BITS};
use crate::huffman::Symbol;
use crate::simd::{self, InstructionSet, Kernel};

/// A decoder that works on ranges of bits; one codebook only.
pub struct RangeDecoder<'d, 's, 'a, S>(pub &'d StreamDecoder<'s, 'a, S>);

impl<S> Clone for RangeDecoder<'_, '_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for RangeDecoder<'_, '_, '_, S> {}

/// The result of decoding a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodedRange {
    /// Bit at which the first codeword after the range starts: the end of the range, or later.
    pub exit: u32,
    /// Number of codewords that start in the range.
    pub symbols: usize,
}

impl<S: Symbol> RangeDecoder<'_, '_, '_, S> {
    /// Decodes the codewords that start at `start` and after it, but before `end`, without keeping the symbols.
    pub fn count(self, start: u32, end: u32) -> DecodedRange {
        simd::run(Count { decoder: self, start, end })
    }

    /// Decodes the codewords that start at `start` and after it, but before `end`, to `out`, until that is full.
    pub fn write(self, start: u32, end: u32, out: &mut [S]) -> DecodedRange {
        match self.0.lookups[0].layout {
            Layout::Narrow => simd::run(Write::<S, 1> { decoder: self, start, end, out }),
            Layout::Wide => simd::run(Write::<S, 2> { decoder: self, start, end, out }),
        }
    }
}

struct Count<'d, 's, 'a, S> {
    decoder: RangeDecoder<'d, 's, 'a, S>,
    start: u32,
    end: u32,
}

impl<S: Symbol> Kernel for Count<'_, '_, '_, S> {
    type Output = DecodedRange;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> DecodedRange {
        let RangeDecoder(decoder) = self.decoder;
        let words = &decoder.stream.words;
        let (lookup, code) = (&decoder.lookups[0], &decoder.canonical[0]);
        let mut position = self.start;
        let mut symbols = 0;
        while position < self.end {
            let mut window = words.window(position);
            if self.end - position > LOOKUPS_PER_WINDOW as u32 * TABLE_BITS {
                let mut sum = 0u64;
                for _ in 0..LOOKUPS_PER_WINDOW {
                    let entry = lookup.entries[(window >> (64 - TABLE_BITS)) as usize];
                    sum = sum.wrapping_add(entry & 0xffff);
                    window <<= entry & 63;
                }
                if sum != 0 {
                    position += sum as u32 & 0xff;
                    symbols += (sum >> 8) as usize;
                    continue;
                }
            }
            position += code.decode(words.window(position), 1).1;
            symbols += 1;
        }
        DecodedRange { exit: position, symbols }
    }
}

struct Write<'d, 's, 'a, 'o, S, const WIDTH: usize> {
    decoder: RangeDecoder<'d, 's, 'a, S>,
    start: u32,
    end: u32,
    out: &'o mut [S],
}

impl<S: Symbol, const WIDTH: usize> Kernel for Write<'_, '_, '_, '_, S, WIDTH> {
    type Output = DecodedRange;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> DecodedRange {
        let RangeDecoder(decoder) = self.decoder;
        let words = &decoder.stream.words;
        let mut lane = InterleavedDecoder::new(&decoder.lookups[0], &decoder.canonical[0], self.start);
        let mut written = 0;
        while lane.position < self.end {
            // A window never goes past the range while this much is left, so no symbol is decoded for the next range.
            if self.end - lane.position > InterleavedDecoder::WINDOW_BITS {
                lane.step::<WIDTH>(words);
            } else {
                lane.step_slow::<WIDTH>(words, 1);
            }
            if lane.count() >= InterleavedDecoder::ROOM {
                let room = lane.count().min(self.out.len() - written);
                lane.take::<S, WIDTH>(&mut self.out[written..written + room]);
                written += room;
                if written == self.out.len() {
                    break;
                }
            }
        }
        let room = lane.count().min(self.out.len() - written);
        lane.take::<S, WIDTH>(&mut self.out[written..written + room]);
        DecodedRange { exit: lane.position, symbols: written + room }
    }
}
