//! Encoded streams equal the CPU's byte for byte.

#[path = "../common/mod.rs"]
mod common;
mod edges;

use common::{Random, Share, Spread, pick, symbols};
use syncline_core::huffman::{self, EncodeOptions, EncodeScratch, IndexKind};
use syncline_cuda::baselines::reduce_shuffle_merge_2021::{self, Method};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::CudaError;
use syncline_cuda::huffman::Symbol;
use syncline_cuda::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, StreamSpan,
};

/// Returns the methods of encoding: `None` for Syncline's own, and those of the 2021 paper with several constants.
fn methods() -> Vec<Option<Method>> {
    let reduce_shuffle_merge = [(10, 1), (10, 2), (11, 3), (12, 2), (12, 4)]
        .map(|(magnitude, reduction)| Method::ReduceShuffleMerge { magnitude, reduction });
    let baselines = Method::ALL.into_iter().chain(reduce_shuffle_merge).map(Some);
    std::iter::once(None).chain(baselines).collect()
}

fn encoder<S: Symbol>(device: &Device, format: &Format, method: Option<Method>) -> Encoder<S> {
    match method {
        None => Encoder::new(device, format).unwrap(),
        Some(method) => reduce_shuffle_merge_2021::encoder(device, format, method).unwrap(),
    }
}

/// Encodes `input` as a batch and compares every stream with the CPU's.
fn check<S: Symbol + huffman::Symbol>(
    device: &Device,
    format: &Format,
    input: &[S],
    classes: &[u8],
    spans: &[StreamSpan],
    what: &str,
) {
    let encoder = Encoder::<S>::new(device, format).unwrap();
    check_encoder(device, format, &encoder, input, classes, spans, what);
}

fn check_encoder<S: Symbol + huffman::Symbol>(
    device: &Device,
    format: &Format,
    encoder: &Encoder<S>,
    input: &[S],
    classes: &[u8],
    spans: &[StreamSpan],
    what: &str,
) {
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let batch = Batch::new(&stream, format, spans).unwrap();
    // An empty buffer cannot be allocated.
    let zero = [S::truncate(0)];
    let on_device = stream.clone_htod(if input.is_empty() { zero.as_slice() } else { input }).unwrap();
    let classes_on_device = format.classes.then(|| stream.clone_htod(classes).unwrap());
    let classes_view = classes_on_device.as_ref().map(|classes| classes.as_view());
    let mut codebooks = BatchCodebooks::new(&stream, &batch).unwrap();
    let builder = BatchCodebooksBuilder::<S>::new(device, format).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
    // Encodes twice with different fill patterns, so that missing writes and state left by the first run are detected.
    for poison in [0xA5, 0x5A] {
        let poisoned = vec![poison; encoded.bytes().len()];
        stream.memcpy_htod(&poisoned, encoded.bytes_mut()).unwrap();
        {
            let mut frame = arena.frame().unwrap();
            let mut all = frame.slice::<u8>(1 << 20).unwrap();
            stream.memcpy_htod(&vec![poison; 1 << 20], &mut all).unwrap();
        }
        builder
            .launch(&mut arena.frame().unwrap(), &on_device.as_view(), classes_view.as_ref(), &batch, &mut codebooks)
            .unwrap();
        {
            let mut frame = arena.frame().unwrap();
            let (symbols, classes) = (&on_device.as_view(), classes_view.as_ref());
            let input = EncodeInput { symbols, classes, batch: &batch, codebooks: &codebooks };
            encoder.launch(&mut frame, &input, &mut encoded).unwrap();
        }
        let streams = encoded.read_streams(&stream).unwrap();
        assert_eq!(streams.len(), spans.len());
        for (i, (span, stream)) in spans.iter().zip(&streams).enumerate() {
            let first = (span.first_group as usize) << format.group_log2;
            let groups = span.first_group as usize..span.first_group as usize + span.groups as usize;
            let options = EncodeOptions {
                group_log2: format.group_log2,
                index: format.index,
                zero_bit_symbol: Some(span.free_symbol),
            };
            let mut expected = Vec::new();
            let own_classes = if format.classes { &classes[groups] } else { &[] };
            let own = &input[first..first + ((span.groups as usize) << format.group_log2)];
            huffman::encode(own, own_classes, &options, &mut EncodeScratch::default(), &mut expected);
            if *stream != expected {
                let at = stream.iter().zip(&expected).position(|(a, b)| a != b);
                panic!(
                    "{what}, {format:?}, stream {i}: {} bytes, expected {}, first difference at {at:?}",
                    stream.len(),
                    expected.len()
                );
            }
        }
    }
}

/// Returns streams of several lengths over the whole input, with unused groups between them.
fn cut(groups: u32, free_symbol: u16) -> Vec<StreamSpan> {
    let mut spans = Vec::new();
    let mut first = 0;
    for length in [1, 31, 32, 33, 0, 64, 100, 257].into_iter().cycle() {
        let length = length.min(groups - first);
        spans.push(StreamSpan { first_group: first.into(), groups: length, free_symbol });
        first = (first + length + 3).min(groups);
        if first == groups {
            return spans;
        }
    }
    spans
}

fn format(symbol_bytes: u32, group_log2: u8, alphabet: u32, index: IndexKind) -> Format {
    Format { symbol_bytes, group_log2, alphabet, classes: false, index }
}

/// Returns long runs of the zero-bit symbol between geometric ones, like quantization codes.
fn clustered(share: f64, alphabet: u32, length: usize, seed: u64) -> Vec<u16> {
    let mut input = symbols(Spread::Geometric(share), alphabet, length, seed);
    let mut random = Random(seed);
    let mut at = 0;
    while at < length {
        let end = (at + 200 + random.below(3000) as usize).min(length);
        input[at..end].fill((alphabet / 2) as u16);
        at = end + random.below(1500) as usize;
    }
    input
}

/// Returns zero-bit symbols with other symbols about every `step` symbols, so that many empty segments lie between
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
                ("few live groups", sparse(length, pick(90_000, 9000))),
                ("flat", symbols(Spread::Flat, 1024, length, 3)),
                ("one symbol", vec![512; length]),
                ("another symbol", vec![7; length]),
                ("two symbols", symbols(Spread::Flat, 2, length, 4).iter().map(|s| 511 + s).collect()),
            ];
            for (what, input) in &inputs {
                let whole = vec![StreamSpan { first_group: 0, groups, free_symbol: 512 }];
                for spans in [whole, cut(groups, 512)] {
                    if share.takes() {
                        check(device, &format, input, &[], &spans, what);
                    }
                }
            }
        }
    }
}

#[test]
fn every_method_writes_the_same() {
    let Some(device) = common::device() else { return };
    let length = 1 << pick(17, 15);
    let mut share = Share::one_in(5);
    for method in methods() {
        for (group_log2, index) in [(6, IndexKind::Symbol), (7, IndexKind::Gap), (7, IndexKind::Symbol)] {
            let format = format(2, group_log2, 1024, index);
            let groups = (length >> group_log2) as u32;
            // One symbol in 2,000 has a long codeword, so that its unit is "breaking".
            let mut random = Random(8);
            let mut breaking = clustered(0.8, 1024, length, 1);
            breaking.iter_mut().filter(|_| random.below(2000) == 0).for_each(|s| *s = (*s).wrapping_mul(37) % 1024);
            for (what, input) in [
                ("clustered", &breaking),
                ("middling", &symbols(Spread::Geometric(0.2), 1024, length, 2)),
                ("flat", &symbols(Spread::Flat, 1024, length, 3)),
                ("one symbol", &vec![512; length]),
            ] {
                if share.takes() {
                    let (encoder, what) = (encoder(device, &format, method), format!("{what}, {method:?}"));
                    check_encoder(device, &format, &encoder, input, &[], &cut(groups, 512), &what);
                }
            }
        }
        let format = format(1, 6, 256, IndexKind::Symbol);
        let bytes: Vec<u8> =
            symbols(Spread::Geometric(0.5), 256, length, 5).into_iter().map(|symbol| symbol as u8).collect();
        let (encoder, what) = (encoder(device, &format, method), format!("bytes, {method:?}"));
        check_encoder(device, &format, &encoder, &bytes, &[], &cut((length >> 6) as u32, 128), &what);
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
                let spans = [
                    StreamSpan { first_group: 0, groups: first, free_symbol: 0 },
                    StreamSpan { first_group: u64::from(first) + 1, groups: second, free_symbol: 3 },
                ];
                if share.takes() {
                    check(device, &format, input, &[], &spans, what);
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
        let whole = [StreamSpan { first_group: 0, groups: groups as u32, free_symbol: 512 }];
        check(device, &format, &uneven, &classes, &whole, "uneven, one stream");
        check(device, &format, &spreads[1], &classes, &whole, "even");
        check(device, &format, &vec![512_u16; length], &classes, &whole, "nothing live");
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
        let spans: Vec<_> = (0..length / per_stream)
            .map(|i| StreamSpan { first_group: (i * groups) as u64, groups: groups as u32, free_symbol: 512 })
            .collect();
        check(device, &format(2, group_log2, 1024, IndexKind::Symbol), &input, &[], &spans, "many");
    }
    // Streams that end within an index block, each next to a short one: scratch memory of one must not extend into that
    // of the next.
    let alternating: Vec<_> = (0..pick(400, 40))
        .map(|i| StreamSpan { first_group: i * 50, groups: if i % 2 == 0 { 257 } else { 1 }, free_symbol: 0 })
        .collect();
    check(device, &format(2, 7, 1024, IndexKind::Symbol), &input, &[], &alternating, "alternating");
    // Large enough for the segments of large inputs, which are otherwise requested explicitly.
    for (group_log2, share, index) in
        [(6, 0.3, IndexKind::Symbol), (7, 0.3, IndexKind::Symbol), (7, 0.07, IndexKind::Gap)]
    {
        let input = clustered(share, 1024, largest, 2);
        let groups = (largest >> group_log2) as u32 - 12 * 7;
        let spans: Vec<_> =
            (0..pick(12, 2)).map(|i| StreamSpan { first_group: i * 7, groups, free_symbol: 512 }).collect();
        let format = format(2, group_log2, 1024, index);
        let encoder = if common::small() {
            Encoder::with_segment_symbols(device, &format, 1 << 13)
        } else {
            Encoder::new(device, &format)
        };
        check_encoder(device, &format, &encoder.unwrap(), &input, &[], &spans, "large");
    }
    // The largest possible stream.
    let input = symbols(Spread::Geometric(0.3), 1024, largest, 9);
    let whole = [StreamSpan { first_group: 0, groups: (largest >> 6) as u32, free_symbol: 512 }];
    check(device, &format(2, 6, 1024, IndexKind::Symbol), &input, &[], &whole, "largest");
    check(device, &format(2, 6, 1024, IndexKind::Gap), &input, &[], &whole, "largest");
}

#[test]
fn empty_streams() {
    let Some(device) = common::device() else { return };
    for index in IndexKind::ALL {
        let empty = [StreamSpan { first_group: 0, groups: 0, free_symbol: 5 }; 2];
        check::<u16>(device, &format(2, 6, 1024, index), &[], &[], &empty, "empty");
        check::<u8>(device, &format(1, 7, 256, index), &[], &[], &empty, "empty");
    }
}

/// Symbols that a given codebook lacks, or that are outside of the alphabet, are an error, and nothing is written
/// outside of the output.
#[test]
fn symbols_without_codewords_are_an_error() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let format = format(2, 6, 1024, IndexKind::Symbol);
    for method in methods() {
        for wrong in [1024_u16, u16::MAX, 9] {
            let mut input = symbols(Spread::Flat, 8, 1 << 14, 1);
            let batch =
                Batch::new(&stream, &format, &[StreamSpan { first_group: 0, groups: 256, free_symbol: 0 }]).unwrap();
            let mut arena = Arena::new(stream.clone());
            let mut codebooks = BatchCodebooks::new(&stream, &batch).unwrap();
            let builder = BatchCodebooksBuilder::<u16>::new(device, &format).unwrap();
            let good = stream.clone_htod(&input).unwrap();
            builder.launch(&mut arena.frame().unwrap(), &good.as_view(), None, &batch, &mut codebooks).unwrap();
            input[12_345] = wrong;
            let bad = stream.clone_htod(&input).unwrap();
            let encoder = encoder::<u16>(device, &format, method);
            let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
            let mut frame = arena.frame().unwrap();
            let input = EncodeInput { symbols: &bad.as_view(), classes: None, batch: &batch, codebooks: &codebooks };
            encoder.launch(&mut frame, &input, &mut encoded).unwrap();
            let error = encoded.read_streams(&stream).unwrap_err();
            assert!(matches!(error, CudaError::InvalidArgument(_)), "{method:?}: {error}");
        }
    }
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
        Format { classes: true, index: IndexKind::Gap, ..good },
    ] {
        assert!(Encoder::<u16>::new(device, &bad).is_err(), "{bad:?}");
        assert!(BatchCodebooksBuilder::<u16>::new(device, &bad).is_err(), "{bad:?}");
    }
    assert!(Encoder::<u8>::new(device, &good).is_err());
    assert!(
        reduce_shuffle_merge_2021::encoder::<u16>(
            device,
            &good,
            Method::ReduceShuffleMerge { magnitude: 9, reduction: 3 }
        )
        .is_err()
    );
    let span = StreamSpan { first_group: 1, groups: 4, free_symbol: 0 };
    assert!(Batch::new(&stream, &good, &[]).is_err());
    assert!(Batch::new(&stream, &good, &[StreamSpan { free_symbol: 1024, ..span }]).is_err());
    assert!(Batch::new(&stream, &good, &[StreamSpan { groups: 1 << 20, ..span }]).is_err());
    assert!(Batch::new(&stream, &good, &[StreamSpan { first_group: u64::MAX, ..span }]).is_err());

    let batch = Batch::new(&stream, &good, &[span]).unwrap();
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
