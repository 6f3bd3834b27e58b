//! The order in which the values of a tile are predicted, from which neighbors, and where their codes are.

use super::{Lanes, MAX_TILE_ELEMENTS, Scheme};
use crate::quantize::Real;
use crate::strips::{STRIP_LEN, strips_of};

/// Neighbors of a value.
const MOST_NEIGHBORS: usize = 4;

/// The order of the values of tiles with the same extents under one scheme.
#[derive(Clone, Debug)]
pub struct Plan<T> {
    lattice: [usize; 3],
    anchors: Vec<u16>,
    /// The place of each anchor's code.
    anchor_codes: Vec<u16>,
    points: Vec<Point<T>>,
    /// Number of points in each line.
    lines: Vec<u16>,
    passes: Vec<PassShape>,
    is_cubic: bool,
}

/// A value that is predicted.
#[derive(Clone, Copy, Debug)]
pub struct Point<T> {
    /// Index of the value in the tile.
    pub place: u16,
    /// Place of its code among those of the tile.
    pub code: u16,
    /// Indices of the neighbors; those of the second and third for linear schemes.
    pub neighbors: [u16; MOST_NEIGHBORS],
    /// Weights of the neighbors.
    pub weights: [T; MOST_NEIGHBORS],
}

/// Consecutive points that are interpolated along one axis at one distance from their neighbors, and so independently
/// of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassShape {
    /// The axis: 0 for z, 1 for y, 2 for x.
    pub axis: usize,
    /// Lines of points that differ only in their position along the axis.
    pub lines: usize,
    /// Points of each line.
    pub points: usize,
}

/// The values that are interpolated along one axis at one distance from their neighbors, line by line.
struct Pass {
    axis: usize,
    distance: usize,
    /// Positions along the axis of the points of each line.
    along: Vec<usize>,
    /// Index in the tile of position 0 of each line.
    starts: Vec<usize>,
}

impl<T: Real> Plan<T> {
    /// Makes the plan for tiles of these extents, which extend along `axes` axes, 1 to 3.
    ///
    /// # Panics
    /// The tile has more than 1,024 elements or none.
    pub fn new(scheme: Scheme, extent: [usize; 3], axes: usize) -> Self {
        let count: usize = extent.iter().product();
        assert!((1..=MAX_TILE_ELEMENTS).contains(&count), "a tile of {extent:?}");
        // The slowest axis of the tile, whose positions are all known if it is frozen.
        let frozen = scheme.in_planes.then_some(3 - axes);
        let levels: [Vec<usize>; 3] = std::array::from_fn(|axis| match frozen {
            Some(frozen) if frozen == axis => vec![ANCHOR; extent[axis]],
            _ => levels(extent[axis]),
        });
        let strides = [extent[1] * extent[2], extent[2], 1];
        let anchors_along = levels.each_ref().map(|levels| positions(levels, &|level| level == ANCHOR));
        let lattice = anchors_along.each_ref().map(Vec::len);
        let anchors = places(&anchors_along, strides);
        let passes = passes(scheme, &levels, strides);
        let lines_of = |pass: &Pass| match axes {
            // The line is as long as the tile: its values are shared among all strips.
            1 => vec![1; pass.starts.len() * pass.along.len()],
            _ => vec![pass.along.len(); pass.starts.len()],
        };
        let lengths: Vec<Vec<usize>> =
            std::iter::once(vec![1; anchors.len()]).chain(passes.iter().map(lines_of)).collect();
        let mut codes = codes_in_strips(&lengths, count).into_iter();
        let anchor_codes = codes.by_ref().take(anchors.len()).collect();
        let mut points = Vec::with_capacity(count - anchors.len());
        for pass in &passes {
            let stride = strides[pass.axis];
            let near = |&at| (at, neighbors(at, pass.distance, extent[pass.axis], scheme.is_cubic));
            let along: Vec<_> = pass.along.iter().map(near).collect();
            for start in &pass.starts {
                points.extend(along.iter().zip(codes.by_ref()).map(|((at, near), code)| Point {
                    place: (start + at * stride) as u16,
                    code,
                    neighbors: near.map(|(neighbor, _)| (start + neighbor * stride) as u16),
                    weights: near.map(|(_, weight)| weight),
                }));
            }
        }
        Self {
            lattice,
            anchors: anchors.iter().map(|&place| place as u16).collect(),
            anchor_codes,
            points,
            lines: match axes {
                1 => passes.iter().map(|pass| (pass.starts.len() * pass.along.len()) as u16).collect(),
                _ => passes.iter().flat_map(|pass| vec![pass.along.len() as u16; pass.starts.len()]).collect(),
            },
            passes: passes
                .iter()
                .map(|pass| PassShape { axis: pass.axis, lines: pass.starts.len(), points: pass.along.len() })
                .collect(),
            is_cubic: scheme.is_cubic,
        }
    }

    /// Returns the extents of the lattice of anchors.
    pub fn lattice(&self) -> [usize; 3] {
        self.lattice
    }

    /// Returns the indices in the tile of the elements that are not interpolated, ascending.
    pub fn anchors(&self) -> &[u16] {
        &self.anchors
    }

    /// Returns the place of each anchor's code among those of the tile.
    pub fn anchor_codes(&self) -> &[u16] {
        &self.anchor_codes
    }

    /// Returns the elements that are interpolated, in an order in which each comes after its neighbors.
    pub fn points(&self) -> &[Point<T>] {
        &self.points
    }

    /// Returns the number of points of each line, in the order of [`Self::points`]. The costs of its codes are added up
    /// together.
    pub fn lines(&self) -> &[u16] {
        &self.lines
    }

    /// Returns the passes that the points form, in their order.
    pub fn passes(&self) -> &[PassShape] {
        &self.passes
    }

    /// Returns whether points have four neighbors, and not two.
    pub fn is_cubic(&self) -> bool {
        self.is_cubic
    }

    /// Predicts the elements that are not anchors, in several tiles at once. Calls `value` with each point and its
    /// prediction in each tile; writes the result to `values`, which must contain the anchors.
    #[inline(always)]
    pub fn predict<const L: usize>(
        &self,
        values: &mut Lanes<T, L>,
        mut value: impl FnMut(&Point<T>, [T; L]) -> [T; L],
    ) {
        // Indices are always below the limit; the mask removes the bounds check.
        const PLACE: usize = MAX_TILE_ELEMENTS - 1;
        for point in &self.points {
            let neighbor = |number: usize| values[usize::from(point.neighbors[number]) & PLACE];
            let mut sum = neighbor(if self.is_cubic { 0 } else { 1 });
            let weight = point.weights[if self.is_cubic { 0 } else { 1 }];
            sum.iter_mut().for_each(|value| *value = value.times(weight));
            let others = if self.is_cubic { 1..4 } else { 2..3 };
            for number in others {
                let (values, weight) = (neighbor(number), point.weights[number]);
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = value.mul_add(weight, *sum));
            }
            values[usize::from(point.place) & PLACE] = value(point, sum);
        }
    }
}

/// Returns the passes of a scheme: from the largest distance to the smallest, and for each along one axis after
/// another.
fn passes(scheme: Scheme, levels: &[Vec<usize>; 3], strides: [usize; 3]) -> Vec<Pass> {
    let of_level = |axis: usize, wanted: &dyn Fn(usize) -> bool| positions(&levels[axis], wanted);
    let largest = levels.iter().flatten().copied().filter(|&level| level != ANCHOR).max().unwrap_or(0);
    let distances = std::iter::successors(Some(largest), |distance| Some(distance / 2)).take_while(|&d| d > 0);
    let order = scheme.order();
    let mut passes = Vec::new();
    for distance in distances {
        for (turn, &axis) in order.iter().enumerate() {
            let mut of_lines = [0, 1, 2].map(|other| match order.iter().position(|&o| o == other) {
                // Along axes of earlier turns, values at this distance are known by now.
                Some(other_turn) if other_turn < turn => of_level(other, &|level| level >= distance),
                _ => of_level(other, &|level| level > distance),
            });
            of_lines[axis] = vec![0];
            let along = of_level(axis, &|level| level == distance);
            let starts = places(&of_lines, strides);
            if along.is_empty() || starts.is_empty() {
                continue;
            }
            passes.push(Pass { axis, distance, along, starts });
        }
    }
    passes
}

/// Returns the positions of an axis with wanted levels.
fn positions(levels: &[usize], wanted: &dyn Fn(usize) -> bool) -> Vec<usize> {
    (0..levels.len()).filter(|&at| wanted(levels[at])).collect()
}

/// Returns the indices in a tile of all combinations of positions, ascending.
fn places(along: &[Vec<usize>; 3], strides: [usize; 3]) -> Vec<usize> {
    let [z, y, x] = along;
    let rows = z.iter().flat_map(|z| y.iter().map(move |y| z * strides[0] + y * strides[1]));
    rows.flat_map(|row| x.iter().map(move |x| row + x)).collect()
}

/// Returns the place of each code in a tile of `count` codes, given the numbers of codes in the lines of each pass, the
/// anchors first. Each strip gets about the same share of each pass, so that strips take about the same time, and
/// coarse passes come first in it. The lines of a pass stay whole if there is room.
fn codes_in_strips(passes: &[Vec<usize>], count: usize) -> Vec<u16> {
    let strips = strips_of(count);
    let mut room: Vec<usize> = (0..strips).map(|strip| STRIP_LEN.min(count - strip * STRIP_LEN)).collect();
    let mut shares = vec![vec![0; strips]; passes.len()];
    for (lines, share) in passes.iter().zip(&mut shares).rev() {
        for &line in lines {
            let mut rest = line;
            while rest > 0 {
                let most = (0..strips).max_by_key(|&strip| (room[strip], std::cmp::Reverse(strip))).unwrap_or(0);
                let taken = rest.min(room[most]);
                share[most] += taken;
                room[most] -= taken;
                rest -= taken;
            }
        }
    }
    let mut next: Vec<usize> = (0..strips).map(|strip| strip * STRIP_LEN).collect();
    let mut codes = Vec::with_capacity(count);
    for share in &shares {
        for (next, &share) in next.iter_mut().zip(share) {
            codes.extend((*next..*next + share).map(|place| place as u16));
            *next += share;
        }
    }
    codes
}

/// The level of positions that are known from the start. Greater than any distance.
const ANCHOR: usize = usize::MAX;

/// Returns the level of each position of an axis: its distance to the positions that it is predicted from, in elements.
/// The first and the last position are anchors.
fn levels(extent: usize) -> Vec<usize> {
    let mut levels = vec![0; extent];
    levels[0] = ANCHOR;
    levels[extent - 1] = ANCHOR;
    let mut distance = (extent.max(2) - 1).next_power_of_two() / 2;
    while distance > 0 {
        for at in (distance..extent - 1).step_by(2 * distance) {
            if levels[at] == 0 {
                levels[at] = distance;
            }
        }
        distance /= 2;
    }
    levels
}

/// Returns the neighbors of a position along an axis, ascending, with their weights: those of the polynomial through
/// the neighbors. A neighbor that does not exist is the one next to it with a weight of 0.
fn neighbors<T: Real>(at: usize, distance: usize, extent: usize, is_cubic: bool) -> [(usize, T); MOST_NEIGHBORS] {
    let last = extent - 1;
    let (before, after) = (at - distance, (at + distance).min(last));
    let far_before = at.checked_sub(3 * distance).filter(|_| is_cubic);
    let far_after = (is_cubic && after < last).then_some((at + 3 * distance).min(last));
    let known = [far_before, Some(before), Some(after), far_after];
    let away = |a: usize, b: usize| a as i64 - b as i64;
    let weight = |neighbor: usize| {
        let (mut numerator, mut denominator) = (1, 1);
        for other in known.into_iter().flatten().filter(|&other| other != neighbor) {
            numerator *= away(at, other);
            denominator *= away(neighbor, other);
        }
        (neighbor, T::nearest(numerator as f64 / denominator as f64))
    };
    let far = |neighbor: Option<usize>, near: usize| neighbor.map_or((near, T::nearest(0.0)), weight);
    [far(far_before, before), weight(before), weight(after), far(far_after, after)]
}
