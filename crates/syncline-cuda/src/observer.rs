//! The callback with which benches record events.

use crate::error::Result;

/// A callback that receives a kernel's name after each launch, or after each group of launches.
pub type Observer<'o> = dyn FnMut(&'static str) -> Result<()> + 'o;
