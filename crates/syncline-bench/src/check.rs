//! Checks decompressed arrays against the originals.

use anyhow::{Result, ensure};
use rayon::prelude::*;
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

/// The elements of an array in their order.
#[derive(Clone, Copy)]
struct Elements<'a> {
    element: ElementType,
    bytes: &'a [u8],
}

impl<'a> Elements<'a> {
    fn of(array: &'a Array) -> Self {
        Self { element: array.element, bytes: &array.bytes }
    }

    /// Returns the zero-extended bits of each element.
    fn bits(self) -> impl IndexedParallelIterator<Item = u64> + 'a {
        let bits = |element: &[u8]| element.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        self.bytes.par_chunks_exact(self.element.size()).map(bits)
    }

    /// Returns each element as a number.
    fn numbers(self) -> impl IndexedParallelIterator<Item = f64> + 'a {
        self.bits().map(move |bits| self.element.number_of_bits(bits))
    }
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
        ensure!(
            !array.element.is_wide_integer(),
            "{} is of {}, whose errors f64 does not represent: use `lossless`",
            array.name,
            array.element
        );
        // Computing the range may involve a rounding error, but no more.
        let asked = relative * range(Elements::of(array).numbers()) * (1.0 + 1e-12);
        ensure!(self.bound <= asked, "the stream's bound is {}, asked for was {asked}", self.bound);
        let worst = self.worst_error(Elements::of(array), Elements { bytes: back, ..Elements::of(array) })?;
        Ok(if worst > 0.0 { worst / self.bound } else { 0.0 })
    }

    /// Returns the largest error divided by the bound, without checking it.
    pub fn error(&self, array: &Array, back: &[u8]) -> f64 {
        let back = Elements { bytes: back, ..Elements::of(array) };
        let worst = max_error(Elements::of(array).numbers(), back.numbers());
        if worst > 0.0 { worst / self.bound } else { 0.0 }
    }

    /// Returns the array with values that stay exact replaced by the value before, for codecs that have no masks.
    pub fn without_fill(&self, array: &Array) -> Array {
        let (element, mut bytes) = (array.element, array.bytes.clone());
        let exact: Vec<bool> = Elements::of(array).bits().map(|bits| self.is_exact(element, bits)).collect();
        if let Some(first) = exact.iter().position(|exact| !exact) {
            let mut last = first * element.size()..(first + 1) * element.size();
            for (number, exact) in exact.into_iter().enumerate() {
                let own = number * element.size();
                if exact {
                    bytes.copy_within(last.clone(), own);
                }
                last = own..own + element.size();
            }
        }
        Array { bytes, ..array.clone() }
    }

    fn is_exact(&self, element: ElementType, bits: u64) -> bool {
        !element.number_of_bits(bits).is_finite() || self.patterns.contains(&bits)
    }

    fn worst_error(&self, values: Elements, back: Elements) -> Result<f64> {
        let (length, found) = (values.bytes.len(), back.bytes.len());
        ensure!(length == found, "{length} bytes became {found}");
        let error = |(number, (value, back)): (usize, (u64, u64))| {
            if self.is_exact(values.element, value) {
                ensure!(value == back, "element {number} is not exact");
                return Ok(0.0);
            }
            let error = (values.element.number_of_bits(value) - values.element.number_of_bits(back)).abs();
            ensure!(error <= self.bound, "element {number}: an error of {error}, the bound is {}", self.bound);
            Ok(error)
        };
        values.bits().zip(back.bits()).enumerate().map(error).try_reduce(|| 0.0, |a, b| Ok(a.max(b)))
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
    fn integers_have_errors_of_integers() {
        let array = |values: &[i16]| Array {
            element: ElementType::I16,
            bytes: bytemuck::cast_slice(values).to_vec(),
            ..array(&[0.0; 3])
        };
        let promise = Promise { bound: 4.0, patterns: vec![u64::from(-7i16 as u16)] };
        let check = |back: &[i16]| promise.check(&array(&[-300, -7, 100]), 0.01, &array(back).bytes);
        assert_eq!(check(&[-299, -7, 102]).unwrap(), 0.5);
        assert!(check(&[-300, -6, 100]).is_err() && check(&[-305, -7, 100]).is_err());
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
