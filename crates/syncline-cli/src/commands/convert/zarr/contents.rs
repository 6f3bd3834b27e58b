//! The arrays and groups of a store, for the choice of what is compressed.

use std::path::Path;

use serde_json::Value;

use super::folders::{entries, is_data, join, size_of};
use super::metadata::{self, Format};
use crate::args::ConvertArgs;
use crate::commands::convert::bounds::is_within;
use crate::commands::convert::changes::Array;
use crate::conventions::{Attributes, Variable};
use crate::message::Outcome;
use crate::places::zarr::node;

/// What a store contains.
#[derive(Default)]
pub struct Contents {
    /// All arrays, in order. Those that are excepted may be missing.
    pub arrays: Vec<Array>,
    /// The paths of all other folders, which may be groups, and their attributes.
    pub groups: Vec<(String, Attributes)>,
}

impl Contents {
    /// Reads the metadata of everything in a store.
    pub fn of(args: &ConvertArgs) -> Outcome<Self> {
        let mut contents = Self::default();
        contents.folder(args, "")?;
        Ok(contents)
    }

    fn folder(&mut self, args: &ConvertArgs, name: &str) -> Outcome {
        let folder = args.input.join(name);
        match metadata::of_array(&folder) {
            Ok(Some((format, metadata))) => {
                self.arrays.push(array(name, format, &metadata, &folder)?);
                return Ok(());
            }
            Ok(None) => {}
            Err(_) if is_within(name, &args.except) => {
                self.groups.push((node(name), Attributes::new()));
                return Ok(());
            }
            Err(failure) => return Err(failure),
        }
        let metadata = metadata::read(&folder.join(Format::Three.file()))?;
        self.groups.push((node(name), attributes(metadata.as_ref(), &folder)?));
        for entry in entries(&folder)? {
            if folder.join(&entry).is_dir() {
                self.folder(args, &join(name, &entry))?;
            }
        }
        Ok(())
    }
}

/// Returns the attributes of an array or a group: in its metadata, or in a file of format 2.
pub fn attributes(metadata: Option<&Value>, folder: &Path) -> Outcome<Attributes> {
    let found = match metadata.filter(|metadata| metadata["zarr_format"] == 3) {
        Some(metadata) => Some(metadata["attributes"].clone()),
        // Python writes NaN, which is no JSON, as the attribute of one array; that is no reason to copy no other.
        None => metadata::read(&folder.join(".zattrs")).ok().flatten(),
    };
    Ok(found.as_ref().and_then(Value::as_object).into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect())
}

fn array(name: &str, format: Format, metadata: &Value, folder: &Path) -> Outcome<Array> {
    let element = metadata::element_type(format, metadata);
    let extents: Vec<u64> = metadata["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let count = extents.iter().fold(1, |count: u64, &extent| count.saturating_mul(extent));
    let variable = Variable {
        path: node(name),
        element,
        is_coordinate: metadata::is_coordinate(name, format, metadata, folder),
        attributes: attributes(Some(metadata), folder)?,
    };
    Ok(Array {
        variable,
        is_floating: element.is_some_and(|element| element.is_float()),
        extents,
        array: count.saturating_mul(element.map_or(0, |element| element.size() as u64)),
        before: size_of(folder, is_data)?,
        is_elsewhere: false,
    })
}
