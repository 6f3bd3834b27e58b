//! Structs that the kernels of prediction share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `predict/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[PlanHead::C, PlanPoint::C, Plans::C];

device_struct! {
    /// The parts of the arrays of [`Plans`] for tiles with some extents and one scheme. Indices are in units of entries.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct PlanHead {
        pub(super) first_anchor: u32,
        /// Number of anchors; 0 if there are no such tiles.
        pub(super) anchors: u32,
        pub(super) first_point: u32,
        /// Number of points.
        pub(super) points: u32,
        pub(super) first_stage: u32,
        pub(super) stages: u32,
        pub(super) first_group: u32,
        pub(super) groups: u32,
        /// Extents of the lattice of anchors.
        pub(super) lattice: [u32; 3],
        /// Whether points have four neighbors. Else they have two: the second and the third.
        pub(super) is_cubic: u32,
    }
}

device_struct! {
    /// An element that is interpolated.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct PlanPoint {
        /// Index of the element in its tile.
        pub(super) place: u16,
        /// Place of its code among those of the tile.
        pub(super) code: u16,
        /// Indices of its neighbors.
        pub(super) neighbors: [u16; 4],
        pub(super) unused: u32,
    }
}

device_struct! {
    /// The plans of interpolation of an array's tiles, one after another.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Plans {
        /// The head for tiles that are clipped along the axes of a set is entry `8 * (scheme - 1) + set`, with 1 for x,
        /// 2 for y, 4 for z.
        pub(super) heads: CUdeviceptr as "const PlanHead *",
        /// Index of each anchor in its tile, and in the upper half the place of its code among those of the tile.
        pub(super) anchors: CUdeviceptr as "const uint32_t *",
        pub(super) points: CUdeviceptr as "const PlanPoint *",
        /// Four weights for each point, of the type of the elements.
        pub(super) weights: CUdeviceptr as "const void *",
        /// Where each stage ends, counted from the plan's first point. Points of a stage do not depend on each other.
        pub(super) stages: CUdeviceptr as "const uint32_t *",
        /// The points whose costs are computed together: the first one, counted from the plan's first, and in the upper
        /// half their number, at most 4.
        pub(super) groups: CUdeviceptr as "const uint32_t *",
    }
}
