//! Options of a conversion.

use syncline::{Advanced, Effort};

/// How datasets are compressed.
#[derive(Debug)]
pub struct Options {
    /// Values that stand for missing data, if not those that each dataset declares.
    pub fill: Option<Vec<f64>>,
    /// Time that compression may take for smaller chunks, if not the default.
    pub effort: Option<Effort>,
    /// Single choices of the encoder.
    pub advanced: Advanced,
    /// Whether parts of chunks may be written later without errors that add up.
    pub rewritable: bool,
    /// Threads; 0 for as many as there are processors.
    pub threads: usize,
    /// Bytes of chunks that may be in memory.
    pub memory_limit: Option<u64>,
}
