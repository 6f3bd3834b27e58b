//! Statistics of fields and of streams of symbols.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

/// Returns the difference between the largest and the smallest finite value; 0 if there is none.
pub fn range(values: impl ParallelIterator<Item = f64>) -> f64 {
    let (low, high) = ends(values);
    if low <= high { high - low } else { 0.0 }
}

/// Returns the smallest and the largest finite value; infinity and minus infinity if there is none.
pub fn ends(values: impl ParallelIterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite()).map(|value| (value, value));
    finite.reduce(|| (f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Returns the number of occurrences of each 16-bit symbol, up to the largest one that occurs.
pub fn histogram(symbols: &[u16]) -> Vec<u64> {
    let mut counts = symbols
        .par_chunks(1 << 20)
        .map(|chunk| {
            let mut counts = vec![0u64; 1 << 16];
            chunk.iter().for_each(|&s| counts[s as usize] += 1);
            counts
        })
        .reduce(Vec::new, |a, b| {
            let (mut long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
            long.iter_mut().zip(short).for_each(|(l, s)| *l += s);
            long
        });
    counts.truncate(counts.iter().rposition(|&c| c > 0).map_or(0, |last| last + 1));
    counts
}

/// Returns the mean codeword length in bits of a Huffman code without length limit for these counts, which is the
/// minimum for a stream of codewords. One bit for a single symbol, 0 for none.
pub fn huffman_bits(counts: &[u64]) -> f64 {
    let mut heap: BinaryHeap<Reverse<u64>> = counts.iter().filter(|&&c| c > 0).map(|&c| Reverse(c)).collect();
    let total: u64 = counts.iter().sum();
    if heap.len() < 2 {
        return heap.len() as f64;
    }
    let mut bits = 0u64;
    while let (Some(Reverse(a)), Some(Reverse(b))) = (heap.pop(), heap.pop()) {
        bits += a + b;
        if heap.is_empty() {
            break;
        }
        heap.push(Reverse(a + b));
    }
    bits as f64 / total as f64
}

/// Returns the largest absolute error `b - a` over positions where `a` is finite. It is infinite if `b` is not finite
/// at such a position, or if the lengths differ.
pub fn max_error(a: impl IndexedParallelIterator<Item = f64>, b: impl IndexedParallelIterator<Item = f64>) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    let error = |(a, b): (f64, f64)| {
        let error = (a - b).abs();
        match (a.is_finite(), error.is_nan()) {
            (false, _) => 0.0,
            (_, true) => f64::INFINITY,
            _ => error,
        }
    };
    a.zip(b).map(error).reduce(|| 0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_and_error_take_finite_values_only() {
        let range = |values: &[f64]| range(values.par_iter().copied());
        assert_eq!(range(&[f64::NAN, 3.0, f64::INFINITY, -1.5]), 4.5);
        assert_eq!(range(&[f64::NAN]), 0.0);
        let max_error = |a: &[f64], b: &[f64]| max_error(a.par_iter().copied(), b.par_iter().copied());
        assert_eq!(max_error(&[1.0, f64::NAN], &[1.5, 2.0]), 0.5);
        assert_eq!(max_error(&[1.0], &[f64::NAN]), f64::INFINITY);
        assert_eq!(max_error(&[1.0], &[]), f64::INFINITY);
        assert_eq!(max_error(&[1.0, 2.0, f64::INFINITY], &[1.5, 1.0, 0.0]), 1.0);
        assert_eq!(max_error(&[], &[]), 0.0);
    }

    #[test]
    fn huffman_bits_of_known_codes() {
        assert_eq!(huffman_bits(&[]), 0.0);
        assert_eq!(huffman_bits(&[0, 5, 0]), 1.0);
        assert_eq!(huffman_bits(&[3, 1]), 1.0);
        assert_eq!(huffman_bits(&[4, 2, 1, 1]), 1.75);
        assert_eq!(huffman_bits(&[7; 256]), 8.0);
    }

    #[test]
    fn histogram_counts_every_chunk() {
        let symbols: Vec<u16> = (0..3 << 20).map(|i| (i % 3) as u16 * 500).collect();
        let counts = histogram(&symbols);
        assert_eq!(counts.len(), 1001);
        assert_eq!((counts[0], counts[500], counts[1000]), (1 << 20, 1 << 20, 1 << 20));
    }
}
