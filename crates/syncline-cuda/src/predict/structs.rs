//! Structs that the kernels of prediction share with their launchers.

use cudarc::driver::sys::CUdeviceptr;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `predict/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[PlanHead::C, PlanStage::C, FloatPair::C, DoublePair::C, Plans::C];

device_struct! {
    /// The parts of the arrays of [`Plans`] for tiles with some extents and one scheme.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct PlanHead {
        /// Index of the first place, a multiple of 4.
        pub(super) first_place: u32,
        pub(super) anchors: u32,
        pub(super) first_stage: u32,
        pub(super) stages: u32,
        /// Extents of the lattice of anchors.
        pub(super) lattice: [u32; 3],
    }
}

device_struct! {
    /// Elements that are interpolated from those before, independently of each other.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct PlanStage {
        /// The end of the stage, counted from the first element that is not an anchor.
        pub(super) end: u32,
        /// Index of the first pair of neighbors of the stage's first element. First pairs of all elements are followed
        /// by all second pairs, and so on, so that lanes read adjacent ones.
        pub(super) first_pair: u32,
        /// Pairs of each element. Places in `kernels/predict/interpolation.cuh` stand for neighbors that an element
        /// has not.
        pub(super) pairs: u32,
        pub(super) unused: u32,
    }
}

device_struct! {
    /// Two neighbors of an element of type f32. The upper half of the first place of the element's first pair is the
    /// place of the element itself.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct FloatPair {
        pub(super) weights: [f32; 2],
        pub(super) places: [u32; 2],
    }
}

device_struct! {
    /// Two neighbors of an element of type f64, as of type f32.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct DoublePair {
        pub(super) weights: [f64; 2],
        pub(super) places: [u32; 2],
        pub(super) unused: [u32; 2],
    }
}

device_struct! {
    /// The plans of interpolation of an array's tiles, one after another.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Plans {
        /// The head for tiles that are clipped along the axes of a set is entry `8 * (scheme - 1) + set`, with 1 for x,
        /// 2 for y, 4 for z.
        pub(super) heads: CUdeviceptr as "const PlanHead *",
        /// Places of the elements in the order of their codes: first the anchors. There are more up to a multiple of 4,
        /// which stand for no element.
        pub(super) places: CUdeviceptr as "const uint16_t *",
        pub(super) stages: CUdeviceptr as "const PlanStage *",
        /// Pairs of neighbors of the element's type.
        pub(super) pairs: CUdeviceptr as "const void *",
    }
}
