//! `ratio FILE f32|f64 EXTENTS large|small REL...`: size, speed, and error of a file.
use std::time::Instant;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Scan, resolve};
use syncline_core::container::Header;
use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, Tile, TileSize, Window};
use syncline_core::huffman::IndexKind;
use syncline_core::mem::scatter::Scatter;
use syncline_core::pipeline::{CoderOptions, DecodeScratch, ElementSource, EncodeScratch, decode_chunk, encode_chunk};

struct Bytes(Vec<u8>);

impl ElementSource for Bytes {
    fn window<'s>(&'s self, geometry: &Geometry, _: &[Tile], _: &'s mut Vec<u8>) -> Result<Window<'s>> {
        Ok(Window::raster(&self.0, 0, geometry))
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let bytes = std::fs::read(&words[1]).unwrap();
    let of = if words[2] == "f64" { ElementType::F64 } else { ElementType::F32 };
    let extents: Vec<u64> = words[3].split('x').map(|extent| extent.parse().unwrap()).collect();
    let shape = Shape::new(&extents).unwrap();
    let tile_size = if words[4] == "large" { TileSize::Large } else { TileSize::Small };
    let source = Bytes(bytes);
    for rel in &words[5..] {
        let bound = Bound::Rel(rel.parse().unwrap());
        let n = shape.len();
        let scan = Scan::of(of, &source.0, bound, Fill::Auto);
        let resolved = resolve(&scan, false).unwrap();
        let header = Header::new(of, shape, IndexKind::Symbol, &resolved).with_tile_size(tile_size);
        let geometry = header.geometry().unwrap();
        let options = CoderOptions::default();
        let mut scratch = EncodeScratch::default();
        let start = Instant::now();
        let mut records = Vec::new();
        for chunk in 0..geometry.chunks() {
            let mut out = Vec::new();
            encode_chunk(&header, &geometry, chunk, &source, &options, &mut scratch, &mut out).unwrap();
            records.push(out);
        }
        let encode = start.elapsed().as_secs_f64();
        let size: usize = 144 + 24 + records.iter().map(|record| record.len() + 4).sum::<usize>();
        let mut back = vec![0; source.0.len()];
        let mut scratch = DecodeScratch::default();
        let start = Instant::now();
        for (mut sink, record) in Scatter::new(&mut back, &geometry, geometry.whole(), of.size()).zip(&records) {
            let chunk = sink.chunk();
            decode_chunk(&header, &geometry, chunk, record, &mut scratch, &mut sink).unwrap();
        }
        let decode = start.elapsed().as_secs_f64();
        let value = |bytes: &[u8], i: usize| match of {
            ElementType::F64 => f64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap()),
            _ => f32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()).into(),
        };
        let worst = (0..n as usize)
            .map(|i| (value(&source.0, i) - value(&back, i)).abs())
            .fold(0.0f64, |a, b| if b > a { b } else { a });
        println!(
            "{} {rel} {size} {:.3} error {:.6} MB/s {:.0} {:.0}",
            words[1].rsplit('/').next().unwrap(),
            source.0.len() as f64 / size as f64,
            worst / resolved.abs_bound,
            source.0.len() as f64 / encode / 1e6,
            source.0.len() as f64 / decode / 1e6,
        );
    }
}
