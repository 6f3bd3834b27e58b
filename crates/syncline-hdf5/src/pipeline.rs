//! The filters that stand before Syncline in a pipeline: they change what it receives, so that few can be permitted.

#![allow(unsafe_code, reason = "calls of HDF5")]

use std::ffi::{CStr, c_int};

use syncline::Error;

use crate::caller::Library;
use crate::functions::Id;
use crate::parameters::ID;

/// `H5Z_FILTER_SHUFFLE`: puts the first bytes of all elements first, then the second ones, and so on.
const SHUFFLE: c_int = 2;
/// `H5Z_FILTER_FLETCHER32`: appends a checksum.
const FLETCHER32: c_int = 3;
/// Filters that round floating-point numbers and leave them as such: bit grooming and granular bit rounding.
const ROUNDING: [c_int; 2] = [32_022, 32_023];

/// Bytes of the checksum that `H5Z_FILTER_FLETCHER32` appends to a chunk.
pub const CHECKSUM: usize = 4;

/// A filter of a pipeline.
struct Filter {
    id: c_int,
    name: String,
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "filter {}", self.id),
            name => write!(f, "filter {} ({name})", self.id),
        }
    }
}

/// Checks the filters before Syncline. Returns whether a checksum is appended to the chunks that it receives.
///
/// # Errors
/// [`Error::InvalidArgument`] if an error bound would not be that of the values, or if chunks have another length.
///
/// # Safety
/// `creation` is an identifier of `library`.
pub unsafe fn check_filters(library: &Library, creation: Id, is_lossless: bool) -> Result<bool, Error> {
    // SAFETY: that of this function.
    let filters = unsafe { filters(library, creation) };
    let mut ours = filters.iter().enumerate().filter(|(_, filter)| filter.id == ID);
    let first = ours.next().map_or(0, |(at, _)| at);
    if ours.next().is_some() {
        return Err(Error::InvalidArgument("the filter is set twice for this dataset: set it once".into()));
    }
    let before = &filters[..first];
    let is_permitted = |id: c_int| id == FLETCHER32 || is_lossless && (id == SHUFFLE || ROUNDING.contains(&id));
    let checksums = before.iter().filter(|filter| filter.id == FLETCHER32).count();
    match before.iter().find(|filter| !is_permitted(filter.id)) {
        Some(filter) if !is_lossless => Err(Error::InvalidArgument(format!(
            "{filter} comes before Syncline, so that the error bound would not be that of the values: leave it out, as \
             by shuffle=False in h5py and in the encoding of Xarray; only fletcher32 may come before an error bound"
        ))),
        Some(filter) => Err(Error::InvalidArgument(format!(
            "{filter} comes before Syncline, which would not receive the elements: leave it out, or set it after \
             Syncline; only shuffle, fletcher32, and the rounding of bits may come before"
        ))),
        None if checksums > 1 => {
            Err(Error::InvalidArgument("fletcher32 comes twice before Syncline: set it once".into()))
        }
        // A filter between the two would move the checksum.
        None if checksums == 1 && before.last().is_some_and(|last| last.id != FLETCHER32) => {
            Err(Error::InvalidArgument(
                "fletcher32 comes before another filter: set it right before or after Syncline".into(),
            ))
        }
        None => Ok(checksums == 1),
    }
}

/// Returns the filters of a property list, in the order in which chunks pass them when they are written.
///
/// # Safety
/// `creation` is an identifier of `library`.
unsafe fn filters(library: &Library, creation: Id) -> Vec<Filter> {
    // SAFETY: that of this function.
    let count = unsafe { (library.filter_count)(creation) };
    let at = |number| {
        let (mut flags, mut count, mut config, mut name) = (0, 0, 0, [0u8; 64]);
        // SAFETY: an identifier of the library, room for no parameters, and for a name of the length that is given.
        let id = unsafe {
            let name = name.as_mut_ptr().cast();
            (library.get_filter)(
                creation,
                number,
                &raw mut flags,
                &raw mut count,
                std::ptr::null_mut(),
                64,
                name,
                &raw mut config,
            )
        };
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned();
        Filter { id, name }
    };
    (0..u32::try_from(count).unwrap_or(0)).map(at).collect()
}

/// Returns the checksum that HDF5 appends to a chunk: Fletcher's, of 16-bit numbers in big-endian order.
pub fn fletcher32(bytes: &[u8]) -> u32 {
    /// Numbers whose sums fit into 32 bits.
    const BLOCK: usize = 360;
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut sum, mut sums) = (0u32, 0u32);
    for block in bytes.chunks(2 * BLOCK) {
        for pair in block.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
            sums += sum;
        }
        (sum, sums) = (fold(sum), fold(sums));
    }
    fold(sums) << 16 | fold(sum)
}
