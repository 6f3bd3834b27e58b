//! Static distributions of symbols, one for each context or for several neighboring ones.

use super::activity::{CONTEXTS, begins_group};
use super::bits::{PackedReader, PackedWriter};
use super::symbol::SYMBOLS;
use crate::bits::logarithm::{LOG_BITS, times_log2};

/// The frequencies of a table sum to 2 to this power.
pub const TABLE_LOG2: u32 = 11;
/// The sum of the frequencies of a table.
pub const TOTAL: u32 = 1 << TABLE_LOG2;

/// Counts of symbols in one context.
pub type Counts = [u32; SYMBOLS];

/// Bits of a frequency after its highest, at most.
const PRECISIONS: [u32; 4] = [1, 2, 3, 5];
/// Bits of the field of a precision, and of the number of symbols of a table.
const PRECISION_BITS: u32 = 3;
const LENGTH_BITS: u32 = 7;
/// The exponent from which the first of a table is told apart.
const FIRST_EXPONENT: i32 = 10;

/// A distribution of symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The sum of the frequencies of the symbols before each symbol, and of all.
    pub starts: [u16; SYMBOLS + 1],
}

impl Table {
    /// Returns the table of weights, of which at least one is not 0 and each is below 2^13.
    fn of_weights(weights: &[u32; SYMBOLS]) -> Self {
        let sum: u32 = weights.iter().sum();
        let mut frequencies = weights.map(|weight| match weight {
            0 => 0,
            weight => (weight * TOTAL / sum).max(1),
        });
        let (mut most, mut given) = (0, 0);
        for symbol in 0..SYMBOLS {
            given += frequencies[symbol];
            if frequencies[symbol] > frequencies[most] {
                most = symbol;
            }
        }
        // Rounding takes less than a symbol's frequency from the most frequent one, and never all of it.
        frequencies[most] = frequencies[most] + TOTAL - given;
        let mut starts = [0; SYMBOLS + 1];
        for symbol in 0..SYMBOLS {
            starts[symbol + 1] = starts[symbol] + frequencies[symbol] as u16;
        }
        Self { starts }
    }

    /// Returns the frequency of a symbol.
    #[inline(always)]
    pub fn frequency(&self, symbol: usize) -> u32 {
        u32::from(self.starts[symbol + 1] - self.starts[symbol])
    }

    /// Returns the bits of counted symbols in units of 2^-16, without those behind symbols. Symbols that the table does
    /// not have cost as much as the rarest.
    fn cost(&self, counts: &Counts) -> u64 {
        let bits = |symbol: usize| {
            let frequency = self.frequency(symbol).max(1);
            (u64::from(TABLE_LOG2) << LOG_BITS) - times_log2(frequency) / u64::from(frequency)
        };
        (0..SYMBOLS).filter(|&symbol| counts[symbol] > 0).map(|symbol| u64::from(counts[symbol]) * bits(symbol)).sum()
    }
}

/// Returns the weights of counts: about their share of 4,096, of which `precision` bits after the highest are kept.
fn weights_of(counts: &Counts, precision: u32) -> [u32; SYMBOLS] {
    let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    counts.map(|count| {
        if count == 0 {
            return 0;
        }
        let exact = ((u64::from(count) * u64::from(TOTAL) + sum / 2) / sum).clamp(1, u64::from(TOTAL)) as u32;
        let rest = exact.ilog2().saturating_sub(precision);
        (exact + (1 << rest >> 1)) >> rest << rest
    })
}

/// The tables of a chunk.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The tables.
    pub tables: Vec<Table>,
    /// The number of the table of each context.
    pub of_context: [u8; CONTEXTS],
}

impl Tables {
    /// Chooses tables for counted symbols, and appends them to `out`. Returns them, and about how many bits they and
    /// the symbols take, without those behind symbols.
    pub fn build(counts: &[Counts; CONTEXTS], out: &mut PackedWriter) -> (Self, u64) {
        let groups = group(counts);
        let priced = PRECISIONS.map(|precision| {
            let mut writer = PackedWriter::default();
            let tables = write(&groups, precision, &mut writer);
            let bits: u64 = groups.iter().zip(&tables).map(|(group, table)| table.cost(&group.counts)).sum();
            (bits + ((writer.bits() as u64) << LOG_BITS), precision)
        });
        let (price, best) = priced.into_iter().min().unwrap_or((0, PRECISIONS[0]));
        let tables = write(&groups, best, out);
        let mut of_context = [0; CONTEXTS];
        for (number, group) in groups.iter().enumerate() {
            of_context[group.first..].fill(number as u8);
        }
        (Self { tables, of_context }, price >> LOG_BITS)
    }

    /// Reads tables. `None` if they are damaged.
    pub fn read(reader: &mut PackedReader) -> Option<Self> {
        let precision = reader.take(PRECISION_BITS)?;
        let mut read = Self { tables: Vec::new(), of_context: [0; CONTEXTS] };
        for context in 0..CONTEXTS {
            let is_new = reader.take(1)? != 0;
            if is_new {
                read.tables.push(read_table(reader, precision)?);
            } else if context == 0 {
                return None;
            }
            read.of_context[context] = (read.tables.len() - 1) as u8;
        }
        Some(read)
    }
}

/// Neighboring contexts that share a table.
struct Group {
    first: usize,
    counts: Counts,
    cost: u64,
}

/// Returns about what a table for counts and their symbols cost, in bits.
fn cost_of(counts: &Counts) -> u64 {
    let sum: u32 = counts.iter().sum();
    let of_symbols: u64 = counts.iter().map(|&count| times_log2(count)).sum();
    let used = counts.iter().filter(|&&count| count > 0).count() as u64;
    ((times_log2(sum) - of_symbols.min(times_log2(sum))) >> LOG_BITS) + 4 * used + 8
}

/// Joins contexts with the ones before where that saves bits, or where they do not occur.
fn group(counts: &[Counts; CONTEXTS]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (context, counts) in counts.iter().enumerate() {
        if context > 0 && counts.iter().all(|&count| count == 0) {
            continue;
        }
        let cost = cost_of(counts);
        if let Some(last) = groups.last_mut().filter(|_| !begins_group(context)) {
            let mut both = last.counts;
            both.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            let joined = cost_of(&both);
            if joined <= last.cost + cost {
                (last.counts, last.cost) = (both, joined);
                continue;
            }
        }
        groups.push(Group { first: context, counts: *counts, cost });
    }
    groups
}

/// Appends the tables of groups.
fn write(groups: &[Group], precision: u32, out: &mut PackedWriter) -> Vec<Table> {
    out.put(precision, PRECISION_BITS);
    let mut tables = Vec::with_capacity(groups.len());
    let mut next = groups.iter().peekable();
    for context in 0..CONTEXTS {
        let group = next.next_if(|group| group.first == context);
        out.put(u32::from(group.is_some()), 1);
        if let Some(group) = group {
            let weights = weights_of(&group.counts, precision);
            tables.push(write_table(&weights, precision, out));
        }
    }
    tables
}

/// Appends a table: the number of its symbols, then for each the change of its exponent and the bits after its highest.
fn write_table(weights: &[u32; SYMBOLS], precision: u32, out: &mut PackedWriter) -> Table {
    let count = weights.iter().rposition(|&weight| weight > 0).map_or(0, |last| last + 1);
    out.put(count as u32, LENGTH_BITS);
    let mut before = FIRST_EXPONENT;
    for &weight in &weights[..count] {
        // 0 stands for a symbol that does not occur.
        let exponent = weight.checked_ilog2().map_or(0, |log2| log2 as i32 + 1);
        out.put_signed(exponent - before);
        if exponent > 0 {
            let kept = precision.min(exponent as u32 - 1);
            let rest = exponent as u32 - 1 - kept;
            out.put(weight >> rest & ((1 << kept) - 1), kept);
            before = exponent;
        }
    }
    match count {
        // Of contexts that do not occur.
        0 => Table::of_weights(&std::array::from_fn(|symbol| u32::from(symbol == 0))),
        _ => Table::of_weights(weights),
    }
}

/// Reads what [`write_table`] wrote.
fn read_table(reader: &mut PackedReader, precision: u32) -> Option<Table> {
    let count = reader.take(LENGTH_BITS)? as usize;
    let mut weights = [0; SYMBOLS];
    let mut before = FIRST_EXPONENT;
    for weight in weights.get_mut(..count)? {
        let exponent = before.checked_add(reader.take_signed()?)?;
        if !(0..=TABLE_LOG2 as i32 + 1).contains(&exponent) {
            return None;
        }
        if exponent > 0 {
            let kept = precision.min(exponent as u32 - 1);
            *weight = (1 << kept | reader.take(kept)?) << (exponent as u32 - 1 - kept);
            before = exponent;
        }
    }
    if weights.iter().all(|&weight| weight == 0) {
        weights[0] = 1;
    }
    Some(Table::of_weights(&weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(seed: u32) -> [Counts; CONTEXTS] {
        let mut random = seed;
        std::array::from_fn(|context| {
            std::array::from_fn(|symbol| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let scale = (1u64 << 20) >> (symbol * (1 + context % 7)).min(40);
                ((u64::from(random >> 8) * scale) >> 24) as u32
            })
        })
    }

    #[test]
    fn tables_are_read_as_written() {
        for (seed, all) in [(1, true), (2, true), (3, false)] {
            let counts = if all { counts(seed) } else { [[0; SYMBOLS]; CONTEXTS] };
            let mut writer = PackedWriter::default();
            let (tables, _) = Tables::build(&counts, &mut writer);
            let bytes = writer.finish();
            let mut reader = PackedReader::new(&bytes);
            let read = Tables::read(&mut reader).unwrap();
            assert!(reader.is_finished());
            assert_eq!((&read.tables, read.of_context), (&tables.tables, tables.of_context));
            for (context, counts) in counts.iter().enumerate() {
                let table = &tables.tables[usize::from(tables.of_context[context])];
                assert_eq!(table.starts[SYMBOLS], TOTAL as u16);
                for (symbol, &count) in counts.iter().enumerate() {
                    assert!(count == 0 || table.frequency(symbol) > 0, "{context} {symbol}");
                }
            }
        }
    }

    #[test]
    fn any_weights_give_a_whole_table() {
        for used in 1..=SYMBOLS {
            for heavy in [1, 60, 8191] {
                let weights = std::array::from_fn(|symbol| match symbol {
                    0 => heavy,
                    symbol => u32::from(symbol < used),
                });
                let table = Table::of_weights(&weights);
                assert_eq!(table.starts[SYMBOLS], TOTAL as u16);
                assert!((0..used).all(|symbol| table.frequency(symbol) > 0));
            }
        }
    }

    #[test]
    fn damaged_tables_are_refused() {
        let mut writer = PackedWriter::default();
        Tables::build(&counts(5), &mut writer);
        let bytes = writer.finish();
        for len in 0..bytes.len() {
            assert!(Tables::read(&mut PackedReader::new(&bytes[..len])).is_none());
        }
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            if let Some(tables) = Tables::read(&mut PackedReader::new(&damaged)) {
                assert!(tables.tables.iter().all(|table| table.starts[SYMBOLS] == TOTAL as u16));
            }
        }
    }
}
