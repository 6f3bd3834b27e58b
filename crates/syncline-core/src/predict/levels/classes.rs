//! The levels of a block, and the classes of their elements.

use crate::simd::{self, InstructionSet, Kernel};

/// The classes of a level in the order in which they are predicted: bit `a` is set of those whose coordinates along
/// axis `a` are odd. First come the classes with one such axis, then those with two, then that with three.
pub const PASSES: [usize; 7] = [1, 2, 4, 3, 5, 6, 7];

/// Values of each class of a level. Class 0 is the lattice of the next level.
pub type Classes<V> = [Vec<V>; 8];

/// A lattice of the elements of a block: all of them, or those of a coarser level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Elements along each axis, slowest first.
    pub extent: [usize; 3],
    /// Whether elements are interpolated along each axis. Along the last they are.
    pub halved: [bool; 3],
}

impl Level {
    /// Returns the extents of a class, which are 0 if the level has no such class.
    #[inline]
    pub fn class(&self, class: usize) -> [usize; 3] {
        std::array::from_fn(|axis| match (self.halved[axis], class >> axis & 1) {
            (true, 0) => self.extent[axis].div_ceil(2),
            (true, _) => self.extent[axis] / 2,
            (false, 0) => self.extent[axis],
            (false, _) => 0,
        })
    }

    /// Returns the number of elements of a class.
    pub fn class_len(&self, class: usize) -> usize {
        self.class(class).iter().product()
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.extent.iter().product()
    }

    /// Returns whether there is nothing to interpolate.
    fn is_anchors(&self) -> bool {
        (0..3).all(|axis| !self.halved[axis] || self.extent[axis] == 1)
    }
}

/// Returns the levels of a block, the finest first. Along the first axis nothing is interpolated if the block is in
/// slices. The class 0 of the last level are the anchors.
pub fn levels_of(extent: [usize; 3], slices: bool) -> Vec<Level> {
    let mut level = Level { extent, halved: [!slices, true, true] };
    let mut levels = Vec::new();
    while !level.is_anchors() {
        levels.push(level);
        level.extent = level.class(0);
    }
    levels
}

/// Copies class 0 of a level, the lattice of the next one.
///
/// # Panics
/// `from` has fewer elements than the level.
pub fn coarser<V: Copy>(from: &[V], level: &Level, out: &mut Vec<V>) {
    let [nz, ny, nx] = level.class(0);
    out.resize(nz * ny * nx, from[0]);
    simd::run(Coarser { from, level, out });
}

struct Coarser<'a, V> {
    from: &'a [V],
    level: &'a Level,
    out: &'a mut [V],
}

impl<V: Copy> Kernel for Coarser<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { from, level, out } = self;
        let [_, ny, nx] = level.class(0);
        for (number, row) in out.chunks_exact_mut(nx).enumerate() {
            take_row(from, level, 0, [number / ny, number % ny], 0, row);
        }
    }
}

/// Copies elements of row `[z, y]` of a class, from element `first` on, out of the elements of a level.
///
/// # Panics
/// The class has no such elements.
#[inline(always)]
pub fn take_row<V: Copy>(from: &[V], level: &Level, class: usize, [z, y]: [usize; 2], first: usize, out: &mut [V]) {
    let place = |axis: usize, at: usize| if level.halved[axis] { 2 * at + (class >> axis & 1) } else { at };
    let row = (place(0, z) * level.extent[1] + place(1, y)) * level.extent[2];
    let Some(last) = out.len().checked_sub(1) else { return };
    // The last element has none behind it in a row that ends with it.
    let from = &from[row + place(2, first)..][..2 * last + 1];
    let (pairs, end) = from.as_chunks::<2>();
    out.iter_mut().zip(pairs).for_each(|(out, pair)| *out = pair[0]);
    out[last] = end[0];
}

/// Writes the elements of a level to `out`, in raster order, from its classes; class 0 is `first`.
///
/// # Panics
/// A class has not as many elements as the level says, or there are none.
pub fn joined<V: Copy>(first: &[V], classes: &Classes<V>, level: &Level, out: &mut Vec<V>) {
    out.resize(level.elements(), first[0]);
    join(first, classes, level, out);
}

/// Does what [`joined`] does, into memory that has the length of the level.
///
/// # Panics
/// A class, or `out`, has not as many elements as the level says.
pub fn join<V: Copy>(first: &[V], classes: &Classes<V>, level: &Level, out: &mut [V]) {
    assert_eq!(out.len(), level.elements());
    simd::run(Join { first, classes, level, out });
}

struct Join<'a, V> {
    first: &'a [V],
    classes: &'a Classes<V>,
    level: &'a Level,
    out: &'a mut [V],
}

impl<V: Copy> Kernel for Join<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { first, classes, level, out } = self;
        let [_, ny, nx] = level.extent;
        let mut at = [0; 8];
        for (number, row) in out.chunks_exact_mut(nx).enumerate() {
            let class = class_of_row(level, number, ny);
            let all = if class == 0 { first } else { &classes[class] };
            let evens = &all[at[class]..][..nx.div_ceil(2)];
            let odds = &classes[class | 4][at[class | 4]..][..nx / 2];
            at[class] += evens.len();
            at[class | 4] += odds.len();
            let (pairs, rest) = row.as_chunks_mut::<2>();
            for ((pair, &even), &odd) in pairs.iter_mut().zip(evens).zip(odds) {
                *pair = [even, odd];
            }
            rest.copy_from_slice(&evens[nx / 2..]);
        }
    }
}

/// Returns the class of the first element of row `number`.
fn class_of_row(level: &Level, number: usize, ny: usize) -> usize {
    let (z, y) = (number / ny, number % ny);
    (usize::from(level.halved[0]) * (z & 1)) | ((usize::from(level.halved[1]) * (y & 1)) << 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_classes_are_the_elements_again() {
        for extent in [[1, 1, 1], [1, 1, 9], [1, 7, 2], [4, 5, 6], [3, 1, 8], [64, 3, 1]] {
            for slices in [false, true] {
                let all: Vec<u32> = (0..extent.iter().product::<usize>() as u32).collect();
                let mut lattice = all.clone();
                let mut parts = Vec::new();
                let levels = levels_of(extent, slices);
                for level in &levels {
                    let classes: Classes<u32> = std::array::from_fn(|class| {
                        let [_, ny, nx] = level.class(class);
                        let mut elements = vec![0; level.class_len(class)];
                        for (number, row) in elements.chunks_exact_mut(nx.max(1)).enumerate() {
                            let (start, end) = row.split_at_mut(nx / 3);
                            take_row(&lattice, level, class, [number / ny, number % ny], 0, start);
                            take_row(&lattice, level, class, [number / ny, number % ny], nx / 3, end);
                        }
                        elements
                    });
                    let mut next = Vec::new();
                    coarser(&lattice, level, &mut next);
                    assert_eq!(next, classes[0], "{extent:?}");
                    lattice = next;
                    parts.push(classes);
                }
                assert_eq!(lattice.len(), if slices { extent[0] } else { 1 });
                for (classes, level) in parts.iter().zip(&levels).rev() {
                    let mut out = Vec::new();
                    joined(&lattice, classes, level, &mut out);
                    lattice = out;
                }
                assert_eq!(lattice, all, "{extent:?} {slices}");
            }
        }
    }
}
