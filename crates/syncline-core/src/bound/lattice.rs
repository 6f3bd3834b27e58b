//! Numbers of which the values of an array are whole multiples, such as 1 for integers, or 0.001 for decimal numbers.
//!
//! A few values of the array propose such a number. The quantizer checks every value, and stores those that are no
//! multiples verbatim, so that a wrong proposal costs bytes but never the bound.

/// The most values of an array that propose a number.
pub const MOST_VALUES: u64 = 2048;

/// Values that are looked at first, because they suffice to refuse most arrays.
const FIRST_VALUES: usize = 256;

/// The smallest difference of two values may be this many times the number, or fewer.
const MOST_STEPS: u32 = 4;

/// Returns the number of which these values of an array are whole multiples, to within a quarter of `bound`, if there
/// is one that is more than twice the bound. `rounding` is half a unit in the last place of the values, relative.
pub fn spacing(values: &[f64], bound: f64, rounding: f64) -> Option<f64> {
    let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let noise = 4.0 * rounding * largest;
    let smallest_gap = |values: &[f64]| -> Option<f64> {
        let gaps = values.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > noise);
        gaps.min_by(f64::total_cmp).filter(|&gap| gap > 2.0 * bound)
    };
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    smallest_gap(&sorted(&values[..values.len().min(FIRST_VALUES)]))?;
    let values = sorted(values);
    let gap = smallest_gap(&values)?;
    let candidates = (1..=MOST_STEPS).map(|steps| gap / f64::from(steps)).filter(|&spacing| spacing > 2.0 * bound);
    let refined =
        candidates.filter_map(|spacing| refine(&values, spacing)).map(|spacing| simplest(spacing, largest, noise));
    refined.filter(|&spacing| spacing > 2.0 * bound).find(|spacing| {
        values.iter().all(|value| (value - (value / spacing).round_ties_even() * spacing).abs() < bound / 4.0)
    })
}

/// Returns a number that is close to `spacing` and of which the ascending values are whole multiples, as far as that
/// can be found. The larger a multiple, the better known is the number.
fn refine(values: &[f64], mut spacing: f64) -> Option<f64> {
    let (first, last) = (*values.first()?, *values.last()?);
    let largest = if first.abs() > last.abs() { first } else { last };
    let from_first = values.iter().map(|value| value - first);
    for distance in from_first.chain([largest.abs()]) {
        let steps = (distance / spacing).round_ties_even();
        if (distance - steps * spacing).abs() > spacing / 4.0 {
            return None;
        }
        if steps > 0.0 {
            spacing = distance / steps;
        }
    }
    Some(spacing)
}

/// Returns the number with the fewest decimal digits that differs so little from `spacing` that its multiples are the
/// same values.
fn simplest(spacing: f64, largest: f64, noise: f64) -> f64 {
    let steps = largest / spacing;
    let rounded = (0..16).map(|digits| format!("{spacing:.digits$e}").parse().unwrap_or(spacing));
    rounded.into_iter().find(|rounded: &f64| (rounded - spacing).abs() * steps < noise).unwrap_or(spacing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SINGLE: f64 = 1.0 / (1 << 24) as f64;

    #[test]
    fn decimal_numbers_are_found_among_their_multiples() {
        for (unit, offset, step) in
            [(1.0, 0, 37), (0.001, -2000, 7), (3.28, 1359, 3), (0.25, 40_000, 11), (600.0, 0, 1)]
        {
            let values: Vec<f64> =
                (0..2000).map(|i| f64::from(((offset + i * step % 3001) as f64 * unit) as f32)).collect();
            assert_eq!(spacing(&values, unit / 2.5, SINGLE), Some(unit));
            assert_eq!(spacing(&values, unit / 1.9, SINGLE), None, "{unit} is not more than twice the bound");
        }
        // The smallest difference is twice the number.
        assert_eq!(spacing(&[0.0, 5.0, 3.0, 9.0], 0.1, SINGLE), Some(1.0));
    }

    #[test]
    fn values_that_are_no_multiples_have_no_spacing() {
        let wave: Vec<f64> = (0..2000).map(|i| f64::from((f64::from(i) * 0.37).sin() as f32)).collect();
        for bound in [1e-2, 1e-4, 1e-6, 1e-9] {
            assert_eq!(spacing(&wave, bound, SINGLE), None, "{bound}");
        }
        let shifted: Vec<f64> = (0..2000).map(|i| f64::from(i) + 0.5 + 0.1).collect();
        for values in [&[][..], &[0.0], &[7.5; 9], &[0.0, -0.0], &shifted] {
            assert_eq!(spacing(values, 0.01, SINGLE), None);
        }
    }

    proptest! {
        #[test]
        fn values_are_multiples_of_what_is_returned(
            values in prop::collection::vec(prop_oneof![(-99..99i32).prop_map(f64::from), -1e3..1e3f64], 0..30),
            bound in 1e-6..1.0f64,
        ) {
            if let Some(spacing) = spacing(&values, bound, SINGLE) {
                prop_assert!(spacing > 2.0 * bound);
                for value in values {
                    prop_assert!((value - (value / spacing).round() * spacing).abs() < bound / 4.0);
                }
            }
        }
    }
}
