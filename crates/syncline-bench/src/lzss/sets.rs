//! The sets of the `lzss` bench: the paper's six, other columns of TPC-H, and files.

use std::path::Path;

use anyhow::{Context, Result, bail};
use syncline::ElementType;

use crate::codes::{Tiling, quantization_codes};
use crate::fields::Generator;
use crate::tpch::{self, Integers, Strings};

/// Relative bound of the codes.
const BOUND: f64 = 1e-3;
/// Sizes of sets are multiples of this many bytes, as copies on a GPU require.
const GRANULE: usize = 64;
/// Prefix of the names of columns.
const COLUMN: &str = "tpch-";

/// A typed array of bytes.
pub struct Set {
    /// Name of the set in tables.
    pub name: String,
    /// Type of the elements.
    pub element: ElementType,
    /// Elements of the set, little-endian.
    pub bytes: Vec<u8>,
}

impl Set {
    /// The six sets of the paper.
    pub const PAPER: [&str; 6] = ["hurr-quant", "hacc-quant", "nyx-quant", "tpch-int32", "tpch-string", "rtm-float32"];

    /// Sets with codes of further fields.
    pub const CODES: [&str; 2] = ["rtm-quant", "cesm-quant"];

    /// Generates a set of at most about `mebibytes` MiB, or reads a file.
    ///
    /// # Errors
    /// There is no such set or file, or it is empty.
    pub fn load(name: &str, mebibytes: usize) -> Result<Self> {
        let most = mebibytes << 20;
        let set = match name {
            "hurr-quant" => Self::codes(name, Generator::Hurricane, most),
            "hacc-quant" => Self::codes(name, Generator::Hacc, most),
            "nyx-quant" => Self::codes(name, Generator::Nyx, most),
            "rtm-quant" => Self::codes(name, Generator::Rtm, most),
            "cesm-quant" => Self::codes(name, Generator::Cesm, most),
            "rtm-float32" => {
                let field = Generator::Rtm.generate(scale(Generator::Rtm, 4, most));
                Self::new(name, ElementType::F32, bytemuck::cast_slice(&field.values).to_vec())
            }
            "tpch-int32" => Self::integers(name, &Integers::ALL, most),
            "tpch-string" => Self::new(name, ElementType::U8, tpch::strings(&Strings::ALL, most / 44)),
            _ => match name.strip_prefix(COLUMN).and_then(|column| Self::column(name, column, most)) {
                Some(set) => set,
                None => Self::read(name)?,
            },
        };
        anyhow::ensure!(!set.bytes.is_empty(), "{name} is empty");
        Ok(set)
    }

    fn new(name: &str, element: ElementType, mut bytes: Vec<u8>) -> Self {
        bytes.truncate(bytes.len() / GRANULE * GRANULE);
        Self { name: name.to_owned(), element, bytes }
    }

    fn codes(name: &str, generator: Generator, most: usize) -> Self {
        let field = generator.generate(scale(generator, 2, most));
        let codes = quantization_codes(&field, BOUND, Tiling::Zeros);
        Self::new(name, ElementType::U16, bytemuck::cast_slice(&codes).to_vec())
    }

    fn integers(name: &str, columns: &[Integers], most: usize) -> Self {
        let values = tpch::integers(columns, most / columns.len() / 4);
        Self::new(name, ElementType::I32, bytemuck::cast_slice(&values).to_vec())
    }

    fn column(name: &str, column: &str, most: usize) -> Option<Self> {
        if let Some(column) = Integers::ALL.into_iter().find(|c| c.name() == column) {
            return Some(Self::integers(name, &[column], most));
        }
        let column = Strings::ALL.into_iter().find(|c| c.name() == column)?;
        let mut text = tpch::strings(&[column], most / 5);
        text.truncate(most);
        Some(Self::new(name, ElementType::U8, text))
    }

    fn read(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if !path.exists() {
            let columns: Vec<_> =
                Integers::ALL.map(Integers::name).into_iter().chain(Strings::ALL.map(Strings::name)).collect();
            bail!(
                "there is no set or file '{name}': use {}, {}, {COLUMN} with one of {}, or the path of a raw array",
                Self::PAPER.join(", "),
                Self::CODES.join(", "),
                columns.join(", ")
            );
        }
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let element = ElementType::ALL.into_iter().find(|element| element.to_string() == extension);
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self::new(&file, element.unwrap_or(ElementType::U8), bytes))
    }
}

/// Returns the scale of a field's sides with which it has about `most` bytes, with elements of `element` bytes.
fn scale(generator: Generator, element: usize, most: usize) -> f64 {
    (most as f64 / (generator.elements() * element) as f64).min(1.0).cbrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_as_large_as_asked_for() {
        for name in Set::PAPER.into_iter().chain(Set::CODES).chain(["tpch-discount", "tpch-shipmode"]) {
            let set = Set::load(name, 2).unwrap();
            assert!((1 << 20..=4 << 20).contains(&set.bytes.len()), "{name}: {}", set.bytes.len());
            assert!(set.bytes.len().is_multiple_of(GRANULE));
            assert_eq!(set.name, name);
        }
        let error = Set::load("tpch-nothing", 1).err().unwrap().to_string();
        assert!(error.contains("shipdate") && error.contains("hurr-quant"), "{error}");
    }
}
