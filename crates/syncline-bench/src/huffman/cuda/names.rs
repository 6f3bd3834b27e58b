//! What encoders and decoders are called in rows, for those who look for them.

/// Our encoder.
pub const MERGED: &str = "merged";
/// A thread a segment.
pub const COARSE: &str = "coarse";
/// A prefix sum of lengths.
pub const PREFIX_SUM: &str = "prefix-sum";
/// Histogram, codebooks and our encoder together.
pub const WHOLE_PATH: &str = "histogram, codebooks, merged";
/// Our decoder with the symbol index.
pub const INDEXED: &str = "indexed";
/// Our decoder with the gap index.
pub const GAP: &str = "gap";
/// `gap_array_2020`.
pub const GAP_2020: &str = "gap (2020)";
/// `gap_array_2022`.
pub const GAP_2022: &str = "gap by class (2022)";
/// Our decoder without an index.
pub const SELF_SYNC: &str = "self-sync";
/// `self_sync_2018`.
pub const SELF_SYNC_2018: &str = "self-sync (2018)";
/// `self_sync_2022`.
pub const SELF_SYNC_2022: &str = "self-sync by class (2022)";
/// `cusz_2020`: one thread decodes 32 groups.
pub const CHUNKED: &str = "chunked";
/// Stands for the index of another library's streams.
pub const NVCOMP: &str = "nvcomp";

/// Chunk magnitudes of the 2021 paper's table.
pub const MAGNITUDES: [u32; 3] = [12, 11, 10];
/// Reduction factors of the same.
pub const REDUCTIONS: [u32; 3] = [4, 3, 2];

/// Reduce-shuffle-merge with these constants.
pub fn merging(magnitude: u32, reduction: u32) -> String {
    format!("reduce-shuffle-merge M={magnitude} r={reduction}")
}
