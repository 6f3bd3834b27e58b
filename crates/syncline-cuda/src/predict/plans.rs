//! The plans of interpolation (`syncline_core::predict::interpolate`) of an array's tiles in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::predict::interpolate::{Plan, Scheme};
use syncline_core::predict::orders::COST_GROUP;
use syncline_core::quantize::Real;

use super::structs::{PlanHead, PlanPoint, Plans};
use crate::error::{CudaError, DriverContext, Result};

/// Codes of schemes: 1 to this number.
const SCHEMES: u8 = 8;

/// The plans of all schemes and of all extents that the tiles of an array can have.
#[derive(Debug)]
pub struct InterpolationPlans {
    heads: CudaSlice<PlanHead>,
    anchors: CudaSlice<u32>,
    points: CudaSlice<PlanPoint>,
    weights: Weights,
    stages: CudaSlice<u32>,
    groups: CudaSlice<u32>,
}

/// Weights of neighbors by the type of the elements.
#[derive(Debug)]
enum Weights {
    Float(CudaSlice<f32>),
    Double(CudaSlice<f64>),
}

impl InterpolationPlans {
    /// Makes the plans for the stream with this header and copies them to the device on `stream`, on which they must be
    /// used as well. There are none in streams that do not interpolate.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for element types other than `f32` and `f64`; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, header: &Header, geometry: &Geometry) -> Result<Self> {
        let interpolates = header.pipeline == Pipeline::Quantized;
        match header.element_type {
            ElementType::F32 => {
                let plans = HostPlans::<f32>::new(geometry, interpolates);
                plans.copied(stream, Weights::Float(copied(stream, &plans.weights)?))
            }
            ElementType::F64 => {
                let plans = HostPlans::<f64>::new(geometry, interpolates);
                plans.copied(stream, Weights::Double(copied(stream, &plans.weights)?))
            }
            other => Err(CudaError::invalid(format!("arrays of {other} are not interpolated"))),
        }
    }

    /// Returns the bytes of device memory that the plans take.
    pub fn bytes(&self) -> usize {
        let weights = match &self.weights {
            Weights::Float(weights) => weights.num_bytes(),
            Weights::Double(weights) => weights.num_bytes(),
        };
        let words = [&self.anchors, &self.stages, &self.groups].map(CudaSlice::num_bytes);
        self.heads.num_bytes() + self.points.num_bytes() + weights + words.iter().sum::<usize>()
    }

    /// Returns the kernel's argument. It borrows nothing: `self` must be alive when the kernel runs.
    pub(crate) fn argument(&self, stream: &CudaStream) -> Plans {
        Plans {
            heads: self.heads.device_ptr(stream).0,
            anchors: self.anchors.device_ptr(stream).0,
            points: self.points.device_ptr(stream).0,
            weights: match &self.weights {
                Weights::Float(weights) => weights.device_ptr(stream).0,
                Weights::Double(weights) => weights.device_ptr(stream).0,
            },
            stages: self.stages.device_ptr(stream).0,
            groups: self.groups.device_ptr(stream).0,
        }
    }
}

/// Copies a list to the device. Devices without memory pools cannot allocate 0 bytes, so that an empty one becomes one
/// of zeros.
fn copied<T: DeviceRepr + ValidAsZeroBits>(stream: &Arc<CudaStream>, list: &[T]) -> Result<CudaSlice<T>> {
    let bytes = size_of_val(list) as u64;
    match list {
        [] => stream.alloc_zeros(1).allocating(size_of::<T>() as u64),
        _ => stream.clone_htod(list).allocating(bytes),
    }
}

/// The plans before they are copied.
struct HostPlans<T> {
    heads: Vec<PlanHead>,
    anchors: Vec<u32>,
    points: Vec<PlanPoint>,
    weights: Vec<T>,
    stages: Vec<u32>,
    groups: Vec<u32>,
}

impl<T: Real> HostPlans<T> {
    fn new(geometry: &Geometry, interpolates: bool) -> Self {
        let (axes, dims, side) = (geometry.axes(), geometry.dims(), geometry.unclipped_extent());
        let mut all = Self {
            heads: Vec::new(),
            anchors: Vec::new(),
            points: Vec::new(),
            weights: Vec::new(),
            stages: Vec::new(),
            groups: Vec::new(),
        };
        for scheme in (1..=SCHEMES).map(|code| Scheme::from_code(code, axes)) {
            for clipped in 0..8_usize {
                // The extents of tiles that are clipped along these axes, with 0 along an axis if there are none.
                let extent: [usize; 3] = std::array::from_fn(|axis| {
                    let (length, side) = (dims[axis + 1], side[axis] as u64);
                    let whole = if length < side { 0 } else { side };
                    (if clipped >> (2 - axis) & 1 == 0 { whole } else { length % side }) as usize
                });
                let scheme = scheme.filter(|_| interpolates && !extent.contains(&0));
                let plan = scheme.map(|scheme| Plan::new(scheme, extent, axes));
                all.push(plan.as_ref(), scheme.is_some_and(|scheme| scheme.is_cubic));
            }
        }
        all
    }

    fn push(&mut self, plan: Option<&Plan<T>>, is_cubic: bool) {
        let mut head = PlanHead {
            first_anchor: self.anchors.len() as u32,
            first_point: self.points.len() as u32,
            first_stage: self.stages.len() as u32,
            first_group: self.groups.len() as u32,
            is_cubic: is_cubic.into(),
            ..PlanHead::default()
        };
        if let Some(plan) = plan {
            let anchors = plan.anchors().iter().zip(plan.anchor_codes());
            self.anchors.extend(anchors.map(|(&place, &code)| u32::from(place) | u32::from(code) << 16));
            self.points.extend(plan.points().iter().map(|point| PlanPoint {
                place: point.place,
                code: point.code,
                neighbors: point.neighbors,
                unused: 0,
            }));
            self.weights.extend(plan.points().iter().flat_map(|point| point.weights));
            self.stages.extend(stages(plan));
            self.groups.extend(groups(plan));
            head.anchors = plan.anchors().len() as u32;
            head.points = plan.points().len() as u32;
            head.stages = self.stages.len() as u32 - head.first_stage;
            head.groups = self.groups.len() as u32 - head.first_group;
            head.lattice = plan.lattice().map(|extent| extent as u32);
        }
        self.heads.push(head);
    }

    fn copied(&self, stream: &Arc<CudaStream>, weights: Weights) -> Result<InterpolationPlans> {
        Ok(InterpolationPlans {
            heads: copied(stream, &self.heads)?,
            anchors: copied(stream, &self.anchors)?,
            points: copied(stream, &self.points)?,
            weights,
            stages: copied(stream, &self.stages)?,
            groups: copied(stream, &self.groups)?,
        })
    }
}

/// Returns where each stage ends: a point that depends on one of its stage begins another.
fn stages<T: Real>(plan: &Plan<T>) -> Vec<u32> {
    let elements = plan.anchors().len() + plan.points().len();
    let mut stage_of = vec![0; elements];
    let (mut ends, mut stage) = (Vec::new(), 1);
    for (number, point) in (0..).zip(plan.points()) {
        if point.neighbors.iter().any(|&place| stage_of[usize::from(place)] == stage) {
            ends.push(number);
            stage += 1;
        }
        stage_of[usize::from(point.place)] = stage;
    }
    if !plan.points().is_empty() {
        ends.push(plan.points().len() as u32);
    }
    ends
}

/// Returns the groups of points whose costs are computed together: at most four in a row of a line.
fn groups<T: Real>(plan: &Plan<T>) -> Vec<u32> {
    let mut groups = Vec::new();
    let mut first = 0;
    for &length in plan.lines() {
        let length = usize::from(length);
        let parts = (0..length).step_by(COST_GROUP);
        groups.extend(parts.map(|at| (first + at) as u32 | (COST_GROUP.min(length - at) as u32) << 16));
        first += length;
    }
    groups
}
