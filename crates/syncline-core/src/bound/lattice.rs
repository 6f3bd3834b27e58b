//! Numbers of which all values are whole multiples, as integers in floating-point arrays are of 1.

use super::limits::Limits;
use crate::array::ElementType;

/// What is known of the numbers of which some values are whole multiples. Values may be added in any order, and in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lattice {
    /// The greatest common divisor of all values; 0 if all are zeros. [`Lattice::FINEST`] if there are more multiples of
    /// it below the largest value than there are integers to quantize to.
    pub spacing: f64,
    /// The largest magnitude.
    pub largest: f64,
}

impl Lattice {
    /// Every number is a multiple of this one.
    pub const FINEST: f64 = f64::from_bits(1);

    /// Returns what is known with another finite value, of an element of this type, too.
    #[must_use]
    pub fn with(self, value: f64, element: ElementType) -> Self {
        let magnitude = value.abs();
        if self.spacing != 0.0 && is_multiple(magnitude, self.spacing) && magnitude <= self.largest {
            return self;
        }
        self.merge(Self { spacing: magnitude, largest: magnitude }, element)
    }

    /// Combines what is known of two parts of an array of elements of this type.
    #[must_use]
    pub fn merge(self, other: Self, element: ElementType) -> Self {
        let largest = self.largest.max(other.largest);
        let too_fine = |spacing: f64| largest / spacing >= Limits::of(element).largest_integer;
        if [self, other].iter().any(|part| part.spacing != 0.0 && too_fine(part.spacing)) {
            return Self { spacing: Self::FINEST, largest };
        }
        let (mut spacing, mut rest) = (self.spacing, other.spacing);
        while rest != 0.0 {
            (spacing, rest) = (rest, spacing % rest);
        }
        Self { spacing: if spacing != 0.0 && too_fine(spacing) { Self::FINEST } else { spacing }, largest }
    }

    /// Returns the greatest common divisor, if all values together say something.
    pub(super) fn spacing(self) -> Option<f64> {
        (self.spacing > Self::FINEST).then_some(self.spacing)
    }
}

/// Returns whether a value is a whole multiple of a positive number.
fn is_multiple(value: f64, of: f64) -> bool {
    let quotient = value / of;
    // The product of integers of 29 bits and numbers of 24 bits is exact, and a remainder takes long.
    if quotient < 536_870_912.0 && f64::from(of as f32) == of {
        return quotient.round_ties_even() * of == value;
    }
    value % of == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64], element: ElementType) -> Lattice {
        values.iter().fold(Lattice::default(), |lattice, &value| lattice.with(value, element))
    }

    #[test]
    fn spacing_is_the_greatest_common_divisor() {
        for (values, spacing) in [
            (&[][..], None),
            (&[0.0, -0.0], None),
            (&[0.0, -6.0, 9.0], Some(3.0)),
            (&[600.0, 0.0, -1800.0, 1200.0], Some(600.0)),
            (&[0.75, 2.0], Some(0.25)),
            (&[1.0, 0.3], None),
            (&[1e300, 1.0], None),
        ] {
            for element in [ElementType::F32, ElementType::F64] {
                assert_eq!(of(values, element).spacing(), spacing, "{values:?}");
            }
        }
        // More multiples than integers of f32 have, but not those of f64.
        let many = [1.0, 5e6];
        assert_eq!((of(&many, ElementType::F32).spacing(), of(&many, ElementType::F64).spacing()), (None, Some(1.0)));
    }

    proptest! {
        #[test]
        fn parts_and_orders_make_no_difference(
            integers in prop::collection::vec(-5000..5000i32, 0..40), unit in 1..1000u32, wild in any::<f32>(),
            is_wild in any::<bool>(), cut in 0..40usize,
        ) {
            let mut values: Vec<f64> = integers.iter().map(|&i| f64::from(i) * f64::from(unit) / 64.0).collect();
            if is_wild && wild.is_finite() {
                values.push(f64::from(wild));
            }
            let whole = of(&values, ElementType::F32);
            let (first, second) = values.split_at(cut.min(values.len()));
            let (first, second) = (of(first, ElementType::F32), of(second, ElementType::F32));
            prop_assert_eq!(first.merge(second, ElementType::F32), whole);
            values.reverse();
            prop_assert_eq!(of(&values, ElementType::F32), whole);
            if let Some(spacing) = whole.spacing() {
                prop_assert!(values.iter().all(|value| value % spacing == 0.0));
            }
        }
    }
}
