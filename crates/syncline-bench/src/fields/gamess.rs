use rayon::prelude::*;

use super::{Field, Generator, volume};
use crate::random::Stream;

/// Number of integrals of the original.
const INTEGRALS: usize = 80_265_168;
/// Number of functions of a d shell, and of a pair of shells; a quartet (dd|dd) is a block of 36 x 36 integrals.
const SHELL: usize = 6;
const PAIR: usize = SHELL * SHELL;
const BLOCK: usize = PAIR * PAIR;
/// Number of consecutive quartets with the same first pair.
const RUN: usize = 24;
/// Number of decades by which the magnitude of a pair decreases with the distance of its shells.
const DECADES: f32 = 7.0;
/// Share of pairs with a common center, whose magnitude is the largest.
const ONE_CENTER: f64 = 0.09;
/// Number of decades by which the functions of a pair differ.
const SPREAD: f32 = 2.2;

/// Returns blocks of two-electron integrals: each is approximately an outer product of the magnitudes of two pairs, so
/// that values occur in bursts over many orders of magnitude, most of them tiny compared with the largest.
pub(super) fn integrals(scale: f64) -> Field {
    let count = volume(INTEGRALS, scale);
    let mut values = vec![0f32; count];
    values.par_chunks_mut(BLOCK).enumerate().for_each(|(block, out)| {
        let bra = pair(Stream::new(91).split((block / RUN) as u64));
        let ket = pair(Stream::new(92).split(block as u64));
        let rough = Stream::new(93).split(block as u64);
        for (i, v) in out.iter_mut().enumerate() {
            // The pattern of a row is only approximately that of the other rows.
            *v = bra[i / PAIR] * ket[i % PAIR] * (1.0 + 0.02 * rough.normal(i as u64));
        }
    });
    Field::new(Generator::Gamess, values, &[count], 1)
}

/// Returns the signed magnitudes of the products of two shells' functions, at most about 1.
fn pair(stream: Stream) -> [f32; PAIR] {
    let far = if stream.uniform(0) < ONE_CENTER { 0.0 } else { stream.uniform(1) as f32 };
    let size = 10f32.powf(-DECADES * far);
    std::array::from_fn(|f| {
        let index = 2 + 2 * f as u64;
        let decades = SPREAD * stream.uniform(index) as f32;
        // Products of a function with itself are positive and among the largest.
        let own = f / SHELL == f % SHELL;
        let sign = if own || stream.bits(index + 1) & 1 == 0 { 1.0 } else { -1.0 };
        sign * size * if own { 1.0 } else { 10f32.powf(-decades) }
    })
}
