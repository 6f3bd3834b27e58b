//! Tables of the schemes of whole ordinary tiles. They are the same for all arrays, and are made once.

use std::sync::{Arc, LazyLock};

use cudarc::driver::{CudaSlice, CudaStream};

use super::{lines, points};
use crate::error::{CudaError, DriverContext, Result};

type Tables = LazyLock<Option<Vec<u32>>>;

static CUBES: Tables = LazyLock::new(lines::tables);
static SQUARES_OF_FLOATS: Tables = LazyLock::new(|| points::tables::<f32>(2));
static SQUARES_OF_DOUBLES: Tables = LazyLock::new(|| points::tables::<f64>(2));
static LINES_OF_FLOATS: Tables = LazyLock::new(|| points::tables::<f32>(1));
static LINES_OF_DOUBLES: Tables = LazyLock::new(|| points::tables::<f64>(1));

/// Returns the tables of all schemes for tiles that extend along `axes` axes, 1 to 3, and whose values have
/// `value_bytes` bytes, 4 or 8: those of [`lines::tables`] or of [`points::tables`].
///
/// # Errors
/// [`CudaError::InvalidArgument`] if a scheme has not the form that kernels need.
fn tables(axes: u32, value_bytes: u32) -> Result<&'static [u32]> {
    let tables = match (axes, value_bytes) {
        (3, _) => &CUBES,
        (2, 4) => &SQUARES_OF_FLOATS,
        (2, _) => &SQUARES_OF_DOUBLES,
        (_, 4) => &LINES_OF_FLOATS,
        _ => &LINES_OF_DOUBLES,
    };
    tables.as_deref().ok_or_else(|| CudaError::invalid("schemes are not as the kernels need them"))
}

/// Copies the tables of all schemes to the device, for tiles that extend along `axes` axes and whose values have
/// `value_bytes` bytes. Logarithms are not interpolated, and have one word instead.
///
/// # Errors
/// [`CudaError::InvalidArgument`] if a scheme has not the form that kernels need; [`CudaError::OutOfMemory`];
/// [`CudaError::Driver`].
pub fn copied(stream: &Arc<CudaStream>, axes: u32, value_bytes: u32, logarithm: bool) -> Result<CudaSlice<u32>> {
    let tables = if logarithm { &[0] } else { tables(axes, value_bytes)? };
    stream.clone_htod(tables).allocating(size_of_val(tables) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_all_whole_tiles_are_made() {
        for (axes, value_bytes) in [(1, 4), (1, 8), (2, 4), (2, 8), (3, 4), (3, 8)] {
            assert!(!tables(axes, value_bytes).unwrap().is_empty(), "{axes} axes, {value_bytes} bytes");
        }
    }
}
