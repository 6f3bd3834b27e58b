//! Element types, shapes, and borrowed arrays.

pub mod halves;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The largest number of dimensions of an array.
pub const MAX_RANK: usize = 32;

/// The type of an array's elements. The discriminant is the type's code in the stream (`docs/FORMAT.md`).
///
/// The types are those of a format version, so that a match may name them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ElementType {
    /// IEEE 754 binary32.
    F32 = 1,
    /// IEEE 754 binary64.
    F64 = 2,
    /// IEEE 754 binary16.
    F16 = 3,
    /// bfloat16: the upper half of a binary32.
    Bf16 = 4,
    /// Unsigned 8-bit integer.
    U8 = 5,
    /// Unsigned 16-bit integer.
    U16 = 6,
    /// Unsigned 32-bit integer.
    U32 = 7,
    /// Unsigned 64-bit integer.
    U64 = 8,
    /// Signed 8-bit integer.
    I8 = 9,
    /// Signed 16-bit integer.
    I16 = 10,
    /// Signed 32-bit integer.
    I32 = 11,
    /// Signed 64-bit integer.
    I64 = 12,
}

impl ElementType {
    /// All element types, in the order of their codes.
    pub const ALL: [Self; 12] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Bf16,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
    ];

    /// Returns the type with this code in the stream.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as u8 == code)
    }

    /// Returns the bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::F16 | Self::Bf16 | Self::U16 | Self::I16 => 2,
            Self::F32 | Self::U32 | Self::I32 => 4,
            Self::F64 | Self::U64 | Self::I64 => 8,
        }
    }

    /// Returns the type that lossy compression computes in: `f32` or `f64`. Every value of this type that a bound
    /// applies to is one of that type; those of integers of 64 bits are after their smallest value is subtracted.
    pub const fn computed(self) -> Self {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::U8 | Self::I8 | Self::U16 | Self::I16 => Self::F32,
            Self::F64 | Self::U32 | Self::I32 | Self::U64 | Self::I64 => Self::F64,
        }
    }

    /// Returns whether lossy compression computes with the elements as they are: they are `f32` or `f64`.
    pub const fn is_computed(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Returns whether this is a floating-point type of 16 bits, to which reconstructed values are rounded.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// Returns whether this is an integer type of 64 bits, whose values are more than an `f64` has.
    pub const fn is_wide_integer(self) -> bool {
        matches!(self, Self::U64 | Self::I64)
    }

    /// Returns the number with the zero-extended bits of an element. Integers of more than 53 bits are rounded.
    pub fn number_of_bits(self, bits: u64) -> f64 {
        match self {
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
            Self::F16 => halves::of_f16(bits as u16).into(),
            Self::Bf16 => halves::of_bf16(bits as u16).into(),
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => bits as f64,
            Self::I8 => f64::from(bits as i8),
            Self::I16 => f64::from(bits as i16),
            Self::I32 => f64::from(bits as i32),
            Self::I64 => bits as i64 as f64,
        }
    }

    /// Returns the zero-extended bits of the element with this value: of floating-point types the nearest one, of
    /// integer types that value. Returns `None` for a value that no integer of the type has, and for a finite one that
    /// is too large for a floating-point type of 16 bits.
    pub fn bits_of_number(self, value: f64) -> Option<u64> {
        let whole = |low: f64, end: f64| (value >= low && value < end && value.fract() == 0.0).then_some(value);
        let half = |bits: u16| (value.is_infinite() || !self.number_of_bits(bits.into()).is_infinite()).then_some(bits);
        let signed = |end: f64| whole(-end, end).map(|value| value as i64 as u64 & (2.0 * end - 1.0) as u64);
        match self {
            Self::F32 => Some(narrowed_bits(value).into()),
            Self::F64 => Some(value.to_bits()),
            Self::F16 => half(halves::to_f16(f32::from_bits(narrowed_bits(value)))).map(u64::from),
            Self::Bf16 => half(halves::to_bf16(f32::from_bits(narrowed_bits(value)))).map(u64::from),
            Self::U8 => whole(0.0, 256.0).map(|value| value as u64),
            Self::U16 => whole(0.0, 65_536.0).map(|value| value as u64),
            Self::U32 => whole(0.0, 4_294_967_296.0).map(|value| value as u64),
            Self::U64 => whole(0.0, 18_446_744_073_709_551_616.0).map(|value| value as u64),
            Self::I8 => signed(128.0),
            Self::I16 => signed(32_768.0),
            Self::I32 => signed(2_147_483_648.0),
            Self::I64 => whole(-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0).map(|v| v as i64 as u64),
        }
    }

    /// Returns the difference of the largest and the smallest value of an integer type, rounded; infinity for others.
    pub const fn integer_extent(self) -> f64 {
        match self {
            Self::U8 | Self::I8 => 255.0,
            Self::U16 | Self::I16 => 65_535.0,
            Self::U32 | Self::I32 => 4_294_967_295.0,
            Self::U64 | Self::I64 => 18_446_744_073_709_551_616.0,
            _ => f64::INFINITY,
        }
    }

    /// Returns whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::Bf16)
    }

    /// Returns whether this is an integer type.
    pub const fn is_integer(self) -> bool {
        !self.is_float()
    }

    /// Returns whether this is a signed integer type.
    pub const fn is_signed_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Returns the short lower-case name that the command line uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ElementType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|t| t.name()).collect();
            Error::invalid(format!("unknown element type '{name}': use one of {}", names.join(", ")))
        })
    }
}

/// Returns the bits of the value as an f32. Rust does not specify which NaN a conversion gives; here a NaN keeps its
/// sign and the upper bits of its payload, and becomes quiet.
fn narrowed_bits(value: f64) -> u32 {
    if value.is_nan() {
        let bits = value.to_bits();
        (bits >> 32) as u32 & 0x8000_0000 | 0x7FC0_0000 | (bits >> 29) as u32 & 0x003F_FFFF
    } else {
        (value as f32).to_bits()
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type for the elements of an array.
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync {
    /// The element type.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($t:ty => $code:ident),* $(,)?) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const TYPE: ElementType = ElementType::$code;
        }
    )*};
}
elements! {
    f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => Bf16,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
}

/// Extents of an array of up to [`MAX_RANK`] dimensions, slowest first. Any extent may be 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    extents: [u64; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// Creates a shape from its extents, slowest axis first.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more than [`MAX_RANK`] extents, or more than 2^60 elements.
    pub fn new(extents: &[u64]) -> Result<Self> {
        if extents.len() > MAX_RANK {
            return Err(Error::invalid(format!(
                "the array has {} dimensions, but at most {MAX_RANK} are supported: merge some axes",
                extents.len()
            )));
        }
        // Even if an extent is 0, the product of the others is limited, so that strides never overflow.
        let product = extents.iter().try_fold(1u64, |p, &e| p.checked_mul(e.max(1)));
        if product.is_none_or(|p| p > 1 << 60) {
            return Err(Error::invalid(format!("shape {extents:?} has more than 2^60 elements")));
        }
        let mut all = [1; MAX_RANK];
        all[..extents.len()].copy_from_slice(extents);
        Ok(Self { extents: all, rank: extents.len() as u8 })
    }

    /// Returns the extents, slowest axis first.
    pub fn extents(&self) -> &[u64] {
        &self.extents[..self.rank as usize]
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Returns the number of elements: the product of the extents, which is 1 without dimensions.
    pub fn len(&self) -> u64 {
        self.extents().iter().product()
    }

    /// Returns whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == 0 {
            return f.write_str("scalar");
        }
        let parts: Vec<_> = self.extents().iter().map(u64::to_string).collect();
        f.write_str(&parts.join("x"))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shape({self})")
    }
}

impl FromStr for Shape {
    type Err = Error;

    /// Parses extents, slowest first: `100x500x500` or `100,500,500`.
    fn from_str(text: &str) -> Result<Self> {
        let extents: std::result::Result<Vec<u64>, _> = text.split(['x', 'X', ',']).map(|p| p.trim().parse()).collect();
        match extents {
            Ok(extents) => Self::new(&extents),
            Err(_) => {
                Err(Error::invalid(format!("'{text}' is not a shape: write the extents slowest first, as 100x500x500")))
            }
        }
    }
}

/// A borrowed array: little-endian elements in C order (the last axis is the fastest), with an element type and a
/// shape.
///
/// ```
/// use syncline_core::array::ArrayView;
/// let field = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let view = ArrayView::new(&field, &[2, 3])?;
/// assert_eq!(view.shape().to_string(), "2x3");
/// # Ok::<(), syncline_core::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArrayView<'a> {
    bytes: Cow<'a, [u8]>,
    element_type: ElementType,
    shape: Shape,
}

impl<'a> ArrayView<'a> {
    /// Creates a view of typed elements. `extents` are slowest first.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the product of the extents is not the number of elements.
    pub fn new<T: Element>(elements: &'a [T], extents: &[u64]) -> Result<Self> {
        let native: &'a [u8] = bytemuck::cast_slice(elements);
        let bytes = if cfg!(target_endian = "little") {
            Cow::Borrowed(native)
        } else {
            Cow::Owned(native.chunks_exact(size_of::<T>()).flat_map(|e| e.iter().rev().copied()).collect())
        };
        Self::build(bytes, T::TYPE, Shape::new(extents)?)
    }

    /// Creates a view of little-endian bytes, as read from a file on any host. They need no alignment.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the number of bytes is not that of the elements of the shape.
    pub fn from_bytes(bytes: &'a [u8], element_type: ElementType, shape: Shape) -> Result<Self> {
        Self::build(Cow::Borrowed(bytes), element_type, shape)
    }

    fn build(bytes: Cow<'a, [u8]>, element_type: ElementType, shape: Shape) -> Result<Self> {
        let expected = shape.len() as u128 * element_type.size() as u128;
        if bytes.len() as u128 != expected {
            return Err(Error::invalid(format!(
                "an array of shape {shape} and type {element_type} has {expected} bytes, but the data has {}",
                bytes.len()
            )));
        }
        Ok(Self { bytes, element_type, shape })
    }

    /// Returns the elements as little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Returns the shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }
}
