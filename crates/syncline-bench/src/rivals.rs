//! Codecs to compare, ours among them, behind one trait.

mod blosc2;
mod syncline;
mod sz3;
mod worker;

#[cfg(feature = "rivals")]
mod pcodec;
#[cfg(feature = "rivals")]
mod zstandard;

use std::time::Instant;

use anyhow::Result;

use crate::fields::Field;

pub use self::blosc2::{Blosc2, SETTINGS as BLOSC2_SETTINGS, Setting as Blosc2Setting};
pub use self::syncline::Syncline;
pub use sz3::{Algorithm, Sz3};

#[cfg(feature = "rivals")]
pub use {pcodec::Pcodec, zstandard::Zstandard};

/// A result and the time it took.
#[derive(Clone, Debug)]
pub struct Timed<T> {
    /// What was made.
    pub value: T,
    /// Wall-clock seconds that making it took.
    pub seconds: f64,
}

impl<T> Timed<T> {
    /// Runs and times `make`.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn run(make: impl FnOnce() -> Result<T>) -> Result<Self> {
        let start = Instant::now();
        let value = make()?;
        Ok(Self { value, seconds: start.elapsed().as_secs_f64() })
    }
}

/// A codec of 32-bit floating-point fields.
///
/// Times are the codec's own: a rival that runs in another process leaves out what carrying the data there takes.
pub trait Rival {
    /// Name in tables.
    fn name(&self) -> String;

    /// Whether values come back exactly, so that the bound changes nothing.
    fn is_lossless(&self) -> bool {
        false
    }

    /// Whether the codec can use more than one thread.
    fn is_parallel(&self) -> bool {
        false
    }

    /// Compresses a field so that no value is off by more than `bound`.
    ///
    /// # Errors
    /// The codec refuses or fails.
    fn compress(&mut self, field: &Field, bound: f64, threads: usize) -> Result<Timed<Vec<u8>>>;

    /// Decompresses what `compress` made of `field` (which serves for its extents alone).
    ///
    /// # Errors
    /// The codec refuses or fails.
    fn decompress(&mut self, stream: &[u8], field: &Field, threads: usize) -> Result<Timed<Vec<f32>>>;
}

/// Our codec, then every rival that this build and machine have, and a line on each that they have not.
pub fn available(python: &str) -> (Vec<Box<dyn Rival>>, Vec<String>) {
    let mut rivals: Vec<Box<dyn Rival>> = vec![Box::new(Syncline)];
    let mut missing = Vec::new();
    for algorithm in [Algorithm::Default, Algorithm::LorenzoRegression] {
        match Sz3::start(python, algorithm) {
            Ok(rival) => rivals.push(Box::new(rival)),
            Err(error) => missing.push(format!("{}: {error:#}", algorithm.name())),
        }
    }
    #[cfg(feature = "rivals")]
    rivals.extend([Box::new(Pcodec) as Box<dyn Rival>, Box::new(Zstandard { level: 3 })]);
    #[cfg(not(feature = "rivals"))]
    missing.push("pcodec, zstd: build with --features rivals".to_owned());
    (rivals, missing)
}
