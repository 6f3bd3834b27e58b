//! Bins: intervals of codes, and how a chunk states them.

use crate::bits::fields::{Fields, align};
use crate::error::{Error, Result};
use crate::predict::word::Word;

/// Most bins of a chunk.
pub const MAX_BINS: usize = 255;

/// An interval of codes: `low + (raw << shift)`, where `raw` has `width` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// The smallest code, sign-extended.
    pub low: i64,
    /// Raw bits of a code.
    pub width: u8,
    /// Bits below the raw bits, all 0.
    pub shift: u8,
}

fn write_leb128(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_leb128(fields: &mut Fields<'_>, place: &str) -> Result<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = fields.u8()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Error::corrupt(place, "the end of a bin is too large"))
}

/// Appends bins, those of each shift in a row.
pub fn write_bins(bins: &[Bin], out: &mut Vec<u8>) {
    let families = bins.chunk_by(|a, b| a.shift == b.shift);
    out.push(families.clone().count() as u8);
    for family in families {
        out.extend_from_slice(&[family[0].shift, family.len() as u8]);
        let mut expected = 0i64;
        for bin in family {
            let low = bin.low >> bin.shift;
            out.push(bin.width);
            let step = low.wrapping_sub(expected);
            write_leb128(out, ((step << 1) ^ (step >> 63)) as u64);
            expected = low.wrapping_add(1i64.checked_shl(bin.width.into()).unwrap_or(0));
        }
    }
    align(out, 4);
}

/// Reads the bins of codes of `W`.
///
/// # Errors
/// No bins, too many, or bins that are wider than a code.
pub fn read_bins<W: Word>(section: &[u8], place: &str) -> Result<Vec<Bin>> {
    let bad = |what: &str| Error::corrupt(place, what);
    let mut fields = Fields::new(section, place);
    let mut bins = Vec::new();
    for _ in 0..fields.u8()? {
        let (shift, count) = (fields.u8()?, fields.u8()?);
        let mut expected = 0i64;
        for _ in 0..count {
            let width = fields.u8()?;
            if u32::from(width) + u32::from(shift) > W::BITS || u32::from(shift) >= W::BITS {
                return Err(bad("a bin is wider than a code"));
            }
            let step = read_leb128(&mut fields, place)?;
            let low = expected.wrapping_add(((step >> 1) as i64) ^ -((step & 1) as i64));
            expected = low.wrapping_add(1i64.checked_shl(width.into()).unwrap_or(0));
            bins.push(Bin { low: low.wrapping_shl(shift.into()), width, shift });
        }
    }
    fields.align(4)?;
    if bins.is_empty() || bins.len() > MAX_BINS || !fields.rest().is_empty() {
        return Err(bad("its bins are too many or none"));
    }
    Ok(bins)
}
