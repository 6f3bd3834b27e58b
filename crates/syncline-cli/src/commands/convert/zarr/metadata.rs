//! Metadata of arrays as JSON, in which only the codecs change.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Value, json};
use syncline::ElementType;
use syncline_zarrs::SynclineConfiguration;

use crate::message::{Failure, Outcome};
use crate::names;

/// Format of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Format 2.
    Two,
    /// Format 3.
    Three,
}

impl Format {
    /// Returns the name of the file with the metadata of an array.
    pub fn file(self) -> &'static str {
        match self {
            Self::Two => ".zarray",
            Self::Three => "zarr.json",
        }
    }
}

/// Reads a file with JSON, if it exists.
pub fn read(path: &Path) -> Outcome<Option<Value>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| Failure::io(path.display(), &error))?,
    };
    let value = serde_json::from_slice(&text);
    let value = value.map_err(|error| Failure::data(format!("{}: {error}: check the store", path.display())))?;
    Ok(Some(value))
}

/// Returns the metadata of the array in a folder, if there is one.
pub fn of_array(folder: &Path) -> Outcome<Option<(Format, Value)>> {
    if let Some(metadata) = read(&folder.join(Format::Three.file()))? {
        return Ok((metadata["node_type"] == "array").then_some((Format::Three, metadata)));
    }
    Ok(read(&folder.join(Format::Two.file()))?.map(|metadata| (Format::Two, metadata)))
}

/// Returns the element type of an array of numbers; `None` for another.
pub fn element_type(format: Format, metadata: &Value) -> Option<ElementType> {
    let name = match format {
        Format::Three => metadata["data_type"].as_str().or_else(|| metadata["data_type"]["name"].as_str())?,
        Format::Two => match metadata["dtype"].as_str()?.trim_start_matches(['<', '>', '|', '=']) {
            "f2" => "float16",
            "f4" => "float32",
            "f8" => "float64",
            "i1" => "int8",
            "i2" => "int16",
            "i4" => "int32",
            "i8" => "int64",
            "u1" => "uint8",
            "u2" => "uint16",
            "u4" => "uint32",
            "u8" => "uint64",
            _ => return None,
        },
    };
    match name {
        "float16" | "bfloat16" | "float32" | "float64" | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16"
        | "uint32" | "uint64" => names::type_by_name(name),
        _ => None,
    }
}

/// Returns whether an array has the coordinates along an axis of others: its only dimension has its name. The names of
/// dimensions are in the metadata of format 3, and in an attribute of format 2.
pub fn is_coordinate(name: &str, format: Format, metadata: &Value, folder: &Path) -> bool {
    let attributes = || read(&folder.join(".zattrs")).ok().flatten().unwrap_or_default();
    let dimensions = match format {
        Format::Three => metadata["dimension_names"].clone(),
        Format::Two => attributes()["_ARRAY_DIMENSIONS"].clone(),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    dimensions.as_array().is_some_and(|all| all.len() == 1 && all[0] == last)
}

/// Returns the metadata of an array whose chunks are streams.
pub fn compressed(format: Format, metadata: &Value, settings: &SynclineConfiguration) -> Value {
    let mut changed = metadata.clone();
    let settings = serde_json::to_value(settings).unwrap_or_default();
    match format {
        Format::Three => {
            let codec = json!({"name": "syncline", "configuration": settings});
            changed["codecs"] = codecs(&metadata["codecs"], &codec);
        }
        Format::Two => {
            changed["compressor"] = json!({"id": "syncline"});
            for (name, value) in settings.as_object().into_iter().flatten() {
                changed["compressor"][name] = value.clone();
            }
            changed["filters"] = Value::Null;
            // Streams are little-endian.
            changed["dtype"] = metadata["dtype"].as_str().unwrap_or_default().replace('>', "<").into();
        }
    }
    changed
}

/// Returns the list of codecs with this one. Shards stay, and so does the order of axes in which they are laid out.
fn codecs(before: &Value, codec: &Value) -> Value {
    let named = |value: &Value, name: &str| value["name"] == name || value.as_str() == Some(name);
    let all = before.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(at) = all.iter().position(|value| named(value, "sharding_indexed")) else { return json!([codec]) };
    let mut kept: Vec<Value> = all[..at].iter().filter(|value| named(value, "transpose")).cloned().collect();
    let mut shards = all[at].clone();
    shards["configuration"]["codecs"] = codecs(&all[at]["configuration"]["codecs"], codec);
    kept.push(shards);
    kept.into()
}

/// Replaces the metadata of arrays in the consolidated metadata of a group at a path, which is empty or ends with `/`.
/// `changed` has that of arrays by the names of their files. Returns whether there was any. Format 2 has files that may
/// be new.
pub fn renew(group: &mut Value, at: &str, changed: &BTreeMap<String, Value>) -> bool {
    if group.get("zarr_consolidated_format").is_some() {
        let of_format_2 = changed.iter().filter(|(file, _)| !file.ends_with(Format::Three.file()));
        for (name, metadata) in of_format_2.filter_map(|(file, metadata)| Some((file.strip_prefix(at)?, metadata))) {
            group["metadata"][name] = metadata.clone();
        }
    }
    let (entries, file) = match group.get("zarr_consolidated_format") {
        Some(_) => (&mut group["metadata"], ""),
        None => match group.get_mut("consolidated_metadata") {
            Some(Value::Object(consolidated)) => (consolidated.entry("metadata").or_insert(Value::Null), "/zarr.json"),
            _ => return false,
        },
    };
    let mut any = false;
    for (name, entry) in entries.as_object_mut().into_iter().flatten() {
        if let Some(metadata) = changed.get(&format!("{at}{name}{file}")) {
            *entry = metadata.clone();
            any = true;
        } else {
            any |= renew(entry, &format!("{at}{name}/"), changed);
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use syncline::Bound;

    use super::*;

    #[test]
    fn the_codec_is_put_into_shards() {
        let settings = SynclineConfiguration::new(Bound::Abs(0.5));
        let codec = json!({"name": "syncline", "configuration": {"mode": "abs", "value": 0.5}});
        let of = |codecs: Value| compressed(Format::Three, &json!({"codecs": codecs, "x": 1}), &settings);
        let plain = json!([{"name": "transpose"}, {"name": "bytes"}, {"name": "gzip"}]);
        assert_eq!(of(plain.clone()), json!({"codecs": [codec], "x": 1}));
        let shards = |inner: &Value| {
            json!([{"name": "transpose"},
                {"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": inner}}])
        };
        assert_eq!(of(shards(&plain))["codecs"], shards(&json!([codec])));
        let nested = |inner: &Value| json!([{"name": "sharding_indexed", "configuration": {"codecs": inner}}]);
        assert_eq!(of(nested(&shards(&plain)))["codecs"], nested(&shards(&json!([codec]))));
    }

    #[test]
    fn format_2_has_the_codec_as_its_compressor() {
        let before = json!({"dtype": ">f4", "compressor": {"id": "zlib"}, "filters": [{"id": "delta"}], "order": "F"});
        let after = compressed(Format::Two, &before, &SynclineConfiguration::new(Bound::Lossless));
        let compressor = json!({"id": "syncline", "mode": "lossless"});
        assert_eq!(after, json!({"dtype": "<f4", "compressor": compressor, "filters": null, "order": "F"}));
        assert_eq!(element_type(Format::Two, &before), Some(ElementType::F32));
        assert_eq!(element_type(Format::Two, &json!({"dtype": "<i4"})), Some(ElementType::I32));
        assert_eq!(element_type(Format::Two, &json!({"dtype": "|b1"})), None);
        assert_eq!(element_type(Format::Three, &json!({"data_type": {"name": "float64"}})), Some(ElementType::F64));
        assert_eq!(element_type(Format::Three, &json!({"data_type": "complex64"})), None);
    }

    #[test]
    fn consolidated_metadata_is_renewed_at_every_depth() {
        let new = json!({"node_type": "array", "codecs": "new"});
        let changed = BTreeMap::from([("g/t/zarr.json".to_owned(), new.clone()), ("u/.zarray".into(), json!(2))]);
        let old = json!({"node_type": "array"});
        let inner = json!({"consolidated_metadata": {"metadata": {"t": old, "s": old}}});
        let mut root = json!({"consolidated_metadata": {"metadata": {"g": inner, "g/t": old}}});
        assert!(renew(&mut root, "", &changed));
        let entries = &root["consolidated_metadata"]["metadata"];
        assert_eq!(entries["g/t"], new);
        assert_eq!(entries["g"]["consolidated_metadata"]["metadata"], json!({"t": new, "s": old}));
        let mut two = json!({"zarr_consolidated_format": 1, "metadata": {"u/.zarray": 1, "u/.zattrs": 3}});
        assert!(renew(&mut two, "", &changed));
        assert_eq!(two["metadata"], json!({"u/.zarray": 2, "u/.zattrs": 3}));
        assert!(!renew(&mut json!({"consolidated_metadata": null}), "", &changed));
    }
}
