//! The kernels that process one tile per warp on the scalar path (`kernels/quantize/scalar_tile.cuh`).

use super::gather::GatherKernels;
use super::step::KernelVariant;
use super::wide::WideKernels;
use crate::device::{Device, Specialization};
use crate::error::Result;

/// The kernels for one kind of stream.
#[derive(Debug)]
pub(super) struct ScalarTileKernels {
    /// Rewrites codes with the wide radius.
    pub wide: WideKernels,
    /// Collects outliers, verbatim values and bitmaps.
    pub gather: GatherKernels,
}

impl ScalarTileKernels {
    /// Loads the kernels for this device, for constants in memory if `step_in_memory`.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device, variant: KernelVariant, step_in_memory: bool) -> Result<Self> {
        let wide = WideKernels::load(device, variant, step_in_memory)?;
        Ok(Self { wide, gather: GatherKernels::load(device, variant, step_in_memory)? })
    }
}

/// Returns the specializations for one kind of stream.
pub(super) fn specializations(variant: KernelVariant) -> Vec<Specialization> {
    let both = |in_memory| {
        [WideKernels::specialization(variant, in_memory), GatherKernels::specialization(variant, in_memory)]
    };
    [false, true].into_iter().flat_map(both).collect()
}
