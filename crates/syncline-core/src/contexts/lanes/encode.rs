//! The codes of a unit to states and words.

use super::{FIRST_BITS, LOWEST, MOST_LANES};
use crate::contexts::event::{Event, PAIRS, pair_of};
use crate::contexts::symbol::{SYMBOLS, Symbol};
use crate::contexts::table::{TABLE_LOG2, TOTAL, Table, Tables};
use crate::simd::{self, InstructionSet, Kernel};

/// A unit whose codes are known: its events, and where each of its runs ends.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    /// The events of all runs.
    pub events: &'a [Event],
    /// One past the last event of each run.
    pub ends: &'a [u32],
}

/// Codes units.
#[derive(Debug)]
pub struct Encoder {
    /// How a state takes each pair of a symbol and a context.
    divisions: Vec<Division>,
    /// Room for the words of a unit, which are found from the last to the first.
    words: Vec<u16>,
}

impl Encoder {
    /// Prepares the tables of a chunk.
    pub fn new(tables: &Tables) -> Self {
        // Elements without a code leave a state as it is.
        let mut divisions = vec![Division { inverse: 0, bias: 0, frequency: TOTAL as u16, first_bits: 0 }; PAIRS];
        let of_tables: Vec<_> = tables.tables.iter().map(divisions_of).collect();
        for (context, &table) in tables.of_context.iter().enumerate() {
            for (symbol, division) in of_tables[usize::from(table)].iter().enumerate() {
                divisions[pair_of(symbol, context)] = *division;
            }
        }
        Self { divisions, words: Vec::new() }
    }

    /// Appends the states and the words of a unit. Returns the number of words, which is 0 if all codes are 0.
    pub fn encode(&mut self, unit: Events, lanes: usize, out: &mut Vec<u8>) -> usize {
        if unit.events.iter().max().is_none_or(|&event| event < Event::first_of(1)) {
            return 0;
        }
        // A code takes at most two words, of which the first is written even if it is not taken.
        let room = 2 * unit.events.len() + 1;
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
            let Division { inverse, bias, frequency, first_bits } = divisions[event.pair()];
            // The symbol and the bits leave the state together.
            let is_full = u64::from(*state) >= u64::from(frequency) << (32 - TABLE_LOG2 - u32::from(first_bits));
            let before = put(*state, is_full);
            let above = before << first_bits | event.bits() & ((1 << first_bits) - 1);
            let quotient = ((u128::from(above) * u128::from(inverse)) >> 64) as u32;
            *state = above + u32::from(bias) + quotient * (TOTAL - u32::from(frequency));
        }
    }
}

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
    fn run<I: InstructionSet>(self, _: I) -> Self::Output {
        let Self { encoder, unit: Events { events, ends }, lanes } = self;
        let (mut states, mut at) = ([LOWEST; MOST_LANES], encoder.words.len());
        for (number, &end) in ends.iter().enumerate().rev() {
            let start = if number > 0 { ends[number - 1] } else { 0 };
            for group in events[start as usize..end as usize].chunks(lanes).rev() {
                encoder.put_group(group, &mut states, &mut at);
            }
        }
        (states, at)
    }
}

/// How a state takes a symbol without a division: with its quotient by the frequency, it grows by `bias` and the
/// quotient times what the frequency lacks to the sum of all.
#[derive(Clone, Copy, Debug, Default)]
struct Division {
    /// 2^64 divided by the frequency, rounded up, so that the high half of its product with a state is the quotient; of
    /// the frequency 1 one less, so that it is the quotient less 1.
    inverse: u64,
    bias: u16,
    frequency: u16,
    /// Raw bits that are taken together with the symbol.
    first_bits: u8,
}

/// Returns how a state takes each symbol of a table.
fn divisions_of(table: &Table) -> [Division; SYMBOLS] {
    std::array::from_fn(|symbol| {
        let start = table.starts[symbol];
        let first_bits = Symbol::bits_of(symbol as u8).min(FIRST_BITS) as u8;
        match table.frequency(symbol) as u16 {
            0 => Division::default(),
            1 => Division { inverse: u64::MAX, bias: start + TOTAL as u16 - 1, frequency: 1, first_bits },
            frequency => Division { inverse: u64::MAX / u64::from(frequency) + 1, bias: start, frequency, first_bits },
        }
    })
}
