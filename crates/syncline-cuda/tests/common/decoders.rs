//! A suite of tests for Huffman decoders: data with edge cases, several streams per launch, damaged streams.

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{EncodeOptions, EncodeScratch, IndexKind, Stream, Symbol, encode};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::decode::{Batch, BatchStream, Decoding, status_text};

use super::common::{Random, Share, Spread, pick, symbols, unless_tiny};

/// A decoder under test.
pub trait TestDecoder<S> {
    /// Returns whether the decoder reads streams with this index and this number of codebooks.
    fn reads(&self, index: IndexKind, codebooks: usize) -> bool;

    /// Decodes a batch of streams, which are given with their symbols.
    fn launch(
        &self,
        arena: &mut Arena,
        decoding: Decoding<'_, '_, S>,
        streams: &[(&Stream<'_, S>, &[S])],
    ) -> syncline_cuda::Result<()>;
}

/// A decoder with its name.
pub type Named<S> = (&'static str, Box<dyn TestDecoder<S>>);

/// Returns symbols with many distributions, a multiple of 128 each, all below 2^`bits`.
fn shapes(bits: u32) -> Vec<(&'static str, Vec<u16>)> {
    let mut r = Random(7);
    let mask = ((1_u32 << bits) - 1) as u16;
    let center = 1_u16 << (bits - 1);
    let n = 128 * pick(300, unless_tiny(40, 12));
    let geometric = |share, n| symbols(Spread::Geometric(share), 1 << bits, n, 11);
    let mut shapes = vec![
        ("empty", vec![]),
        ("one group", geometric(0.4, 128)),
        ("33 groups", geometric(0.4, 128 * 33)),
        ("single symbol", vec![3; n]),
        ("largest symbol", vec![mask; n]),
        ("98 % one symbol", geometric(0.98, n)),
        ("2 bits", geometric(0.6, 128 * pick(5000, 70))),
        ("5 bits", geometric(0.13, n)),
    ];
    let clusters = |(i, s): (usize, u16)| if i / 512 % 3 == 0 { s } else { center };
    let many = 128 * pick(3000, unless_tiny(300, 90));
    shapes.push(("clusters of zero-bit groups", geometric(0.3, many).into_iter().enumerate().map(clusters).collect()));
    shapes.extend([
        ("two symbols", (0..n).map(|_| if r.below(9) == 0 { mask } else { 0 }).collect()),
        // One symbol in runs, the others with the longest codewords.
        ("runs", (0..many).map(|_| if r.below(70) == 0 { r.next() as u16 & mask } else { center }).collect()),
        ("flat", (0..n).map(|_| r.next() as u16).collect::<Vec<_>>()),
        // All codewords have 6 bits, which divides neither 32 nor 128: a wrong entry point stays wrong.
        ("never synchronizing", (0..many).map(|_| r.below(64) as u16).collect()),
    ]);
    // Fibonacci frequencies give the longest codewords.
    let mut fibonacci = Vec::new();
    let (mut a, mut b) = (1_usize, 1_usize);
    for symbol in 0..pick(24, unless_tiny(18, 15)) {
        fibonacci.extend(std::iter::repeat_n(symbol * 5, a));
        (a, b) = (b, a + b);
    }
    fibonacci.resize(fibonacci.len().next_multiple_of(128), 0);
    for i in (1..fibonacci.len()).rev() {
        fibonacci.swap(i, r.below(i as u64 + 1) as usize);
    }
    shapes.push(("fibonacci", fibonacci));
    let again = (0..=unless_tiny(mask, 127)).map(|i| i & (i >> 3));
    shapes.push(("every symbol", (0..=mask).chain(again).collect()));
    for (_, symbols) in &mut shapes {
        symbols.iter_mut().for_each(|s| *s &= mask);
    }
    shapes
}

/// Returns every distribution with every index, and one stream with classes.
pub fn cases<S: Symbol>(bits: u32, group_log2: u8) -> Vec<Case<S>> {
    let mut cases = Vec::new();
    for (what, symbols) in shapes(bits) {
        let symbols: Vec<S> = symbols.into_iter().map(S::truncate).collect();
        for index in IndexKind::ALL {
            let options = EncodeOptions { group_log2, index, zero_bit_symbol: None };
            cases.push(Case::new(what, symbols.clone(), vec![], &options));
        }
        let never =
            EncodeOptions { group_log2, index: IndexKind::Symbol, zero_bit_symbol: Some(((1_u32 << bits) - 2) as u16) };
        cases.push(Case::new(&format!("{what}, hardly a zero-bit group"), symbols, vec![], &never));
    }
    // Groups of very different distributions, one class for each.
    let groups = pick(2000, unless_tiny(200, 80)) >> (group_log2 - 6);
    let mut r = Random(3);
    let classes: Vec<u8> = (0..groups).map(|_| r.below(4) as u8).collect();
    let shares = [0.97, 0.6, 0.2, 0.03]
        .map(|share| symbols(Spread::Geometric(share), 1 << bits.min(10), groups << group_log2, 5));
    let symbols =
        (0..groups << group_log2).map(|i| S::truncate(shares[classes[i >> group_log2] as usize][i])).collect();
    let options = EncodeOptions { group_log2, index: IndexKind::Symbol, zero_bit_symbol: None };
    let case = Case::new("classes", symbols, classes, &options);
    assert!(Stream::<S>::parse(&case.bytes, "test").unwrap().needs_classes());
    cases.push(case);
    cases
}

/// Number of symbols after each output that must not be written.
pub const GUARD: usize = 256;

/// A stream, its symbols and classes.
pub struct Case<S> {
    pub what: String,
    pub symbols: Vec<S>,
    pub classes: Vec<u8>,
    pub bytes: Vec<u8>,
    /// The bytes on the device; differ from `bytes` if the stream is damaged.
    pub on_device: Vec<u8>,
}

impl<S: Symbol> Case<S> {
    pub fn new(what: &str, symbols: Vec<S>, classes: Vec<u8>, options: &EncodeOptions) -> Self {
        let mut bytes = Vec::new();
        encode(&symbols, &classes, options, &mut EncodeScratch::default(), &mut bytes);
        let what = format!("{what}, {} bytes a symbol, {options:?}", S::BYTES);
        Self { what, symbols, classes, on_device: bytes.clone(), bytes }
    }
}

/// Decodes the cases as one batch. Returns the status and symbols of each.
pub fn decode<S: Symbol + DeviceRepr>(
    arena: &mut Arena,
    decoder: &dyn TestDecoder<S>,
    cases: &[&Case<S>],
) -> Vec<(u32, Vec<S>)> {
    let poison = S::truncate(0x5a5a);
    let stream = arena.stream().clone();
    let parsed: Vec<_> = cases.iter().map(|case| Stream::<S>::parse(&case.bytes, "test").unwrap()).collect();
    let (mut input, mut classes, mut places, mut room) = (vec![0xa5_u8; 48], Vec::new(), Vec::new(), 0);
    for (case, stream) in cases.iter().zip(&parsed) {
        let place = BatchStream {
            stream,
            input_offset: input.len() as u64,
            output_offset: room as u64,
            classes_offset: classes.len() as u64,
        };
        places.push(place);
        input.extend_from_slice(&case.on_device);
        input.resize(input.len().next_multiple_of(16), 0xa5);
        classes.extend_from_slice(&case.classes);
        room += case.symbols.len() + GUARD;
    }
    // Without padding: the last stream ends with the buffer.
    let last = parsed.last().map_or(48, |s| places[places.len() - 1].input_offset as usize + s.byte_len());
    input.truncate(last);
    let batch = Batch::new(&stream, &places).unwrap();
    let input = stream.clone_htod(&input).unwrap();
    classes.push(0);
    let classes = stream.clone_htod(&classes).unwrap();
    let mut output = stream.clone_htod(&vec![poison; room.max(1)]).unwrap();
    let mut status = stream.clone_htod(&vec![u32::MAX; cases.len()]).unwrap();
    let decoding = Decoding {
        input: &input.as_view(),
        classes: &classes.as_view(),
        batch: &batch.as_view(),
        output: &mut output.as_view_mut(),
        status: &mut status.as_view_mut(),
    };
    let streams: Vec<(&Stream<'_, S>, &[S])> =
        parsed.iter().zip(cases).map(|(stream, case)| (stream, case.symbols.as_slice())).collect();
    decoder.launch(arena, decoding, &streams).unwrap();
    let output = stream.clone_dtoh(&output).unwrap();
    let status = stream.clone_dtoh(&status).unwrap();
    cases
        .iter()
        .zip(&places)
        .zip(status)
        .map(|((case, place), status)| {
            let start = place.output_offset as usize;
            let end = start + case.symbols.len();
            assert!(output[end..end + GUARD].iter().all(|&s| s == poison), "{}: written past its end", case.what);
            (status, output[start..end].to_vec())
        })
        .collect()
}

/// Decodes the streams that a decoder supports one by one, and then all streams with the same index as one batch. Tiny
/// runs take one stream in eleven for the batch.
pub fn round_trips<S: Symbol + DeviceRepr>(device: &Device, cases: &[Case<S>], decoders: Vec<Named<S>>) {
    let mut arena = Arena::new(device.context().default_stream());
    let mut share = Share::one_in(17).if_tiny(67, 20);
    for (number, (name, decoder)) in decoders.into_iter().enumerate() {
        for index in IndexKind::ALL {
            let readable: Vec<&Case<S>> = cases
                .iter()
                .filter(|case| {
                    let stream = Stream::<S>::parse(&case.bytes, "test").unwrap();
                    stream.index_kind() == index && decoder.reads(index, stream.codebooks().len())
                })
                .collect();
            let single = readable.iter().map(|case| vec![*case]).filter(|_| share.takes());
            let together = readable.iter().copied().skip(unless_tiny(0, number % 11)).step_by(unless_tiny(1, 11));
            for batch in single.chain([together.collect(), vec![]]) {
                for (case, (status, symbols)) in batch.iter().zip(decode(&mut arena, &*decoder, &batch)) {
                    assert_eq!(status_text(status), None, "{name}: {}", case.what);
                    let wrong = symbols.iter().zip(&case.symbols).position(|(a, b)| a != b);
                    assert_eq!(wrong, None, "{name}: {} of {} in a batch of {}", case.what, symbols.len(), batch.len());
                }
            }
        }
    }
}

/// Runs of the most frequent symbol that are longer than a warp decodes at a time, between dense data and rare symbols
/// with the longest codewords, without zero-bit groups.
pub fn long_runs<S: Symbol + DeviceRepr>(device: &Device, bits: u32, decoders: Vec<Named<S>>) {
    let length = 128 * unless_tiny(1500, 150);
    let (center, most) = (1_u16 << (bits - 1), ((1_u32 << bits) - 2) as u16);
    let dense = symbols(Spread::Geometric(0.15), 1 << (bits - 1), length, 2);
    let mut r = Random(9);
    let of = |i: usize| match i / 9000 % 3 {
        0 => center,
        1 => dense[i],
        _ if r.below(40) == 0 => r.below(u64::from(most)) as u16,
        _ => center,
    };
    let symbols: Vec<S> = (0..length).map(of).map(S::truncate).collect();
    // No group consists of the zero-bit symbol.
    let case = |index| {
        Case::new(
            "long runs",
            symbols.clone(),
            vec![],
            &EncodeOptions { group_log2: 7, index, zero_bit_symbol: Some(most) },
        )
    };
    round_trips(device, &IndexKind::ALL.map(case), decoders);
}

/// All decoders on little data, for the slow sanitizer tools.
pub fn small_streams(device: &Device, decoders: &[Named<u16>]) {
    let mut arena = Arena::new(device.context().default_stream());
    let groups = 70;
    let mut symbols = self::symbols(Spread::Geometric(0.3), 1024, groups * 128, 1);
    symbols[128 * 9..128 * 20].fill(512);
    let flat = (0..groups * 128).map(|i| (i * 31 % 64) as u16).collect::<Vec<_>>();
    let classes: Vec<u8> = (0..groups).map(|i| (i % 4) as u8).collect();
    let by_class = (0..groups * 128)
        .map(|i| if i / 128 % 4 == 3 { symbols[i] } else { 7 + (i / 128 % 4) as u16 * (i as u16 % 3) });
    let by_class: Vec<u16> = by_class.collect();
    for index in IndexKind::ALL {
        let options = EncodeOptions { group_log2: 7, index, zero_bit_symbol: Some(512) };
        let cases = [
            Case::new("small", symbols.clone(), vec![], &options),
            Case::new("flat", flat.clone(), vec![], &options),
            Case::new("classes", by_class.clone(), classes.clone(), &options),
        ];
        for (name, decoder) in decoders {
            let books = |case: &&Case<u16>| Stream::<u16>::parse(&case.bytes, "test").unwrap().codebooks().len();
            let readable: Vec<&Case<u16>> = cases.iter().filter(|case| decoder.reads(index, books(case))).collect();
            for (case, (status, symbols)) in readable.iter().zip(decode(&mut arena, &**decoder, &readable)) {
                assert_eq!(status_text(status), None, "{name}: {}", case.what);
                assert!(symbols == case.symbols, "{name}: {}", case.what);
            }
        }
    }
}

/// Batches of several short streams, some of them without coded groups.
pub fn batches_of_several_streams(device: &Device, decoders: &[Named<u16>]) {
    let mut arena = Arena::new(device.context().default_stream());
    for index in IndexKind::ALL {
        let options = EncodeOptions { group_log2: 7, index, zero_bit_symbol: Some(512) };
        let case = |i: usize| {
            let length = 128 * [1, 300, 40, 7][i % 4];
            let spread = Spread::Geometric([0.3, 0.9][i % 2]);
            let mut symbols = self::symbols(spread, 1024, length, i as u64 + 1);
            // A third of each is zero-bit groups, and all of every fifth.
            let free = if i % 5 == 4 { length } else { length / 3 };
            symbols[..free].fill(512);
            Case::new("one of several", symbols, vec![], &options)
        };
        let cases: Vec<_> = (0..17).map(case).collect();
        for (name, decoder) in decoders {
            if !decoder.reads(index, 1) {
                continue;
            }
            for count in [5, 16, 17] {
                let batch: Vec<&Case<u16>> = cases[..count].iter().collect();
                for (case, (status, symbols)) in batch.iter().zip(decode(&mut arena, &**decoder, &batch)) {
                    assert_eq!(status_text(status), None, "{name}: {} of {count}", case.what);
                    assert!(symbols == case.symbols, "{name}: {} of {count}", case.what);
                }
            }
        }
    }
}

/// Bytes on the device are changed after parsing: the result must be a status, or the correct symbols, and no writes
/// outside of the output.
pub fn damage_is_reported(device: &Device, decoders: fn(&Device, u32) -> Vec<Named<u16>>) {
    let mut arena = Arena::new(device.context().default_stream());
    let mut r = Random(99);
    let mut share = Share::one_in(31);
    for group_log2 in [6, 7_u8] {
        let mut cases = cases::<u16>(10, group_log2);
        cases.retain(|case| !case.symbols.is_empty());
        for (name, decoder) in decoders(device, group_log2.into()) {
            for case in &mut cases {
                let stream = Stream::<u16>::parse(&case.bytes, "test").unwrap();
                if !decoder.reads(stream.index_kind(), stream.codebooks().len()) {
                    continue;
                }
                let untrusted = 40 + stream.codebook_bytes();
                for round in 0..6 {
                    if !share.takes() {
                        continue;
                    }
                    case.on_device.clone_from(&case.bytes);
                    let damaged = &mut case.on_device[untrusted..];
                    match round {
                        0 => damaged.fill(0xff),
                        1 => damaged.fill(0),
                        2 => damaged.iter_mut().for_each(|byte| *byte = r.next() as u8),
                        // Removes the tail of the stream.
                        3 => {
                            let cut = r.below(damaged.len() as u64) as usize;
                            damaged[cut..].fill(0);
                        }
                        _ => damaged[r.below(damaged.len() as u64) as usize] ^= 1 << r.below(8),
                    }
                    let case = &*case;
                    let (status, symbols) = decode(&mut arena, &*decoder, &[case]).pop().unwrap();
                    let right = symbols == case.symbols;
                    assert!(status != 0 || right, "{name}: {}, damage {round}, not noticed", case.what);
                }
            }
        }
    }
}
