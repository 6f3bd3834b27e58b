//! The files of a store.

use std::fs;
use std::path::Path;

use walkdir::WalkDir;

use crate::message::{Failure, Outcome};

/// Returns the path of a member of a folder.
pub fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Returns the names in a folder, in order.
pub fn entries(folder: &Path) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    let failed = |error| Failure::io(folder.display(), &error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().into_string().map_err(|name| {
            Failure::data(format!("{}: is no name in UTF-8: rename it", folder.join(name).display()))
        })?;
        names.push(name);
    }
    names.sort();
    Ok(names)
}

/// Returns whether a file has no metadata, by its name.
pub fn is_data(name: &str) -> bool {
    !name.starts_with(".z") && name != "zarr.json"
}

/// Returns the bytes of the files in a folder whose names are counted.
pub fn size_of(folder: &Path, is_counted: impl Fn(&str) -> bool) -> Outcome<u64> {
    let mut total = 0;
    for entry in WalkDir::new(folder).follow_links(true) {
        let metadata = entry.and_then(|entry| Ok((entry.metadata()?, entry)));
        let (metadata, entry) = metadata.map_err(|error| Failure::io(folder.display(), &error.into()))?;
        if metadata.is_file() && entry.file_name().to_str().is_some_and(&is_counted) {
            total += metadata.len();
        }
    }
    Ok(total)
}
