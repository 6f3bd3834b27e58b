//! Arrays that own their elements.

use syncline_core::array::{ArrayView, Element, ElementType, Shape};
use syncline_core::error::{Error, Result};

/// An array that owns its elements: little-endian bytes in C order, with an element type and a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    bytes: Vec<u8>,
    element_type: ElementType,
    shape: Shape,
}

impl Array {
    pub(crate) fn new(bytes: Vec<u8>, element_type: ElementType, shape: Shape) -> Self {
        debug_assert_eq!(bytes.len() as u64, shape.len() * element_type.size() as u64);
        Self { bytes, element_type, shape }
    }

    /// Returns the elements as little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Converts the array into its elements as little-endian bytes, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Returns the shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Borrows the array, for example to compress it again.
    ///
    /// # Panics
    /// Never, because the bytes of an array fit its shape.
    pub fn view(&self) -> ArrayView<'_> {
        ArrayView::from_bytes(&self.bytes, self.element_type, self.shape).expect("an array's bytes fit its shape")
    }

    /// Returns the elements as a vector of their Rust type.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the array has another element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::TYPE != self.element_type {
            return Err(Error::invalid(format!("the array has elements of {}, not of {}", self.element_type, T::TYPE)));
        }
        let mut elements = vec![T::zeroed(); self.bytes.len() / size_of::<T>()];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        bytes.copy_from_slice(&self.bytes);
        if cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_given_as_their_own_type_only() {
        let array = Array::new(vec![1, 0, 0xff, 0xff], ElementType::I16, Shape::new(&[2]).unwrap());
        assert_eq!(array.to_vec::<i16>().unwrap(), [1, -1]);
        for error in [array.to_vec::<u16>().unwrap_err(), array.to_vec::<half::f16>().unwrap_err()] {
            assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("elements of i16")), "{error}");
        }
        assert!(array.to_vec::<u64>().unwrap_err().to_string().ends_with("not of u64"));
    }
}
