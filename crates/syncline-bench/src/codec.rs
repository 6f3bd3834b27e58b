//! Codecs of arrays in host memory: Syncline, and those of other projects.

#[cfg(feature = "rivals")]
mod compiled;
mod ours;
mod worker;

use anyhow::Result;
use syncline::Bound;

use crate::array::Array;
use crate::clock::{Clock, Stopwatch};

pub use ours::{Variant, efforts, lossless_variants, ours, ratio_variants};

/// Compresses an array with a bound, and returns the stream.
type Compress = Box<dyn FnMut(&Array, Bound, Clock) -> Result<Timed>>;
/// Decompresses a stream of an array with these extents into memory, and returns seconds.
type Decompress = Box<dyn FnMut(&Array, &[u8], &mut Vec<u8>, Clock) -> Result<f64>>;

/// A stream or an array, and the seconds that it took. For a codec that runs in another process, they do not include
/// transferring the data.
pub struct Timed {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Seconds.
    pub seconds: f64,
}

impl Timed {
    /// Runs and times `make`.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn run(clock: Clock, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Self> {
        let watch = Stopwatch::start(clock);
        let bytes = make()?;
        Ok(Self { bytes, seconds: watch.seconds() })
    }
}

/// A codec with its options.
pub struct Codec {
    /// Name in records.
    pub name: String,
    /// Options in records.
    pub options: String,
    /// The device in records.
    pub device: String,
    /// Compresses. Codecs of other projects get an absolute bound.
    pub compress: Compress,
    /// Decompresses.
    pub decompress: Decompress,
}

impl Codec {
    /// Returns whether this is Syncline, whose failures are errors.
    pub fn is_ours(&self) -> bool {
        self.name == ours::NAME
    }

    /// Returns a codec of another project, on one thread.
    fn other(
        name: &str,
        options: &str,
        mut compress: impl FnMut(&Array, Option<f64>, Clock) -> Result<Timed> + 'static,
        mut decompress: impl FnMut(&Array, &[u8], Clock) -> Result<Timed> + 'static,
    ) -> Self {
        let absolute = |bound| if let Bound::Abs(bound) = bound { Some(bound) } else { None };
        Self {
            name: name.to_owned(),
            options: options.to_owned(),
            device: threads_text(1),
            compress: Box::new(move |array, bound, clock| compress(array, absolute(bound), clock)),
            decompress: Box::new(move |array, stream, out, clock| {
                let Timed { bytes, seconds } = decompress(array, stream, clock)?;
                *out = bytes;
                Ok(seconds)
            }),
        }
    }
}

/// Returns the name of so many threads of the CPU in records; 0 stands for all.
fn threads_text(threads: usize) -> String {
    let threads = if threads == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { threads };
    format!("cpu, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// Returns the error-bounded codecs of other projects that this Python interpreter has, and a message for each that it
/// lacks.
pub fn lossy_rivals(python: &str) -> (Vec<Codec>, Vec<String>) {
    worker::start_all(
        python,
        &[
            // Interpolation, or Lorenzo prediction where SZ3 estimates that to be better: its default.
            ("SZ3", "interpolation (default)", "sz3", "INTERP_LORENZO"),
            ("SZ3", "interpolation alone", "sz3", "INTERP"),
            ("SZ3", "Lorenzo-regression", "sz3", "LORENZO_REG"),
            ("zfp", "", "zfp", ""),
        ],
    )
}

/// Returns the error-bounded codecs of other projects whose streams can be read in parts, and a message for each that
/// this Python interpreter lacks.
pub fn fixed_rate_rivals(python: &str) -> (Vec<Codec>, Vec<String>) {
    worker::start_all(python, &[("zfp", "fixed rate", "zfp_fixed_rate", "")])
}

/// Returns the lossless codecs of other projects: those that are compiled in, and those that this Python interpreter
/// has; and a message for each that is missing.
pub fn lossless_rivals(python: &str) -> (Vec<Codec>, Vec<String>) {
    let (mut found, mut missing) = worker::start_all(
        python,
        &[
            ("Blosc2", "shuffle, zstd 1", "blosc2", "ZSTD 1"),
            ("Blosc2", "shuffle, lz4 5", "blosc2", "LZ4 5"),
            ("ZipNN", "", "zipnn", ""),
            ("zfp", "lossless", "zfp", ""),
        ],
    );
    #[cfg(feature = "rivals")]
    found.extend(compiled::all());
    if cfg!(not(feature = "rivals")) {
        missing.push("pcodec, zstd, lz4: build with --features rivals".to_owned());
    }
    found.sort_by_key(|codec| codec.name.starts_with("zfp"));
    (found, missing)
}
