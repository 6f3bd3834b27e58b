//! Activity classes: quarters of tiles or groups by the sum of the magnitudes of their codes (`docs/ENCODER.md`).

/// Bins of activities.
const BINS: usize = 2 * 64 + 1;

/// Returns the bin of an activity: two to a power of two.
pub fn bin(activity: u64) -> usize {
    match activity.checked_ilog2() {
        None => 0,
        Some(0) => 1,
        Some(log) => 2 * log as usize + (activity >> (log - 1) & 1) as usize + 1,
    }
}

/// Returns the class, 0 to 3, of each bin for these activities.
pub fn classes(activities: impl Iterator<Item = u64>) -> [u8; BINS] {
    let mut counts = [0u64; BINS];
    activities.for_each(|activity| counts[bin(activity)] += 1);
    let total: u64 = counts.iter().sum();
    let mut below = 0u64;
    counts.map(|count| {
        let class = (4 * below).checked_div(total).unwrap_or(0);
        below += count;
        class.min(3) as u8
    })
}
