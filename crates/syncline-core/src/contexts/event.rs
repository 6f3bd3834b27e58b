//! Codes and their contexts, in the form in which they are counted and coded.

use super::activity::CONTEXTS;
use super::symbol::{SYMBOLS, Symbol};
use super::table::Counts;
use crate::bits::logarithm::times_log2;

/// Bits of a context, and of a symbol.
const CONTEXT_LOG2: u32 = 8;
const SYMBOL_LOG2: u32 = 7;
/// More than there are pairs of a symbol and a context, and a power of two, so that no pair is out of bounds.
pub const PAIRS: usize = 1 << (SYMBOL_LOG2 + CONTEXT_LOG2);
/// What stands in place of a context where there is no event.
const NO_CONTEXT: u32 = (1 << CONTEXT_LOG2) - 1;
const _: () = assert!(CONTEXTS < NO_CONTEXT as usize && SYMBOLS <= 1 << SYMBOL_LOG2);

/// A code and its context: the symbol, below it the context, and below that the bits behind the symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Event(pub(super) u32);

impl Event {
    /// Where the pair and the symbol of an event begin. Below are the bits behind the symbol, at most 16.
    pub(super) const PAIR_SHIFT: u32 = 16;
    pub(super) const SYMBOL_SHIFT: u32 = Self::PAIR_SHIFT + CONTEXT_LOG2;
    pub(super) const BITS_MASK: u32 = (1 << Self::PAIR_SHIFT) - 1;
    pub(super) const CONTEXT_MASK: u32 = NO_CONTEXT << Self::PAIR_SHIFT;

    /// Nothing, with which groups of events are filled up.
    pub const NONE: Self = Self(NO_CONTEXT << Self::PAIR_SHIFT);

    /// Returns the event of a code.
    #[inline(always)]
    pub fn new(code: i32, context: u8) -> Self {
        let Symbol { symbol, bits, .. } = Symbol::of(code);
        Self((u32::from(symbol) << CONTEXT_LOG2 | u32::from(context)) << Self::PAIR_SHIFT | bits)
    }

    /// Returns the event with another context.
    #[inline(always)]
    pub fn with_context(self, context: u8) -> Self {
        Self(self.0 & !Self::CONTEXT_MASK | u32::from(context) << Self::PAIR_SHIFT)
    }

    /// Returns the first of the events of a symbol.
    pub const fn first_of(symbol: u32) -> Self {
        Self(symbol << Self::SYMBOL_SHIFT)
    }

    /// Returns the number of the pair of the symbol and the context.
    #[inline(always)]
    pub fn pair(self) -> usize {
        (self.0 >> Self::PAIR_SHIFT) as usize % PAIRS
    }

    /// Returns the symbol.
    #[inline(always)]
    pub fn symbol(self) -> u8 {
        (self.0 >> Self::SYMBOL_SHIFT) as u8
    }

    /// Returns the bits behind the symbol.
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0 & Self::BITS_MASK
    }

    /// Returns the code, or what stands for a mask in its place.
    pub fn code(self) -> i32 {
        Symbol::code(self.symbol(), self.bits())
    }

    /// Returns the context.
    pub fn context(self) -> u8 {
        (self.0 >> Self::PAIR_SHIFT & NO_CONTEXT) as u8
    }
}

/// Returns the number of the pair of a symbol and a context.
pub fn pair_of(symbol: usize, context: usize) -> usize {
    symbol << CONTEXT_LOG2 | context
}

/// Counts that are skipped together.
const COUNTS: usize = 16;

/// How often symbols occur in contexts.
#[derive(Debug)]
pub struct EventCounts(Vec<u32>);

impl Default for EventCounts {
    fn default() -> Self {
        Self(vec![0; PAIRS])
    }
}

impl EventCounts {
    /// Forgets all events.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Counts events.
    #[inline(always)]
    pub fn count(&mut self, events: &[Event]) {
        let counts = &mut self.0[..PAIRS];
        events.iter().for_each(|event| counts[event.pair()] += 1);
    }

    /// Returns the counts of the symbols in a context.
    fn of_context(&self, context: usize) -> Counts {
        std::array::from_fn(|symbol| self.0[pair_of(symbol, context)])
    }

    /// Returns the number of events.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|&count| u64::from(count)).sum()
    }

    /// Returns the number of bits behind all symbols.
    pub fn bits_behind(&self) -> u64 {
        let bits = |(row, symbol): (&[u32], _)| {
            let count: u64 = row.iter().map(|&count| u64::from(count)).sum();
            count * u64::from(Symbol::bits_of(symbol))
        };
        self.rows().zip(0..).map(bits).sum()
    }

    /// Returns the bits of all symbols by the entropy of each context, in units of 2^-16.
    pub fn entropy(&self) -> u64 {
        // In the order of memory: most pairs do not occur, in small chunks nearly none.
        let (mut sums, mut coded) = ([0u32; CONTEXTS], 0);
        for row in self.rows() {
            for (sums, counts) in sums.chunks_mut(COUNTS).zip(row.chunks(COUNTS)) {
                if counts.iter().fold(0, |any, &count| any | count) != 0 {
                    sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += count);
                    coded += counts.iter().map(|&count| times_log2(count)).sum::<u64>();
                }
            }
        }
        sums.into_iter().map(times_log2).sum::<u64>() - coded
    }

    /// Returns the counts of each symbol in all contexts.
    fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.0.chunks(1 << CONTEXT_LOG2).take(SYMBOLS).map(|row| &row[..CONTEXTS])
    }

    /// Returns the counts of the symbols in each context.
    pub fn of_contexts(&self) -> Box<[Counts; CONTEXTS]> {
        let counts: Vec<Counts> = (0..CONTEXTS).map(|context| self.of_context(context)).collect();
        counts.try_into().unwrap_or_else(|_| unreachable!("as many as there are contexts"))
    }
}
