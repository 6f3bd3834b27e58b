//! Streams of blocks.

use super::*;

const SHAPES: [&[u64]; 12] = [
    &[70_000],
    &[1],
    &[2],
    &[65, 64, 33],
    &[130, 700],
    &[2, 3, 20, 30],
    &[4097, 3],
    &[5, 1, 333],
    &[300, 1, 2],
    &[80, 60, 90],
    &[600, 520],
    &[],
];

fn every_shape<T: Real>() {
    let Some((device, stream)) = device() else { return };
    let mut share = Share::one_in(3);
    for extents in SHAPES {
        for (wild, bound) in [(false, 1.0), (false, 0.01), (true, 0.01), (false, 1e-5)] {
            if !share.takes() {
                continue;
            }
            let bytes = bytes_of::<T>(&field(extents, 3, wild));
            let making = Making { tile_size: TileSize::Block, ..Making::default() };
            let made = compress(&bytes, T::TYPE, extents, Bound::Abs(bound), &making);
            if stream::is_lossy(&made) {
                comes_back(device, &stream, &made, &format!("{} {extents:?}, wild {wild}, {bound}", T::TYPE));
            }
        }
    }
}

#[test]
fn blocks_of_f32_come_back() {
    every_shape::<f32>();
}

#[test]
fn blocks_of_f64_come_back() {
    every_shape::<f64>();
}

/// Fields that are alike from slice to slice, and others on a grid.
#[test]
fn blocks_in_slices_and_on_a_grid_come_back() {
    let Some((device, stream)) = device() else { return };
    for (extents, grid) in [(&[70, 40, 50][..], false), (&[90, 200], false), (&[30, 40, 50], true), (&[5000], true)] {
        let mut random = Random(9);
        let area: u64 = extents[1..].iter().product();
        let pattern: Vec<f64> = (0..area.max(1)).map(|_| random.unit() * 8.0).collect();
        let count: u64 = extents.iter().product();
        let value = |i: u64| {
            let own = pattern[(i % area.max(1)) as usize] + (i / area.max(1)) as f64 * 0.01;
            if grid { own.round() } else { own }
        };
        let bytes = bytes_of::<f32>(&(0..count).map(value).collect::<Vec<_>>());
        let making = Making { tile_size: TileSize::Block, ..Making::default() };
        let made = compress(&bytes, ElementType::F32, extents, Bound::Abs(0.02), &making);
        comes_back(device, &stream, &made, &format!("{extents:?} grid {grid}"));
    }
}

/// Masks of fill values, of zeros, and of everything in a block.
#[test]
fn blocks_with_masks_come_back() {
    let Some((device, stream)) = device() else { return };
    for extents in [&[40, 50, 60][..], &[300, 170], &[9000], &[33, 1, 1]] {
        let values: Vec<f64> = field(extents, 8, false)
            .into_iter()
            .enumerate()
            .map(|(i, value)| match i / 40 % 5 {
                0 => -9999.0,
                1 if i % 3 == 0 => 0.0,
                2 if i % 7 == 0 => 1e20,
                _ => value,
            })
            .collect();
        let making =
            Making { tile_size: TileSize::Block, fill: Fill::of(&[-9999.0, 1e20]).unwrap(), ..Making::default() };
        for bound in [0.5, 0.001] {
            let made = compress(&bytes_of::<f32>(&values), ElementType::F32, extents, Bound::Abs(bound), &making);
            comes_back(device, &stream, &made, &format!("{extents:?} {bound}"));
        }
    }
}

/// Returns the division of the blocks of the first chunk, and the lanes of the first of them as an exponent of 2.
pub fn division(bytes: &[u8]) -> [u8; 2] {
    let (at, length) = table(bytes).record(0);
    let record = &bytes[at as usize..at as usize + length];
    let sections = common::damage::sections(record);
    [record[sections[0].start + 3], record[sections[3].start] & 15]
}

/// A part has up to eight units, whose warps decode at the same time.
#[test]
fn blocks_of_parts_with_several_units_come_back() {
    let Some((device, stream)) = device() else { return };
    let making = Making { tile_size: TileSize::Block, ..Making::default() };
    let mut random = Random(31);
    let extents = [64, 64, 65];
    let places = (0..64 * 64 * 65).map(|i| (i % 65, i / 65 % 64, i / 65 / 64));
    // Noise, but for a corner.
    let values: Vec<f64> = places.map(|(x, y, z)| if x + y < 8 { 0.01 * z as f64 } else { random.unit() }).collect();
    let mut divisions = Vec::new();
    for bound in [0.48, 0.3, 0.178, 0.1] {
        let made = compress(&bytes_of::<f32>(&values), ElementType::F32, &extents, Bound::Abs(bound), &making);
        comes_back(device, &stream, &made, &format!("noise {bound}"));
        divisions.push(division(&made));
    }
    assert_eq!(divisions, [[0, 6], [0, 7], [0, 8], [1, 7]]);
}
