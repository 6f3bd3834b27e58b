//! The published encoders write the CPU's streams byte for byte, and the gap arrays of these streams.

#[path = "../../syncline-cuda/tests/common/mod.rs"]
mod common;
#[path = "../../syncline-cuda/tests/common/encoders.rs"]
mod encoders;

use common::{Random, Share, Spread, pick, symbols};
use encoders::{check_encoder, clustered, cut, format};
use syncline_core::huffman::{IndexKind, Stream};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::encode::{Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Format};
use syncline_papers::gap_array;
use syncline_papers::gap_array_2020::GapArrayEncoder;
use syncline_papers::reduce_shuffle_merge_2021::{self, Method};

fn device() -> Option<&'static Device> {
    common::device_with(&syncline_papers::HEADERS)
}

/// Returns the methods of the 2021 paper with several constants.
fn methods() -> Vec<Method> {
    let reduce_shuffle_merge = [(10, 1), (10, 2), (11, 3), (12, 2), (12, 4)]
        .map(|(magnitude, reduction)| Method::ReduceShuffleMerge { magnitude, reduction });
    Method::ALL.into_iter().chain(reduce_shuffle_merge).collect()
}

#[test]
fn every_method_writes_the_same() {
    let Some(device) = device() else { return };
    let length = 1 << pick(17, 15);
    let mut share = Share::one_in(5);
    for method in methods() {
        for (group_log2, index) in [(6, IndexKind::Symbol), (7, IndexKind::None), (7, IndexKind::Symbol)] {
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
                    let (encoder, what) = (
                        reduce_shuffle_merge_2021::encoder(device, &format, method).unwrap(),
                        format!("{what}, {method:?}"),
                    );
                    check_encoder(device, &format, &encoder, input, &[], &cut(groups, 512), &what);
                }
            }
        }
        let format = format(1, 6, 256, IndexKind::Symbol);
        let bytes: Vec<u8> =
            symbols(Spread::Geometric(0.5), 256, length, 5).into_iter().map(|symbol| symbol as u8).collect();
        let (encoder, what) =
            (reduce_shuffle_merge_2021::encoder(device, &format, method).unwrap(), format!("bytes, {method:?}"));
        check_encoder(device, &format, &encoder, &bytes, &[], &cut((length >> 6) as u32, 128), &what);
    }
}

#[test]
fn symbols_without_codewords_are_an_error() {
    let Some(device) = device() else { return };
    for method in methods() {
        encoders::symbols_without_codewords_are_an_error(device, |format| {
            reduce_shuffle_merge_2021::encoder(device, format, method).unwrap()
        });
    }
}

/// Encodes streams of symbols below `alphabet` with their gap arrays, and compares both with the CPU's.
fn check_gap_arrays(device: &Device, alphabet: u32, input: &[u16], what: &str) {
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let format = format(2, 7, alphabet, IndexKind::None);
    let groups = (input.len() >> 7) as u32;
    let ranges = cut(groups, alphabet as u16 / 2);
    let batch = Batch::new(&stream, &format, &ranges).unwrap();
    let on_device = stream.clone_htod(input).unwrap();
    let mut codebooks = BatchCodebooks::new(&stream, &batch).unwrap();
    let builder = BatchCodebooksBuilder::<u16>::new(device, &format).unwrap();
    builder.launch(&mut arena.frame().unwrap(), &on_device.as_view(), None, &batch, &mut codebooks).unwrap();
    let encoder = GapArrayEncoder::<u16>::new(device, &format).unwrap();
    let most = ranges.iter().map(|range| range.groups).max().unwrap();
    let own = encoder.gaps_in_stream(most) as usize;
    let mut gaps = stream.clone_htod(&vec![0xA5_u8; ranges.len() * own]).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
    let view = on_device.as_view();
    let symbols = EncodeInput { symbols: &view, classes: None, batch: &batch, codebooks: &codebooks };
    let mut frame = arena.frame().unwrap();
    encoder.launch(&mut frame, &symbols, most, &mut encoded, &mut gaps.as_view_mut()).unwrap();
    let gaps = stream.clone_dtoh(&gaps).unwrap();
    for (i, (range, bytes)) in ranges.iter().zip(encoded.read_streams(&stream).unwrap()).enumerate() {
        let parsed = Stream::<u16>::parse(&bytes, "test").unwrap();
        let first = (range.first_group as usize) << 7;
        let own_input = &input[first..first + ((range.groups as usize) << 7)];
        let mut back = vec![0; own_input.len()];
        parsed.decoder(syncline_core::huffman::Decoder::Chunked, &[]).unwrap().decode(&mut back, 1).unwrap();
        assert!(back == own_input, "{what}, stream {i}: other symbols");
        let expected = gap_array::of_stream(&parsed, own_input);
        assert!(gaps[i * own..][..expected.len()] == expected[..], "{what}, stream {i}: other gaps");
    }
    assert!(
        encoder
            .launch(&mut frame, &symbols, most / 4, &mut encoded, &mut stream.alloc_zeros(1).unwrap().as_view_mut())
            .is_err(),
        "{what}: too little room for gaps"
    );
}

#[test]
fn gap_arrays_equal_the_cpus() {
    let Some(device) = device() else { return };
    let length = 1 << pick(17, 15);
    check_gap_arrays(device, 1024, &clustered(0.8, 1024, length, 1), "clustered");
    check_gap_arrays(device, 1024, &symbols(Spread::Flat, 1024, length, 3), "flat");
    check_gap_arrays(device, 1024, &vec![512; length], "one symbol");
    check_gap_arrays(device, 1 << 16, &symbols(Spread::Geometric(0.001), 1 << 16, length, 6), "large alphabet");
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = device() else { return };
    let good = format(2, 6, 1024, IndexKind::Symbol);
    let method = Method::ReduceShuffleMerge { magnitude: 9, reduction: 3 };
    assert!(reduce_shuffle_merge_2021::encoder::<u16>(device, &good, method).is_err());
    assert!(GapArrayEncoder::<u16>::new(device, &Format { classes: true, ..good }).is_err());
}
