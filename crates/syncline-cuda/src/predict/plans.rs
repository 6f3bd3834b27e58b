//! The plans of interpolation (`syncline_core::predict::interpolate`) of an array's tiles in device memory.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::predict::costs::COST_GROUP;
use syncline_core::predict::interpolate::{PassShape, Plan, Point, Scheme};
use syncline_core::quantize::Real;

use super::structs::{DoubleStep, FloatStep, PlanHead, PlanPass, Plans};
use crate::error::{CudaError, DriverContext, Result};

/// Plans of each scheme: one for each set of axes along which a tile may be clipped.
const PLANS_OF_SCHEME: usize = 8;
/// Codes of schemes are up to this one.
const LARGEST_SCHEME: u8 = 8;

/// The plans of schemes for all extents that the tiles of an array can have.
#[derive(Debug)]
pub struct InterpolationPlans {
    heads: CudaSlice<PlanHead>,
    passes: CudaSlice<PlanPass>,
    places: CudaSlice<u16>,
    steps: Steps,
}

/// Steps by the type of the elements.
#[derive(Debug)]
enum Steps {
    Float(CudaSlice<FloatStep>),
    Double(CudaSlice<DoubleStep>),
}

impl InterpolationPlans {
    /// Makes the plans of these schemes for the tiles of an array with this tiling and copies them to the device on
    /// `stream`, on which they must be used as well.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for element types other than `f32` and `f64`; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn new(
        stream: &Arc<CudaStream>,
        element_type: ElementType,
        geometry: &Geometry,
        schemes: &[Scheme],
    ) -> Result<Self> {
        match element_type {
            ElementType::F32 => {
                let plans = RECENT_OF_FLOATS.get(&Form::new(geometry, schemes));
                let step = |&(weights, neighbors, place): &_| FloatStep { weights, neighbors, place, unused: [0; 3] };
                let steps: Vec<_> = plans.steps.iter().map(step).collect();
                plans.copied(stream, Steps::Float(copied(stream, &steps)?))
            }
            ElementType::F64 => {
                let plans = RECENT_OF_DOUBLES.get(&Form::new(geometry, schemes));
                let step = |&(weights, neighbors, place): &_| DoubleStep { weights, neighbors, place, unused: [0; 3] };
                let steps: Vec<_> = plans.steps.iter().map(step).collect();
                plans.copied(stream, Steps::Double(copied(stream, &steps)?))
            }
            other => Err(CudaError::invalid(format!("arrays of {other} are not interpolated"))),
        }
    }

    /// Makes the plans of all schemes that tiles of the stream with this header may have; see [`Self::new`].
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn of_stream(stream: &Arc<CudaStream>, header: &Header, geometry: &Geometry) -> Result<Self> {
        let is_interpolated = header.pipeline == Pipeline::Quantized;
        let codes = (1..=LARGEST_SCHEME).filter(|_| is_interpolated);
        let schemes: Vec<Scheme> = codes.filter_map(|code| Scheme::from_code(code, geometry.axes())).collect();
        Self::new(stream, header.element_type.computed(), geometry, &schemes)
    }

    /// Returns the bytes of device memory that the plans take.
    pub fn bytes(&self) -> usize {
        let steps = match &self.steps {
            Steps::Float(steps) => size_of::<FloatStep>() * steps.len(),
            Steps::Double(steps) => size_of::<DoubleStep>() * steps.len(),
        };
        size_of::<PlanHead>() * self.heads.len()
            + size_of::<PlanPass>() * self.passes.len()
            + size_of::<u16>() * self.places.len()
            + steps
    }

    /// Returns the kernel's argument. It borrows nothing: `self` must be alive when the kernel runs.
    pub(crate) fn argument(&self, stream: &CudaStream) -> Plans {
        Plans {
            heads: self.heads.device_ptr(stream).0,
            passes: self.passes.device_ptr(stream).0,
            places: self.places.device_ptr(stream).0,
            steps: match &self.steps {
                Steps::Float(steps) => steps.device_ptr(stream).0,
                Steps::Double(steps) => steps.device_ptr(stream).0,
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

/// What plans are made for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Form {
    axes: usize,
    schemes: Vec<Scheme>,
    /// The extents of tiles that are clipped along each set of axes, with 0 along an axis if there are none.
    extents: [[usize; 3]; PLANS_OF_SCHEME],
}

impl Form {
    fn new(geometry: &Geometry, schemes: &[Scheme]) -> Self {
        let (dims, side) = (geometry.dims(), geometry.unclipped_extent());
        let extent = |clipped: usize, axis: usize| {
            let (length, side) = (dims[axis + 1], side[axis] as u64);
            let whole = if length < side { 0 } else { side };
            (if clipped >> (2 - axis) & 1 == 0 { whole } else { length % side }) as usize
        };
        let extents = std::array::from_fn(|clipped| std::array::from_fn(|axis| extent(clipped, axis)));
        Self { axes: geometry.axes(), schemes: schemes.to_vec(), extents }
    }
}

static RECENT_OF_FLOATS: RecentPlans<f32> = RecentPlans(Mutex::new(Vec::new()));
static RECENT_OF_DOUBLES: RecentPlans<f64> = RecentPlans(Mutex::new(Vec::new()));

/// The plans that were asked for last, at the end the very last ones: to make them takes longer than a small array.
struct RecentPlans<T>(Mutex<Vec<(Form, Arc<HostPlans<T>>)>>);

impl<T: Real> RecentPlans<T> {
    /// Most plans that are kept. They take up to a few hundred KiB each.
    const MOST: usize = 8;

    fn get(&self, form: &Form) -> Arc<HostPlans<T>> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (form, plans) = match recent.iter().position(|(known, _)| known == form) {
            Some(at) => recent.remove(at),
            None => (form.clone(), Arc::new(HostPlans::new(form))),
        };
        let first = (recent.len() + 1).saturating_sub(Self::MOST);
        recent.drain(..first);
        recent.push((form, plans.clone()));
        plans
    }
}

/// The plans before they are copied.
struct HostPlans<T> {
    heads: Vec<PlanHead>,
    passes: Vec<PlanPass>,
    places: Vec<u16>,
    /// Weights and places of neighbors, and the place of the point.
    steps: Vec<([T; 4], [u16; 4], u16)>,
}

impl<T: Real> HostPlans<T> {
    fn new(form: &Form) -> Self {
        let mut all = Self { heads: Vec::new(), passes: Vec::new(), places: Vec::new(), steps: Vec::new() };
        for code in 1..=LARGEST_SCHEME {
            let scheme = form.schemes.iter().find(|scheme| scheme.code() == code);
            for &extent in &form.extents {
                let scheme = scheme.filter(|_| !extent.contains(&0));
                let head = scheme.map(|&scheme| all.push(&Plan::new(scheme, extent, form.axes), extent));
                all.heads.push(head.unwrap_or_default());
            }
        }
        all
    }

    /// Appends the parts of a plan for tiles of these extents. Returns its head.
    fn push(&mut self, plan: &Plan<T>, extent: [usize; 3]) -> PlanHead {
        let mut head = PlanHead {
            first_anchor: self.places.len() as u32,
            first_anchor_code: (self.places.len() + plan.anchors().len()) as u32,
            anchors: plan.anchors().len() as u32,
            lattice: plan.lattice().map(|extent| extent as u32),
            first_pass: self.passes.len() as u32,
            passes: plan.passes().len() as u32,
            is_cubic: plan.is_cubic().into(),
        };
        self.places.extend(plan.anchors());
        self.places.extend(plan.anchor_codes());
        let mut rest = plan.points();
        for pass in plan.passes() {
            let (points, after) = rest.split_at(pass.lines * pass.points);
            rest = after;
            self.push_pass(pass, points, extent);
        }
        head.passes = self.passes.len() as u32 - head.first_pass;
        head
    }

    fn push_pass(&mut self, shape: &PassShape, points: &[Point<T>], extent: [usize; 3]) {
        let stride = [extent[1] * extent[2], extent[2], 1][shape.axis];
        let start_of = |point: &Point<T>| {
            let place = usize::from(point.place);
            (place - place / stride % extent[shape.axis] * stride) as u16
        };
        let groups = shape.points.div_ceil(COST_GROUP) as u32;
        let first_line = self.places.len();
        self.passes.push(PlanPass {
            lines: shape.lines as u32,
            points: shape.points as u32,
            groups,
            // Exact for the numbers of at most 4,096 groups: there are many groups in a line only if lines are few.
            by_groups: (1u32 << 20).div_ceil(groups),
            first_line: first_line as u32,
            first_code: (first_line + shape.lines) as u32,
            first_step: self.steps.len() as u32,
            unused: 0,
        });
        self.places.extend(points.iter().step_by(shape.points).map(start_of));
        self.places.extend(points.iter().map(|point| point.code));
        self.steps.extend(points[..shape.points].iter().map(|point| {
            let start = start_of(point);
            (point.weights, point.neighbors.map(|neighbor| neighbor - start), point.place - start)
        }));
    }

    fn copied(&self, stream: &Arc<CudaStream>, steps: Steps) -> Result<InterpolationPlans> {
        Ok(InterpolationPlans {
            heads: copied(stream, &self.heads)?,
            passes: copied(stream, &self.passes)?,
            places: copied(stream, &self.places)?,
            steps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_core::array::Shape;

    #[test]
    fn plans_of_a_form_are_made_once_while_they_are_recent() {
        let recent = RecentPlans::<f32>(Mutex::new(Vec::new()));
        let form = |extent: u64| {
            let geometry = Geometry::new(Shape::new(&[100, extent]).unwrap());
            Form::new(&geometry, &[Scheme::from_code(1, 2).unwrap()])
        };
        let first = recent.get(&form(100));
        // The tiles of both arrays have the same extents.
        assert!(Arc::ptr_eq(&first, &recent.get(&form(132))));
        let others: Vec<_> = (101..108).map(|extent| recent.get(&form(extent))).collect();
        assert!(others.iter().all(|other| !Arc::ptr_eq(&first, other)));
        // Asked for again, the first ones stay, and the second ones go.
        assert!(Arc::ptr_eq(&first, &recent.get(&form(100))));
        recent.get(&form(108));
        assert_eq!(recent.0.lock().unwrap().len(), RecentPlans::<f32>::MOST);
        assert!(Arc::ptr_eq(&first, &recent.get(&form(100))));
        assert!(!Arc::ptr_eq(&others[0], &recent.get(&form(101))));
    }

    #[test]
    fn numbers_of_groups_are_divided_exactly() {
        for (lines, points) in [(1, 4095), (1, 1), (64, 31), (64, 32), (256, 7), (4096, 1), (33, 16)] {
            let groups = usize::div_ceil(points, COST_GROUP) as u32;
            let by_groups = (1u32 << 20).div_ceil(groups);
            assert!((0..lines * groups).all(|number| (number * by_groups) >> 20 == number / groups));
        }
    }
}
