//! Arrays of Zarr stores in folders.

use std::path::Path;

#[cfg(feature = "zarr")]
pub use with_zarrs::{NewArray, create, extract, fills};
#[cfg(feature = "zarr")]
pub use with_zarrs::{declared_fills, failed, node, put_in_place};
#[cfg(not(feature = "zarr"))]
pub use without_zarrs::{extract, fills, unavailable};

/// Names of files that groups and arrays have in their folders.
pub const MARKS: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// Returns whether a folder is a group or an array of Zarr.
pub fn is_node(folder: &Path) -> bool {
    MARKS.iter().any(|mark| folder.join(mark).is_file())
}

#[cfg(feature = "zarr")]
mod with_zarrs {
    use std::fmt::Display;
    use std::fs::{self, File};
    use std::io::{self, Seek, Write};
    use std::ops::Range;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;
    use syncline::{ElementType, Shape};
    use syncline_zarrs as _;
    use tempfile::TempDir;
    use zarrs::array::{Array, ArrayBuilder, ArrayBytes, ArraySubset, DataType, FillValue, data_type};
    use zarrs::filesystem::FilesystemStore;
    use zarrs::group::{Group, GroupBuilder};

    use crate::message::{Failure, Outcome};
    use crate::names;
    use crate::output::{folder_of, permit, temporary_folder};
    use crate::places::temporary;
    use crate::region::{shape_of, slabs, whole};

    /// Bytes that are read at a time.
    const PIECE: u64 = 64 << 20;
    /// Elements of a chunk that is written.
    const CHUNK: u64 = 1 << 20;

    pub fn failed(name: &str) -> impl Fn(&dyn Display) -> Failure + '_ {
        move |error| Failure::data(format!("{name}: {error}: check the store"))
    }

    /// Returns the path of a node as zarrs takes it.
    pub fn node(name: &str) -> String {
        format!("/{name}")
    }

    fn open(store: &Path, name: &str) -> Outcome<Array<FilesystemStore>> {
        let shown = &store.display().to_string();
        fs::metadata(store).map_err(|error| Failure::io(shown, &error))?;
        let files = Arc::new(FilesystemStore::new(store).map_err(|error| failed(shown)(&error))?);
        if store.join(name).join("zarr.json").is_file() || store.join(name).join(".zarray").is_file() {
            match Array::open(Arc::clone(&files), &node(name)) {
                Ok(array) => return Ok(array),
                Err(error) if store.join(name).join(".zarray").is_file() || !is_group(&files, name) => {
                    return Err(failed(&format!("{shown}/{name}"))(&error));
                }
                Err(_) => {}
            }
        }
        let there = Group::open(files, "/").ok().and_then(|group| group.traverse().ok()).unwrap_or_default();
        let is_array = |path: &str| {
            let folder = store.join(path.trim_start_matches('/'));
            let text = fs::read_to_string(folder.join("zarr.json")).unwrap_or_default();
            folder.join(".zarray").is_file() || text.contains("\"array\"")
        };
        let arrays: Vec<String> =
            there.iter().map(|(path, _)| path.as_str().to_owned()).filter(|path| is_array(path)).collect();
        let list = arrays.iter().take(20).map(|path| format!("{shown}{path}")).collect::<Vec<_>>().join(", ");
        Err(Failure::usage(match arrays.is_empty() {
            true => format!("{shown}: has no arrays that can be listed: name one, such as {shown}/name"),
            false => format!("{shown}: there is no array {:?}: name one of {list}", node(name)),
        }))
    }

    fn is_group(files: &Arc<FilesystemStore>, name: &str) -> bool {
        Group::open(Arc::clone(files), &node(name)).is_ok()
    }

    /// Returns the element type of an array. Booleans are bytes.
    fn element_of(array: &Array<FilesystemStore>, shown: &str) -> Outcome<ElementType> {
        let name = array.data_type().name_v3().unwrap_or_default();
        match name.as_ref() {
            "bool" => Ok(ElementType::U8),
            name => names::type_by_name(name).ok_or_else(|| {
                Failure::data(format!(
                    "{shown}: holds elements of the type {name}, and Syncline compresses integers and floating-point \
                     numbers: name another array"
                ))
            }),
        }
    }

    /// Copies an array to a temporary file, as `.npy`.
    pub fn extract(store: &Path, name: &str) -> Outcome<File> {
        let array = open(store, name)?;
        let shown = format!("{}{}", store.display(), array.path().as_str());
        let element = element_of(&array, &shown)?;
        let shape = Shape::new(array.shape()).map_err(|error| Failure::of(&shown, error))?;
        let unwritten = |error| temporary::unwritten(&error);
        let mut file = temporary::create(element, shape, &shown)?;
        // Whole layers of chunks, so that each is decompressed once.
        let rank = array.shape().len();
        let chunk = array.chunk_shape(&vec![0; rank]).ok().and_then(|chunk| chunk.first().map(|extent| extent.get()));
        let row: u64 = array.shape().iter().skip(1).product::<u64>() * element.size() as u64;
        let layer = chunk.unwrap_or(1).saturating_mul(row).max(1);
        let most = if layer <= PIECE { PIECE / layer * layer } else { PIECE };
        for region in slabs(&whole(shape), (most / element.size() as u64).max(1)) {
            let region: &[Range<u64>] = if rank == 0 { &[] } else { &region };
            let bytes: ArrayBytes<'_> = array
                .retrieve_array_subset(&ArraySubset::new_with_ranges(region))
                .map_err(|error| failed(&shown)(&error))?;
            let bytes = bytes.into_fixed().map_err(|error| failed(&shown)(&error))?;
            debug_assert_eq!(bytes.len() as u64, shape_of(region).len() * element.size() as u64);
            file.write_all(&bytes).map_err(unwritten)?;
        }
        file.rewind().map_err(unwritten)?;
        Ok(file)
    }

    /// Returns the values that an array declares as missing data: those of the attributes `_FillValue` and
    /// `missing_value`, and the fill value unless that is 0, Zarr's default.
    pub fn fills(store: &Path, name: &str) -> Outcome<Vec<f64>> {
        let array = open(store, name)?;
        let element = element_of(&array, &store.display().to_string())?;
        Ok(declared_fills(&array, element))
    }

    /// Returns the values that an array declares as missing data: those of attributes, of which each may have several,
    /// and the fill value unless that is 0, Zarr's default.
    pub fn declared_fills(array: &Array<FilesystemStore>, element: ElementType) -> Vec<f64> {
        let as_element = |value: f64| element.bits_of_number(value).map(|bits| element.number_of_bits(bits));
        let declared = ["_FillValue", "missing_value"];
        let attributes = declared.iter().filter_map(|name| array.attributes().get(*name)).flat_map(numbers);
        let mut fills: Vec<f64> = attributes.filter_map(as_element).collect();
        let mut bytes = array.fill_value().as_ne_bytes().to_vec();
        if cfg!(target_endian = "big") {
            bytes.reverse();
        }
        let mut bits = [0; 8];
        let place = bits.get_mut(..bytes.len()).filter(|bits| bits.len() == element.size());
        let of_zarr = place.map(|place| place.copy_from_slice(&bytes)).map(|()| u64::from_le_bytes(bits));
        let of_zarr = of_zarr.map(|bits| element.number_of_bits(bits));
        fills.extend(of_zarr.filter(|fill| *fill != 0.0));
        let mut different: Vec<f64> = Vec::new();
        for fill in fills {
            if !fill.is_nan() && !different.contains(&fill) {
                different.push(fill);
            }
        }
        different
    }

    /// Returns the numbers in an attribute. Xarray writes those of format 3 as a little-endian f64 in base64.
    fn numbers(attribute: &Value) -> Vec<f64> {
        let bytes = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        match attribute {
            Value::Array(values) => values.iter().flat_map(numbers).collect(),
            value => value.as_f64().or_else(|| bytes(value.as_str()?).map(f64::from_le_bytes)).into_iter().collect(),
        }
    }

    /// Gives a complete folder its name. One that has the name is moved to the temporary folder, with which it is
    /// removed, or gets its name back.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`](io::ErrorKind::AlreadyExists) for one that may not be replaced.
    pub fn put_in_place(made: &Path, target: &Path, temporary: &TempDir, replace: bool) -> io::Result<()> {
        let _permit = permit();
        let old = temporary.path().join("old");
        let is_there = target.exists();
        if is_there && !replace {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if is_there {
            fs::rename(target, &old)?;
        }
        let placed = fs::rename(made, target);
        if placed.is_err() && is_there {
            fs::rename(old, target)?;
        }
        placed
    }

    /// An array that is being written, in a folder beside its own.
    pub struct NewArray {
        array: Array<FilesystemStore>,
        folder: TempDir,
        target: PathBuf,
        shown: String,
    }

    /// Starts an array of a store, which is created if it does not exist. `replace` permits that the array exists.
    pub fn create(
        store: &Path,
        name: &str,
        element: ElementType,
        shape: Shape,
        fill: Option<f64>,
        replace: bool,
    ) -> Outcome<NewArray> {
        let shown = format!("{}/{name}", store.display());
        let target = store.join(name);
        let is_there =
            target.exists() && (!name.is_empty() || fs::read_dir(&target).is_ok_and(|mut all| all.next().is_some()));
        if is_there && !replace {
            return Err(Failure::usage(format!(
                "{shown}: exists already: add --force to replace it, or name another with -o"
            )));
        }
        if is_there && !target.join(".zarray").is_file() && !target.join("zarr.json").is_file() {
            return Err(Failure::usage(format!("{shown}: is no array of Zarr: name another output with -o")));
        }
        let unmade = |error| Failure::io(&shown, &error);
        if !name.is_empty() {
            make_groups(store, name)?;
        }
        let folder = temporary_folder(folder_of(&target)).map_err(unmade)?;
        let files = FilesystemStore::new(folder.path()).map_err(|error| failed(&shown)(&error))?;
        let (data_type, fill) = type_of(element, fill);
        let mut chunk: Vec<u64> = shape.extents().iter().map(|&extent| extent.max(1)).collect();
        while chunk.iter().product::<u64>() > CHUNK {
            let Some(longest) = chunk.iter_mut().rev().max_by_key(|extent| **extent) else { break };
            *longest = longest.div_ceil(2);
        }
        let array = ArrayBuilder::new(shape.extents().to_vec(), chunk, data_type, fill)
            .bytes_to_bytes_codecs(Vec::new())
            .build(Arc::new(files), "/a")
            .map_err(|error| failed(&shown)(&error))?;
        array.store_metadata().map_err(|error| failed(&shown)(&error))?;
        Ok(NewArray { array, folder, target, shown })
    }

    /// Creates the store and the groups in which an array is, where they are missing.
    fn make_groups(store: &Path, name: &str) -> Outcome {
        let shown = &store.display().to_string();
        fs::create_dir_all(store).map_err(|error| Failure::io(shown, &error))?;
        let files = Arc::new(FilesystemStore::new(store).map_err(|error| failed(shown)(&error))?);
        let groups = name.match_indices('/').map(|(at, _)| &name[..at]);
        for group in std::iter::once("").chain(groups) {
            if is_group(&files, group) {
                continue;
            }
            if Array::open(Arc::clone(&files), &node(group)).is_ok() {
                return Err(Failure::usage(format!("{shown}/{group}: is an array and has no arrays: name a group")));
            }
            let made = GroupBuilder::new().build(Arc::clone(&files), &node(group));
            let made = made.map_err(|error| failed(shown)(&error))?;
            made.store_metadata().map_err(|error| failed(shown)(&error))?;
        }
        Ok(())
    }

    fn type_of(element: ElementType, fill: Option<f64>) -> (DataType, FillValue) {
        let fill = fill.unwrap_or(0.0);
        match element {
            ElementType::F32 => (data_type::float32(), FillValue::from(fill as f32)),
            ElementType::F64 => (data_type::float64(), FillValue::from(fill)),
            ElementType::F16 => (data_type::float16(), FillValue::new(vec![0; 2])),
            ElementType::Bf16 => (data_type::bfloat16(), FillValue::new(vec![0; 2])),
            ElementType::U8 => (data_type::uint8(), FillValue::from(0u8)),
            ElementType::U16 => (data_type::uint16(), FillValue::from(0u16)),
            ElementType::U32 => (data_type::uint32(), FillValue::from(0u32)),
            ElementType::U64 => (data_type::uint64(), FillValue::from(0u64)),
            ElementType::I8 => (data_type::int8(), FillValue::from(0i8)),
            ElementType::I16 => (data_type::int16(), FillValue::from(0i16)),
            ElementType::I32 => (data_type::int32(), FillValue::from(0i32)),
            ElementType::I64 => (data_type::int64(), FillValue::from(0i64)),
        }
    }

    impl NewArray {
        /// Writes a region of little-endian elements in C order.
        pub fn write(&self, region: &[Range<u64>], bytes: &[u8]) -> Outcome {
            let _permit = permit();
            let bytes = ArrayBytes::new_flen(bytes.to_vec());
            let stored = self.array.store_array_subset(&ArraySubset::new_with_ranges(region), bytes);
            stored.map_err(|error| failed(&self.shown)(&error))
        }

        /// Gives the complete array its name.
        pub fn commit(self) -> Outcome {
            let made = self.folder.path().join("a");
            put_in_place(&made, &self.target, &self.folder, true).map_err(|error| Failure::io(&self.shown, &error))
        }
    }
}

#[cfg(not(feature = "zarr"))]
mod without_zarrs {
    use std::fs::File;
    use std::path::Path;

    use crate::message::{Failure, Outcome};

    /// Returns the failure of a build without Zarr.
    pub fn unavailable(store: &Path) -> Failure {
        Failure::data(format!(
            "{}: this build has no support for Zarr: build the command with --features zarr, or use syncline.zarr in \
             Python",
            store.display()
        ))
    }

    /// Fails.
    pub fn extract(store: &Path, _: &str) -> Outcome<File> {
        Err(unavailable(store))
    }

    /// Fails.
    pub fn fills(store: &Path, _: &str) -> Outcome<Vec<f64>> {
        Err(unavailable(store))
    }
}
