//! The look over the whole array before compression: its range and fill values, and the bound resolved with them.

use rayon::prelude::*;
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill, Resolved, Scan, resolve};
use syncline_core::error::Result;

use crate::io::ReadAt;
use crate::options::CompressOptions;
use crate::pool::Pool;
use crate::source::ArraySource;

/// Elements that a thread looks at before it takes the next part.
pub(crate) const SCAN_PART: u64 = 1 << 18;

/// Resolves the bound of an array that can be read, twice if an extreme value looks like fill.
pub(crate) fn resolve_by_scan<S: ReadAt + ?Sized>(
    source: &ArraySource<S>,
    element_type: ElementType,
    len: u64,
    options: &CompressOptions,
    pool: &Pool,
) -> Result<Resolved> {
    if options.bound() == Bound::Lossless {
        return Ok(Resolved::lossless());
    }
    let first = pass(source, len, empty_scan(element_type, len, options)?, pool)?;
    let scan = match first.second_pass() {
        Some(second) => first.settle(pass(source, len, second, pool)?),
        None => first,
    };
    resolve(options.bound(), element_type, &scan)
}

/// The scan that a look at all elements starts with, for a bound that is not lossless.
pub(crate) fn empty_scan(element_type: ElementType, len: u64, options: &CompressOptions) -> Result<Scan> {
    options.bound().validate(element_type)?;
    Ok(Scan::new(element_type, len, options.fill()))
}

/// Adds all elements to copies of `empty`, in parts, and merges them.
fn pass<S: ReadAt + ?Sized>(source: &ArraySource<S>, len: u64, empty: Scan, pool: &Pool) -> Result<Scan> {
    let scan_part = |(mut scan, mut buffer): (Scan, Vec<u8>), part: u64| -> Result<(Scan, Vec<u8>)> {
        let first = part * SCAN_PART;
        scan.add(first, source.elements(first, SCAN_PART.min(len - first), &mut buffer)?);
        Ok((scan, buffer))
    };
    pool.install(|| {
        (0..len.div_ceil(SCAN_PART))
            .into_par_iter()
            .try_fold(|| (empty.clone(), Vec::new()), scan_part)
            .map(|scan| scan.map(|(scan, _)| scan))
            .try_reduce(|| empty.clone(), |a, b| Ok(a.merge(b)))
    })
}

/// Resolves the bound of an array that will only be seen once: the range is what the caller states, the masked patterns
/// are the quiet NaN, the given fill value and, where they cannot be quantized, zeros.
pub(crate) fn resolve_stated(
    element_type: ElementType,
    options: &CompressOptions,
    range: Option<(f64, f64)>,
) -> Result<Resolved> {
    options.bound().validate(element_type)?;
    if options.bound() == Bound::Lossless {
        return Ok(Resolved::lossless());
    }
    let fill = match options.fill() {
        Fill::Value(value) => Some(value),
        Fill::None | Fill::Auto => None,
    };
    let zero = matches!(options.bound(), Bound::PwRel(_)).then_some(0.0);
    let (low, high) = range.unzip();
    // The scan of an array that has just these values finds what was stated.
    let values = [Some(f64::NAN), fill, zero, low, high];
    let bytes: Vec<u8> = (values.into_iter().flatten())
        .flat_map(|value| match element_type {
            ElementType::F32 => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        })
        .collect();
    let mut scan = Scan::new(element_type, bytes.len() as u64, fill.map_or(Fill::None, Fill::Value));
    scan.add(0, &bytes);
    let resolved = resolve(options.bound(), element_type, &scan)?;
    Ok(if range.is_none() { Resolved { range: None, ..resolved } } else { resolved })
}
