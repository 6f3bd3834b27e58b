//! Every mode against the codes it wrote.

use proptest::prelude::*;

use super::select::{measure, select_mode};
use super::*;
use crate::bits::reader::BitWords;
use crate::bits::writer::BitWriter;

fn codes() -> impl Strategy<Value = Vec<i32>> {
    let code = prop_oneof![
        12 => Just(0),
        4 => -3i32..4,
        2 => -512i32..512,
        1 => -2047i32..2048,
        1 => (-i32::MAX..=i32::MAX, 0u32..31).prop_map(|(c, shift)| c >> shift),
    ];
    let narrow = prop_oneof![20 => Just(0), 3 => -2i32..3, 1 => -500i32..500];
    prop_oneof![
        prop::collection::vec(code, 0..300),
        prop::collection::vec(narrow, 0..300),
        prop::collection::vec(Just(0), 0..300),
    ]
}

fn round_trip(codes: &[i32], size: usize, mode: Mode) -> Result<(), TestCaseError> {
    let representable = codes.iter().all(|&c| mode.represents(c));
    let selected = measure(codes.chunks(size), mode);
    prop_assert_eq!(selected.is_some(), representable);
    let Some(selected) = selected else { return Ok(()) };
    let mut bytes = vec![0; codes.len() * 8 + 16];
    let mut writer = BitWriter::new(&mut bytes);
    let mut starts = Vec::new();
    for group in codes.chunks(size) {
        starts.push(writer.position());
        prop_assert!(write_group(group, &selected.codebook, &mut writer));
    }
    let bits = writer.finish();
    prop_assert!(u64::from(bits) <= selected.bits);
    bytes.resize(BitWords::byte_len(bits) as usize, 0);
    let words = BitWords::new(&bytes, bits).unwrap();
    starts.push(bits);
    for (i, group) in codes.chunks(size).enumerate() {
        let mut read = vec![7; group.len()];
        prop_assert_eq!(read_group(words, starts[i], &selected.codebook, &mut read), Some(starts[i + 1]));
        prop_assert_eq!(&read[..], group);
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_is_read(codes in codes(), size in prop_oneof![Just(128usize), 1usize..300]) {
        for mode in Mode::ALL {
            round_trip(&codes, size, mode)?;
        }
    }

    #[test]
    fn the_shortest_mode_is_selected(codes in codes()) {
        let sizes: Vec<_> =
            Mode::ALL.iter().filter_map(|&m| measure(codes.chunks(128), m).map(|s| (s.bits, m as u8))).collect();
        let selected = select_mode(codes.chunks(128)).map(|s| (s.bits, s.codebook.mode() as u8));
        prop_assert_eq!(selected, sizes.into_iter().min());
    }

    #[test]
    fn any_bits_are_read_or_refused(codes in codes(), noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let bits = noise.len() as u32 * 8;
        let mut bytes = noise;
        bytes.resize(BitWords::byte_len(bits) as usize, 0);
        let words = BitWords::new(&bytes, bits).unwrap();
        for mode in Mode::ALL {
            if let Some(selected) = measure(codes.chunks(128), mode) {
                let end = read_group(words, 0, &selected.codebook, &mut [0; 128]);
                prop_assert!(end.is_none_or(|end| end <= bits));
            }
        }
    }
}

#[test]
fn symbols_are_those_of_the_modes() {
    let tokens = |group: &[i32], mode| {
        let mut all = Vec::new();
        assert!(tokenize(group, mode, |t| all.push((t.symbol, t.raw, t.raw_bits))));
        all
    };
    assert_eq!(tokens(&[0, 0, -5, 0], Mode::Runs), [(2 * 12 + 3, 0b011, 3), (REST_IS_ZERO, 0, 0)]);
    let mut zeros = [0; 34];
    zeros[33] = 1;
    assert_eq!(tokens(&zeros, Mode::Runs), [(ZERO_RUN, 0, 0), (12 + 1, 0, 1)]);
    assert_eq!(tokens(&[0, -7, 8, -1023], Mode::Bins), [(0, 0, 0), (15, 0, 0), (16, 0, 1), (71, 127, 7)]);
    assert_eq!(tokens(&[-512, 0, 511], Mode::Plain), [(0, 0, 0), (512, 0, 0), (1023, 0, 0)]);
    let largest = tokens(&[-i32::MAX], Mode::Bins)[0];
    assert_eq!(largest.0 as usize, Mode::Bins.alphabet() - 1);
}

#[test]
fn symbols_without_a_meaning_are_refused() {
    assert_eq!(Entry::of(Mode::Runs, 12), None);
    assert_eq!(Entry::of(Mode::Bins, 1), None);
    for mode in Mode::ALL {
        assert_eq!(Entry::of(mode, mode.alphabet() as u32), None);
        assert!(Mode::from_code(mode as u8) == Some(mode));
    }
    assert_eq!(Mode::from_code(3), None);
}
