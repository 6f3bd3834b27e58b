//! The paper's figures, and throughputs of its authors' code on the kind of card that we measure on.

/// Compression ratios of a set (Table 1), by window, chunk size and symbol width; 0 where the table has none.
pub type Grid = [[[f64; 3]; 4]; 4];

const N: f64 = 0.0;

/// The figures of a set of the paper.
pub struct PaperSet {
    /// Name of our set.
    pub name: &'static str,
    /// Table 1: compression ratios.
    pub ratios: Grid,
    /// Table 2, on an A100 with chunks of 2,048 bytes: GB/s by window and symbol width; 0 where our copy of the table
    /// is not legible.
    pub compress: [[f64; 3]; 4],
}

/// The six sets: cuSZ's codes at a relative bound of 1e-3, TPC-H, a seismic field.
#[expect(clippy::approx_constant, reason = "a ratio of 3.14")]
pub const SETS: [PaperSet; 6] = [
    PaperSet {
        name: "hurr-quant",
        ratios: [
            [[3.14, 3.77, 3.58], [3.18, 3.84, 3.66], [N, 3.88, 3.70], [N, N, 3.72]],
            [[3.79, 4.39, 4.05], [3.86, 4.50, 4.18], [N, 4.56, 4.25], [N, N, 4.28]],
            [[4.39, 4.91, 4.44], [4.51, 5.09, 4.64], [N, 5.18, 4.75], [N, N, 4.81]],
            [[4.89, 5.32, 4.78], [5.07, 5.59, 5.15], [N, 5.73, 5.36], [N, N, 5.47]],
        ],
        compress: [[8.1, N, 29.0], [4.6, 8.9, 17.5], [2.5, 4.9, 11.0], [1.4, 2.8, 7.0]],
    },
    PaperSet {
        name: "hacc-quant",
        ratios: [
            [[1.55, 1.67, 1.59], [1.55, 1.68, 1.60], [N, 1.68, 1.61], [N, N, 1.61]],
            [[1.71, 1.82, 1.71], [1.72, 1.84, 1.73], [N, 1.85, 1.74], [N, N, 1.75]],
            [[1.87, 1.97, 1.83], [1.88, 2.00, 1.86], [N, 2.02, 1.88], [N, N, 1.89]],
            [[2.01, 2.12, 1.92], [2.03, 2.18, 1.99], [N, 2.20, 2.03], [N, N, 2.05]],
        ],
        compress: [[7.4, 13.8, 29.0], [4.5, 8.2, 19.2], [2.6, 4.8, 12.4], [1.5, 2.7, 7.4]],
    },
    PaperSet {
        name: "nyx-quant",
        ratios: [
            [[3.97, 5.07, 4.80], [4.04, 5.20, 4.95], [N, 5.27, 5.02], [N, N, 5.06]],
            [[5.06, 6.18, 5.73], [5.19, 6.42, 6.00], [N, 6.54, 6.14], [N, N, 6.21]],
            [[6.14, 7.19, 6.52], [6.36, 7.57, 6.99], [N, 7.79, 7.25], [N, N, 7.38]],
            [[7.08, 8.03, 7.11], [7.46, 8.65, 7.94], [N, 9.01, 8.42], [N, N, 8.64]],
        ],
        compress: [[9.5, 15.7, 30.1], [5.7, 9.4, 19.8], [3.1, 5.5, 11.3], [N, 3.6, 6.9]],
    },
    PaperSet {
        name: "tpch-int32",
        ratios: [
            [[1.31, 1.25, 1.29], [1.32, 1.26, 1.30], [N, 1.26, 1.30], [N, N, 1.30]],
            [[1.37, 1.30, 1.34], [1.38, 1.31, 1.35], [N, 1.31, 1.35], [N, N, 1.36]],
            [[1.43, 1.34, 1.38], [1.44, 1.35, 1.39], [N, 1.36, 1.40], [N, N, 1.41]],
            [[1.50, 1.38, 1.41], [1.51, 1.39, 1.43], [N, 1.40, 1.44], [N, N, 1.45]],
        ],
        compress: [[7.1, 12.1, 25.4], [4.4, 7.9, 16.3], [2.4, 4.8, 10.2], [1.3, 2.8, N]],
    },
    PaperSet {
        name: "tpch-string",
        ratios: [
            [[1.55, 1.58, 1.46], [1.56, 1.59, 1.47], [N, 1.60, 1.48], [N, N, 1.48]],
            [[2.02, 1.96, 1.72], [2.04, 1.99, 1.76], [N, 2.01, 1.78], [N, N, 1.79]],
            [[2.57, 2.43, 2.03], [2.62, 2.50, 2.12], [N, 2.54, 2.17], [N, N, 2.20]],
            [[3.08, 2.84, 2.27], [3.19, 3.00, 2.47], [N, 3.09, 2.58], [N, N, 2.64]],
        ],
        compress: [[7.1, 12.5, 22.9], [4.7, 8.4, 15.2], [2.4, 4.8, 10.7], [1.4, 2.6, 6.9]],
    },
    PaperSet {
        name: "rtm-float32",
        ratios: [
            [[2.45, 2.72, 2.88], [2.47, 2.75, 2.91], [N, 2.77, 2.93], [N, N, 2.94]],
            [[2.59, 2.80, 2.92], [2.61, 2.83, 2.96], [N, 2.85, 2.98], [N, N, 2.99]],
            [[2.66, 2.84, 2.94], [2.69, 2.88, 2.99], [N, 2.89, 3.01], [N, N, 3.02]],
            [[2.69, 2.85, 2.97], [2.72, 2.90, 3.02], [N, 2.92, 3.05], [N, N, 3.07]],
        ],
        compress: [[7.3, 14.3, 28.4], [4.5, 9.3, 17.7], [2.5, 4.9, 10.8], [1.4, 3.1, 8.1]],
    },
];

/// Returns the figures of a set.
pub fn set(name: &str) -> Option<&'static PaperSet> {
    let name = name.split("-x").next().unwrap_or(name);
    SETS.iter().find(|set| set.name == name)
}

/// Measurements of the authors' code on an NVIDIA H200 on 2026-11-21 with the codes of nyx, rtm, cesm and hacc at a
/// relative bound of 1e-3: bytes of a symbol, level, and the lowest and highest GB/s of compression and of
/// decompression.
pub const AUTHORS: [(usize, u8, [f64; 2], [f64; 2]); 3] =
    [(2, 3, [10.0, 12.0], [46.0, 122.0]), (4, 1, [55.0, 81.0], [60.0, 193.0]), (2, 4, [6.0, 7.0], [43.0, 122.0])];

/// Table 3: cuSZ at a relative bound of 1e-2 on an A100: ratio and GB/s without LZSS, and with it.
pub const LOSSY: [(&str, [f64; 2], [f64; 2]); 4] = [
    ("cesm", [22.6, 12.0], [43.2, 2.7]),
    ("hurricane", [24.3, 31.9], [29.1, 5.9]),
    ("nyx", [30.1, 87.2], [74.8, 10.4]),
    ("rtm", [28.6, 49.2], [249.8, 7.2]),
];
