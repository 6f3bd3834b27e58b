//! Compression and decompression of arrays in host memory.

#![allow(clippy::too_many_arguments, reason = "C functions have no other way to name their arguments")]
#![allow(unsafe_code, reason = "exported C functions and buffers of the caller")]

use std::ffi::{c_char, c_void};
use std::io::{self, Write};
use std::ops::Range;

use syncline::quality::{Quality, Tolerance, compare};
use syncline::{
    ArrayView, Bound, ElementType, Error, Header, MAX_RANK, Shape, StreamFile, compress_bound, compress_from,
};

use crate::context::syncline_context;
use crate::options::{compress_options, decompress_options, syncline_compress_options, syncline_decompress_options};
use crate::status::{Failure, guard};
use crate::structs::{Versioned, write};

/// Types of elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "numbers of the stream, named for C programs")]
pub enum syncline_element_type {
    /// IEEE 754 binary32: float.
    SYNCLINE_F32 = 1,
    /// IEEE 754 binary64: double.
    SYNCLINE_F64 = 2,
    /// IEEE 754 binary16. Lossless only, as are all types below.
    SYNCLINE_F16 = 3,
    /// bfloat16: the upper half of a binary32.
    SYNCLINE_BF16 = 4,
    /// uint8_t
    SYNCLINE_U8 = 5,
    /// uint16_t
    SYNCLINE_U16 = 6,
    /// uint32_t
    SYNCLINE_U32 = 7,
    /// uint64_t
    SYNCLINE_U64 = 8,
    /// int8_t
    SYNCLINE_I8 = 9,
    /// int16_t
    SYNCLINE_I16 = 10,
    /// int32_t
    SYNCLINE_I32 = 11,
    /// int64_t
    SYNCLINE_I64 = 12,
}

/// Largest number of axes.
pub const SYNCLINE_MAX_RANK: usize = 32;
const _: () = assert!(SYNCLINE_MAX_RANK == MAX_RANK);

/// The contents of a stream.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct syncline_header {
    /// Size of this struct in bytes.
    pub struct_size: usize,
    /// One of `enum syncline_element_type`.
    pub element_type: u32,
    /// Number of axes.
    pub rank: u32,
    /// Extents, slowest axis first; unused ones are 0.
    pub shape: [u64; SYNCLINE_MAX_RANK],
    /// Number of elements.
    pub elements: u64,
    /// Size of the array in bytes.
    pub array_size: u64,
    /// The requested kind of bound, one of `enum syncline_bound_mode`.
    pub bound_mode: u32,
    /// Number of fill values.
    pub fill_count: u32,
    /// The requested bound.
    pub bound_value: f64,
    /// The error that holds: absolute, or relative to each value for `SYNCLINE_PW_REL`; 0 if lossless.
    pub error_limit: f64,
    /// Smallest and largest finite value that is not fill; NaN if unknown.
    pub smallest: f64,
    /// See `smallest`.
    pub largest: f64,
}

/// How far a decompressed array is from its original.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct syncline_quality {
    /// Size of this struct in bytes.
    pub struct_size: usize,
    /// 1 if the bound of the stream holds for every element, else 0.
    pub holds: u32,
    /// Unused; 0.
    pub reserved: u32,
    /// Number of elements whose error exceeds the bound.
    pub violations: u64,
    /// Number of special elements (NaN, infinite, fill) that are not restored bit for bit.
    pub mismatches: u64,
    /// Number of elements with any different bit.
    pub differing: u64,
    /// Largest absolute error; NaN if there is no finite element.
    pub max_absolute_error: f64,
    /// Root of the mean squared error; NaN if there is no finite element.
    pub root_mean_squared_error: f64,
    /// Peak signal-to-noise ratio in dB; infinite without errors, NaN if unknown.
    pub psnr: f64,
}

// SAFETY: C structs of plain numbers, the first of which is the size.
unsafe impl Versioned for syncline_header {
    const NAME: &str = "syncline_header";
    const FIRST_VERSION: usize = 328;

    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            element_type: 0,
            rank: 0,
            shape: [0; SYNCLINE_MAX_RANK],
            elements: 0,
            array_size: 0,
            bound_mode: 0,
            fill_count: 0,
            bound_value: 0.0,
            error_limit: 0.0,
            smallest: f64::NAN,
            largest: f64::NAN,
        }
    }
}

// SAFETY: as for `syncline_header`.
unsafe impl Versioned for syncline_quality {
    const NAME: &str = "syncline_quality";
    const FIRST_VERSION: usize = 64;

    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            holds: 0,
            reserved: 0,
            violations: 0,
            mismatches: 0,
            differing: 0,
            max_absolute_error: f64::NAN,
            root_mean_squared_error: f64::NAN,
            psnr: f64::NAN,
        }
    }
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn syncline_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns the size of an element in bytes; 0 for an unknown type.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_element_size(element_type: u32) -> usize {
    element(element_type).map_or(0, ElementType::size)
}

/// Returns the largest size in bytes of a stream of an array of this type and shape, or an error. A buffer of this size
/// is always large enough for `syncline_compress`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_compress_bound(element_type: u32, shape: *const u64, rank: usize) -> usize {
    let work = || {
        // SAFETY: the caller passes `rank` extents.
        let shape = unsafe { shape_of(shape, rank) }?;
        let most = compress_bound(element(element_type)?, shape);
        usize::try_from(most).map_err(|_| Failure::invalid("the array is larger than the address space"))
    };
    // SAFETY: no context.
    unsafe { guard(std::ptr::null_mut(), work) }
}

/// Compresses an array in C order to `output`, a buffer of `capacity` bytes. `data_size` is the size of the array in
/// bytes and must match the type and the shape. `options` may be NULL. Returns the size of the stream or an error.
/// After an error, the contents of `output` are unspecified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_compress(
    context: *mut syncline_context,
    output: *mut c_void,
    capacity: usize,
    data: *const c_void,
    data_size: usize,
    element_type: u32,
    shape: *const u64,
    rank: usize,
    options: *const syncline_compress_options,
) -> usize {
    let work = || {
        // SAFETY: the caller passes buffers of these sizes that do not overlap, `rank` extents, and NULL or options.
        let (data, output, shape, options) = unsafe {
            (
                input(data, data_size, "data")?,
                output_of(output, capacity)?,
                shape_of(shape, rank)?,
                compress_options(options)?,
            )
        };
        let array = ArrayView::from_bytes(data, element(element_type)?, shape)?;
        let mut sink = Buffer { rest: output, full: false };
        match compress_from(array.bytes(), 0, array.element_type(), shape, &options, &mut sink) {
            Err(Error::Io(_)) if sink.full => {
                Err(Failure::too_small(compress_bound(array.element_type(), shape), capacity))
            }
            result => Ok(result?.compressed_bytes as usize),
        }
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) }
}

/// Reads the header of a stream and checks its chunk table. `header->struct_size` must be set to
/// `sizeof(struct syncline_header)`. Returns the size of the array in bytes or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_read_header(
    context: *mut syncline_context,
    header: *mut syncline_header,
    stream: *const c_void,
    stream_size: usize,
) -> usize {
    let work = || {
        // SAFETY: the caller passes a buffer of this size.
        let file = StreamFile::open(unsafe { input(stream, stream_size, "stream") }?)?;
        let made = header_of(file.header());
        // SAFETY: the caller passes a struct that starts with its size.
        unsafe { fill(header, made) }?;
        usize::try_from(made.array_size).map_err(|_| Failure::invalid("the array is larger than the address space"))
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) }
}

/// Decompresses a stream to `output`, a buffer of exactly the size of the array. `options` may be NULL. Returns that
/// size or an error. After an error, the contents of `output` are unspecified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_decompress(
    context: *mut syncline_context,
    output: *mut c_void,
    output_size: usize,
    stream: *const c_void,
    stream_size: usize,
    options: *const syncline_decompress_options,
) -> usize {
    let work = || {
        // SAFETY: the caller passes buffers of these sizes that do not overlap, and NULL or options.
        let (stream, output, options) = unsafe {
            (input(stream, stream_size, "stream")?, output_of(output, output_size)?, decompress_options(options)?)
        };
        StreamFile::open(stream)?.decompress_into(output, &options)?;
        Ok(output_size)
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) }
}

/// Decompresses the region that starts at `start` and has the extents `count`, each with `rank` numbers, to `output`, a
/// buffer of exactly the size of the region. Only the necessary parts of the stream are decoded. `options` may be NULL.
/// Returns that size or an error. After an error, the contents of `output` are unspecified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_decompress_region(
    context: *mut syncline_context,
    output: *mut c_void,
    output_size: usize,
    stream: *const c_void,
    stream_size: usize,
    start: *const u64,
    count: *const u64,
    rank: usize,
    options: *const syncline_decompress_options,
) -> usize {
    let work = || {
        // SAFETY: the caller passes buffers of these sizes that do not overlap, `rank` numbers each, and NULL or
        // options.
        let (stream, output, region, options) = unsafe {
            (
                input(stream, stream_size, "stream")?,
                output_of(output, output_size)?,
                region_of(numbers(start, rank, "start")?, numbers(count, rank, "count")?)?,
                decompress_options(options)?,
            )
        };
        StreamFile::open(stream)?.decompress_region_into(&region, output, &options)?;
        Ok(output_size)
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) }
}

/// Decompresses a stream and compares the result with the original array under the bound of the stream.
/// `quality->struct_size` must be set to `sizeof(struct syncline_quality)`. Returns 1 if the bound holds, 0 if it does
/// not, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_verify(
    context: *mut syncline_context,
    quality: *mut syncline_quality,
    data: *const c_void,
    data_size: usize,
    stream: *const c_void,
    stream_size: usize,
    options: *const syncline_decompress_options,
) -> usize {
    let work = || {
        // SAFETY: the caller passes buffers of these sizes, and NULL or options.
        let (data, stream, options) = unsafe {
            (input(data, data_size, "data")?, input(stream, stream_size, "stream")?, decompress_options(options)?)
        };
        let file = StreamFile::open(stream)?;
        let header = file.header();
        let original = ArrayView::from_bytes(data, header.element_type, header.shape)?;
        let decompressed = file.decompress(&options)?;
        let measured = compare(&original, &decompressed.view(), &header.patterns, tolerance(header))?;
        // SAFETY: the caller passes a struct that starts with its size.
        unsafe { fill(quality, quality_of(&measured)) }?;
        Ok(usize::from(measured.holds()))
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) }
}

/// The buffer of the caller that a stream is written to.
struct Buffer<'a> {
    rest: &'a mut [u8],
    /// Whether the stream did not fit.
    full: bool,
}

impl Write for Buffer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.rest.write(bytes)?;
        self.full |= written < bytes.len();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the element type with this number.
pub fn element(number: u32) -> Result<ElementType, Failure> {
    u8::try_from(number)
        .ok()
        .and_then(ElementType::from_code)
        .ok_or_else(|| Failure::invalid(format!("element_type is {number}, not 1 to 12")))
}

/// Returns `rank` numbers of the caller.
///
/// # Safety
/// `numbers` is null or points to `rank` aligned numbers that nobody changes during the lifetime of the result.
unsafe fn numbers<'a>(numbers: *const u64, rank: usize, name: &str) -> Result<&'a [u64], Failure> {
    match rank {
        0 => Ok(&[]),
        _ if rank > MAX_RANK => Err(Failure::invalid(format!("rank is {rank}, more than {MAX_RANK}"))),
        _ if numbers.is_null() => Err(Failure::invalid(format!("{name} is NULL"))),
        // SAFETY: that of this function; the pointer is not null.
        _ => Ok(unsafe { std::slice::from_raw_parts(numbers, rank) }),
    }
}

/// Returns a shape of the caller.
///
/// # Safety
/// As for [`numbers`].
pub unsafe fn shape_of(shape: *const u64, rank: usize) -> Result<Shape, Failure> {
    // SAFETY: that of this function.
    Ok(Shape::new(unsafe { numbers(shape, rank, "shape") }?)?)
}

/// Returns the ranges of a region.
fn region_of(start: &[u64], count: &[u64]) -> Result<Vec<Range<u64>>, Failure> {
    let range = |(&start, &count): (&u64, &u64)| start.checked_add(count).map(|end| start..end);
    let ranges: Option<_> = start.iter().zip(count).map(range).collect();
    ranges.ok_or_else(|| Failure::invalid("start + count overflows"))
}

/// Returns an input buffer of the caller.
///
/// # Safety
/// `data` is null or points to `size` bytes that nobody changes during the lifetime of the result.
unsafe fn input<'a>(data: *const c_void, size: usize, name: &str) -> Result<&'a [u8], Failure> {
    check_size(size)?;
    match size {
        0 => Ok(&[]),
        _ if data.is_null() => Err(Failure::invalid(format!("{name} is NULL"))),
        // SAFETY: that of this function; the pointer is not null, and the size is within the limit of slices.
        _ => Ok(unsafe { std::slice::from_raw_parts(data.cast(), size) }),
    }
}

/// Returns the output buffer of the caller.
///
/// # Safety
/// `output` is null or points to `size` initialized or uninitialized bytes that nobody else uses during the lifetime of
/// the result, which the library writes before it reads them.
unsafe fn output_of<'a>(output: *mut c_void, size: usize) -> Result<&'a mut [u8], Failure> {
    check_size(size)?;
    match size {
        0 => Ok(&mut []),
        _ if output.is_null() => Err(Failure::invalid("output is NULL")),
        // SAFETY: that of this function; the pointer is not null, and the size is within the limit of slices.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(output.cast(), size) }),
    }
}

/// Refuses sizes that no buffer has.
fn check_size(size: usize) -> Result<(), Failure> {
    if isize::try_from(size).is_ok() { Ok(()) } else { Err(Failure::invalid(format!("no buffer has {size} bytes"))) }
}

/// Writes a struct to the caller's, whose first field says how large it is.
///
/// # Safety
/// `target` is null or points to as many writable bytes as its first field says.
unsafe fn fill<T: Versioned>(target: *mut T, value: T) -> Result<(), Failure> {
    if target.is_null() {
        return Err(Failure::invalid(format!("the pointer to {} is NULL", T::NAME)));
    }
    // SAFETY: that of this function.
    unsafe {
        let size = target.cast::<usize>().read_unaligned();
        write(target, size, value).map(|_| ())
    }
}

/// Returns the C form of a header.
fn header_of(header: &Header) -> syncline_header {
    let extents = header.shape.extents();
    let mut shape = [0; SYNCLINE_MAX_RANK];
    shape[..extents.len()].copy_from_slice(extents);
    let (smallest, largest) = header.value_range().unwrap_or((f64::NAN, f64::NAN));
    syncline_header {
        element_type: header.element_type as u32,
        rank: extents.len() as u32,
        shape,
        elements: header.shape.len(),
        array_size: header.shape.len().saturating_mul(header.element_type.size() as u64),
        bound_mode: u32::from(header.bound.code()),
        fill_count: header.patterns.len() as u32,
        bound_value: header.bound.value(),
        error_limit: header.abs_bound,
        smallest,
        largest,
        ..syncline_header::defaults()
    }
}

/// Returns the C form of a comparison.
fn quality_of(quality: &Quality) -> syncline_quality {
    syncline_quality {
        holds: u32::from(quality.holds()),
        violations: quality.violations,
        mismatches: quality.mismatches,
        differing: quality.differing,
        max_absolute_error: quality.max_absolute.map_or(f64::NAN, |peak| peak.value),
        root_mean_squared_error: quality.rmse.unwrap_or(f64::NAN),
        psnr: quality.psnr.unwrap_or(f64::NAN),
        ..syncline_quality::defaults()
    }
}

/// Returns the error that each element of a stream's array may have.
fn tolerance(header: &Header) -> Tolerance {
    match header.bound {
        _ if header.abs_bound == 0.0 => Tolerance::Exact,
        Bound::PwRel(_) => Tolerance::PointwiseRelative(header.abs_bound),
        _ => Tolerance::Absolute(header.abs_bound),
    }
}
