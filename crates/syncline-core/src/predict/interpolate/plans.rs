//! Plans that are made once.

use std::collections::HashMap;

use super::{Plan, Scheme};
use crate::quantize::Real;

/// The plans of a stream's tiles, by scheme and extents. An array has at most eight kinds of clipped tiles.
#[derive(Debug)]
pub struct Plans<T> {
    axes: usize,
    by_extent: HashMap<(Scheme, [usize; 3]), Plan<T>>,
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
