//! Chunks that are written in parts, at the ends of arrays, of other shapes than declared, and rewritten while they are
//! read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use syncline::{ArrayView, Bound, CompressOptions, compress};
use syncline_zarrs::{SynclineCodec, SynclineConfiguration};
use zarrs::array::{Array, ArrayBuilder, ArraySubset, data_type};
use zarrs::storage::byte_range::ByteRangeIterator;
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{Bytes, MaybeBytesIterator, ReadableStorageTraits, StorageError, StoreKey, WritableStorageTraits};

/// Returns an array of `float32` in a store, with its metadata stored.
fn array(shape: &[u64], chunks: &[u64], settings: SynclineConfiguration) -> (Arc<MemoryStore>, Array<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    let mut builder = ArrayBuilder::new(shape.to_vec(), chunks.to_vec(), data_type::float32(), 0.0f32);
    let codec = Arc::new(SynclineCodec::with_configuration(settings).unwrap());
    builder.array_to_bytes_codec(codec).bytes_to_bytes_codecs(vec![]);
    let array = builder.build(store.clone(), "/a").unwrap();
    array.store_metadata().unwrap();
    (store, array)
}

/// Returns a number from 0 to 1 that has nothing to do with those before.
fn noise(at: u64) -> f32 {
    let mixed = (at ^ (at >> 3)).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 40) as f32 / (1u32 << 24) as f32
}

fn largest_error(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs()).fold(0.0, f64::max)
}

#[test]
fn slices_written_one_by_one_keep_the_bound_unless_chunks_are_not_rewritable() {
    let value = |k: usize, y: usize, x: usize| {
        let noise = noise((k * 1600 + y * 40 + x) as u64);
        let (k, y, x) = (k as f32, y as f32, x as f32);
        280.0 + 10.0 * (y / 9.0 + k / 3.0).sin() * (x / 7.0).cos() + 0.05 * noise
    };
    let errors = [true, false].map(|rewritable| {
        let mut settings = SynclineConfiguration::new(Bound::Abs(0.01));
        assert!(settings.rewritable);
        settings.rewritable = rewritable;
        let (_, array) = array(&[16, 40, 40], &[16, 40, 40], settings);
        let mut field = Vec::new();
        for k in 0..16 {
            let slice: Vec<f32> = (0..1600).map(|at| value(k, at / 40, at % 40)).collect();
            let region = ArraySubset::new_with_ranges(&[k as u64..k as u64 + 1, 0..40, 0..40]);
            array.store_array_subset(&region, &slice).unwrap();
            field.extend(slice);
        }
        let back: Vec<f32> = array.retrieve_array_subset(&array.subset_all()).unwrap();
        largest_error(&field, &back)
    });
    assert!(errors[0] <= 0.01 && errors[1] > 0.01, "{errors:?}");
}

#[test]
fn padding_of_edge_chunks_does_not_count_in_the_range() {
    let field: Vec<f32> = (0..60 * 50).map(|at| 100.0 + 26.0 * noise(at)).collect();
    for bound in [Bound::Rel(1e-3), Bound::Psnr(60.0)] {
        let (_, array) = array(&[60, 50], &[40, 40], SynclineConfiguration::new(bound));
        array.store_array_subset(&array.subset_all(), &field).unwrap();
        for (rows, columns) in [(0..40, 0..40), (40..60, 0..40), (0..40, 40..50), (40..60, 40..50)] {
            let region = ArraySubset::new_with_ranges(&[rows.clone(), columns.clone()]);
            let back: Vec<f32> = array.retrieve_array_subset(&region).unwrap();
            let at = |row: u64| (row * 50 + columns.start) as usize..(row * 50 + columns.end) as usize;
            let values: Vec<f32> = rows.flat_map(|row| field[at(row)].to_vec()).collect();
            let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(l, h), &v| (l.min(v), h.max(v)));
            let allowed = 1e-3 * (f64::from(high) - f64::from(low));
            let error = match bound {
                Bound::Rel(_) => largest_error(&values, &back),
                _ => {
                    let squares = values.iter().zip(&back).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2));
                    (squares.sum::<f64>() / values.len() as f64).sqrt()
                }
            };
            assert!(error <= allowed, "{bound:?}: {error} instead of {allowed}");
        }
    }
}

#[test]
fn streams_of_another_shape_than_the_chunk_are_refused() {
    let (store, array) = array(&[64, 64], &[64, 64], SynclineConfiguration::new(Bound::Abs(0.01)));
    let key = StoreKey::new("a/c/0/0").unwrap();
    let ones = vec![1f32; 64 * 64];
    let options = CompressOptions::new(Bound::Abs(0.01));
    for shape in [&[4, 1024][..], &[64, 32, 2], &[2, 4, 8, 64]] {
        store.set(&key, Bytes::from(compress(&ArrayView::new(&ones, shape).unwrap(), &options).unwrap())).unwrap();
        for region in [array.subset_all(), ArraySubset::new_with_ranges(&[3..5, 6..9])] {
            let error = array.retrieve_array_subset::<Vec<f32>>(&region).unwrap_err().to_string();
            assert!(error.contains("not f32 of shape 64x64"), "{error}");
        }
    }
    // Filters of numcodecs leave the elements without their shape.
    store.set(&key, Bytes::from(compress(&ArrayView::new(&ones, &[4096]).unwrap(), &options).unwrap())).unwrap();
    for region in [array.subset_all(), ArraySubset::new_with_ranges(&[3..5, 6..9])] {
        assert!(array.retrieve_array_subset::<Vec<f32>>(&region).unwrap().iter().all(|value| *value == 1.0));
    }
}

/// A store whose chunk is rewritten after each request, as another process might do.
#[derive(Debug)]
struct Rewriting {
    inner: Arc<MemoryStore>,
    streams: Vec<Vec<u8>>,
    requests: AtomicUsize,
}

impl ReadableStorageTraits for Rewriting {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let pieces = self.inner.get_partial_many(key, ranges)?;
        let pieces: Option<Vec<_>> = pieces.map(Iterator::collect);
        if !key.as_str().ends_with("json") {
            let turn = self.requests.fetch_add(1, Ordering::Relaxed);
            self.inner.set(key, Bytes::from(self.streams[turn % self.streams.len()].clone()))?;
        }
        Ok(pieces.map(|pieces| Box::new(pieces.into_iter()) as _))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.inner.size_key(key)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

#[test]
fn a_part_is_read_while_its_chunk_is_rewritten() {
    let arrays: Vec<Vec<f32>> =
        (1..6).map(|level| (0..65_536).map(|at| level as f32 * (1.0 + noise(at))).collect()).collect();
    let options = CompressOptions::new(Bound::Abs(1e-5));
    let streams: Vec<Vec<u8>> =
        arrays.iter().map(|values| compress(&ArrayView::new(values, &[65_536]).unwrap(), &options).unwrap()).collect();
    assert!(streams.iter().all(|stream| stream.len() > 40_000));
    let (inner, made) = array(&[65_536], &[65_536], SynclineConfiguration::new(Bound::Abs(1e-5)));
    made.store_array_subset(&made.subset_all(), &arrays[0]).unwrap();
    let opened = Array::open(Arc::new(Rewriting { inner, streams, requests: AtomicUsize::new(0) }), "/a").unwrap();
    for start in (0..60_000u64).step_by(3_000) {
        let nine = start..start + 9;
        let part: Vec<f32> = opened.retrieve_array_subset(&ArraySubset::new_with_ranges(&[nine])).unwrap();
        let at = start as usize..start as usize + 9;
        assert!(arrays.iter().any(|values| largest_error(&values[at.clone()], &part) <= 1e-5), "{part:?}");
    }
}
