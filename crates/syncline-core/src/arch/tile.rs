//! Vector kernels of full tiles: prediction, codes, and their inverse.

use crate::predict::TileInfo;
use crate::predict::codes::Outlier;

/// Encodes a tile of 8 x 8 x 8. None if the values are too far apart for its narrow sums.
pub fn encode_cube(_q: &[i32], _radius: u32, _codes: &mut [u16]) -> Option<(TileInfo<i32>, bool)> {
    None
}

/// Decodes a tile of 8 x 8 x 8.
pub fn decode_cube(
    _codes: &[u16],
    _predictor: u8,
    _base: i32,
    _radius: u32,
    _outliers: &[Outlier],
    _q: &mut [i32],
) -> bool {
    false
}
