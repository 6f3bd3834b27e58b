//! What a caller should know about the fill values and the range of an array that was compressed.
//!
//! Programs say it in the words of their own options.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill};

use crate::description::Summary;
use crate::io::ReadAt;

/// Blocks of the array that are looked at, evenly spaced: a contiguous part that is not few values has one.
const BLOCKS: u64 = 1 << 10;
/// Elements of a block.
const BLOCK: u64 = 1 << 6;
/// Fewer than one value in this many counts as few.
const FEW: usize = 1000;
/// The range of all other values is less than this part of the whole range.
const PART: f64 = 0.1;
/// A value that is closer to a fill value than this part of it may be meant by it: other digits, or another precision.
const NEAR: f64 = 1e-4;

/// Fewer than 0.1 % of the values make up over 90 % of the range that a relative bound refers to, which makes the bound
/// coarse for all others.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FarValues {
    /// The smallest value, the largest value, or both.
    pub far: Vec<f64>,
    /// The range of all other values.
    pub others: (f64, f64),
    /// The absolute bound that the relative one is for the others.
    pub abs_bound: f64,
}

/// No element equals a fill value that was given, but an extreme value is close to it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NearFill {
    /// The fill value.
    pub fill: f64,
    /// The element that is close to it.
    pub nearest: f64,
}

/// Returns the fill values that no element equals while the smallest or the largest of the other values is close to
/// them.
///
/// ```
/// use syncline::advice::near_fills;
/// use syncline::{ArrayView, Bound, CompressOptions, Fill, compress_from};
/// // Numbers of f32, of which the first stands for missing data.
/// let values = [f64::from(-99999.99f32), 0.5, 1.5];
/// let view = ArrayView::new(&values, &[3])?;
/// let options = CompressOptions::new(Bound::Rel(1e-3)).with_fill(Fill::Value(-99999.99));
/// let summary = compress_from(view.bytes(), 0, view.element_type(), view.shape(), &options, Vec::new())?;
/// assert_eq!(near_fills(options.fill(), &summary)[0].nearest, -99999.9921875);
/// # Ok::<(), syncline::Error>(())
/// ```
pub fn near_fills(fill: Fill, summary: &Summary) -> Vec<NearFill> {
    let (Fill::Value(_) | Fill::Values(_), Some((low, high))) = (fill, summary.range) else { return Vec::new() };
    let is_there = |value: f64| summary.fills.iter().any(|found| found.count > 0 && same(summary, found.value, value));
    let near = |value: f64| {
        let distance = |element: &f64| (element - value).abs();
        let nearest = [low, high].into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        let is_near = distance(&nearest) <= NEAR * value.abs() && !same(summary, nearest, value);
        (is_near && !is_there(value)).then_some(NearFill { fill: value, nearest })
    };
    fill.values().iter().filter_map(|&value| near(value)).collect()
}

/// Returns whether two numbers are the same element.
fn same(summary: &Summary, a: f64, b: f64) -> bool {
    let bits = |value: f64| summary.element_type.bits_of_number(value + 0.0);
    bits(a).is_some() && bits(a) == bits(b)
}

/// Returns the few values that make up most of the range of a relative bound, from a sample of an array that starts at
/// byte `offset` of a source.
pub fn far_values<S: ReadAt + ?Sized>(source: &S, offset: u64, summary: &Summary) -> Option<FarValues> {
    let (Bound::Rel(part), Some((low, high))) = (summary.bound, summary.range) else { return None };
    let fills: Vec<u64> = summary.fills.iter().map(|fill| fill.value.to_bits()).collect();
    let mut values = sample(source, offset, summary.element_type, summary.shape)?;
    values.retain(|value| value.is_finite() && !fills.contains(&value.to_bits()));
    let few = values.len() / FEW;
    // The narrowest range of all sampled values but a few.
    let width = values.len().checked_sub(few).filter(|&width| width > 1)?;
    sort_ends(&mut values, few + 1);
    let windows = (0..=few).map(|first| (values[first], values[first + width - 1]));
    let others = windows.min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))?;
    let (from, to) = others;
    let range = high - low;
    if to - from >= PART * range {
        return None;
    }
    let ends = [(low, from - low), (high, high - to)];
    let far: Vec<f64> = ends.into_iter().filter(|(_, gap)| *gap > PART * range).map(|(value, _)| value).collect();
    (!far.is_empty()).then_some(FarValues { far, others, abs_bound: part * (to - from) })
}

/// Puts the `count` smallest and the `count` largest values where sorting would put them. There are at least twice as
/// many.
fn sort_ends(values: &mut [f64], count: usize) {
    let (smallest, ..) = values.select_nth_unstable_by(count, f64::total_cmp);
    smallest.sort_unstable_by(f64::total_cmp);
    let rest = &mut values[count..];
    let others = rest.len() - count;
    rest.select_nth_unstable_by(others, f64::total_cmp);
    rest[others..].sort_unstable_by(f64::total_cmp);
}

/// Returns values from all parts of an array.
fn sample<S: ReadAt + ?Sized>(source: &S, offset: u64, element_type: ElementType, shape: Shape) -> Option<Vec<f64>> {
    let size = element_type.size() as u64;
    let (block, count) = (BLOCK.min(shape.len()), shape.len());
    let blocks = BLOCKS.min(count.div_ceil(BLOCK));
    let mut bytes = vec![0; (block * size) as usize];
    let mut values = Vec::new();
    for i in 0..blocks {
        let first = (u128::from(count - block) * u128::from(i) / u128::from((blocks - 1).max(1))) as u64;
        source.read_exact_at(&mut bytes, offset + first * size).ok()?;
        values.extend(bytes.chunks_exact(size as usize).map(|element| {
            let mut bits = [0; 8];
            bits[..element.len()].copy_from_slice(element);
            element_type.number_of_bits(u64::from_le_bytes(bits))
        }));
    }
    Some(values)
}
