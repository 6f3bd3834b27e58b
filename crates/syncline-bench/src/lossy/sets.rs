//! The fields that the `lossy` bench compresses.

use anyhow::{Result, bail};
use clap::ValueEnum;
use rayon::prelude::*;

use crate::fields::Generator;
use crate::random::Stream;

/// Suffix of the names of sets of `f64`.
const DOUBLE: &str = "-f64";

/// The elements of a set.
pub enum Values {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
}

/// A field to compress.
pub struct Set {
    /// Name of the set in tables.
    pub name: String,
    /// Elements of the set.
    pub values: Values,
    /// Extents, slowest axis first.
    pub extents: Vec<u64>,
}

impl Set {
    /// The sets that are measured by default: those of the papers, turbulence, and two of `f64`.
    pub const DEFAULT: [&str; 9] =
        ["nyx", "rtm", "hurricane", "cesm", "hacc", "qmcpack", "turbulence", "rtm-f64", "nyx-f64"];

    /// Returns whether there is a set of this name: the name of a field, with or without the suffix `-f64`.
    pub fn exists(name: &str) -> bool {
        generator(name).is_some()
    }

    /// Generates a set, of about `mebibytes` MiB at most if that is given.
    ///
    /// # Errors
    /// There is no such set.
    pub fn generate(name: &str, mebibytes: Option<usize>) -> Result<Self> {
        let Some((generator, double)) = generator(name) else {
            bail!(
                "there is no set '{name}': use the name of a field, as nyx or hacc, or a name with {DOUBLE} appended"
            );
        };
        let full = generator.elements() as f64 * if double { 8.0 } else { 4.0 };
        let share = mebibytes.map_or(1.0, |most| most as f64 * f64::from(1 << 20) / full);
        let field = generator.generate(share.min(1.0).cbrt());
        let extents = field.extents.iter().map(|&extent| extent as u64).collect();
        let values = if double { Values::F64(doubles(&field.values)) } else { Values::F32(field.values) };
        Ok(Self { name: name.to_owned(), values, extents })
    }

    /// Returns the bytes of the elements.
    pub fn bytes(&self) -> u64 {
        match &self.values {
            Values::F32(values) => size_of_val(&values[..]) as u64,
            Values::F64(values) => size_of_val(&values[..]) as u64,
        }
    }

    /// Returns the extents as text, such as `100x500x500`.
    pub fn shape_text(&self) -> String {
        self.extents.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
    }
}

fn generator(name: &str) -> Option<(Generator, bool)> {
    let (field, double) = name.strip_suffix(DOUBLE).map_or((name, false), |field| (field, true));
    Some((Generator::from_str(field, true).ok()?, double))
}

/// Converts to `f64` and sets the low bits, which `f32` cannot represent, to values other than 0.
fn doubles(values: &[f32]) -> Vec<f64> {
    let detail = Stream::new(81);
    let double = |(i, &value): (usize, &f32)| {
        f64::from(value) * (1.0 + (detail.uniform(i as u64) - 0.5) * f64::from(f32::EPSILON))
    };
    values.par_iter().enumerate().map(double).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_as_large_as_asked_for() {
        for name in Set::DEFAULT {
            let set = Set::generate(name, Some(2)).unwrap();
            // Sides are rounded, and some fields have a minimum size.
            assert!((1 << 18..=5 << 20).contains(&set.bytes()), "{name}: {}", set.bytes());
            let size = if matches!(set.values, Values::F64(_)) { 8 } else { 4 };
            assert_eq!(set.extents.iter().product::<u64>() * size, set.bytes());
            assert!(Set::exists(name));
        }
        assert!(!Set::exists("nowhere") && Set::generate("nowhere-f64", None).is_err());
    }

    #[test]
    fn the_elements_of_a_whole_field() {
        let generator = Generator::Hurricane;
        assert_eq!(generator.generate(1.0).values.len(), generator.elements());
    }

    #[test]
    fn doubles_are_no_singles() {
        let singles: Vec<f32> = (1..1000).map(|i| i as f32 * 0.1).collect();
        let doubles = doubles(&singles);
        assert!(
            doubles
                .iter()
                .zip(&singles)
                .all(|(&double, &single)| (double as f32 - single).abs() <= single * f32::EPSILON)
        );
        assert!(doubles.iter().filter(|&&double| f64::from(double as f32) != double).count() > 990);
    }
}
