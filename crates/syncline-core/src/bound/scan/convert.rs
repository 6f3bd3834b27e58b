//! Elements of a scan as the values that are computed with.

use super::Scan;
use super::block::BLOCK;
use crate::array::ElementType;
use crate::quantize::{Real, Stored};

/// Elements that are converted at a time.
const CONVERTED: usize = 16 * BLOCK;

impl Scan {
    /// Adds elements as the values that are computed with, some at a time.
    pub(super) fn add_converted<T: Real>(&mut self, first: u64, bytes: &[u8], add: impl Fn(&mut Self, u64, &[T])) {
        let (stored, size) = (Stored::<T>::new(self.element, 0, &[]), self.element.size());
        assert!(bytes.len().is_multiple_of(size), "{} bytes are no whole number of elements", bytes.len());
        let mut values = vec![T::zeroed(); CONVERTED.min(bytes.len() / size)];
        for (first, bytes) in (first..).step_by(CONVERTED).zip(bytes.chunks(CONVERTED * size)) {
            let values = &mut values[..bytes.len() / size];
            stored.load_bytes(bytes, values);
            add(self, first, values);
        }
    }
}

/// Returns the bits that a value has in a scan; `None` if no element has that value.
pub(super) fn bits_of(element: ElementType, value: f64) -> Option<u64> {
    let bits = element.bits_of_number(value)?;
    Some(match (element, element.computed()) {
        (ElementType::U64, _) => bits ^ 1 << 63,
        (ElementType::I64, _) => bits,
        (_, ElementType::F32) => Stored::<f32>::new(element, 0, &[]).value(bits).bits(),
        _ => Stored::<f64>::new(element, 0, &[]).value(bits).bits(),
    })
}

/// Returns the bits of the element that has these bits in a scan.
pub(super) fn stored_bits(element: ElementType, bits: u64) -> u64 {
    match (element, element.computed()) {
        (ElementType::U64, _) => bits ^ 1 << 63,
        (ElementType::I64, _) => bits,
        (_, ElementType::F32) => Stored::<f32>::new(element, 0, &[]).bits(Real::from_bits(bits)),
        _ => Stored::<f64>::new(element, 0, &[]).bits(Real::from_bits(bits)),
    }
}
