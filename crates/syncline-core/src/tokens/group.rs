//! Groups of codes as bits, and back.

use super::{Entry, Mode, tokenize};
use crate::bits::reader::BitWords;
use crate::bits::writer::BitWriter;
use crate::huffman::codebook::{Codebook, LENGTHS};

/// Appends the tokens of a group with the codewords of a codebook: for each symbol the codeword times 256 plus its
/// length.
///
/// # Panics
/// A token has no codeword, or the writer's memory ends.
#[inline(always)]
pub fn write_group(group: &[i32], mode: Mode, codewords: &[u32], out: &mut BitWriter<'_>) {
    tokenize(group, mode, |token| {
        let codeword = codewords[token.symbol as usize];
        out.put(u64::from(codeword >> 8) << token.raw_bits | u64::from(token.raw), (codeword & 0xff) + token.raw_bits);
    });
}

/// Bits that a table is looked up with. Longer codewords are found by their length.
const TABLE_BITS: u32 = 11;

/// A codebook with its mode, ready to decode.
#[derive(Clone, Debug)]
pub struct TokenDecoder {
    code: Codebook,
    /// By the next bits; the default if the codeword is longer.
    table: Box<[PackedEntry; 1 << TABLE_BITS]>,
    /// In canonical order.
    entries: Vec<PackedEntry>,
}

/// An [`Entry`] and the length of its codeword in one word, such that the same operations decode every entry. From bit
/// 0 up: the bits of the codeword and the raw bits, flags, the number of raw bits, the codes before the value (16
/// bits), and the smallest magnitude (32 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PackedEntry(u64);

/// The last raw bit is the sign of the value.
const SIGNED: u64 = 1 << 6;
const NEGATIVE: u64 = 1 << 7;
/// There is a value after the zeros.
const VALUE: u64 = 1 << 14;
/// The rest of the group is zeros.
const REST: u64 = 1 << 15;
/// The zeros of [`REST`], more than the codes of a group.
const REST_CODES: u64 = 1 << 15;

impl PackedEntry {
    fn new(entry: Entry, length: u8) -> Self {
        let length = u64::from(length);
        match entry {
            Entry::Zeros(zeros) => Self(u64::from(zeros) << 16 | length),
            Entry::Rest => Self(REST_CODES << 16 | REST | length),
            Entry::Value { zeros, base, raw_bits, negative } => {
                let sign = match negative {
                    None => SIGNED,
                    Some(false) => 0,
                    Some(true) => NEGATIVE,
                };
                let (zeros, raw_bits) = (u64::from(zeros), u64::from(raw_bits));
                Self(u64::from(base) << 32 | zeros << 16 | VALUE | raw_bits << 8 | sign | (length + raw_bits))
            }
        }
    }

    /// Returns the number of bits of the codeword and the raw bits, at most 52.
    #[inline(always)]
    fn bits(self) -> u32 {
        self.0 as u32 & 63
    }

    /// Returns the number of codes before the value.
    #[inline(always)]
    fn codes_before(self) -> usize {
        (self.0 >> 16 & 0xffff) as usize
    }

    /// Returns whether it has a flag.
    #[inline(always)]
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// Returns the value, or 0 if there is none. The upper bits of `window` are the codeword and the raw bits.
    #[inline(always)]
    fn value(self, window: u64) -> i32 {
        let raw_bits = self.0 >> 8 & 63;
        let raw = (window >> (64 - self.bits())) & ((1 << raw_bits) - 1);
        let signed = u64::from(self.has(SIGNED));
        let magnitude = ((self.0 >> 32) as u32).wrapping_add((raw >> signed) as u32) as i32;
        let negative = (raw & signed) as i32 | i32::from(self.has(NEGATIVE));
        (magnitude ^ -negative).wrapping_add(negative)
    }
}

impl TokenDecoder {
    /// Returns the number of codewords of each length.
    pub fn counts(&self) -> &[u32; LENGTHS] {
        self.code.counts()
    }

    /// Prepares the codebook of a mode.
    ///
    /// # Panics
    /// The alphabet of the codebook is larger than that of the mode.
    pub fn new(mode: Mode, code: Codebook) -> Self {
        let mut entries = Vec::new();
        let mut table = Box::new([PackedEntry::default(); 1 << TABLE_BITS]);
        let mut at = 0;
        for symbol in code.sorted_symbols() {
            let length = code.lengths()[usize::from(symbol)];
            let entry = PackedEntry::new(Entry::of(mode, symbol.into()).expect("a symbol of the mode"), length);
            entries.push(entry);
            if u32::from(length) <= TABLE_BITS {
                let span = 1 << (TABLE_BITS - u32::from(length));
                table[at..at + span].fill(entry);
                at += span;
            }
        }
        Self { code, table, entries }
    }

    #[inline(always)]
    fn entry(&self, window: u64) -> Option<PackedEntry> {
        let entry = self.table[(window >> (64 - TABLE_BITS)) as usize];
        if entry != PackedEntry::default() { Some(entry) } else { self.long_entry(window) }
    }

    #[cold]
    fn long_entry(&self, window: u64) -> Option<PackedEntry> {
        (TABLE_BITS + 1..=self.code.longest()).find_map(|length| {
            let place = ((window >> (64 - length)) as u32).checked_sub(self.code.first(length))?;
            let found = place < self.code.counts()[length as usize];
            found.then(|| self.entries[(self.code.entry(length) + place) as usize])
        })
    }

    /// Decodes a group from a position on, and returns where it ends. Returns `None` if there is no such group.
    #[inline(always)]
    pub fn end_of_group(&self, bits: BitWords<'_>, start: u32, group: &mut [[i32; 1]]) -> Option<u32> {
        let mut reader = GroupReader::new(self, start, group, 0);
        while reader.has_more() {
            reader.read(bits)?;
        }
        u32::try_from(reader.position).ok()
    }

    /// Writes the codes between two positions to one lane of a group, which holds zeros. Returns `None` if the bits are
    /// not those of a group of this length.
    #[inline(always)]
    pub fn read_group<const L: usize>(
        &self,
        bits: BitWords<'_>,
        start: u32,
        end: u32,
        group: &mut [[i32; L]],
        lane: usize,
    ) -> Option<()> {
        let mut reader = GroupReader::new(self, start, group, lane);
        while reader.has_more() {
            reader.read(bits)?;
        }
        reader.ends_at(end).then_some(())
    }
}

/// Writes the codes from the starts to the ends to one lane of two groups, as [`TokenDecoder::read_group`] does with
/// one. A token has to be decoded before the next one of its group; two groups are decoded in the time that one would
/// wait.
#[inline(always)]
pub fn read_two_groups<const L: usize>(
    decoders: [&TokenDecoder; 2],
    bits: BitWords<'_>,
    [start, between, end]: [u32; 3],
    [first, second]: [&mut [[i32; L]]; 2],
    lane: usize,
) -> Option<()> {
    let mut first = GroupReader::new(decoders[0], start, first, lane);
    let mut second = GroupReader::new(decoders[1], between, second, lane);
    while first.has_more() && second.has_more() {
        first.read(bits)?;
        second.read(bits)?;
    }
    while first.has_more() {
        first.read(bits)?;
    }
    while second.has_more() {
        second.read(bits)?;
    }
    (first.ends_at(between) && second.ends_at(end)).then_some(())
}

/// A group that is being decoded.
struct GroupReader<'a, const L: usize> {
    decoder: &'a TokenDecoder,
    position: u64,
    group: &'a mut [[i32; L]],
    lane: usize,
    at: usize,
}

impl<'a, const L: usize> GroupReader<'a, L> {
    #[inline(always)]
    fn new(decoder: &'a TokenDecoder, start: u32, group: &'a mut [[i32; L]], lane: usize) -> Self {
        // Positions stay far below the limit of u32: each token adds at most 52 bits, a group at most 2^9 tokens.
        Self { decoder, position: start.into(), group, lane, at: 0 }
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        self.at < self.group.len()
    }

    #[inline(always)]
    fn ends_at(&self, end: u32) -> bool {
        self.position == u64::from(end)
    }

    /// Decodes a token, and the next one if it is in the same window. Returns `None` if there is none, or if the group
    /// has no room for its codes.
    #[inline(always)]
    fn read(&mut self, bits: BitWords<'_>) -> Option<()> {
        let window = bits.window(self.position as u32);
        let entry = self.decoder.entry(window)?;
        if entry.bits() > WINDOW_BITS {
            return self.read_long(bits, window, entry);
        }
        self.put(entry, window)?;
        let rest = window << entry.bits();
        let next = self.decoder.table[(rest >> (64 - TABLE_BITS)) as usize];
        if next != PackedEntry::default() && entry.bits() + next.bits() <= WINDOW_BITS && self.has_more() {
            self.put(next, rest)?;
        }
        Some(())
    }

    /// Decodes a token that is longer than a window.
    #[cold]
    fn read_long(&mut self, bits: BitWords<'_>, window: u64, entry: PackedEntry) -> Option<()> {
        let below = bits.window(self.position as u32 + WINDOW_BITS);
        let known = !(u64::MAX >> WINDOW_BITS);
        self.put(entry, window & known | below >> WINDOW_BITS)
    }

    /// Writes the codes of a token, whose bits are the upper ones of `window`.
    #[inline(always)]
    fn put(&mut self, entry: PackedEntry, window: u64) -> Option<()> {
        self.position += u64::from(entry.bits());
        self.at += entry.codes_before();
        let Some(codes) = self.group.get_mut(self.at) else {
            let ends = entry.has(REST) || (self.at == self.group.len() && !entry.has(VALUE));
            return ends.then_some(());
        };
        codes[self.lane % L] = entry.value(window);
        self.at += usize::from(entry.has(VALUE));
        Some(())
    }
}

/// Bits of a window that are known to be those of the stream.
const WINDOW_BITS: u32 = 33;
