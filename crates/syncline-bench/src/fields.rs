//! Generators of fields that resemble the eight data sets of the papers, at any size.
//!
//! Each generator models the physics of its original with a few constants. These are tuned so that the Huffman-coded
//! quantization codes at a relative bound of 1e-3 have about the compression ratio that the papers report. Values
//! depend on the seed and the position only, so that the field does not depend on the number of threads.

pub mod gaussian;

mod cesm;
mod exaalt;
mod gamess;
mod hacc;
mod hurricane;
mod nyx;
mod qmcpack;
mod rtm;
mod turbulence;

use clap::ValueEnum;
use rayon::prelude::*;

/// A generated array in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the generator, as on the command line.
    pub name: String,
    /// Values of the field.
    pub values: Vec<f32>,
    /// Extents, slowest axis first.
    pub extents: Vec<usize>,
    /// Number of the fastest axes over which the papers predict this field: 1 or 3.
    pub lorenzo_rank: usize,
}

impl Field {
    fn new(name: Generator, values: Vec<f32>, extents: &[usize], lorenzo_rank: usize) -> Self {
        debug_assert_eq!(values.len(), extents.iter().product::<usize>());
        let name = name.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        Self { name, values, extents: extents.to_vec(), lorenzo_rank }
    }

    /// Returns the difference between the largest and the smallest finite value; 0 if there is none.
    pub fn range(&self) -> f64 {
        crate::statistics::range(self.values.par_iter().map(|&value| value.into()))
    }
}

/// The generator of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Generator {
    /// Baryon density of a cosmological simulation, 512x512x512: log-normal with a long tail.
    Nyx,
    /// Cloud condensate of a hurricane, 100x500x500: zero outside of clouds, turbulent inside.
    Hurricane,
    /// Cloud fraction of a climate model, 26x1800x3600: zonal bands, fronts, clear sky.
    Cesm,
    /// A snapshot of a seismic wave, 449x449x235, by solving the wave equation.
    Rtm,
    /// Particle velocities of an N-body simulation, 280,953,867 values.
    Hacc,
    /// Particle positions of the same simulation.
    Haccx,
    /// Orbitals of a quantum Monte Carlo run, 288x115x69x69.
    Qmcpack,
    /// Atom positions of a molecular-dynamics run in copper, 2338 frames of 106,711.
    Exaalt,
    /// Two-electron integrals of a quantum-chemistry run, 80,265,168 values.
    Gamess,
    /// A turbulent field with Kolmogorov's spectrum, 64x512x512.
    Turbulence,
}

impl Generator {
    /// Returns the ratio of 16-bit codes to their Huffman codes that the papers report for the original at a relative
    /// bound of 1e-3.
    pub const fn paper_ratio(self) -> Option<f64> {
        match self {
            Self::Nyx => Some(15.6),
            Self::Hurricane => Some(9.8),
            Self::Cesm => Some(9.1),
            Self::Rtm => Some(8.4),
            Self::Hacc => Some(3.2),
            Self::Qmcpack => Some(2.46),
            Self::Exaalt => Some(2.4),
            Self::Gamess => Some(12.1),
            Self::Haccx | Self::Turbulence => None,
        }
    }

    /// Returns the number of values of the field at full scale.
    pub const fn elements(self) -> usize {
        match self {
            Self::Nyx => 512 * 512 * 512,
            Self::Hurricane => 100 * 500 * 500,
            Self::Cesm => 26 * 1800 * 3600,
            Self::Rtm => 449 * 449 * 235,
            Self::Hacc | Self::Haccx => hacc::PARTICLES,
            Self::Qmcpack => 288 * 115 * 69 * 69,
            Self::Exaalt => 2338 * 106_711,
            Self::Gamess => 80_265_168,
            Self::Turbulence => 64 * 512 * 512,
        }
    }

    /// Generates the field. `scale` multiplies each side of the original (so 0.5 gives an eighth of the data); sides
    /// have a minimum length.
    pub fn generate(self, scale: f64) -> Field {
        match self {
            Self::Nyx => nyx::density(scale),
            Self::Hurricane => hurricane::condensate(scale),
            Self::Cesm => cesm::cloud(scale),
            Self::Rtm => rtm::snapshot(scale),
            Self::Hacc => hacc::velocities(scale),
            Self::Haccx => hacc::positions(scale),
            Self::Qmcpack => qmcpack::orbitals(scale),
            Self::Exaalt => exaalt::positions(scale),
            Self::Gamess => gamess::integrals(scale),
            Self::Turbulence => turbulence::velocity(scale),
        }
    }
}

/// Returns the length of a side of `full` at a scale: a multiple of `step`, and at least `step`.
fn side(full: usize, scale: f64, step: usize) -> usize {
    let steps = (full as f64 * scale / step as f64).round_ties_even() as usize;
    steps.max(1) * step
}

/// Returns a number of values that is proportional to the volume, at least 1.
fn volume(full: usize, scale: f64) -> usize {
    ((full as f64 * scale.powi(3)) as usize).max(1)
}
