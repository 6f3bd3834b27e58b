//! Generators of arrays of one axis: times of events, and weights of a neural network.

use rayon::prelude::*;

use crate::random::Stream;

/// Number of times that are generated from one seed; blocks follow each other.
const BLOCK: usize = 1 << 16;
/// Mean microseconds between two events.
const MEAN_GAP: f64 = 5_000.0;
/// Microseconds from 1970 to the first event.
const FIRST: i64 = 1_700_000_000_000_000;
/// Standard deviation of weights, as initializations of layers with some thousand inputs have it.
const DEVIATION: f32 = 0.02;

/// Returns ascending times in microseconds since 1970, with exponentially distributed gaps.
pub fn timestamps(count: usize, seed: u64) -> Vec<i64> {
    let stream = Stream::new(seed);
    let gap = |i: usize| (-(1.0 - stream.uniform(i as u64)).ln() * MEAN_GAP) as i64;
    let mut times: Vec<i64> = (0..count).into_par_iter().map(gap).collect();
    let mut ends: Vec<i64> = times.par_chunks(BLOCK).map(|block| block.iter().sum()).collect();
    let mut now = FIRST;
    for end in &mut ends {
        (*end, now) = (now, now + *end);
    }
    times.par_chunks_mut(BLOCK).zip(ends).for_each(|(block, mut now)| {
        for time in block {
            now += *time;
            *time = now;
        }
    });
    times
}

/// Returns normally distributed weights.
pub fn weights(count: usize, seed: u64) -> Vec<f32> {
    let stream = Stream::new(seed);
    (0..count).into_par_iter().map(|i| stream.normal(i as u64) * DEVIATION).collect()
}

/// Returns weights rounded to bf16, as bits.
pub fn half_weights(count: usize, seed: u64) -> Vec<u16> {
    let rounded = |weight: f32| {
        let bits = weight.to_bits();
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    };
    weights(count, seed).into_par_iter().map(rounded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend_by_the_mean_gap_across_blocks() {
        let times = timestamps(3 * BLOCK + 5, 1);
        assert!(times.is_sorted() && times[0] >= FIRST);
        let mean = (times[3 * BLOCK] - FIRST) as f64 / (3 * BLOCK) as f64;
        assert!((mean / MEAN_GAP - 1.0).abs() < 0.02, "{mean}");
        assert!(times[BLOCK - 1..=BLOCK].windows(2).all(|pair| pair[1] - pair[0] < 100 * MEAN_GAP as i64));
    }

    #[test]
    fn half_weights_are_the_weights_rounded_to_eight_bits() {
        let (weights, halves) = (weights(5_000, 3), half_weights(5_000, 3));
        for (weight, half) in weights.iter().zip(halves) {
            let rounded = f32::from_bits(u32::from(half) << 16);
            assert!((weight - rounded).abs() <= weight.abs() / 256.0, "{weight} {rounded}");
        }
    }
}
