//! Interpolation of a block from coarse lattices to fine ones (`docs/FORMAT.md`, "Blocks").
//!
//! The elements of a block whose coordinates are even form the lattice of the next level, and so on, until a single
//! element is left, or one of each slice. The others of a level fall into up to seven classes by the axes along which
//! their coordinates are odd. Each class is stored on its own, so that all neighbors of a row of a class are rows of
//! other classes.

mod classes;
mod interpolate;

pub use classes::{Classes, Level, PASSES, coarser, join, joined, levels_of, take_row};
pub use interpolate::predict_row;
