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

/// An [`Entry`] and the length of its codeword, in eight bytes.
#[derive(Clone, Copy, Debug, Default)]
struct PackedEntry {
    base: u32,
    length: u8,
    raw_bits: u8,
    zeros: u8,
    kind: Kind,
}

/// The value after the zeros of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    #[default]
    Positive,
    Negative,
    /// A value whose last raw bit is its sign.
    Signed,
    /// More symbols, without a value.
    Nothing,
    /// Zeros only.
    Rest,
}

impl PackedEntry {
    fn new(entry: Entry, length: u8) -> Self {
        match entry {
            Entry::Zeros(zeros) => Self { length, zeros: zeros as u8, kind: Kind::Nothing, ..Self::default() },
            Entry::Rest => Self { length, kind: Kind::Rest, ..Self::default() },
            Entry::Value { zeros, base, raw_bits, negative } => {
                let kind = match negative {
                    None => Kind::Signed,
                    Some(false) => Kind::Positive,
                    Some(true) => Kind::Negative,
                };
                Self { base, length, raw_bits: raw_bits as u8, zeros: zeros as u8, kind }
            }
        }
    }
}

impl TokenDecoder {
    /// Returns the number of codewords of each length.
    pub fn counts(&self) -> &[u32; LENGTHS] {
        self.code.counts()
    }

    /// Returns `None` if `code` has a codeword for a symbol that `mode` does not have.
    pub fn new(mode: Mode, code: Codebook) -> Option<Self> {
        let mut entries = Vec::new();
        let mut table = vec![PackedEntry::default(); 1 << TABLE_BITS];
        let mut at = 0;
        for symbol in code.sorted_symbols() {
            let length = code.lengths()[usize::from(symbol)];
            let entry = PackedEntry::new(Entry::of(mode, symbol.into())?, length);
            entries.push(entry);
            if u32::from(length) <= TABLE_BITS {
                let span = 1 << (TABLE_BITS - u32::from(length));
                table[at..at + span].fill(entry);
                at += span;
            }
        }
        Some(Self { code, table, entries })
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
        group.fill(0);
        // Positions stay far below the limit of u32: each token adds at most 52 bits, a group at most 2^9 tokens.
        let mut position = u64::from(start);
        let mut at = 0;
        while at < group.len() {
            let window = bits.window(position as u32);
            let entry = self.entry(window)?;
            position += u64::from(entry.length);
            at += usize::from(entry.zeros);
            if entry.kind == Kind::Nothing {
                continue;
            }
            if entry.kind == Kind::Rest {
                at = group.len();
                break;
            }
            let raw_bits = u32::from(entry.raw_bits);
            let (mut magnitude, mut negative) = (entry.base, entry.kind == Kind::Negative);
            if raw_bits > 0 {
                // A window has 33 bits.
                let rest = if u32::from(entry.length) + raw_bits <= 33 {
                    window << entry.length
                } else {
                    bits.window(position as u32)
                };
                let raw = (rest >> (64 - raw_bits)) as u32;
                position += u64::from(raw_bits);
                if entry.kind == Kind::Signed {
                    (magnitude, negative) = (entry.base + (raw >> 1), raw & 1 != 0);
                } else {
                    magnitude += raw;
                }
            }
            let value = magnitude as i32;
            *group.get_mut(at)? = if negative { value.wrapping_neg() } else { value };
            at += 1;
        }
        (at == group.len() && position == u64::from(end)).then_some(())
    }
}
