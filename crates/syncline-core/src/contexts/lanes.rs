//! The codes of a unit by several rANS states that take words from one sequence (`docs/FORMAT.md`, "Words").
//!
//! Codes whose contexts are known at the same time are coded side by side, so that a processor works on the state of
//! one while those of others wait. Giesen, "Interleaved entropy coders" (2014).

#[cfg(target_arch = "x86_64")]
mod avx2;
mod encode;

pub use encode::{Encoder, Events, ListEnd};

use super::activity::{CONTEXTS, Contexts, is_of_elements, is_quiet};
use super::symbol::{FIRST_MASK, SYMBOLS, Symbol};
use super::table::{TABLE_LOG2, TOTAL, Table, Tables};
use crate::simd::InstructionSet;

/// Most states of a unit.
pub const MOST_LANES: usize = 32;

/// States are at least this after each event. The decoder ends with it.
const LOWEST: u32 = 1 << 16;

/// Raw bits that are taken together with a symbol: as many as a state always has beside it.
const FIRST_BITS: u32 = 16 - TABLE_LOG2;

/// The tables of a chunk for the decoder: what each slot of each table stands for, see `Slot`.
///
/// Tables of quiet elements have numbers of their own, by which they are recognized.
#[derive(Clone, Debug)]
pub struct SlotTables {
    /// Of as many tables as there are numbers, so that none is out of bounds.
    slots: Vec<u32>,
    /// The number of the table of each context.
    pub(super) of_contexts: [u8; CONTEXTS],
    /// Whether any element may have a mask.
    pub any_masks: bool,
}

impl Default for SlotTables {
    fn default() -> Self {
        Self { slots: Vec::new(), of_contexts: [0; CONTEXTS], any_masks: false }
    }
}

/// The number of the table of what is behind the last event of a list: it leaves a state as it is.
pub const NO_TABLE: u8 = (TABLES - 1) as u8;
/// Numbers of tables. There are fewer contexts.
const TABLES: usize = 256;
const _: () = assert!(CONTEXTS < TABLES);

/// What a slot stands for: 11 bits of the frequency of its symbol less 1, 11 of its distance from the symbol's start,
/// and the symbol.
#[derive(Clone, Copy)]
struct Slot(u32);

impl Slot {
    fn new(frequency: u32, offset: u32, symbol: u32) -> Self {
        Self((frequency - 1) | offset << TABLE_LOG2 | symbol << (2 * TABLE_LOG2))
    }

    #[inline(always)]
    fn frequency(self) -> u32 {
        self.0 % TOTAL + 1
    }

    #[inline(always)]
    fn offset(self) -> u32 {
        self.0 >> TABLE_LOG2 & (TOTAL - 1)
    }

    #[inline(always)]
    fn symbol(self) -> u8 {
        (self.0 >> (2 * TABLE_LOG2)) as u8
    }
}

/// Lists what the slots of a table stand for.
fn list_slots(table: &Table, slots: &mut [u32]) {
    let mut rest = slots;
    for symbol in (0..SYMBOLS).filter(|&symbol| table.frequency(symbol) > 0) {
        let frequency = table.frequency(symbol);
        let (own, others) = rest.split_at_mut((frequency as usize).min(rest.len()));
        // A sum and no call, so that the loop becomes one of vectors.
        let first = Slot::new(frequency, 0, symbol as u32).0;
        own.iter_mut().zip(0..).for_each(|(slot, offset)| *slot = first + (offset << TABLE_LOG2));
        rest = others;
    }
}

impl SlotTables {
    /// Returns the tables of a chunk.
    #[cfg(test)]
    pub fn new(tables: &Tables) -> Self {
        let mut slots = Self::default();
        slots.prepare(tables);
        slots
    }

    /// Prepares the tables of a chunk, in the place of those of another.
    pub fn prepare(&mut self, tables: &Tables) {
        let Self { slots, of_contexts, any_masks } = self;
        if slots.is_empty() {
            slots.resize(TABLES << TABLE_LOG2, 0);
            let none = &mut slots[usize::from(NO_TABLE) << TABLE_LOG2..];
            none.iter_mut().zip(0..).for_each(|(slot, offset)| *slot = Slot::new(TOTAL, offset, 0).0);
        }
        let mut number = 0;
        for (context, &table) in tables.of_context.iter().enumerate() {
            let shares = |before: usize| tables.of_context[before] == table && !is_quiet(before) && !is_quiet(context);
            let is_first = context == 0;
            if is_first || !shares(context - 1) {
                number += u8::from(!is_first);
                let slots = &mut slots[usize::from(number) << TABLE_LOG2..][..1 << TABLE_LOG2];
                list_slots(&tables.tables[usize::from(table)], slots);
            }
            of_contexts[context] = number;
        }
        let is_mask = |symbol: usize| symbol >= usize::from(FIRST_MASK);
        let has_masks = |table: &Table| (0..SYMBOLS).any(|symbol| is_mask(symbol) && table.frequency(symbol) > 0);
        // Counts of plain segments have such symbols.
        let of_elements = (0..CONTEXTS).filter(|&context| is_of_elements(context));
        let mut of_elements = of_elements.map(|context| &tables.tables[usize::from(tables.of_context[context])]);
        *any_masks = of_elements.any(has_masks);
    }

    /// Returns the numbers of the tables of the contexts of a kind.
    pub fn of_kind(&self, kind: usize) -> Contexts {
        Contexts::of_kind(kind).map(|context| self.of_contexts[usize::from(context)])
    }

    #[inline(always)]
    fn find(&self, table: u8, slot: u32) -> Slot {
        Slot(self.slots[(usize::from(table) % TABLES) << TABLE_LOG2 | slot as usize])
    }
}

/// Decodes the codes of a unit in order.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    states: [u32; MOST_LANES],
    lanes: usize,
    words: &'a [u8],
    /// Byte of the next word.
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder of the words of a unit. `None` if they have no valid states.
    pub fn new(words: &'a [u8], lanes: usize) -> Option<Self> {
        let (first, rest) = words.split_at_checked(4 * lanes)?;
        let mut states = [LOWEST; MOST_LANES];
        let (first, _) = first.as_chunks::<4>();
        states.iter_mut().zip(first).for_each(|(state, bytes)| *state = u32::from_le_bytes(*bytes));
        let is_valid = states.iter().all(|&state| state >= LOWEST) && rest.len().is_multiple_of(2);
        is_valid.then_some(Self { states, lanes, words: rest, at: 0 })
    }

    /// Reads the codes of a list by the numbers of their tables. Both are a multiple of [`MOST_LANES`] long: behind the
    /// list is [`NO_TABLE`], which gives the code 0.
    ///
    /// # Panics
    /// The lengths are others.
    #[inline(always)]
    pub fn list<I: InstructionSet>(&mut self, isa: I, of_codes: &[u8], tables: &SlotTables, codes: &mut [i32]) {
        assert!(of_codes.len() == codes.len() && codes.len().is_multiple_of(MOST_LANES));
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = isa.avx2() {
            match self.lanes {
                32 => return avx2::run::<4>(token, self, of_codes, tables, codes),
                16 => return avx2::run::<2>(token, self, of_codes, tables, codes),
                8 => return avx2::run::<1>(token, self, of_codes, tables, codes),
                _ => {}
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = isa;
        self.list_by_one(of_codes, tables, codes);
    }

    /// Reads the only code of a list, which has a table with this number.
    #[inline(always)]
    pub fn one(&mut self, table: u8, tables: &SlotTables) -> i32 {
        let mut code = [0];
        self.group(&[table], tables, &mut code);
        code[0]
    }

    /// Does what [`Self::list`] does, one code after another.
    fn list_by_one(&mut self, of_codes: &[u8], tables: &SlotTables, codes: &mut [i32]) {
        for (of_codes, codes) in of_codes.chunks(self.lanes).zip(codes.chunks_mut(self.lanes)) {
            self.group(of_codes, tables, codes);
        }
    }

    #[inline(always)]
    fn group(&mut self, of_codes: &[u8], tables: &SlotTables, codes: &mut [i32]) {
        let (mut symbols, mut bits) = ([0; MOST_LANES], [0; MOST_LANES]);
        let mut any_further = false;
        for (lane, &table) in of_codes.iter().enumerate() {
            let state = self.states[lane];
            let slot = tables.find(table, state % TOTAL);
            symbols[lane] = slot.symbol();
            let count = Symbol::bits_of(slot.symbol());
            let state = slot.frequency() * (state >> TABLE_LOG2) + slot.offset();
            let first = count.min(FIRST_BITS);
            bits[lane] = state & ((1 << first) - 1);
            any_further |= count > FIRST_BITS;
            self.refill(lane, state >> first);
        }
        if any_further {
            for lane in 0..of_codes.len() {
                let count = Symbol::bits_of(symbols[lane]).saturating_sub(FIRST_BITS);
                let state = self.states[lane];
                bits[lane] |= (state & ((1 << count) - 1)) << FIRST_BITS;
                self.refill(lane, state >> count);
            }
        }
        for (lane, code) in codes.iter_mut().enumerate() {
            *code = Symbol::code(symbols[lane], bits[lane]);
        }
    }

    /// Takes a word into a state that is too small. Beyond the end there are words of 0, which [`Self::is_finished`]
    /// notices.
    #[inline(always)]
    fn refill(&mut self, lane: usize, state: u32) {
        let word = self.words.get(self.at..self.at + 2).map_or(0, |word| u16::from_le_bytes([word[0], word[1]]));
        let is_small = state < LOWEST;
        self.states[lane] = if is_small { state << 16 | u32::from(word) } else { state };
        self.at += usize::from(is_small) * 2;
    }

    /// Returns whether the states and the words are those at the end of a unit.
    pub fn is_finished(&self) -> bool {
        self.states == [LOWEST; MOST_LANES] && self.at == self.words.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::bits::PackedWriter;
    use super::super::event::{Event, EventCounts};
    use super::*;
    use crate::simd::{self, Kernel};

    struct Run<'a, 'w> {
        decoder: &'a mut Decoder<'w>,
        of_codes: &'a [u8],
        slots: &'a SlotTables,
        codes: &'a mut [i32],
    }

    impl Kernel for Run<'_, '_> {
        type Output = ();

        #[inline(always)]
        fn run<I: InstructionSet>(self, isa: I) {
            self.decoder.list(isa, self.of_codes, self.slots, self.codes);
        }
    }

    #[test]
    fn codes_are_decoded_in_order() {
        for (limit, log2) in [1, 2, 9, 300, 1 << 18].into_iter().flat_map(|limit| (0..6).map(move |log2| (limit, log2)))
        {
            let mut random = 1u32;
            let events: Vec<Event> = (0..5000)
                .map(|_| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let bits = random >> 27;
                    let code = ((random >> 5) as i32 % limit) >> (bits % 19);
                    match random >> 24 {
                        7 => Event::NONE,
                        _ => Event::new(if random & 1 << 26 != 0 { -code } else { code }, (bits % 3 * 40) as u8),
                    }
                })
                .collect();
            let mut counts = EventCounts::default();
            counts.count(&events);
            let (tables, _) = Tables::build(&counts.of_contexts(), &mut PackedWriter::default());
            let (ends, lanes, mut out) = ([0, 1, 34, 35, 4000, 5000], 1 << log2, Vec::new());
            let list_ends = ends.map(|end| ListEnd { segment: 0, end });
            let words = Encoder::new(&tables).encode(
                Events { events: &events, ends: &list_ends, unit: [0, 1] },
                lanes,
                &mut out,
            );
            assert_eq!(words * 2, out.len());
            if words == 0 {
                continue;
            }
            let slots = SlotTables::new(&tables);
            let table = |event: &Event| match *event {
                Event::NONE => NO_TABLE,
                event => slots.of_contexts[usize::from(event.context())],
            };
            let read = |decoder: &Decoder, by_one: bool| {
                let (mut decoder, mut codes) = (decoder.clone(), Vec::new());
                for (start, &end) in ends.iter().zip(&ends[1..]) {
                    let events = &events[*start as usize..end as usize];
                    let mut of_codes: Vec<u8> = events.iter().map(table).collect();
                    of_codes.resize(events.len().next_multiple_of(MOST_LANES), NO_TABLE);
                    let mut run = vec![0; of_codes.len()];
                    match by_one {
                        true => decoder.list_by_one(&of_codes, &slots, &mut run),
                        false => simd::run(Run {
                            decoder: &mut decoder,
                            of_codes: &of_codes,
                            slots: &slots,
                            codes: &mut run,
                        }),
                    }
                    codes.extend_from_slice(&run[..events.len()]);
                }
                (codes, decoder.states, decoder.at, decoder.is_finished())
            };
            let both = |decoder: &Decoder| {
                let [by_one, by_vector] = [true, false].map(|by_one| read(decoder, by_one));
                assert!(by_one == by_vector, "{limit} {log2}");
                by_one
            };
            let (codes, .., is_finished) = both(&Decoder::new(&out, lanes).unwrap());
            assert!(is_finished && codes.iter().copied().eq(events.iter().map(|event| event.code())));
            // A unit that is cut off ends elsewhere.
            if out.len() > 4 * lanes {
                assert!(!both(&Decoder::new(&out[..out.len() - 2], lanes).unwrap()).3);
            }
        }
        assert!(Decoder::new(&[0, 0, 0, 0], 1).is_none() && Decoder::new(&[0, 0, 1, 0], 2).is_none());
    }
}
