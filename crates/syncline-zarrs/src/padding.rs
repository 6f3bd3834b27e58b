//! Chunks at the ends of arrays, whose parts outside of the array are padding.

use syncline::{CompressOptions, ElementType, Fill, Result, Shape};
use syncline_core::bound::{Bound, PieceBound, Scaling, Scan};

/// Returns the options for a chunk whose bound refers to the range.
///
/// The parts of a chunk that lie outside of the array are filled with one value, which must not count in the range.
/// Planes at the ends of the axes that hold nothing but the value of the last element are taken for such parts. Where
/// they are elements, the bound is tighter than it has to be. The Python package does the same.
pub fn without_padding(
    options: CompressOptions,
    bytes: &[u8],
    element: ElementType,
    shape: Shape,
) -> Result<CompressOptions> {
    let bound = options.bound();
    if !matches!(bound, Bound::Rel(_) | Bound::Psnr(_)) {
        return Ok(options);
    }
    let Some(inner) = before_padding(bytes, element.size(), shape.extents()) else { return Ok(options) };
    let count = (inner.len() / element.size()) as u64;
    let resolved = PieceBound::resolve(element, count, bound, Scaling::default(), options.fill(), |mut scan: Scan| {
        scan.add(0, &inner);
        Ok::<_, syncline::Error>(scan)
    })?;
    Ok(options.with_bound(resolved.bound).with_fill(Fill::of(&resolved.fills)?))
}

/// Returns the elements before what may be padding, or `None` if nothing, or all, may be padding. Elements of 4 and 8
/// bytes are floating-point numbers.
fn before_padding(bytes: &[u8], size: usize, shape: &[u64]) -> Option<Vec<u8>> {
    let number = |element: &[u8]| match *element {
        [a, b, c, d] => f64::from(f32::from_ne_bytes([a, b, c, d])),
        _ => element.try_into().map_or(0.0, f64::from_ne_bytes),
    };
    let last = number(bytes.rchunks_exact(size).next()?);
    let mut stops = vec![0; shape.len()];
    for (at, element) in (0..).zip(bytes.chunks_exact(size)) {
        let value = number(element);
        if value != last && !(value.is_nan() && last.is_nan()) {
            for (stop, position) in stops.iter_mut().zip(positions(at, shape)) {
                *stop = (*stop).max(position + 1);
            }
        }
    }
    if stops.contains(&0) || stops == shape {
        return None;
    }
    let inside = |at: u64| positions(at, shape).iter().zip(&stops).all(|(position, stop)| position < stop);
    let inner = (0..).zip(bytes.chunks_exact(size)).filter(|(at, _)| inside(*at));
    Some(inner.flat_map(|(_, element)| element).copied().collect())
}

/// Returns the position of an element along each axis.
fn positions(at: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = at;
    let mut positions = vec![0; shape.len()];
    for (position, extent) in positions.iter_mut().zip(shape).rev() {
        (*position, rest) = (rest % extent, rest / extent);
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::before_padding;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn planes_of_one_value_at_the_ends_are_padding() {
        let chunk = bytes(&[1.0, 2.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(before_padding(&chunk, 4, &[3, 3]), Some(bytes(&[1.0, 2.0, 3.0, 0.0])));
        assert_eq!(before_padding(&chunk, 4, &[9]), Some(bytes(&[1.0, 2.0, 0.0, 3.0])));
        let missing = [1.0, f32::NAN, 5.0, f32::NAN].map(f32::to_ne_bytes).concat();
        assert_eq!(before_padding(&missing, 4, &[2, 2]), Some(bytes(&[1.0, 5.0])));
        for whole in [[0.0, 0.0, 0.0, 1.0], [7.0; 4], [f32::NAN; 4]] {
            assert_eq!(before_padding(&bytes(&whole), 4, &[2, 2]), None);
        }
        assert_eq!(before_padding(&[], 4, &[0]), None);
    }
}
