//! The kernel that stages elements in shared memory with asynchronous copies: `kernels/quantize/codes/staged.cu`. It
//! serves every linear `f32` array, and `f64` arrays with many clipped tiles, unaligned rows or fill patterns.

use crate::geometry::ChunkBatch;
use crate::geometry::DeviceGeometry;
use crate::quantize::structs::{Outputs, StagedLaunch, Step};
use syncline_core::geometry::Geometry;

use super::{BlockShape, constants};
use crate::device::Specialization;
use crate::device_kernels::{In, Out, declare_kernels};
use crate::quantize::step::KernelVariant;

declare_kernels! {
    /// The kernel of `kernels/quantize/codes/staged.cu`.
    pub(super) struct StagedKernels in "quantize/codes/staged.cu",
        of (variant: KernelVariant, shape: BlockShape), by (many_clipped: bool)
    {
        with COMMON = constants(variant, shape);
        fn quantize_codes_staged(
            slab: In<u8> as "const Element *", geometry: DeviceGeometry, batch: ChunkBatch, known: Step,
            launch: StagedLaunch, outputs: Outputs, control: Out<u32>, later: Option<In<u64>> as "const Step *",
        );
    }
}

/// An `f64` array takes this kernel if more than one in this many elements lies in a clipped tile.
const CLIPPED_SHARE: u64 = 256;
/// If more than one in this many elements of a 3-D array lies in a clipped tile, whole tiles take the code path of
/// clipped ones. That is less code, and instruction fetches cost time where both paths alternate.
const MANY_CLIPPED_SHARE: u64 = 8;

/// Returns the shared memory of a block in bytes: the codes of two units and the elements or integers of one unit per
/// warp, and the data shared by all warps.
pub(super) fn shared_memory(variant: KernelVariant, units: u32) -> u32 {
    units * 1024 * (2 * 2 + variant.element_bytes) + 4608
}

/// Returns the fastest shape measured for each kind of stream.
pub(super) fn block_shape(variant: KernelVariant) -> BlockShape {
    match variant {
        KernelVariant { element_bytes: 8, .. } | KernelVariant { patterns: true, .. } => {
            BlockShape { units: 7, blocks: 2 }
        }
        KernelVariant { axes: 3, .. } => BlockShape { units: 9, blocks: 2 },
        _ => BlockShape { units: 7, blocks: 3 },
    }
}

/// Returns the threads of a block: one warp per unit, and the scheduler warp.
pub(super) fn threads(units: u32) -> u32 {
    (units + 1) * 32
}

/// Returns whether an array with this tiling takes this kernel.
pub(super) fn applies(variant: KernelVariant, geometry: &Geometry) -> bool {
    if variant.logarithm {
        return false;
    }
    if variant.element_bytes == 4 {
        return true;
    }
    let [_, _, _, x] = geometry.dims();
    let unaligned = variant.axes > 1 && !(x * u64::from(variant.element_bytes)).is_multiple_of(16);
    variant.patterns || unaligned || is_clipped(variant, geometry, CLIPPED_SHARE)
}

/// Returns whether whole tiles take the code path of clipped ones.
pub(super) fn has_many_clipped(variant: KernelVariant, geometry: &Geometry) -> bool {
    supports_many_clipped(variant) && is_clipped(variant, geometry, MANY_CLIPPED_SHARE)
}

/// Returns whether more than one in `share` of the elements lies in a clipped tile. Always `false` for 1-D arrays.
fn is_clipped(variant: KernelVariant, geometry: &Geometry, share: u64) -> bool {
    let [b, z, y, x] = geometry.dims();
    let side = geometry.unclipped_extent().map(|side| side as u64);
    let whole = b * (z - z % side[0]) * (y - y % side[1]) * (x - x % side[2]);
    variant.axes > 1 && (b * z * y * x - whole) > b * z * y * x / share
}

/// Returns whether there is a specialization for arrays with many clipped tiles.
fn supports_many_clipped(variant: KernelVariant) -> bool {
    variant.axes == 3 && variant.element_bytes == 4 && !variant.logarithm && !variant.patterns && !variant.measure
}

/// Returns all specializations for one kind of stream.
pub(super) fn specializations(variant: KernelVariant) -> Vec<Specialization> {
    if variant.logarithm {
        return Vec::new();
    }
    let shape = block_shape(variant);
    let many_clipped = supports_many_clipped(variant).then(|| StagedKernels::specialization(variant, shape, true));
    [StagedKernels::specialization(variant, shape, false)].into_iter().chain(many_clipped).collect()
}
