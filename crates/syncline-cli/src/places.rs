//! What a path on the command line stands for: a file, stdin or stdout, or an array in a larger file or store.

pub mod hdf5;
pub mod npz;
mod temporary;
pub mod zarr;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::message::Outcome;
use crate::names;

/// Between the name of an `.npz` file and that of its member.
const MEMBER: &str = ".npz:";

/// Suffixes of HDF5 files. netCDF-4 files are such files.
const HDF5_SUFFIXES: [&str; 7] = ["h5", "hdf5", "hdf", "he5", "nc", "nc4", "mat"];

/// The suffix of Zarr stores, with its dot.
const STORE: &str = ".zarr";

/// What a path stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// Stdin or stdout: `-`.
    Standard,
    /// A file that is an array or a stream by itself, or a folder.
    File,
    /// An array of an `.npz` file, `x.npz:name`; the only one without a name.
    Npz { file: PathBuf, member: Option<String> },
    /// A dataset of an HDF5 or netCDF-4 file, `x.h5:/group/data`; the only one without a name.
    Hdf5 { file: PathBuf, dataset: Option<String> },
    /// An array of a Zarr store, `x.zarr/name` or `x.zarr:name`; that of the store itself if the name is empty.
    Zarr { store: PathBuf, array: String },
}

impl Place {
    /// Returns what a path stands for. An HDF5 file is known by its name, or by its first bytes, as netCDF-4 files of
    /// models may have any name.
    pub fn of(path: &Path) -> Self {
        match Self::of_output(path) {
            Self::File if is_hdf5(path) => Self::Hdf5 { file: path.to_owned(), dataset: None },
            place => place,
        }
    }

    /// Returns what the path of an output stands for. A file that exists and has no name of an HDF5 file is replaced.
    pub fn of_output(path: &Path) -> Self {
        if names::is_dash(path) {
            Self::Standard
        } else if let Some((file, member)) = member_in(path) {
            Self::Npz { file, member: Some(member) }
        } else if names::is_npz(path) {
            Self::Npz { file: path.to_owned(), member: None }
        } else if let Some((file, dataset)) = dataset_in(path) {
            Self::Hdf5 { file, dataset: Some(dataset) }
        } else if let Some((store, array)) = zarr_array_in(path) {
            Self::Zarr { store, array }
        } else if is_hdf5_name(path) {
            Self::Hdf5 { file: path.to_owned(), dataset: None }
        } else {
            Self::File
        }
    }

    /// Returns whether it is an array in a larger file or store, which the path names.
    pub fn is_part(&self) -> bool {
        match self {
            Self::Standard | Self::File => false,
            Self::Npz { member, .. } => member.is_some(),
            Self::Hdf5 { dataset, .. } => dataset.is_some(),
            Self::Zarr { .. } => true,
        }
    }

    /// Copies an array of a larger file or store to a temporary file, as `.npy`; `None` for other places.
    pub fn extract(&self) -> Outcome<Option<File>> {
        match self {
            Self::Standard | Self::File => return Ok(None),
            Self::Npz { file, member } => npz::extract(file, member.as_deref()),
            Self::Hdf5 { file, dataset } => hdf5::extract(file, dataset.as_deref()),
            Self::Zarr { store, array } => zarr::extract(store, array),
        }
        .map(Some)
    }

    /// Returns the values that an array declares as missing data, if its format can declare them.
    pub fn declared_fills(&self) -> Outcome<Vec<f64>> {
        match self {
            // The failure to open a file that is not there says more.
            Self::Hdf5 { file, dataset } if dataset.is_some() || file.is_file() => {
                hdf5::fills(file, dataset.as_deref())
            }
            Self::Zarr { store, array } => zarr::fills(store, array),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the file or store, and the name of the array in it, if the path names one.
    fn part(self) -> Option<(PathBuf, String)> {
        match self {
            Self::Npz { file, member: Some(name) } | Self::Hdf5 { file, dataset: Some(name) } => Some((file, name)),
            Self::Zarr { store, array } if !array.is_empty() => Some((store, array)),
            _ => None,
        }
    }
}

/// Returns whether a path is that of a Zarr store, or of a group or an array of one.
pub fn is_in_store(path: &Path) -> bool {
    zarr_array_in(path).is_some() || zarr::is_node(path)
}

/// Returns whether a name is that of an HDF5 file.
pub fn is_hdf5_name(path: &Path) -> bool {
    let is_suffix = |extension: &OsStr| HDF5_SUFFIXES.iter().any(|suffix| extension.eq_ignore_ascii_case(suffix));
    path.extension().is_some_and(is_suffix)
}

/// Returns whether a file is an HDF5 file.
fn is_hdf5(path: &Path) -> bool {
    is_hdf5_name(path) || !(names::is_array(path) || names::is_stream(path)) && syncline_hdf5::has_signature(path)
}

/// Returns the file and the member in a name such as `x.npz:name`, unless there is a file of this name.
fn member_in(path: &Path) -> Option<(PathBuf, String)> {
    let text = path.to_str()?;
    let at = text.to_ascii_lowercase().find(MEMBER)?;
    if path.exists() {
        return None;
    }
    let (file, member) = (&text[..at + MEMBER.len() - 1], &text[at + MEMBER.len()..]);
    Some((file.into(), member.strip_suffix(".npy").unwrap_or(member).to_string()))
}

/// Returns the file and the path of the dataset in a name such as `x.h5:/group/data`, unless there is a file of this
/// name.
fn dataset_in(path: &Path) -> Option<(PathBuf, String)> {
    let text = path.to_str()?;
    let parts = text.match_indices(':').map(|(at, _)| (Path::new(&text[..at]), &text[at + 1..]));
    let (file, dataset) = { parts }.find(|(file, _)| is_hdf5(file))?;
    if dataset.is_empty() || path.exists() {
        return None;
    }
    Some((file.to_owned(), format!("/{}", dataset.trim_start_matches('/'))))
}

/// Returns the store and the path of the array in a name such as `a/x.zarr/group/name`. The path is empty if the store
/// itself is named.
fn zarr_array_in(path: &Path) -> Option<(PathBuf, String)> {
    let text = path.to_str()?;
    let lower = text.to_ascii_lowercase();
    let ends = lower.match_indices(STORE).map(|(at, _)| at + STORE.len());
    let end = { ends }.find(|&end| text[end..].is_empty() || text[end..].starts_with(['/', ':']))?;
    let name = text[end..].trim_start_matches([':', '/']).trim_end_matches('/');
    Some((text[..end].into(), name.to_owned()))
}

/// Returns the default name of the stream of an array: `IN.syn`, or `x.npz.name.npy.syn` of `x.npz:name` and
/// `x.h5.group_data.npy.syn` of `x.h5:/group/data`, and likewise for arrays of Zarr stores.
pub fn stream_name(input: &Path) -> PathBuf {
    let mut name = match Place::of(input).part() {
        Some((file, member)) => {
            let mut name = file.into_os_string();
            name.push(format!(".{}.npy", member.trim_start_matches('/').replace(['/', '\\'], "_")));
            name
        }
        None => OsString::from(input),
    };
    name.push(".");
    name.push(names::SUFFIX);
    name.into()
}

/// Returns the name of the array that a stream becomes in a file: that of the stream without its suffixes.
pub fn member_name(stream: &Path) -> String {
    let array = names::array_name(stream).unwrap_or_else(|| stream.to_path_buf());
    let stem = if names::is_npy(&array) { array.with_extension("") } else { array };
    let name = stem.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Of a member of another file, as compression names its stream.
    let parts = name.match_indices('.').map(|(at, _)| (Path::new(&name[..at]), &name[at + 1..]));
    let is_container = |file: &Path| names::is_npz(file) || is_hdf5_name(file) || zarr_array_in(file).is_some();
    let member = { parts }.find(|(file, member)| is_container(file) && !member.is_empty());
    member.map_or_else(|| name.clone(), |(_, member)| member.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> Option<(String, String)> {
        Place::of(Path::new(name)).part().map(|(file, name)| (file.display().to_string(), name))
    }

    #[test]
    fn members_of_npz_files() {
        assert_eq!(part("a/x.npz:t"), Some(("a/x.npz".into(), "t".into())));
        assert_eq!(part("x.NPZ:t.npy"), Some(("x.NPZ".into(), "t".into())));
        assert_eq!(Place::of(Path::new("x.npz")), Place::Npz { file: "x.npz".into(), member: None });
        for (stream, member) in [
            ("a/x.npz.t.npy.syn", "t"),
            ("x.h5.g_t.npy.syn", "g_t"),
            ("t.npy.syn", "t"),
            ("x.f32.syn", "x.f32"),
            ("s", "s"),
        ] {
            assert_eq!(member_name(Path::new(stream)), member);
        }
    }

    #[test]
    fn datasets_of_hdf5_files() {
        assert_eq!(part("a/x.h5:/g/t"), Some(("a/x.h5".into(), "/g/t".into())));
        assert_eq!(part("x.NC:t"), Some(("x.NC".into(), "/t".into())));
        assert_eq!(part("x.h5:g/a:b"), Some(("x.h5".into(), "/g/a:b".into())));
        assert_eq!(Place::of(Path::new("x.h5")), Place::Hdf5 { file: "x.h5".into(), dataset: None });
        assert_eq!(part("x.h5:"), None);
    }

    #[test]
    fn arrays_of_zarr_stores() {
        assert_eq!(part("a/x.zarr/g/t"), Some(("a/x.zarr".into(), "g/t".into())));
        assert_eq!(part("x.zarr:t"), Some(("x.zarr".into(), "t".into())));
        assert_eq!(Place::of(Path::new("x.ZARR/")), Place::Zarr { store: "x.ZARR".into(), array: String::new() });
    }

    #[test]
    fn files_and_standard_streams() {
        for name in ["x.npy", "x.npy:t", "x.f32", "x.zarrs/t", "zarr/t", "x"] {
            assert_eq!(Place::of(Path::new(name)), Place::File, "{name}");
        }
        assert_eq!(Place::of(Path::new("-")), Place::Standard);
    }

    #[test]
    fn names_of_streams() {
        assert_eq!(stream_name(Path::new("a/x.npy")), Path::new("a/x.npy.syn"));
        assert_eq!(stream_name(Path::new("a/x.npz:t/u")), Path::new("a/x.npz.t_u.npy.syn"));
        assert_eq!(stream_name(Path::new("a/x.h5:/t/u")), Path::new("a/x.h5.t_u.npy.syn"));
    }
}
