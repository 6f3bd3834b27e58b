//! Error-bounded compression of whole fields on the CPU and on a GPU: measures ratio, quality and throughput, and
//! checks every round trip.

pub mod cpu;
pub mod cuda;
mod results;
mod sets;
pub mod tables;

pub use results::{Rate, Results, Row, Steps};
pub use sets::{Set, Values};

use anyhow::{Result, ensure};
use syncline::{ArrayView, Bound, Element};
use syncline_core::container::{HEADER_LEN, Header};
use syncline_cuda::cudarc::driver::DeviceRepr;

use crate::statistics::{errors, range};

/// An element type of a set.
trait Value: Element + DeviceRepr + Into<f64> {}

impl Value for f32 {}
impl Value for f64 {}

/// The quality of a decompressed array.
#[derive(Clone, Copy, Debug)]
struct Quality {
    /// The absolute bound of the stream.
    bound: f64,
    /// Largest error divided by the bound.
    error_over_bound: f64,
    /// Peak signal-to-noise ratio in dB, with the range of values as the peak.
    psnr: f64,
}

/// The original values, for checking decompressed ones.
struct Original<'v, T> {
    values: &'v [T],
    range: f64,
}

impl<'v, T: Value> Original<'v, T> {
    fn new(values: &'v [T]) -> Self {
        Self { values, range: range(values) }
    }

    /// Compares all values with the decompressed ones.
    ///
    /// # Errors
    /// An error exceeds the bound of the stream, or that bound exceeds the requested one.
    fn check(&self, relative: f64, header: &Header, back: &[T]) -> Result<Quality> {
        let (asked, bound) = (relative * self.range, header.abs_bound);
        // Computing the range may involve a rounding error, but no more.
        ensure!(bound <= asked * (1.0 + 1e-12), "the stream's bound is {bound}, asked for was {asked}");
        let found = errors(self.values, back);
        ensure!(
            found.worst <= bound,
            "the bound is broken: an error of {}, {} times the bound",
            found.worst,
            found.worst / bound
        );
        let error_over_bound = if found.worst > 0.0 { found.worst / bound } else { 0.0 };
        Ok(Quality { bound, error_over_bound, psnr: 20.0 * (self.range / found.mean_square.sqrt()).log10() })
    }
}

pub(crate) fn header_of(stream: &[u8]) -> Result<Header> {
    ensure!(stream.len() >= HEADER_LEN, "a stream of {} bytes has no header", stream.len());
    Ok(Header::parse(&stream[..HEADER_LEN])?)
}

/// Compresses on the CPU.
fn compress_on_cpu<T: Value>(set: &Set, values: &[T], relative: f64, threads: usize) -> Result<Vec<u8>> {
    let view = ArrayView::new(values, &set.extents)?;
    let options = syncline::CompressOptions::new(Bound::Rel(relative)).with_effort(syncline::Effort::Fast);
    Ok(syncline::compress(&view, &options.with_backend(syncline::Backend::Cpu).with_threads(threads))?)
}

/// Checks that two streams are equal.
fn ensure_same(found: &[u8], expected: &[u8], what: &str) -> Result<()> {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    let (lengths, at) = ((found.len(), expected.len()), differs.unwrap_or(found.len().min(expected.len())));
    ensure!(found == expected, "{what}: {} bytes, {} expected, which differ from byte {at} on", lengths.0, lengths.1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_bound_is_found() {
        let set = Set::generate("hurricane", Some(1)).unwrap();
        let Values::F32(values) = &set.values else { panic!("f32") };
        let stream = compress_on_cpu(&set, values, 1e-3, 1).unwrap();
        let header = header_of(&stream).unwrap();
        let mut back =
            syncline::decompress(&stream, &syncline::DecompressOptions::default()).unwrap().to_vec().unwrap();
        let original = Original::new(values);
        let quality = original.check(1e-3, &header, &back).unwrap();
        assert!(quality.error_over_bound > 0.5 && quality.error_over_bound <= 1.0, "{quality:?}");
        // Uniformly distributed errors would give 20 log10(sqrt(3) 1000).
        assert!((64.0..100.0).contains(&quality.psnr), "{quality:?}");
        assert!(original.check(1e-4, &header, &back).is_err(), "a looser bound than was asked for");
        back[7] += 3.0 * header.abs_bound as f32;
        let error = original.check(1e-3, &header, &back).unwrap_err().to_string();
        assert!(error.contains("broken"), "{error}");
        back[7] = f32::NAN;
        assert!(original.check(1e-3, &header, &back).is_err());
    }

    #[test]
    fn other_streams_are_found() {
        assert!(ensure_same(&[1, 2], &[1, 2], "x").is_ok());
        assert!(ensure_same(&[1, 2], &[1, 3], "x").unwrap_err().to_string().contains("byte 1 on"));
        assert!(ensure_same(&[1, 2], &[1], "x").unwrap_err().to_string().contains("byte 1 on"));
        assert!(header_of(&[0; 3]).is_err());
    }
}
