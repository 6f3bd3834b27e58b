//! The filter: a chunk of a dataset becomes one stream, and back.

#![allow(unsafe_code, reason = "callbacks of HDF5, and buffers of the C allocator")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::catch_unwind;

use syncline::{ArrayView, Backend, CompressOptions, DecompressOptions, Error, ErrorKind, StreamFile, compress};

use crate::functions::Id;
use crate::parameters::{ID, Parameters};
use crate::pipeline::{CHECKSUM, fletcher32};
use crate::set_local::set_local;

/// `H5Z_FLAG_REVERSE`: decompression.
const REVERSE: c_uint = 0x0100;

/// `H5Z_FLAG_OPTIONAL`: a chunk whose compression fails is stored without compression.
const OPTIONAL: c_uint = 0x0001;

/// Largest size in bytes of a chunk in HDF5.
const MAX_CHUNK: u64 = u32::MAX as u64;

/// `H5Z_class2_t`.
#[repr(C)]
struct Class {
    version: c_int,
    id: c_int,
    encoder_present: c_uint,
    decoder_present: c_uint,
    name: *const c_char,
    can_apply: Option<unsafe extern "C" fn(Id, Id, Id) -> c_int>,
    set_local: Option<unsafe extern "C" fn(Id, Id, Id) -> c_int>,
    filter: Option<unsafe extern "C" fn(c_uint, usize, *const c_uint, usize, *mut usize, *mut *mut c_void) -> usize>,
}

// SAFETY: a constant, whose pointers are to constants.
unsafe impl Sync for Class {}

const NAME: &CStr = c"Syncline: error-bounded and lossless compression of arrays";

/// Types that the filter does not support fail in `set_local`, with a message. A `can_apply` that refused them would
/// let HDF5 store such datasets uncompressed without a word where the filter is optional.
static CLASS: Class = Class {
    version: 1,
    id: ID,
    encoder_present: 1,
    decoder_present: 1,
    name: NAME.as_ptr(),
    can_apply: None,
    set_local: Some(set_local),
    filter: Some(filter),
};

/// Returns the `H5Z_class2_t` of the filter, which a plugin gives to HDF5.
pub fn class() -> *const c_void {
    (&raw const CLASS).cast()
}

/// Replaces the buffer by the compressed or decompressed chunk and returns its length in bytes, or 0 after an error.
unsafe extern "C" fn filter(
    flags: c_uint,
    count: usize,
    values: *const c_uint,
    length: usize,
    size: *mut usize,
    buffer: *mut *mut c_void,
) -> usize {
    let work = || {
        if length == 0 {
            return None;
        }
        // SAFETY: HDF5 passes `count` numbers, and a buffer of at least `length` bytes.
        let (values, input) = unsafe {
            let values = if count == 0 { &[][..] } else { std::slice::from_raw_parts(values, count) };
            (values, std::slice::from_raw_parts((*buffer).cast::<u8>(), length))
        };
        let made = match flags & REVERSE {
            0 => encode_chunk(values, input).ok().filter(|made| flags & OPTIONAL == 0 || made.len() < length),
            _ => decode_chunk(values, input).ok(),
        }?;
        // SAFETY: HDF5 allocates and frees buffers of filters with the C allocator. The new one has room for the bytes.
        unsafe {
            let new = libc::malloc(made.len().max(1));
            if new.is_null() {
                return None;
            }
            std::ptr::copy_nonoverlapping(made.as_ptr(), new.cast(), made.len());
            libc::free(*buffer);
            *buffer = new;
            *size = made.len();
        }
        Some(made.len())
    };
    catch_unwind(work).ok().flatten().unwrap_or(0)
}

/// Compresses a chunk. Its checksum is left out: a stream has its own, and values within a bound have another.
fn encode_chunk(values: &[u32], input: &[u8]) -> Result<Vec<u8>, Error> {
    let parameters = Parameters::complete(values)?;
    let options = parameters.compress_options(Some(parameters.element()?))?;
    let elements = match parameters.has_checksum() {
        true => &input[..input.len().saturating_sub(CHECKSUM)],
        false => input,
    };
    encode(&parameters, &options, elements)
}

/// Compresses a chunk with these options.
pub(crate) fn encode(parameters: &Parameters, options: &CompressOptions, input: &[u8]) -> Result<Vec<u8>, Error> {
    let element = parameters.element()?;
    let swapped;
    let input = match parameters.is_big_endian() {
        true => {
            swapped = swap(input, element.size());
            &swapped
        }
        false => input,
    };
    let chunk = ArrayView::from_bytes(input, element, parameters.shape()?)?;
    compress(&chunk, options)
}

/// Decompresses a chunk whose length is the one that HDF5 expects. HDF5 does not check it: of a shorter one, it would
/// return what follows in memory.
fn decode_chunk(values: &[u32], input: &[u8]) -> Result<Vec<u8>, Error> {
    let parameters = Parameters::complete(values)?;
    let expected = parameters.chunk_bytes()?;
    let checksum = if parameters.has_checksum() { CHECKSUM as u64 } else { 0 };
    let file = match StreamFile::open(input) {
        // One that the filter has left as it was, which parallel HDF5 of version 1.10 forgets.
        Err(error)
            if error.kind() == ErrorKind::NotSyncline && input.len() as u64 == expected.saturating_add(checksum) =>
        {
            return Ok(input.to_vec());
        }
        opened => opened?,
    };
    let (element, shape) = (file.header().element_type, file.header().shape);
    let length = shape.len().saturating_mul(element.size() as u64);
    if length != expected || length > MAX_CHUNK {
        let text = format!("a chunk has {expected} bytes, but its stream has {length}");
        return Err(Error::corrupt("the chunk", text));
    }
    let options = DecompressOptions::new().with_threads(1).with_backend(Backend::Cpu);
    let mut bytes = file.decompress(&options)?.into_bytes();
    if parameters.is_big_endian() {
        bytes = swap(&bytes, element.size());
    }
    if parameters.has_checksum() {
        bytes.extend(fletcher32(&bytes).to_le_bytes());
    }
    Ok(bytes)
}

/// Returns the elements in the opposite byte order.
pub(crate) fn swap(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut swapped = bytes.to_vec();
    swapped.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    swapped
}
