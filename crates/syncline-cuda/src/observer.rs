//! The callback that benches record events with.

use crate::error::Result;

/// Called with a kernel's name after each launch, or after each group of launches.
pub type Observer<'o> = dyn FnMut(&'static str) -> Result<()> + 'o;
