//! rANS with a state of 32 bits and words of 16: symbols of tables, and bits that all have the same probability.
//!
//! The last event is coded first, so that the decoder meets them in order. Duda, "Asymmetric numeral systems" (2013).

use super::symbol::{SYMBOLS, Symbol};
use super::table::{TABLE_LOG2, TOTAL, Table};

/// States are at least this after each event. The decoder ends with it.
const LOWEST: u32 = 1 << 16;

/// Words of a unit's state.
pub const STATE_WORDS: usize = 2;

/// Codes events, the last one first.
#[derive(Debug)]
pub struct Encoder {
    state: u32,
    /// Words in the order in which they leave the state, which is the opposite of that of the decoder.
    words: Vec<u16>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { state: LOWEST, words: Vec::new() }
    }
}

impl Encoder {
    /// Codes an interval of `frequency` of 2^`log2` from `start` on. The frequency is not 0.
    #[inline(always)]
    pub fn put(&mut self, start: u32, frequency: u32, log2: u32) {
        if u64::from(self.state) >= u64::from(frequency) << (32 - log2) {
            self.words.push(self.state as u16);
            self.state >>= 16;
        }
        self.state = (self.state / frequency << log2) + self.state % frequency + start;
    }

    /// Codes up to 16 bits.
    #[inline(always)]
    pub fn put_bits(&mut self, bits: u32, count: u32) {
        if self.state >> (32 - count) != 0 {
            self.words.push(self.state as u16);
            self.state >>= 16;
        }
        self.state = self.state << count | bits;
    }

    /// Codes a code with a table that has its symbol.
    #[inline(always)]
    pub fn put_code(&mut self, code: i32, table: &DivisionTable) {
        let Symbol { symbol, bits, count } = Symbol::of(code);
        if count > 0 {
            self.put_bits(bits, count);
        }
        let Division { inverse, bias, complement, last } = table.0[usize::from(symbol)];
        if self.state > last {
            self.words.push(self.state as u16);
            self.state >>= 16;
        }
        let quotient = (u128::from(self.state) * u128::from(inverse) >> 64) as u32;
        self.state = self.state + bias + quotient * complement;
    }

    /// Appends the state and the words for the decoder. Returns the number of words. Starts anew.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> usize {
        let state = self.state.to_le_bytes();
        out.extend_from_slice(&state);
        out.extend(self.words.iter().rev().flat_map(|word| word.to_le_bytes()));
        let count = self.words.len() + STATE_WORDS;
        self.words.clear();
        self.state = LOWEST;
        count
    }
}

/// How a state takes a symbol without a division: with its quotient by the frequency, it grows by `bias` and `quotient`
/// times `complement`.
#[derive(Clone, Copy, Debug, Default)]
struct Division {
    /// 2^64 divided by the frequency, rounded up, so that the high half of its product with a state is the quotient; of
    /// the frequency 1 one less, so that it is the quotient less 1.
    inverse: u64,
    bias: u32,
    complement: u32,
    /// The largest state that takes the symbol without losing a word first.
    last: u32,
}

/// A table for the encoder.
#[derive(Clone, Debug)]
pub struct DivisionTable([Division; SYMBOLS]);

impl DivisionTable {
    /// Prepares a table.
    pub fn new(table: &Table) -> Self {
        Self(std::array::from_fn(|symbol| {
            let (start, frequency) = (u32::from(table.starts[symbol]), table.frequency(symbol));
            let complement = TOTAL - frequency;
            let last = (u64::from(frequency) << (32 - TABLE_LOG2)).wrapping_sub(1) as u32;
            match frequency {
                0 => Division::default(),
                1 => Division { inverse: u64::MAX, bias: start + complement, complement, last },
                _ => Division { inverse: u64::MAX / u64::from(frequency) + 1, bias: start, complement, last },
            }
        }))
    }
}

/// Decodes the events of a unit in order.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    state: u32,
    words: &'a [u8],
    /// Byte of the next word.
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder of the words of a unit. `None` if they have no valid state.
    pub fn new(words: &'a [u8]) -> Option<Self> {
        let (state, rest) = words.split_first_chunk()?;
        let state = u32::from_le_bytes(*state);
        (state >= LOWEST && rest.len().is_multiple_of(2)).then_some(Self { state, words: rest, at: 0 })
    }

    /// Takes a word into a state that is too small. Beyond the end there are words of 0, which [`Self::finish`]
    /// notices.
    #[inline(always)]
    fn refill(&mut self) {
        let word = self.words.get(self.at..self.at + 2).map_or(0, |word| u16::from_le_bytes([word[0], word[1]]));
        let is_small = self.state < LOWEST;
        self.state = if is_small { self.state << 16 | u32::from(word) } else { self.state };
        self.at += usize::from(is_small) * 2;
    }

    /// Returns where the next event lies among 2^`log2`.
    #[inline(always)]
    pub fn slot(&self, log2: u32) -> u32 {
        self.state & ((1 << log2) - 1)
    }

    /// Moves past an event, whose interval contains [`Self::slot`].
    #[inline(always)]
    pub fn advance(&mut self, start: u32, frequency: u32, log2: u32) {
        self.state = frequency * (self.state >> log2) + self.slot(log2) - start;
        self.refill();
    }

    /// Returns the next `count` bits, at most 16.
    #[inline(always)]
    pub fn bits(&mut self, count: u32) -> u32 {
        let bits = self.state & ((1 << count) - 1);
        self.state >>= count;
        self.refill();
        bits
    }

    /// Returns the next code.
    #[inline(always)]
    pub fn code(&mut self, table: &SlotTable) -> i32 {
        let (symbol, frequency, offset) = table.find(self.slot(TABLE_LOG2));
        self.state = frequency * (self.state >> TABLE_LOG2) + offset;
        self.refill();
        let bits = self.bits(u32::from(BITS_OF[usize::from(symbol)]));
        let magnitude = (BASES[usize::from(symbol)] + (bits >> 1)) as i32;
        // Two's complement without a branch, which would be taken at random.
        let sign = -((bits & 1) as i32);
        (magnitude ^ sign) - sign
    }

    /// Returns whether the state and the words are those at the end of a unit.
    pub fn is_finished(&self) -> bool {
        self.state == LOWEST && self.at == self.words.len()
    }
}

/// The number of bits behind each symbol, and the magnitude that they are added to; of as many symbols as a u8 has, so
/// that none is out of bounds.
const BITS_OF: [u8; 256] = {
    let mut all = [0; 256];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        all[symbol] = Symbol::bits_of(symbol as u8) as u8;
        symbol += 1;
    }
    all
};
const BASES: [u32; 256] = {
    let mut all = [0; 256];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        all[symbol] = Symbol::code(symbol as u8, 0) as u32;
        symbol += 1;
    }
    all
};

/// A table for the decoder. It is small, because those of many contexts are in use at a time.
#[derive(Clone, Debug)]
pub struct SlotTable {
    /// The symbol of the first slot of each of [`PARTS`] parts.
    first: [u8; PARTS],
    /// The start of each symbol, and the sum of all frequencies behind the last.
    starts: [u16; STARTS],
}

/// Parts of the slots in a [`SlotTable`].
const PARTS: usize = 256;
/// More than there are symbols, and a power of two, so that no symbol is out of bounds.
const STARTS: usize = 128;

impl SlotTable {
    /// Prepares a table.
    pub fn new(table: &Table) -> Self {
        let mut starts = [TOTAL as u16; STARTS];
        starts[..table.starts.len()].copy_from_slice(&table.starts);
        let mut symbol = 0;
        let first = std::array::from_fn(|part| {
            while usize::from(starts[symbol + 1]) <= part * (TOTAL as usize / PARTS) {
                symbol += 1;
            }
            symbol as u8
        });
        Self { first, starts }
    }

    /// Returns the symbol of a slot, its frequency, and the distance from its start.
    #[inline(always)]
    fn find(&self, slot: u32) -> (u8, u32, u32) {
        let mut symbol = usize::from(self.first[slot as usize / (TOTAL as usize / PARTS) % PARTS]);
        // The sum of all frequencies is above every slot.
        while u32::from(self.starts[(symbol + 1) % STARTS]) <= slot {
            symbol += 1;
        }
        let start = u32::from(self.starts[symbol % STARTS]);
        (symbol as u8, u32::from(self.starts[(symbol + 1) % STARTS]) - start, slot - start)
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::CONTEXTS;
    use super::super::bits::PackedWriter;
    use super::super::table::{Counts, Tables};
    use super::*;

    #[test]
    fn codes_are_decoded_in_order() {
        for limit in [1, 2, 9, 300, 1 << 18] {
            let mut random = 1u32;
            let codes: Vec<i32> = (0..5000)
                .map(|_| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let bits = random >> 27;
                    let code = (random >> 5) as i32 % limit >> (bits % 19);
                    if random & 1 << 26 != 0 { -code } else { code }
                })
                .collect();
            let mut counts: [Counts; CONTEXTS] = [[0; SYMBOLS]; CONTEXTS];
            codes.iter().for_each(|&code| counts[0][usize::from(Symbol::of(code).symbol)] += 1);
            let tables = Tables::build(&counts, &mut PackedWriter::default());
            let mut encoder = Encoder::default();
            let division = DivisionTable::new(&tables.tables[0]);
            codes.iter().rev().for_each(|&code| encoder.put_code(code, &division));
            let mut out = Vec::new();
            assert_eq!(encoder.finish(&mut out) * 2, out.len());
            let search = SlotTable::new(&tables.tables[0]);
            let mut decoder = Decoder::new(&out).unwrap();
            let back: Vec<i32> = codes.iter().map(|_| decoder.code(&search)).collect();
            assert!(decoder.is_finished() && back == codes, "{limit}");
            // A unit that is cut off ends elsewhere.
            if out.len() > 8 {
                let mut decoder = Decoder::new(&out[..out.len() - 2]).unwrap();
                codes.iter().for_each(|_| _ = decoder.code(&search));
                assert!(!decoder.is_finished());
            }
        }
        assert!(Decoder::new(&[0, 0, 0, 0]).is_none() && Decoder::new(&[0, 0, 1]).is_none());
    }
}
