//! Codecs to compare, including Syncline, behind one trait.

mod blosc2;
mod syncline;
mod sz3;
mod worker;
mod zfp;

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
pub use zfp::Zfp;

#[cfg(feature = "rivals")]
pub use {pcodec::Pcodec, zstandard::Zstandard};

/// A result and the time it took.
#[derive(Clone, Debug)]
pub struct Timed<T> {
    /// The result.
    pub value: T,
    /// Elapsed seconds.
    pub seconds: f64,
}

impl<T> Timed<T> {
    /// Runs and times `make`.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn run(make: impl FnOnce() -> Result<T>) -> Result<Self> {
        let start = Instant::now();
        let value = make()?;
        Ok(Self { value, seconds: start.elapsed().as_secs_f64() })
    }
}

/// A codec of fields of 32-bit floats.
///
/// Times are those of the codec itself: for a codec that runs in another process, they do not include transferring the
/// data.
pub trait Rival {
    /// Returns the name of the codec in tables.
    fn name(&self) -> String;

    /// Returns whether the codec is lossless, so that it ignores the bound.
    fn is_lossless(&self) -> bool {
        false
    }

    /// Returns whether the codec can use several threads.
    fn is_parallel(&self) -> bool {
        false
    }

    /// Compresses a field with an absolute error of at most `bound` for every value.
    ///
    /// # Errors
    /// The codec rejects the input or fails.
    fn compress(&mut self, field: &Field, bound: f64, threads: usize) -> Result<Timed<Vec<u8>>>;

    /// Decompresses a stream that `compress` returned for `field`, which is only used for its extents.
    ///
    /// # Errors
    /// The codec rejects the stream or fails.
    fn decompress(&mut self, stream: &[u8], field: &Field, threads: usize) -> Result<Timed<Vec<f32>>>;
}

/// The type of an array for a codec that runs in Python.
#[derive(Clone, Copy, Debug)]
pub struct ArrayType<'a> {
    /// NumPy's name of the element type: `<f4` or `<f8`.
    pub element: &'a str,
    /// Extents, slowest axis first.
    pub extents: &'a [usize],
}

/// A codec of arrays of 32-bit and 64-bit floats.
pub trait ArrayCodec {
    /// Compresses the bytes of an array with an absolute error of at most `bound`.
    ///
    /// # Errors
    /// The codec rejects the input or fails.
    fn compress_array(&mut self, array: ArrayType, bytes: &[u8], bound: f64) -> Result<Timed<Vec<u8>>>;

    /// Decompresses a stream that [`Self::compress_array`] returned.
    ///
    /// # Errors
    /// The codec rejects the stream or fails.
    fn decompress_array(&mut self, array: ArrayType, stream: &[u8]) -> Result<Timed<Vec<u8>>>;
}

/// Returns Syncline and all other codecs that are available, and a message for each one that is not.
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
