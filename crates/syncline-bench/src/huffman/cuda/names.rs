//! The names of encoders and decoders in rows of results.

/// Our encoder, which merges codewords in pairs.
pub const MERGED: &str = "merged";
/// The coarse-grained encoder: one thread encodes a segment.
pub const COARSE: &str = "coarse";
/// The fine-grained encoder: a prefix sum of codeword lengths.
pub const PREFIX_SUM: &str = "prefix-sum";
/// Histogram, codebooks and our encoder together.
pub const WHOLE_PATH: &str = "histogram, codebooks, merged";
/// Our decoder with the symbol index.
pub const INDEXED: &str = "indexed";
/// Our decoder with the gap index.
pub const GAP: &str = "gap";
/// The decoder of `gap_array_2020`.
pub const GAP_2020: &str = "gap (2020)";
/// The decoder of `gap_array_2022`.
pub const GAP_2022: &str = "gap by class (2022)";
/// Our decoder without an index.
pub const SELF_SYNC: &str = "self-sync";
/// The decoder of `self_sync_2018`.
pub const SELF_SYNC_2018: &str = "self-sync (2018)";
/// The decoder of `self_sync_2022`.
pub const SELF_SYNC_2022: &str = "self-sync by class (2022)";
/// The decoder of `cusz_2020`: one thread decodes 32 groups.
pub const CHUNKED: &str = "chunked";
/// Takes the place of the index for streams of nvCOMP.
pub const NVCOMP: &str = "nvcomp";

/// Chunk magnitudes of the 2021 paper's table.
pub const MAGNITUDES: [u32; 3] = [12, 11, 10];
/// Reduction factors of the 2021 paper's table.
pub const REDUCTIONS: [u32; 3] = [4, 3, 2];

/// Returns the name of reduce-shuffle-merge with these constants.
pub fn merging(magnitude: u32, reduction: u32) -> String {
    format!("reduce-shuffle-merge M={magnitude} r={reduction}")
}
