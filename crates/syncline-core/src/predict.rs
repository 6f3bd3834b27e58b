//! Prediction inside a tile (`docs/FORMAT.md`, "Prediction"): integers to residuals and codes, and back.

pub mod codes;
pub mod lorenzo;
pub mod planes;
pub mod words;

/// How a tile was predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileInfo<W> {
    /// The tile's first integer; residuals are of what is left when it is subtracted.
    pub base: W,
    /// 0 none, 1 to 3 Lorenzo over that many axes.
    pub predictor: u8,
    /// Sum of the residuals' magnitudes.
    pub activity: u64,
}

impl<W> TileInfo<W> {
    /// Whether every residual is 0.
    pub fn is_constant(&self) -> bool {
        self.activity == 0
    }
}
