//! File names: element types, shapes, and names of outputs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use syncline::{ElementType, Shape};

/// The suffix of streams.
pub const SUFFIX: &str = "syn";

/// Returns whether the name stands for stdin or stdout.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the element type for any of its usual names.
pub fn type_by_name(name: &str) -> Option<ElementType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "f32" | "float32" | "float" | "fp32" => ElementType::F32,
        "f64" | "d64" | "float64" | "double" | "fp64" => ElementType::F64,
        "f16" | "float16" | "half" | "fp16" => ElementType::F16,
        "bf16" | "bfloat16" => ElementType::Bf16,
        "u8" | "uint8" => ElementType::U8,
        "u16" | "uint16" => ElementType::U16,
        "u32" | "uint32" => ElementType::U32,
        "u64" | "uint64" => ElementType::U64,
        "i8" | "int8" => ElementType::I8,
        "i16" | "int16" => ElementType::I16,
        "i32" | "int32" => ElementType::I32,
        "i64" | "int64" => ElementType::I64,
        _ => return None,
    })
}

/// Returns the element type in the extensions of a file name: `x.f32`, `x.f32.dat`, `x.bin.d64`.
pub fn type_of(path: &Path) -> Option<ElementType> {
    let name = path.file_name()?.to_str()?;
    name.split('.').skip(1).collect::<Vec<_>>().into_iter().rev().find_map(type_by_name)
}

/// Returns whether the name ends in `.npy`.
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

/// Returns whether the name ends in `.syn`.
pub fn is_stream(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == SUFFIX)
}

/// Returns whether the name ends in `.npz`.
pub fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npz"))
}

/// Returns whether a file in a folder is an array, by its name: `.npy`, `.npz`, or with an element type.
pub fn is_array(path: &Path) -> bool {
    !is_stream(path) && (is_npy(path) || is_npz(path) || type_of(path).is_some())
}

/// Returns a shape in the name of the file or of its folder that fits `elements`: `x_100x500x500.f32`,
/// `CLDHGH_1_26_1800_3600.f32`, `SDRBENCH-NYX-512x512x512/density.f32`.
pub fn suggested_shape(path: &Path, elements: u64) -> Option<Shape> {
    let folder = std::path::absolute(path).ok().and_then(|path| path.parent()?.file_name().map(OsString::from));
    let names = [path.file_name().map(OsString::from), folder];
    names.into_iter().flatten().find_map(|name| shape_in(&name.to_string_lossy(), elements))
}

/// Returns the longest run of numbers, separated by one `x`, `_`, `-`, or `,`, whose product is `elements`.
fn shape_in(name: &str, elements: u64) -> Option<Shape> {
    let mut runs: Vec<Vec<u64>> = vec![vec![]];
    let mut rest = name;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let separator = &rest[..start];
        if !matches!(separator, "x" | "X" | "_" | "-" | ",") {
            runs.push(vec![]);
        }
        let end = rest[start..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| start + length);
        match rest[start..end].parse() {
            Ok(number) => runs.last_mut()?.push(number),
            Err(_) => runs.push(vec![]),
        }
        rest = &rest[end..];
    }
    let parts_from = |run, from| (from + 1..=<[u64]>::len(run)).map(move |to| &run[from..to]);
    let candidates =
        runs.iter().flat_map(|run: &Vec<u64>| (0..run.len()).flat_map(move |from| parts_from(run.as_slice(), from)));
    candidates
        .filter(|extents| extents.len() >= 2)
        .filter_map(|extents| Shape::new(extents).ok())
        .filter(|shape| shape.len() == elements && elements > 0)
        .max_by_key(Shape::rank)
}

/// Returns the default name of the array in a stream: `IN` without `.syn`; `None` without this suffix.
pub fn array_name(input: &Path) -> Option<PathBuf> {
    let stem = input.file_stem().filter(|_| is_stream(input))?;
    Some(input.with_file_name(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_names() {
        for (name, expected) in [
            ("x.f32", Some(ElementType::F32)),
            ("dir.f64/x.bin.f32", Some(ElementType::F32)),
            ("x.f32.dat", Some(ElementType::F32)),
            ("a.b.d64", Some(ElementType::F64)),
            ("CLOUDf48.bin.f32", Some(ElementType::F32)),
            ("codes.U16", Some(ElementType::U16)),
            ("f32", None),
            ("x.dat", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(type_of(Path::new(name)), expected, "{name}");
        }
        for element_type in ElementType::ALL {
            assert_eq!(type_by_name(element_type.name()), Some(element_type));
        }
    }

    #[test]
    fn shapes_in_names() {
        let shape = |name: &str, elements| suggested_shape(Path::new(name), elements).map(|s| s.to_string());
        assert_eq!(shape("hurr_100x500x500.f32", 25_000_000).as_deref(), Some("100x500x500"));
        assert_eq!(shape("CLDHGH_1_1800_3600.f32", 6_480_000).as_deref(), Some("1x1800x3600"));
        assert_eq!(shape("einspline_115_69_69_288.pre.f32", 115 * 69 * 69 * 288).as_deref(), Some("115x69x69x288"));
        assert_eq!(shape("Uf48_100x500x500.f32", 25_000_000).as_deref(), Some("100x500x500"));
        assert_eq!(shape("NYX-512x512x512/density.f32", 1 << 27).as_deref(), Some("512x512x512"));
        assert_eq!(shape("hurr_100x500x500.f32", 25_000_001), None);
        assert_eq!(shape("99999999999999999999x2.f32", 2), None);
        assert_eq!(shape("x.f32", 32), None);
        assert_eq!(shape("0x0.f32", 0), None);
    }

    #[test]
    fn output_names() {
        assert_eq!(array_name(Path::new("a/x.npy.syn")), Some("a/x.npy".into()));
        assert_eq!(array_name(Path::new("x.f32")), None);
        assert_eq!(array_name(Path::new(".syn")), None);
    }
}
