//! Samples of one element of each interval.

/// Returns the place of the sampled element of interval number `interval`, among the `len` elements of an interval. It
/// changes irregularly from interval to interval, so that a sample does not follow a pattern of the elements: multiples
/// of a number close to 2^32 divided by the golden ratio, modulo 2^32, as shares of an interval.
pub fn place_in_interval(interval: u32, len: u64) -> u64 {
    let turn = u128::from(interval.wrapping_mul(2_654_435_769));
    ((turn * u128::from(len)) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_their_intervals_and_spread_evenly() {
        for len in [1, 2, 64, 1000, u64::MAX] {
            assert!((0..1000).all(|interval| place_in_interval(interval, len) < len));
        }
        let mut counts = [0; 16];
        (0..1600).for_each(|interval| counts[place_in_interval(interval, 16) as usize] += 1);
        assert!(counts.iter().all(|count| (95..=105).contains(count)), "{counts:?}");
    }
}
