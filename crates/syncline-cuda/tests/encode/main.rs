//! Encoded streams equal the CPU's byte for byte.

#[path = "../common/mod.rs"]
mod common;
mod edges;
#[path = "../common/encoders.rs"]
mod encoders;

use common::{Random, Share, Spread, pick, symbols};
use encoders::{check_encoder, clustered, cut, format};
use syncline_core::huffman::{self, IndexKind};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::Symbol;
use syncline_cuda::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, StreamRange,
};

/// Encodes `input` as a batch and compares every stream with the CPU's.
fn check<S: Symbol + huffman::Symbol>(
    device: &Device,
    format: &Format,
    input: &[S],
    classes: &[u8],
    ranges: &[StreamRange],
    what: &str,
) {
    let encoder = Encoder::<S>::new(device, format).unwrap();
    check_encoder(device, format, &encoder, input, classes, ranges, what);
}

/// those with codewords.
fn sparse(length: usize, step: usize) -> Vec<u16> {
    let mut input = vec![512; length];
    for (i, at) in (step / 2..length).step_by(step).enumerate() {
        input[at] = 500 + i as u16 % 20;
    }
    input
}

#[test]
fn sixteen_bit_symbols() {
    let Some(device) = common::device() else { return };
    let length = 1 << pick(18, 15);
    let mut share = Share::one_in(5);
    for group_log2 in [6, 7] {
        for index in IndexKind::ALL {
            let format = format(2, group_log2, 1024, index);
            let groups = (length >> group_log2) as u32;
            let inputs = [
                ("skewed", clustered(0.8, 1024, length, 1)),
                ("middling", symbols(Spread::Geometric(0.3), 1024, length, 2)),
                ("rather flat", symbols(Spread::Geometric(0.07), 1024, length, 5)),
                ("few coded groups", sparse(length, pick(90_000, 9000))),
                ("flat", symbols(Spread::Flat, 1024, length, 3)),
                ("one symbol", vec![512; length]),
                ("another symbol", vec![7; length]),
                ("two symbols", symbols(Spread::Flat, 2, length, 4).iter().map(|s| 511 + s).collect()),
            ];
            for (what, input) in &inputs {
                let whole = vec![StreamRange { first_group: 0, groups, free_symbol: 512 }];
                for ranges in [whole, cut(groups, 512)] {
                    if share.takes() {
                        check(device, &format, input, &[], &ranges, what);
                    }
                }
            }
        }
    }
}

#[test]
fn bytes() {
    let Some(device) = common::device() else { return };
    let length = pick(300_000, 40_000) / 128 * 128;
    let mut share = Share::one_in(5);
    for spread in [Spread::Flat, Spread::One, Spread::Geometric(0.9), Spread::Geometric(0.2)] {
        let input: Vec<u8> = symbols(spread, 256, length, 5).into_iter().map(|symbol| symbol as u8).collect();
        for group_log2 in [6, 7] {
            for index in IndexKind::ALL {
                let groups = (length >> group_log2) as u32;
                let format = format(1, group_log2, 256, index);
                for (free_symbol, what) in [(128, "bytes"), (0, "bytes, another free symbol")] {
                    if share.takes() {
                        check(device, &format, &input, &[], &cut(groups, free_symbol), what);
                    }
                }
            }
        }
    }
}

#[test]
fn large_alphabets() {
    let Some(device) = common::device() else { return };
    let length = 1 << pick(20, 17);
    let mut share = Share::one_in(5);
    for alphabet in [4096, 8192, 16_384, 65_536] {
        for index in IndexKind::ALL {
            let inputs = [
                ("flat", symbols(Spread::Flat, alphabet, length, 3)),
                ("skewed", symbols(Spread::Geometric(0.001), alphabet, length, 6)),
                // Frequencies whose optimal codewords are longer than the limit.
                (
                    "long codewords",
                    (0..length).map(|i| (i as u32).trailing_zeros().pow(3) as u16 & (alphabet - 1) as u16).collect(),
                ),
            ];
            for (what, input) in &inputs {
                let format = format(2, 6, alphabet, index);
                let (first, second) = pick((10_000, 4000), (1200, 600));
                let ranges = [
                    StreamRange { first_group: 0, groups: first, free_symbol: 0 },
                    StreamRange { first_group: u64::from(first) + 1, groups: second, free_symbol: 3 },
                ];
                if share.takes() {
                    check(device, &format, input, &[], &ranges, what);
                }
            }
        }
    }
}

#[test]
fn classes() {
    let Some(device) = common::device() else { return };
    let length = 1 << pick(18, 15);
    for group_log2 in [6, 7] {
        let format = Format { classes: true, ..format(2, group_log2, 1024, IndexKind::Symbol) };
        let groups = length >> group_log2;
        let mut random = Random(3);
        let classes: Vec<u8> = (0..groups).map(|_| random.below(4) as u8).collect();
        // Four codebooks are shorter if the classes differ, and not if they are similar.
        let spreads = [0.9, 0.5, 0.1, 0.02].map(|share| symbols(Spread::Geometric(share), 1024, length, 7));
        let uneven: Vec<u16> = (0..length).map(|i| spreads[usize::from(classes[i >> group_log2])][i]).collect();
        check(device, &format, &uneven, &classes, &cut(groups as u32, 512), "uneven");
        let whole = [StreamRange { first_group: 0, groups: groups as u32, free_symbol: 512 }];
        check(device, &format, &uneven, &classes, &whole, "uneven, one stream");
        check(device, &format, &spreads[1], &classes, &whole, "even");
        check(device, &format, &vec![512_u16; length], &classes, &whole, "nothing coded");
        let some: Vec<u8> = classes.iter().map(|class| class & 2).collect();
        check(device, &format, &uneven, &some, &whole, "two classes");
    }
}

#[test]
fn many_streams_and_large_ones() {
    let Some(device) = common::device() else { return };
    let length = pick(5 << 20, 5 << 16);
    let largest = pick(huffman::MAX_SYMBOLS, 1 << 18);
    let input = clustered(0.6, 1024, length, 1);
    for (per_stream, group_log2) in [(1 << 12, 6), (length / 5, 7), (length / 5 * 4, 6)] {
        let groups = per_stream >> group_log2;
        let ranges: Vec<_> = (0..length / per_stream)
            .map(|i| StreamRange { first_group: (i * groups) as u64, groups: groups as u32, free_symbol: 512 })
            .collect();
        check(device, &format(2, group_log2, 1024, IndexKind::Symbol), &input, &[], &ranges, "many");
    }
    // Streams that end within an index block, each next to a short one: scratch memory of one must not extend into that
    // of the next.
    let alternating: Vec<_> = (0..pick(400, 40))
        .map(|i| StreamRange { first_group: i * 50, groups: if i % 2 == 0 { 257 } else { 1 }, free_symbol: 0 })
        .collect();
    check(device, &format(2, 7, 1024, IndexKind::Symbol), &input, &[], &alternating, "alternating");
    // Large enough for the segments of large inputs, which are otherwise requested explicitly.
    for (group_log2, share, index) in
        [(6, 0.3, IndexKind::Symbol), (7, 0.3, IndexKind::Symbol), (7, 0.07, IndexKind::None)]
    {
        let input = clustered(share, 1024, largest, 2);
        let groups = (largest >> group_log2) as u32 - 12 * 7;
        let ranges: Vec<_> =
            (0..pick(12, 2)).map(|i| StreamRange { first_group: i * 7, groups, free_symbol: 512 }).collect();
        let format = format(2, group_log2, 1024, index);
        let encoder = if common::small() {
            Encoder::with_segment_symbols(device, &format, 1 << 13)
        } else {
            Encoder::new(device, &format)
        };
        check_encoder(device, &format, &encoder.unwrap(), &input, &[], &ranges, "large");
    }
    // The largest possible stream.
    let input = symbols(Spread::Geometric(0.3), 1024, largest, 9);
    let whole = [StreamRange { first_group: 0, groups: (largest >> 6) as u32, free_symbol: 512 }];
    check(device, &format(2, 6, 1024, IndexKind::Symbol), &input, &[], &whole, "largest");
    check(device, &format(2, 6, 1024, IndexKind::None), &input, &[], &whole, "largest");
}

#[test]
fn empty_streams() {
    let Some(device) = common::device() else { return };
    for index in IndexKind::ALL {
        let empty = [StreamRange { first_group: 0, groups: 0, free_symbol: 5 }; 2];
        check::<u16>(device, &format(2, 6, 1024, index), &[], &[], &empty, "empty");
        check::<u8>(device, &format(1, 7, 256, index), &[], &[], &empty, "empty");
    }
}

#[test]
fn symbols_without_codewords_are_an_error() {
    let Some(device) = common::device() else { return };
    encoders::symbols_without_codewords_are_an_error(device, |format| Encoder::new(device, format).unwrap());
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let good = format(2, 6, 1024, IndexKind::Symbol);
    for bad in [
        Format { symbol_bytes: 4, ..good },
        Format { group_log2: 5, ..good },
        Format { alphabet: 1000, ..good },
        Format { symbol_bytes: 1, ..good },
        Format { classes: true, index: IndexKind::None, ..good },
    ] {
        assert!(Encoder::<u16>::new(device, &bad).is_err(), "{bad:?}");
        assert!(BatchCodebooksBuilder::<u16>::new(device, &bad).is_err(), "{bad:?}");
    }
    assert!(Encoder::<u8>::new(device, &good).is_err());
    let range = StreamRange { first_group: 1, groups: 4, free_symbol: 0 };
    assert!(Batch::new(&stream, &good, &[]).is_err());
    assert!(Batch::new(&stream, &good, &[StreamRange { free_symbol: 1024, ..range }]).is_err());
    assert!(Batch::new(&stream, &good, &[StreamRange { groups: 1 << 20, ..range }]).is_err());
    assert!(Batch::new(&stream, &good, &[StreamRange { first_group: u64::MAX, ..range }]).is_err());

    let batch = Batch::new(&stream, &good, &[range]).unwrap();
    let mut arena = Arena::new(stream.clone());
    let mut codebooks = BatchCodebooks::new(&stream, &batch).unwrap();
    let builder = BatchCodebooksBuilder::<u16>::new(device, &good).unwrap();
    let input = stream.alloc_zeros::<u16>(5 * 64 + 8).unwrap();
    let mut launch =
        |input, classes| builder.launch(&mut arena.frame().unwrap(), &input, classes, &batch, &mut codebooks);
    assert!(launch(input.as_view(), None).is_ok());
    assert!(launch(input.slice(..5 * 64 - 1), None).is_err(), "too short");
    assert!(launch(input.slice(1..), None).is_err(), "not aligned");
    let classes = stream.alloc_zeros::<u8>(5).unwrap();
    assert!(launch(input.as_view(), Some(&classes.as_view())).is_err(), "classes where there are none");

    // Without room, the plan reports an error and the stream is not written.
    let encoder = Encoder::<u16>::new(device, &good).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, 16).unwrap();
    let mut frame = arena.frame().unwrap();
    let input = EncodeInput { symbols: &input.as_view(), classes: None, batch: &batch, codebooks: &codebooks };
    encoder.launch(&mut frame, &input, &mut encoded).unwrap();
    assert!(encoded.read_streams(&stream).unwrap_err().to_string().contains("does not fit"));
}
