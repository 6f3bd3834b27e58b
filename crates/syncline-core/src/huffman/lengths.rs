//! Code lengths from frequencies: the two-queue method, then a limit.
//!
//! **Order.** Used symbols are sorted by (frequency, symbol). Of the fronts of the two queues (leaves, merged nodes)
//! the smaller goes first, the leaf when they tie. Depths then never rise along the order, so the number of leaves at
//! each depth says everything: the rarest symbols get the longest codes, in order.
//!
//! **Limit.** With limit L: (1) every depth over L becomes L; the Kraft sum, in units of 2^-L, is then `2^L + excess`.
//! (2) `excess` times: take a leaf from the deepest level d < L that has one, put it and one leaf of level L at level
//! d + 1. (A leaf at d becomes a node with two leaves; one of them comes from level L, which frees one unit.) The
//! result is a complete code; the rarest symbols get its longest lengths. (3) If its bits are more than 2049/2048 of
//! those without a limit, which no limited code can beat, then (1) and (2) are tried with every frequency raised to at
//! least
//! `total * (4 + i mod 4) >> (L + 4 - i / 4)` for i = 0 to [`FLOORS`] - 1 (quarter steps from `total / 2^(L+2)` to
//! seven times `total / 2^L`), and the code with the fewest bits, counted with the true frequencies, is taken, the
//! earlier of equals.
//!
//! Only about twenty counters take part in (1) and (2), and the tries of (3) are independent of each other: nothing for
//! a GPU to wait for. Real residuals never get to (3): what is over the limit is too rare.
//!
//! `excess` stays below the number of leaves at level L throughout: each subtree cut off at L has m >= 2 leaves and
//! adds m - 1 to the excess.
//!
//! Measured against package-merge in the tests: at most 0.03 % longer, on geometric, power-law, flat, random and
//! Fibonacci frequencies.

/// Longest codeword that any stream has.
pub const MAX_LENGTH: u32 = 20;

/// Depth of a Huffman tree over 2^16 frequencies below 2^32: a tree of depth d needs the d-th Fibonacci number as
/// total.
const MAX_DEPTH: usize = 72;

/// Tries of step (3).
pub const FLOORS: u32 = 20;

/// Returns the maximum codeword length in bits for a codebook of `used` symbols.
pub fn limit_for(used: usize) -> u32 {
    if used > 4096 { MAX_LENGTH } else { 16 }
}

/// Buffers that are reused from codebook to codebook.
#[derive(Debug, Default)]
pub struct LengthScratch {
    order: Vec<u64>,
    weights: Vec<u64>,
    parents: Vec<u32>,
}

/// Computes the code length of each symbol in bits, 0 for symbols that do not occur, limited by [`limit_for`]. The last
/// entry is not 0.
///
/// `frequencies` has at most 2^16 entries.
pub fn code_lengths(frequencies: &[u32], scratch: &mut LengthScratch, lengths: &mut Vec<u8>) {
    let used = frequencies.iter().filter(|&&f| f > 0).count();
    code_lengths_limited(frequencies, limit_for(used), scratch, lengths);
}

/// Computes [`code_lengths`] with the given limit, which is at least the base-2 logarithm of the number of used
/// symbols.
pub fn code_lengths_limited(frequencies: &[u32], limit: u32, scratch: &mut LengthScratch, lengths: &mut Vec<u8>) {
    debug_assert!(frequencies.len() <= 1 << 16);
    let order = &mut scratch.order;
    order.clear();
    // Most symbols of a wide alphabet do not occur.
    let pieces = (0..).step_by(PIECE).zip(frequencies.chunks(PIECE));
    // No search that ends early: it would not be compiled for vectors.
    for (first, piece) in pieces.filter(|(_, piece)| piece.iter().fold(0, |bits, f| bits | f) != 0) {
        let symbols = (first..).zip(piece).filter(|(_, f)| **f > 0);
        order.extend(symbols.map(|(symbol, &f): (u64, _)| u64::from(f) << 16 | symbol));
    }
    lengths_of_order(limit, scratch, lengths);
}

/// Computes [`code_lengths`] of the symbols in a list, which it sorts, and returns the bits of all their codewords. For
/// short lists of symbols of a wide alphabet this is faster than counting in an array of frequencies.
pub fn code_lengths_of_list(symbols: &mut [u16], scratch: &mut LengthScratch, lengths: &mut Vec<u8>) -> u64 {
    symbols.sort_unstable();
    let order = &mut scratch.order;
    order.clear();
    order.extend(symbols.chunk_by(|a, b| a == b).map(|equal| (equal.len() as u64) << 16 | u64::from(equal[0])));
    lengths_of_order(limit_for(order.len()), scratch, lengths);
    scratch.order.iter().map(|&entry| (entry >> 16) * u64::from(lengths[(entry & 0xffff) as usize])).sum()
}

/// Computes the lengths of the used symbols, which ascend with their frequencies in the scratch memory.
fn lengths_of_order(limit: u32, scratch: &mut LengthScratch, lengths: &mut Vec<u8>) {
    let order = &mut scratch.order;
    lengths.clear();
    let Some(last) = order.last().map(|&entry| (entry & 0xffff) as usize) else { return };
    lengths.resize(last + 1, 0);
    if order.len() == 1 {
        lengths[last] = 1;
        return;
    }
    debug_assert!(order.len() <= 1 << limit);
    sort(order);
    let leaves = limited_leaves(order, limit, &mut scratch.weights, &mut scratch.parents);
    let mut rarest_first = order.iter();
    for length in (1..=limit as usize).rev() {
        for entry in rarest_first.by_ref().take(leaves[length] as usize) {
            lengths[(entry & 0xffff) as usize] = length as u8;
        }
    }
}

/// Frequencies that are looked at together.
const PIECE: usize = 16;

/// Frequencies up to this one are sorted by counting.
const COUNTED: usize = 1024;

/// Sorts what ascends by symbol already. In wide alphabets nearly all frequencies are small and many are equal.
fn sort(order: &mut Vec<u64>) {
    if order.len() < 4 * COUNTED {
        return order.sort_unstable();
    }
    let bucket = |entry: u64| ((entry >> 16) as usize).min(COUNTED);
    let mut places = [0u32; COUNTED + 1];
    order.iter().for_each(|&entry| places[bucket(entry)] += 1);
    let mut sum = 0;
    places.iter_mut().for_each(|place| sum += std::mem::replace(place, sum));
    let rare = places[COUNTED] as usize;
    let mut sorted = vec![0; order.len()];
    for &entry in order.iter() {
        let place = &mut places[bucket(entry)];
        sorted[*place as usize] = entry;
        *place += 1;
    }
    sorted[rare..].sort_unstable();
    *order = sorted;
}

/// Returns the number of leaves of the code at each depth, after limiting the depth.
fn limited_leaves(order: &[u64], limit: u32, weights: &mut Vec<u64>, parents: &mut Vec<u32>) -> [u32; MAX_DEPTH] {
    let mut best = leaves_per_depth(order, 0, weights, parents);
    if !limit_depths(&mut best, limit as usize) {
        return best;
    }
    // The frequency of a leaf at depth d is included in d merged nodes.
    let unlimited: u64 = weights.iter().sum();
    let mut best_bits = coded_bits(order, &best);
    if best_bits <= unlimited + unlimited / 2048 {
        return best;
    }
    let total = weights.last().copied().unwrap_or(0);
    for i in 0..FLOORS {
        let mut leaves = leaves_per_depth(
            order,
            (total * u64::from(4 + i % 4)) >> (limit + 4).saturating_sub(i / 4),
            weights,
            parents,
        );
        limit_depths(&mut leaves, limit as usize);
        let bits = coded_bits(order, &leaves);
        if bits < best_bits {
            (best, best_bits) = (leaves, bits);
        }
    }
    best
}

/// Returns the number of bits of all codewords of a code with these numbers of leaves at each depth.
fn coded_bits(order: &[u64], leaves: &[u32; MAX_DEPTH]) -> u64 {
    let mut rarest_first = order.iter().map(|entry| entry >> 16);
    let levels = leaves.iter().enumerate().rev();
    levels.map(|(depth, &n)| depth as u64 * rarest_first.by_ref().take(n as usize).sum::<u64>()).sum()
}

/// Builds a tree from at least two sorted `(frequency << 16) | symbol` with the two-queue method, after raising
/// frequencies to `floor`. Returns the number of leaves at each depth.
fn leaves_per_depth(order: &[u64], floor: u64, weights: &mut Vec<u64>, parents: &mut Vec<u32>) -> [u32; MAX_DEPTH] {
    let nodes = order.len() - 1;
    weights.clear();
    weights.reserve(nodes);
    parents.clear();
    parents.resize(nodes, 0);
    let (mut leaf, mut node) = (0, 0);
    for parent in 0..nodes {
        let mut weight = 0;
        for _ in 0..2 {
            let front = weights.get(node).copied().unwrap_or(u64::MAX);
            // Merged nodes hold plain sums, leaves carry their symbol in the low bits.
            match order.get(leaf).map(|&entry| (entry >> 16).max(floor)) {
                Some(frequency) if frequency <= front => {
                    weight += frequency;
                    leaf += 1;
                }
                _ => {
                    weight += front;
                    parents[node] = parent as u32;
                    node += 1;
                }
            }
        }
        weights.push(weight);
    }
    // From the root (the last node) down; `parents` turns into depths.
    let mut nodes_at = [0u32; MAX_DEPTH];
    parents[nodes - 1] = 0;
    nodes_at[0] = 1;
    for i in (0..nodes - 1).rev() {
        let depth = parents[parents[i] as usize] + 1;
        parents[i] = depth;
        nodes_at[depth as usize] += 1;
    }
    std::array::from_fn(|depth| if depth == 0 { 0 } else { 2 * nodes_at[depth - 1] - nodes_at[depth] })
}

/// Steps (1) and (2) of the limit; whether there was anything to do.
fn limit_depths(leaves: &mut [u32; MAX_DEPTH], limit: usize) -> bool {
    let over: u32 = leaves[limit + 1..].iter().sum();
    if over == 0 {
        return false;
    }
    leaves[limit + 1..].fill(0);
    leaves[limit] += over;
    let kraft: u64 = (1..=limit).map(|depth| u64::from(leaves[depth]) << (limit - depth)).sum();
    for _ in 0..kraft - (1 << limit) {
        // Because there is an excess, some leaf is not at the limit.
        let Some(depth) = (1..limit).rev().find(|&depth| leaves[depth] > 0) else { break };
        leaves[depth] -= 1;
        leaves[depth + 1] += 2;
        leaves[limit] -= 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    /// Computes optimal lengths under a limit by package-merge (Larmore and Hirschberg, 1990), as coin collecting. This
    /// is the oracle of the tests.
    fn package_merge_bits(frequencies: &[u32], limit: u32) -> u64 {
        let mut leaves: Vec<u64> = frequencies.iter().filter(|&&f| f > 0).map(|&f| f.into()).collect();
        leaves.sort_unstable();
        // The bits of all codewords are the weight of the chosen coins, so the leaves of a package need not be
        // recorded.
        let mut coins: Vec<u64> = Vec::new();
        for _ in 0..limit {
            coins = coins.chunks_exact(2).map(|pair| pair[0] + pair[1]).chain(leaves.iter().copied()).collect();
            coins.sort_unstable();
        }
        coins[..2 * leaves.len() - 2].iter().sum()
    }

    fn bits(frequencies: &[u32], lengths: &[u8]) -> u64 {
        frequencies.iter().zip(lengths).map(|(&f, &l)| u64::from(f) * u64::from(l)).sum()
    }

    fn families() -> Vec<(String, Vec<u32>)> {
        let mut r = Random(31);
        let mut all = vec![
            ("two".into(), vec![1, 1_000_000]),
            ("flat".into(), vec![7; 300]),
            ("flat with one large".into(), std::iter::once(1 << 20).chain(vec![1; 700]).collect()),
        ];
        for n in [20, 24, 30] {
            let mut f = vec![1u32, 1];
            while f.len() < n {
                f.push(f[f.len() - 1] + f[f.len() - 2]);
            }
            all.push((format!("fibonacci {n}"), f));
        }
        for n in [50, 300, 1000] {
            for power in [0.8, 1.5, 3.0] {
                let f = (1..=n).map(|i| (2e6 / f64::from(i).powf(power)) as u32).map(|f| f.max(1)).collect();
                all.push((format!("power {power}, {n}"), f));
            }
            for keep in [0.3f64, 0.6, 0.9, 0.99] {
                let f = (0..n).map(|i| (2e6 * (1.0 - keep) * keep.powi(i)) as u32).map(|f| f.max(1)).collect();
                all.push((format!("geometric {keep}, {n}"), f));
            }
            let f = (0..n).map(|_| 1u32 << r.below(21)).collect();
            all.push((format!("random powers of two, {n}"), f));
        }
        all
    }

    #[test]
    fn limited_code_is_within_a_thousandth_of_the_optimum() {
        let (mut scratch, mut lengths) = (LengthScratch::default(), Vec::new());
        for (what, frequencies) in families() {
            code_lengths(&frequencies, &mut scratch, &mut lengths);
            let (ours, best) = (bits(&frequencies, &lengths), package_merge_bits(&frequencies, 16));
            assert!(ours >= best && (ours - best) * 1000 <= best, "{what}: {ours} bits, {best} are enough");
            let kraft: u64 = lengths.iter().filter(|&&l| l > 0).map(|&l| 1u64 << (16 - l)).sum();
            assert_eq!(kraft, 1 << 16, "{what}");
        }
    }

    #[test]
    fn sorting_by_counting_sorts() {
        let mut r = Random(5);
        for most in [3, 1023, 1025, 1 << 20] {
            let mut order: Vec<u64> = (0..9000).map(|symbol| (1 + r.below(most)) << 16 | symbol).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            sort(&mut order);
            assert!(order == sorted, "{most}");
        }
    }

    #[test]
    fn without_a_limit_in_reach_it_is_huffmans_optimum() {
        let (mut scratch, mut lengths) = (LengthScratch::default(), Vec::new());
        for (what, frequencies) in families().into_iter().filter(|f| f.1.len() <= 60) {
            code_lengths_limited(&frequencies, 20, &mut scratch, &mut lengths);
            let longest = lengths.iter().max().copied().unwrap();
            if longest < 20 {
                assert_eq!(bits(&frequencies, &lengths), package_merge_bits(&frequencies, 20), "{what}");
            }
        }
    }

    #[test]
    fn edges_and_ties() {
        let (mut scratch, mut lengths) = (LengthScratch::default(), Vec::new());
        code_lengths(&[], &mut scratch, &mut lengths);
        assert!(lengths.is_empty());
        code_lengths(&[0, 0], &mut scratch, &mut lengths);
        assert!(lengths.is_empty());
        code_lengths(&[0, 9, 0], &mut scratch, &mut lengths);
        assert_eq!(lengths, [0, 1]);
        // 1 + 1 = 2 ties with the leaf of 2: the leaf goes first, so the tree is as flat as it can be.
        code_lengths(&[1, 1, 2, 2], &mut scratch, &mut lengths);
        assert_eq!(lengths, [2, 2, 2, 2]);
        code_lengths(&vec![u32::MAX; 1 << 16], &mut scratch, &mut lengths);
        assert!(lengths.iter().all(|&l| l == 16));
    }

    #[test]
    fn tight_limits_are_kept() {
        let (mut scratch, mut lengths) = (LengthScratch::default(), Vec::new());
        for used in 2..200usize {
            let frequencies: Vec<u32> = (0..used).map(|i| 1 << (i % 31)).collect();
            let limit = used.next_power_of_two().trailing_zeros();
            code_lengths_limited(&frequencies, limit, &mut scratch, &mut lengths);
            let kraft: u64 = lengths.iter().map(|&l| 1u64 << (limit - u32::from(l))).sum();
            assert_eq!(kraft, 1 << limit);
        }
        // Most symbols of the widest alphabet, very uneven.
        let mut r = Random(8);
        let frequencies: Vec<u32> = (0..1 << 16).map(|_| 1 + (1u32 << 24 >> r.below(25))).collect();
        code_lengths(&frequencies, &mut scratch, &mut lengths);
        assert!(lengths.iter().all(|&l| (1..=20).contains(&l)));
    }
}
