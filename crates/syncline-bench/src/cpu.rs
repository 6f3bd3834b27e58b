//! Measures codecs on arrays in host memory. The codecs take turns, so that other work on the machine slows all of
//! them.

use anyhow::{Context, Result};
use syncline::{ArrayView, Backend, Bound, CompressOptions, Effort};
use syncline_cuda::timing::Times;

use crate::array::Array;
use crate::check::{Promise, ensure_same};
use crate::clock::Clock;
use crate::codec::Codec;
use crate::record::{Record, Records, bound_text};

/// How codecs are measured.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Number of timed runs in each direction, after one that is not counted.
    pub runs: usize,
    /// The kind of time.
    pub clock: Clock,
}

/// What has been measured of a codec so far.
#[derive(Default)]
struct Progress {
    stream: Vec<u8>,
    back: Vec<u8>,
    error: Option<f64>,
    compress: Vec<f64>,
    decompress: Vec<f64>,
}

/// Measures every codec on an array, with a relative bound, or without loss. All runs of compression come first,
/// because the memory that a codec frees determines whether the next one gets new memory.
///
/// A codec of another project that fails is left out with a message, because some refuse some arrays.
///
/// # Errors
/// The output cannot be written. Failures of Syncline are counted.
pub fn measure(
    bench: &str,
    codecs: &mut [Codec],
    array: &Array,
    relative: Option<f64>,
    method: Method,
    records: &mut Records,
) -> Result<()> {
    let case = match Case::new(array, relative) {
        Ok(case) => case,
        Err(error) => return records.add_or_complain(Err(error)),
    };
    let mut all: Vec<Result<Progress>> = codecs.iter().map(|_| Ok(Progress::default())).collect();
    for step in [Case::compress, Case::decompress] {
        for run in 0..=method.runs.max(1) {
            for (codec, progress) in codecs.iter_mut().zip(&mut all) {
                let Ok(so_far) = progress else { continue };
                if let Err(error) = step(&case, codec, so_far, run, method.clock) {
                    *progress = Err(error);
                }
            }
        }
    }
    for (codec, progress) in codecs.iter().zip(all) {
        let name = || format!("{} {} on {} at {}", codec.name, codec.options, array.name, bound_text(relative));
        match progress.with_context(name) {
            Err(error) if !codec.is_ours() => eprintln!("left out: {error:#}"),
            progress => records.add_or_complain(progress.map(|progress| case.records(bench, codec, progress)))?,
        }
    }
    Ok(())
}

/// An array with a bound.
struct Case<'a> {
    array: &'a Array,
    /// The array for codecs without masks.
    filled: Option<Array>,
    relative: Option<f64>,
    promise: Option<Promise>,
}

impl<'a> Case<'a> {
    fn new(array: &'a Array, relative: Option<f64>) -> Result<Self> {
        let Some(bound) = relative else {
            return Ok(Self { array, filled: None, relative, promise: None });
        };
        // What the bound is, and which values stay exact, does not depend on the effort.
        let options = CompressOptions::new(Bound::Rel(bound)).with_effort(Effort::Fast).with_backend(Backend::Cpu);
        let view = ArrayView::from_bytes(&array.bytes, array.element, array.shape()?)?;
        let promise = Promise::of(&syncline::compress(&view, &options)?)?;
        Ok(Self { array, filled: Some(promise.without_fill(array)), relative, promise: Some(promise) })
    }

    /// Returns the array and the bound that a codec gets.
    fn of(&self, codec: &Codec) -> (&Array, Bound) {
        match (&self.filled, &self.promise, self.relative) {
            (_, Some(_), Some(relative)) if codec.is_ours() => (self.array, Bound::Rel(relative)),
            (Some(filled), Some(promise), _) => (filled, Bound::Abs(promise.bound)),
            _ => (self.array, Bound::Lossless),
        }
    }

    fn compress(&self, codec: &mut Codec, so_far: &mut Progress, run: usize, clock: Clock) -> Result<()> {
        let (array, bound) = self.of(codec);
        let made = (codec.compress)(array, bound, clock)?;
        if run > 0 {
            ensure_same(&made.bytes, &so_far.stream, "the stream of another run")?;
            so_far.compress.push(made.seconds);
        }
        so_far.stream = made.bytes;
        Ok(())
    }

    fn decompress(&self, codec: &mut Codec, so_far: &mut Progress, run: usize, clock: Clock) -> Result<()> {
        let (array, _) = self.of(codec);
        let seconds = (codec.decompress)(array, &so_far.stream, &mut so_far.back, clock)?;
        if run > 0 {
            so_far.decompress.push(seconds);
            return Ok(());
        }
        match (&self.promise, self.relative) {
            (Some(_), Some(relative)) if codec.is_ours() => {
                so_far.error = Some(Promise::of(&so_far.stream)?.check(array, relative, &so_far.back)?);
            }
            (Some(promise), _) => so_far.error = Some(promise.error(array, &so_far.back)),
            _ => ensure_same(&so_far.back, &array.bytes, "the decompressed array")?,
        }
        Ok(())
    }

    fn records(&self, bench: &str, codec: &Codec, progress: Progress) -> Vec<Record> {
        let record = Record {
            bench: bench.to_owned(),
            device: codec.device.clone(),
            field: self.array.name.clone(),
            element: self.array.element.to_string(),
            shape: self.array.shape_text(),
            bound: bound_text(self.relative),
            codec: codec.name.clone(),
            options: codec.options.clone(),
            bytes: self.array.bytes.len() as u64,
            stream_bytes: Some(progress.stream.len() as u64),
            error: progress.error,
            ..Record::default()
        };
        let timed = |what, seconds| record.clone().timed(what, &Times::new(seconds), None);
        vec![timed("compress", progress.compress), timed("decompress", progress.decompress)]
    }
}
