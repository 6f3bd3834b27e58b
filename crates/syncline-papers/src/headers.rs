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

/// Tests that read the repository and cannot run on a machine without it.
#[cfg(test)]
mod needs_sources {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_header_of_the_folder_is_listed() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels"));
        let mut found = Vec::new();
        for paper in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            for file in std::fs::read_dir(&paper).unwrap().map(|entry| entry.unwrap().path()) {
                if file.extension().is_some_and(|extension| extension == "cuh") {
                    found.push(file.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/"));
                }
            }
        }
        found.sort();
        assert_eq!(HEADERS.files().iter().map(|header| header.name).collect::<Vec<_>>(), found);
    }
}
