//! Batches that are encoded in one launch.

use syncline_core::huffman::IndexKind;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::encode::{Batch, Books, BooksBuilder, Encoded, Encoder, Format, Method, Plan, StreamSpan};

use crate::common::{self, Share, Spread, pick, symbols};
use crate::{MOST_SMALL, check_encoder, clustered, format, sparse};

/// The kernels that an encoder launches for a batch.
fn kernels(device: &Device, format: &Format, spans: &[StreamSpan], groups: u64) -> Vec<&'static str> {
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let batch = Batch::new(&stream, format, spans).unwrap();
    let books = Books::new(&stream, &batch).unwrap();
    let input = stream.alloc_zeros::<u16>((groups as usize) << format.group_log2).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
    let encoder = Encoder::new(device, format, Method::Merged).unwrap();
    let mut names = Vec::new();
    let mut frame = arena.frame().unwrap();
    let mut launched = |name| {
        names.push(name);
        Ok(())
    };
    encoder.launch_observed(&mut frame, &input.as_view(), None, &batch, &books, &mut encoded, &mut launched).unwrap();
    names
}

/// Batches of one launch, at their edges: streams and blocks that end within a word, a byte of the bitmap or an entry
/// of the index, or where a subsequence does.
#[test]
fn small_batches() {
    let Some(device) = common::device() else { return };
    let span = |first: u32, groups, free_symbol| StreamSpan { first_group: first.into(), groups, free_symbol };
    let longest = pick(1 << 21, 1 << 17);
    let inputs = [
        ("skewed", clustered(0.8, 1024, longest, 21)),
        ("rather flat", symbols(Spread::Geometric(0.05), 1024, longest, 22)),
        ("few live groups", sparse(longest, pick(70_000, 9000))),
        ("hardly any live groups", sparse(longest, longest - 1)),
        ("one symbol", vec![512; longest]),
        ("another symbol", vec![9; longest]),
        // A bit each: groups, and so blocks and streams, are subsequences or halves of one.
        ("two symbols", symbols(Spread::Flat, 2, longest, 23).iter().map(|s| 511 + s).collect()),
        // Frequencies that want codewords longer than the limit.
        ("long codewords", (0..longest).map(|i| 500 + i.trailing_zeros() as u16).collect()),
    ];
    let mut share = Share::one_in(5);
    for group_log2 in [6, 7] {
        for index in IndexKind::ALL {
            let format = format(2, group_log2, 1024, index);
            let groups = (longest >> group_log2) as u32;
            let mut cuts: Vec<_> =
                [1, 7, 8, 9, 31, 33, 1000, groups - 5, groups].map(|n| vec![span(0, n, 512)]).to_vec();
            // Streams of all lengths beside each other, among them empty ones; of the last there are 32, which is the
            // most.
            cuts.push([1, 31, 0, 32, 33, 7, 257, 0].iter().map(|&n| span(n, n, 512)).collect());
            cuts.push([groups / 2 - 3, 1, groups / 4].iter().map(|&n| span(2, n, 512)).collect());
            cuts.push((0..32).map(|i| span(i * 3, groups / (i + 2), if i % 5 == 0 { 9 } else { 512 })).collect());
            for (what, input) in &inputs {
                for spans in &cuts {
                    if share.takes() {
                        let encoder = Encoder::new(device, &format, Method::Merged).unwrap();
                        check_encoder(device, &format, &encoder, input, &[], spans, what);
                    }
                }
            }
            // What is small for a device depends on its blocks.
            let ten = vec![span(0, (groups / 2).min(16 * device.info().multiprocessors), 0); 3];
            assert_eq!(kernels(device, &format, &ten, groups.into()), ["encode_small"]);
            let many = vec![span(0, 1, 0); MOST_SMALL + 1];
            assert_eq!(kernels(device, &format, &many, groups.into()).len(), 3, "more streams than it can have");
        }
    }
    let wide = format(2, 7, 8192, IndexKind::Gap);
    assert_eq!(kernels(device, &wide, &[span(0, 100, 0)], 100).len(), 3, "no gaps of eight bits in one launch");
    for index in IndexKind::ALL {
        let most = format(2, 7, 1024, index);
        assert_eq!(kernels(device, &most, &[span(0, 1 << 15, 0); 8], 1 << 15).len(), 3, "more than there is room for");
    }
}

/// Of streams that are encoded together each has its own errors.
#[test]
fn errors_are_of_one_stream() {
    let Some(device) = common::device() else { return };
    IndexKind::ALL.into_iter().for_each(|index| errors_with(device, &format(2, 7, 1024, index)));
}

fn errors_with(device: &Device, format: &Format) {
    let stream = device.context().default_stream();
    let spans = [0, 100, 200].map(|first_group| StreamSpan { first_group, groups: 100, free_symbol: 3 });
    let mut input = symbols(Spread::Flat, 8, 300 << 7, 5);
    let batch = Batch::new(&stream, format, &spans).unwrap();
    let mut arena = Arena::new(stream.clone());
    let mut books = Books::new(&stream, &batch).unwrap();
    let builder = BooksBuilder::<u16>::new(device, format).unwrap();
    let good = stream.clone_htod(&input).unwrap();
    builder.launch(&mut arena.frame().unwrap(), &good.as_view(), None, &batch, &mut books).unwrap();
    input[150 << 7] = 1024;
    let bad = stream.clone_htod(&input).unwrap();
    let in_turn = Encoder::<u16>::with_merged_shape(device, format, 256, 4, 2048).unwrap();
    for encoder in [Encoder::<u16>::new(device, format, Method::Merged).unwrap(), in_turn] {
        let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
        let mut launch = |encoded: &mut Encoded| {
            encoder.launch(&mut arena.frame().unwrap(), &bad.as_view(), None, &batch, &books, encoded).unwrap();
            let status = |plan: &Plan| (plan.status, plan.stream_bytes);
            let plans = stream.clone_dtoh(encoded.plans()).unwrap();
            plans.iter().map(status).collect::<Vec<_>>()
        };
        let plans = launch(&mut encoded);
        assert_eq!(plans.iter().map(|plan| plan.0).collect::<Vec<_>>(), [0, 1, 0]);
        // Room for all but the last byte of the last stream: nothing of it may be written.
        let places = stream.clone_dtoh(encoded.places()).unwrap();
        let room = places[2] + u64::from(plans[2].1) - 1;
        let mut short = Encoded::new(&stream, &batch, room).unwrap();
        stream.memcpy_htod(&vec![0xA5_u8; room as usize], short.bytes_mut()).unwrap();
        assert_eq!(launch(&mut short).iter().map(|plan| plan.0).collect::<Vec<_>>(), [0, 1, 2]);
        let bytes = stream.clone_dtoh(short.bytes()).unwrap();
        assert!(bytes[places[2] as usize..].iter().all(|&byte| byte == 0xA5));
        let whole = stream.clone_dtoh(encoded.bytes()).unwrap();
        assert!(bytes[..plans[0].1 as usize] == whole[..plans[0].1 as usize]);
    }
}
