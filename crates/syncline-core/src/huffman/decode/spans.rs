//! Decoding everything between two bit positions: what the parallel decoders without a symbol index are made of.

use super::StreamDecoder;
use super::interleaved::InterleavedDecoder;
use super::lookup::{LOOKUPS_PER_WINDOW, Layout, TABLE_BITS};
use crate::huffman::Symbol;
use crate::simd::{self, InstructionSet, Kernel};

/// A decoder that works on spans of bits; one codebook only.
pub struct Spans<'d, 's, 'a, S>(pub &'d StreamDecoder<'s, 'a, S>);

impl<S> Clone for Spans<'_, '_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Spans<'_, '_, '_, S> {}

/// The result of decoding a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Bit at which the first codeword after the span starts: the end of the span, or later.
    pub exit: u32,
    /// Number of codewords that start in the span.
    pub symbols: usize,
}

impl<S: Symbol> Spans<'_, '_, '_, S> {
    /// Decodes the codewords that start at `start` and after it, but before `end`, without keeping the symbols.
    pub fn count(self, start: u32, end: u32) -> Span {
        simd::run(Count { spans: self, start, end })
    }

    /// Decodes the codewords that start at `start` and after it, but before `end`, to `out`, until that is full.
    pub fn write(self, start: u32, end: u32, out: &mut [S]) -> Span {
        match self.0.lookups[0].layout {
            Layout::Narrow => simd::run(Write::<S, 1> { spans: self, start, end, out }),
            Layout::Wide => simd::run(Write::<S, 2> { spans: self, start, end, out }),
        }
    }
}

struct Count<'d, 's, 'a, S> {
    spans: Spans<'d, 's, 'a, S>,
    start: u32,
    end: u32,
}

impl<S: Symbol> Kernel for Count<'_, '_, '_, S> {
    type Output = Span;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Span {
        let Spans(decoder) = self.spans;
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
        Span { exit: position, symbols }
    }
}

struct Write<'d, 's, 'a, 'o, S, const WIDTH: usize> {
    spans: Spans<'d, 's, 'a, S>,
    start: u32,
    end: u32,
    out: &'o mut [S],
}

impl<S: Symbol, const WIDTH: usize> Kernel for Write<'_, '_, '_, '_, S, WIDTH> {
    type Output = Span;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Span {
        let Spans(decoder) = self.spans;
        let words = &decoder.stream.words;
        let mut lane = InterleavedDecoder::new(&decoder.lookups[0], &decoder.canonical[0], self.start);
        let mut written = 0;
        while lane.position < self.end {
            // A window never goes past the span while this much is left, so no symbol is decoded for the next span.
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
        Span { exit: lane.position, symbols: written + room }
    }
}
