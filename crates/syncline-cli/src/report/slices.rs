//! The slices of an array that a page shows.

use std::ops::Range;

use syncline::Shape;

/// The most slices.
const SLICES: u64 = 12;
/// The largest side of the window of a slice that is shown.
const WINDOW: u64 = 2048;
/// Elements of a row of an array with one axis.
const ROW: u64 = 1024;

/// A slice along the two fastest axes with more than one element, or the window of it that is shown.
#[derive(Debug, PartialEq)]
pub struct Slice {
    /// The region of the array.
    pub region: Vec<Range<u64>>,
    /// Elements in a row of the picture.
    pub width: u64,
}

impl Slice {
    /// Returns what the slice is, such as `[12, 0:500, 0:500]`.
    pub fn label(&self) -> String {
        let part = |range: &Range<u64>| match range.end - range.start {
            1 => range.start.to_string(),
            _ => format!("{}:{}", range.start, range.end),
        };
        format!("[{}]", self.region.iter().map(part).collect::<Vec<_>>().join(", "))
    }
}

/// Returns slices that are evenly spread over all others.
pub fn of(shape: Shape) -> Vec<Slice> {
    let extents = shape.extents();
    if shape.is_empty() {
        return Vec::new();
    }
    let mut shown: Vec<usize> = (0..extents.len()).filter(|&axis| extents[axis] > 1).collect();
    let first = shown.len().saturating_sub(2);
    let leading: Vec<usize> = shown.drain(..first).collect();
    let middle = |extent: u64, most: u64| {
        let start = (extent - extent.min(most)) / 2;
        start..start + extent.min(most)
    };
    let mut region: Vec<Range<u64>> = extents.iter().map(|_| 0..1).collect();
    let width = match *shown {
        // A row of the picture is a part of the axis.
        [axis] => {
            region[axis] = match extents[axis] {
                extent @ ..=ROW => 0..extent,
                extent => middle(extent / ROW * ROW, ROW * ROW),
            };
            (region[axis].end - region[axis].start).min(ROW)
        }
        [y, x] => {
            (region[y], region[x]) = (middle(extents[y], WINDOW), middle(extents[x], WINDOW));
            region[x].end - region[x].start
        }
        _ => 1,
    };
    let all: u64 = leading.iter().map(|&axis| extents[axis]).product();
    let count = all.min(SLICES);
    let slice = |number: u64| {
        let mut rest = ((2 * number + 1) as u128 * u128::from(all) / (2 * u128::from(count))) as u64;
        let mut region = region.clone();
        for &axis in leading.iter().rev() {
            region[axis] = rest % extents[axis]..rest % extents[axis] + 1;
            rest /= extents[axis];
        }
        Slice { region, width }
    };
    (0..count).map(slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_spread() {
        let labels =
            |extents: &[u64]| -> Vec<String> { of(Shape::new(extents).unwrap()).iter().map(Slice::label).collect() };
        assert_eq!(labels(&[3, 4]), ["[0:3, 0:4]"]);
        assert_eq!(labels(&[2, 3, 4]), ["[0, 0:3, 0:4]", "[1, 0:3, 0:4]"]);
        assert_eq!(labels(&[2, 1, 2, 1, 3, 4]).last().unwrap(), "[1, 0, 1, 0, 0:3, 0:4]");
        assert_eq!((labels(&[100, 3, 4]).len(), labels(&[100, 3, 4])[0].as_str()), (12, "[4, 0:3, 0:4]"));
        assert_eq!(labels(&[5000, 3000]), ["[1476:3524, 476:2524]"]);
        assert_eq!((labels(&[7]), labels(&[0, 3]).len(), labels(&[]).len()), (vec!["[0:7]".to_string()], 0, 1));
        let long = &of(Shape::new(&[5000]).unwrap())[0];
        assert_eq!((long.label().as_str(), long.width), ("[0:4096]", 1024));
    }
}
