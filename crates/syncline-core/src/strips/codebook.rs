//! A codebook for encoding, and one for decoding.

use std::cell::OnceCell;

use super::alphabet::{Extra, Meaning, SYMBOLS, Symbol};
use super::encode::{ALONE, PAIRS, Strip, SymbolSink, alone_of, pair_of, symbol_of_alone, symbol_of_pair};
use super::writer::{WordWriter, WordsEnd};
use crate::huffman::codebook::Codebook;

/// Longest codeword in bits. A decoder then finds every codeword with one lookup.
pub const MAX_LENGTH: u32 = 11;

/// Codewords by symbol.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// The codeword times 256 plus its length; 0 for symbols without one.
    codewords: [u32; SYMBOLS],
    /// Made for the first strip.
    tables: OnceCell<Box<Tables>>,
}

/// Codeword and extra bits, times 256, plus their number; 0 for what has no symbol in the codebook.
#[derive(Clone, Debug)]
struct Tables {
    pairs: [u32; PAIRS],
    alone: [u32; ALONE],
}

impl Encoder {
    /// Returns the codewords of a code.
    pub fn new(code: &Codebook) -> Self {
        let mut codewords = [0; SYMBOLS];
        code.fill_codewords(&mut codewords);
        Self { codewords, tables: OnceCell::new() }
    }

    fn make_tables(&self) -> Box<Tables> {
        let entry = |(symbol, extra): (Symbol, Extra)| {
            let (bits, count) = self.bits_of(symbol, extra);
            if self.has(symbol) { (bits as u32) << 8 | count } else { 0 }
        };
        let pairs = std::array::from_fn(|number| entry(symbol_of_pair(number)));
        Box::new(Tables { pairs, alone: std::array::from_fn(|number| entry(symbol_of_alone(number))) })
    }

    /// Returns whether a symbol has a codeword.
    #[inline(always)]
    pub fn has(&self, symbol: Symbol) -> bool {
        self.codewords[symbol.number()] != 0
    }

    /// Returns the length of a codeword in bits, 0 if there is none.
    #[inline(always)]
    pub fn length(&self, symbol: Symbol) -> u32 {
        self.codewords[symbol.number()] & 0xff
    }

    /// Returns the bits of a codeword and the extra bits after it, and how many there are.
    #[inline(always)]
    fn bits_of(&self, symbol: Symbol, extra: Extra) -> (u64, u32) {
        let codeword = self.codewords[symbol.number()];
        (u64::from(codeword >> 8) << extra.count | u64::from(extra.bits), (codeword & 0xff) + extra.count)
    }

    /// Writes a strip.
    #[inline(always)]
    pub(super) fn write(&self, strip: Strip<'_>, out: WordWriter<'_>) -> WordsEnd {
        let tables = &**self.tables.get_or_init(|| self.make_tables());
        let mut sink = Writing { encoder: self, pairs: &tables.pairs, out };
        if !strip.is_dense {
            return strip.give_values(sink).out.pause();
        }
        let entry_of = |code: i32| alone_of(code).map_or(0, |number| tables.alone[number]);
        let (both, last) = strip.to_last_value().as_chunks::<2>();
        for &codes in both {
            let [first, second] = [entry_of(codes[0]), entry_of(codes[1])];
            let count = (first & 0xff) + (second & 0xff);
            if first != 0 && second != 0 && count <= 32 {
                sink.out.put(u64::from(first >> 8) << (second & 0xff) | u64::from(second >> 8), count);
            } else {
                sink = sink.put_alone(codes[0]).put_alone(codes[1]);
            }
        }
        for &code in last {
            sink = sink.put_alone(code);
        }
        sink.out.pause()
    }
}

/// Writes symbols.
struct Writing<'e, 'w> {
    encoder: &'e Encoder,
    pairs: &'e [u32; PAIRS],
    out: WordWriter<'w>,
}

impl SymbolSink for Writing<'_, '_> {
    #[inline(always)]
    fn take(mut self, zeros: u32, value: i32) -> Self {
        match pair_of(zeros, value).map_or(0, |number| self.pairs[number]) {
            0 => self.put_after(zeros, value),
            entry => {
                self.out.put(u64::from(entry >> 8), entry & 0xff);
                self
            }
        }
    }

    #[inline(always)]
    fn has(&self, symbol: Symbol) -> bool {
        self.encoder.has(symbol)
    }

    #[inline(always)]
    fn put(mut self, symbol: Symbol, extra: Extra) -> Self {
        let (bits, count) = self.encoder.bits_of(symbol, extra);
        if count <= 32 {
            self.out.put(bits, count);
        } else {
            self.out.put(bits >> 32, count - 32);
            self.out.put(bits & 0xffff_ffff, 32);
        }
        self
    }
}

/// What a decoder does with the symbol whose codeword is at the start of a window of bits.
///
/// Bits 0 to 5: bits of codeword and extra bits, 0 if the symbol is a rare one; 6 to 10: zeros in front; 11: whether a
/// value follows them; 12 to 15: extra bits that are not known yet; 16 to 31: if there are none, the value (0 if none
/// follows), else the smallest magnitude of the symbol. Of a rare symbol: 6 to 9: bits of the codeword; 16 to 31: its
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

/// A rare symbol, whose value is not below 2^15 or not limited at all.
pub(super) struct Rare {
    pub(super) symbol: Symbol,
    /// Bits of the codeword.
    pub(super) length: u32,
}

impl Entry {
    /// That of bits that no codeword begins with.
    pub(super) const NONE: Self = Self(0);

    /// Most bits of codeword and extra bits, except for rare symbols.
    pub(super) const MOST_BITS: u32 = MAX_LENGTH + Self::MOST_EXTRA;

    const MOST_EXTRA: u32 = 15;
    const HAS_VALUE: u32 = 1 << 11;

    /// Returns the entry of a codeword whose extra bits are not known.
    fn new(symbol: Symbol, length: u32) -> Self {
        let extra = symbol.extra_bits();
        if extra > Self::MOST_EXTRA {
            return Self(length << 6 | (symbol.number() as u32) << 16);
        }
        let (zeros, value) = match symbol.meaning() {
            Meaning::Run(zeros) => (zeros, 0),
            Meaning::Small(value) => (0, Self::HAS_VALUE | u32::from(value as u16) << 16),
            Meaning::Sized { run, size } => (run, Self::HAS_VALUE | 1 << (16 + size)),
            Meaning::Any => (0, 0),
        };
        Self(length + extra | zeros << 6 | extra << 12 | value)
    }

    /// Returns the entry of these extra bits.
    fn with_extra(self, bits: u32) -> Self {
        let value = self.value(u64::from(bits) << (64 - self.extra()) >> self.length());
        Self(self.0 & 0xfff | u32::from(value as u16) << 16)
    }

    /// Returns the number of bits of the codeword and of the extra bits; 0 for rare symbols.
    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.0 & 0x3f
    }

    /// Returns the number of bits of the codeword, and of the extra bits that are known.
    #[inline(always)]
    const fn length(self) -> u32 {
        self.bits() - self.extra()
    }

    /// Returns the number of extra bits that are not known.
    #[inline(always)]
    const fn extra(self) -> u32 {
        self.0 >> 12 & 0xf
    }

    /// Returns the number of zeros.
    #[inline(always)]
    pub(super) const fn zeros(self) -> usize {
        (self.0 >> 6 & 0x1f) as usize
    }

    /// Returns 1 if a value follows the zeros, else 0.
    #[inline(always)]
    pub(super) const fn values(self) -> usize {
        (self.0 >> 11 & 1) as usize
    }

    /// Returns the value, given the window of which this is the entry; 0 if there is none.
    #[inline(always)]
    pub(super) const fn value(self, window: u64) -> i32 {
        // Without a branch: whether extra bits follow is as random as the data.
        let extra = (window << self.length() >> 1 >> (63 - self.extra())) as i32;
        let magnitude = (self.0 as i32 >> 16) + (extra >> 1);
        let sign = -(extra & 1);
        (magnitude ^ sign) - sign
    }

    /// Returns what the entry of a rare symbol stands for, if it is one.
    pub(super) fn rare(self) -> Option<Rare> {
        let symbol = Symbol::from_number((self.0 >> 16) as usize)?;
        (self != Self::NONE).then_some(Rare { symbol, length: self.0 >> 6 & 0xf })
    }
}

/// Symbols by the first [`MAX_LENGTH`] bits of a window.
#[derive(Debug)]
pub(super) struct Decoder(Box<[Entry; 1 << MAX_LENGTH]>);

impl Decoder {
    /// Returns the table of a code; none if a codeword is longer than [`MAX_LENGTH`] or a symbol is unknown.
    pub(super) fn new(code: &Codebook) -> Option<Self> {
        if code.longest() > MAX_LENGTH || code.lengths().len() > SYMBOLS {
            return None;
        }
        let mut table = Box::new([Entry::NONE; 1 << MAX_LENGTH]);
        let mut codewords = [0; SYMBOLS];
        code.fill_codewords(&mut codewords);
        for (symbol, codeword) in (0..).map_while(Symbol::from_number).zip(codewords).filter(|(_, c)| *c != 0) {
            let length = codeword & 0xff;
            let first = ((codeword >> 8) << (MAX_LENGTH - length)) as usize;
            let entries = &mut table[first..first + (1 << (MAX_LENGTH - length))];
            let entry = Entry::new(symbol, length);
            match symbol.extra_bits() {
                // Extra bits that are in the window with the codeword are known.
                extra @ 1.. if length + extra <= MAX_LENGTH => {
                    let of_extra = entries.chunks_mut(1 << (MAX_LENGTH - length - extra));
                    (0..).zip(of_extra).for_each(|(bits, entries)| entries.fill(entry.with_extra(bits)));
                }
                _ => entries.fill(entry),
            }
        }
        Some(Self(table))
    }

    /// Returns the entry for a window of bits, of which the first is the top one.
    #[inline(always)]
    pub(super) fn entry(&self, window: u64) -> Entry {
        self.0[(window >> (64 - MAX_LENGTH)) as usize]
    }
}
