//! Cycles a value of the stages between the array and the Huffman symbols, on a generated smooth field.
//!
//! `cargo bench -p syncline-core --bench tile_speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use syncline_core::array::{Element, ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Scan, resolve};
use syncline_core::geometry::{Geometry, Tile, Window};
use syncline_core::mem::scatter::Scatter;
use syncline_core::predict::TileInfo;
use syncline_core::predict::codes::{RADIUS, decode_tile, encode_tile};
use syncline_core::predict::lorenzo::Scratch;
use syncline_core::predict::word::Word;
use syncline_core::predict::words;
use syncline_core::quantize::fill::fill_excluded;
use syncline_core::quantize::mask::TileMask;
use syncline_core::quantize::{Linear, Log, Real};

/// The shortest of many runs: other work on the machine only ever adds time.
fn shortest(mut run: impl FnMut()) -> Duration {
    (0..15)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

/// Clock in cycles a nanosecond, from a chain of multiplications of 3 cycles each.
fn clock() -> f64 {
    let time = shortest(|| {
        let mut v = black_box(3u64);
        for _ in 0..1_000_000 {
            v = black_box(0x9E37_79B9_7F4A_7C15u64).wrapping_mul(v);
        }
        black_box(v);
    });
    3e6 / time.as_nanos() as f64
}

fn main() {
    let clock = clock().max(1.0);
    println!("clock about {clock:.2} GHz; cycles a value, shortest of 15 runs");
    for extents in [&[128, 128, 128][..], &[1500, 1400], &[2_000_000]] {
        let shape = Shape::new(extents).expect("small");
        stages::<f32>(shape, clock);
        stages::<f64>(shape, clock);
    }
}

fn field<T: Real>(shape: Shape) -> Vec<T> {
    let row = *shape.extents().last().expect("not a scalar");
    (0..shape.len())
        .map(|i| {
            let (a, b) = ((i % row) as f64 * 0.02, (i / row) as f64 * 0.013);
            let noise = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / 16_777_216.0 - 0.5;
            T::nearest((a.sin() + (b + a * 0.3).cos() + 2.5) * 100.0 + noise * 0.6)
        })
        .collect()
}

fn stages<T: Real + Element>(shape: Shape, clock: f64) {
    let geometry = Geometry::new(shape);
    let tiles: Vec<Tile> = geometry.range(0..geometry.tiles()).collect();
    let (n, extent) = (shape.len() as usize, geometry.unclipped_len() as usize);
    let data = field::<T>(shape);
    let bytes: &[u8] = bytemuck::cast_slice(&data);
    let report = |name: &str, time: Duration| println!("  {name:26} {:6.2}", time.as_nanos() as f64 * clock / n as f64);
    println!("{} {shape}", T::TYPE);

    let mut scan = Scan::new(T::TYPE, n as u64, Bound::Rel(1e-3), Fill::Auto);
    scan.add(0, bytes);
    report("scan", shortest(|| Scan::new(T::TYPE, n as u64, Bound::Rel(1e-3), Fill::Auto).add(0, black_box(bytes))));
    let resolved = resolve(&scan, false).expect("a valid bound");
    let linear = Linear::<T>::new(resolved.step, resolved.abs_bound);

    // As the pipeline does it: tile by tile, the stages' buffers in the cache.
    let mut x = vec![T::nearest(0.0); extent];
    let mut q = vec![0i32; extent];
    let window = Window::raster(bytes, 0, &geometry);
    let slots: Vec<usize> = (0..=tiles.len()).map(|t| t * extent).collect();
    let mut integers = vec![0i32; tiles.len() * extent];
    let mut codes = vec![RADIUS as u16; tiles.len() * extent];
    let mut infos: Vec<TileInfo<i32>> = Vec::with_capacity(tiles.len());
    let mut outliers = Vec::new();

    report(
        "gather",
        shortest(|| {
            for tile in &tiles {
                window.gather(tile, &mut x);
                black_box(&mut x);
            }
        }),
    );
    report(
        "gather + quantize",
        shortest(|| {
            for tile in &tiles {
                window.gather(tile, &mut x);
                let mut exact = TileMask::default();
                if linear.quantize_tile(&x[..tile.len()], &mut q, &mut exact) {
                    fill_excluded(&mut q[..tile.len()], tile.extent, &exact, 0);
                }
                black_box(&mut q);
            }
        }),
    );
    for (tile, slot) in tiles.iter().zip(&slots) {
        window.gather(tile, &mut x);
        linear.quantize_tile(&x[..tile.len()], &mut integers[*slot..], &mut TileMask::default());
    }
    report(
        "predict + codes",
        shortest(|| {
            for (tile, &slot) in tiles.iter().zip(&slots) {
                let codes = &mut codes[slot..slot + tile.len()];
                black_box(encode_tile(
                    &integers[slot..slot + tile.len()],
                    tile.extent,
                    geometry.axes(),
                    RADIUS,
                    codes,
                    &mut outliers,
                ));
            }
            outliers.clear();
        }),
    );
    report(
        "all of compression",
        shortest(|| {
            infos.clear();
            outliers.clear();
            for (tile, &slot) in tiles.iter().zip(&slots) {
                window.gather(tile, &mut x);
                let mut exact = TileMask::default();
                if linear.quantize_tile(&x[..tile.len()], &mut q, &mut exact) {
                    fill_excluded(&mut q[..tile.len()], tile.extent, &exact, 0);
                }
                let codes = &mut codes[slot..slot + tile.len()];
                infos.push(encode_tile(&q[..tile.len()], tile.extent, geometry.axes(), RADIUS, codes, &mut outliers));
            }
        }),
    );
    let mut used = [0; 4];
    infos.iter().for_each(|i| used[i.predictor as usize] += 1);
    println!("  (predictors used: {used:?}, outliers: {})", outliers.len());

    report(
        "inverse prediction",
        shortest(|| {
            for ((tile, info), &slot) in tiles.iter().zip(&infos).zip(&slots) {
                let codes = &codes[slot..slot + tile.len()];
                decode_tile(codes, tile.extent, info.predictor, info.base, RADIUS, &[], &mut q);
                black_box(&mut q);
            }
        }),
    );
    let mut output = vec![0u8; bytes.len()];
    report(
        "all of decompression",
        shortest(|| {
            for mut sink in Scatter::new(&mut output, &geometry, geometry.whole(), size_of::<T>()) {
                let range = geometry.chunk_range(sink.chunk());
                let range = range.start as usize..range.end as usize;
                for ((tile, info), &slot) in tiles[range.clone()].iter().zip(&infos[range.clone()]).zip(&slots[range]) {
                    let codes = &codes[slot..slot + tile.len()];
                    decode_tile(codes, tile.extent, info.predictor, info.base, RADIUS, &[], &mut q);
                    linear.dequantize(&q[..tile.len()], &mut x);
                    sink.put(&x);
                }
            }
        }),
    );

    report(
        "lossless: both ways",
        shortest(|| match T::TYPE {
            ElementType::F32 => lossless::<u32>(&tiles, bytes, &geometry, true),
            _ => lossless::<u64>(&tiles, bytes, &geometry, true),
        }),
    );
    report(
        "lossless: forward",
        shortest(|| match T::TYPE {
            ElementType::F32 => lossless::<u32>(&tiles, bytes, &geometry, false),
            _ => lossless::<u64>(&tiles, bytes, &geometry, false),
        }),
    );
    let mut scan = Scan::new(T::TYPE, n as u64, Bound::PwRel(1e-3), Fill::Auto);
    scan.add(0, bytes);
    let log = Log::<T>::new(resolve(&scan, false).expect("a valid bound").step, 1e-3);
    report(
        "gather + log quantize",
        shortest(|| {
            for tile in &tiles {
                window.gather(tile, &mut x);
                black_box(log.quantize_tile(&x[..tile.len()], &mut q, &mut TileMask::default()));
            }
        }),
    );
    report(
        "exp dequantize",
        shortest(|| {
            for (tile, &slot) in tiles.iter().zip(&slots) {
                log.dequantize(&integers[slot..slot + tile.len()], &mut x);
                black_box(&mut x);
            }
        }),
    );
}

fn lossless<W: Word>(tiles: &[Tile], bytes: &[u8], geometry: &Geometry, both: bool) {
    let window = Window::raster(bytes, 0, geometry);
    let mut buffer = vec![W::ZERO; geometry.unclipped_len() as usize];
    let mut scratch = Scratch::default();
    for tile in tiles {
        window.gather(tile, &mut buffer);
        let buffer = &mut buffer[..tile.len()];
        words::map(buffer, ElementType::F32);
        let info = black_box(words::encode(buffer, tile.extent, geometry.axes(), &mut scratch));
        if both {
            words::decode(buffer, tile.extent, info.predictor, info.base);
            words::unmap(buffer, ElementType::F32);
            black_box(&mut *buffer);
        }
    }
}
