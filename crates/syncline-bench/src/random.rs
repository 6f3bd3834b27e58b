//! Random numbers by position: the value at an index depends on the seed and the index only, so that rows can be filled
//! by any number of threads in any order.

/// The increment of splitmix64 (2^64 over the golden ratio, odd).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Another odd constant, so that streams of lanes do not overlap those of indices.
const LANE: u64 = 0xD1B5_4A32_D192_ED03;

/// A stream of random numbers with random access: splitmix64 with its state computed from the index.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// Returns the stream of this seed.
    pub const fn new(seed: u64) -> Self {
        Self { key: mix(seed.wrapping_add(GOLDEN)) }
    }

    /// Returns an independent stream for one row, block or particle.
    pub const fn split(self, lane: u64) -> Self {
        Self { key: mix(self.key.wrapping_add(lane.wrapping_add(1).wrapping_mul(LANE))) }
    }

    /// Returns 64 random bits.
    pub const fn bits(self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// Returns a uniformly distributed number in [0, 1) with 53 random bits.
    pub fn uniform(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns a uniformly distributed integer in `0..bound`; the bias is below bound / 2^64.
    ///
    /// # Panics
    /// Panics if `bound` is 0.
    pub fn below(self, index: u64, bound: u64) -> u64 {
        assert!(bound > 0, "an integer below 0 does not exist");
        ((self.bits(index) as u128 * bound as u128) >> 64) as u64
    }

    /// Returns two independent standard normal numbers (Box-Muller; 32 bits each, so up to 6.7 standard deviations).
    pub fn normal_pair(self, index: u64) -> (f32, f32) {
        let bits = self.bits(index);
        let unit = ((bits >> 32) as f32 + 0.5) * (1.0 / 4_294_967_296.0);
        let angle = (bits as u32) as f32 * (std::f32::consts::TAU / 4_294_967_296.0);
        let radius = (-2.0 * unit.min(1.0).ln()).sqrt();
        let (sin, cos) = angle.sin_cos();
        (radius * cos, radius * sin)
    }

    /// Returns a standard normal number.
    pub fn normal(self, index: u64) -> f32 {
        self.normal_pair(index).0
    }

    /// Shuffles a slice (Fisher-Yates).
    pub fn shuffle<T>(self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64, i as u64 + 1) as usize);
        }
    }
}

/// Applies the output function of splitmix64, a bijection of 64 bits in which each input bit affects all output bits.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_unit_variance_and_light_tails() {
        let stream = Stream::new(7);
        let n = 200_000;
        let (mut sum, mut square, mut cross, mut beyond_two) = (0.0, 0.0, 0.0, 0);
        for i in 0..n {
            let (a, b) = stream.normal_pair(i);
            sum += f64::from(a + b);
            square += f64::from(a * a + b * b);
            cross += f64::from(a * b);
            beyond_two += u32::from(a.abs() > 2.0) + u32::from(b.abs() > 2.0);
        }
        let n = n as f64;
        assert!((sum / (2.0 * n)).abs() < 0.01);
        assert!((square / (2.0 * n) - 1.0).abs() < 0.01);
        assert!((cross / n).abs() < 0.01);
        assert!((f64::from(beyond_two) / (2.0 * n) - 0.0455).abs() < 0.002);
    }

    #[test]
    fn streams_and_lanes_differ() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..20 {
            for lane in 0..20 {
                for index in 0..20 {
                    assert!(seen.insert(Stream::new(seed).split(lane).bits(index)));
                }
            }
        }
    }

    #[test]
    fn shuffle_is_a_permutation_that_moves() {
        let mut items: Vec<u32> = (0..1000).collect();
        Stream::new(3).shuffle(&mut items);
        assert!(items.iter().enumerate().filter(|(i, v)| *i as u32 == **v).count() < 20);
        items.sort_unstable();
        assert!(items.iter().enumerate().all(|(i, v)| i as u32 == *v));
    }
}
