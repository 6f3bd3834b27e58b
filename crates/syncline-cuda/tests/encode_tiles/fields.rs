//! Fields of every kind.

use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::container::Header;
use syncline_core::pipeline::CoderOptions;

use crate::common::streams::{Field, Options};
use crate::common::{Random, Share, device, pick, unless_tiny};
use crate::{Seen, check, check_with};

const TYPES: [ElementType; 2] = [ElementType::F32, ElementType::F64];

#[test]
fn tiles_of_every_shape_are_the_cpus() {
    let Some(device) = device() else { return };
    let mut share = Share::all().if_tiny(3, 0);
    let mut seen = Seen::default();
    for element in TYPES {
        let (cube, line) = pick((&[100, 100, 100], &[1_500_000]), (&[30, 30, 30], unless_tiny(&[100_000], &[20_000])));
        for extents in [&[][..], &[1], &[5000], &[33, 70], &[9, 17, 30], &[3, 9, 8, 17], cube, line] {
            let field = Field::smooth(element, extents, 0.01);

            if share.takes() {
                let options = Options::new(Bound::Abs(1e-3));
                seen.add(&check(device, &field, &options, 35, 2));
            }
        }
    }
    assert!(seen.interpolated > 0 && seen.lorenzo > 0 && seen.schemes > 0, "{seen:?}");
}

#[test]
fn tiles_of_every_bound_are_the_cpus() {
    let Some(device) = device() else { return };
    let extents: &[u64] = pick(&[60, 50, 70], unless_tiny(&[20, 30, 40], &[9, 24, 32]));
    let mut seen = Seen::default();
    for element in TYPES {
        // Half of each plane is 0.
        let (height, width) = (extents[1], extents[2]);
        let field =
            Field::smooth(element, extents, 0.02).with("zero", |i| (i / width % height < height / 2).then_some(0.0));
        for bound in [Bound::Rel(1e-1), Bound::Rel(1e-4), Bound::Abs(1e-6), Bound::Psnr(60.0), Bound::PwRel(1e-3)] {
            let options = Options::new(bound);
            seen.add(&check(device, &field, &options, 50, 2));
            let options = Options { rewritable: true, ..options };
            seen.add(&check(device, &field, &options, 300, 1));
        }
    }
    assert!(seen.constant > 0 && seen.bitmaps > 0 && seen.classes > 0 && seen.raw < seen.chunks, "{seen:?}");
}

/// Values that no integer stands for, among others.
fn special(i: u64) -> Option<f64> {
    match Random(i).below(40) {
        0 => Some(f64::NAN),
        1 => Some(f64::INFINITY),
        2 => Some(f64::NEG_INFINITY),
        3 => Some(-0.0),
        4 => Some(1e-310),
        5 => Some(-1e-42),
        6 => Some(0.0),
        7 => Some(3e30),
        _ => None,
    }
}

#[test]
fn special_values_are_the_cpus() {
    let Some(device) = device() else { return };
    let mut share = Share::all().if_tiny(2, 0);
    let mut seen = Seen::default();
    for element in TYPES {
        for extents in [&[4000][..], &[50, 60], &[20, 21, 22]] {
            let field = Field::smooth(element, extents, 0.01)
                .with("specials", |i| if i % 3000 < 2000 { special(i) } else { None })
                .with("all NaN", |i| (i < 1100).then_some(f64::NAN));

            for bound in [Bound::Abs(1e-2), Bound::PwRel(1e-2)] {
                if share.takes() {
                    let options = Options { fill: Fill::None, ..Options::new(bound) };
                    seen.add(&check(device, &field, &options, 9, 3));
                }
            }
        }
    }
    assert!(seen.verbatim > 0 && seen.empty > 0 && seen.bitmaps > 0, "{seen:?}");
}

#[test]
fn masks_are_the_cpus() {
    let Some(device) = device() else { return };
    let mut share = Share::all().if_tiny(3, 1);
    let mut seen = Seen::default();
    for element in TYPES {
        for extents in [&[9000][..], &[70, 130], &[20, 17, 40]] {
            let coast = |i: u64| (i / 40 % 17 < 9 + i % 40 / 9).then_some(-9999.0);
            let field = Field::smooth(element, extents, 0.01)
                .with("coast", coast)
                .with("holes", |i| (Random(i).below(30) == 0).then_some(-9999.0))
                .with("fill", |i| (i > 4000 && i < 6500).then_some(-9999.0));
            let missing = field.clone().with("NaN", |i| (i % 701 < 60).then_some(f64::NAN));
            for (field, fill) in [(&field, Fill::Auto), (&missing, Fill::Auto), (&missing, Fill::Value(-9999.0))] {
                for bound in [Bound::Rel(1e-3), Bound::PwRel(1e-3), Bound::Psnr(50.0)] {
                    if share.takes() {
                        let options = Options { fill, ..Options::new(bound) };
                        seen.add(&check(device, field, &options, 8, 2));
                    }
                }
            }
        }
    }
    assert!(seen.bitmaps > 0 && seen.empty > 0 && seen.verbatim > 0, "{seen:?}");
}

#[test]
fn reserved_patterns_and_stated_ranges_are_the_cpus() {
    let Some(device) = device() else { return };
    let mut seen = Seen::default();
    for element in TYPES {
        let field = Field::smooth(element, &[20, 20, 30], 0.01).with("zero", |i| (i % 500 < 120).then_some(0.0));
        // All values are on a lattice, which is coarser than the bound.
        let lattice = Field::new("lattice", element, &[20, 20, 30], |i| 0.5 * ((i / 30 + i % 30) as f64 / 3.0).floor());
        let header = lattice.header(&Options::new(Bound::Abs(0.01)), &lattice.resolve(&Options::new(Bound::Abs(0.01))));
        assert_eq!(header.step, 0.5);
        seen.add(&check_with(device, &lattice, &header, &CoderOptions::default(), 1));
        for bound in [Bound::Abs(1e-2), Bound::PwRel(1e-2)] {
            // Other values are next to the fill value.
            let options = Options { fill: Fill::Value(0.0), ..Options::new(bound) };
            seen.add(&check(device, &field, &options, 20, 2));
            // Some values are outside of the range.
            let options = Options::new(bound);
            let header = Header { range: Some((-0.9, 1.2)), ..field.header(&options, &field.resolve(&options)) };
            seen.add(&check_with(device, &field, &header, &CoderOptions::default(), 1));
        }
    }
    assert!(seen.bitmaps > 0 && seen.verbatim > 0, "{seen:?}");
}

/// Whether a tile is in the sample that codebooks are made from, in chunks of 512 to 1,023 tiles.
fn is_counted(tile: u64) -> bool {
    let interval = (tile / 2) as u32;
    tile % 2 == u64::from(interval.wrapping_mul(2_654_435_769) >> 31)
}

#[test]
fn chunks_whose_samples_mislead_are_the_cpus() {
    let Some(device) = device() else { return };
    let mut seen = Seen::default();
    for element in TYPES {
        // Tiles of 72 elements.
        let extents = [8 * 600, 3, 3];
        let noise = |i: u64, most: u64| Some((Random(i).below(most) as f64 - most as f64 / 2.0) * 1e-3);
        let field = |name: &str, sampled: bool, most: u64| {
            Field::smooth(element, &extents, 0.0)
                .with(name, |i| if is_counted(i / 72) == sampled { noise(i, most) } else { Some(0.0) })
        };
        for (field, bound) in [
            (field("noise outside", false, 1000), 1e-3),
            (field("noise inside", true, 1000), 1e-3),
            (field("large noise outside", false, 1 << 28), 0.3),
            (field("large noise inside", true, 1 << 28), 0.3),
        ] {
            let options = Options { fill: Fill::None, ..Options::new(Bound::Abs(bound)) };
            seen.add(&check(device, &field, &options, 4096, 1));
        }
        // Bitmaps outside of the sample only.
        let field =
            field("some noise", false, 5).with("holes", |i| (!is_counted(i / 72) && i % 7 < 3).then_some(f64::NAN));
        seen.add(&check(device, &field, &Options::new(Bound::Abs(1e-3)), 4096, 1));
    }
    assert!(seen.bitmaps > 0 && seen.raw < seen.chunks && seen.constant > 0, "{seen:?}");
}

#[test]
fn ordinary_tiles_are_the_cpus() {
    let Some(device) = device() else { return };
    let (mut seen, mut share) = (Seen::default(), Share::all().if_tiny(5, 0));
    let mut schemes = std::collections::HashSet::new();
    // Rows of whole vectors, and others.
    let shapes: [&[u64]; 6] = [&[24, 16, 40], &[17, 25, 27], &[96, 72], &[70, 107], &[8000], &[4099]];
    for (extents, element) in shapes.into_iter().flat_map(|extents| TYPES.map(|element| (extents, element))) {
        let width = extents[extents.len() - 1].min(300);
        let height = if extents.len() > 1 { extents[extents.len() - 2] } else { 13 };
        let at = |i: u64| [i / width / height, i / width % height, i % width].map(|place| place as f64);
        let field = |name: &str, value: &dyn Fn([f64; 3], f64) -> f64| {
            Field::new(name, element, extents, |i| value(at(i), Random(i).unit() - 0.5))
        };
        let wave = |place: f64, length: f64| (place / length).sin();
        let fields = [
            field("waves", &|[z, y, x], r| wave(x, 9.0) * wave(y, 7.0) * wave(z, 8.0) + 0.002 * r),
            field("noise", &|_, r| r),
            field("planes", &|[z, y, x], r| wave(x, 9.0) * wave(y, 7.0) + 10.0 * (z * 0.7).fract() + 0.002 * r),
            field("kinks", &|[z, y, x], r| (x - 12.0).abs() + (y - 9.0).abs() * 0.5 + z * 0.1 + 0.01 * r),
            field("along x", &|[_, _, x], r| wave(x, 5.0) + if r > 0.49 { 0.1 } else { 0.0 }),
            field("steps", &|[z, y, x], _| ((x / 11.0).floor() + (y / 13.0).floor() + (z / 10.0).floor()) * 3.0),
            field("ramps", &|[z, y, x], _| x * x * 0.01 + y * y * 0.02 - z * z * 0.01),
            field("few zeros", &|_, r| if r.abs() < 0.02 { 0.0 } else { 40.0 * r }),
            field("far", &|[z, y, x], r| 500.0 + wave(x + y + z, 30.0) + 0.01 * r),
            field("spikes", &|_, r| if r > 0.498 { 30.0 } else { 0.01 * r }),
        ];
        for (number, field) in fields.iter().enumerate() {
            for bound in [Bound::Rel(1e-1), Bound::Rel(1e-3), Bound::Rel(1e-4), Bound::PwRel(1e-3)] {
                if !share.takes() {
                    continue;
                }
                let rewritable = number % 4 == 3 && bound == Bound::Rel(1e-3);
                let options = Options { rewritable, fill: Fill::None, ..Options::new(bound) };
                let own = check(device, field, &options, 23, 2);
                schemes.extend(own.scheme_codes());
                seen.add(&own);
            }
        }
    }
    assert!(seen.ordinary * 3 > seen.tiles && seen.interpolated > 0 && seen.lorenzo > 0, "{seen:?}");
    assert!(seen.classes > 0 && seen.constant > 0 && schemes.len() >= 4, "{seen:?}, {schemes:?}");
}
