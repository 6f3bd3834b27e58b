//! Arrays and checks that several test files use.
#![allow(dead_code)]

use syncline::{Array, ArrayView, Bound, CompressOptions, DecompressOptions, Element, compress, decompress};

/// A small deterministic generator, so that a failing test can be run again.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A smooth field with a little noise.
pub fn smooth(extents: &[u64], seed: u64) -> Vec<f64> {
    let mut rng = Rng(seed);
    let count: u64 = extents.iter().product();
    let (a, b) = (rng.unit() * 0.3, rng.unit() * 0.02);
    (0..count)
        .map(|i| {
            let x = i % extents.last().copied().unwrap_or(1).max(1);
            (x as f64 * a).sin() * 10.0 + (i as f64 * b).cos() * 3.0 + rng.unit() * 0.01
        })
        .collect()
}

/// Element types that can be lossy.
pub trait Real: Element + PartialEq {
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn bits(self) -> u64;
}

impl Real for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Real for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// Compresses, decompresses, and checks the promise of the bound for every value: exact arithmetic, no tolerance.
pub fn check_bound<T: Real>(values: &[T], extents: &[u64], options: &CompressOptions) -> (Vec<u8>, Array) {
    let view = ArrayView::new(values, extents).unwrap();
    let stream = compress(&view, options).unwrap();
    let report = syncline::inspect(&stream).unwrap();
    assert_eq!(report.compressed_bytes, stream.len() as u64);
    assert!(stream.len() as u64 <= syncline::compress_bound(T::TYPE, view.shape()));
    let array = decompress(&stream, &DecompressOptions::default()).unwrap();
    let back = array.to_vec::<T>().unwrap();
    assert_eq!((back.len(), array.shape()), (values.len(), view.shape()));
    for (i, (&x, &y)) in values.iter().zip(&back).enumerate() {
        let value = x.to_f64();
        let exact = !value.is_finite() || (value == 0.0 && value.is_sign_negative());
        let error = (value - y.to_f64()).abs();
        let held = match options.bound() {
            _ if exact => x.bits() == y.bits(),
            Bound::Lossless => x.bits() == y.bits(),
            Bound::PwRel(r) => error <= r * value.abs() && (value < 0.0) == (y.to_f64() < 0.0),
            Bound::Abs(bound) => error <= bound,
            _ => error <= report.abs_bound,
        };
        assert!(
            held,
            "element {i}: {value:e} came back as {:e}, error {error:e}, bound {:e}",
            y.to_f64(),
            report.abs_bound
        );
    }
    (stream, array)
}

/// Recomputes the checksums of the header and the chunk table, and every checksum that the table still leads to.
pub fn repair_checksums(stream: &mut [u8]) {
    use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};
    let header = xxh3_64(&stream[..128]);
    stream[128..136].copy_from_slice(&header.to_le_bytes());
    let end = stream.len();
    let word = |s: &[u8], at: usize| u64::from_le_bytes(s[at..at + 8].try_into().unwrap());
    let (table, count) = (word(stream, end - 32) as usize, word(stream, end - 24) as usize);
    let Some(lengths) = table.checked_add(count.saturating_mul(4)).and_then(|e| stream.get(table..e)) else { return };
    let lengths: Vec<usize> =
        lengths.chunks_exact(4).map(|l| u32::from_le_bytes(l.try_into().unwrap()) as usize).collect();
    let mut hash = Xxh3Default::new();
    hash.update(&stream[table..table + count * 4]);
    hash.update(&stream[end - 32..end - 16]);
    // Ties the records to the header.
    hash.update(&header.to_le_bytes());
    let sum = hash.digest();
    stream[end - 16..end - 8].copy_from_slice(&sum.to_le_bytes());
    let mut at = 144usize;
    for length in lengths {
        let Some(record) = at.checked_add(length).and_then(|e| stream.get_mut(at..e)) else { return };
        if length < 32 {
            return;
        }
        let mut hash = Xxh3Default::new();
        hash.update(&record[..24]);
        hash.update(&record[32..]);
        let sum = hash.digest();
        record[24..32].copy_from_slice(&sum.to_le_bytes());
        at += length;
    }
}
