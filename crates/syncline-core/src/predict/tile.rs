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
