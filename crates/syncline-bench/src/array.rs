//! The arrays that are measured: generated fields, their quantization codes, columns of TPC-H, times, weights, streams
//! of bytes, and real data sets.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use syncline::{ElementType, Shape};

use crate::bytes;
use crate::codes::quantization_codes;
use crate::fields::Generator;
use crate::lines;
use crate::random::Stream;
use crate::statistics::ends;
use crate::tpch::{self, Integers, Strings};

/// Suffix of the names of generated fields' 16-bit quantization codes.
const CODES: &str = "-codes";
/// Relative bound of the codes.
const CODES_BOUND: f64 = 1e-3;
/// Prefix of the names of columns.
const COLUMN: &str = "tpch-";
/// Bytes of a generated array that has no size of its own.
const DEFAULT_BYTES: usize = 256 << 20;

/// An array in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Name of the array in records.
    pub name: String,
    /// Type of the elements.
    pub element: ElementType,
    /// Extents, slowest axis first.
    pub extents: Vec<u64>,
    /// Elements in C order, little-endian.
    pub bytes: Vec<u8>,
}

impl Array {
    /// Creates an array of one axis.
    fn line(name: &str, element: ElementType, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), element, extents: vec![(bytes.len() / element.size()) as u64], bytes }
    }

    /// Returns the shape.
    ///
    /// # Errors
    /// The library does not support it.
    pub fn shape(&self) -> Result<Shape> {
        Ok(Shape::new(&self.extents)?)
    }

    /// Returns the extents as text, such as `100x500x500`.
    pub fn shape_text(&self) -> String {
        self.extents.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
    }

    /// Generates an array of at most about `most` bytes, or its own size. Returns `None` if there is none of this
    /// name.
    pub fn generate(name: &str, most: Option<usize>) -> Option<Self> {
        let bytes = most.unwrap_or(DEFAULT_BYTES);
        if let Some(column) = name.strip_prefix(COLUMN) {
            return Self::column(name, column, bytes);
        }
        let count = bytes & !63;
        let line = |bytes| Some(Self::line(name, ElementType::U8, bytes));
        match name {
            "text" => return line(bytes::text(count, 1)),
            "geometric-1.4" => return line(bytes::geometric(count, 0.30, 2)),
            "geometric-5.9" => return line(bytes::geometric(count, 0.955, 3)),
            "never-flat" => return line(bytes::never_synchronizing_flat(count)),
            "never-cycle" => return line(bytes::never_synchronizing_cycle(count)),
            "timestamps" => {
                let times = bytemuck::cast_slice(&lines::timestamps(count / 8, 4)).to_vec();
                return Some(Self::line(name, ElementType::I64, times));
            }
            "weights" => {
                let weights = bytemuck::cast_slice(&lines::weights(count / 4, 5)).to_vec();
                return Some(Self::line(name, ElementType::F32, weights));
            }
            "weights-bf16" => {
                let weights = bytemuck::cast_slice(&lines::half_weights(count / 2, 5)).to_vec();
                return Some(Self::line(name, ElementType::Bf16, weights));
            }
            _ => {}
        }
        let codes = name.strip_suffix(CODES);
        let element_type = |suffix: &str| ElementType::ALL.into_iter().find(|one| one.name() == suffix);
        let typed = name.rsplit_once('-').and_then(|(field, suffix)| Some((field, element_type(suffix)?)));
        let (field, element) =
            codes.map(|field| (field, ElementType::U16)).or(typed).unwrap_or((name, ElementType::F32));
        let generator = Generator::from_str(field, true).ok()?;
        let share = most.map_or(1.0, |most| most as f64 / (generator.elements() * element.size()) as f64);
        let field = generator.generate(share.min(1.0).cbrt());
        if codes.is_some() {
            let mut codes = quantization_codes(&field, CODES_BOUND);
            // Whole groups of symbols.
            codes.truncate(codes.len() & !127);
            return Some(Self::line(name, element, bytemuck::cast_slice(&codes).to_vec()));
        }
        let bytes = match element {
            ElementType::F32 => bytemuck::cast_slice(&field.values).to_vec(),
            ElementType::F64 => bytemuck::cast_slice(&doubles(&field.values)).to_vec(),
            _ => scaled(&field.values, element),
        };
        let extents = field.extents.iter().map(|&extent| extent as u64).collect();
        Some(Self { name: name.to_owned(), element, extents, bytes })
    }

    /// Generates columns of TPC-H's table lineitem: one by its name, or all integers or strings one after another.
    fn column(name: &str, column: &str, most: usize) -> Option<Self> {
        let integers = |columns: &[Integers]| {
            let values = tpch::integers(columns, most / columns.len() / 4);
            Some(Self::line(name, ElementType::I32, bytemuck::cast_slice(&values).to_vec()))
        };
        let strings = |columns: &[Strings], line_bytes: usize| {
            let mut text = tpch::strings(columns, most / line_bytes);
            text.truncate(most);
            Some(Self::line(name, ElementType::U8, text))
        };
        match column {
            "int32" => integers(&Integers::ALL),
            "string" => strings(&Strings::ALL, 44),
            _ => match Integers::ALL.into_iter().find(|one| one.name() == column) {
                Some(one) => integers(&[one]),
                None => strings(&[Strings::ALL.into_iter().find(|one| one.name() == column)?], 5),
            },
        }
    }

    /// Returns the array cut along its slowest axis to at most `most` bytes, but at least to one.
    fn cut(mut self, most: usize) -> Self {
        if let Some(slowest) = self.extents.first_mut().filter(|slowest| **slowest > 0) {
            let row = self.bytes.len() / *slowest as usize;
            *slowest = (*slowest).min((most / row.max(1)).max(1) as u64);
            self.bytes.truncate(row * *slowest as usize);
        }
        self
    }

    /// Returns the array repeated along its slowest axis until it has at least `least` bytes.
    pub fn repeated(mut self, least: usize) -> Self {
        let times = least.div_ceil(self.bytes.len().max(1)).max(1);
        if times > 1 {
            self.name = format!("{}-x{times}", self.name);
            self.bytes = self.bytes.repeat(times);
            if let Some(slowest) = self.extents.first_mut() {
                *slowest *= times as u64;
            }
        }
        self
    }
}

/// Converts to `f64` and sets the low bits, which `f32` cannot represent, to values other than 0.
fn doubles(values: &[f32]) -> Vec<f64> {
    let detail = Stream::new(81);
    let double = |(i, &value): (usize, &f32)| {
        f64::from(value) * (1.0 + (detail.uniform(i as u64) - 0.5) * f64::from(f32::EPSILON))
    };
    values.par_iter().enumerate().map(double).collect()
}

/// Scales values to the range of an integer type, or to 0 to 1 for a floating-point type, and returns the elements next
/// to them. Those of `u64` and `i64` span 2^53, in which `f64` has every integer.
fn scaled(values: &[f32], element: ElementType) -> Vec<u8> {
    let (low, high) = ends(values.par_iter().map(|&value| value.into()));
    let whole = if element.is_integer() { element.integer_extent().min((1u64 << 53) as f64) } else { 1.0 };
    let start = if element.is_signed_integer() { -(whole / 2.0).ceil() } else { 0.0 };
    let bits = |&value: &f32| {
        let share = if high > low { (f64::from(value) - low) / (high - low) } else { 0.0 };
        let value = if element.is_integer() { (share * whole).round_ties_even() + start } else { share };
        element.bits_of_number(value).unwrap_or(0)
    };
    values.par_iter().flat_map_iter(|value| bits(value).to_le_bytes().into_iter().take(element.size())).collect()
}

/// Reads a number of MiB, which need not be whole, and returns the bytes.
pub fn bytes_of_mebibytes(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| (0.001..=65536.0).contains(size));
    size.map(|size: f64| (size * f64::from(1 << 20)) as usize).ok_or("use a number from 0.001 to 65536".into())
}

/// Arguments that select arrays.
#[derive(Args)]
pub struct Selection {
    /// Arrays: generated fields (nyx, rtm, hurricane, cesm, hacc, haccx, qmcpack, exaalt, gamess, turbulence), also of
    /// other element types (nyx-f64, nyx-u8) and as codes (nyx-codes), columns (tpch-discount, tpch-int32), times
    /// (timestamps), weights (weights, weights-bf16), bytes (text, geometric-1.4, never-flat), names in the folder of
    /// real data, and `real` and `columns` for all its floats and integers [default: some of them]
    #[arg(long, value_delimiter = ',')]
    fields: Vec<String>,
    /// Folder of real data with its MANIFEST.tsv, as `cargo xtask data` makes it
    #[arg(long, value_name = "FOLDER", default_value = "data")]
    data: PathBuf,
    /// Approximate maximum MiB of each generated array, such as 0.04 for small calls [default: its own size]
    #[arg(long, value_parser = bytes_of_mebibytes)]
    mebibytes: Option<usize>,
    /// Repeat each array along its slowest axis until it has so many MiB
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1 << 16))]
    at_least: u32,
    /// Cut each array of real data along its slowest axis to at most so many MiB [default: its own size]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    at_most: Option<u32>,
}

impl Selection {
    /// Calls `visit` with each array, one after another, because they are large. Without names, takes those of
    /// `default`.
    ///
    /// # Errors
    /// A name that does not exist, a file that cannot be read, or an error of `visit`.
    pub fn visit(&self, default: &[&str], mut visit: impl FnMut(Array) -> Result<()>) -> Result<()> {
        let given: Vec<&str> = match self.fields.as_slice() {
            [] => default.to_vec(),
            fields => fields.iter().map(String::as_str).collect(),
        };
        for name in given {
            match name {
                "real" => self.files(File::is_float)?.iter().try_for_each(|f| visit(self.load(f)?))?,
                "columns" => self.files(File::is_column)?.iter().try_for_each(|f| visit(self.load(f)?))?,
                _ => match Array::generate(name, self.mebibytes) {
                    Some(array) => visit(array.repeated((self.at_least as usize) << 20))?,
                    None => visit(self.load(&self.find(name)?)?)?,
                },
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<File> {
        let Ok(files) = self.files(|file| file.name == name) else {
            bail!("there is no array '{name}', nor a folder with real data; `cargo xtask data` makes it (see --help)");
        };
        files.into_iter().next().with_context(|| format!("there is no array '{name}'; --help lists them"))
    }

    /// Returns the files of the manifest that are wanted and exist.
    fn files(&self, wanted: impl Fn(&File) -> bool) -> Result<Vec<File>> {
        let path = self.data.join("MANIFEST.tsv");
        let manifest = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}; run `cargo xtask data` to make it", path.display()))?;
        let all = manifest.lines().filter_map(|line| File::parse(line, &self.data)).filter(wanted);
        Ok(all
            .filter(|file| {
                let exists = file.path.exists();
                if !exists {
                    eprintln!("left out: {} is missing", file.path.display());
                }
                exists
            })
            .collect())
    }

    fn load(&self, file: &File) -> Result<Array> {
        let bytes = std::fs::read(&file.path).with_context(|| format!("cannot read {}", file.path.display()))?;
        let File { name, element, extents, .. } = file.clone();
        let expected = extents.iter().product::<u64>() * element.size() as u64;
        ensure!(bytes.len() as u64 == expected, "{} has {} bytes, not {expected}", file.path.display(), bytes.len());
        let array = Array { name, element, extents, bytes };
        let array = array.cut(self.at_most.map_or(usize::MAX, |most| (most as usize) << 20));
        Ok(array.repeated((self.at_least as usize) << 20))
    }
}

/// A real data set on disk.
#[derive(Clone)]
struct File {
    name: String,
    path: PathBuf,
    element: ElementType,
    extents: Vec<u64>,
}

impl File {
    /// Reads a line of the manifest: file, type, extents. Returns `None` for other lines.
    fn parse(line: &str, folder: &Path) -> Option<Self> {
        let mut columns = line.split('\t');
        let (file, element, extents) = (columns.next()?, columns.next()?, columns.next()?);
        let element = ElementType::ALL.into_iter().find(|one| one.to_string() == element)?;
        let extents = extents.split('x').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let name = file.strip_suffix(&format!(".{element}")).unwrap_or(file);
        Some(Self { name: name.to_owned(), path: folder.join(file), element, extents })
    }

    fn is_float(&self) -> bool {
        matches!(self.element, ElementType::F32 | ElementType::F64)
    }

    fn is_column(&self) -> bool {
        !self.element.is_float() && self.element.size() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_arrays_are_as_large_as_asked_for() {
        let names = [
            "nyx",
            "cesm",
            "hacc",
            "nyx-f64",
            "hurricane-bf16",
            "nyx-i8",
            "nyx-codes",
            "tpch-int32",
            "tpch-shipmode",
            "tpch-discount",
            "text",
            "timestamps",
            "weights",
            "weights-bf16",
        ];
        for name in names {
            let array = Array::generate(name, Some(2 << 20)).unwrap();
            // Sides are rounded, and some fields have a minimum size.
            assert!((1 << 18..=5 << 20).contains(&array.bytes.len()), "{name}: {}", array.bytes.len());
            let bytes = array.extents.iter().product::<u64>() as usize * array.element.size();
            assert_eq!((bytes, array.name.as_str()), (array.bytes.len(), name));
        }
        assert!(Array::generate("nowhere", None).is_none() && Array::generate("tpch-tax", None).is_none());
    }

    #[test]
    fn repeated_array_is_longer_along_its_slowest_axis() {
        let array = Array::generate("hurricane", Some(1 << 20)).unwrap();
        let (bytes, extents) = (array.bytes.len(), array.extents.clone());
        assert_eq!(array.clone().repeated(bytes), array);
        let twice = array.repeated(bytes + 1);
        assert_eq!((twice.bytes.len(), twice.extents[0], twice.extents[1]), (2 * bytes, 2 * extents[0], extents[1]));
        assert_eq!(twice.name, "hurricane-x2");
    }

    #[test]
    fn cut_array_is_shorter_along_its_slowest_axis() {
        let array = Array::generate("hurricane", Some(1 << 20)).unwrap();
        let (bytes, extents) = (array.bytes.len(), array.extents.clone());
        assert_eq!(array.clone().cut(bytes), array);
        let row = bytes / extents[0] as usize;
        let less = array.clone().cut(3 * row - 1);
        assert_eq!((less.bytes.as_slice(), less.extents[0]), (&array.bytes[..2 * row], 2));
        assert_eq!(array.cut(1).extents[0], 1);
    }

    #[test]
    fn f64_elements_are_not_read_as_f32() {
        let singles: Vec<f32> = (1..1000).map(|i| i as f32 * 0.1).collect();
        let doubles = doubles(&singles);
        let mut pairs = doubles.iter().zip(&singles);
        assert!(pairs.all(|(&double, &single)| (double as f32 - single).abs() <= single * f32::EPSILON));
        assert!(doubles.iter().filter(|&&double| f64::from(double as f32) != double).count() > 990);
    }

    #[test]
    fn scaled_elements_span_their_type() {
        let values: Vec<f32> = (0..=1000).map(|i| (i as f32 * 0.013).sin() * 7e9).collect();
        for element in ElementType::ALL.into_iter().filter(|element| !element.is_computed()) {
            let bytes = scaled(&values, element);
            let bits = |element: &[u8]| element.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
            let numbers: Vec<f64> = bytes.chunks(element.size()).map(|one| element.number_of_bits(bits(one))).collect();
            let (low, high) = ends(numbers.par_iter().copied());
            let extent = if element.is_integer() { element.integer_extent().min(2f64.powi(53)) } else { 1.0 };
            assert!(numbers.len() == values.len() && high - low == extent, "{element}: {low} to {high}");
        }
    }

    #[test]
    fn manifest_lines_name_files_types_and_extents() {
        let file = File::parse("etopo5.f32\tf32\t2161x4320\t37342080", Path::new("data")).unwrap();
        assert_eq!((file.name.as_str(), file.element, file.extents), ("etopo5", ElementType::F32, vec![2161, 4320]));
        assert!(File::parse("file\tdtype\tdims\tbytes", Path::new("data")).is_none());
    }
}
