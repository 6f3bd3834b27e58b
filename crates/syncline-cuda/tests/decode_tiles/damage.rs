//! Truncated streams and wrong hashes are detected.

use syncline_core::container::RECORD_HEADER_LEN;

use super::*;
use crate::mutants::repair_checksums;

/// Returns small streams of some kinds.
fn small_streams() -> Vec<Vec<u8>> {
    let extents = [17, 20, 40];
    let values = field(&extents, 4, true);
    let of = |bound: Bound| {
        let making = Making { chunk_tiles: Some(unless_tiny(11, 23)), ..Making::default() };
        compress(&bytes_of::<f32>(&values), ElementType::F32, &extents, bound, &making)
    };
    vec![of(Bound::Abs(0.05)), of(Bound::PwRel(0.05))]
}

/// Records of several KiB, whose hashes are compared during parsing, and of more than 512 KiB, whose hashes are
/// computed on a second stream: if only the hash is wrong, that is reported, and the array is decompressed.
#[test]
fn wrong_hashes_are_found_in_records_short_and_long() {
    let Some((device, stream)) = device() else { return };
    for (extents, noise, long) in [([50_u64, 1000], 0.0, false), ([400, 1000], 100.0, true)] {
        let mut random = Random(8);
        let values: Vec<f64> = field(&extents, 6, false).iter().map(|v| v + noise * random.unit()).collect();
        let making = Making { chunk_tiles: Some(if long { 300 } else { 10 }), ..Making::default() };
        let good = compress(&bytes_of::<f64>(&values), ElementType::F64, &extents, Bound::Abs(1e-4), &making);
        let expected = try_decompress(&good).unwrap();
        let table = table(&good);
        let longest = (0..table.chunks()).map(|chunk| table.record(chunk).1).max().unwrap();
        assert_eq!(longest > 512 << 10, long, "{longest} bytes");
        let mut decompressor = settled(device, &stream, &StreamInfo::from_bytes(&good).unwrap());
        for chunk in [0, table.chunks() / 2, table.chunks() - 1] {
            let mut bytes = good.clone();
            bytes[table.record(chunk).0 as usize + RECORD_HEADER_LEN - 3] ^= 1;
            let error = on_gpu(&mut decompressor, &stream, &bytes).unwrap_err().to_string();
            assert!(error.contains(&format!("chunk {chunk}:")) && error.contains("checksum"), "{error}");
            let input = stream.clone_htod(&bytes).unwrap();
            let mut output = stream.alloc_zeros::<u8>(8 * values.len()).unwrap();
            decompressor.decompress(&input.as_view(), &mut output.as_view_mut()).unwrap();
            assert_eq!(stream.clone_dtoh(&output).unwrap(), expected);
        }
        assert_eq!(on_gpu(&mut decompressor, &stream, &good).unwrap(), expected, "undamaged after all");
    }
}

#[test]
fn cut_streams_are_found() {
    let Some((device, stream)) = device() else { return };
    for (number, good) in small_streams().into_iter().enumerate() {
        for length in 0..good.len() {
            assert!(matches!(StreamInfo::from_bytes(&good[..length]), Err(CudaError::Core(_))), "cut to {length}");
        }
        // Truncates records without changing the chunk table.
        let info = StreamInfo::from_bytes(&good).unwrap();
        let mut decompressor = settled(device, &stream, &info);
        let mut output = stream.alloc_zeros::<u8>(info.decompressed_len() as usize).unwrap();
        let records = info.bytes_of(0..info.geometry().chunks());
        let tiles = 0..info.geometry().tiles();
        let step = (records.end as usize / pick(60, unless_tiny(5, 2))).max(1);
        for length in (0..records.end as usize).step_by(step) {
            // The input has its own allocation, so that sanitizers detect reads beyond its end.
            let input = stream.clone_htod(&good[..length.max(1)]).unwrap();
            decompressor.decompress_tiles(&input.as_view(), 0, tiles.clone(), &mut output.as_view_mut(), 0).unwrap();
            assert!(matches!(decompressor.check(), Err(CudaError::Core(_))), "cut to {length}");
        }
        // Also tests chunks that contain less than their record states: each record is truncated, and its table and
        // hash are updated.
        for chunk in (0..info.geometry().chunks()).step_by(pick(1, 3)) {
            let (at, length) = info.record(chunk);
            let cuts = [16, 48, length / 2 / 16 * 16, length - 16];
            for &cut in unless_tiny_one(&cuts, number) {
                let keep = (length - cut.min(length - 32)) as u32;
                let mut lengths: Vec<u32> = (0..info.geometry().chunks()).map(|c| info.record(c).1 as u32).collect();
                lengths[chunk as usize] = keep;
                let mut bytes = good[..at as usize + keep as usize].to_vec();
                bytes[at as usize + 4..at as usize + 8].copy_from_slice(&keep.to_le_bytes());
                bytes.extend_from_slice(&good[at as usize + length..records.end as usize]);
                bytes.extend_from_slice(&table_and_trailer(info.header(), &lengths));
                let info = match StreamInfo::from_bytes(&bytes) {
                    Ok(info) => info,
                    Err(CudaError::Core(_)) => continue,
                    Err(error) => panic!("{error}"),
                };
                repair_checksums(&mut bytes);
                let mut decompressor = settled(device, &stream, &info);
                assert!(matches!(on_gpu(&mut decompressor, &stream, &bytes), Err(CudaError::Core(_))));
            }
        }
    }
}
