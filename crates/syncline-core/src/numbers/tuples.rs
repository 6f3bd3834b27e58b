//! Symbols of several bins in a row.

use crate::error::{Error, Result};

/// Bins of a symbol.
pub const TUPLES: [usize; 4] = [1, 2, 4, 8];

/// Most symbols of an alphabet.
pub const MAX_SYMBOLS: usize = 4096;

/// Returns the most bins that a chunk may have with `tuple` bins a symbol.
pub fn most_bins(tuple: usize) -> usize {
    match tuple {
        1 => 255,
        2 => 63,
        4 => 8,
        _ => 2,
    }
}

/// Returns the number of symbols: `bins` to the power of `tuple`.
///
/// # Errors
/// An unknown number of bins a symbol, or too many symbols.
pub fn symbols(bins: usize, tuple: usize, place: &str) -> Result<usize> {
    if !TUPLES.contains(&tuple) || bins == 0 || bins > most_bins(tuple) {
        return Err(Error::corrupt(place, "impossible symbols of bins"));
    }
    Ok(bins.pow(tuple as u32))
}

/// Returns the bins of each symbol, the first bin first.
pub fn expand(bins: usize, tuple: usize) -> Vec<[u8; 8]> {
    let count = bins.pow(tuple as u32);
    (0..count)
        .map(|symbol| {
            let mut rest = symbol;
            let mut of_symbol = [0; 8];
            for slot in of_symbol[..tuple].iter_mut().rev() {
                *slot = (rest % bins) as u8;
                rest /= bins;
            }
            of_symbol
        })
        .collect()
}

/// Appends the symbols of a tile's bins. The last one is filled up with bin 0.
#[inline(always)]
pub fn pack<const TUPLE: usize>(of_codes: &[u8], bins: usize, symbols: &mut Vec<u16>) {
    let bins = bins as u16;
    let (tuples, rest) = of_codes.as_chunks::<TUPLE>();
    let symbol = |tuple: &[u8; TUPLE]| tuple.iter().fold(0u16, |symbol, &bin| symbol * bins + u16::from(bin));
    symbols.extend(tuples.iter().map(symbol));
    if !rest.is_empty() {
        let mut last = [0; TUPLE];
        last[..rest.len()].copy_from_slice(rest);
        symbols.push(symbol(&last));
    }
}
