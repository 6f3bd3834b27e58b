//! One of several sequences of codewords that are decoded side by side.
//!
//! Decoding is a chain: load bits, look up, shift, look up, ... about 35 cycles for three lookups, in which a core
//! could do six times as much. So decoders take turns, a window each, and the core overlaps them.

use super::canonical::Canonical;
use super::lookup::{ENTRIES, LOOKUPS_PER_WINDOW, Lookup, TABLE_BITS};
use crate::bits::reader::BitWords;
use crate::huffman::Symbol;

/// Room for whatever three eight-bit counts add up to, so that stores need no check, and a store's overhang; only the
/// first 180 or so symbols are ever used.
const BUFFER: usize = 3 * 256;

/// Decodes from a position on into a buffer of its own.
#[derive(Clone, Debug)]
pub struct InterleavedDecoder<'t> {
    entries: &'t [u64; ENTRIES],
    /// Next bit to decode.
    pub position: u32,
    count: u8,
    patches: u8,
    base: u16,
    code: &'t Canonical,
    buffer: [u8; 2 * BUFFER + 8],
    /// Symbols outside a narrow table's window: where they go, and what.
    patch: [(u8, u16); 256],
}

impl<'t> InterleavedDecoder<'t> {
    /// Maximum number of symbols that a decoder may hold before the next window. A window gives at most 18 more, plus
    /// one that is decoded canonically.
    pub const ROOM: usize = 160;

    /// Bits that a window may consume.
    pub const WINDOW_BITS: u32 = LOOKUPS_PER_WINDOW as u32 * TABLE_BITS + crate::huffman::lengths::MAX_LENGTH;

    /// Returns a decoder that uses these tables and starts at bit `position`.
    pub fn new(lookup: &'t Lookup, code: &'t Canonical, position: u32) -> Self {
        Self {
            entries: &lookup.entries,
            position,
            count: 0,
            patches: 0,
            base: lookup.base,
            code,
            buffer: [0; 2 * BUFFER + 8],
            patch: [(0, 0); 256],
        }
    }

    /// Starts anew.
    #[inline(always)]
    pub fn restart(&mut self, lookup: &'t Lookup, code: &'t Canonical, position: u32) {
        (self.entries, self.base, self.code, self.position) = (&lookup.entries, lookup.base, code, position);
        (self.count, self.patches) = (0, 0);
    }

    /// Returns the number of symbols decoded since the last [`InterleavedDecoder::take`].
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count.into()
    }

    /// Decodes one window: up to 18 symbols, at least one. `WIDTH`: bytes of a symbol in the table's layout.
    #[inline(always)]
    pub fn step<const WIDTH: usize>(&mut self, words: &BitWords<'_>) {
        let mut window = words.window(self.position);
        let start = usize::from(self.count);
        let (mut at, mut bits, mut last) = (start, 0, 0);
        for _ in 0..LOOKUPS_PER_WINDOW {
            last = self.entries[(window >> (64 - TABLE_BITS)) as usize];
            self.buffer[at * WIDTH..][..8].copy_from_slice(&(last >> 16).to_le_bytes());
            at += (last >> 8) as usize & 0xff;
            // The low byte is at most 33. The bits above it are ignored.
            bits += last & 0xffff;
            window <<= last & 63;
        }
        self.position = self.position.wrapping_add(bits as u32 & 0xff);
        self.count = at as u8;
        // An entry without a symbol consumes no bits, so the next lookups give the same entry. It is enough to test the
        // last one.
        if last as u8 == 0 {
            self.step_slow::<WIDTH>(words, (last >> 16) as u32);
        }
    }

    /// Decodes one codeword of at least `shortest` bits.
    #[inline(always)]
    pub fn step_slow<const WIDTH: usize>(&mut self, words: &BitWords<'_>, shortest: u32) {
        let (symbol, length) = self.code.decode(words.window(self.position), shortest);
        let at = usize::from(self.count) * WIDTH;
        if WIDTH == 2 {
            self.buffer[at..at + 2].copy_from_slice(&symbol.to_le_bytes());
        } else {
            let number = symbol.wrapping_sub(self.base);
            self.buffer[at] = number as u8;
            if number > 0xff {
                self.patch[usize::from(self.patches)] = (self.count, symbol);
                self.patches = self.patches.wrapping_add(1);
            }
        }
        self.position = self.position.wrapping_add(length);
        self.count = self.count.wrapping_add(1);
    }

    /// Returns where the codewords of the first `len` symbols end, given the lengths of those of all symbols.
    #[inline(always)]
    pub fn end_of<const WIDTH: usize>(&self, len: usize, lengths: &[u8]) -> u32 {
        let length = |symbol: u16| lengths.get(usize::from(symbol)).map_or(0, |&length| u32::from(length));
        let stored = |at: usize| match WIDTH {
            2 => length(u16::from_le_bytes([self.buffer[2 * at], self.buffer[2 * at + 1]])),
            _ => length(self.base.wrapping_add(self.buffer[at].into())),
        };
        let mut end = self.position;
        for at in len..self.count() {
            end = end.wrapping_sub(stored(at));
        }
        for &(at, symbol) in &self.patch[..self.patches.into()] {
            if usize::from(at) >= len {
                end = end.wrapping_add(stored(at.into())).wrapping_sub(length(symbol));
            }
        }
        end
    }

    /// Moves the first `LEN` symbols (128 at most) to `out` and drops the others.
    #[inline(always)]
    pub fn take_group<S: Symbol, const WIDTH: usize, const LEN: usize>(&mut self, out: &mut [S; LEN]) {
        if WIDTH == 2 {
            let pairs: &[[u8; 2]; LEN] = self.buffer.as_chunks().0.first_chunk().expect("a group fits");
            *out = pairs.map(|pair| S::truncate(u16::from_le_bytes(pair)));
        } else {
            let bytes: &[u8; LEN] = self.buffer.first_chunk().expect("a group fits");
            for (symbol, &byte) in out.iter_mut().zip(bytes) {
                *symbol = S::truncate(self.base.wrapping_add(byte.into()));
            }
        }
        self.finish_take(out);
    }

    /// Moves the first `out.len()` symbols to `out` and drops the others.
    pub fn take<S: Symbol, const WIDTH: usize>(&mut self, out: &mut [S]) {
        if WIDTH == 2 {
            for (symbol, pair) in out.iter_mut().zip(self.buffer.as_chunks().0) {
                *symbol = S::truncate(u16::from_le_bytes(*pair));
            }
        } else {
            for (symbol, &byte) in out.iter_mut().zip(&self.buffer) {
                *symbol = S::truncate(self.base.wrapping_add(byte.into()));
            }
        }
        self.finish_take(out);
    }

    #[inline(always)]
    fn finish_take<S: Symbol>(&mut self, out: &mut [S]) {
        for &(at, symbol) in &self.patch[..self.patches.into()] {
            // Symbols past the end were decoded for nothing.
            if let Some(slot) = out.get_mut(usize::from(at)) {
                *slot = S::truncate(symbol);
            }
        }
        (self.count, self.patches) = (0, 0);
    }
}
