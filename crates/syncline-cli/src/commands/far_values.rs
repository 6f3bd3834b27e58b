//! The warnings about fill values that are not there, and about a few values that make up most of a range.

use syncline::advice::{self, FarValues, NearFill};
use syncline::{Bound, ElementType, Fill, Summary};

use crate::format::number;
use crate::input::ArrayInput;

/// Returns the warnings about an array that was compressed with this fill option.
pub fn warnings(array: &ArrayInput, fill: Fill, summary: &Summary) -> Vec<String> {
    let far = advice::far_values(&array.input, array.offset, summary).map(|found| of_far_values(&found, summary));
    let near = advice::near_fills(fill, summary).into_iter().map(|found| of_near_fill(found, summary));
    far.into_iter().chain(near).collect()
}

fn of_near_fill(found: NearFill, summary: &Summary) -> String {
    let nearest = exact(summary.element_type, found.nearest);
    format!(
        "no value equals --fill {:?}, but {nearest} is close to it: use --fill {nearest} if it means \"no data\"",
        found.fill
    )
}

fn of_far_values(found: &FarValues, summary: &Summary) -> String {
    debug_assert!(matches!(summary.bound, Bound::Rel(_)));
    let names: Vec<String> = found.far.iter().map(|&value| number(value)).collect();
    let fills: Vec<String> = found.far.iter().map(|&value| exact(summary.element_type, value)).collect();
    format!(
        "fewer than 0.1 % of the values, such as {}, make up more than 90 % of the range that --rel refers to, which \
         makes the bound coarse for all others ({} to {}): add --fill {} if it means \"no data\", or use --abs {}",
        names.join(" and "),
        number(found.others.0),
        number(found.others.1),
        fills.join(","),
        number(found.abs_bound)
    )
}

/// Returns a number that is read back as this element.
fn exact(element_type: ElementType, value: f64) -> String {
    match element_type {
        ElementType::F32 => format!("{:?}", value as f32),
        _ => format!("{value:?}"),
    }
}
