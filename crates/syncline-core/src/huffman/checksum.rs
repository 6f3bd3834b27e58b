//! The checksum of decoded symbols: two sums that can be formed in any order, by any number of threads.

use super::Symbol;

/// Symbols summed at once: two AVX2 registers of 32-bit sums.
const LANES: usize = 16;

/// Sum of symbols, and sum of symbols each times its position from 1, both mod 2^32. Partial checksums add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// Sum of the symbols.
    pub sum: u32,
    /// Sum of `(i + 1)` times symbol `i`.
    pub weighted: u32,
}

impl Checksum {
    /// Checksum of `symbols`, the first of which is the `first`th (from 0) of all that are checked.
    ///
    /// The weighted sum needs no product per symbol: the sums of all prefixes count each symbol once for every later row.
    #[inline(always)]
    pub fn of<S: Symbol>(symbols: &[S], first: u32) -> Self {
        let rows = symbols.chunks_exact(LANES);
        let (row_count, tail) = (rows.len() as u32, rows.remainder());
        let mut sums = [0u32; LANES];
        let mut prefixes = [0u32; LANES];
        for row in rows {
            for lane in 0..LANES {
                let symbol: u32 = row[lane].into();
                sums[lane] = sums[lane].wrapping_add(symbol);
                prefixes[lane] = prefixes[lane].wrapping_add(sums[lane]);
            }
        }
        let mut total = Self::default();
        for lane in 0..LANES {
            // Row j was added to `row_count - j` of the prefixes.
            let row_weighted = row_count.wrapping_mul(sums[lane]).wrapping_sub(prefixes[lane]);
            let weighted =
                (LANES as u32).wrapping_mul(row_weighted).wrapping_add((lane as u32 + 1).wrapping_mul(sums[lane]));
            total.sum = total.sum.wrapping_add(sums[lane]);
            total.weighted = total.weighted.wrapping_add(weighted);
        }
        total.weighted = total.weighted.wrapping_add(first.wrapping_mul(total.sum));
        let mut position = first.wrapping_add(row_count * LANES as u32);
        for &symbol in tail {
            let symbol: u32 = symbol.into();
            position = position.wrapping_add(1);
            total.sum = total.sum.wrapping_add(symbol);
            total.weighted = total.weighted.wrapping_add(position.wrapping_mul(symbol));
        }
        total
    }

    /// Adds the checksum of other symbols of the same stream.
    #[inline(always)]
    pub fn add(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.weighted = self.weighted.wrapping_add(other.weighted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_definition_and_adds_up() {
        let symbols: Vec<u16> = (0..1000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as u16).collect();
        let mut expected = Checksum::default();
        for (i, &s) in symbols.iter().enumerate() {
            expected.sum = expected.sum.wrapping_add(s.into());
            expected.weighted = expected.weighted.wrapping_add((i as u32 + 1).wrapping_mul(s.into()));
        }
        assert_eq!(Checksum::of(&symbols, 0), expected);
        let mut parts = Checksum::of(&symbols[333..], 333);
        parts.add(Checksum::of(&symbols[..333], 0));
        assert_eq!(parts, expected);
    }
}
