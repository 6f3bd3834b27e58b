//! `convert` on Zarr stores that zarrs writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use syncline_zarrs as _;
use zarrs::array::{Array, ArrayMetadata, ElementOwned};
use zarrs::filesystem::FilesystemStore;

use super::*;

const ROWS: u64 = 60;
const COLUMNS: u64 = 50;
const FILL: f64 = -9999.0;

fn store(shop: &Workshop, name: &str) -> Arc<FilesystemStore> {
    Arc::new(FilesystemStore::new(shop.path(name)).unwrap())
}

fn value(number: u64) -> f64 {
    (number as f64 * 0.01).sin() * 10.0 + (number / COLUMNS) as f64
}

/// Values with missing data. Rows of chunks have different ranges.
fn field() -> Vec<f64> {
    (0..ROWS * COLUMNS).map(|number| if number % 97 == 5 { FILL } else { value(number) }).collect()
}

fn metadata(kind: &str, fill: Value, codecs: Value, more: Value) -> Value {
    let mut all = json!({
        "zarr_format": 3, "node_type": "array", "shape": [ROWS, COLUMNS], "data_type": kind, "fill_value": fill,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 50]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": codecs,
        "attributes": {"units": "K", "nested": {"a": [1, null]}}, "dimension_names": ["y", null],
    });
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

/// Writes metadata and opens the array.
fn create(shop: &Workshop, store_name: &str, name: &str, metadata: &Value) -> Array<FilesystemStore> {
    let (folder, text) = (shop.path(store_name).join(name), metadata.to_string());
    fs::create_dir_all(&folder).unwrap();
    let file = if metadata["zarr_format"] == 2 { ".zarray" } else { "zarr.json" };
    fs::write(folder.join(file), &text).unwrap();
    let metadata = ArrayMetadata::try_from(text.as_str()).unwrap();
    Array::new_with_metadata(store(shop, store_name), &format!("/{name}"), metadata).unwrap()
}

fn little() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}

fn gzip() -> Value {
    json!([{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes",
        "configuration": {"endian": "big"}}, {"name": "gzip", "configuration": {"level": 1}}])
}

fn shards() -> Value {
    json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": [8, 25], "codecs": [little()],
        "index_codecs": [little(), {"name": "crc32c"}], "index_location": "start"}}])
}

fn group(attributes: Value) -> Value {
    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
}

/// Writes a store of format 3 with all kinds of arrays, and consolidated metadata.
fn write_store(shop: &Workshop, name: &str) {
    let root = shop.path(name);
    fs::create_dir_all(root.join("g")).unwrap();
    fs::write(root.join("notes.txt"), "kept").unwrap();
    fs::write(root.join("g/zarr.json"), group(json!({"title": "inner"})).to_string()).unwrap();
    let (no, field) = (json!({}), field());
    let floats: Vec<f32> = field.iter().map(|&value| value as f32).collect();
    let plain = json!([little()]);
    let all = [
        ("g/t", metadata("float32", json!(FILL), gzip(), no.clone())),
        ("g/s", metadata("float64", json!(FILL), shards(), no.clone())),
        ("g/sparse", metadata("float64", json!(0.0), plain.clone(), no.clone())),
        ("half", metadata("float16", json!(0.0), plain.clone(), no.clone())),
        ("i", metadata("int32", json!(7), gzip(), no)),
        (
            "y",
            metadata(
                "float64",
                json!(0.0),
                plain.clone(),
                json!({"shape": [2000], "dimension_names": ["y"],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [500]}}}),
            ),
        ),
        ("few", metadata("float64", json!(0.0), plain, json!({"shape": [31, 33]}))),
    ];
    for (path, metadata) in &all {
        let array = create(shop, name, path, metadata);
        let whole = array.subset_all();
        match *path {
            "g/t" => array.store_array_subset(&whole, &floats[..]).unwrap(),
            "g/s" => array.store_array_subset(&whole, &field[..]).unwrap(),
            "g/sparse" => array.store_chunk(&[1, 0], &field[..800]).unwrap(),
            "half" => {
                let halves: Vec<half::f16> = field.iter().map(|&value| half::f16::from_f64(value)).collect();
                array.store_array_subset(&whole, &halves[..]).unwrap();
            }
            "i" => array.store_array_subset(&whole, &[3i32; 3000][..]).unwrap(),
            _ => array.store_array_subset(&whole, &field[..whole.num_elements() as usize]).unwrap(),
        }
    }
    let mut consolidated: serde_json::Map<String, Value> =
        all.iter().map(|(path, metadata)| ((*path).to_owned(), metadata.clone())).collect();
    consolidated.insert("g".into(), group(json!({"title": "inner"})));
    let mut top = group(json!({"title": "outer"}));
    top["consolidated_metadata"] = json!({"kind": "inline", "must_understand": false, "metadata": consolidated});
    fs::write(root.join("zarr.json"), top.to_string()).unwrap();
}

/// Writes a store with an array of many chunks, which takes some seconds to convert.
pub fn write_large(shop: &Workshop, name: &str) {
    let grid = json!({"name": "regular", "configuration": {"chunk_shape": [16, 512]}});
    let more = json!({"shape": [8192, 512], "chunk_grid": grid});
    let array = create(shop, name, "", &metadata("float64", json!(0.0), json!([little()]), more));
    let values: Vec<f64> = (0..8192 * 512).map(value).collect();
    array.store_array_subset(&array.subset_all(), &values[..]).unwrap();
}

fn read<T: ElementOwned>(shop: &Workshop, store_name: &str, name: &str) -> Vec<T> {
    let array = Array::open(store(shop, store_name), &format!("/{name}")).unwrap();
    array.retrieve_array_subset(&array.subset_all()).unwrap()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns all files of a folder with their bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => all.extend(files(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes))),
            false => _ = all.insert(name, fs::read(&path).unwrap()),
        }
    }
    all
}

/// Checks that values are within the bound, and that missing ones are exact.
fn check(original: &[f64], back: impl Iterator<Item = f64>, bound: f64) {
    let mut furthest = 0.0f64;
    for (&before, after) in original.iter().zip(back) {
        assert!(before != FILL || after == FILL, "{after}");
        furthest = furthest.max((before - after).abs());
    }
    assert!(furthest > 0.5 * bound && furthest <= bound, "{furthest} of {bound}");
}

#[test]
fn a_store_is_converted_and_all_else_stays() {
    let shop = Workshop::new();
    write_store(&shop, "a.zarr");
    let said = String::from_utf8(shop.ok("convert a.zarr b.zarr --rel 1e-3")).unwrap();
    for text in ["/g/t: |error| <=", "/half: |error| <=", "/y: copied: a coordinate", "/few: copied: fewer than 1,024"]
    {
        assert!(said.contains(text), "{said}");
    }
    // The bound refers to the whole array, without the fill value.
    let field = field();
    let valid = || field.iter().filter(|&&value| value != FILL);
    let range = valid().fold(f64::MIN, |a, &b| a.max(b)) - valid().fold(f64::MAX, |a, &b| a.min(b));
    let floats: Vec<f64> = field.iter().map(|&value| f64::from(value as f32)).collect();
    check(&floats, read::<f32>(&shop, "b.zarr", "g/t").into_iter().map(f64::from), 1e-3 * range * 1.000001);
    check(&field, read::<f64>(&shop, "b.zarr", "g/s").into_iter(), 1e-3 * range);
    let halves: Vec<f64> = read::<half::f16>(&shop, "a.zarr", "half").into_iter().map(f64::from).collect();
    check(&halves, read::<half::f16>(&shop, "b.zarr", "half").into_iter().map(f64::from), 1e-3 * range * 1.001);
    // Chunks that are missing stay so, and count in the range.
    let sparse = read::<f64>(&shop, "b.zarr", "g/sparse");
    let chunk = &field[..800];
    let top = chunk.iter().filter(|&&value| value != FILL).fold(0.0f64, |a, &b| a.max(b.abs()));
    assert!(
        chunk.iter().zip(&sparse[800..]).all(|(a, b)| (a - b).abs() <= 1e-3 * 2.0 * top + 10.0 * f64::from(*a == FILL))
    );
    let (before, after) = (files(&shop.path("a.zarr")), files(&shop.path("b.zarr")));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, bytes) in &before {
        let is_compressed = ["g/t/", "g/s/", "g/sparse/", "half/"].iter().any(|array| name.starts_with(array));
        assert!(name == "zarr.json" || (*bytes == after[name]) != is_compressed, "{name}");
    }
    // Of the metadata, only the codecs and the attributes that state the error change, also in what is consolidated.
    let consolidated = read_json(&shop.path("b.zarr/zarr.json"));
    assert_eq!(consolidated["attributes"]["title"], "outer");
    for (name, shape) in [("g/t", None), ("g/s", Some(json!([8, 25])))] {
        let [old, mut new] = ["a", "b"].map(|store| read_json(&shop.path(&format!("{store}.zarr/{name}/zarr.json"))));
        assert_eq!(consolidated["consolidated_metadata"]["metadata"][name], new);
        let codec = if shape.is_some() { &new["codecs"][0]["configuration"]["codecs"][0] } else { &new["codecs"][0] };
        assert_eq!(codec["configuration"]["fill"], FILL);
        assert_eq!((&codec["name"], &codec["configuration"]["mode"]), (&json!("syncline"), &json!("abs")));
        assert_eq!(new["codecs"][0]["configuration"].get("chunk_shape"), shape.as_ref());
        new["codecs"] = old["codecs"].clone();
        let error = new["attributes"]["lossy_compression_maximum_absolute_error"].as_f64().unwrap();
        assert!((error - 1e-3 * range).abs() < 1e-6 * range && new["attributes"]["lossy_compression"] == "syncline");
        new["attributes"] = old["attributes"].clone();
        assert_eq!(old, new);
    }
    let same = read_json(&shop.path("a.zarr/zarr.json"))["consolidated_metadata"]["metadata"]["i"].clone();
    assert_eq!(consolidated["consolidated_metadata"]["metadata"]["i"], same);
    assert_eq!(shop.names(), ["a.zarr", "b.zarr"]);
}

#[test]
fn bytes_depend_neither_on_threads_nor_on_memory() {
    let shop = Workshop::new();
    write_store(&shop, "a.zarr");
    for (name, options) in [("b", "-T 1"), ("c", "-T 3"), ("d", "-T 3 --memory-limit 1K")] {
        shop.ok(&format!("convert a.zarr {name}.zarr --psnr 60 --effort best --advanced coder=auto {options}"));
    }
    let first = files(&shop.path("b.zarr"));
    assert!(first == files(&shop.path("c.zarr")) && first == files(&shop.path("d.zarr")));
}

#[test]
fn options_reach_the_codec() {
    let shop = Workshop::new();
    write_store(&shop, "a.zarr");
    let codec = |name: &str| read_json(&shop.path(name))["codecs"][0]["configuration"].clone();
    let advanced = "--advanced coder=lzss+huffman --advanced level=2";
    shop.ok(&format!("convert a.zarr b.zarr --pw-rel 0.01 --except g/s,/half --fill 3,4 {advanced}"));
    let expected = json!({"mode": "pw_rel", "value": 0.01, "fill": [3.0, 4.0], "rewritable": false,
        "advanced": {"coder": "lzss+huffman", "level": 2}});
    assert_eq!(codec("b.zarr/g/t/zarr.json"), expected);
    for name in ["g/s/zarr.json", "half/zarr.json", "half/c/0/0"] {
        assert_eq!(shop.read(&format!("a.zarr/{name}")), shop.read(&format!("b.zarr/{name}")), "{name}");
    }
    // A group of a store is a store.
    shop.ok("convert a.zarr/g c.zarr --abs 0.5 --fill none --effort fast --rewritable");
    assert_eq!(codec("c.zarr/t/zarr.json"), json!({"mode": "abs", "value": 0.5, "fill": [], "effort": "fast"}));
    let table: Value = serde_json::from_slice(&shop.ok("convert a.zarr/g/t d.zarr --lossless --json")).unwrap();
    assert_eq!(table["datasets"][0]["dataset"], "/");
    assert_eq!(codec("d.zarr/zarr.json"), json!({"mode": "lossless"}));
    // Streams are arrays for all commands.
    shop.ok("compare a.zarr/g/t d.zarr --abs 1e-9");
    let target = shop.path("d.zarr");
    shop.ok("convert a.zarr/g d.zarr --abs 0.5 --force");
    assert!(target.join("t").is_dir() && !target.join("c").exists());
}

#[test]
fn arrays_of_format_2_stay_in_it() {
    let shop = Workshop::new();
    let root = shop.path("a.zarr");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    let of = |kind: &str, order: &str| {
        json!({"zarr_format": 2, "shape": [ROWS, COLUMNS], "chunks": [16, 50], "dtype": kind, "fill_value": -9999,
            "compressor": {"id": "zlib", "level": 1}, "filters": null, "order": order, "dimension_separator": "."})
    };
    let mut consolidated = json!({".zgroup": {"zarr_format": 2}});
    for (name, metadata) in [("t", of("<f8", "C")), ("u", of(">f8", "F")), ("i", of("<i4", "C"))] {
        let array = create(&shop, "a.zarr", name, &metadata);
        match name {
            "i" => array.store_array_subset(&array.subset_all(), &[3i32; 3000][..]).unwrap(),
            _ => array.store_array_subset(&array.subset_all(), &field()[..]).unwrap(),
        }
        fs::write(root.join(name).join(".zattrs"), r#"{"units": "m"}"#).unwrap();
        consolidated[format!("{name}/.zarray")] = metadata;
    }
    let consolidated = json!({"zarr_consolidated_format": 1, "metadata": consolidated});
    fs::write(root.join(".zmetadata"), consolidated.to_string()).unwrap();
    shop.ok("convert a.zarr b.zarr --abs 0.01");
    let changed = read_json(&shop.path("b.zarr/.zmetadata"));
    for name in ["t", "u"] {
        check(&field(), read::<f64>(&shop, "b.zarr", name).into_iter(), 0.01);
        let metadata = read_json(&shop.path(&format!("b.zarr/{name}/.zarray")));
        let codec = json!({"id": "syncline", "mode": "abs", "value": 0.01, "fill": FILL, "rewritable": false});
        assert_eq!(metadata["compressor"], codec);
        assert_eq!(metadata["dtype"], "<f8");
        assert_eq!(changed["metadata"][format!("{name}/.zarray")], metadata);
        let attributes = read_json(&shop.path(&format!("b.zarr/{name}/.zattrs")));
        assert_eq!(attributes["lossy_compression_maximum_absolute_error"], 0.01);
        assert_eq!((&attributes["units"], &changed["metadata"][format!("{name}/.zattrs")]), (&json!("m"), &attributes));
    }
    let (before, after) = (files(&root), files(&shop.path("b.zarr")));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for name in ["i/.zarray", "i/0.0", "i/.zattrs", ".zgroup"] {
        assert_eq!(before[name], after[name], "{name}");
    }
    // Such as the NaN that Python writes.
    fs::write(root.join(".zmetadata"), r#"{"metadata": NaN}"#).unwrap();
    let output = shop.run("convert a.zarr c.zarr --abs 0.01");
    assert!(String::from_utf8_lossy(&output.stderr).contains(".zmetadata: is no JSON: left out"));
    assert!(!shop.path("c.zarr/.zmetadata").exists());
}

#[test]
fn arrays_that_describe_others_stay_and_names_have_their_bounds() {
    let shop = Workshop::new();
    let named = |attributes: Value| json!({"attributes": attributes, "fill_value": 0.0});
    for (name, more) in [
        ("t", named(json!({"coordinates": "lat lon", "missing_value": [FILL, 1e20], "scale_factor": 0.5}))),
        ("g/u", named(json!({"grid_mapping": "map: lon"}))),
        ("lat", named(json!({}))),
        ("lon", named(json!({}))),
        ("when", named(json!({"units": "hours since 2000-01-01"}))),
        ("p", named(json!({}))),
        ("q", named(json!({}))),
    ] {
        let array = create(&shop, "a.zarr", name, &metadata("float64", json!(0.0), json!([little()]), more));
        array.store_array_subset(&array.subset_all(), &field()[..]).unwrap();
    }
    fs::write(shop.path("a.zarr/zarr.json"), group(json!({})).to_string()).unwrap();
    fs::write(shop.path("a.zarr/g/zarr.json"), group(json!({})).to_string()).unwrap();
    let said = shop.ok("convert a.zarr b.zarr --abs 0.01 --rel p=1e-3 --pw-rel g/u=1e-4 --lossless q*");
    let said = String::from_utf8(said).unwrap();
    for text in [
        "/lat: copied: coordinates of /t names it",
        "/lon: copied: grid_mapping of /g/u names it",
        "/when: copied: a time in hours since 2000-01-01",
        "/t: |error| <= 0.01",
        "/g/u: |error| <= 0.0001 |value|",
        "/q: every bit as it was",
    ] {
        assert!(said.contains(text), "{said}");
    }
    for name in ["lat", "lon", "when"] {
        assert_eq!(files(&shop.path("a.zarr").join(name)), files(&shop.path("b.zarr").join(name)));
    }
    // Readers multiply by the factor, and so errors are half as large.
    check(&field(), read::<f64>(&shop, "b.zarr", "t").into_iter(), 0.02);
    let again = shop.run("convert b.zarr c.zarr --abs 0.01");
    assert!(String::from_utf8_lossy(&again.stderr).contains("/t: was compressed with an error bound before"));
    let attributes = read_json(&shop.path("c.zarr/t/zarr.json"))["attributes"].clone();
    assert_eq!(attributes["lossy_compression_maximum_absolute_error"], 0.02);
    for (options, text) in [
        ("--abs x*=1", "--abs x*=1: no floating-point array has such a name: name some of /g/u, "),
        ("--abs t=1 --rel t=1", "are both for /t"),
        ("--abs 1 --rel 1", "are both for all arrays"),
        ("--abs =1", "has no name before ="),
        ("--abs [=1", "is no pattern"),
        ("--lossless x", "no floating-point array has such a name"),
    ] {
        shop.fails(&format!("convert a.zarr d.zarr {options}"), 2, text);
    }
    assert_eq!(shop.names(), ["a.zarr", "b.zarr", "c.zarr"]);
}

#[test]
fn failed_convert_prints_the_reason_and_leaves_no_output() {
    let shop = Workshop::new();
    write_store(&shop, "a.zarr");
    fs::create_dir_all(shop.path("other")).unwrap();
    shop.write("other/x", b"mine");
    shop.write("x.npy", b"");
    shop.write("file.zarr", b"");
    fs::create_dir_all(shop.path("empty.zarr")).unwrap();
    for (line, code, text) in [
        ("a.zarr other --abs 1", 2, "exists already: add --force"),
        ("a.zarr other --abs 1 --force", 2, "other: is no Zarr store, and is not replaced"),
        ("a.zarr a.zarr --abs 1 --force", 2, "is the input, or one is inside of the other"),
        ("a.zarr a.zarr/new --abs 1", 2, "is the input, or one is inside of the other"),
        ("a.zarr/g a.zarr --abs 1 --force", 2, "is the input, or one is inside of the other"),
        ("a.zarr b.h5 --abs 1", 2, "a Zarr store becomes a Zarr store"),
        ("x.npy b.zarr --abs 1", 2, "b.zarr: is the name of a Zarr store, and x.npy is none"),
        ("no.zarr b.zarr --abs 1", 1, "no.zarr: no such file"),
        ("file.zarr b.zarr --abs 1", 1, "file.zarr: is a file"),
        ("empty.zarr b.zarr --abs 1", 1, "is no group or array of Zarr"),
        ("a.zarr b.zarr --abs 1 --except /g/u", 2, "there is no group or array /g/u"),
        ("a.zarr no/b.zarr --abs 1", 1, "no: no such file"),
        ("a.zarr b.zarr --abs 1 --fill 1,2,3,4,5", 2, "fill"),
    ] {
        shop.fails(&format!("convert {line}"), code, text);
    }
    fs::write(shop.path("a.zarr/g/t/c/2/0"), "damaged").unwrap();
    shop.fails("convert a.zarr b.zarr --rel 1e-3", 1, "a.zarr/g/t: ");
    shop.fails("convert a.zarr empty.zarr --abs 1e-3 --force", 1, "a.zarr/g/t: ");
    assert!(files(&shop.path("empty.zarr")).is_empty());
    shop.ok("convert a.zarr b.zarr --rel 1e-3 --except g/t");
    fs::write(shop.path("a.zarr/g/s/zarr.json"), "{").unwrap();
    shop.fails("convert a.zarr c.zarr --rel 1e-3 --except g/t", 1, "a.zarr/g/s/zarr.json: ");
    shop.ok("convert a.zarr c.zarr --rel 1e-3 --except g");
    let [before, after] = ["a", "c"].map(|name| files(&shop.path(&format!("{name}.zarr/g"))));
    assert!(before == after);
}
