//! The decision which extreme values of an array are fill.

use super::convert::bits_of;
use super::{Samples, Scan, ScanResult, WELL_KNOWN_FILLS};

/// The fewest elements that hold a fill value, and one that is well known.
const FEWEST: u64 = 4;
const FEWEST_WELL_KNOWN: u64 = 2;

impl Scan {
    /// Completes a scan that has seen all elements. While an extreme value may be fill, `look` adds all elements to an
    /// empty scan that leaves it out, because only that shows the others.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn settle<E>(self, mut look: impl FnMut(Self) -> Result<Self, E>) -> Result<Self, E> {
        let mut scans = vec![self];
        while let Some(suspect) = scans.last().and_then(Self::suspect) {
            let excluded = scans.last().map(|scan| [&scan.excluded[..], &[suspect]].concat()).unwrap_or_default();
            scans.push(look(scans[0].empty_without(excluded))?);
        }
        let fills = scans.last().map(|last| last.fills(scans.len() - 1)).unwrap_or_default();
        // Without a suspect, the first scan leaves out what was given.
        let known = if scans.len() == 1 { Some(0) } else { scans.iter().position(|scan| scan.excluded == fills) };
        match known {
            Some(number) => Ok(scans.swap_remove(number)),
            None => look(scans[0].empty_without(fills)),
        }
    }

    /// Completes the scan of an array that was looked at elsewhere, of which `self` is the empty scan and `found` all
    /// elements. `look` looks at all of them once more, with the empty scan that it is given, which says what to leave
    /// out.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn settle_result<E>(
        self,
        found: &ScanResult,
        mut look: impl FnMut(&Self) -> Result<ScanResult, E>,
    ) -> Result<Self, E> {
        self.with(found).settle(|empty| {
            let found = look(&empty)?;
            Ok(empty.with(&found))
        })
    }

    /// The scan of elements that were looked at elsewhere.
    fn with(self, found: &ScanResult) -> Self {
        Self {
            stats: found.stats,
            first_nan: found.first_nan,
            single: found.single,
            samples_elsewhere: Some(found.samples),
            sampled: found.samples.count,
            sampled_too_large: found.samples.too_large,
            ..self
        }
    }

    /// An empty scan of the same array that leaves out these values.
    fn empty_without(&self, excluded: Vec<u64>) -> Self {
        // Values of a scan elsewhere come once.
        let values = if self.samples_elsewhere.is_some() { self.values.clone() } else { Vec::new() };
        Self { excluded, values, ..Self::new(self.element, self.len, self.bound, self.fill) }
    }

    /// Returns the bits of an extreme value that may be fill: one that stands out from the samples, or is well known.
    /// Of two, the one with the larger gap.
    fn suspect(&self) -> Option<u64> {
        // Beyond a value that turned out to be a single one, nothing else is looked for, unless it is well known.
        let is_single = |(&bits, &count): (&u64, &u64)| count < FEWEST_WELL_KNOWN && !self.is_well_known(bits);
        if !self.detects_fill() || self.excluded.iter().zip(&self.stats.excluded).any(is_single) {
            return None;
        }
        let (low, high) = self.stats.range()?;
        let of_own = || Samples::of(&self.samples, self.sampled_too_large, low, high);
        let samples = self.samples_elsewhere.unwrap_or_else(of_own);
        let lowest = if samples.at_lowest > 0 { Some(low) } else { samples.least_above };
        let highest = if samples.at_highest > 0 { Some(high) } else { samples.greatest_below };
        let candidates = [(low, false), (high, true)].into_iter().filter_map(|(extreme, above)| {
            let (first, last) = match above {
                true => (lowest.filter(|&key| key < extreme)?, samples.greatest_below?),
                false => (samples.least_above?, highest.filter(|&key| key > extreme)?),
            };
            let (value, first, last) = (self.value(extreme), self.value(first), self.value(last));
            let bits = self.bits(extreme);
            let suspected = self.is_well_known(bits) || (value - last).max(first - value) > 4.0 * (last - first);
            suspected.then_some((bits, if above { value - last } else { first - value }))
        });
        // The lower extreme wins a tie.
        let (bits, _) = candidates.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        // A value that only one element has is not fill. Unless it is well known, nothing is looked for beyond it, so
        // that another scan would change nothing.
        let single = self.single[usize::from(bits == self.bits(high))];
        (!(single && self.excluded.is_empty() && !self.is_well_known(bits))).then_some(bits)
    }

    /// Returns which of the first `count` values that this scan left out are fill, by what is left.
    fn fills(&self, count: usize) -> Vec<u64> {
        let Some((low, high)) = self.range() else { return Vec::new() };
        let is_fill = |(&bits, &count): (&u64, &u64)| self.is_fill(bits, count, low, high);
        let left_out = self.excluded.iter().zip(&self.stats.excluded).take(count);
        left_out.filter(|&pair| is_fill(pair)).map(|(&bits, _)| bits).collect()
    }

    /// Returns whether a value that so many elements hold is fill, if all others are in `low..=high`.
    fn is_fill(&self, bits: u64, count: u64, low: f64, high: f64) -> bool {
        let (value, range, known) = (self.value_of_bits(bits), high - low, self.is_well_known(bits));
        let gap = (low - value).max(value - high);
        let often = count >= 8.max(self.len / 1000) && gap > if known { 0.5 } else { 4.0 } * range;
        // It makes up more than 90 % of the range.
        let far = count >= if known { FEWEST_WELL_KNOWN } else { FEWEST } && gap > 9.0 * range;
        range > 0.0 && (often || far)
    }

    fn is_well_known(&self, bits: u64) -> bool {
        WELL_KNOWN_FILLS.iter().any(|&value| bits_of(self.element, value) == Some(bits))
    }
}
