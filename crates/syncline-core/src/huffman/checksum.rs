//! The checksum of decoded symbols: two sums that can be formed in any order, by any number of threads.

use super::Symbol;

/// Sum of symbols, and sum of symbols each times its position from 1, both mod 2^32. Partial checksums add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// Sum of the symbols.
    pub sum: u32,
    /// Sum of `(i + 1)` times symbol `i`.
    pub weighted: u32,
}

impl Checksum {
    /// Computes the checksum of `symbols`. The first of them has index `first`, counted from 0, among all symbols of
    /// the stream.
    #[inline(always)]
    pub fn of<S: Symbol>(symbols: &[S], first: u32) -> Self {
        let mut total = Self::default();
        let mut next = first;
        let (groups, tail) = symbols.as_chunks::<64>();
        for group in groups {
            total.add(Self::of_group(group, next));
            next = next.wrapping_add(64);
        }
        for &symbol in tail {
            let symbol: u32 = symbol.into();
            next = next.wrapping_add(1);
            total.sum = total.sum.wrapping_add(symbol);
            total.weighted = total.weighted.wrapping_add(next.wrapping_mul(symbol));
        }
        total
    }

    /// Computes [`Checksum::of`] for a group of at most 128 symbols.
    ///
    /// Products of signed 16-bit numbers, because one instruction adds pairs of those: symbols less 2^15, which the end
    /// adds again.
    #[inline(always)]
    pub fn of_group<S: Symbol, const LEN: usize>(group: &[S; LEN], first: u32) -> Self {
        const OFFSET: u32 = 1 << 15;
        let weights = const { Weights::<LEN>::new() };
        let mut sum = 0i32;
        let mut weighted = 0i32;
        for (&symbol, &weight) in group.iter().zip(&weights.0) {
            let number: u16 = symbol.into();
            let signed = i32::from((number ^ OFFSET as u16) as i16);
            sum += signed;
            weighted += signed * i32::from(weight);
        }
        let len = LEN as u32;
        let sum = (sum as u32).wrapping_add(len * OFFSET);
        let weighted = (weighted as u32).wrapping_add(len * (len + 1) / 2 * OFFSET);
        Self { sum, weighted: weighted.wrapping_add(first.wrapping_mul(sum)) }
    }

    /// Adds the checksum of other symbols of the same stream.
    #[inline(always)]
    pub fn add(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.weighted = self.weighted.wrapping_add(other.weighted);
    }
}

/// 1, 2, ... for the symbols of a group.
struct Weights<const LEN: usize>([i16; LEN]);

impl<const LEN: usize> Weights<LEN> {
    const fn new() -> Self {
        assert!(LEN <= 128, "sums stay below 2^31");
        let mut weights = [0; LEN];
        let mut i = 0;
        while i < LEN {
            weights[i] = i as i16 + 1;
            i += 1;
        }
        Self(weights)
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
