//! Regions on the command line, and their division into slabs that fit in memory.

use std::ops::Range;
use std::str::FromStr;

use syncline::Shape;

/// A region without a shape: start and end for each axis, both optional.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionSpec(Vec<(Option<u64>, Option<u64>)>);

impl FromStr for RegionSpec {
    type Err = String;

    /// Parses `0:10,5:20,:,7`, slowest axis first.
    fn from_str(text: &str) -> Result<Self, String> {
        let axis = |part: &str| {
            let number = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
            let part = part.trim();
            match part.split_once(':') {
                Some((start, end)) => number(start.trim()).zip(number(end.trim())),
                None => part.parse::<u64>().ok().map(|index| (Some(index), index.checked_add(1))),
            }
            .ok_or_else(|| match part.contains('-') {
                true => format!("'{part}': counting from the end is not supported: write a:b, a:, :b, : or one index"),
                false => format!("'{part}' is not a range: write a:b, a:, :b, : or one index for each axis"),
            })
        };
        text.split(',').map(axis).collect::<Result<_, _>>().map(Self)
    }
}

impl RegionSpec {
    /// Returns the ranges within this shape.
    pub fn within(&self, shape: Shape) -> Result<Vec<Range<u64>>, String> {
        let extents = shape.extents();
        if self.0.len() > extents.len() {
            return Err(format!("--region has {} ranges, more than the array has axes ({shape})", self.0.len()));
        }
        let ranges = extents.iter().enumerate().map(|(axis, &extent)| {
            let (start, end) = self.0.get(axis).copied().unwrap_or_default();
            let (start, end) = (start.unwrap_or(0), end.unwrap_or(extent));
            if start > end && end <= extent {
                return Err(format!("--region {start}:{end} on axis {axis}: it starts after its end ({shape})"));
            }
            if end > extent {
                return Err(format!("--region {start}:{end} on axis {axis}: it must lie within 0:{extent} ({shape})"));
            }
            Ok(start..end)
        });
        ranges.collect()
    }
}

/// Returns the region of a whole array.
pub fn whole(shape: Shape) -> Vec<Range<u64>> {
    shape.extents().iter().map(|&extent| 0..extent).collect()
}

/// Returns the shape of a region.
pub fn shape_of(region: &[Range<u64>]) -> Shape {
    let extents: Vec<u64> = region.iter().map(|range| range.end - range.start).collect();
    Shape::new(&extents).expect("part of a valid shape")
}

/// Returns the stretches of elements that are contiguous in an array of this shape, in the order of the region: the
/// number of the first element, and how many there are.
pub fn stretches(region: &[Range<u64>], shape: Shape) -> impl Iterator<Item = (u64, u64)> + use<> {
    let extents = shape.extents().to_vec();
    // With a budget of one row, only the last axis has more than one element.
    slabs(region, region.last().map_or(1, |last| (last.end - last.start).max(1))).map(move |row| {
        let start = row.iter().zip(&extents).fold(0, |number, (range, extent)| number * extent + range.start);
        (start, row.iter().map(|range| range.end - range.start).product())
    })
}

/// Divides a region into boxes of at most `budget` elements (at least one). Each box is contiguous in the region's C
/// order, and the boxes are in that order. Where the budget permits, boxes end at multiples of a tile's side, so that
/// few tiles are decoded twice.
pub fn slabs(region: &[Range<u64>], budget: u64) -> impl Iterator<Item = Vec<Range<u64>>> + use<> {
    let region = region.to_vec();
    let extent = |axis: usize| region[axis].end - region[axis].start;
    // The divided axis is the slowest one whose single steps fit.
    let mut cut = region.len().saturating_sub(1);
    let mut step = 1u64;
    while cut > 0 && step.saturating_mul(extent(cut)) <= budget {
        step *= extent(cut);
        cut -= 1;
    }
    let depth = (budget / step.max(1)).max(1);
    let side = [1024, 32, 8].into_iter().find(|&side| side <= depth).unwrap_or(1);
    let depth = depth / side * side;
    let empty = region.iter().any(Range::is_empty);
    let mut next: Option<Vec<u64>> = (!empty).then(|| region.iter().map(|range| range.start).collect());
    std::iter::from_fn(move || {
        let start = next.take()?;
        let mut slab: Vec<Range<u64>> = start.iter().map(|&start| start..start + 1).collect();
        if region.is_empty() {
            return Some(slab);
        }
        slab[cut + 1..].clone_from_slice(&region[cut + 1..]);
        slab[cut].end = (start[cut] / side * side).saturating_add(depth).min(region[cut].end);
        // Step along the divided axis, and carry into the slower ones.
        let mut after = start;
        after[cut] = slab[cut].end;
        let mut axis = cut;
        while after[axis] == region[axis].end {
            if axis == 0 {
                return Some(slab);
            }
            after[axis] = region[axis].start;
            axis -= 1;
            after[axis] += 1;
        }
        next = Some(after);
        Some(slab)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(text: &str, extents: &[u64]) -> Result<Vec<Range<u64>>, String> {
        text.parse::<RegionSpec>()?.within(Shape::new(extents).unwrap())
    }

    #[test]
    fn regions() {
        assert_eq!(within("0:10,5:20,:", &[10, 20, 30]), Ok(vec![0..10, 5..20, 0..30]));
        assert_eq!(within("3,2:,:4", &[10, 20, 30]), Ok(vec![3..4, 2..20, 0..4]));
        assert_eq!(within("2:2", &[10, 20]), Ok(vec![2..2, 0..20]));
        for wrong in ["", "a", "1:2:3", "-1:2", "5:4", "0:11", "11", "18446744073709551615", "0:1,0:1,0:1"] {
            assert!(within(wrong, &[10, 20]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn slabs_are_as_large_as_the_budget_allows() {
        let count = |extents: &[u64], budget| slabs(&whole(Shape::new(extents).unwrap()), budget).count();
        assert_eq!(count(&[136_968, 3, 14], 1 << 23), 1);
        assert_eq!(count(&[64, 16, 16], 20 * 256), 4, "16 of 20 planes, a multiple of 8");
        assert_eq!(count(&[4, 1000, 10], 3200), 4 * 4, "320 rows, a multiple of 32");
        assert_eq!(count(&[1 << 20], 1 << 18), 4);
    }

    /// Returns the element numbers of a box in C order.
    fn elements(region: &[Range<u64>], extents: &[u64]) -> Vec<u64> {
        let mut all = vec![0];
        for (range, extent) in region.iter().zip(extents) {
            all = all.iter().flat_map(|e| range.clone().map(move |i| e * extent + i)).collect();
        }
        all
    }

    #[test]
    fn stretches_cover_the_region_in_order() {
        for (extents, region) in [
            (vec![], vec![]),
            (vec![50, 1], vec![3..49, 0..1]),
            (vec![20, 30, 40], vec![3..20, 0..30, 5..6]),
            (vec![3, 9, 10, 11], vec![0..3, 2..9, 0..10, 0..11]),
            (vec![4, 5], vec![2..2, 0..5]),
        ] {
            let shape = Shape::new(&extents).unwrap();
            let joined: Vec<u64> = stretches(&region, shape).flat_map(|(start, count)| start..start + count).collect();
            assert_eq!(joined, elements(&region, &extents), "{region:?}");
        }
    }

    #[test]
    fn slabs_cover_the_region_in_order() {
        for (extents, region) in [
            (vec![], vec![]),
            (vec![5000, 1], vec![3..4999, 0..1]),
            (vec![100, 70], vec![0..100, 0..70]),
            (vec![20, 30, 40], vec![3..20, 0..30, 5..6]),
            (vec![3, 9, 10, 11], vec![0..3, 2..9, 0..10, 0..11]),
            (vec![4, 5], vec![2..2, 0..5]),
        ] {
            for budget in [1, 2, 7, 64, 100, 1100, 1 << 20] {
                let slabs: Vec<_> = slabs(&region, budget).collect();
                assert!(slabs.iter().all(|slab| shape_of(slab).len() <= budget), "{region:?} {budget}");
                let joined: Vec<u64> = slabs.iter().flat_map(|slab| elements(slab, &extents)).collect();
                assert_eq!(joined, elements(&region, &extents), "{region:?} {budget}");
            }
        }
    }
}
