//! A strip from its bits.

use super::alphabet::Meaning;
use super::codebook::{Decoder, Entry};
use crate::bits::reader::BitWords;

/// Bits of a window that are known to be those of the stream.
const WINDOW_BITS: u32 = 33;

/// Decodes strips, each from its first bit to its end, to one lane of its `codes`, which hold zeros. Returns `None` if
/// the bits are not those of such strips. The symbols of the strips are decoded in turn: within a strip, a symbol
/// starts where the one before it ends, so that one strip alone would leave the processor waiting.
#[inline(always)]
pub(super) fn read_strips<const N: usize, const L: usize>(
    decoder: &Decoder,
    words: BitWords<'_>,
    bounds: [[u32; 2]; N],
    mut codes: [&mut [[i32; L]]; N],
    lane: usize,
) -> Option<()> {
    let mut strips = bounds.map(|[position, end]| Reader { decoder, words, position, end, at: 0 });
    'all: loop {
        for strip in &strips {
            if !strip.has_two() {
                break 'all;
            }
        }
        for (strip, codes) in strips.iter_mut().zip(&mut codes) {
            strip.step_two(codes, lane)?;
        }
    }
    for (strip, codes) in strips.iter_mut().zip(&mut codes) {
        while strip.has_two() {
            strip.step_two(codes, lane)?;
        }
        while strip.position < strip.end {
            strip.step(codes, lane)?;
        }
        if strip.position != strip.end {
            return None;
        }
    }
    Some(())
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
    /// Returns whether at least two symbols follow, or a rare one.
    #[inline(always)]
    fn has_two(&self) -> bool {
        u64::from(self.position) + u64::from(Entry::MOST_BITS) < u64::from(self.end)
    }

    /// Decodes one symbol or two. Returns `None` if they are none, or have more codes than the strip.
    #[inline(always)]
    fn step_two<const L: usize>(&mut self, codes: &mut [[i32; L]], lane: usize) -> Option<()> {
        let window = self.words.window(self.position);
        let first = self.decoder.entry(window);
        if first.bits() == 0 {
            return self.step_rare(first, codes, lane);
        }
        self.put(first, window, codes, lane)?;
        let window = window << first.bits();
        let second = self.decoder.entry(window);
        // If all bits that this symbol has are in the window, it is the one that follows.
        if second.bits() != 0 && first.bits() + second.bits() <= WINDOW_BITS {
            self.put(second, window, codes, lane)?;
        }
        Some(())
    }

    /// Decodes a symbol. Returns `None` if it is none, or has more codes than the strip.
    #[inline(always)]
    fn step<const L: usize>(&mut self, codes: &mut [[i32; L]], lane: usize) -> Option<()> {
        let window = self.words.window(self.position);
        match self.decoder.entry(window) {
            entry if entry.bits() == 0 => self.step_rare(entry, codes, lane),
            entry => self.put(entry, window, codes, lane),
        }
    }

    /// Writes the codes of a symbol that is not rare.
    #[inline(always)]
    fn put<const L: usize>(&mut self, entry: Entry, window: u64, codes: &mut [[i32; L]], lane: usize) -> Option<()> {
        let at = self.at + entry.zeros();
        self.position += entry.bits();
        self.at = at + entry.values();
        let length = codes.len();
        if let Some(code) = codes.get_mut(at) {
            // Zeros without a value write one more.
            code[lane % L] = entry.value(window);
        } else if self.at > length {
            return None;
        }
        Some(())
    }

    /// Decodes a symbol that is none, or a rare one.
    #[cold]
    #[inline(never)]
    fn step_rare<const L: usize>(&mut self, entry: Entry, codes: &mut [[i32; L]], lane: usize) -> Option<()> {
        let rare = entry.rare()?;
        let count = rare.symbol.extra_bits();
        let extra = (self.words.window(self.position + rare.length) >> (64 - count)) as u32;
        let (zeros, value) = match rare.symbol.meaning() {
            Meaning::Sized { run, size } => {
                let magnitude = (extra >> 1 | 1 << size) as i32;
                (run, if extra & 1 == 1 { magnitude.wrapping_neg() } else { magnitude })
            }
            _ => (0, extra as i32),
        };
        let at = self.at + zeros as usize;
        codes.get_mut(at)?[lane % L] = value;
        (self.position, self.at) = (self.position + rare.length + count, at + 1);
        Some(())
    }
}
