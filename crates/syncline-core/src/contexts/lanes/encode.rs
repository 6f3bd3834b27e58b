//! The codes of a unit to states and words.

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::{FIRST_BITS, LOWEST, MOST_LANES};
use crate::contexts::event::{Event, PAIRS, pair_of};
use crate::contexts::symbol::{SYMBOLS, Symbol};
use crate::contexts::table::{TABLE_LOG2, TOTAL, Table, Tables};
use crate::simd::{self, InstructionSet, Kernel};

/// Events that are coded together in a list: the number of its segment, and one past its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListEnd {
    /// The number of the segment in its class.
    pub segment: u32,
    /// One past the last event.
    pub end: u32,
}

/// A unit whose codes are known: the events of its part, and which of their lists are its own.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    /// The events of all lists of the part.
    pub events: &'a [Event],
    /// Where the lists end.
    pub ends: &'a [ListEnd],
    /// The number of the unit, and how many units the part has.
    pub unit: [usize; 2],
}

impl<'a> Events<'a> {
    /// Returns the lists of the unit, the last first.
    fn lists(self) -> impl Iterator<Item = &'a [Event]> {
        let [unit, of_part] = self.unit;
        let start = |number: usize| number.checked_sub(1).map_or(0, |before| self.ends[before].end);
        let list = move |number: usize| &self.events[start(number) as usize..self.ends[number].end as usize];
        let is_own = move |number: &usize| self.ends[*number].segment as usize % of_part == unit;
        (0..self.ends.len()).rev().filter(is_own).map(list)
    }
}

/// Codes units.
#[derive(Debug, Default)]
pub struct Encoder {
    /// How a state takes each pair of a symbol and a context.
    divisions: Vec<Division>,
    /// Room for the words of a unit, which are found from the last to the first.
    words: Vec<u16>,
}

impl Encoder {
    /// Returns an encoder with the tables of a chunk.
    #[cfg(test)]
    pub fn new(tables: &Tables) -> Self {
        let mut encoder = Self::default();
        encoder.prepare(tables);
        encoder
    }

    /// Prepares the tables of a chunk, in the place of those of another.
    pub fn prepare(&mut self, tables: &Tables) {
        self.divisions.resize(PAIRS, Division::NONE);
        let of_tables: Vec<_> = tables.tables.iter().map(divisions_of).collect();
        for (context, &table) in tables.of_context.iter().enumerate() {
            for (symbol, division) in of_tables[usize::from(table)].iter().enumerate() {
                self.divisions[pair_of(symbol, context)] = *division;
            }
        }
    }

    /// Appends the states and the words of a unit. Returns the number of words, which is 0 if all codes are 0.
    pub fn encode(&mut self, unit: Events, lanes: usize, out: &mut Vec<u8>) -> usize {
        let is_zero = |list: &[Event]| list.iter().max().is_none_or(|&event| event < Event::first_of(1));
        if unit.lists().all(is_zero) {
            return 0;
        }
        // A code takes at most two words, of which the first is written even if it is not taken.
        let room = 2 * unit.events.len() + ROOM;
        if self.words.len() < room {
            self.words.resize(room, 0);
        }
        let (states, first) = simd::run(EncodeUnit { encoder: self, unit, lanes });
        states[..lanes].iter().for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
        let words = &self.words[first..];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        words.len() + 2 * lanes
    }

    /// Codes a group, the last event first. Its words end before `at`, which becomes that of the first.
    #[inline(always)]
    fn put_group(&mut self, group: &[Event], states: &mut [u32; MOST_LANES], at: &mut usize) {
        let (words, divisions) = (&mut self.words, &self.divisions[..PAIRS]);
        // Without a branch, which would be taken at random.
        let mut put = |state: u32, is_full: bool| {
            words[*at - 1] = state as u16;
            *at -= usize::from(is_full);
            if is_full { state >> 16 } else { state }
        };
        if group.iter().max().is_some_and(|&event| event >= FIRST_WITH_FURTHER) {
            for (event, state) in group.iter().zip(&mut *states).rev() {
                let count = Symbol::bits_of(event.symbol()).saturating_sub(FIRST_BITS);
                let before = put(*state, u64::from(*state) >> (32 - count) != 0);
                *state = before << count | event.bits() >> FIRST_BITS;
            }
        }
        for (event, state) in group.iter().zip(states).rev() {
            let division = divisions[event.pair()];
            let (frequency, first_bits) = (division.frequency(), division.first_bits());
            // The symbol and the bits leave the state together.
            let before = put(*state, *state >> (32 - TABLE_LOG2 - first_bits) >= frequency);
            let above = before << first_bits | event.bits() & ((1 << first_bits) - 1);
            *state = division.take(above);
        }
    }
}

/// More words than there is room for in all events: vectors are written whole.
const ROOM: usize = 8;

/// The first event with more raw bits than [`FIRST_BITS`].
const FIRST_WITH_FURTHER: Event = Event::first_of(4 * (FIRST_BITS + 1));

/// Codes a unit. Returns its states, and where its words begin.
struct EncodeUnit<'a, 'b> {
    encoder: &'a mut Encoder,
    unit: Events<'b>,
    lanes: usize,
}

impl Kernel for EncodeUnit<'_, '_> {
    type Output = ([u32; MOST_LANES], usize);

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) -> Self::Output {
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = isa.avx2() {
            match self.lanes {
                32 => return avx2::run::<4>(token, self.encoder, self.unit),
                16 => return avx2::run::<2>(token, self.encoder, self.unit),
                8 => return avx2::run::<1>(token, self.encoder, self.unit),
                _ => {}
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = isa;
        self.run_by_one()
    }
}

impl EncodeUnit<'_, '_> {
    /// Codes one event after another.
    #[inline(always)]
    fn run_by_one(self) -> ([u32; MOST_LANES], usize) {
        let (mut states, mut at) = ([LOWEST; MOST_LANES], self.encoder.words.len());
        for list in self.unit.lists() {
            for group in list.chunks(self.lanes).rev() {
                self.encoder.put_group(group, &mut states, &mut at);
            }
        }
        (states, at)
    }
}

/// How a state takes a symbol without a division.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Division {
    /// 2^32 divided by the frequency, rounded down, and 2^32 - 1 of the frequency 1: the high half of its product with
    /// a state is the quotient by the frequency, or one less.
    inverse: u32,
    /// The frequency, 12 bits; the start of the symbol, 11 bits; and the raw bits that are taken with it.
    fields: u32,
}

impl Division {
    /// Leaves a state as it is.
    const NONE: Self = Self::new(TOTAL, 0, 0);

    const fn new(frequency: u32, start: u32, first_bits: u32) -> Self {
        let inverse = if frequency > 1 { (1 << 32) / frequency as u64 } else { u32::MAX as u64 };
        Self { inverse: inverse as u32, fields: frequency | start << START_SHIFT | first_bits << BITS_SHIFT }
    }

    #[inline(always)]
    fn frequency(self) -> u32 {
        self.fields % (1 << START_SHIFT)
    }

    #[inline(always)]
    fn first_bits(self) -> u32 {
        self.fields >> BITS_SHIFT
    }

    /// Returns a state that has room for the symbol with the symbol.
    #[inline(always)]
    fn take(self, state: u32) -> u32 {
        let (frequency, start) = (self.frequency(), self.fields >> START_SHIFT & (TOTAL - 1));
        let quotient = ((u64::from(state) * u64::from(self.inverse)) >> 32) as u32;
        let rest = state - quotient * frequency;
        let more = if rest >= frequency { TOTAL - frequency } else { 0 };
        (quotient << TABLE_LOG2) + start + rest + more
    }
}

const START_SHIFT: u32 = TABLE_LOG2 + 1;
const BITS_SHIFT: u32 = START_SHIFT + TABLE_LOG2;

/// Returns how a state takes each symbol of a table.
fn divisions_of(table: &Table) -> [Division; SYMBOLS] {
    std::array::from_fn(|symbol| match table.frequency(symbol) {
        // Nobody codes it.
        0 => Division::NONE,
        frequency => {
            Division::new(frequency, table.starts[symbol].into(), Symbol::bits_of(symbol as u8).min(FIRST_BITS))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::bits::PackedWriter;
    use crate::contexts::event::EventCounts;

    #[test]
    fn states_take_symbols_as_divisions_do() {
        for frequency in 1..=TOTAL {
            let division = Division::new(frequency, TOTAL - frequency, 0);
            // All states that have room for the symbol are below this.
            let limit = u64::from(frequency) << (32 - TABLE_LOG2);
            let states = (0..40).map(|k| limit - 1 - k).chain((0..40).map(|k| limit * k / 40)).chain([1, 2, 1 << 16]);
            for state in states.filter(|&state| state < limit).map(|state| state as u32) {
                let expected = (state / frequency) * TOTAL + (TOTAL - frequency + state % frequency);
                assert_eq!(division.take(state), expected, "{state} {frequency}");
            }
        }
        for state in [1 << 16, 123_456_789, u32::MAX] {
            assert_eq!(Division::NONE.take(state), state);
        }
    }

    #[test]
    fn vectors_write_the_words_of_single_states() {
        for (limit, lanes) in [2, 40, 1 << 18].into_iter().flat_map(|limit| [8, 16, 32].map(|lanes| (limit, lanes))) {
            let mut random = 1u32;
            let mut event = || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let code = ((random >> 8) as i32 % limit) >> (random >> 28);
                if random >> 8 & 15 == 0 { Event::NONE } else { Event::new(code, (random >> 30) as u8) }
            };
            let events: Vec<Event> = (0..3000).map(|_| event()).collect();
            let ends = [1, 9, 40, 2000, 2963, 3000].map(|end| ListEnd { segment: 0, end });
            let unit = Events { events: &events, ends: &ends, unit: [0, 1] };
            let mut counts = EventCounts::default();
            counts.count(&events);
            let mut encoder = Encoder::new(&Tables::build(&counts.of_contexts(), &mut PackedWriter::default()).0);
            encoder.words.resize(2 * events.len() + ROOM, 0);
            let (states, first) = simd::run(EncodeUnit { encoder: &mut encoder, unit, lanes });
            let words = encoder.words[first..].to_vec();
            let by_one = EncodeUnit { encoder: &mut encoder, unit, lanes }.run_by_one();
            assert_eq!(by_one, (states, first), "{limit} {lanes}");
            assert!(words == encoder.words[first..], "{limit} {lanes}");
        }
    }
}
