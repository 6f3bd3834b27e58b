//! Arrays of every element type but f32 and f64, with a bound: the device's streams equal the CPU's, and what the
//! device decompresses equals what the CPU does.

mod common;
#[path = "common/parts.rs"]
mod parts;
#[path = "common/real.rs"]
mod real;
#[path = "common/stream.rs"]
mod stream;

use common::streams::{Field, Options};
use common::{Random, Share, pick, unless_tiny};
use parts::{check_parts, comes_back};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Pipeline};
use syncline_core::geometry::TileSize;
use syncline_cuda::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::pipeline::{CompressOptions, Compressor, Sizing, compress_bound};

/// The types whose elements are not the values that are computed with. Each has kernels of its own, which take longer
/// to compile than tiny arrays to compress, so that tiny runs take one in three.
fn types() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.into_iter().filter(|element| !element.is_computed()).step_by(unless_tiny(1, 3))
}

/// Returns the middle of the values of a test, and about how far they are from it.
fn scale(element: ElementType) -> (f64, f64) {
    match element {
        ElementType::F16 => (3.0, 8.0),
        ElementType::Bf16 => (-100.0, 300.0),
        ElementType::U8 => (120.0, 50.0),
        ElementType::I8 => (0.0, 50.0),
        ElementType::U16 => (30_000.0, 9_000.0),
        ElementType::I16 => (-500.0, 9_000.0),
        ElementType::U32 => (3e9, 1e6),
        _ => (-1e5, 2e6),
    }
}

/// Returns the bits of the element next to a value. Integers of 64 bits are far from 0.
fn element_of(element: ElementType, value: f64) -> u64 {
    match element {
        ElementType::U64 => (u64::MAX - (1 << 40)).wrapping_add(value as i64 as u64),
        ElementType::I64 => (i64::MIN + (1 << 40)).wrapping_add(value as i64) as u64,
        _ if element.is_integer() => {
            let whole = |value: f64| element.bits_of_number(value);
            let low = if element.is_signed_integer() { -(element.integer_extent() + 1.0) / 2.0 } else { 0.0 };
            let value = value.round_ties_even().clamp(low, low + element.integer_extent());
            whole(value).unwrap_or(0)
        }
        _ => element.bits_of_number(value).unwrap_or(0),
    }
}

/// Returns an array of elements with these bits.
fn array(name: &str, element: ElementType, extents: &[u64], bits: impl Fn(u64) -> u64) -> Field {
    let shape = Shape::new(extents).unwrap();
    let bytes = (0..shape.len()).flat_map(|i| bits(i).to_le_bytes()[..element.size()].to_vec()).collect();
    Field { name: format!("{name} {element} {shape}"), element, shape, bytes }
}

/// Returns waves with noise, in which `special` replaces some elements by others with its bits.
fn waves(name: &str, element: ElementType, extents: &[u64], noise: f64, special: impl Fn(u64) -> Option<u64>) -> Field {
    let row = extents.last().copied().unwrap_or(1).max(1);
    let (middle, width) = scale(element);
    array(name, element, extents, |i| {
        let (x, y) = ((i % row) as f64, (i / row) as f64);
        let wave = ((x * 0.05).sin() + (y * 0.013).cos()) / 2.0 + noise * (Random(i).unit() - 0.5);
        special(i).unwrap_or_else(|| element_of(element, middle + width * wave))
    })
}

/// Compresses an array on the device. `None` if the bound resolves to a lossless stream.
fn compressed(device: &Device, field: &Field, options: &Options) -> Option<Vec<u8>> {
    let stream = device.context().default_stream();
    let Options { bound, fill, rewritable, tile_size } = *options;
    let of_device = CompressOptions { bound, fill, rewritable, interpolates: true, tile_size };
    let room = compress_bound(field.element, field.shape) as usize;
    let upload = stream.clone_htod(&[field.bytes.as_slice(), &[0; 16]].concat()).unwrap();
    let input = upload.slice(..field.bytes.len());
    let mut compressor = Compressor::new(device, &stream, Sizing::Measured).unwrap();
    let mut output = stream.clone_htod(&vec![0xA5_u8; room]).unwrap();
    match compressor.compress(&input, field.element, field.shape, &of_device, &mut output.as_view_mut()) {
        Ok(made) => Some(stream.clone_dtoh(&output.slice(..made.bytes as usize)).unwrap()),
        Err(CudaError::Lossless(_)) => None,
        Err(error) => panic!("{}, {options:?}: {error}", field.name),
    }
}

/// Checks an array in both directions.
fn check(device: &Device, field: &Field, options: &Options) {
    let what = format!("{}, {options:?}", field.name);
    let Some(found) = compressed(device, field, options) else {
        assert_eq!(field.resolve(options).pipeline, Pipeline::Lossless, "{what}");
        return;
    };
    let expected = field.stream(options);
    let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!((found.len(), differs), (expected.len(), None), "{what}: first difference");
    comes_back(device, &device.context().default_stream(), &found, &what);
}

fn shapes() -> [&'static [u64]; 3] {
    unless_tiny([&[9001], &[90, 150], &[20, 33, 30]], [&[2101], &[40, 66], &[9, 17, 16]])
}

#[test]
fn waves_of_every_type_have_the_bytes_of_the_cpu() {
    let Some(device) = common::device() else { return };
    for (number, element) in types().enumerate() {
        let (_, width) = scale(element);
        let mut share = Share::all().if_tiny(11, number);
        for extents in shapes() {
            for (noise, bound) in [
                (0.0, Bound::Rel(1e-2)),
                (0.02, Bound::Abs((width / 100.0).max(1.0))),
                (0.5, Bound::Psnr(45.0)),
                (0.02, if element.is_float() { Bound::PwRel(3e-2) } else { Bound::Abs(width / 3.0) }),
            ] {
                if share.takes() {
                    let field = waves(&format!("noise {noise}"), element, extents, noise, |_| None);
                    check(device, &field, &Options::new(bound));
                }
            }
        }
    }
}

/// Blocks of every rank, with and without slices, boxes, and a grid.
#[test]
fn blocks_of_every_type_have_the_bytes_of_the_cpu() {
    let Some(device) = common::device() else { return };
    for (number, element) in types().enumerate() {
        let (middle, width) = scale(element);
        let mut share = Share::all().if_tiny(7, number);
        for extents in
            [pick(&[300_000][..], &[5000]), &[33, 70], &[3000, 2], pick(&[80, 70, 66], &[20, 33, 30]), &[2, 2, 2, 40]]
        {
            let area: u64 = extents[1..].iter().product();
            let slices = array("slices", element, extents, |i| {
                let (own, slice) = (Random(i % area).unit() - 0.5, (i / area) as f64);
                element_of(element, middle + width * (own + 1e-4 * slice))
            });
            let fine = (width / 100.0).max(1.0);
            for (noise, options) in [
                (0.0, Options::new(Bound::Rel(1e-2))),
                (0.02, Options::new(Bound::Abs(fine))),
                (0.5, Options::new(Bound::Psnr(45.0))),
                (0.02, Options::new(Bound::Abs(width / 3.0))),
                (0.02, Options { rewritable: true, ..Options::new(Bound::Abs(fine)) }),
            ] {
                if share.takes() {
                    let field = waves(&format!("noise {noise}"), element, extents, noise, |_| None);
                    check(device, &field, &options.with_tiles(TileSize::Block));
                }
            }
            if share.takes() {
                check(device, &slices, &Options::new(Bound::Abs(fine)).with_tiles(TileSize::Block));
            }
        }
    }
}

#[test]
fn special_elements_of_every_type_come_back_bit_for_bit() {
    let Some(device) = common::device() else { return };
    for (number, element) in types().enumerate() {
        let mut share = Share::all().if_tiny(17, number);
        let ends = [u64::MAX >> (64 - 8 * element.size()), 1 << (8 * element.size() - 1), 0, 1];
        let special = |i: u64| match i {
            _ if i / 7 % 11 < 2 => Some(ends[0]),
            _ if i % 97 == 5 => Some(ends[(i / 97 % 4) as usize]),
            1000..1300 => Some(ends[1]),
            // A NaN with a payload, an infinity, or other numbers.
            _ if i % 503 == 1 => Some([0x7C00, 0xFC01, 0x7F80, 0xFFC3][(i / 503 % 4) as usize] & ends[0]),
            _ => None,
        };
        let ends = ends.map(|bits| element.number_of_bits(bits));
        let finite: Vec<f64> = ends.into_iter().filter(|value| value.is_finite() && *value != 0.0).collect();
        for extents in shapes() {
            for (fill, rewritable) in [
                (Fill::Auto, false),
                (Fill::None, false),
                (Fill::of(&finite[..1]).unwrap(), true),
                (Fill::of(&finite).unwrap(), false),
            ] {
                for bound in [Bound::Abs((scale(element).1 / 20.0).max(2.0)), Bound::Rel(1e-2)] {
                    for tile_size in [TileSize::Small, TileSize::Block] {
                        if share.takes() {
                            let field = waves("special", element, extents, 0.05, special);
                            let options = Options { fill, rewritable, ..Options::new(bound) };
                            check(device, &field, &options.with_tiles(tile_size));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn integers_of_64_bits_that_no_value_stands_for_make_their_chunk_raw() {
    let Some(device) = common::device() else { return };
    for element in [ElementType::U64, ElementType::I64] {
        let fills = [1.0, 2.0, 3.0, 4.0, 5.0].map(|place: f64| place * (1u64 << 50) as f64);
        let bits = |place: u64| (place + 1) << 50;
        // The fifth fill value is not among the four patterns.
        let field = waves("lost", element, &[pick(9001, 3001)], 0.01, |i| (i % 211 == 3).then(|| bits(i / 211 % 5)));
        for fill in [Fill::of(&fills[..4]).unwrap(), Fill::None] {
            for (bound, tile_size) in [
                (Bound::Abs(1e5), TileSize::Small),
                (Bound::Abs(1e5), TileSize::Block),
                (Bound::Psnr(60.0), TileSize::Block),
            ] {
                check(device, &field, &Options { fill, ..Options::new(bound) }.with_tiles(tile_size));
            }
        }
    }
}

#[test]
fn constant_and_tiny_arrays_of_every_type_come_back() {
    let Some(device) = common::device() else { return };
    for (number, element) in types().enumerate() {
        let mut share = Share::all().if_tiny(5, number);
        for (extents, bits) in [(&[1u64][..], 1), (&[2, 3], 0), (&[1100], u64::MAX >> (64 - 8 * element.size()))] {
            let constant = array("constant", element, extents, |_| bits);
            let but_one = array("zeros but one", element, extents, |i| bits * u64::from(i == 0));
            for tile_size in [TileSize::Small, TileSize::Block] {
                for (field, bound) in [(&constant, Bound::Abs(1.0)), (&but_one, Bound::Rel(0.1))] {
                    if share.takes() {
                        check(device, field, &Options::new(bound).with_tiles(tile_size));
                    }
                }
            }
        }
    }
}

#[test]
fn ranges_of_tiles_of_every_type_are_decoded_alone() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    for element in types() {
        let small: (_, &[u64]) = (TileSize::Small, unless_tiny(&[30, 33, 40], &[9, 17, 24]));
        for (tile_size, extents) in [small, (TileSize::Block, &[5, 6, 7, 20])] {
            let field = waves("parts", element, extents, 0.02, |_| None);
            let options = Options::new(Bound::Rel(1e-2)).with_tiles(tile_size);
            if field.resolve(&options).pipeline != Pipeline::Lossless {
                check_parts(device, &stream, &field.stream(&options), &mut Random(7));
            }
        }
    }
}
