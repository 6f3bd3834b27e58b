//! Lossless streams through every pipeline, symbol width and level; regions of them; damage that no checksum notices.

use proptest::prelude::*;
use syncline::{
    Advanced, ArrayView, Bound, Coder, CompressOptions, DecompressOptions, Element, IndexKind, SymbolWidth, compress,
    decompress, decompress_region, inspect,
};
use xxhash_rust::xxh3::xxh3_64;

const HEADER: usize = 144;

fn options(pipeline: Coder, symbol: Option<SymbolWidth>, level: u8) -> CompressOptions {
    CompressOptions::new(Bound::Lossless)
        .with_advanced(Advanced::default().with_coder(pipeline).with_symbol(symbol).with_level(level))
        .with_threads(1)
}

/// Values with repeats near and far, and some noise.
fn column(length: usize, seed: u64) -> Vec<u64> {
    let mut state = seed | 1;
    let mut values: Vec<u64> = Vec::with_capacity(length);
    while values.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        match draw % 4 {
            0 if values.len() > 40 => {
                let distance = (draw >> 2) as usize % values.len().min(300) + 1;
                for _ in 0..draw >> 8 & 31 {
                    values.push(values[values.len() - distance]);
                }
            }
            1 => values.extend(std::iter::repeat_n(draw % 7, (draw >> 4) as usize % 50)),
            2 => values.push(state),
            _ => values.push(draw % 11),
        }
    }
    values.truncate(length);
    values
}

fn check<T: Element + PartialEq + std::fmt::Debug>(
    values: &[T],
    extents: &[u64],
    options: &CompressOptions,
) -> Vec<u8> {
    let stream = compress(&ArrayView::new(values, extents).unwrap(), options).unwrap();
    let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<T>().unwrap();
    assert!(back == values, "{extents:?} {options:?}");
    stream
}

#[test]
fn every_type_width_and_level_comes_back() {
    let values = column(40_000, 5);
    let narrow = |bits: u32| values.iter().map(move |v| v & (u64::MAX >> (64 - bits)));
    let u8s: Vec<u8> = narrow(8).map(|v| v as u8).collect();
    let i16s: Vec<i16> = narrow(16).map(|v| v as i16).collect();
    let u32s: Vec<u32> = narrow(32).map(|v| v as u32).collect();
    let floats: Vec<f64> = values.iter().map(|&v| f64::from_bits(v)).collect();
    for pipeline in Coder::ALL {
        for symbol in SymbolWidth::ALL.into_iter().map(Some).chain([None]) {
            for level in if pipeline == Coder::Numbers { 3..=3 } else { 1..=9 } {
                let options = options(pipeline, symbol, level);
                // A length that fills no symbol of eight bytes.
                check(&u8s[..39_997], &[39_997], &options);
                check(&i16s[..33_333], &[33_333], &options);
                check(&u32s, &[200, 200], &options);
                let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                let stream = compress(&ArrayView::new(&floats, &[40, 25, 40]).unwrap(), &options).unwrap();
                let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<f64>().unwrap();
                assert_eq!(bits(&back), bits(&floats));
            }
        }
    }
}

#[test]
fn small_and_uniform_arrays_come_back() {
    for pipeline in Coder::ALL {
        for length in [0usize, 1, 2, 7, 1023, 1025, 16_384, 16_385] {
            check(&vec![77u16; length], &[length as u64], &options(pipeline, None, 3));
            let counting: Vec<u8> = (0..length).map(|i| i as u8).collect();
            check(&counting, &[length as u64], &options(pipeline, Some(SymbolWidth::Eight), 9));
        }
    }
}

#[test]
fn noise_is_stored_as_it_is() {
    let mut state = 1_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as u16
    };
    let values: Vec<u16> = (0..150_000).map(|_| noise()).collect();
    for extents in [&[150_000_u64][..], &[300, 500], &[30, 50, 100]] {
        let stream = check(&values, extents, &options(Coder::Lzss, None, 3));
        let report = inspect(&stream).unwrap();
        assert_eq!(report.totals.raw_chunks, report.totals.chunks);
        let mut damaged = stream.clone();
        damaged[HEADER + 32 + 20_000] ^= 1;
        let error = decompress(&damaged, &DecompressOptions::default()).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
    }
    let stream = compress(&ArrayView::new(&values, &[150_000]).unwrap(), &options(Coder::Lzss, None, 3));
    let stream = stream.unwrap();
    for region in [0..1024, 0..149_999, 1023..1024, 1024..100_000, 70_001..150_000, 5..5] {
        let part = decompress_region(&stream, std::slice::from_ref(&region), &DecompressOptions::default()).unwrap();
        assert_eq!(part.to_vec::<u16>().unwrap(), values[region.start as usize..region.end as usize]);
    }
}

#[test]
fn auto_uses_lzss_with_long_windows_where_it_pays() {
    let values: Vec<i64> = column(300_000, 9).iter().map(|&v| v as i64).collect();
    let numbers = check(&values, &[300_000], &options(Coder::Numbers, None, 3));
    assert!(numbers == check(&values, &[300_000], &options(Coder::Auto, None, 3)));
    let auto = check(&values, &[300_000], &options(Coder::Auto, None, 9));
    assert!(auto.len() < numbers.len() * 9 / 10, "{} {}", auto.len(), numbers.len());
    assert_eq!(inspect(&auto).unwrap().totals.lzss_chunks, 1);
    // Bytes may be text, in which only matches are found.
    let text = "a line of a log, and another one; ".repeat(3_000).into_bytes();
    let stream = check(&text, &[text.len() as u64], &options(Coder::Auto, None, 3));
    assert_eq!(inspect(&stream).unwrap().totals.lzss_chunks, 1);
    let text = compress(&ArrayView::new(&values, &[300_000]).unwrap(), &options(Coder::Auto, None, 0));
    assert!(text.is_err(), "level 0");
}

#[test]
fn lzss_with_every_index_comes_back() {
    let values = column(50_000, 3).iter().map(|&v| v as u32).collect::<Vec<_>>();
    for index in IndexKind::ALL {
        let advanced = Advanced::default().with_coder(Coder::LzssHuffman).with_level(4).with_index(index);
        check(&values, &[50_000], &CompressOptions::new(Bound::Lossless).with_threads(1).with_advanced(advanced));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn regions_are_what_the_array_has_there(
        seed in any::<u64>(), lzss in any::<bool>(), level in 1..=9u8, extents in [1..40u64, 1..60u64, 1..70u64],
        cut in [0.0..1.0f64, 0.0..1.0, 0.0..1.0], size in [0.0..1.0f64, 0.0..1.0, 0.0..1.0],
    ) {
        let values: Vec<u16> = column(extents.iter().product::<u64>() as usize,
            seed).iter().map(|&v| v as u16).collect();
        let pipeline = if lzss { Coder::Lzss } else { Coder::LzssHuffman };
        let stream = check(&values, &extents, &options(pipeline, None, level));
        let region: [_; 3] = std::array::from_fn(|i| {
            let first = (extents[i] as f64 * cut[i]) as u64;
            first..first + ((extents[i] - first) as f64 * size[i]) as u64
        });
        let got = decompress_region(&stream, &region, &DecompressOptions::default()).unwrap().to_vec::<u16>().unwrap();
        let mut want = Vec::new();
        for z in region[0].clone() {
            for y in region[1].clone() {
                want.extend(region[2].clone().map(|x| values[((z * extents[1] + y) * extents[2] + x) as usize]));
            }
        }
        prop_assert_eq!(got, want);
    }
}

/// Puts a new checksum on the stream's only record.
fn seal(stream: &mut [u8], record: usize) {
    let bytes = [&stream[HEADER..HEADER + 24], &stream[HEADER + 32..HEADER + record]].concat();
    stream[HEADER + 24..HEADER + 32].copy_from_slice(&xxh3_64(&bytes).to_le_bytes());
}

#[test]
fn damage_behind_a_right_checksum_is_an_error_or_other_values() {
    let values: Vec<u32> = column(6_000, 21).iter().map(|&v| v as u32 % 5_000).collect();
    for (pipeline, level) in [(Coder::Lzss, 3), (Coder::LzssHuffman, 3), (Coder::LzssHuffman, 6)] {
        let stream = check(&values, &[6_000], &options(pipeline, Some(SymbolWidth::Four), level));
        assert_eq!(inspect(&stream).unwrap().totals.lzss_chunks, 1);
        let record = u32::from_le_bytes(stream[HEADER + 4..HEADER + 8].try_into().unwrap()) as usize;
        let mut errors = 0;
        for at in HEADER + 32..HEADER + record {
            for bit in [0, 3, 7] {
                let mut damaged = stream.clone();
                damaged[at] ^= 1 << bit;
                seal(&mut damaged, record);
                match decompress(&damaged, &DecompressOptions::default()) {
                    Ok(array) => assert_eq!(array.to_vec::<u32>().unwrap().len(), values.len()),
                    Err(_) => errors += 1,
                }
                let _ = inspect(&damaged);
            }
        }
        assert!(errors > 0);
        for length in (0..stream.len()).step_by(7) {
            assert!(decompress(&stream[..length], &DecompressOptions::default()).is_err(), "{length}");
        }
    }
}

#[test]
fn lying_counts_are_errors() {
    let values: Vec<u32> = column(6_000, 21).iter().map(|&v| v as u32 % 5_000).collect();
    let stream = check(&values, &[6_000], &options(Coder::Lzss, Some(SymbolWidth::Four), 3));
    let record = u32::from_le_bytes(stream[HEADER + 4..HEADER + 8].try_into().unwrap()) as usize;
    // The payload: a table of ten lengths, then (sections 0 and 1 are empty) the parameters and the blocks.
    let parameters = HEADER + 32 + 48;
    for (at, value) in [
        (0, 3u8),
        (1, 0),
        (1, 10),
        (2, 0),
        (2, 17),
        (3, 3),
        (3, 1),
        (8, 0),
        (10, 1),
        (11, 0xff),
        (12, 0xff),
        (15, 0x80),
    ] {
        let mut damaged = stream.clone();
        damaged[parameters + at] = value;
        seal(&mut damaged, record);
        let error = decompress(&damaged, &DecompressOptions::default()).unwrap_err().to_string();
        assert!(error.contains("damaged") || error.contains("truncated"), "{at}: {error}");
    }
}
