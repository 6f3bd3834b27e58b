//! The warning about a few values that make up most of the range of a relative bound.

use syncline::{Bound, ElementType, ReadAt, Summary};

use crate::format::number;
use crate::input::ArrayInput;

/// Blocks of the array that are looked at, evenly spaced.
const BLOCKS: u64 = 256;
/// Elements of a block.
const BLOCK: u64 = 1 << 12;
/// Fewer than one value in this many counts as few.
const FEW: usize = 1000;
/// The range of all other values is less than this part of the whole range.
const PART: f64 = 0.1;

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

/// Returns the warning if under 0.1 % of the values make up over 90 % of the range that the bound refers to.
pub fn warning(array: &ArrayInput, summary: &Summary) -> Option<String> {
    let (Bound::Rel(part), Some((low, high))) = (summary.bound, summary.range) else { return None };
    let fills: Vec<u64> = summary.fills.iter().map(|fill| fill.value.to_bits()).collect();
    let mut values = sample(array)?;
    values.retain(|value| value.is_finite() && !fills.contains(&value.to_bits()));
    let few = values.len() / FEW;
    // The narrowest range of all sampled values but a few.
    let width = values.len().checked_sub(few).filter(|&width| width > 1)?;
    sort_ends(&mut values, few + 1);
    let windows = (0..=few).map(|first| (values[first], values[first + width - 1]));
    let (from, to) = windows.min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))?;
    let range = high - low;
    if to - from >= PART * range {
        return None;
    }
    let far: Vec<f64> = [(low, from - low), (high, high - to)]
        .into_iter()
        .filter(|(_, gap)| *gap > PART * range)
        .map(|(value, _)| value)
        .collect();
    far.first()?;
    let names: Vec<String> = far.iter().map(|&value| number(value)).collect();
    let fills: Vec<String> = far.iter().map(|&value| exact(summary.element_type, value)).collect();
    Some(format!(
        "fewer than 0.1 % of the values, such as {}, make up more than 90 % of the range that --rel refers to, which \
         makes the bound coarse for all others ({} to {}): add --fill {} if it means \"no data\", or use --abs {}",
        names.join(" and "),
        number(from),
        number(to),
        fills.join(","),
        number(part * (to - from))
    ))
}

/// Returns a number that is read back as this element.
fn exact(element_type: ElementType, value: f64) -> String {
    match element_type {
        ElementType::F32 => format!("{:?}", value as f32),
        _ => format!("{value:?}"),
    }
}

/// Returns values from all parts of an array of floating-point numbers.
fn sample(array: &ArrayInput) -> Option<Vec<f64>> {
    let size = array.element_type.size() as u64;
    let (block, count) = (BLOCK.min(array.shape.len()), array.shape.len());
    let blocks = BLOCKS.min(count.div_ceil(BLOCK));
    let mut bytes = vec![0; (block * size) as usize];
    let mut values = Vec::new();
    for i in 0..blocks {
        let first = (u128::from(count - block) * u128::from(i) / u128::from((blocks - 1).max(1))) as u64;
        array.input.read_exact_at(&mut bytes, array.offset + first * size).ok()?;
        match array.element_type {
            ElementType::F32 => {
                values.extend(bytes.as_chunks::<4>().0.iter().map(|word| f64::from(f32::from_le_bytes(*word))));
            }
            ElementType::F64 => values.extend(bytes.as_chunks::<8>().0.iter().map(|word| f64::from_le_bytes(*word))),
            _ => return None,
        }
    }
    Some(values)
}
