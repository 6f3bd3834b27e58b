//! Parameters of a predicted tile, without its residuals.

/// The predictor of a tile and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileInfo<W> {
    /// The tile's first integer, which is subtracted from all before prediction.
    pub base: W,
    /// 0 for no prediction, 1 to 3 for the Lorenzo predictor over that many axes.
    pub predictor: u8,
    /// Sum of the magnitudes of the residuals, as the predictor is chosen by.
    pub activity: u64,
}

impl<W> TileInfo<W> {
    /// Returns whether every residual is 0.
    pub fn is_constant(&self) -> bool {
        self.activity == 0
    }
}

/// A residual too large for a code: position in the tile, and value.
pub type Outlier = (u32, i32);

/// Returns the residual at an outlier's position, where the code alone gives `coded`. It is the outlier plus the code,
/// which is 0 unless the stream is damaged, so that a decoder may also add the outlier after summing up residuals,
/// without looking at the code.
#[inline(always)]
pub fn at_outlier(coded: u32, outlier: i32, radius: u32) -> u32 {
    coded.wrapping_add(radius).wrapping_add(outlier as u32)
}
