//! Samples of one element of each lot.

/// Returns the place of the sampled element of lot number `lot`, among the `len` elements of a lot. It changes
/// irregularly from lot to lot, so that a sample does not follow a pattern of the elements: multiples of a number close
/// to 2^32 divided by the golden ratio, modulo 2^32, as shares of a lot.
pub fn place_in_lot(lot: u32, len: u64) -> u64 {
    let turn = u128::from(lot.wrapping_mul(2_654_435_769));
    ((turn * u128::from(len)) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_their_lots_and_spread_evenly() {
        for len in [1, 2, 64, 1000, u64::MAX] {
            assert!((0..1000).all(|lot| place_in_lot(lot, len) < len));
        }
        let mut counts = [0; 16];
        (0..1600).for_each(|lot| counts[place_in_lot(lot, 16) as usize] += 1);
        assert!(counts.iter().all(|count| (95..=105).contains(count)), "{counts:?}");
    }
}
