//! Chunks of blocks: launchers of `kernels/blocks/`.

mod decode;
mod encode;
mod sizes;
pub(crate) mod structs;

pub use decode::{BlockDecoder, ParsedBatch};
pub use encode::{BlockEncoder, EncodedBatch};

use syncline_core::array::ElementType;

use crate::device::Specialization;
use crate::error::{CudaError, Result};

/// The element types that blocks have kernels for.
const COMPUTED: [ElementType; 2] = [ElementType::F32, ElementType::F64];

/// Checks that blocks of these elements have kernels.
///
/// # Errors
/// [`CudaError::Unsupported`] if they do not.
pub(crate) fn check_element(element: ElementType) -> Result<()> {
    match COMPUTED.contains(&element) {
        true => Ok(()),
        false => Err(CudaError::Unsupported(format!("the GPU has no kernels for blocks of {element}: use the CPU"))),
    }
}

/// Returns the specializations for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    [decode::specializations(), encode::specializations()].concat()
}
