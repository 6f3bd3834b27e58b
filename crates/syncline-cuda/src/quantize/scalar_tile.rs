//! The kernels that process one tile per warp on the scalar path (`kernels/quantize/scalar_tile.cuh`).

use super::step::{Constants, KernelVariant};
use crate::device::{Device, Kernel, Source, Specialization, source};
use crate::error::Result;

const WIDE: Source = source!("quantize/wide.cu");
const GATHER: Source = source!("quantize/gather.cu");
/// Warps of a block.
pub(super) const WARPS: u32 = 4;

/// The kernels for one kind of stream.
#[derive(Debug)]
pub(super) struct ScalarTileKernels {
    /// Rewrites codes with the wide radius.
    pub wide: Kernel,
    /// Collects outliers, verbatim values and bitmaps.
    pub gather: Kernel,
}

impl ScalarTileKernels {
    /// Loads the kernels for this device, for constants in memory if `step_in_memory`.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device, variant: KernelVariant, step_in_memory: bool) -> Result<Self> {
        let kernel = |source, name| device.kernel(&specialization(variant, source, step_in_memory), name);
        Ok(Self { wide: kernel(WIDE, "quantize_wide")?, gather: kernel(GATHER, "quantize_gather")? })
    }
}

/// Loads the kernel that collects verbatim values and bitmaps.
///
/// # Errors
/// The errors of [`Device::kernel`].
pub(super) fn gather_kernel(device: &Device, variant: KernelVariant) -> Result<Kernel> {
    device.kernel(&specialization(variant, GATHER, false), "quantize_gather")
}

fn specialization(variant: KernelVariant, source: Source, step_in_memory: bool) -> Specialization {
    let constants = [
        ("ELEMENT_BYTES", variant.element_bytes),
        ("LOGARITHM", variant.logarithm.into()),
        ("AXES", variant.axes),
        ("WARPS", WARPS),
    ];
    let mut constants = constants.map(|(name, value)| (name, u64::from(value))).to_vec();
    constants.push(Constants::macro_constant(step_in_memory));
    Specialization { assertions: String::new(), source, constants }
}

/// Returns the specializations for one kind of stream.
pub(super) fn specializations(variant: KernelVariant) -> [Specialization; 4] {
    [(WIDE, false), (WIDE, true), (GATHER, false), (GATHER, true)]
        .map(|(source, in_memory)| specialization(variant, source, in_memory))
}
