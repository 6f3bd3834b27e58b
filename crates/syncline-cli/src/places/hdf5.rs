//! Datasets of HDF5 and netCDF-4 files.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use syncline::Shape;
use syncline_hdf5::{Dataset, Error, Library};

use crate::message::{Failure, Outcome};
use crate::places::temporary;
use crate::region::{shape_of, slabs, whole};

/// Bytes that are read at a time.
const PIECE: u64 = 16 << 20;
/// Where a layer of chunks takes up to this, all of it is read, so that each chunk is decompressed once.
const LARGER: u64 = (64 << 20) + 1;

/// Returns the failure for an error about a file.
pub fn of(name: impl std::fmt::Display, error: Error) -> Failure {
    match error {
        Error::NoLibrary(text) => Failure::data(text),
        Error::Syncline(error) => Failure::of(name, error),
        Error::Missing(text) => Failure::usage(format!("{name}: {text}")),
        other => Failure::data(format!("{name}: {other}")),
    }
}

/// Finds the HDF5 library.
pub fn find_library() -> Outcome<Library> {
    Library::find().map_err(|error| of("HDF5", error))
}

/// Opens a dataset of a file, or the only one without a name.
fn open<'l>(library: &'l Library, path: &Path, dataset: Option<&str>) -> Outcome<(Dataset<'l>, String)> {
    // The operating system says more than HDF5 about a file that cannot be read.
    drop(File::open(path).map_err(|error| Failure::io(path.display(), &error))?);
    let failed = |error| of(path.display(), error);
    let file = syncline_hdf5::File::open(library, path).map_err(failed)?;
    let name = match dataset {
        Some(name) => name.to_owned(),
        None => match file.datasets().map_err(failed)?.as_slice() {
            [only] => only.clone(),
            names => {
                let example = names.first().map_or("/data", String::as_str);
                return Err(Failure::usage(format!(
                    "{}: has {} datasets ({}): name one, such as {}:{example}",
                    path.display(),
                    names.len(),
                    names.iter().take(20).cloned().collect::<Vec<_>>().join(", "),
                    path.display()
                )));
            }
        },
    };
    Ok((file.dataset(&name).map_err(failed)?, name))
}

/// Copies a dataset to a temporary file, as `.npy`.
pub fn extract(path: &Path, dataset: Option<&str>) -> Outcome<File> {
    let library = find_library()?;
    let (dataset, name) = open(&library, path, dataset)?;
    let shown = format!("{}:{name}", path.display());
    let failed = |error| of(path.display(), error);
    let shape = Shape::new(dataset.extents()).map_err(|error| Failure::of(&shown, error))?;
    let unwritten = |error| temporary::unwritten(&error);
    let mut file = temporary::create(dataset.element_type(), shape, &shown)?;
    let size = dataset.element_type().size() as u64;
    // Whole layers of chunks.
    let chunk = dataset.chunk().map_err(failed)?.and_then(|chunk| chunk.first().copied()).unwrap_or(1);
    let layer = chunk.saturating_mul(dataset.extents().iter().skip(1).product::<u64>() * size);
    let most = match layer {
        0 | LARGER.. => PIECE,
        1..PIECE => PIECE / layer * layer,
        _ => layer,
    };
    let mut buffer = Vec::new();
    for region in slabs(&whole(shape), (most / size).max(1)) {
        let region = if shape.extents().is_empty() { Vec::new() } else { region };
        buffer.resize((shape_of(&region).len() * size) as usize, 0);
        dataset.read(&region, &mut buffer).map_err(failed)?;
        file.write_all(&buffer).map_err(unwritten)?;
    }
    file.rewind().map_err(unwritten)?;
    Ok(file)
}

/// Returns the values that a dataset, or the only one without a name, declares as missing data.
pub fn fills(path: &Path, dataset: Option<&str>) -> Outcome<Vec<f64>> {
    let library = find_library()?;
    let (dataset, _) = open(&library, path, dataset)?;
    dataset.fills().map_err(|error| of(path.display(), error))
}
