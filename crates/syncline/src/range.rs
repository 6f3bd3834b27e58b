//! The scan of the whole array before compression, for its range, its fill values, and the step.

use rayon::prelude::*;
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Resolved, Scan, resolve};
use syncline_core::error::Result;

use crate::io::ReadAt;
use crate::options::CompressOptions;
use crate::pool::Pool;
use crate::source::ArraySource;

/// Elements that a thread scans at a time.
pub(crate) const SCAN_PART: u64 = 1 << 18;

/// Resolves the bound of an array. Reads it once more for each extreme value that may be a fill value.
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
    resolve(&scan_all(source, len, empty_scan(element_type, len, options)?, pool)?, options.rewritable())
}

/// Scans all elements of an array as often as its fill values require, from its empty scan.
pub(crate) fn scan_all<S: ReadAt + ?Sized>(
    source: &ArraySource<S>,
    len: u64,
    empty: Scan,
    pool: &Pool,
) -> Result<Scan> {
    let first = pass(source, len, empty, pool)?;
    first.settle(|empty| pass(source, len, empty, pool))
}

/// Returns the empty scan of an array for a bound that is not lossless.
pub(crate) fn empty_scan(element_type: ElementType, len: u64, options: &CompressOptions) -> Result<Scan> {
    options.bound().validate(element_type)?;
    Ok(Scan::new(element_type, len, options.bound(), options.fill()))
}

/// Adds all elements to copies of `empty`, in parts, and merges these.
fn pass<S: ReadAt + ?Sized>(source: &ArraySource<S>, len: u64, empty: Scan, pool: &Pool) -> Result<Scan> {
    let scan_part = |(mut scan, mut buffer): (Scan, Vec<u8>), part: u64| -> Result<(Scan, Vec<u8>)> {
        let first = part * SCAN_PART;
        scan.add(first, source.elements(first, SCAN_PART.min(len - first), &mut buffer)?);
        Ok((scan, buffer))
    };
    let parts = len.div_ceil(SCAN_PART);
    if pool.threads() == 1 {
        // On the caller's thread: starting another one would take longer than scanning a small array.
        let scan = |done: (Scan, Vec<u8>), part| scan_part(done, part);
        return (0..parts).try_fold((empty, Vec::new()), scan).map(|(scan, _)| scan);
    }
    pool.install(|| {
        (0..parts)
            .into_par_iter()
            .try_fold(|| (empty.clone(), Vec::new()), scan_part)
            .map(|scan| scan.map(|(scan, _)| scan))
            .try_reduce(|| empty.clone(), |a, b| Ok(a.merge(b)))
    })
}
