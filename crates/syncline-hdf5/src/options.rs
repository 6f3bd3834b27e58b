//! Options of a conversion.

use syncline::{Bound, Coder, Effort};

/// How datasets are compressed.
#[derive(Debug)]
pub struct Options {
    /// The bound. Those relative to the range refer to all values of a dataset.
    pub bound: Bound,
    /// Values that stand for missing data, if not those that each dataset declares.
    pub fill: Option<Vec<f64>>,
    /// Lossless stage.
    pub coder: Option<Coder>,
    /// Level of LZSS.
    pub level: Option<u8>,
    /// Time that compression may take for smaller chunks.
    pub effort: Option<Effort>,
    /// Paths of datasets and groups that stay as they are.
    pub except: Vec<String>,
    /// Threads; 0 for as many as there are processors.
    pub threads: usize,
    /// Bytes of chunks that may be in memory.
    pub memory_limit: Option<u64>,
}
