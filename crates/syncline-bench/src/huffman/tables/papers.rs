//! The papers' figures on their hardware. Throughputs are in 10^9 bytes of uncompressed codes per second.

/// A field of the 2022 paper ("Optimizing Huffman decoding for error-bounded lossy compression on GPUs", IPDPS), whose
/// codes have a relative bound of 1e-3, measured on one V100.
pub struct Field {
    /// Name of the generator of this field.
    pub name: &'static str,
    /// Table IV: compression ratio of the codes with the baseline, self-synchronization (both versions), and gap array
    /// (original, optimized).
    pub ratios: [f64; 4],
    /// Table V: throughput of the baseline; self-synchronization original and optimized; gap array original (of bytes)
    /// and optimized.
    pub decoding: [f64; 5],
    /// Table I: tuned, best and worst of the brute-force search, tuning alone, tuned including its overhead.
    pub staging: [f64; 5],
    /// Table II, original self-synchronization: in sequences, between sequences, output index, decoding and writing.
    pub original: [f64; 4],
    /// Table II, optimized self-synchronization: the steps of `original`, with tuning before the last.
    pub self_sync: [f64; 5],
    /// Table II, optimized gap array: output index, tuning, decoding and writing.
    pub gap: [f64; 3],
}

/// The eight fields of the paper.
pub const FIELDS: [Field; 8] = [
    Field {
        name: "hacc",
        ratios: [3.20, 3.18, 3.11, 3.00],
        decoding: [26.4, 39.7, 83.0, 84.4, 112.8],
        staging: [217.0, 235.5, 157.2, 2172.3, 197.3],
        original: [155.4, 2295.3, 573.8, 60.3],
        self_sync: [208.0, 2145.6, 569.0, 2172.3, 219.7],
        gap: [268.6, 2111.0, 214.0],
    },
    Field {
        name: "exaalt",
        ratios: [2.40, 2.40, 2.60, 2.26],
        decoding: [26.1, 40.9, 71.5, 87.7, 106.4],
        staging: [213.4, 212.2, 159.5, 2126.8, 194.0],
        original: [133.8, 1844.1, 435.1, 70.8],
        self_sync: [169.2, 1783.2, 432.3, 2126.8, 211.4],
        gap: [239.7, 2128.8, 210.1],
    },
    Field {
        name: "cesm",
        ratios: [9.06, 9.60, 9.42, 9.04],
        decoding: [25.2, 6.8, 101.9, 30.0, 123.9],
        staging: [188.2, 175.8, 117.8, 1471.3, 166.8],
        original: [264.4, 4240.8, 1516.0, 7.0],
        self_sync: [345.9, 4813.2, 1494.4, 1471.3, 186.5],
        gap: [495.1, 1473.3, 186.1],
    },
    Field {
        name: "nyx",
        ratios: [15.64, 15.99, 15.51, 15.05],
        decoding: [59.2, 5.5, 92.1, 17.5, 122.4],
        staging: [143.3, 147.6, 92.1, 1087.0, 126.6],
        original: [469.9, 6007.6, 2293.6, 5.6],
        self_sync: [430.8, 4761.2, 2189.1, 1087.0, 143.9],
        gap: [694.4, 1234.6, 168.9],
    },
    Field {
        name: "hurricane",
        ratios: [9.78, 9.92, 9.68, 9.33],
        decoding: [24.8, 6.8, 78.1, 37.3, 95.4],
        staging: [154.2, 152.5, 92.6, 745.4, 127.8],
        original: [295.3, 3436.6, 1487.7, 7.0],
        self_sync: [253.1, 3443.0, 1405.8, 745.4, 153.7],
        gap: [384.5, 741.8, 153.0],
    },
    Field {
        name: "qmcpack",
        ratios: [2.46, 2.45, 2.41, 2.31],
        decoding: [23.7, 35.1, 63.1, 87.2, 96.3],
        staging: [194.7, 214.8, 131.5, 1288.2, 169.1],
        original: [112.3, 1770.4, 439.3, 59.8],
        self_sync: [144.0, 1646.4, 433.2, 1180.0, 194.1],
        gap: [225.6, 1201.3, 195.4],
    },
    Field {
        name: "rtm",
        ratios: [8.41, 8.62, 8.43, 8.12],
        decoding: [28.8, 9.6, 64.8, 31.9, 84.7],
        staging: [137.7, 147.0, 88.6, 428.0, 104.2],
        original: [245.9, 2086.2, 1155.0, 10.2],
        self_sync: [234.2, 1838.4, 1060.6, 406.5, 138.8],
        gap: [355.1, 442.6, 148.5],
    },
    Field {
        name: "gamess",
        ratios: [12.10, 12.45, 12.10, 11.71],
        decoding: [37.0, 5.9, 87.3, 25.9, 110.1],
        staging: [146.9, 146.6, 88.9, 625.8, 119.0],
        original: [363.4, 3460.8, 1765.1, 6.0],
        self_sync: [352.0, 3036.6, 1614.5, 683.0, 161.3],
        gap: [515.7, 734.7, 173.0],
    },
];

/// Returns the field that a set is generated from.
pub fn field(set: &str) -> Option<&'static Field> {
    let name = super::field_of(set);
    FIELDS.iter().find(|field| field.name == name)
}

/// Throughputs of the 2021 paper ("Revisiting Huffman coding", IPDPS) for encoding nyx's codes (1.027 bits) on a V100
/// and on an RTX 5000: a line for each reduction factor 4, 3, 2, with magnitudes 12, 11, 10.
pub const MERGING: [([f64; 3], [f64; 3]); 3] = [
    ([227.60, 274.40, 291.04], [110.94, 124.42, 133.84]),
    ([191.41, 274.42, 314.63], [94.27, 124.56, 135.86]),
    ([68.32, 106.87, 172.54], [42.70, 55.53, 79.45]),
];

/// Symbols of a codebook and milliseconds that a single thread of a V100 takes for it, from the same paper.
pub const SERIAL_CODEBOOK: (u32, f64) = (8192, 144.0);

/// Mean throughputs of the 2018 paper ("Massively parallel Huffman decoding on GPUs", ICPP) on its synthetic bytes with
/// compression ratios of 1.2 to 7.6.
pub const CUHD: [(&str, f64); 3] = [("GTX 1080", 9.34), ("TITAN XP", 13.68), ("TITAN V", 21.89)];
