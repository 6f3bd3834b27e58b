//! Structs that the host and the kernels share, declared once, in Rust.

#![allow(unsafe_code, reason = "asserts that structs are the same in Rust and C")]

use std::fmt::Write;

/// A type that a field of a device struct can have.
///
/// # Safety
/// The type is `Copy`, has no padding and no invalid bit patterns, and [`Self::C_TYPE`] followed by a name and
/// [`Self::suffix`] declares a C type of the same size, alignment and meaning.
pub unsafe trait DeviceField: Copy {
    /// The C type; for arrays, that of the elements.
    const C_TYPE: &'static str;

    /// Returns the text that follows the name in a C declaration: the lengths of arrays in brackets.
    fn suffix() -> String {
        String::new()
    }
}

macro_rules! device_numbers {
    ($($rust:ty => $c:literal),* $(,)?) => {
        $(
            // SAFETY: C has numbers of the same size and format; see the fixed-width types in kernels/common.cuh.
            unsafe impl DeviceField for $rust {
                const C_TYPE: &'static str = $c;
            }
        )*
    };
}
device_numbers! {
    u8 => "uint8_t", u16 => "uint16_t", u32 => "uint32_t", u64 => "uint64_t", i32 => "int32_t", i64 => "int64_t",
    f32 => "float", f64 => "double",
}

// SAFETY: arrays have the same layout in Rust and C, and elements without padding give an array without padding.
unsafe impl<T: DeviceField, const N: usize> DeviceField for [T; N] {
    const C_TYPE: &'static str = T::C_TYPE;

    fn suffix() -> String {
        format!("[{N}]{}", T::suffix())
    }
}

/// A field of a [`DeviceStruct`].
#[derive(Debug)]
pub struct Field {
    /// Name of the field, the same in Rust and C.
    pub name: &'static str,
    /// C type of the field, or of its elements.
    pub c_type: &'static str,
    /// Function that returns the text after the name in the field's declaration.
    pub suffix: fn() -> String,
    /// Bytes from the start of the struct.
    pub offset: usize,
}

/// The declaration of a struct that `device_struct!` generated.
#[derive(Debug)]
pub struct DeviceStruct {
    /// Name of the struct in C.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Fields in order.
    pub fields: &'static [Field],
}

impl DeviceStruct {
    /// Returns the declaration in C, with assertions of the size and of the offset of each field.
    pub fn declaration(&self) -> String {
        let Self { name, size, fields } = self;
        let mut text = format!("struct {name} {{\n");
        for Field { name, c_type, suffix, .. } in *fields {
            let space = if c_type.ends_with('*') { "" } else { " " };
            let _ = writeln!(text, "    {c_type}{space}{name}{};", suffix());
        }
        let _ = writeln!(text, "}};\nstatic_assert(sizeof({name}) == {size}, \"size of {name}\");");
        for Field { name: field, offset, .. } in *fields {
            let what = format!("offset of {name}::{field}");
            let _ = writeln!(text, "static_assert(OFFSET_OF({name}, {field}) == {offset}, \"{what}\");");
        }
        text
    }
}

/// Declares a struct once, in Rust, that is passed to kernels or lies in device memory. Kernels include its C
/// declaration from a generated header, so that the two cannot differ.
///
/// ```ignore
/// device_struct! {
///     /// Bytes to copy within device memory.
///     #[derive(Debug, Clone, Copy)]
///     pub(super) struct CopyRange {
///         source: CUdeviceptr as "const uint8_t *",
///         target: CUdeviceptr as "uint8_t *",
///         bytes: u64,
///     }
/// }
/// ```
///
/// - Fields are numbers, arrays and other device structs ([`DeviceField`]). A pointer is a `CUdeviceptr` whose C type
///   follows after `as`; an array of pointers takes the type of one.
/// - The struct must be `Copy` and without padding, which is checked at compile time: declare padding as a field.
/// - The C struct has the name of the Rust struct. `struct Geometry = "GeometryFields"` gives it another one, for
///   kernels that derive a struct with member functions from it (`struct Geometry : GeometryFields { ... };`).
///
/// The structs of a stage are in its module `structs`, which imports nothing of the stage. A set of headers
/// ([`Headers`](crate::device::Headers)) names them, and kernels include `<stage>/structs.cuh`.
#[doc(hidden)]
#[macro_export]
macro_rules! device_struct {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(= $c_name:literal)? {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty $(as $c_type:literal)?),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[repr(C)]
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type),*
        }

        const _: () = {
            let fields = 0 $(+ size_of::<$type>())*;
            assert!(size_of::<$name>() == fields, "a device struct must not have padding");
        };

        #[allow(unsafe_code, reason = "the one place that asserts that structs are the same in Rust and C")]
        const _: () = {
            // SAFETY: every field is a `DeviceField`, so the struct is plain data without padding, as asserted; the C
            // declaration is generated from the same fields and checks their offsets.
            unsafe impl $crate::device_struct::DeviceField for $name {
                const C_TYPE: &'static str = $name::C.name;
            }
            // SAFETY: the struct is plain data that C declares identically, as for `DeviceField`.
            unsafe impl $crate::cudarc::driver::DeviceRepr for $name {}
            // SAFETY: every `DeviceField` is valid with all bits 0.
            unsafe impl $crate::cudarc::driver::ValidAsZeroBits for $name {}
        };

        impl $name {
            /// The struct's declaration in C.
            #[allow(dead_code, reason = "structs of tests are in no header")]
            pub(crate) const C: $crate::device_struct::DeviceStruct = $crate::device_struct::DeviceStruct {
                name: $crate::device_struct::first_of(&[$($c_name,)? stringify!($name)]),
                size: size_of::<$name>(),
                fields: &[$($crate::device_struct::Field {
                    name: stringify!($field),
                    c_type: $crate::device_struct::first_of(&[
                        $($c_type,)?
                        <$type as $crate::device_struct::DeviceField>::C_TYPE,
                    ]),
                    suffix: <$type as $crate::device_struct::DeviceField>::suffix,
                    offset: ::std::mem::offset_of!($name, $field),
                }),*],
            };
        }
    };
}
pub use crate::device_struct;

/// Returns the first name: the explicit one if there is one, else the default.
pub const fn first_of(names: &[&'static str]) -> &'static str {
    names[0]
}

#[cfg(test)]
mod tests {

    device_struct! {
        /// A struct that is a field of another one.
        #[derive(Clone, Copy)]
        struct Pair {
            low: u32,
            high: u32,
        }
    }

    device_struct! {
        /// A struct with one field of each kind.
        #[derive(Clone, Copy)]
        struct Example = "ExampleFields" {
            from: [u64; 2] as "const uint8_t *",
            pairs: [Pair; 3],
            scale: f64,
        }
    }

    #[test]
    fn declarations_are_c() {
        let expected = concat!(
            "struct ExampleFields {\n",
            "    const uint8_t *from[2];\n",
            "    Pair pairs[3];\n",
            "    double scale;\n",
            "};\n",
            "static_assert(sizeof(ExampleFields) == 48, \"size of ExampleFields\");\n",
            "static_assert(OFFSET_OF(ExampleFields, from) == 0, \"offset of ExampleFields::from\");\n",
            "static_assert(OFFSET_OF(ExampleFields, pairs) == 16, \"offset of ExampleFields::pairs\");\n",
            "static_assert(OFFSET_OF(ExampleFields, scale) == 40, \"offset of ExampleFields::scale\");\n",
        );
        assert_eq!(Example::C.declaration(), expected);
        assert_eq!(Pair::C.name, "Pair");
    }
}
