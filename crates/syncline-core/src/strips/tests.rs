use super::*;
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::LengthScratch;
use proptest::prelude::*;

/// Codes of a few tiles, most of them 0 or small.
fn codes() -> impl Strategy<Value = Vec<i32>> {
    let code = prop_oneof![8 => Just(0), 4 => -3..4i32, 2 => -40..40i32, 1 => -70_000..70_000i32, 1 => any::<i32>()];
    prop::collection::vec(code, 1..1500)
}

fn classes_of(tile: usize) -> usize {
    tile * 7 % 4
}

/// Encodes tiles of `size` codes with the codebooks of a sample of them.
fn encode(codes: &[i32], size: usize, sampled: usize, is_dense: bool) -> Vec<u8> {
    let mut counts: [Counts; 4] = Default::default();
    for (number, tile) in codes.chunks(size).enumerate().filter(|(number, _)| number % sampled == 0) {
        let counts = &mut counts[classes_of(number)];
        tile.chunks(STRIP_LEN).for_each(|codes| counts.add(Strip { codes, is_dense }));
    }
    let mut scratch = LengthScratch::default();
    let codebooks: Vec<Codebook> = counts.iter().map(|counts| build(counts, sampled > 1, &mut scratch)).collect();
    let encoders: Vec<Encoder> = codebooks.iter().map(Encoder::new).collect();
    let mut writer = StreamWriter::default();
    for (number, tile) in codes.chunks(size).enumerate() {
        let encoder = &encoders[classes_of(number)];
        tile.chunks(STRIP_LEN).for_each(|codes| writer.push(Strip { codes, is_dense }, encoder));
    }
    let mut out = Vec::new();
    writer.write(&codebooks.iter().collect::<Vec<_>>(), &mut out);
    out
}

fn strips(codes: &[i32], size: usize) -> usize {
    codes.chunks(size).map(|tile| strips_of(tile.len())).sum()
}

#[test]
fn every_symbol_has_one_meaning() {
    for number in 0..SYMBOLS {
        let symbol = Symbol::from_number(number).unwrap();
        match symbol.meaning() {
            Meaning::Run(_) => assert_eq!(symbol.extra_bits(), 0),
            Meaning::Small(value) => assert_eq!(Symbol::of(0, value), Some(symbol)),
            Meaning::Sized { run: 0, size: 0..4 } => assert!(symbol.is_required()),
            Meaning::Sized { run, size } => {
                let value = if size == 31 { i32::MIN } else { 17.max(1 << size) * if run == 0 { 1 } else { -1 } };
                assert_eq!(Symbol::of(run, if run > 0 { 1 << size } else { value }), Some(symbol));
            }
            Meaning::Any => assert_eq!(symbol, Symbol::ANY),
        }
    }
    assert_eq!((Symbol::of(3, 1 << 16), SYMBOLS), (None, 535));
}

/// Returns the symbols of a strip by their definition, given a codebook that has all.
fn symbols_by_definition(strip: Strip<'_>) -> Vec<Symbol> {
    let (mut symbols, mut zeros) = (Vec::new(), 0);
    for &code in strip.codes {
        if code == 0 {
            zeros += 1;
            continue;
        }
        if strip.is_dense {
            symbols.extend((0..zeros).map(|_| Symbol::power(0)));
            zeros = 0;
        }
        symbols.extend((0..zeros / 30).map(|_| Symbol::LONG_RUN));
        match Symbol::of(zeros % 30, code) {
            Some(symbol) => symbols.push(symbol),
            None => {
                let runs = (0..5).rev().filter(|exponent| (zeros % 30) >> exponent & 1 == 1);
                symbols.extend(runs.map(Symbol::power).chain(Symbol::of(0, code)));
            }
        }
        zeros = 0;
    }
    symbols
}

proptest! {
    #[test]
    fn symbols_counted_are_those_of_the_definition(codes in codes(), is_dense in any::<bool>()) {
        let (mut counts, mut expected) = (Counts::default(), [0; SYMBOLS]);
        for codes in codes.chunks(STRIP_LEN) {
            let strip = Strip { codes, is_dense };
            counts.add(strip);
            symbols_by_definition(strip).into_iter().for_each(|symbol| expected[symbol.number()] += 1);
        }
        prop_assert_eq!(counts.of_symbols(), expected);
    }

    #[test]
    fn codes_written_are_read_back(
        codes in codes(), size in prop_oneof![Just(512usize), 1..300usize], sampled in 1..9usize,
        is_dense in any::<bool>(),
    ) {
        let bytes = encode(&codes, size, sampled, is_dense);
        let stream = CodeStream::parse(&bytes, strips(&codes, size), 4, "test").unwrap();
        let mut strip = 0;
        for (number, tile) in codes.chunks(size).enumerate() {
            let mut back = vec![[0; 2]; tile.len()];
            stream.read(strip, classes_of(number), &mut back, 1).unwrap();
            prop_assert!(back.iter().zip(tile).all(|(back, code)| *back == [0, *code]));
            strip += strips_of(tile.len());
        }
    }

    #[test]
    fn damaged_streams_are_errors_or_other_codes(
        codes in codes(), damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..4), cut in any::<u16>(),
    ) {
        let mut bytes = encode(&codes, 512, 2, false);
        for (at, value) in damage {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= value;
        }
        bytes.truncate(bytes.len() - usize::from(cut % 3) * 5);
        if let Ok(stream) = CodeStream::parse(&bytes, strips(&codes, 512), 4, "test") {
            let mut strip = 0;
            for (number, tile) in codes.chunks(512).enumerate() {
                let mut back = vec![[0; 1]; tile.len()];
                let _ = stream.read(strip, classes_of(number), &mut back, 0);
                strip += strips_of(tile.len());
            }
        }
    }

    #[test]
    fn estimates_are_the_bits_of_what_is_counted(codes in codes(), is_dense in any::<bool>()) {
        let mut counts = Counts::default();
        codes.chunks(STRIP_LEN).for_each(|codes| counts.add(Strip { codes, is_dense }));
        let code = build(&counts, false, &mut LengthScratch::default());
        let encoder = Encoder::new(&code);
        let mut writer = StreamWriter::default();
        codes.chunks(STRIP_LEN).for_each(|codes| writer.push(Strip { codes, is_dense }, &encoder));
        let mut out = Vec::new();
        writer.write(&[&code], &mut out);
        let stream = CodeStream::parse(&out, strips_of(codes.len()), 1, "test").unwrap();
        prop_assert_eq!(counts.bits(&encoder).div_ceil(8), stream.part_bytes()[0]);
    }
}
