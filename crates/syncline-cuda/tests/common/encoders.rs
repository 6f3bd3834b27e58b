//! Checks of Huffman encoders, which write the same bytes as the CPU.

use syncline_core::huffman::{self, EncodeOptions, EncodeScratch, IndexKind};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::CudaError;
use syncline_cuda::huffman::Symbol;
use syncline_cuda::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, StreamRange,
};

use super::common::{Random, Spread, symbols};

/// Encodes `input` as a batch with an encoder and compares every stream with the CPU's.
pub fn check_encoder<S: Symbol + huffman::Symbol>(
    device: &Device,
    format: &Format,
    encoder: &Encoder<S>,
    input: &[S],
    classes: &[u8],
    ranges: &[StreamRange],
    what: &str,
) {
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let batch = Batch::new(&stream, format, ranges).unwrap();
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
        assert_eq!(streams.len(), ranges.len());
        for (i, (range, stream)) in ranges.iter().zip(&streams).enumerate() {
            let first = (range.first_group as usize) << format.group_log2;
            let groups = range.first_group as usize..range.first_group as usize + range.groups as usize;
            let options = EncodeOptions {
                group_log2: format.group_log2,
                index: format.index,
                zero_bit_symbol: Some(range.free_symbol),
            };
            let mut expected = Vec::new();
            let own_classes = if format.classes { &classes[groups] } else { &[] };
            let own = &input[first..first + ((range.groups as usize) << format.group_log2)];
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
pub fn cut(groups: u32, free_symbol: u16) -> Vec<StreamRange> {
    let mut ranges = Vec::new();
    let mut first = 0;
    for length in [1, 31, 32, 33, 0, 64, 100, 257].into_iter().cycle() {
        let length = length.min(groups - first);
        ranges.push(StreamRange { first_group: first.into(), groups: length, free_symbol });
        first = (first + length + 3).min(groups);
        if first == groups {
            return ranges;
        }
    }
    ranges
}

pub fn format(symbol_bytes: u32, group_log2: u8, alphabet: u32, index: IndexKind) -> Format {
    Format { symbol_bytes, group_log2, alphabet, classes: false, index }
}

/// Returns long runs of the zero-bit symbol between geometric ones, like quantization codes.
pub fn clustered(share: f64, alphabet: u32, length: usize, seed: u64) -> Vec<u16> {
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
/// Symbols that a given codebook lacks, or that are outside of the alphabet, are an error, and nothing is written
/// outside of the output.
pub fn symbols_without_codewords_are_an_error(device: &Device, new: impl Fn(&Format) -> Encoder<u16>) {
    let stream = device.context().default_stream();
    let format = format(2, 6, 1024, IndexKind::Symbol);
    {
        for wrong in [1024_u16, u16::MAX, 9] {
            let mut input = symbols(Spread::Flat, 8, 1 << 14, 1);
            let batch =
                Batch::new(&stream, &format, &[StreamRange { first_group: 0, groups: 256, free_symbol: 0 }]).unwrap();
            let mut arena = Arena::new(stream.clone());
            let mut codebooks = BatchCodebooks::new(&stream, &batch).unwrap();
            let builder = BatchCodebooksBuilder::<u16>::new(device, &format).unwrap();
            let good = stream.clone_htod(&input).unwrap();
            builder.launch(&mut arena.frame().unwrap(), &good.as_view(), None, &batch, &mut codebooks).unwrap();
            input[12_345] = wrong;
            let bad = stream.clone_htod(&input).unwrap();
            let encoder = new(&format);
            let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
            let mut frame = arena.frame().unwrap();
            let input = EncodeInput { symbols: &bad.as_view(), classes: None, batch: &batch, codebooks: &codebooks };
            encoder.launch(&mut frame, &input, &mut encoded).unwrap();
            let error = encoded.read_streams(&stream).unwrap_err();
            assert!(matches!(error, CudaError::InvalidArgument(_)), "{error}");
        }
    }
}
