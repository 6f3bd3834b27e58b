//! The headers that these kernels can include.

use syncline_cuda::device::{Headers, source};

/// The product's headers and those of this crate.
pub static HEADERS: Headers = Headers::new(
    &[
        source!("codebook/floor_trees.cuh"),
        source!("decode/run_table.cuh"),
        source!("decode/subsequences.cuh"),
        source!("decode/write_symbols.cuh"),
    ],
    &[],
    &[],
)
.with_base(&syncline_cuda::HEADERS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_names_headers_that_exist() {
        assert_eq!(HEADERS.missing(), []);
    }
}
