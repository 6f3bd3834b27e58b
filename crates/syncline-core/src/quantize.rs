//! Quantization: floating-point values to integers and back, with the error of every value checked.

pub mod fill;
pub mod linear;
pub mod log;
pub mod mask;
pub mod math;
mod real;
pub(crate) mod select;
pub mod step;
pub mod stored;
pub mod value_range;

pub use linear::Linear;
pub use log::Log;
pub use real::Real;
pub use stored::Stored;
