//! Section 0 of quantized chunks: what each tile is.

use crate::bits::fields::{Fields, align};
use crate::bits::pack::{pack_values, packed_len, unpack_values};
use crate::error::{Error, Result};
use crate::quantize::mask::MaskKind;

/// Classes of the codes of tiles, if a chunk has any.
pub const MAX_CLASSES: usize = 4;

/// [`TileInfo::predictor`] of a tile that is interpolated.
pub const INTERPOLATED: u8 = 3;

/// Properties of a tile that the stream stores in addition to its base and codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileInfo {
    /// All codes are 0, none is stored.
    pub constant: bool,
    /// The place of the predictor in the chunk's list, or [`INTERPOLATED`].
    pub predictor: u8,
    /// Activity class, 0 to 3.
    pub class: u8,
    /// Elements that hold a fill pattern.
    pub mask: MaskKind,
    /// Which fill pattern, 0 to 3.
    pub pattern: u8,
    /// Elements that are negative (log-quantized only).
    pub sign: MaskKind,
}

impl TileInfo {
    /// Returns the number of bitmaps of the tile.
    pub fn bitmaps(&self) -> usize {
        [self.mask, self.sign].iter().filter(|&&kind| kind == MaskKind::Bitmap).count()
    }
}

/// Section 0 with all its tiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileSection {
    /// The code of the chunk's interpolation scheme, 0 if no tile is interpolated.
    pub scheme: u8,
    /// The Lorenzo predictors that its tiles may have.
    pub predictors: [u8; 3],
    /// Whether tiles have classes.
    pub classes: bool,
    /// The tiles, in order.
    pub tiles: Vec<TileInfo>,
}

const MASKS: u8 = 1;
const CLASSES: u8 = 2;
const SIGNS: u8 = 4;

/// Packs values of `BITS` bits, then align(4).
pub(crate) fn pack_aligned<const BITS: usize>(out: &mut Vec<u8>, values: impl Iterator<Item = u8>) {
    pack_values::<BITS>(values, out);
    align(out, 4);
}

/// Reads the next `count` values of `BITS` bits, then align(4).
pub(crate) fn unpack_aligned<'a, const BITS: usize>(
    fields: &mut Fields<'a>,
    count: usize,
) -> Result<impl Iterator<Item = u8> + use<'a, BITS>> {
    let bytes = fields.take(packed_len::<BITS>(count))?;
    fields.align(4)?;
    Ok(unpack_values::<BITS>(bytes, count))
}

impl TileSection {
    /// Returns the number of codebooks of a chunk with these tiles: for the codes, or for each of their
    /// classes, and one for bitmaps if there are any.
    pub fn codebooks(&self) -> usize {
        (if self.classes { MAX_CLASSES } else { 1 }) + usize::from(self.has_bitmaps())
    }

    /// Returns whether some tile has a bitmap.
    pub fn has_bitmaps(&self) -> bool {
        self.tiles.iter().any(|tile| tile.bitmaps() > 0)
    }

    /// Appends the section to `out`, which must be aligned to 4.
    pub fn write(&self, out: &mut Vec<u8>) {
        let tiles = &self.tiles;
        let masks = tiles.iter().any(|t| t.mask != MaskKind::Nothing);
        let signs = tiles.iter().any(|t| t.sign != MaskKind::Nothing);
        let flags = u8::from(masks) * MASKS + u8::from(self.classes) * CLASSES + u8::from(signs) * SIGNS;
        out.extend_from_slice(&(tiles.len() as u32).to_le_bytes());
        out.push(self.scheme);
        out.extend_from_slice(&self.predictors);
        out.extend_from_slice(&[flags, 0, 0, 0]);
        let varying = || tiles.iter().filter(|t| !t.constant);
        pack_aligned::<1>(out, tiles.iter().map(|t| u8::from(t.constant)));
        pack_aligned::<2>(out, varying().map(|t| t.predictor));
        if self.classes {
            pack_aligned::<2>(out, varying().map(|t| t.class));
        }
        if masks {
            pack_aligned::<4>(out, tiles.iter().map(|t| t.mask as u8 | t.pattern << 2));
        }
        if signs {
            pack_aligned::<2>(out, tiles.iter().map(|t| t.sign as u8));
        }
    }

    /// Reads the section of a chunk that must hold `tiles` tiles; `patterns` is the number of fill patterns in the
    /// header.
    ///
    /// # Errors
    /// Wrong length or impossible values.
    pub fn parse(section: &[u8], tiles: usize, patterns: usize, place: &str) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(place, what);
        let mut fields = Fields::new(section, place);
        let count = fields.u32()? as usize;
        let scheme = fields.u8()?;
        let predictors = fields.array()?;
        let flags = fields.u8()?;
        if fields.take(3)? != [0; 3] || count != tiles || flags & !(MASKS | CLASSES | SIGNS) != 0 {
            return Err(bad("its tile section does not fit the shape"));
        }
        // Memory: `tiles` comes from the chunk geometry and the bitmap that follows has a bit for each.
        let constant = unpack_aligned::<1>(&mut fields, tiles)?;
        let mut infos: Vec<TileInfo> = constant.map(|c| TileInfo { constant: c == 1, ..TileInfo::default() }).collect();
        let varying = infos.iter().filter(|t| !t.constant).count();
        let varying_tiles = infos.iter_mut().filter(|t| !t.constant);
        let predictors_of_tiles = unpack_aligned::<2>(&mut fields, varying)?;
        varying_tiles.zip(predictors_of_tiles).for_each(|(info, predictor)| info.predictor = predictor);
        if flags & CLASSES != 0 {
            let classes = unpack_aligned::<2>(&mut fields, varying)?;
            for (info, class) in infos.iter_mut().filter(|t| !t.constant).zip(classes) {
                info.class = class;
            }
        }
        if flags & MASKS != 0 {
            let masks = unpack_aligned::<4>(&mut fields, tiles)?;
            for (info, mask) in infos.iter_mut().zip(masks) {
                info.mask = MaskKind::from_code(mask & 3).ok_or_else(|| bad("unknown mask kind"))?;
                info.pattern = mask >> 2;
                if info.mask != MaskKind::Nothing && usize::from(info.pattern) >= patterns {
                    return Err(bad("a mask names a fill pattern that the header does not have"));
                }
            }
        }
        if flags & SIGNS != 0 {
            let signs = unpack_aligned::<2>(&mut fields, tiles)?;
            for (info, sign) in infos.iter_mut().zip(signs) {
                info.sign = MaskKind::from_code(sign).ok_or_else(|| bad("unknown sign kind"))?;
            }
        }
        if !fields.rest().is_empty() {
            return Err(bad("its tile section is too long"));
        }
        let classes = flags & CLASSES != 0;
        Ok(Self { scheme, predictors, classes, tiles: infos })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn coverage() -> impl Strategy<Value = MaskKind> {
        prop_oneof![Just(MaskKind::Nothing), Just(MaskKind::All), Just(MaskKind::Bitmap)]
    }

    fn info() -> impl Strategy<Value = TileInfo> {
        (any::<bool>(), 0..4u8, 0..4u8, coverage(), 0..4u8, coverage()).prop_map(
            |(constant, predictor, class, mask, pattern, sign)| TileInfo {
                constant,
                predictor: if constant { 0 } else { predictor },
                class: if constant { 0 } else { class },
                mask,
                pattern: if mask == MaskKind::Nothing { 0 } else { pattern },
                sign,
            },
        )
    }

    proptest! {
        #[test]
        fn round_trips(tiles in prop::collection::vec(info(), 0..70), scheme in any::<u8>()) {
            let section = TileSection { scheme, predictors: [1, 2, scheme], classes: true, tiles };
            let mut bytes = Vec::new();
            section.write(&mut bytes);
            prop_assert_eq!(&TileSection::parse(&bytes, section.tiles.len(), 4, "test").unwrap(), &section);
            for length in 0..bytes.len() {
                prop_assert!(TileSection::parse(&bytes[..length], section.tiles.len(), 4, "test").is_err());
            }
        }

        #[test]
        fn never_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80), tiles in 0..40usize) {
            let mut bytes = bytes;
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&(tiles as u32).to_le_bytes());
            }
            let _ = TileSection::parse(&bytes, tiles, 2, "test");
        }
    }
}
