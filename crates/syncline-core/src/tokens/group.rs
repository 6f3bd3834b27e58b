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
    /// By the next bits; length 0 if the codeword is longer.
    table: Vec<PackedEntry>,
    /// In canonical order.
    entries: Vec<PackedEntry>,
}

/// An [`Entry`] and the length of its codeword in eight bytes, such that the same operations decode every entry.
#[derive(Clone, Copy, Debug, Default)]
struct PackedEntry {
    base: u32,
    length: u8,
    raw_bits: u8,
    zeros: u8,
    flags: u8,
}

/// The last raw bit is the sign of the value.
const SIGNED: u8 = 1;
const NEGATIVE: u8 = 2;
/// There is a value after the zeros.
const VALUE: u8 = 4;
/// The rest of the group is zeros. Shifted by [`REST_SHIFT`], it is more than the codes of a group.
const REST: u8 = 8;
const REST_SHIFT: u32 = 12;

impl PackedEntry {
    fn new(entry: Entry, length: u8) -> Self {
        match entry {
            Entry::Zeros(zeros) => Self { length, zeros: zeros as u8, ..Self::default() },
            Entry::Rest => Self { length, flags: REST, ..Self::default() },
            Entry::Value { zeros, base, raw_bits, negative } => {
                let sign = match negative {
                    None => SIGNED,
                    Some(false) => 0,
                    Some(true) => NEGATIVE,
                };
                Self { base, length, raw_bits: raw_bits as u8, zeros: zeros as u8, flags: VALUE | sign }
            }
        }
    }

    /// Returns the codes before the value.
    #[inline(always)]
    fn codes_before(self) -> usize {
        usize::from(self.zeros) + (usize::from(self.flags & REST) << REST_SHIFT)
    }

    /// Returns the value, or 0 if there is none.
    #[inline(always)]
    fn value(self, raw: u32) -> i32 {
        let signed = u32::from(self.flags & SIGNED);
        let magnitude = self.base.wrapping_add(raw >> signed) as i32;
        let negative = (raw & signed | u32::from(self.flags & NEGATIVE) >> 1) as i32;
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
        let mut table = vec![PackedEntry::default(); 1 << TABLE_BITS];
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
        if entry.length > 0 { Some(entry) } else { self.long_entry(window) }
    }

    #[cold]
    fn long_entry(&self, window: u64) -> Option<PackedEntry> {
        (TABLE_BITS + 1..=self.code.longest()).find_map(|length| {
            let place = ((window >> (64 - length)) as u32).checked_sub(self.code.first(length))?;
            let found = place < self.code.counts()[length as usize];
            found.then(|| self.entries[(self.code.entry(length) + place) as usize])
        })
    }

    /// Fills `group` with the codes between two positions. Returns `None` if the bits are not those of a group of this
    /// length.
    #[inline(always)]
    pub fn read_group(&self, bits: BitWords<'_>, start: u32, end: u32, group: &mut [i32]) -> Option<()> {
        let mut reader = GroupReader::new(self, start, group);
        while reader.has_more() {
            reader.read(bits)?;
        }
        reader.ends_at(end).then_some(())
    }
}

/// Fills two groups with the codes from the starts to the ends, as [`TokenDecoder::read_group`] does with one. A token
/// has to be decoded before the next one of its group; two groups are decoded in the time that one would wait.
#[inline(always)]
pub fn read_two_groups(
    decoders: [&TokenDecoder; 2],
    bits: BitWords<'_>,
    [start, between, end]: [u32; 3],
    [first, second]: [&mut [i32]; 2],
) -> Option<()> {
    let mut first = GroupReader::new(decoders[0], start, first);
    let mut second = GroupReader::new(decoders[1], between, second);
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
struct GroupReader<'a> {
    decoder: &'a TokenDecoder,
    position: u64,
    group: &'a mut [i32],
    at: usize,
}

impl<'a> GroupReader<'a> {
    #[inline(always)]
    fn new(decoder: &'a TokenDecoder, start: u32, group: &'a mut [i32]) -> Self {
        group.fill(0);
        // Positions stay far below the limit of u32: each token adds at most 52 bits, a group at most 2^9 tokens.
        Self { decoder, position: start.into(), group, at: 0 }
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        self.at < self.group.len()
    }

    #[inline(always)]
    fn ends_at(&self, end: u32) -> bool {
        self.position == u64::from(end)
    }

    /// Decodes a token. Returns `None` if there is none, or if the group has no room for its codes.
    #[inline(always)]
    fn read(&mut self, bits: BitWords<'_>) -> Option<()> {
        let window = bits.window(self.position as u32);
        let entry = self.decoder.entry(window)?;
        let (length, raw_bits) = (u32::from(entry.length), u32::from(entry.raw_bits));
        // A window has 33 bits.
        let rest = match length + raw_bits {
            ..=33 => window << length,
            _ => bits.window(self.position as u32 + length),
        };
        self.position += u64::from(length + raw_bits);
        self.at += entry.codes_before();
        let Some(code) = self.group.get_mut(self.at) else {
            let ends = entry.flags & REST != 0 || (self.at == self.group.len() && entry.flags & VALUE == 0);
            return ends.then_some(());
        };
        *code = entry.value((rest >> 1 >> (63 - raw_bits)) as u32);
        self.at += usize::from(entry.flags & VALUE) / usize::from(VALUE);
        Some(())
    }
}
