//! Kernels, declared once, in Rust: their constants, their parameters, and how they are launched.

#![allow(unsafe_code, reason = "asserts that parameters are the same in Rust and C")]

use std::fmt::Write;
use std::marker::PhantomData;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use crate::device_struct::DeviceField;

/// A type in the declaration of a kernel's parameters.
///
/// # Safety
/// A kernel's parameter of the type that [`Self::c_type`] returns can be given the bytes of [`Self::Passed`].
pub unsafe trait Argument {
    /// What a launch is given.
    type Given<'a>;
    /// What the kernel receives.
    type Passed: Copy;
    /// Size of the parameter in C, if it is not the same in all specializations.
    const SIZE: Option<usize> = Some(size_of::<Self::Passed>());

    /// Returns the parameter's type in C.
    fn c_type() -> String;

    /// Returns what the kernel receives, and what the driver must be told after the launch. Until the stream has
    /// executed the launch, it orders other uses of the memory with it.
    fn pass<'a>(given: Self::Given<'a>, stream: &'a CudaStream) -> (Self::Passed, Option<SyncOnDrop<'a>>);
}

/// Memory that a kernel reads: a `const T *`.
#[derive(Debug)]
pub struct In<T>(PhantomData<T>);

/// Memory that a kernel writes: a `T *`.
#[derive(Debug)]
pub struct Out<T>(PhantomData<T>);

// SAFETY: numbers and device structs are the same in Rust and C.
unsafe impl<T: DeviceField> Argument for T {
    type Given<'a> = T;
    type Passed = T;

    fn c_type() -> String {
        value_type(T::C_TYPE)
    }

    fn pass<'a>(given: T, _: &'a CudaStream) -> (T, Option<SyncOnDrop<'a>>) {
        (given, None)
    }
}

// SAFETY: 0 or 1, of the size of the type in C.
unsafe impl Argument for bool {
    type Given<'a> = bool;
    type Passed = u32;

    fn c_type() -> String {
        u32::c_type()
    }

    fn pass<'a>(given: bool, _: &'a CudaStream) -> (u32, Option<SyncOnDrop<'a>>) {
        (given.into(), None)
    }
}

/// An integer of which the kernel takes as many of the lowest bytes as its parameter has.
#[derive(Debug)]
pub struct LowBytes;

// SAFETY: the parameter is an integer of at most 64 bits, and the bytes are in little-endian order.
unsafe impl Argument for LowBytes {
    type Given<'a> = u64;
    type Passed = u64;
    const SIZE: Option<usize> = None;

    fn c_type() -> String {
        u64::c_type()
    }

    fn pass<'a>(given: u64, _: &'a CudaStream) -> (u64, Option<SyncOnDrop<'a>>) {
        (given, None)
    }
}

// SAFETY: a pointer to what the view consists of.
unsafe impl<T: DeviceField + 'static> Argument for In<T> {
    type Given<'a> = &'a dyn DevicePtr<T>;
    type Passed = CUdeviceptr;

    fn c_type() -> String {
        format!("const {} *", value_type(T::C_TYPE))
    }

    fn pass<'a>(given: Self::Given<'a>, stream: &'a CudaStream) -> (CUdeviceptr, Option<SyncOnDrop<'a>>) {
        let (pointer, used) = given.device_ptr(stream);
        (pointer, Some(used))
    }
}

// SAFETY: a pointer to what the view consists of.
unsafe impl<T: DeviceField + 'static> Argument for Out<T> {
    type Given<'a> = &'a mut dyn DevicePtrMut<T>;
    type Passed = CUdeviceptr;

    fn c_type() -> String {
        format!("{} *", value_type(T::C_TYPE))
    }

    fn pass<'a>(given: Self::Given<'a>, stream: &'a CudaStream) -> (CUdeviceptr, Option<SyncOnDrop<'a>>) {
        let (pointer, used) = given.device_ptr_mut(stream);
        (pointer, Some(used))
    }
}

// SAFETY: as without `Option`, or null.
unsafe impl<T> Argument for Option<T>
where
    T: Argument<Passed = CUdeviceptr>,
{
    type Given<'a> = Option<T::Given<'a>>;
    type Passed = CUdeviceptr;

    fn c_type() -> String {
        T::c_type()
    }

    fn pass<'a>(given: Self::Given<'a>, stream: &'a CudaStream) -> (CUdeviceptr, Option<SyncOnDrop<'a>>) {
        given.map_or((0, None), |given| T::pass(given, stream))
    }
}

/// Returns the type that kernels use for values of a device struct or number: where they derive a struct `Name` from
/// `NameFields`, the derived one.
fn value_type(c_type: &str) -> String {
    c_type.strip_suffix("Fields").unwrap_or(c_type).to_owned()
}

/// A type of constants that specialize a kernel.
pub trait Constant {
    /// Adds the constants with their values. A number adds one of the name `name`.
    fn add_to(self, name: &'static str, constants: &mut Vec<(&'static str, u64)>);
}

impl Constant for Vec<(&'static str, u64)> {
    fn add_to(self, _: &'static str, constants: &mut Vec<(&'static str, u64)>) {
        constants.extend(self);
    }
}

macro_rules! constant_numbers {
    ($($number:ty => |$value:ident| $wide:expr),* $(,)?) => {
        $(
            impl Constant for $number {
                fn add_to(self, name: &'static str, constants: &mut Vec<(&'static str, u64)>) {
                    let $value = self;
                    constants.push((name, $wide));
                }
            }
        )*
    };
}
constant_numbers! {
    bool => |value| value.into(), u8 => |value| value.into(), u16 => |value| value.into(), u32 => |value| value.into(),
    u64 => |value| value, usize => |value| value as u64,
}

/// The parameters of a kernel.
#[derive(Debug)]
pub struct Signature {
    /// Name of the kernel.
    pub name: &'static str,
    /// Its parameters in order.
    pub parameters: &'static [Parameter],
}

/// A parameter of a kernel.
#[derive(Debug)]
pub struct Parameter {
    /// Its type in C, if that is not the default one of the type in Rust.
    pub explicit: Option<&'static str>,
    /// Returns the default type in C.
    pub c_type: fn() -> String,
    /// Its size in bytes, if known.
    pub size: Option<usize>,
}

impl Parameter {
    fn text(&self) -> String {
        self.explicit.map_or_else(self.c_type, str::to_owned)
    }
}

/// Returns assertions in C, to be compiled after the source of the kernels, that each kernel has the declared
/// parameters.
pub fn assertions(kernels: &[Signature]) -> String {
    let mut text = "\ntemplate <typename, typename> constexpr bool is_same_kernel = false;\n\
                    template <typename T> constexpr bool is_same_kernel<T, T> = true;\n"
        .to_owned();
    for Signature { name, parameters } in kernels {
        let types: Vec<_> = parameters.iter().map(Parameter::text).collect();
        let types_text = types.join(", ");
        let _ = writeln!(
            text,
            "static_assert(is_same_kernel<decltype({name}), void({types_text})>, \"{name} is not declared like this in \
             Rust\");"
        );
        for (parameter, c_type) in parameters.iter().zip(&types) {
            if let Some(size) = parameter.size.filter(|_| !c_type.ends_with('*')) {
                let _ = writeln!(text, "static_assert(sizeof({c_type}) == {size}, \"size of {c_type} in {name}\");");
            }
        }
    }
    text
}

/// Declares the kernels of a source file once, in Rust: a struct of loaded kernels with a method that launches each.
///
/// ```ignore
/// declare_kernels! {
///     /// The kernels of `kernels/lossless/tiles.cu`.
///     pub(super) struct TileKernels in "lossless/tiles.cu", by (element_bytes: u32) {
///         /// Threads of a block.
///         const THREADS: u32 = 256;
///         with CHUNK_TILES = format::CHUNK_TILES;
///         fn tiles_gather(geometry: DeviceGeometry, elements: In<u8> as "const Element *", slots: Out<u8>);
///     }
/// }
/// ```
///
/// - `by (element_bytes: u32)` lists what the source is specialized by ([`Constant`]); each becomes a constant of its
///   name in upper case. A `const` is a constant of the same name in Rust and C, and `with` is one in C only, or a list
///   of these. `of (shape: &Shape)`, before `by`, lists what constants are computed from.
/// - Parameters are numbers, device structs, flags, memory that the kernel reads or writes ([`In`], [`Out`]), and
///   either of these or null (`Option`). Another type in C follows after `as`. An address is a `CUdeviceptr as "T *"`.
///   A device struct whose name in C ends with `Fields` is passed as the struct that kernels derive from it.
/// - `TileKernels::load(&device, element_bytes)` loads the kernels, `kernels.tiles_gather(&stream, grid, ...)` launches
///   one, and the field `kernels.tiles_gather` answers questions about it.
///
/// The compiler of the source checks that each kernel has the declared parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! declare_kernels {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident in $file:literal
            $(, of ($($of:ident: $of_type:ty),* $(,)?))? $(, by ($($by:ident: $by_type:ty),* $(,)?))?
        {
            $($(#[$constant_attribute:meta])* const $constant:ident: $constant_type:ty = $value:expr;)*
            $(with $other:ident = $other_value:expr;)*
            $(fn $kernel:ident($($argument:ident: $type:ty $(as $c_type:literal)?),* $(,)?);)+
        }
    ) => {
        $($(#[$constant_attribute])* const $constant: $constant_type = $value;)*

        $(#[$attribute])*
        #[derive(Debug, Clone)]
        $visibility struct $name {
            $(
                #[doc = concat!("The kernel `", stringify!($kernel), "`.")]
                $visibility $kernel: $crate::device::Kernel,
            )+
        }

        #[allow(dead_code, reason = "not every module loads all kernels of a source")]
        impl $name {
            const SIGNATURES: &[$crate::device_kernels::Signature] = &[$($crate::device_kernels::Signature {
                name: stringify!($kernel),
                parameters: &[$($crate::device_kernels::Parameter {
                    explicit: $crate::device_kernels::first(&[$($c_type)?]),
                    c_type: <$type as $crate::device_kernels::Argument>::c_type,
                    size: <$type as $crate::device_kernels::Argument>::SIZE,
                }),*],
            }),+];

            /// Returns the source with its constants.
            $visibility fn specialization(
                $($($of: $of_type,)*)?
                $($($by: $by_type),*)?
            ) -> $crate::device::Specialization {
                #[allow(unused_mut, reason = "not every source has constants")]
                let mut constants = Vec::new();
                $($crate::device_kernels::Constant::add_to($constant, stringify!($constant), &mut constants);)*
                $($crate::device_kernels::Constant::add_to($other_value, stringify!($other), &mut constants);)*
                $($($crate::device_kernels::Constant::add_to($by, stringify!($by), &mut constants);)*)?
                let assertions = $crate::device_kernels::assertions(Self::SIGNATURES);
                $crate::device::Specialization { source: $crate::source!($file), assertions, constants }
            }

            /// Loads the kernels.
            ///
            /// # Errors
            /// The errors of [`Device::kernel`]($crate::device::Device::kernel).
            $visibility fn load(
                device: &$crate::device::Device,
                $($($of: $of_type,)*)?
                $($($by: $by_type),*)?
            ) -> $crate::error::Result<Self> {
                let specialization = Self::specialization($($($of,)*)? $($($by),*)?);
                Ok(Self { $($kernel: device.kernel(&specialization, stringify!($kernel))?),+ })
            }

            $(
                #[doc = concat!("Launches the kernel `", stringify!($kernel), "`.")]
                ///
                /// # Errors
                /// [`CudaError::Driver`]($crate::error::CudaError::Driver).
                ///
                /// # Safety
                /// The kernel's accesses to memory are valid with this grid and these arguments. If the grid may start
                /// early, the kernel waits for the previous one before it accesses memory that another kernel may use.
                #[allow(clippy::too_many_arguments, reason = "as many as the kernel has")]
                #[allow(unsafe_code, reason = "the one place that asserts that arguments match the parameters")]
                $visibility unsafe fn $kernel<'a>(
                    &self,
                    stream: &'a ::std::sync::Arc<$crate::cudarc::driver::CudaStream>,
                    grid: $crate::device::Grid,
                    $($argument: <$type as $crate::device_kernels::Argument>::Given<'a>),*
                ) -> $crate::error::Result<()> {
                    $(
                        let ($argument, _used) =
                            <$type as $crate::device_kernels::Argument>::pass($argument, stream);
                    )*
                    let mut parameters = [$((&raw const $argument).cast_mut().cast::<::std::ffi::c_void>()),*];
                    // SAFETY: number, order and types of the parameters are those of the declaration, with which the
                    // compiler compared the kernel's. The caller guarantees the rest.
                    unsafe { self.$kernel.launch(stream, grid, &mut parameters) }
                }
            )+
        }
    };
}
pub use crate::declare_kernels;

/// Launches a kernel: `launch!(self.kernels.tiles_gather on &stream, grid; geometry, elements, &mut slots)`. Expands to
/// a call of the unsafe method that [`declare_kernels!`] declares.
#[doc(hidden)]
#[macro_export]
macro_rules! launch {
    ($($kernel:tt).+ on $stream:expr, $grid:expr; $($argument:expr),* $(,)?) => {
        $($kernel).+($stream, $grid, $($argument),*)
    };
}
pub use crate::launch;

/// Returns the first string, if there is one.
pub const fn first(strings: &[&'static str]) -> Option<&'static str> {
    match strings {
        [] => None,
        [first, ..] => Some(first),
    }
}
