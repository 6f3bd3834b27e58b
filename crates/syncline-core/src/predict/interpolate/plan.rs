//! The order in which the values of a tile are predicted, and from which neighbors.

use super::{Lanes, MAX_TILE_ELEMENTS};
use crate::quantize::Real;

/// Prediction of the values between known values. The discriminant is the scheme's code in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Scheme {
    /// Along each axis separately, from two neighbors.
    Linear = 1,
    /// The mean over all axes along which a value is between known values, from up to four neighbors along each axis.
    Cubic = 2,
    /// Like [`Cubic`](Self::Cubic), but separately in each plane, or in each row of a two-dimensional tile.
    CubicInPlanes = 3,
}

impl Scheme {
    /// All schemes, in the order of their codes.
    pub const ALL: [Self; 3] = [Self::Linear, Self::Cubic, Self::CubicInPlanes];

    /// Returns the scheme with this code in a stream.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&scheme| scheme as u32 == code)
    }

    /// Returns the schemes for tiles that extend along `axes` axes, 1 to 3.
    pub fn of(axes: usize) -> &'static [Self] {
        if axes == 1 { &Self::ALL[..2] } else { &Self::ALL }
    }
}

/// The order of the values of tiles with the same extents under one scheme.
#[derive(Clone, Debug)]
pub struct Plan<T> {
    lattice: [usize; 3],
    anchors: Vec<u16>,
    points: Vec<Point>,
    /// Neighbors of all points, one after another.
    neighbors: Vec<(u16, T)>,
    /// End of each stage in `points`.
    stages: Vec<u32>,
}

/// A value that is predicted.
#[derive(Clone, Copy, Debug)]
struct Point {
    place: u16,
    neighbors: u16,
}

/// A value while the plan is made.
struct Draft {
    /// Distance to the neighbors along the axes, and the number of the stage within those of this distance.
    stage: (std::cmp::Reverse<usize>, usize),
    place: usize,
    neighbors: Vec<(usize, f64)>,
}

impl<T: Real> Plan<T> {
    /// Makes the plan for tiles of these extents, which extend along `axes` axes, 1 to 3.
    ///
    /// # Panics
    /// The tile has more than 4,096 elements or none.
    pub fn new(scheme: Scheme, extent: [usize; 3], axes: usize) -> Self {
        let count: usize = extent.iter().product();
        assert!((1..=MAX_TILE_ELEMENTS).contains(&count), "a tile of {extent:?}");
        // The slowest axis of the tile, whose positions are all known if it is frozen.
        let frozen = (scheme == Scheme::CubicInPlanes).then_some(3 - axes);
        let levels: [Vec<usize>; 3] =
            std::array::from_fn(
                |axis| if frozen == Some(axis) { vec![ANCHOR; extent[axis]] } else { levels(extent[axis]) },
            );
        let lattice = levels.each_ref().map(|axis| axis.iter().filter(|&&level| level == ANCHOR).count());
        let positions = (0..count).map(|i| [i / extent[2] / extent[1], i / extent[2] % extent[1], i % extent[2]]);
        let mut anchors = Vec::new();
        let mut drafts = Vec::new();
        for (place, position) in positions.enumerate() {
            let of_axes: [usize; 3] = std::array::from_fn(|axis| levels[axis][position[axis]]);
            let distance = of_axes.into_iter().min().unwrap_or(ANCHOR);
            if distance == ANCHOR {
                anchors.push(place as u16);
                continue;
            }
            let between: Vec<usize> = (0..3).filter(|&axis| of_axes[axis] == distance).collect();
            let (along, stage) = match (scheme, between.last()) {
                (Scheme::Linear, Some(&fastest)) => (vec![fastest], fastest),
                _ => (between.clone(), between.len()),
            };
            let strides = [extent[1] * extent[2], extent[2], 1];
            let share = along.len() as i64;
            let neighbors = along.iter().flat_map(|&axis| {
                let at = position[axis];
                weights(at, distance, extent[axis], scheme).into_iter().map(
                    move |(neighbor, numerator, denominator)| {
                        let place = place - at * strides[axis] + neighbor * strides[axis];
                        (place, numerator as f64 / (denominator * share) as f64)
                    },
                )
            });
            drafts.push(Draft { stage: (std::cmp::Reverse(distance), stage), place, neighbors: neighbors.collect() });
        }
        drafts.sort_by_key(|draft| draft.stage);
        let lengths = drafts.chunk_by(|a, b| a.stage == b.stage).map(<[Draft]>::len);
        let stages = lengths.scan(0, |end, length| {
            *end += length as u32;
            Some(*end)
        });
        Self {
            lattice,
            anchors,
            stages: stages.collect(),
            points: drafts
                .iter()
                .map(|draft| Point { place: draft.place as u16, neighbors: draft.neighbors.len() as u16 })
                .collect(),
            neighbors: drafts
                .iter()
                .flat_map(|draft| draft.neighbors.iter().map(|&(place, weight)| (place as u16, T::nearest(weight))))
                .collect(),
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

    /// Returns the elements that are interpolated, in order: the index of each in the tile, and its neighbors with
    /// their weights.
    pub fn points(&self) -> impl Iterator<Item = (u16, &[(u16, T)])> {
        let mut rest = self.neighbors.as_slice();
        self.points.iter().map(move |point| {
            let (neighbors, after) = rest.split_at(usize::from(point.neighbors));
            rest = after;
            (point.place, neighbors)
        })
    }

    /// Returns the end of each stage among [`Self::points`]. Elements of a stage have no neighbors in the same stage,
    /// so that they can be reconstructed in any order.
    pub fn stages(&self) -> &[u32] {
        &self.stages
    }

    /// Predicts the elements that are not anchors, in several tiles at once. Calls `value` with the index of an element
    /// in the tile, its number among the predicted elements, and its prediction in each tile; writes the result to
    /// `values`, which must contain the anchors.
    #[inline(always)]
    pub fn predict<const L: usize>(
        &self,
        values: &mut Lanes<T, L>,
        mut value: impl FnMut(usize, usize, [T; L]) -> [T; L],
    ) {
        // Indices are always below the limit; the mask removes the bounds check.
        const PLACE: usize = MAX_TILE_ELEMENTS - 1;
        let mut rest = self.neighbors.as_slice();
        for (number, point) in self.points.iter().enumerate() {
            let (neighbors, after) = rest.split_at(usize::from(point.neighbors));
            rest = after;
            // Every value has neighbors.
            let Some((&(first, weight), others)) = neighbors.split_first() else { continue };
            let mut sum = values[usize::from(first) & PLACE];
            sum.iter_mut().for_each(|value| *value = value.times(weight));
            for &(place, weight) in others {
                let values = &values[usize::from(place) & PLACE];
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = value.mul_add(weight, *sum));
            }
            let place = usize::from(point.place) & PLACE;
            values[place] = value(place, number, sum);
        }
    }
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

/// Returns the neighbors of a position along an axis, ascending, with their weights as fractions: the weights of the
/// polynomial through the neighbors.
fn weights(at: usize, distance: usize, extent: usize, scheme: Scheme) -> Vec<(usize, i64, i64)> {
    let last = extent - 1;
    let after = (at + distance).min(last);
    let mut neighbors = vec![at - distance, after];
    if scheme != Scheme::Linear {
        if at >= 3 * distance {
            neighbors.insert(0, at - 3 * distance);
        }
        if after < last {
            neighbors.push((at + 3 * distance).min(last));
        }
    }
    let away = |a: usize, b: usize| a as i64 - b as i64;
    let weight = |&neighbor: &usize| {
        let others = || neighbors.iter().copied().filter(move |&other| other != neighbor);
        let numerator = others().map(|other| away(at, other)).product();
        let denominator = others().map(|other| away(neighbor, other)).product();
        (neighbor, numerator, denominator)
    };
    neighbors.iter().map(weight).collect()
}
