//! Element types of HDF5.

use std::ffi::c_int;

use syncline::ElementType;

/// Classes of types: `H5T_class_t`.
pub const INTEGER: c_int = 0;
pub const FLOAT: c_int = 1;
pub const STRING: c_int = 3;
pub const COMPOUND: c_int = 6;
pub const REFERENCE: c_int = 7;
pub const ENUM: c_int = 8;
pub const VARIABLE: c_int = 9;
pub const ARRAY: c_int = 10;

/// `H5T_ORDER_LE` and `H5T_ORDER_BE`.
pub const LITTLE_ENDIAN: c_int = 0;
pub const BIG_ENDIAN: c_int = 1;

/// What tells the element type of a type.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Class of the type.
    pub class: c_int,
    /// Size in bytes.
    pub size: usize,
    /// Whether integers have a sign.
    pub sign: c_int,
    /// Byte order.
    pub order: c_int,
    /// Bits of the exponent and of the mantissa of a floating-point type.
    pub bits: (usize, usize),
}

impl Traits {
    /// Returns the element type, if Syncline has it. Enumerations, such as the Booleans of h5py, are unsigned integers.
    pub fn element(&self) -> Option<ElementType> {
        Some(match (self.class, self.size, self.sign != 0) {
            (INTEGER, 1, true) => ElementType::I8,
            (INTEGER, 2, true) => ElementType::I16,
            (INTEGER, 4, true) => ElementType::I32,
            (INTEGER, 8, true) => ElementType::I64,
            (INTEGER | ENUM, 1, _) => ElementType::U8,
            (INTEGER | ENUM, 2, _) => ElementType::U16,
            (INTEGER | ENUM, 4, _) => ElementType::U32,
            (INTEGER | ENUM, 8, _) => ElementType::U64,
            (FLOAT, 4, _) => ElementType::F32,
            (FLOAT, 8, _) => ElementType::F64,
            (FLOAT, 2, _) if self.bits == (5, 10) => ElementType::F16,
            (FLOAT, 2, _) if self.bits == (8, 7) => ElementType::Bf16,
            _ => return None,
        })
    }

    /// Returns the class in words.
    pub fn name(&self) -> &'static str {
        match self.class {
            INTEGER => "integers",
            FLOAT => "floating-point numbers",
            STRING => "strings",
            COMPOUND => "a compound type",
            REFERENCE => "references",
            ENUM => "an enumeration",
            VARIABLE => "lists of variable length",
            ARRAY => "arrays as elements",
            _ => "a type of another kind",
        }
    }
}

/// Returns the number of an element that is stored in a file.
pub fn value_of(element: ElementType, bytes: &[u8], is_big_endian: bool) -> Option<f64> {
    let mut bytes = bytes.to_vec();
    if is_big_endian {
        bytes.reverse();
    }
    let mut bits = [0; 8];
    bits.get_mut(..bytes.len()).filter(|bits| bits.len() == element.size())?.copy_from_slice(&bytes);
    Some(element.number_of_bits(u64::from_le_bytes(bits)))
}
