//! Checks decompressed arrays against the originals.

use anyhow::{Result, ensure};
use syncline::ElementType;
use syncline_core::container::{HEADER_LEN, Header};

use crate::array::Array;
use crate::statistics::{max_error, range};

/// What a stream of Syncline says about an array: the absolute bound, and the bit patterns of values that stay exact.
pub struct Promise {
    /// The absolute bound.
    pub bound: f64,
    patterns: Vec<u64>,
}

/// An element type with errors.
trait Float: bytemuck::Pod + Into<f64> + Sync {
    fn pattern(self) -> u64;
}

impl Float for f32 {
    fn pattern(self) -> u64 {
        self.to_bits().into()
    }
}

impl Float for f64 {
    fn pattern(self) -> u64 {
        self.to_bits()
    }
}

/// Returns bytes as elements.
fn elements<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

impl Promise {
    /// Reads the header of a stream.
    ///
    /// # Errors
    /// It is not a stream.
    pub fn of(stream: &[u8]) -> Result<Self> {
        let header = Header::parse(&stream[..stream.len().min(HEADER_LEN)])?;
        Ok(Self { bound: header.abs_bound, patterns: header.patterns })
    }

    /// Returns the largest error divided by the bound.
    ///
    /// # Errors
    /// It exceeds the bound, a value that stays exact has changed, or the bound is larger than what was asked for.
    pub fn check(&self, array: &Array, relative: f64, back: &[u8]) -> Result<f64> {
        let range = match array.element {
            ElementType::F64 => range::<f64>(&elements(&array.bytes)),
            _ => range::<f32>(&elements(&array.bytes)),
        };
        // Computing the range may involve a rounding error, but no more.
        let asked = relative * range * (1.0 + 1e-12);
        ensure!(self.bound <= asked, "the stream's bound is {}, asked for was {asked}", self.bound);
        let worst = match array.element {
            ElementType::F64 => self.worst_error::<f64>(&elements(&array.bytes), &elements(back)),
            _ => self.worst_error::<f32>(&elements(&array.bytes), &elements(back)),
        }?;
        Ok(if worst > 0.0 { worst / self.bound } else { 0.0 })
    }

    /// Returns the largest error divided by the bound, without checking it.
    pub fn error(&self, array: &Array, back: &[u8]) -> f64 {
        let worst = match array.element {
            ElementType::F64 => max_error::<f64>(&elements(&array.bytes), &elements(back)),
            _ => max_error::<f32>(&elements(&array.bytes), &elements(back)),
        };
        if worst > 0.0 { worst / self.bound } else { 0.0 }
    }

    /// Returns the array with values that stay exact replaced by the value before, for codecs that have no masks.
    pub fn without_fill(&self, array: &Array) -> Array {
        let bytes = match array.element {
            ElementType::F64 => bytemuck::cast_slice(&self.replaced::<f64>(elements(&array.bytes))).to_vec(),
            _ => bytemuck::cast_slice(&self.replaced::<f32>(elements(&array.bytes))).to_vec(),
        };
        Array { bytes, ..array.clone() }
    }

    fn is_exact<T: Float>(&self, value: T) -> bool {
        !value.into().is_finite() || self.patterns.contains(&value.pattern())
    }

    fn worst_error<T: Float>(&self, values: &[T], back: &[T]) -> Result<f64> {
        ensure!(values.len() == back.len(), "{} values became {}", values.len(), back.len());
        let mut worst = 0.0;
        for (number, (&value, &back)) in values.iter().zip(back).enumerate() {
            if self.is_exact(value) {
                ensure!(value.pattern() == back.pattern(), "element {number} is not exact");
            } else {
                let error = (value.into() - back.into()).abs();
                ensure!(error <= self.bound, "element {number}: an error of {error}, the bound is {}", self.bound);
                worst = error.max(worst);
            }
        }
        Ok(worst)
    }

    fn replaced<T: Float>(&self, mut values: Vec<T>) -> Vec<T> {
        let Some(mut last) = values.iter().copied().find(|&value| !self.is_exact(value)) else { return values };
        for value in &mut values {
            if self.is_exact(*value) {
                *value = last;
            }
            last = *value;
        }
        values
    }
}

/// Checks that two sequences of bytes are equal.
///
/// # Errors
/// They are not.
pub fn ensure_same(found: &[u8], expected: &[u8], what: &str) -> Result<()> {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    ensure!(
        found == expected,
        "{what}: {} bytes, {} expected, which differ from byte {at} on",
        found.len(),
        expected.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise() -> Promise {
        Promise { bound: 0.5, patterns: vec![u64::from((-1f32).to_bits())] }
    }

    fn array(values: &[f32]) -> Array {
        let (element, extents) = (ElementType::F32, vec![values.len() as u64]);
        Array { name: "x".into(), element, extents, bytes: bytemuck::cast_slice(values).to_vec() }
    }

    #[test]
    fn changed_value_is_an_error() {
        let values = array(&[1f32, -1.0, f32::NAN, 4.0]);
        let check = |back: &[f32]| promise().check(&values, 0.1, bytemuck::cast_slice(back));
        assert_eq!(check(&[1.25, -1.0, f32::NAN, 3.75]).unwrap(), 0.5);
        let looser = promise().check(&values, 0.09, &values.bytes).unwrap_err().to_string();
        assert!(looser.contains("asked for"), "{looser}");
        assert!(check(&[1.0, -1.25, f32::NAN, 4.0]).is_err());
        assert!(check(&[1.0, -1.0, 0.0, 4.0]).is_err());
        assert!(check(&[1.0, -1.0, f32::NAN, 4.75]).is_err());
        assert!(check(&[1.0]).is_err());
    }

    #[test]
    fn fill_is_replaced_by_the_value_before() {
        let filled = promise().without_fill(&array(&[f32::NAN, 1f32, -1.0, 4.0]));
        assert_eq!(filled, array(&[1.0, 1.0, 1.0, 4.0]));
    }

    #[test]
    fn different_bytes_are_an_error() {
        assert!(ensure_same(&[1, 2], &[1, 2], "x").is_ok());
        assert!(ensure_same(&[1, 2], &[1, 3], "x").unwrap_err().to_string().contains("byte 1 on"));
        assert!(ensure_same(&[1, 2], &[1], "x").unwrap_err().to_string().contains("byte 1 on"));
        assert!(Promise::of(&[0; 3]).is_err());
    }
}
