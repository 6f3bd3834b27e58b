//! The kernels that process one tile per warp on the scalar path (`kernels/quantize/scalar_tile.cuh`).

use super::step::KernelVariant;
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
    /// Loads the kernels for this device.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device, variant: KernelVariant) -> Result<Self> {
        Ok(Self {
            wide: device.kernel(&specialization(variant, WIDE), "quantize_wide")?,
            gather: gather_kernel(device, variant)?,
        })
    }
}

/// Loads the kernel that collects verbatim values and bitmaps.
///
/// # Errors
/// The errors of [`Device::kernel`].
pub(super) fn gather_kernel(device: &Device, variant: KernelVariant) -> Result<Kernel> {
    device.kernel(&specialization(variant, GATHER), "quantize_gather")
}

fn specialization(variant: KernelVariant, source: Source) -> Specialization {
    let constants = [
        ("ELEMENT_BYTES", variant.element_bytes),
        ("LOGARITHM", variant.logarithm.into()),
        ("AXES", variant.axes),
        ("WARPS", WARPS),
    ];
    Specialization { source, constants: constants.map(|(name, value)| (name, value.into())).to_vec() }
}

/// Returns the specializations for one kind of stream.
pub(super) fn specializations(variant: KernelVariant) -> [Specialization; 2] {
    [WIDE, GATHER].map(|source| specialization(variant, source))
}
