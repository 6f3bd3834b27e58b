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
    /// Most plans that are kept. A stream has at most eight for each scheme.
    const MOST: usize = 64;

    /// Returns no plans yet, for tiles that extend along `axes` axes.
    pub fn new(axes: usize) -> Self {
        Self { axes, by_extent: HashMap::new() }
    }

    /// Makes these the plans for tiles that extend along `axes` axes. Those of earlier chunks are kept, unless they are
    /// of another number of axes or too many: making one takes as long as coding several tiles.
    pub fn prepare(&mut self, axes: usize) {
        if self.axes != axes || self.by_extent.len() > Self::MOST {
            *self = Self::new(axes);
        }
    }

    /// Returns the plan for tiles of these extents.
    pub fn get(&mut self, scheme: Scheme, extent: [usize; 3]) -> &Plan<T> {
        let axes = self.axes;
        self.by_extent.entry((scheme, extent)).or_insert_with(|| Plan::new(scheme, extent, axes))
    }
}
