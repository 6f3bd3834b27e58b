//! Damaged and truncated streams are detected, or give the same result as on the CPU.

use syncline_core::container::RECORD_HEADER_LEN;
use syncline_cuda::container::parsed::CHUNK_QUANTIZED;

use super::*;

/// Writes the correct hashes into the records again.
fn repair_checksums(bytes: &mut [u8], table: &ChunkTable) {
    for chunk in 0..table.chunks() {
        let (at, length) = table.record(chunk);
        stream::repair_checksum(&mut bytes[at as usize..at as usize + length]);
    }
}

/// Returns small streams of many kinds.
fn small_streams() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let extents = [17, 20, 40];
    let values = field(&extents, 4, true);
    for bound in [Bound::Abs(0.05), Bound::Abs(0.02), Bound::PwRel(0.05)] {
        let making = Making { chunk_tiles: Some(unless_tiny(11, 23)), ..Making::default() };
        all.push(compress(&bytes_of::<f32>(&values), ElementType::F32, &extents, bound, &making));
    }
    all
}

fn damage_is_found_or_harmless(streams: Range<usize>) {
    let Some((device, stream)) = device() else { return };
    let mut random = Random(31);
    let attempts = pick(260, unless_tiny(16, 4));
    for (number, good) in small_streams().into_iter().enumerate().filter(|(number, _)| streams.contains(number)) {
        let info = StreamInfo::from_bytes(&good).unwrap();
        let table = table(&good);
        let expected = try_decompress(&good).unwrap();
        let records = info.bytes_of(0..info.geometry().chunks());
        let (mut refused, mut stricter) = (0, 0);
        // In tiny runs, strategies alternate between streams.
        let ways = ways(device, &stream, &info).into_iter().enumerate();
        for (way, mut decompressor) in ways.filter(|(way, _)| unless_tiny(true, number % 2 == *way)) {
            for attempt in 0..attempts {
                let mut bytes = good.clone();
                let repaired = attempt % 4 != 0;
                for _ in 0..1 + random.below(2) {
                    let (at, length) = table.record(random.below(table.chunks()));
                    // Headers, tables of sections and the first sections are damaged more often than the rest.
                    let within = if attempt % 2 == 0 { length.min(400) } else { length };
                    bytes[at as usize + random.below(within as u64) as usize] ^= 1 << random.below(8);
                }
                if repaired {
                    repair_checksums(&mut bytes, &table);
                }
                let what = format!("stream {number}, way {way}, attempt {attempt}");
                let on_cpu = try_decompress(&bytes);
                match on_gpu::<f32>(&mut decompressor, &stream, &bytes) {
                    Ok(out) => match on_cpu {
                        Ok(theirs) => assert!(out == theirs, "{what}: wrong, and nothing said"),
                        Err(error) => assert!(out == expected, "{what}: wrong, and nothing said, but the CPU: {error}"),
                    },
                    Err(CudaError::Core(_)) => {
                        refused += 1;
                        stricter += usize::from(on_cpu.is_ok());
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            assert_eq!(on_gpu::<f32>(&mut decompressor, &stream, &good).unwrap(), expected, "undamaged after all");
        }
        assert!(refused >= unless_tiny(attempts * 3 / 4 + 1, 1), "stream {number}: {refused} refused");
        assert!(stricter < 40, "stream {number}: {stricter} refused that the CPU reads");
        assert!(records.end < good.len() as u64);
    }
}

#[test]
fn damage_is_found_or_harmless_with_the_symbol_index() {
    damage_is_found_or_harmless(0..2);
}

#[test]
fn damage_is_found_or_harmless_with_gaps_or_nothing() {
    damage_is_found_or_harmless(2..4);
}

/// Records of several KiB, whose hashes are compared during parsing, and of more than 512 KiB, whose hashes are
/// computed on a second stream: if only the hash is wrong, that is reported, and the array is decompressed.
#[test]
fn wrong_hashes_are_found_in_records_short_and_long() {
    let Some((device, stream)) = device() else { return };
    for (extents, noise, long) in [([50_u64, 1000], 0.0, false), ([400, 1000], 100.0, true)] {
        let mut random = Random(8);
        let values: Vec<f64> = field(&extents, 6, false).iter().map(|v| v + noise * random.unit()).collect();
        let making = Making { chunk_tiles: Some(if long { 100 } else { 10 }), ..Making::default() };
        let good = compress(&bytes_of::<f64>(&values), ElementType::F64, &extents, Bound::Abs(1e-4), &making);
        let expected = try_decompress(&good).unwrap();
        let table = table(&good);
        let longest = (0..table.chunks()).map(|chunk| table.record(chunk).1).max().unwrap();
        assert_eq!(longest > 512 << 10, long, "{longest} bytes");
        let mut decompressor = settled(device, &stream, &StreamInfo::from_bytes(&good).unwrap());
        for chunk in [0, table.chunks() / 2, table.chunks() - 1] {
            let mut bytes = good.clone();
            bytes[table.record(chunk).0 as usize + RECORD_HEADER_LEN - 3] ^= 1;
            let error = on_gpu::<f64>(&mut decompressor, &stream, &bytes).unwrap_err().to_string();
            assert!(error.contains(&format!("chunk {chunk}:")) && error.contains("checksum"), "{error}");
            let input = stream.clone_htod(&bytes).unwrap();
            let mut output = stream.alloc_zeros::<f64>(values.len()).unwrap();
            decompressor.decompress(&input.as_view(), &mut output.as_view_mut()).unwrap();
            assert_eq!(bytemuck::cast_slice::<f64, u8>(&stream.clone_dtoh(&output).unwrap()), expected);
        }
        assert_eq!(on_gpu::<f64>(&mut decompressor, &stream, &good).unwrap(), expected, "undamaged after all");
    }
}

/// Moves outliers of quantized records to the next position, whose code is rarely 0. Returns the number of moved
/// outliers.
fn move_outliers(bytes: &mut [u8], table: &ChunkTable) -> usize {
    const HEADER: usize = 32;
    const OUTLIERS: usize = 4;
    const SECTIONS: usize = 10;
    let mut moved = 0;
    for chunk in 0..table.chunks() {
        let (at, length) = table.record(chunk);
        let record = &mut bytes[at as usize..at as usize + length];
        let word = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        if word(record, 16) != CHUNK_QUANTIZED {
            continue;
        }
        let lengths: Vec<usize> = (0..SECTIONS).map(|i| word(record, HEADER + 4 * i) as usize).collect();
        let start = lengths[..OUTLIERS]
            .iter()
            .filter(|&&length| length > 0)
            .fold(HEADER + 4 * SECTIONS, |end, length| end.next_multiple_of(16) + length)
            .next_multiple_of(16);
        if lengths[OUTLIERS] == 0 {
            continue;
        }
        let count = word(record, start) as usize;
        for i in (0..count.saturating_sub(1)).step_by(2) {
            let place = start + 4 + 4 * i;
            let next = word(record, place) + 1;
            if next < word(record, place + 4) {
                record[place..place + 4].copy_from_slice(&next.to_le_bytes());
                moved += 1;
            }
        }
    }
    moved
}

#[test]
fn outliers_where_codes_are_not_0_are_alike_everywhere() {
    let Some((device, stream)) = device() else { return };
    let streams = small_streams();
    let count = streams.len();
    let mut different = 0;
    for good in streams {
        let table = table(&good);
        let mut bytes = good.clone();
        if move_outliers(&mut bytes, &table) == 0 {
            continue;
        }
        repair_checksums(&mut bytes, &table);
        let expected = try_decompress(&bytes).unwrap();
        different += usize::from(expected != try_decompress(&good).unwrap());
        let info = StreamInfo::from_bytes(&bytes).unwrap();
        for mut decompressor in ways(device, &stream, &info) {
            assert!(on_gpu::<f32>(&mut decompressor, &stream, &bytes).unwrap() == expected);
        }
    }
    assert!(different > count / 2, "{different} of {count} streams have outliers to move");
}

fn cut_streams_are_found(streams: Range<usize>) {
    let Some((device, stream)) = device() else { return };
    for (number, good) in small_streams().into_iter().enumerate().filter(|(number, _)| streams.contains(number)) {
        for length in 0..good.len() {
            assert!(matches!(StreamInfo::from_bytes(&good[..length]), Err(CudaError::Core(_))), "cut to {length}");
        }
        // Truncates records without changing the chunk table.
        let info = StreamInfo::from_bytes(&good).unwrap();
        let mut decompressor = settled(device, &stream, &info);
        let elements = info.elements() as usize;
        let mut output = stream.alloc_zeros::<f32>(elements).unwrap();
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
                let table = table(&bytes);
                repair_checksums(&mut bytes, &table);
                let mut decompressor = settled(device, &stream, &info);
                assert!(matches!(on_gpu::<f32>(&mut decompressor, &stream, &bytes), Err(CudaError::Core(_))));
            }
        }
    }
}

#[test]
fn cut_streams_with_the_symbol_index_are_found() {
    cut_streams_are_found(0..2);
}

#[test]
fn truncated_streams_without_symbol_index_are_errors() {
    cut_streams_are_found(2..4);
}
