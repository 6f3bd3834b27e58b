//! Every mode against the codes it wrote, and whole streams.

use proptest::prelude::*;

use super::group::{TokenDecoder, write_group};
use super::*;
use crate::bits::reader::BitWords;
use crate::bits::writer::BitWriter;
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::{LengthScratch, code_lengths};

fn codes() -> impl Strategy<Value = Vec<i32>> {
    let code = prop_oneof![
        12 => Just(0),
        4 => -3i32..4,
        2 => -512i32..512,
        1 => -2047i32..2048,
        1 => (any::<i32>(), 0u32..31).prop_map(|(c, shift)| c >> shift),
    ];
    let narrow = prop_oneof![20 => Just(0), 3 => -2i32..3, 1 => -500i32..500];
    // Few values, some of them large: of all groups, or of some.
    let discrete = prop_oneof![3 => Just(0), 3 => Just(-777), 2 => Just(20_000), 1 => Just(31_000)];
    let mixed = prop_oneof![40 => Just(900), 40 => Just(-777), 1 => any::<i32>()];
    prop_oneof![
        prop::collection::vec(discrete, 0..700),
        prop::collection::vec(mixed, 0..700),
        prop::collection::vec(code, 0..700),
        prop::collection::vec(narrow, 0..700),
        prop::collection::vec(Just(0), 0..300),
    ]
}

fn codebook(codes: &[i32], size: usize, mode: Mode) -> Codebook {
    let mut counts = vec![0; mode.alphabet()];
    codes.chunks(size).for_each(|group| tokenize(group, mode, |token| counts[token.symbol as usize] += 1));
    let mut lengths = Vec::new();
    code_lengths(&counts, &mut LengthScratch::default(), &mut lengths);
    Codebook::new(lengths).unwrap()
}

fn round_trip(codes: &[i32], size: usize, mode: Mode) -> Result<(), TestCaseError> {
    if codes.iter().any(|&code| !mode.represents(code)) {
        return Ok(());
    }
    let code = codebook(codes, size, mode);
    let mut table = vec![0; mode.alphabet()];
    code.fill_codewords(&mut table);
    let mut bytes = vec![0; codes.len() * 8 + 16];
    let mut writer = BitWriter::new(&mut bytes);
    let mut starts = Vec::new();
    for group in codes.chunks(size) {
        starts.push(writer.position());
        write_group(group, mode, &table, &mut writer);
    }
    let bits = writer.finish();
    bytes.resize(BitWords::byte_len(bits) as usize, 0);
    let words = BitWords::new(&bytes, bits).unwrap();
    starts.push(bits);
    let decoder = TokenDecoder::new(mode, code);
    for (i, group) in codes.chunks(size).enumerate() {
        let mut read = vec![[0, 7]; group.len()];
        prop_assert_eq!(decoder.read_group(words, starts[i], starts[i + 1], &mut read, 0), Some(()));
        prop_assert!(read.iter().zip(group).all(|(&read, &code)| read == [code, 7]));
    }
    Ok(())
}

fn ends(codes: &[i32], size: usize) -> Vec<u32> {
    let mut end = 0;
    let ends = codes.chunks(size).map(|group| {
        end += group.len() as u32;
        end
    });
    ends.collect()
}

proptest! {
    #[test]
    fn codes_written_are_read_back(codes in codes(), size in prop_oneof![Just(128usize), 1usize..257]) {
        for mode in Mode::ALL {
            round_trip(&codes, size, mode)?;
        }
    }

    #[test]
    fn streams_come_back(codes in codes(), size in prop_oneof![Just(128usize), 1usize..257]) {
        let ends = ends(&codes, size);
        let mut bytes = Vec::new();
        let mut scratch = EncodeScratch::default();
        encode(&codes, &ends, true, &mut scratch, &mut bytes);
        let estimated = estimate(&codes, &ends, &mut scratch);
        let stream = TokenStream::parse(&bytes, ends.len(), "test").unwrap();
        let [codewords, codebooks, _] = stream.part_bytes();
        prop_assert!(estimated <= 8 * (codewords + 2 * codebooks) + ends.len() as u64 * 2 + 64);
        for (number, group) in codes.chunks(size).enumerate() {
            let mut read = vec![[7, 0]; group.len()];
            stream.read_groups(number, size, &mut read, 1).unwrap();
            prop_assert!(read.iter().zip(group).all(|(&read, &code)| read == [7, code]));
        }
        let mut read = vec![[0]; codes.len()];
        stream.read_groups(0, size, &mut read, 0).unwrap();
        prop_assert_eq!(read.as_flattened(), &codes);
        prop_assert!(TokenStream::parse(&bytes, ends.len() + 1, "test").is_err());
        for length in (0..bytes.len()).step_by(7) {
            prop_assert!(TokenStream::parse(&bytes[..length], ends.len(), "test").is_err());
        }
    }

    #[test]
    fn streams_without_an_index_come_back(
        codes in codes(), size in prop_oneof![Just(128usize), 1usize..257], wrong in 1usize..200,
        damage in prop::collection::vec((any::<u32>(), any::<u8>()), 0..3),
    ) {
        let ends = ends(&codes, size);
        let lengths = || codes.chunks(size).map(<[i32]>::len);
        let (mut bytes, mut indexed) = (Vec::new(), Vec::new());
        let mut scratch = EncodeScratch::default();
        encode(&codes, &ends, false, &mut scratch, &mut bytes);
        encode(&codes, &ends, true, &mut scratch, &mut indexed);
        prop_assert!(bytes.len() <= indexed.len());
        let mut stream = TokenStream::parse(&bytes, ends.len(), "test").unwrap();
        prop_assert!(!stream.has_index());
        stream.find_starts(lengths()).unwrap();
        let mut read = vec![[0]; codes.len()];
        stream.read_groups(0, size, &mut read, 0).unwrap();
        prop_assert_eq!(read.as_flattened(), &codes);
        // Lengths that nobody wrote, and bytes.
        let _ = stream.find_starts(lengths().map(|length| length + wrong));
        for (at, value) in damage {
            let length = bytes.len();
            bytes[at as usize % length] = value;
        }
        if let Ok(mut stream) = TokenStream::parse(&bytes, ends.len(), "test")
            && (stream.has_index() || stream.find_starts(lengths()).is_ok())
        {
            let _ = stream.read_groups(0, size, &mut vec![[0]; codes.len()], 0);
        }
    }

    #[test]
    fn damaged_streams_are_read_or_refused(
        codes in codes(), damage in prop::collection::vec((any::<u32>(), any::<u8>()), 1..4),
    ) {
        let ends = ends(&codes, 128);
        let mut bytes = Vec::new();
        encode(&codes, &ends, true, &mut EncodeScratch::default(), &mut bytes);
        for (at, value) in damage {
            let length = bytes.len();
            bytes[at as usize % length] = value;
        }
        if let Ok(stream) = TokenStream::parse(&bytes, ends.len(), "test") {
            for (number, group) in codes.chunks(128).enumerate() {
                let _ = stream.read_groups(number, 128, &mut vec![[0]; group.len()], 0);
            }
            let _ = stream.read_groups(0, 128, &mut vec![[0]; codes.len()], 0);
        }
    }

    #[test]
    fn any_bits_are_read_or_refused(codes in codes(), noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let bits = noise.len() as u32 * 8;
        let mut bytes = noise;
        bytes.resize(BitWords::byte_len(bits) as usize, 0);
        let words = BitWords::new(&bytes, bits).unwrap();
        for mode in Mode::ALL {
            if codes.iter().all(|&code| mode.represents(code)) {
                let decoder = TokenDecoder::new(mode, codebook(&codes, 128, mode));
                for start in [0, bits / 2, bits] {
                    let _ = decoder.read_group(words, start, bits, &mut [[0]; 128], 0);
                }
            }
        }
    }
}

#[test]
fn a_mode_has_a_meaning_for_each_symbol() {
    for mode in Mode::ALL {
        assert!((0..mode.alphabet()).all(|symbol| Entry::of(mode, symbol as u32).is_some()));
        assert_eq!(Entry::of(mode, mode.alphabet() as u32), None);
        assert!(mode == Mode::Wide || mode.alphabet() <= 1024);
    }
}
