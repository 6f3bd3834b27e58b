//! Finding out what the elements of a sample are made of (`docs/ENCODER.md`, "Numbers").

use super::number::{Number, Scale, Scaling, float_of, nearest};
use crate::array::ElementType;
use crate::predict::word::Word;

/// Share of a sample that has to be exact: out of 16.
const EXACT_SHARE: usize = 14;
/// Units in the last place that most elements of a sample may differ by.
const MOST_ULPS: u64 = 4;
/// Fewest different values that a common step is looked for among.
const FEWEST_VALUES: usize = 16;
/// So many values that are so far from multiples of a step on average, in steps, are no multiples of it. Values without
/// a step are a quarter of a step away.
const ENOUGH_VALUES: usize = 64;
const FAR: f64 = 0.1875;
/// Largest power of ten that values are divided by.
const MOST_DECIMALS: i32 = 15;

/// Returns the numbers that a sample may be made of, besides [`Number::Ordered`], which it always is.
pub fn candidates<W: Word>(element: ElementType, sample: &[W]) -> Vec<Number> {
    match element {
        ElementType::F32 | ElementType::F64 => floats(sample),
        _ if element.is_float() => Vec::new(),
        _ => multiples(sample).into_iter().collect(),
    }
}

/// Returns the greatest common divisor of the differences of integers if it is above 1.
fn multiples<W: Word>(sample: &[W]) -> Option<Number> {
    let &offset = sample.first()?;
    let mut divisor = 0;
    for &word in sample {
        let (mut a, mut b) = (word.minus(offset).magnitude(), divisor);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        divisor = a;
        if divisor == 1 {
            return None;
        }
    }
    (divisor > 1).then(|| Number::Multiple { divisor, offset: offset.widen() })
}

/// Returns the power of ten, exact up to 10^22.
fn power_of_ten(exponent: i32) -> f64 {
    (0..exponent).fold(1.0, |power, _| power * 10.0)
}

/// Returns whether nearly all of a sample is exactly as a scale says.
fn is_mostly<W: Word>(sample: &[W], mut is_one: impl FnMut(W) -> bool) -> bool {
    let most = sample.len() * (16 - EXACT_SHARE) / 16;
    let mut others = 0;
    sample.iter().all(|&word| {
        others += usize::from(!is_one(word));
        others <= most
    })
}

fn floats<W: Word>(sample: &[W]) -> Vec<Number> {
    let mut values: Vec<f64> = sample.iter().map(|&word| float_of(word)).filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    let mut found = Vec::new();
    // Every value is a multiple of a step that is finer than the distance of its neighbors.
    let finest = 1.5 * median_ulp::<W>(sample);
    let decimal =
        (0..=MOST_DECIMALS).take_while(|&exponent| power_of_ten(exponent) * finest < 1.0).find_map(|exponent| {
            let scale = Scale { how: Scaling::Quotient, step: power_of_ten(exponent), offset: 0.0 };
            is_mostly(sample, |word| scale.is_exact(word)).then_some(scale)
        });
    let step = common_step::<W>(&values);
    let products = step.into_iter().flat_map(|step| scales(step, &values));
    let mut best: Option<(usize, Scale)> = None;
    for scale in products {
        let exact = sample.iter().filter(|&&word| scale.is_exact(word)).count();
        if best.is_none_or(|(most, _)| exact > most) {
            best = Some((exact, scale));
        }
    }
    found.extend(decimal.map(Number::Scaled));
    if let Some((exact, scale)) = best {
        let within = |word| scale.ulps(word).is_some_and(|ulps| ulps.unsigned_abs() <= MOST_ULPS);
        if exact * 16 >= sample.len() * EXACT_SHARE {
            if decimal.is_none_or(|decimal| scale.step * decimal.step > 1.5) {
                found.push(Number::Scaled(scale));
            }
        } else if is_mostly(sample, within) && decimal.is_none() {
            found.push(Number::ScaledUlps(scale));
        }
    }
    found
}

/// Returns the distance of neighbors of the type of the element at the median magnitude.
fn median_ulp<W: Word>(sample: &[W]) -> f64 {
    let mut magnitudes: Vec<f64> = sample.iter().map(|&word| float_of(word).abs()).filter(|m| m.is_finite()).collect();
    let middle = magnitudes.len() / 2;
    match magnitudes.is_empty() {
        true => ulp_at::<W>(0.0),
        false => ulp_at::<W>(*magnitudes.select_nth_unstable_by(middle, f64::total_cmp).1),
    }
}

/// Returns the distance of neighbors of the type of the element at the largest magnitude.
fn largest_ulp<W: Word>(values: &[f64]) -> f64 {
    ulp_at::<W>(values.first().map_or(0.0, |value| value.abs()).max(values.last().map_or(0.0, |value| value.abs())))
}

/// Returns the distance of neighbors of the type of the element at a magnitude.
fn ulp_at<W: Word>(magnitude: f64) -> f64 {
    let bits = if W::BITS == 32 { 23 } else { 52 };
    let exponent = (magnitude.to_bits() >> 52) as i64 - bits;
    f64::from_bits((exponent.max(1) as u64) << 52)
}

/// Returns the steps that ascending values may be multiples of, but for an offset: a gap between neighbors, refined in
/// windows that grow.
fn common_step<W: Word>(values: &[f64]) -> Option<f64> {
    if values.len() < FEWEST_VALUES {
        return None;
    }
    let ulp = largest_ulp::<W>(values);
    let mut gaps: Vec<f64> =
        values.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| gap.is_finite() && *gap > 1.5 * ulp).collect();
    if gaps.len() < FEWEST_VALUES / 2 {
        return None;
    }
    gaps.sort_unstable_by(f64::total_cmp);
    let middle = values[values.len() / 2];
    let mut best: Option<(u64, f64)> = None;
    let mut last = 0.0;
    for at in [0, gaps.len() / 50, gaps.len() / 10, gaps.len() * 3 / 10] {
        if gaps[at] == last {
            continue;
        }
        last = gaps[at];
        let Some(step) = refined(values, middle, last) else { continue };
        if step <= 1.5 * ulp {
            continue;
        }
        // How far values are from multiples, in 64ths of a step.
        let distance = |value: &f64| ((remainder((value - middle) / step) * 64.0).abs()) as u64;
        let mean = values.iter().map(distance).sum::<u64>();
        if best.is_none_or(|(least, _)| mean < least) {
            best = Some((mean, step));
        }
    }
    // Values without a step are a quarter of a step away from multiples on average.
    best.filter(|&(mean, _)| mean <= 8 * values.len() as u64).map(|(_, step)| step)
}

/// Returns by how much a value differs from the nearest integer.
fn remainder(value: f64) -> f64 {
    value - nearest(value)
}

/// Returns a step that fits values around the middle, and then values further and further away.
fn refined(values: &[f64], middle: f64, gap: f64) -> Option<f64> {
    let (mut step, mut window) = (gap, 6.0);
    for _ in 0..16 {
        let from = values.partition_point(|&value| value < middle - step * window);
        let to = values.partition_point(|&value| value <= middle + step * window);
        let near = &values[from..to];
        if near.len() > 4 {
            // Least squares of value - middle over its number of steps.
            let (mut k1, mut k2, mut v1, mut kv, mut distance) = (0.0, 0.0, 0.0, 0.0, 0.0);
            let inverse = 1.0 / step;
            for value in near {
                let value = value - middle;
                let k = nearest(value * inverse);
                distance += (value * inverse - k).abs();
                k1 += k;
                k2 += k * k;
                v1 += value;
                kv += k * value;
            }
            let count = near.len() as f64;
            if near.len() >= ENOUGH_VALUES && distance > FAR * count {
                return None;
            }
            let divisor = count * k2 - k1 * k1;
            if divisor <= 0.0 {
                return None;
            }
            step = (count * kv - k1 * v1) / divisor;
            if !(step > 0.0 && step.is_finite()) {
                return None;
            }
        }
        window *= 2.5;
    }
    Some(step)
}

/// Returns the scales that a step which was found may stand for: it, or numbers of few digits close to it.
fn scales(step: f64, values: &[f64]) -> Vec<Scale> {
    let mut steps = vec![step];
    // The power of ten that makes the step a number from 1 to 10.
    let exponent = (-12..=18).find(|&exponent| scaled_by_ten(step, exponent) >= 1.0);
    if let Some(exponent) = exponent {
        for digits in 1..5 {
            let rounded = scaled_by_ten(step, exponent + digits).round_ties_even();
            steps.push(scaled_by_ten(rounded, -exponent - digits));
        }
    }
    let mut scales = Vec::new();
    for step in steps.into_iter().filter(|&step| step > 0.0 && step.is_finite()) {
        // The offset is the median of the distances from multiples of the step.
        let middle = values[values.len() / 2];
        let mut distances: Vec<f64> =
            values.iter().map(|value| middle + step * remainder((value - middle) / step)).collect();
        let median = *distances.select_nth_unstable_by(values.len() / 2, f64::total_cmp).1;
        let offset = median - step * (median / step).round_ties_even();
        for (how, offset) in [(Scaling::Product, 0.0), (Scaling::ShortProduct, 0.0), (Scaling::Product, offset)] {
            scales.push(Scale { how, step, offset });
        }
    }
    scales
}

/// Returns a number times a power of ten.
fn scaled_by_ten(number: f64, exponent: i32) -> f64 {
    if exponent >= 0 { number * power_of_ten(exponent) } else { number / power_of_ten(-exponent) }
}
