//! The plans of interpolation (`syncline_core::predict::interpolate`) of an array's tiles in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::geometry::{Geometry, TileSize};
use syncline_core::predict::interpolate::{Plan, Scheme};
use syncline_core::quantize::Real;

use super::structs::{DoublePair, FloatPair, PlanHead, PlanStage, Plans};
use crate::error::{CudaError, DriverContext, Result};

/// Maximum number of anchors of an interpolated tile, as in `kernels/reconstruct/token_codes.cu` and
/// `kernels/reconstruct/large_tiles.cu`.
const fn most_anchors(tile_size: TileSize) -> usize {
    match tile_size {
        TileSize::Small => 64,
        TileSize::Large => 128,
    }
}

/// Padding pairs after the last one, because a kernel loads pairs ahead, past the end of a stage.
const PAIRS_BEHIND: usize = 64;

/// The plans of all schemes and of all extents that the tiles of an array can have.
#[derive(Debug)]
pub struct InterpolationPlans {
    heads: CudaSlice<PlanHead>,
    places: CudaSlice<u16>,
    stages: CudaSlice<PlanStage>,
    pairs: Pairs,
}

/// Pairs of neighbors by the type of the elements.
#[derive(Debug)]
enum Pairs {
    Float(CudaSlice<FloatPair>),
    Double(CudaSlice<DoublePair>),
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
                let pair = |&(places, weights): &_| FloatPair { weights, places };
                let pairs: Vec<_> = plans.pairs.iter().map(pair).collect();
                plans.copied(stream, Pairs::Float(copied(stream, &pairs)?))
            }
            ElementType::F64 => {
                let plans = HostPlans::<f64>::new(geometry, interpolates)?;
                let pair = |&(places, weights): &_| DoublePair { weights, places, unused: [0; 2] };
                let pairs: Vec<_> = plans.pairs.iter().map(pair).collect();
                plans.copied(stream, Pairs::Double(copied(stream, &pairs)?))
            }
            other => Err(CudaError::invalid(format!("arrays of {other} are not interpolated"))),
        }
    }

    /// Returns the bytes of device memory that the plans take.
    pub fn bytes(&self) -> usize {
        let pairs = match &self.pairs {
            Pairs::Float(pairs) => size_of::<FloatPair>() * pairs.len(),
            Pairs::Double(pairs) => size_of::<DoublePair>() * pairs.len(),
        };
        size_of::<PlanHead>() * self.heads.len()
            + size_of::<u16>() * self.places.len()
            + size_of::<PlanStage>() * self.stages.len()
            + pairs
    }

    /// Returns whether the plans are those of elements of type f64.
    pub(crate) fn is_double(&self) -> bool {
        matches!(self.pairs, Pairs::Double(_))
    }

    /// Returns the kernel's argument. It borrows nothing: `self` must be alive when the kernel runs.
    pub(crate) fn argument(&self, stream: &CudaStream) -> Plans {
        Plans {
            heads: self.heads.device_ptr(stream).0,
            places: self.places.device_ptr(stream).0,
            stages: self.stages.device_ptr(stream).0,
            pairs: match &self.pairs {
                Pairs::Float(pairs) => pairs.device_ptr(stream).0,
                Pairs::Double(pairs) => pairs.device_ptr(stream).0,
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
    places: Vec<u16>,
    stages: Vec<PlanStage>,
    /// Places and weights of pairs of neighbors.
    pairs: Vec<([u32; 2], [T; 2])>,
    /// The place that stands for a neighbor that an element has not, and the number of elements that has it.
    missing: u32,
    unclipped_len: u16,
    most_anchors: usize,
}

/// Returns the place of an element in shared memory, as in `kernels/predict/interpolation.cuh`.
fn padded(element: u32) -> u32 {
    element + element / 32
}

impl<T: Real> HostPlans<T> {
    fn new(geometry: &Geometry, interpolates: bool) -> Result<Self> {
        let (axes, dims, side) = (geometry.axes(), geometry.dims(), geometry.unclipped_extent());
        let mut all = Self {
            heads: Vec::new(),
            places: Vec::new(),
            stages: Vec::new(),
            pairs: Vec::new(),
            missing: padded(geometry.unclipped_len() as u32),
            unclipped_len: geometry.unclipped_len() as u16,
            most_anchors: most_anchors(geometry.tile_size()),
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
        all.pairs.resize(all.pairs.len() + PAIRS_BEHIND, ([all.missing; 2], [T::nearest(0.0); 2]));
        Ok(all)
    }

    fn push(&mut self, plan: Option<&Plan<T>>) -> Result<()> {
        let mut head = PlanHead {
            first_place: self.places.len() as u32,
            first_stage: self.stages.len() as u32,
            ..PlanHead::default()
        };
        if let Some(plan) = plan {
            if plan.anchors().len() > self.most_anchors {
                return Err(CudaError::invalid("an interpolated tile has more anchors than the kernel has room for"));
            }
            (head.anchors, head.stages) = (plan.anchors().len() as u32, plan.stages().len() as u32);
            head.lattice = plan.lattice().map(|extent| extent as u32);
            let points: Vec<_> = plan.points().collect();
            self.places.extend(plan.anchors());
            self.places.extend(points.iter().map(|&(place, _)| place));
            self.places.resize(self.places.len().next_multiple_of(4), self.unclipped_len);
            let mut begin = 0;
            for &end in plan.stages() {
                let stage = &points[begin..end as usize];
                let pairs = stage.iter().map(|(_, own)| own.len()).max().unwrap_or(0).div_ceil(2);
                let first_pair = self.pairs.len() as u32;
                self.stages.push(PlanStage { end, first_pair, pairs: pairs as u32, unused: 0 });
                for pair in 0..pairs {
                    let neighbor = |own: &[(u16, T)], number: usize| match own.get(2 * pair + number) {
                        Some(&(place, weight)) => (padded(place.into()), weight),
                        None => (self.missing, T::nearest(0.0)),
                    };
                    self.pairs.extend(stage.iter().map(|&(place, own)| {
                        let both = [neighbor(own, 0), neighbor(own, 1)];
                        let [first, second] = both.map(|(place, _)| place);
                        // The first pair says what the element's own place is, too.
                        let own_place = if pair == 0 { u32::from(place) << 16 } else { 0 };
                        ([first | own_place, second], both.map(|(_, weight)| weight))
                    }));
                }
                begin = end as usize;
            }
        }
        self.heads.push(head);
        Ok(())
    }

    fn copied(&self, stream: &Arc<CudaStream>, pairs: Pairs) -> Result<InterpolationPlans> {
        Ok(InterpolationPlans {
            heads: copied(stream, &self.heads)?,
            places: copied(stream, &self.places)?,
            stages: copied(stream, &self.stages)?,
            pairs,
        })
    }
}
