//! Plans that are made once.

use std::any::Any;
use std::collections::HashMap;

use super::{Plan, Scheme};
use crate::quantize::Real;

/// The plans of a stream's tiles, by scheme and extents. An array has at most eight kinds of clipped tiles.
#[derive(Debug)]
pub struct Plans<T> {
    axes: usize,
    by_extent: HashMap<(Scheme, [usize; 3]), Plan<T>>,
}

/// Plans of one element type that are kept from chunk to chunk: making one takes as long as coding several tiles.
#[derive(Debug, Default)]
pub struct KeptPlans(Option<Box<dyn Any + Send + Sync>>);

impl KeptPlans {
    /// Most plans that are kept. A stream has at most eight for each scheme.
    const MOST: usize = 64;

    /// Takes the plans that were kept, or none yet if these are of another type or number of axes.
    pub fn take<T: Real>(&mut self, axes: usize) -> Plans<T> {
        let kept = self.0.take().and_then(|kept| kept.downcast::<Plans<T>>().ok());
        let fits = |plans: &Plans<T>| plans.axes == axes && plans.by_extent.len() <= Self::MOST;
        kept.map(|kept| *kept).filter(fits).unwrap_or_else(|| Plans::new(axes))
    }

    /// Keeps plans.
    pub fn keep<T: Real>(&mut self, plans: Plans<T>) {
        self.0 = Some(Box::new(plans));
    }
}

impl<T: Real> Plans<T> {
    /// Returns no plans yet, for tiles that extend along `axes` axes.
    pub fn new(axes: usize) -> Self {
        Self { axes, by_extent: HashMap::new() }
    }

    /// Returns the plan for tiles of these extents.
    pub fn get(&mut self, scheme: Scheme, extent: [usize; 3]) -> &Plan<T> {
        let axes = self.axes;
        self.by_extent.entry((scheme, extent)).or_insert_with(|| Plan::new(scheme, extent, axes))
    }
}
