//! The plans of interpolation (`syncline_core::predict::interpolate`) of an array's tiles in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::predict::interpolate::{Plan, Scheme};
use syncline_core::quantize::Real;

use super::structs::{DoubleNeighbor, FloatNeighbor, PlanHead, PlanPoint, PlanStage, Plans};
use crate::error::{CudaError, DriverContext, Result};

/// Maximum number of anchors of an interpolated tile, as in `kernels/reconstruct/token_codes.cu`.
const MOST_ANCHORS: usize = 64;

/// The plans of all schemes and of all extents that the tiles of an array can have.
#[derive(Debug)]
pub struct InterpolationPlans {
    heads: CudaSlice<PlanHead>,
    anchors: CudaSlice<u16>,
    points: CudaSlice<PlanPoint>,
    stages: CudaSlice<PlanStage>,
    neighbors: Neighbors,
}

/// Neighbors by the type of the elements.
#[derive(Debug)]
enum Neighbors {
    Float(CudaSlice<FloatNeighbor>),
    Double(CudaSlice<DoubleNeighbor>),
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
                let plans = HostPlans::<f32>::new(geometry, interpolates)?;
                let neighbors = plans.neighbors.iter();
                let neighbors = neighbors.map(|&(place, weight)| FloatNeighbor { weight, place: place.into() });
                let neighbors = Neighbors::Float(copied(stream, &neighbors.collect::<Vec<_>>())?);
                plans.copied(stream, neighbors)
            }
            ElementType::F64 => {
                let plans = HostPlans::<f64>::new(geometry, interpolates)?;
                let neighbors = plans.neighbors.iter();
                let neighbors =
                    neighbors.map(|&(place, weight)| DoubleNeighbor { weight, place: place.into(), unused: 0 });
                let neighbors = Neighbors::Double(copied(stream, &neighbors.collect::<Vec<_>>())?);
                plans.copied(stream, neighbors)
            }
            other => Err(CudaError::invalid(format!("arrays of {other} are not interpolated"))),
        }
    }

    /// Returns the bytes of device memory that the plans take.
    pub fn bytes(&self) -> usize {
        let neighbors = match &self.neighbors {
            Neighbors::Float(neighbors) => size_of::<FloatNeighbor>() * neighbors.len(),
            Neighbors::Double(neighbors) => size_of::<DoubleNeighbor>() * neighbors.len(),
        };
        size_of::<PlanHead>() * self.heads.len()
            + size_of::<u16>() * self.anchors.len()
            + size_of::<PlanPoint>() * self.points.len()
            + size_of::<PlanStage>() * self.stages.len()
            + neighbors
    }

    /// Returns whether the plans are those of elements of type f64.
    pub(super) fn is_double(&self) -> bool {
        matches!(self.neighbors, Neighbors::Double(_))
    }

    /// Returns the kernel's argument. It borrows nothing: `self` must be alive when the kernel runs.
    pub(crate) fn argument(&self, stream: &CudaStream) -> Plans {
        Plans {
            heads: self.heads.device_ptr(stream).0,
            anchors: self.anchors.device_ptr(stream).0,
            points: self.points.device_ptr(stream).0,
            stages: self.stages.device_ptr(stream).0,
            neighbors: match &self.neighbors {
                Neighbors::Float(neighbors) => neighbors.device_ptr(stream).0,
                Neighbors::Double(neighbors) => neighbors.device_ptr(stream).0,
            },
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
    anchors: Vec<u16>,
    points: Vec<PlanPoint>,
    stages: Vec<PlanStage>,
    neighbors: Vec<(u16, T)>,
}

impl<T: Real> HostPlans<T> {
    fn new(geometry: &Geometry, interpolates: bool) -> Result<Self> {
        let (axes, dims, side) = (geometry.axes(), geometry.dims(), geometry.unclipped_extent());
        let mut all = Self {
            heads: Vec::new(),
            anchors: Vec::new(),
            points: Vec::new(),
            stages: Vec::new(),
            neighbors: Vec::new(),
        };
        for scheme in Scheme::ALL {
            for clipped in 0..8_usize {
                // The extents of tiles that are clipped along these axes, with 0 along an axis if there are none.
                let extent: [usize; 3] = std::array::from_fn(|axis| {
                    let (length, side) = (dims[axis + 1], side[axis] as u64);
                    let whole = if length < side { 0 } else { side };
                    (if clipped >> (2 - axis) & 1 == 0 { whole } else { length % side }) as usize
                });
                // Along the only axis of a scheme in planes, all elements are anchors, which takes no plan.
                let has_plan = interpolates && !extent.contains(&0) && Scheme::of(axes).contains(&scheme);
                all.push(has_plan.then(|| Plan::new(scheme, extent, axes)).as_ref())?;
            }
        }
        Ok(all)
    }

    fn push(&mut self, plan: Option<&Plan<T>>) -> Result<()> {
        let mut head = PlanHead {
            first_anchor: self.anchors.len() as u32,
            first_point: self.points.len() as u32,
            first_stage: self.stages.len() as u32,
            ..PlanHead::default()
        };
        if let Some(plan) = plan {
            if plan.anchors().len() > MOST_ANCHORS {
                return Err(CudaError::invalid("an interpolated tile has more anchors than the kernel has room for"));
            }
            (head.anchors, head.stages) = (plan.anchors().len() as u32, plan.stages().len() as u32);
            head.lattice = plan.lattice().map(|extent| extent as u32);
            self.anchors.extend(plan.anchors());
            let points: Vec<_> = plan.points().collect();
            self.points.extend(points.iter().map(|&(place, own)| PlanPoint { place, neighbors: own.len() as u16 }));
            let mut begin = 0;
            for &end in plan.stages() {
                let stage = &points[begin..end as usize];
                self.stages.push(PlanStage { end, first_neighbor: self.neighbors.len() as u32 });
                let most = stage.iter().map(|(_, own)| own.len()).max().unwrap_or(0);
                // An element with fewer neighbors than others of the stage leaves gaps.
                let gap = (0, T::nearest(0.0));
                for number in 0..most {
                    self.neighbors.extend(stage.iter().map(|(_, own)| own.get(number).copied().unwrap_or(gap)));
                }
                begin = end as usize;
            }
        }
        self.heads.push(head);
        Ok(())
    }

    fn copied(&self, stream: &Arc<CudaStream>, neighbors: Neighbors) -> Result<InterpolationPlans> {
        Ok(InterpolationPlans {
            heads: copied(stream, &self.heads)?,
            anchors: copied(stream, &self.anchors)?,
            points: copied(stream, &self.points)?,
            stages: copied(stream, &self.stages)?,
            neighbors,
        })
    }
}
