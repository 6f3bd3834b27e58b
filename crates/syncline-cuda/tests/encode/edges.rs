//! Streams at the edges of the format, and codes over the length limit.

use syncline_core::huffman::IndexKind;
use syncline_core::huffman::lengths::{LengthScratch, code_lengths_limited};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, StreamPlan, StreamRange,
};

use crate::common::{self, Share, Spread, pick, symbols};
use crate::{check_encoder, clustered, format, sparse};

/// Streams that end within a word, within a byte of the bitmap or an entry of the index, or at the end of a
/// subsequence.
#[test]
fn streams_and_blocks_of_every_length() {
    let Some(device) = common::device() else { return };
    let range = |first: u32, groups, free_symbol| StreamRange { first_group: first.into(), groups, free_symbol };
    let longest = pick(1 << 21, 1 << 17);
    let inputs = [
        ("skewed", clustered(0.8, 1024, longest, 21)),
        ("rather flat", symbols(Spread::Geometric(0.05), 1024, longest, 22)),
        ("few coded groups", sparse(longest, pick(70_000, 9000))),
        ("hardly any coded groups", sparse(longest, longest - 1)),
        ("one symbol", vec![512; longest]),
        ("another symbol", vec![9; longest]),
        // One bit per codeword: groups, and therefore blocks and streams, are whole or half subsequences.
        ("two symbols", symbols(Spread::Flat, 2, longest, 23).iter().map(|s| 511 + s).collect()),
        // Frequencies whose optimal codewords are longer than the limit.
        ("long codewords", (0..longest).map(|i| 500 + i.trailing_zeros() as u16).collect()),
    ];
    let mut share = Share::one_in(5);
    for group_log2 in [6, 7] {
        for index in IndexKind::ALL {
            let format = format(2, group_log2, 1024, index);
            let groups = (longest >> group_log2) as u32;
            let mut cuts: Vec<_> =
                [1, 7, 8, 9, 31, 33, 1000, groups - 5, groups].map(|n| vec![range(0, n, 512)]).to_vec();
            // Streams of many lengths in one batch, including empty ones. There are 32 streams of the last length, the
            // maximum.
            cuts.push([1, 31, 0, 32, 33, 7, 257, 0].iter().map(|&n| range(n, n, 512)).collect());
            cuts.push([groups / 2 - 3, 1, groups / 4].iter().map(|&n| range(2, n, 512)).collect());
            cuts.push((0..32).map(|i| range(i * 3, groups / (i + 2), if i % 5 == 0 { 9 } else { 512 })).collect());
            for (what, input) in &inputs {
                for ranges in &cuts {
                    if share.takes() {
                        let encoder = Encoder::new(device, &format).unwrap();
                        check_encoder(device, &format, &encoder, input, &[], ranges, what);
                    }
                }
            }
        }
    }
}

/// Each stream of a batch reports its own errors.
#[test]
fn errors_are_of_one_stream() {
    let Some(device) = common::device() else { return };
    IndexKind::ALL.into_iter().for_each(|index| errors_with(device, &format(2, 7, 1024, index)));
}

fn errors_with(device: &Device, format: &Format) {
    let stream = device.context().default_stream();
    let ranges = [0, 100, 200].map(|first_group| StreamRange { first_group, groups: 100, free_symbol: 3 });
    let mut input = symbols(Spread::Flat, 8, 300 << 7, 5);
    let batch = Batch::new(&stream, format, &ranges).unwrap();
    let mut arena = Arena::new(stream.clone());
    let mut codebooks = BatchCodebooks::new(&stream, &batch).unwrap();
    let builder = BatchCodebooksBuilder::<u16>::new(device, format).unwrap();
    let good = stream.clone_htod(&input).unwrap();
    builder.launch(&mut arena.frame().unwrap(), &good.as_view(), None, &batch, &mut codebooks).unwrap();
    input[150 << 7] = 1024;
    let bad = stream.clone_htod(&input).unwrap();
    {
        let encoder = Encoder::<u16>::new(device, format).unwrap();
        let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
        let mut launch = |encoded: &mut Encoded| {
            let input = EncodeInput { symbols: &bad.as_view(), classes: None, batch: &batch, codebooks: &codebooks };
            encoder.launch(&mut arena.frame().unwrap(), &input, encoded).unwrap();
            let status = |plan: &StreamPlan| (plan.status, plan.stream_bytes);
            let plans = stream.clone_dtoh(encoded.plans()).unwrap();
            plans.iter().map(status).collect::<Vec<_>>()
        };
        let plans = launch(&mut encoded);
        assert_eq!(plans.iter().map(|plan| plan.0).collect::<Vec<_>>(), [0, 1, 0]);
        // Room for everything except the last byte of the last stream, of which nothing may be written.
        let places = stream.clone_dtoh(encoded.offsets()).unwrap();
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

/// Returns `rare` symbols that occur once, and others that each have the given share of the remaining symbols: their
/// Huffman tree is deeper than the length limit.
fn deep(rare: usize, share: f64, length: usize) -> Vec<u16> {
    let mut input: Vec<u16> = (0..rare as u16).collect();
    for symbol in rare as u16..1000 {
        let left = length - input.len();
        input.resize(input.len() + ((left as f64 * share) as usize).clamp(1, left), symbol);
        if input.len() == length {
            break;
        }
    }
    input.resize(length, 1000);
    input
}

/// The limit costs more than 1/2048 of some codes, so that floor trees are built. The numbers of streams select several
/// blocks per codebook, one block that builds all trees, and one block that builds them when needed.
#[test]
fn codes_over_the_length_limit() {
    let Some(device) = common::device() else { return };
    let length = 1 << 18;
    let inputs = [(200, 0.6), (500, 0.3), (900, 0.3)].map(|(rare, share)| deep(rare, share, length));
    let costs = inputs.iter().map(|input| {
        let mut counts = vec![0; 1024];
        input.iter().for_each(|&symbol| counts[usize::from(symbol)] += 1);
        let bits = |limit| -> u64 {
            let mut lengths = Vec::new();
            code_lengths_limited(&counts, limit, &mut LengthScratch::default(), &mut lengths);
            counts.iter().zip(&lengths).map(|(&count, &length)| u64::from(count) * u64::from(length)).sum()
        };
        bits(16) > bits(63) + bits(63) / 2048
    });
    assert!(costs.filter(|&is_over| is_over).count() >= 2, "some codes need floor trees");
    let input = inputs.concat();
    let groups = (length >> 7) as u32;
    let multiprocessors = device.info().multiprocessors as usize;
    for streams in [1, multiprocessors.min(24), (3 * multiprocessors + 1).min(pick(400, 25))] {
        let range = |i: usize| StreamRange {
            first_group: (i % inputs.len()) as u64 * u64::from(groups),
            groups,
            free_symbol: 1023,
        };
        let ranges: Vec<_> = (0..streams).map(range).collect();
        for with_classes in [false, true] {
            let format = Format { classes: with_classes, ..format(2, 7, 1024, IndexKind::Symbol) };
            let classes: Vec<u8> = (0..input.len() >> 7).map(|group| (group % 4) as u8).collect();
            let classes = if with_classes { &classes[..] } else { &[] };
            let encoder = Encoder::new(device, &format).unwrap();
            check_encoder(device, &format, &encoder, &input, classes, &ranges, "deep trees");
        }
    }
}
