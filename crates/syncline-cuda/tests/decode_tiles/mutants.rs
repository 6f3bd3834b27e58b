//! Damage that no checksum detects: each mutant of a record, with its hash made right, is refused by the device if and
//! only if the CPU refuses it, and else gives the CPU's values.

use std::ops::Range;

use syncline_core::container::RECORD_HEADER_LEN;

use super::*;

/// Number of the section of tiles of a quantized record.
pub const TILES: usize = 0;
/// Sections in the table of a payload.
const SECTIONS: usize = 10;

/// Returns where the sections of a record are, in bytes from its start.
pub fn sections(record: &[u8]) -> Vec<Range<usize>> {
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap()) as usize;
    let mut end = RECORD_HEADER_LEN + 4 * SECTIONS;
    let mut section = |number: usize| {
        let length = word(RECORD_HEADER_LEN + 4 * number);
        let start = if length > 0 { end.next_multiple_of(16) } else { end };
        end = start + length;
        start..end
    };
    (0..SECTIONS).map(&mut section).collect()
}

/// Writes the correct hashes into the records again.
pub fn repair_checksums(bytes: &mut [u8]) {
    let table = table(bytes);
    for chunk in 0..table.chunks() {
        let (at, length) = table.record(chunk);
        stream::repair_checksum(&mut bytes[at as usize..at as usize + length]);
    }
}

/// Returns small streams that have all sections, masks and signs included.
fn streams() -> Vec<Vec<u8>> {
    let making = Making { chunk_tiles: Some(9), ..Making::default() };
    let few = Making { chunk_tiles: Some(2), ..Making::default() };
    let blocks = Making { tile_size: TileSize::Block, ..Making::default() };
    let of = |extents: &[u64], bound: Bound, making: &Making| {
        let values = field(extents, 4, true);
        compress(&bytes_of::<f32>(&values), ElementType::F32, extents, bound, making)
    };
    let counts = |extents: &[u64], bound: Bound, making: &Making| {
        let values = field(extents, 4, false).into_iter().map(|value| (1000.0 * value) as i64);
        let bytes: Vec<u8> = values.flat_map(i64::to_le_bytes).collect();
        compress(&bytes, ElementType::I64, extents, bound, making)
    };
    vec![
        of(&[17, 20, 40], Bound::Abs(0.05), &making),
        of(&[9, 16, 24], Bound::PwRel(0.05), &making),
        of(&[70, 75], Bound::Abs(0.02), &making),
        of(&[9000], Bound::PwRel(0.01), &few),
        of(&[20, 33, 18], Bound::Abs(0.5), &making),
        of(&[20, 33, 18], Bound::Abs(0.05), &blocks),
        of(&[3, 70, 75], Bound::Abs(0.02), &blocks),
        of(&[40, 41, 42], Bound::Abs(0.02), &blocks),
        of(&[40, 41, 42], Bound::Abs(0.005), &blocks),
        counts(&[20, 33, 18], Bound::Abs(20.0), &blocks),
    ]
}

/// Changes something of a record: a byte of some section, more often near its start, or a word of the table of sections
/// or of a section's header.
fn mutate(record: &mut [u8], random: &mut Random) {
    let parts = sections(record);
    // The table may be damaged already.
    let filled: Vec<_> =
        parts.into_iter().filter(|section| !section.is_empty() && section.end <= record.len()).collect();
    match random.below(12) {
        0 => common::damage::lie(record, random, RECORD_HEADER_LEN as u64, SECTIONS as u64),
        1 => common::damage::flip(record, random, 0..(RECORD_HEADER_LEN + 4 * SECTIONS) as u64),
        choice => {
            let Some(section) = filled.get(random.below(filled.len().max(1) as u64) as usize) else { return };
            let start = section.start as u64;
            let length = match choice % 3 {
                0 => section.len().min(28),
                1 => section.len().min(150),
                _ => section.len(),
            } as u64;
            if choice < 4 && length >= 4 {
                common::damage::lie(record, random, start, length / 4);
            } else {
                common::damage::flip(record, random, start..start + length);
            }
        }
    }
}

/// Number of mutants of each stream: `SYNCLINE_MUTANTS`, if it is set.
fn mutants_of_each() -> u64 {
    let requested = std::env::var("SYNCLINE_MUTANTS").ok().and_then(|number| number.parse().ok());
    requested.unwrap_or(pick(300, unless_tiny(60, 30)))
}

fn mutants_have_the_cpus_verdict(number: usize) {
    let Some((device, stream)) = device() else { return };
    let good = &streams()[number];
    let info = StreamInfo::from_bytes(good).unwrap();
    let expected = try_decompress(good).unwrap();
    let mut decompressor = settled(device, &stream, &info);
    let mut random = Random(77 + number as u64);
    let records = table(good);
    let (mut refused, mut read) = (0, 0);
    let mutants = mutants_of_each();
    for mutant in 0..mutants {
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(2) {
            let (at, length) = records.record(random.below(records.chunks()));
            mutate(&mut bytes[at as usize..at as usize + length], &mut random);
        }
        repair_checksums(&mut bytes);
        let what = format!("stream {number}, mutant {mutant}");
        match (try_decompress(&bytes), on_gpu(&mut decompressor, &stream, &bytes)) {
            (Ok(theirs), Ok(out)) => {
                let wrong = out.iter().zip(&theirs).position(|(a, b)| a != b);
                assert!(
                    out == theirs,
                    "{what}: differs at element {:?}",
                    wrong.map(|at| at / info.header().element_type.size())
                );
                read += 1;
            }
            (Err(_), Err(CudaError::Core(_))) => refused += 1,
            (theirs, ours) => panic!("{what}: the CPU says {:?}, the GPU {:?}", theirs.err(), ours.err()),
        }
    }
    assert_eq!(on_gpu(&mut decompressor, &stream, good).unwrap(), expected, "undamaged after all");
    // Hardly any damage to the words of blocks leaves states as they end.
    assert!(refused > mutants / 3 && read >= mutants / 300, "{refused} of {mutants} refused, {read} read");
}

#[test]
fn mutants_of_cubes_with_masks_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(0);
}

#[test]
fn mutants_of_cubes_with_signs_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(1);
}

#[test]
fn mutants_of_squares_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(2);
}

#[test]
fn mutants_of_lines_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(3);
}

#[test]
fn mutants_of_smooth_cubes_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(4);
}

#[test]
fn mutants_of_a_block_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(5);
}

#[test]
fn mutants_of_blocks_in_slices_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(6);
}

#[test]
fn mutants_of_a_block_with_two_units_have_the_cpus_verdict() {
    assert_eq!(blocks::division(&streams()[7]), [0, 6]);
    mutants_have_the_cpus_verdict(7);
}

#[test]
fn mutants_of_a_block_in_boxes_have_the_cpus_verdict() {
    assert_eq!(blocks::division(&streams()[8]), [1, 6]);
    mutants_have_the_cpus_verdict(8);
}

#[test]
fn mutants_of_a_block_of_integers_have_the_cpus_verdict() {
    mutants_have_the_cpus_verdict(9);
}
