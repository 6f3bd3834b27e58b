//! Tables that give several symbols for the next bits of the stream.
//!
//! An entry has eight bytes: the number of bits that it consumes, the number of its symbols, and the symbols, as many
//! whole codewords as fit the index. Symbols are stored as bytes, as distances from the table's base, so that six fit
//! (the likely values of residuals are close together), or in two bytes (three fit) if a window of 256 symbols misses
//! too many. An entry for codewords that do not fit consumes no bits and has no symbols; such codewords are decoded
//! with [`Canonical`].

use super::canonical::Canonical;
use crate::huffman::Symbol;
use crate::huffman::lengths::MAX_LENGTH;

/// Index width of a table in bits: three lookups fit one window of 33 bits, and the table (16 KiB) takes a third of an
/// L1 cache.
pub const TABLE_BITS: u32 = 11;
/// Entries of a table.
pub const ENTRIES: usize = 1 << TABLE_BITS;

/// Number of lookups that the bits of one window suffice for.
pub const LOOKUPS_PER_WINDOW: usize = 3;

/// Representation of symbols in table entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Bytes, plus a base.
    Narrow,
    /// Two bytes.
    Wide,
}

impl Layout {
    fn symbol_bits(self) -> u32 {
        match self {
            Self::Narrow => 8,
            Self::Wide => 16,
        }
    }

    /// Returns the maximum number of symbols of an entry.
    fn capacity(self) -> u32 {
        48 / self.symbol_bits()
    }
}

/// A decoding table.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// Bits 0-7 bits consumed, 8-15 number of symbols, 16-63 symbols; with no symbol, 16-63 is the least length of the
    /// codeword.
    pub entries: Box<[u64; ENTRIES]>,
    /// Layout of the symbols in entries, which is the same in all tables of a stream.
    pub layout: Layout,
    /// Added to each symbol of a narrow entry.
    pub base: u16,
}

impl Lookup {
    /// Tables of a stream's codebooks.
    pub fn for_codebooks<S: Symbol>(codes: &[Canonical]) -> Vec<Self> {
        let bases: Option<Vec<u16>> =
            codes.iter().map(|code| if S::BYTES == 1 { Some(0) } else { narrow_base(code) }).collect();
        let (layout, bases) = match bases {
            Some(bases) => (Layout::Narrow, bases),
            None => (Layout::Wide, vec![0; codes.len()]),
        };
        codes.iter().zip(bases).map(|(code, base)| Self::build(code, layout, base)).collect()
    }

    fn build(code: &Canonical, layout: Layout, base: u16) -> Self {
        let entries = vec![0u64; ENTRIES].into_boxed_slice().try_into().expect("as long as it was made");
        let mut lookup = Self { entries, layout, base };
        lookup.fill(code, 0, TABLE_BITS, 0);
        lookup
    }

    /// Fills the `2^bits` entries from `at` on, which all start with the symbols of `prefix`.
    fn fill(&mut self, code: &Canonical, at: usize, bits: u32, prefix: u64) {
        let given = prefix >> 8 & 0xff;
        let end = at + (1 << bits);
        let mut next = at;
        if given < u64::from(self.layout.capacity()) {
            let shift = 16 + given as u32 * self.layout.symbol_bits();
            let mut place = 0;
            for length in code.shortest..=bits {
                let count = code.counts[length as usize] as usize;
                for &symbol in &code.symbols[place..place + count] {
                    let number = symbol.wrapping_sub(self.base);
                    if self.layout == Layout::Wide || number <= 0xff {
                        let entry = (prefix + (1 << 8) + u64::from(length)) | u64::from(number) << shift;
                        if bits - length < code.shortest {
                            self.entries[next..][..1 << (bits - length)].fill(entry);
                        } else {
                            self.fill(code, next, bits - length, entry);
                        }
                    } else {
                        let entry = if given > 0 { prefix } else { u64::from(length) << 16 };
                        self.entries[next..][..1 << (bits - length)].fill(entry);
                    }
                    next += 1 << (bits - length);
                }
                place += count;
            }
        }
        if given > 0 {
            self.entries[next..end].fill(prefix);
        } else {
            self.fill_long(code, next);
        }
    }

    /// Fills the last entries, starting at `at`, for codewords that are longer than the table's index. They have no
    /// symbols and contain only the minimum length.
    fn fill_long(&mut self, code: &Canonical, at: usize) {
        let mut length = 1;
        for (i, entry) in self.entries.iter_mut().enumerate().skip(at) {
            // Lengths never fall from one index to the next.
            length = code.decode((i as u64) << (64 - TABLE_BITS), length).1;
            *entry = u64::from(length) << 16;
        }
    }
}

/// Returns the base of a window of 256 symbols that contains nearly all symbols with codewords of at most
/// [`TABLE_BITS`] bits, if there is one. Either all of these symbols fit, or the window is centered on the most
/// frequent symbol and misses at most 1/32 of the code space.
fn narrow_base(code: &Canonical) -> Option<u16> {
    let short: u32 = code.counts[..=TABLE_BITS as usize].iter().sum();
    let symbols = &code.symbols[..short as usize];
    let (Some(&least), Some(&most)) = (symbols.iter().min(), symbols.iter().max()) else { return Some(0) };
    if most - least <= 0xff {
        return Some(least);
    }
    let base = symbols[0].saturating_sub(128).min(u16::MAX - 0xff);
    let mut place = 0;
    let mut missed = 0u32;
    for length in 1..=TABLE_BITS {
        let end = place + code.counts[length as usize] as usize;
        let outside = symbols[place..end].iter().filter(|s| s.wrapping_sub(base) > 0xff).count();
        missed += (outside as u32) << (MAX_LENGTH - length);
        place = end;
    }
    (missed <= 1 << (MAX_LENGTH - 5)).then_some(base)
}
