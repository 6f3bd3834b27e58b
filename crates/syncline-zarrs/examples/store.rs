//! Reads and writes Zarr arrays for the tests of other implementations.
//!
//! ```text
//! store create STORE SHAPE CHUNKS BOUND     a new array of float32, such as 40x50 20x20 0.01
//! store write STORE FILE                    stores the elements in a file, in C order
//! store read STORE FILE [START:END ...]     writes the elements of a region to a file
//! ```

use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use syncline::Bound;
use syncline_zarrs::SynclineCodec;
use zarrs::array::{Array, ArrayBuilder, ArrayBytes, ArraySubset, data_type};
use zarrs::filesystem::FilesystemStore;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [command, store, rest @ ..] = &words[..] else { return Err("usage: store create|write|read STORE ...".into()) };
    let store = Arc::new(FilesystemStore::new(Path::new(store))?);
    match (*command, rest) {
        ("create", [shape, chunks, bound]) => {
            let mut builder = ArrayBuilder::new(extents(shape)?, extents(chunks)?, data_type::float32(), f32::NAN);
            let codec = SynclineCodec::new(Bound::Abs(bound.parse()?))?;
            builder.array_to_bytes_codec(Arc::new(codec)).bytes_to_bytes_codecs(vec![]);
            builder.build(store, "/")?.store_metadata()?;
        }
        ("write", [file]) => {
            let array = Array::open(store, "/")?;
            array.store_array_subset(&array.subset_all(), ArrayBytes::new_flen(std::fs::read(file)?))?;
        }
        ("read", [file, region @ ..]) => {
            let array = Array::open(store, "/")?;
            let ranges: Result<Vec<Range<u64>>, _> = region.iter().map(|range| parse_range(range)).collect();
            let region = if region.is_empty() { array.subset_all() } else { ArraySubset::new_with_ranges(&ranges?) };
            let bytes: ArrayBytes<'_> = array.retrieve_array_subset(&region)?;
            std::fs::write(file, bytes.into_fixed()?)?;
        }
        _ => return Err(format!("unknown command {command} {rest:?}").into()),
    }
    Ok(())
}

fn extents(text: &str) -> Result<Vec<u64>, std::num::ParseIntError> {
    text.split('x').map(str::parse).collect()
}

fn parse_range(text: &str) -> Result<Range<u64>, Box<dyn Error>> {
    let (start, end) = text.split_once(':').ok_or("a range is START:END")?;
    Ok(start.parse()?..end.parse()?)
}
