//! Chooses the groups of a large stream whose symbols are counted, and converts the counts to frequencies
//! (`docs/FORMAT.md`, "Frequencies").
//!
//! A codebook hardly changes if three of four groups are left out, and counting is limited by memory on a GPU. The
//! position of the counted group within its lot changes from one lot to the next. Tiles have 4 or 8 groups, and the
//! first ones are predicted from fewer neighbors than the others: if the first group were always counted, streams would
//! be 3 % longer.

/// Minimum number of lots of a stream, if lots have more than one group.
pub const LEAST_LOTS: u32 = 1024;
/// Base-2 logarithm of the number of groups in the largest lots.
pub const MOST_LOG2: u32 = 3;
/// Frequency of a symbol that is counted once.
pub const WEIGHT: u32 = 32;
/// Minimum frequency of a symbol that may occur, in units of 2^-18 of all frequencies. With it, the depth of hardly any
/// tree has to be limited, which would take building 20 more trees. A smaller minimum makes streams up to a tenth of a
/// percent shorter.
pub const FLOOR: u32 = 3;
/// Logarithm of what [`FLOOR`] is a part of.
pub const FLOOR_LOG2: u32 = 18;
/// 2^32 divided by the golden ratio: its multiples are spread evenly, however many there are.
pub const GOLDEN: u32 = 0x9E37_79B9;

/// The sample of a stream: one group of each lot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Logarithm of the groups in a lot.
    log2: u32,
}

impl Sample {
    /// Returns the sample of a stream of `groups` groups.
    pub fn of(groups: usize) -> Self {
        let lots = groups as u32 / LEAST_LOTS;
        Self { log2: lots.checked_ilog2().unwrap_or(0).min(MOST_LOG2) }
    }

    /// Returns whether some groups are not counted.
    pub fn is_partial(self) -> bool {
        self.log2 > 0
    }

    /// Returns whether the group is counted.
    #[inline(always)]
    pub fn has(self, group: usize) -> bool {
        let lot = group as u32 >> self.log2;
        let within = lot.wrapping_mul(GOLDEN) >> (32 - MOST_LOG2) >> (MOST_LOG2 - self.log2);
        group as u32 == (lot << self.log2) + within
    }

    /// Replaces the counts of a partial sample by frequencies. Those of symbol 0 and of symbols `first` to `last` are
    /// at least 1.
    pub fn weigh(self, counts: &mut [u32], first: u16, last: u16) {
        // At most 2^20 symbols are counted.
        let total = counts.iter().sum::<u32>() * WEIGHT;
        let floor = ((total * FLOOR) >> FLOOR_LOG2).max(1);
        for (symbol, count) in counts.iter_mut().enumerate() {
            let may_occur = symbol == 0 || (first as usize..=last as usize).contains(&symbol);
            *count = if may_occur { (*count * WEIGHT).max(floor) } else { 0 };
        }
    }

    /// Returns the weight of a bit outside of the codewords, in the units of the frequencies from [`Self::weigh`].
    pub fn bit(self) -> u64 {
        if self.is_partial() { u64::from(WEIGHT >> self.log2) } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::super::{
        Decoder, EncodeOptions, EncodeScratch, EncodeSummary, IndexKind, Stream, encode, encode_sampled,
    };
    use super::*;

    const K: usize = 64;
    const ZERO_BIT: u16 = 512;

    /// Returns the stream and its summary, after decoding it, once with a sample and once with all symbols counted.
    fn both(symbols: &[u16], classes: &[u8], index: IndexKind) -> [(Vec<u8>, EncodeSummary); 2] {
        let options = EncodeOptions { group_log2: 6, index, zero_bit_symbol: Some(ZERO_BIT) };
        let scratch = &mut EncodeScratch::default();
        let (mut bytes, mut exact) = (Vec::new(), Vec::new());
        let summary = encode_sampled(symbols, classes, &options, scratch, &mut bytes);
        let of_all = encode(symbols, classes, &options, scratch, &mut exact);
        // The contents of the scratch memory do not affect the next stream.
        let mut again = Vec::new();
        assert_eq!(encode_sampled(symbols, classes, &options, scratch, &mut again), summary);
        assert!(again == bytes);
        let stream = Stream::<u16>::parse(&bytes, "test").unwrap();
        let classes = if summary.uses_classes() { classes } else { &[] };
        for decoder in [Decoder::Auto, Decoder::Chunked] {
            let mut back = vec![0; symbols.len()];
            stream.decoder(decoder, classes).unwrap().decode(&mut back, 2).unwrap();
            assert!(back == symbols);
        }
        [(bytes, summary), (exact, of_all)]
    }

    /// Returns groups of geometrically distributed symbols of four classes; a third of the groups are zero-bit groups.
    fn symbols(groups: usize) -> (Vec<u16>, Vec<u8>) {
        let mut r = Random(groups as u64 + 1);
        let classes: Vec<u8> = (0..groups).map(|group| (group / 7 % 4) as u8).collect();
        let group = |(number, &class): (usize, &u8)| {
            let keep = if number % 3 == 1 { 0 } else { [60, 300, 700, 950][usize::from(class)] };
            (0..K).map(|_| r.geometric(ZERO_BIT, keep)).collect::<Vec<_>>()
        };
        (classes.iter().enumerate().flat_map(group).collect(), classes)
    }

    #[test]
    fn streams_come_back_and_are_hardly_longer() {
        for groups in [0, 1, 2047, 2048, 4095, 4096, 8191, 8192, 9001] {
            let (symbols, classes) = symbols(groups);
            for index in IndexKind::ALL {
                for classes in [&classes[..], &[]] {
                    let [(bytes, summary), (exact, of_all)] = both(&symbols, classes, index);
                    if groups < 2048 {
                        assert!(bytes == exact);
                        continue;
                    }
                    assert!(bytes != exact, "{groups} groups");
                    assert_eq!(summary.codebooks, of_all.codebooks);
                    assert!(
                        bytes.len() * 100 < exact.len() * 101,
                        "{groups}: {} instead of {}",
                        bytes.len(),
                        exact.len()
                    );
                }
            }
        }
    }

    #[test]
    fn symbols_missing_from_the_sample_are_coded() {
        let (clean, classes) = symbols(4500);
        let sample = Sample::of(4500);
        let unseen: Vec<usize> = (0..4500).filter(|&group| !sample.has(group)).collect();
        // One symbol in one group: an outlier, the smallest, the largest, and one beside the others.
        for symbol in [0, 1, 1023, 700] {
            let mut symbols = clean.clone();
            symbols[unseen[unseen.len() / 2] * K + 5] = symbol;
            for index in IndexKind::ALL {
                both(&symbols, &classes, index);
            }
        }
        // A class that the sample has not, and no live group at all in the sample.
        let mut of_seen = classes.clone();
        let mut symbols = clean;
        for group in (0..4500).filter(|&group| sample.has(group)) {
            of_seen[group] = 0;
            symbols[group * K..][..K].fill(ZERO_BIT);
        }
        both(&symbols, &of_seen, IndexKind::Symbol);
        // All symbols, each in one group, most of them in none of the sample.
        let all: Vec<u16> = (0..2100 * K).map(|i| if i < 1024 * K { (i / K) as u16 } else { ZERO_BIT }).collect();
        for classes in [&classes[..2100], &[]] {
            both(&all, classes, IndexKind::Symbol);
        }
        // Only symbol 0, and only one other.
        both(&vec![0; 3000 * K], &[], IndexKind::Symbol);
        both(&vec![9; 3000 * K], &[], IndexKind::None);
    }

    #[test]
    fn sample_is_not_taken_of_wide_alphabets_and_empty_streams() {
        // Nothing is live.
        let [(bytes, summary), (exact, _)] = both(&vec![ZERO_BIT; 5000 * K], &[], IndexKind::Symbol);
        assert!(bytes == exact && summary.live_groups == 0);
        // Symbols of a wide alphabet.
        let (mut symbols, classes) = symbols(5000);
        symbols[K * 17] = 1024;
        let [(bytes, _), (exact, _)] = both(&symbols, &classes, IndexKind::Symbol);
        assert!(bytes == exact);
    }

    #[test]
    fn sample_has_one_group_of_each_lot() {
        for (groups, lot) in
            [(0, 1), (1, 1), (2047, 1), (2048, 2), (4095, 2), (4096, 4), (8191, 4), (8192, 8), (1 << 17, 8), (5001, 4)]
        {
            let sample = Sample::of(groups);
            assert_eq!((1 << sample.log2, sample.is_partial()), (lot, lot > 1));
            assert_eq!(sample.bit(), if lot == 1 { 1 } else { u64::from(WEIGHT) / lot as u64 });
            let mut within = vec![0; lot];
            for first in (0..groups / lot * lot).step_by(lot) {
                let taken: Vec<usize> = (first..first + lot).filter(|&group| sample.has(group)).collect();
                assert_eq!(taken.len(), 1, "group {first} of {groups}");
                within[taken[0] - first] += 1;
            }
            // Every place as often as the others.
            let (most, fewest) = (within.iter().max().unwrap(), within.iter().min().unwrap());
            assert!(most - fewest <= 4, "{within:?}");
        }
    }

    #[test]
    fn symbols_that_may_occur_have_a_frequency() {
        let mut counts = [0, 3, 0, 5, 0, 0];
        Sample::of(5000).weigh(&mut counts, 1, 4);
        assert_eq!(counts, [1, 3 * WEIGHT, 1, 5 * WEIGHT, 1, 0]);
        let mut counts = [7, 0, 0];
        Sample::of(5000).weigh(&mut counts, u16::MAX, 0);
        assert_eq!(counts, [7 * WEIGHT, 0, 0]);
        // The most that is counted of a stream.
        let mut counts = [0, 1, 13, (1 << 20) - 14];
        Sample::of(1 << 16).weigh(&mut counts, 1, 3);
        assert_eq!(counts, [384, 384, 13 * WEIGHT, (1 << 25) - 14 * WEIGHT]);
    }
}
