//! A strip from its bits.

use super::codebook::{Decoder, Entry};
use crate::bits::reader::BitWords;

/// Bits of a window that are known to be those of the stream.
const WINDOW_BITS: u32 = 33;

/// Decodes a strip, whose bits are those from `start` to `end`, to one lane of `codes`, which holds zeros. Returns
/// `None` if the bits are not those of such a strip.
#[inline(always)]
pub(super) fn read_strip<const L: usize>(
    decoder: &Decoder,
    words: BitWords<'_>,
    [start, end]: [u32; 2],
    codes: &mut [[i32; L]],
    lane: usize,
) -> Option<()> {
    let mut strip = Reader { decoder, words, position: start, end, at: 0 };
    while strip.position < end {
        strip.step(codes, lane)?;
    }
    strip.is_done().then_some(())
}

/// Decodes two strips that follow each other, each as [`read_strip`] does. The symbols of the two strips are decoded in
/// turn: within a strip, a symbol starts where the one before it ends, so that one strip alone would leave the processor
/// waiting.
#[inline(always)]
pub(super) fn read_two_strips<const L: usize>(
    decoder: &Decoder,
    words: BitWords<'_>,
    [start, middle, end]: [u32; 3],
    [first_codes, second_codes]: [&mut [[i32; L]]; 2],
    lane: usize,
) -> Option<()> {
    let mut first = Reader { decoder, words, position: start, end: middle, at: 0 };
    let mut second = Reader { decoder, words, position: middle, end, at: 0 };
    while first.position < middle && second.position < end {
        first.step(first_codes, lane)?;
        second.step(second_codes, lane)?;
    }
    while first.position < middle {
        first.step(first_codes, lane)?;
    }
    while second.position < end {
        second.step(second_codes, lane)?;
    }
    (first.is_done() && second.is_done()).then_some(())
}

struct Reader<'a> {
    decoder: &'a Decoder,
    words: BitWords<'a>,
    position: u32,
    end: u32,
    /// Codes so far.
    at: usize,
}

impl Reader<'_> {
    /// Decodes a symbol. Returns `None` if it is none, or has more codes than the strip.
    #[inline(always)]
    fn step<const L: usize>(&mut self, codes: &mut [[i32; L]], lane: usize) -> Option<()> {
        let window = self.words.window(self.position);
        let entry = self.decoder.entry(window);
        self.at += entry.zeros() as usize;
        if entry.has_value() {
            let extra = if entry.bits() <= WINDOW_BITS {
                window << entry.length()
            } else {
                self.words.window(self.position + entry.length())
            };
            codes.get_mut(self.at)?[lane % L] = entry.value(extra);
            self.at += 1;
        }
        self.position += entry.bits();
        (entry != Entry::NONE && self.at <= codes.len()).then_some(())
    }

    fn is_done(&self) -> bool {
        self.position == self.end
    }
}
