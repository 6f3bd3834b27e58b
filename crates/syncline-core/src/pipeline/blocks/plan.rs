//! How the blocks of a chunk are coded.

/// Shares of the error of the prediction of the slice before, by the number of the field.
const SHARES: [f64; 3] = [0.0, 0.75, 1.0];

/// How the codes of a block are divided into parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Division {
    /// All in one.
    #[default]
    One = 0,
    /// Those of the finest level by boxes, and all others.
    Boxes = 1,
}

/// How the blocks of a chunk are predicted and coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub cubic: bool,
    /// Whether predictions are rounded to multiples of the step, so that all values are multiples.
    pub on_grid: bool,
    /// The axis (0 is z) along which nothing is interpolated.
    pub slices: Option<usize>,
    /// Number of the share of the slice before: 0 to 2.
    pub share: u8,
    pub division: Division,
}

/// Bytes of the fields of a plan.
pub(super) const PLAN_BYTES: usize = 4;

impl Plan {
    /// Returns the axes along which nothing may be interpolated, of blocks that extend along `axes` axes.
    pub fn slices(axes: usize) -> impl Iterator<Item = Option<usize>> {
        let slices = if axes > 1 { 3 - axes..3 } else { 0..0 };
        std::iter::once(None).chain(slices.map(Some))
    }

    /// Returns the share of the error of the slice before that is added to a prediction.
    pub fn rho(&self) -> f64 {
        SHARES[usize::from(self.share)]
    }

    /// Returns the fields.
    pub fn to_bytes(self) -> [u8; PLAN_BYTES] {
        let slices = self.slices.map_or(0, |axis| axis as u8 + 1);
        [u8::from(self.cubic) | u8::from(self.on_grid) << 1, slices, self.share, self.division as u8]
    }

    /// Reads the fields of a chunk whose blocks extend along `axes` axes. `None` if they are out of range.
    pub fn parse([scheme, slices, share, division]: [u8; PLAN_BYTES], axes: usize) -> Option<Self> {
        let division = [Division::One, Division::Boxes].into_iter().find(|&d| d as u8 == division)?;
        let slices = slices.checked_sub(1).map(usize::from);
        let is_axis = slices.is_none_or(|axis| axis < 3 && axis + axes >= 3 && axes > 1);
        let is_share = usize::from(share) < SHARES.len() && (share == 0 || slices.is_some());
        let [cubic, on_grid] = [scheme & 1 != 0, scheme & 2 != 0];
        let is_whole = scheme < 4 && is_axis && is_share;
        is_whole.then_some(Self { cubic, on_grid, slices, share, division })
    }
}

/// The order of the axes of a block: the axis of the slices comes first, the others follow by ascending extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order([usize; 3]);

impl Order {
    pub fn new(extent: [usize; 3], slices: Option<usize>) -> Self {
        let mut axes = [0, 1, 2];
        // Rows are long.
        axes.sort_by_key(|&axis| (Some(axis) != slices, extent[axis]));
        Self(axes)
    }

    /// Returns the extents in this order.
    pub fn of(self, extent: [usize; 3]) -> [usize; 3] {
        self.0.map(|axis| extent[axis])
    }

    /// Returns the axis, of z, y, and x, that has this place in the order.
    pub fn axis(self, place: usize) -> usize {
        self.0[place]
    }

    /// Returns whether this is raster order already.
    pub fn is_raster(self) -> bool {
        self.0 == [0, 1, 2]
    }

    /// Returns the strides, in this order, of elements that are in raster order of `extent`.
    fn strides(self, [_, ny, nx]: [usize; 3]) -> [usize; 3] {
        self.of([ny * nx, nx, 1])
    }

    /// Returns the place in raster order of `extent` of the element at `at` in this order.
    pub fn place(self, extent: [usize; 3], at: [usize; 3]) -> usize {
        self.strides(extent).into_iter().zip(at).map(|(stride, at)| stride * at).sum()
    }

    /// Copies elements in raster order of `extent` to this order.
    pub fn arrange<V: Copy>(self, extent: [usize; 3], from: &[V], out: &mut Vec<V>) {
        out.clear();
        self.rows(extent, |start, stride, count| {
            if stride == 1 {
                out.extend_from_slice(&from[start..start + count]);
            } else {
                out.extend(from[start..].iter().step_by(stride).take(count));
            }
        });
    }

    /// Copies elements in this order back to raster order of `extent`.
    pub fn restore<V: Copy>(self, extent: [usize; 3], from: &[V], out: &mut [V]) {
        let mut rest = from;
        self.rows(extent, |start, stride, count| {
            let (row, after) = rest.split_at(count);
            if stride == 1 {
                out[start..start + count].copy_from_slice(row);
            } else {
                out[start..].iter_mut().step_by(stride).zip(row).for_each(|(out, &value)| *out = value);
            }
            rest = after;
        });
    }

    /// Calls `row` with the first place, the stride, and the length of each row in this order.
    fn rows(self, extent: [usize; 3], mut row: impl FnMut(usize, usize, usize)) {
        let [n0, n1, n2] = self.of(extent);
        let [s0, s1, s2] = self.strides(extent);
        for i in 0..n0 {
            for j in 0..n1 {
                row(i * s0 + j * s1, s2, n2);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_written() {
        for axes in 1..=3 {
            assert_eq!(Plan::slices(axes).count(), [1, 3, 4][axes - 1]);
            for slices in Plan::slices(axes) {
                for (number, division) in [Division::One, Division::Boxes, Division::One].into_iter().enumerate() {
                    let share = if slices.is_some() { number as u8 } else { 0 };
                    let plan = Plan { cubic: number != 1, on_grid: number != 2, slices, share, division };
                    assert_eq!(Plan::parse(plan.to_bytes(), axes), Some(plan));
                }
            }
        }
        for bytes in [[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 1, 0], [0, 1, 3, 0], [0, 0, 0, 2]] {
            assert_eq!(Plan::parse(bytes, 3), None);
        }
        assert!(Plan::parse([0, 1, 0, 0], 2).is_none() && Plan::parse([0, 3, 0, 0], 1).is_none());
    }

    #[test]
    fn rearranged_elements_return_to_their_places() {
        for (extent, slices) in [[3, 4, 5], [5, 3, 4]]
            .into_iter()
            .flat_map(|extent| [None, Some(0), Some(1), Some(2)].map(|slices| (extent, slices)))
        {
            let all: Vec<usize> = (0..60).collect();
            let order = Order::new(extent, slices);
            let mut arranged = Vec::new();
            order.arrange(extent, &all, &mut arranged);
            let [_, n1, n2] = order.of(extent);
            for (number, &place) in arranged.iter().enumerate() {
                assert_eq!(order.place(extent, [number / (n1 * n2), number / n2 % n1, number % n2]), place);
            }
            let mut back = vec![0; 60];
            order.restore(extent, &arranged, &mut back);
            assert_eq!(back, all);
        }
    }
}
