//! Damage that no checksum detects: each mutant of a record, with its hash made right, is refused by the device if and
//! only if the CPU refuses it, and else gives the CPU's values.

use super::*;
use crate::common::damage::{self, Tally};
use crate::common::streams::Field;
use syncline_core::quantize::mask::MaskKind;

/// Number of the section of tiles of a quantized record.
pub const TILES: usize = 0;

/// Writes the correct hashes into the records again.
pub fn repair_checksums(bytes: &mut [u8]) {
    let table = table(bytes);
    for chunk in 0..table.chunks() {
        let (at, length) = table.record(chunk);
        damage::repair_checksum(&mut bytes[at as usize..at as usize + length]);
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

/// Returns small streams of other types than `f32`, with tiles of this size.
fn streams_of_other_types(tile_size: TileSize) -> Vec<Vec<u8>> {
    let making = Making { chunk_tiles: (tile_size == TileSize::Small).then_some(9), tile_size, ..Making::default() };
    let of = |element: ElementType, extents: &[u64], (scale, bound): (f64, f64)| {
        let values = field(extents, 4, !element.is_integer());
        let field = Field::new("mutants", element, extents, |i| (values[i as usize] + 1.0) * scale);
        compress(&field.bytes, element, extents, Bound::Abs(bound), &making)
    };
    vec![
        of(ElementType::F64, &[17, 20, 21], (1.0, 0.05)),
        of(ElementType::F16, &[70, 75], (1.0, 0.02)),
        of(ElementType::U16, &[20, 33, 18], (1000.0, 20.0)),
        of(ElementType::I64, &[9000], (1e6, 3e4)),
    ]
}

/// Compares mutants of a stream.
fn compare_mutants(good: &[u8], mutants: u64, seed: u64) {
    let Some((device, stream)) = device() else { return };
    let mut tally = Tally::default();
    let info = StreamInfo::from_bytes(good).unwrap();
    let expected = try_decompress(good).unwrap();
    let mut decompressor = settled(device, &stream, &info);
    let mut random = Random(seed);
    let records = table(good);
    for mutant in 0..mutants {
        let mut bytes = good.to_vec();
        for _ in 0..1 + random.below(2) {
            let (at, length) = records.record(random.below(records.chunks()));
            damage::mutate(&mut bytes[at as usize..at as usize + length], &mut random);
        }
        repair_checksums(&mut bytes);
        let found = on_gpu(&mut decompressor, &stream, &bytes);
        tally.add(try_decompress(&bytes), found, &format!("{}, mutant {mutant}", info.header().element_type));
    }
    assert_eq!(on_gpu(&mut decompressor, &stream, good).unwrap(), expected, "undamaged after all");
    // Hardly any damage to the words of blocks leaves states as they end.
    assert!(tally.refused > mutants / 3 && tally.read >= mutants / 300, "{tally:?}");
}

fn mutants_have_the_cpus_verdict(number: usize) {
    let mutants = damage::mutants(pick(300, unless_tiny(60, 30)));
    compare_mutants(&streams()[number], mutants, 77 + number as u64);
}

fn mutants_of_other_types_have_the_cpus_verdict(tile_size: TileSize) {
    let mutants = damage::mutants(pick(300, unless_tiny(60, 9)));
    for (number, good) in streams_of_other_types(tile_size).iter().enumerate() {
        compare_mutants(good, mutants, 7 + number as u64);
    }
}

#[test]
fn signs_beside_values_that_have_their_own_are_refused() {
    let Some((device, stream)) = device() else { return };
    let values = bytes_of::<f32>(&field(&[17, 20, 40], 4, false));
    for (bound, is_read) in [(Bound::Abs(0.05), false), (Bound::PwRel(0.05), true)] {
        let good = compress(&values, ElementType::F32, &[17, 20, 40], bound, &Making::default());
        let (header, geometry) = opened(&good);
        let records = table(&good);
        let with_sign = |sign: MaskKind| {
            let changed = (0..records.chunks()).map(|chunk| {
                let (at, length) = records.record(chunk);
                let record = &good[at as usize..at as usize + length];
                let tiles = geometry.chunk(chunk).count();
                let section = &record[damage::sections(record)[TILES].clone()];
                let mut section = TileSection::parse(section, tiles, header.patterns.len(), "test").unwrap();
                section.tiles[0].sign = sign;
                let mut bytes = Vec::new();
                section.write(&mut bytes);
                damage::with_section(record, TILES, &bytes)
            });
            stream::of_records(&header, &changed.collect::<Vec<_>>())
        };
        let info = StreamInfo::from_bytes(&good).unwrap();
        let mut decompressor = settled(device, &stream, &info);
        let mut verdict =
            |bytes: &[u8]| (try_decompress(bytes).is_ok(), on_gpu(&mut decompressor, &stream, bytes).is_ok());
        assert_eq!(verdict(&with_sign(MaskKind::Nothing)), (true, true), "{bound:?}");
        assert_eq!(verdict(&with_sign(MaskKind::All)), (is_read, is_read), "{bound:?}");
    }
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

#[test]
fn mutants_of_tiles_of_other_types_have_the_cpus_verdict() {
    mutants_of_other_types_have_the_cpus_verdict(TileSize::Small);
}

#[test]
fn mutants_of_blocks_of_other_types_have_the_cpus_verdict() {
    mutants_of_other_types_have_the_cpus_verdict(TileSize::Block);
}
