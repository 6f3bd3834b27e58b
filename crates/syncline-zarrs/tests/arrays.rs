//! Arrays of zarrs with the codec: whole, in part, sharded, damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use syncline::{Bound, StreamFile};
use syncline_zarrs::{SynclineCodec, SynclineConfiguration};
use zarrs::array::codec::ShardingCodecBuilder;
use zarrs::array::{Array, ArrayBuilder, ArrayMetadata, ArraySubset, DataType, FillValue, data_type};
use zarrs::storage::byte_range::ByteRangeIterator;
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{
    Bytes, MaybeBytesIterator, ReadableStorageTraits, ReadableWritableListableStorage, StorageError, StoreKey,
    WritableStorageTraits,
};

fn codec(bound: Bound) -> Arc<SynclineCodec> {
    Arc::new(SynclineCodec::new(bound).unwrap())
}

fn field(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 0.013).sin() * 50.0 + (i % 7) as f32).collect()
}

fn array(shape: &[u64], chunks: &[u64], bound: Bound) -> (Arc<MemoryStore>, Array<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    let mut builder = ArrayBuilder::new(shape.to_vec(), chunks.to_vec(), data_type::float32(), f32::NAN);
    builder.array_to_bytes_codec(codec(bound)).bytes_to_bytes_codecs(vec![]);
    let array = builder.build(store.clone(), "/a").unwrap();
    array.store_metadata().unwrap();
    (store, array)
}

#[test]
fn elements_are_within_the_bound() {
    for (shape, chunks) in [
        (&[100][..], &[30][..]),
        (&[40, 50], &[16, 50]),
        (&[3, 20, 30], &[2, 20, 20]),
        (&[2, 3, 2, 9, 10], &[2, 2, 2, 9, 10]),
    ] {
        let (store, made) = array(shape, chunks, Bound::Abs(0.01));
        let field = field(shape.iter().product::<u64>() as usize);
        made.store_array_subset(&made.subset_all(), &field).unwrap();
        let opened = Array::open(store, "/a").unwrap();
        let back: Vec<f32> = opened.retrieve_array_subset(&opened.subset_all()).unwrap();
        assert!(field.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 0.01), "{shape:?}");
        let ranges: Vec<_> = shape.iter().map(|&extent| extent / 3..extent - extent / 4).collect();
        let region = ArraySubset::new_with_ranges(&ranges);
        let part: Vec<f32> = opened.retrieve_array_subset(&region).unwrap();
        let indices = region.linearised_indices(shape).unwrap();
        assert!(indices.iter().zip(&part).all(|(at, &value)| back[at as usize] == value), "{shape:?}");
    }
}

#[test]
fn every_type_comes_back_bit_for_bit() {
    let types: [(DataType, usize); 12] = [
        (data_type::float16(), 2),
        (data_type::bfloat16(), 2),
        (data_type::float32(), 4),
        (data_type::float64(), 8),
        (data_type::int8(), 1),
        (data_type::int16(), 2),
        (data_type::int32(), 4),
        (data_type::int64(), 8),
        (data_type::uint8(), 1),
        (data_type::uint16(), 2),
        (data_type::uint32(), 4),
        (data_type::uint64(), 8),
    ];
    for (data_type, size) in types {
        let name = format!("{data_type:?}");
        let fill = FillValue::new(vec![0; size]);
        let mut builder = ArrayBuilder::new(vec![60, 50], vec![20, 50], data_type, fill);
        builder.array_to_bytes_codec(codec(Bound::Lossless)).bytes_to_bytes_codecs(vec![]);
        let array = builder.build(Arc::new(MemoryStore::new()), "/a").unwrap();
        let bytes: Vec<u8> = (0..3000 * size).map(|i| (i / 3 % 251) as u8).collect();
        let elements = zarrs::array::ArrayBytes::new_flen(bytes.clone());
        array.store_array_subset(&array.subset_all(), elements).unwrap();
        let back: zarrs::array::ArrayBytes<'_> = array.retrieve_array_subset(&array.subset_all()).unwrap();
        assert!(back.into_fixed().unwrap() == bytes, "{name}");
    }
}

#[test]
fn shards_hold_streams() {
    let store = Arc::new(MemoryStore::new());
    let mut builder = ArrayBuilder::new(vec![64, 64], vec![32, 64], data_type::float32(), f32::NAN);
    let mut shards = ShardingCodecBuilder::new(vec![16.try_into().unwrap(); 2], &data_type::float32());
    shards.array_to_bytes_codec(codec(Bound::Abs(0.01)));
    builder.array_to_bytes_codec(shards.build_arc()).bytes_to_bytes_codecs(vec![]);
    let array = builder.build(store.clone(), "/a").unwrap();
    array.store_metadata().unwrap();
    let field = field(64 * 64);
    array.store_array_subset(&array.subset_all(), &field).unwrap();
    let opened = Array::open(store, "/a").unwrap();
    let part: Vec<f32> = opened.retrieve_array_subset(&ArraySubset::new_with_ranges(&[30..34, 5..40])).unwrap();
    for (at, value) in part.iter().enumerate() {
        assert!((value - field[(30 + at / 35) * 64 + 5 + at % 35]).abs() <= 0.01);
    }
}

#[test]
fn format_2_has_the_codec_as_its_compressor() {
    for order in ["C", "F"] {
        // As numcodecs writes the settings.
        let text = format!(
            r#"{{"zarr_format": 2, "shape": [60, 50], "chunks": [20, 50], "dtype": "<f4", "fill_value": 0,
            "order": "{order}", "filters": null,
            "compressor": {{"id": "syncline", "mode": "abs", "value": 0.01, "rewritable": true,
                "advanced": {{"level": 9}}}}}}"#
        );
        let metadata = ArrayMetadata::try_from(text.as_str()).unwrap();
        let store = Arc::new(MemoryStore::new());
        let array = Array::new_with_metadata(store.clone(), "/a", metadata).unwrap();
        array.store_metadata().unwrap();
        let field = field(3000);
        array.store_array_subset(&array.subset_all(), &field).unwrap();
        let opened = Array::open(store, "/a").unwrap();
        let back: Vec<f32> = opened.retrieve_array_subset(&opened.subset_all()).unwrap();
        assert!(field.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 0.01), "{order}");
        // A stream, whose axes are in the order in which elements are laid out.
        let stream = opened.retrieve_encoded_chunk(&[1, 0]).unwrap().unwrap();
        let shape = StreamFile::open(&stream[..]).unwrap().header().shape;
        assert_eq!(shape.extents(), if order == "C" { [20, 50] } else { [50, 20] });
    }
}

#[test]
fn missing_chunks_and_values_are_the_fill_value() {
    let (_, array) = array(&[64, 64], &[32, 32], Bound::Abs(0.01));
    let mut field = field(32 * 32);
    field[5] = f32::NAN;
    array.store_chunk(&[1, 1], &field).unwrap();
    let part: Vec<f32> = array.retrieve_array_subset(&ArraySubset::new_with_ranges(&[30..33, 30..40])).unwrap();
    assert!(part[0].is_nan() && part[19].is_nan() && !part[22].is_nan() && part[27].is_nan());
}

#[test]
fn settings_are_checked() {
    let parse = |text: &str| serde_json::from_str::<SynclineConfiguration>(text);
    let made = |text: &str| SynclineCodec::with_configuration(parse(text).unwrap());
    assert!(parse(r#"{"mode": "abs", "value": 0.1, "speed": 1}"#).is_err());
    assert!(parse(r#"{"mode": "abs", "value": 0.1, "rewritable": true}"#).unwrap().rewritable);
    assert!(parse(r#"{"mode": "abs", "value": 0.1, "rewritable": 1}"#).is_err());
    assert_eq!(made("{}").unwrap().settings().bound().unwrap(), Bound::Lossless);
    for wrong in [
        r#"{"mode": "abs"}"#,
        r#"{"mode": "abs", "value": -1}"#,
        r#"{"mode": "max", "value": 1}"#,
        r#"{"mode": "lossless", "value": 1}"#,
        r#"{"advanced": {"coder": "zip"}}"#,
        r#"{"advanced": {"level": 10}}"#,
        r#"{"advanced": {"speed": 1}}"#,
        r#"{"mode": "abs", "value": 1, "effort": "slow"}"#,
        r#"{"mode": "abs", "value": 1, "fill": [1, 2, 3, 4, 5]}"#,
    ] {
        assert!(made(wrong).is_err(), "{wrong}");
    }
    for text in [
        r#"{"mode":"abs","value":0.1,"fill":-9999.0}"#,
        r#"{"mode":"abs","value":0.1,"fill":[-9999.0,77.5]}"#,
        r#"{"mode":"abs","value":0.1,"effort":"balanced"}"#,
        r#"{"mode":"abs","value":0.1,"rewritable":false}"#,
        r#"{"mode":"lossless","advanced":{"coder":"lzss","level":9}}"#,
    ] {
        assert_eq!(serde_json::to_string(&parse(text).unwrap()).unwrap(), text);
    }
}

#[test]
fn integers_have_bounds_in_counts_and_no_pointwise_one() {
    let values: Vec<i32> = (0..1000).map(|i| i * i % 977 * 1000 + i % 13).collect();
    let read_back = |bound| {
        let mut builder = ArrayBuilder::new(vec![1000], vec![1000], data_type::int32(), 0i32);
        builder.array_to_bytes_codec(codec(bound)).bytes_to_bytes_codecs(vec![]);
        let array = builder.build(Arc::new(MemoryStore::new()), "/a").map_err(|error| error.to_string())?;
        array.store_chunk(&[0], &values).map_err(|error| error.to_string())?;
        array.retrieve_chunk::<Vec<i32>>(&[0]).map_err(|error| error.to_string())
    };
    let back = read_back(Bound::Abs(50.0)).unwrap();
    assert!(values != back && values.iter().zip(&back).all(|(a, b)| a.abs_diff(*b) <= 50));
    assert_eq!(read_back(Bound::Abs(0.5)).unwrap(), values);
    let error = read_back(Bound::PwRel(0.1)).unwrap_err();
    assert!(error.contains("no point-wise relative bound"), "{error}");
}

#[test]
fn more_effort_makes_smaller_chunks() {
    let value = |at: usize| ((at / 128) as f32 / 9.0).sin() * ((at % 128) as f32 / 7.0).cos();
    let smooth: Vec<f32> = (0..128 * 128).map(value).collect();
    let sizes = [None, Some("fast"), Some("balanced"), Some("best")].map(|effort| {
        let mut settings = SynclineConfiguration::new(Bound::Abs(1e-3));
        settings.effort = effort.map(str::to_owned);
        let store = Arc::new(MemoryStore::new());
        let mut builder = ArrayBuilder::new(vec![128, 128], vec![128, 128], data_type::float32(), f32::NAN);
        let codec = Arc::new(SynclineCodec::with_configuration(settings).unwrap());
        builder.array_to_bytes_codec(codec).bytes_to_bytes_codecs(vec![]);
        let made = builder.build(store.clone(), "/a").unwrap();
        made.store_metadata().unwrap();
        made.store_array_subset(&made.subset_all(), &smooth).unwrap();
        let opened = Array::open(store.clone(), "/a").unwrap();
        let back: Vec<f32> = opened.retrieve_array_subset(&opened.subset_all()).unwrap();
        assert!(smooth.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 1e-3), "{effort:?}");
        store.get(&StoreKey::new("a/c/0/0").unwrap()).unwrap().unwrap().len()
    });
    assert!(sizes[0] == sizes[2] && sizes[2] < sizes[1] && sizes[3] <= sizes[2], "{sizes:?}");
}

#[test]
fn damaged_chunks_are_errors() {
    let (store, array) = array(&[64, 64], &[64, 64], Bound::Abs(0.01));
    array.store_array_subset(&array.subset_all(), field(64 * 64)).unwrap();
    let key = StoreKey::new("a/c/0/0").unwrap();
    let stream = store.get(&key).unwrap().unwrap();
    for at in 0..stream.len() {
        let mut damaged = stream.to_vec();
        damaged[at] ^= 0x41;
        let damaged = if at % 3 == 0 { damaged[..at].to_vec() } else { damaged };
        store.set(&key, Bytes::from(damaged)).unwrap();
        let region = ArraySubset::new_with_ranges(&[3..5, 6..9]);
        // A part may lie in chunks that are intact; the whole array does not.
        let _: Result<Vec<f32>, _> = array.retrieve_array_subset(&region);
        assert!(array.retrieve_array_subset::<Vec<f32>>(&array.subset_all()).is_err(), "{at}");
    }
}

/// A store that counts the bytes that are read.
#[derive(Debug, Default)]
struct Counting {
    inner: MemoryStore,
    read: AtomicUsize,
}

impl ReadableStorageTraits for Counting {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let pieces = self.inner.get_partial_many(key, ranges)?;
        Ok(pieces.map(|pieces| {
            let counted = pieces.inspect(|piece| {
                self.read.fetch_add(piece.as_ref().map_or(0, Bytes::len), Ordering::Relaxed);
            });
            Box::new(counted) as _
        }))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.inner.size_key(key)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

#[test]
fn a_part_of_a_chunk_reads_a_part_of_its_bytes() {
    let store = Arc::new(Counting::default());
    let (source, array) = array(&[512, 512, 4], &[512, 512, 4], Bound::Abs(1e-4));
    let whole: ReadableWritableListableStorage = source.clone();
    array.store_array_subset(&array.subset_all(), field(512 * 512 * 4)).unwrap();
    let key = StoreKey::new("a/c/0/0/0").unwrap();
    let stream = whole.get(&key).unwrap().unwrap();
    store.inner.set(&key, stream.clone()).unwrap();
    let metadata = StoreKey::new("a/zarr.json").unwrap();
    store.inner.set(&metadata, whole.get(&metadata).unwrap().unwrap()).unwrap();
    let opened = Array::open(store.clone(), "/a").unwrap();
    store.read.store(0, Ordering::Relaxed);
    let part: Vec<f32> = opened.retrieve_array_subset(&ArraySubset::new_with_ranges(&[8..9, 8..16, 0..4])).unwrap();
    assert_eq!(part.len(), 32);
    let read = store.read.load(Ordering::Relaxed);
    // A stream of this size has four chunks of its own.
    assert!(read < stream.len() / 3, "{read} of {}", stream.len());
}
