//! Structs that the kernels of prediction share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `predict/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[PlanHead::C, PlanPass::C, FloatStep::C, DoubleStep::C, Plans::C];

device_struct! {
    /// The parts of the arrays of [`Plans`] for tiles with some extents and one scheme.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct PlanHead {
        /// Indices in the list of places: of the places of the anchors in the tile, and of those of their codes.
        pub(super) first_anchor: u32,
        pub(super) first_anchor_code: u32,
        pub(super) anchors: u32,
        /// Extents of the lattice of anchors.
        pub(super) lattice: [u32; 3],
        pub(super) first_pass: u32,
        pub(super) passes: u32,
        pub(super) is_cubic: u32,
    }
}

device_struct! {
    /// Elements that are interpolated along one axis at one distance from their neighbors, independently of each other.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct PlanPass {
        pub(super) lines: u32,
        /// Points of each line.
        pub(super) points: u32,
        /// Groups of four points of a line whose costs are computed together; the last one may be smaller.
        pub(super) groups: u32,
        /// Divides numbers of groups of the pass by `groups`: the upper 12 bits of the product.
        pub(super) by_groups: u32,
        /// Index in the list of places: of the place in the tile where each line has position 0 along the axis.
        pub(super) first_line: u32,
        /// Index in the list of places: of the places of the codes of the points, line by line.
        pub(super) first_code: u32,
        /// Index of the step of a line's first point.
        pub(super) first_step: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// A point of each line of a pass, in tiles of elements of type f32. Places are counted from where the line has
    /// position 0.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct FloatStep {
        pub(super) weights: [f32; 4],
        /// Of the neighbors; those of linear schemes are the second and the third.
        pub(super) neighbors: [u16; 4],
        pub(super) place: u16,
        pub(super) unused: [u16; 3],
    }
}

device_struct! {
    /// As [`FloatStep`], of type f64.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct DoubleStep {
        pub(super) weights: [f64; 4],
        pub(super) neighbors: [u16; 4],
        pub(super) place: u16,
        pub(super) unused: [u16; 3],
    }
}

device_struct! {
    /// The plans of interpolation of an array's tiles, one after another.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Plans {
        /// The head for tiles that are clipped along the axes of a set is entry `8 * (scheme - 1) + set`, with 1 for x,
        /// 2 for y, 4 for z.
        pub(super) heads: CUdeviceptr as "const PlanHead *",
        pub(super) passes: CUdeviceptr as "const PlanPass *",
        pub(super) places: CUdeviceptr as "const uint16_t *",
        /// Steps of the elements' type.
        pub(super) steps: CUdeviceptr as "const void *",
    }
}
