//! The stages between the array and the Huffman symbols on one core, on a generated smooth field.

use std::hint::black_box;

use anyhow::Result;
use syncline_core::array::{Element, Shape};
use syncline_core::bound::{Bound, Fill, Scan, resolve};
use syncline_core::geometry::{Geometry, Tile, Window};
use syncline_core::mem::scatter::Scatter;
use syncline_core::predict::orders;
use syncline_core::quantize::fill::fill_excluded;
use syncline_core::quantize::mask::TileMask;
use syncline_core::quantize::{Linear, Log, Real};

use super::record;
use crate::record::Records;

/// Times every stage on fields of three, two, and one axes.
///
/// # Errors
/// The output cannot be written.
pub fn measure(runs: usize, records: &mut Records) -> Result<()> {
    for extents in [&[128, 128, 128][..], &[1500, 1400], &[2_000_000]] {
        stages_of::<f32>(extents, runs, records)?;
        stages_of::<f64>(extents, runs, records)?;
    }
    Ok(())
}

fn stages_of<T: Real + Element>(extents: &[u64], runs: usize, records: &mut Records) -> Result<()> {
    let shape = Shape::new(extents)?;
    let (geometry, values) = (Geometry::new(shape), field::<T>(shape));
    let case = Case {
        name: format!("{}-D", extents.len()),
        tiles: geometry.range(0..geometry.tiles()).collect(),
        bytes: bytemuck::cast_slice(&values),
        values: &values,
        geometry,
        runs,
    };
    case.quantized(records)?;
    case.logarithmic(records)
}

fn field<T: Real>(shape: Shape) -> Vec<T> {
    let row = shape.extents().last().copied().unwrap_or(1);
    (0..shape.len())
        .map(|i| {
            let (a, b) = ((i % row) as f64 * 0.02, (i / row) as f64 * 0.013);
            let noise = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / 16_777_216.0 - 0.5;
            T::nearest((a.sin() + (b + a * 0.3).cos() + 2.5) * 100.0 + noise * 0.6)
        })
        .collect()
}

/// A field, and what all stages need.
struct Case<'v, T> {
    name: String,
    geometry: Geometry,
    tiles: Vec<Tile>,
    values: &'v [T],
    bytes: &'v [u8],
    runs: usize,
}

impl<T: Real + Element> Case<'_, T> {
    fn time(&self, step: &str, records: &mut Records, work: impl FnMut()) -> Result<()> {
        records.add(&record(&self.name, &T::TYPE.to_string(), step, self.bytes.len(), self.runs, work))
    }

    fn scan(&self, bound: Bound) -> Scan {
        let mut scan = Scan::new(T::TYPE, self.values.len() as u64, bound, Fill::Auto);
        scan.add(0, black_box(self.bytes));
        scan
    }

    /// Times linear quantization and Lorenzo prediction as the pipeline does them: tile by tile, with the buffers of
    /// the stages in the cache.
    fn quantized(&self, records: &mut Records) -> Result<()> {
        self.time("scan", records, || drop(black_box(self.scan(Bound::Rel(1e-3)))))?;
        let resolved = resolve(&self.scan(Bound::Rel(1e-3)), false)?;
        let linear = Linear::<T>::new(resolved.step, resolved.abs_bound);
        let extent = self.geometry.unclipped_len() as usize;
        let (mut x, mut q) = (vec![T::nearest(0.0); extent], vec![0_i32; extent]);
        let window = Window::raster(self.bytes, 0, &self.geometry);
        self.time("gather + quantize", records, || {
            for tile in &self.tiles {
                window.gather(tile, &mut x);
                let mut exact = TileMask::default();
                if linear.quantize_tile(&x[..tile.len()], &mut q, &mut exact) {
                    fill_excluded(&mut q[..tile.len()], tile.extent, &exact);
                }
                black_box(&mut q);
            }
        })?;

        let mut integers = vec![0_i32; self.tiles.len() * extent];
        for (tile, slot) in self.tiles.iter().zip(integers.chunks_mut(extent)) {
            window.gather(tile, &mut x);
            linear.quantize_tile(&x[..tile.len()], slot, &mut TileMask::default());
            let base = slot[0];
            slot.iter_mut().for_each(|integer| *integer = integer.wrapping_sub(base));
        }
        let list: Vec<u8> = orders::predictors(self.geometry.axes()).take(orders::MOST_LISTED).collect();
        self.time("three predictions", records, || {
            for (tile, integers) in self.tiles.iter().zip(integers.chunks(extent)) {
                for &predictor in &list {
                    let q = &mut q[..tile.len()];
                    q.copy_from_slice(&integers[..tile.len()]);
                    orders::difference(q, tile.extent, predictor);
                    black_box(q);
                }
            }
        })?;

        let predictor = (1 << self.geometry.axes()) - 1;
        let mut codes = integers;
        for (tile, codes) in self.tiles.iter().zip(codes.chunks_mut(extent)) {
            orders::difference(&mut codes[..tile.len()], tile.extent, predictor);
        }
        self.time("inverse prediction", records, || {
            for (tile, codes) in self.tiles.iter().zip(codes.chunks(extent)) {
                let q = &mut q[..tile.len()];
                q.copy_from_slice(&codes[..tile.len()]);
                orders::restore(q, tile.extent, predictor, 0);
                black_box(q);
            }
        })?;
        let mut output = vec![0_u8; self.bytes.len()];
        self.time("inverse prediction + dequantize + scatter", records, || {
            for mut sink in Scatter::new(&mut output, &self.geometry, self.geometry.whole(), size_of::<T>()) {
                let chunk = self.geometry.chunk_range(sink.chunk());
                for number in chunk.start as usize..chunk.end as usize {
                    let tile = &self.tiles[number];
                    let q = &mut q[..tile.len()];
                    q.copy_from_slice(&codes[number * extent..][..tile.len()]);
                    orders::restore(q, tile.extent, predictor, 0);
                    linear.dequantize(q, &mut x);
                    sink.put(&x);
                }
            }
        })
    }

    fn logarithmic(&self, records: &mut Records) -> Result<()> {
        let log = Log::<T>::new(resolve(&self.scan(Bound::PwRel(1e-3)), false)?.step, 1e-3);
        let extent = self.geometry.unclipped_len() as usize;
        let (mut x, mut q) = (vec![T::nearest(0.0); extent], vec![0_i32; extent]);
        let window = Window::raster(self.bytes, 0, &self.geometry);
        self.time("logarithm: gather + quantize", records, || {
            for tile in &self.tiles {
                window.gather(tile, &mut x);
                black_box(log.quantize_tile(&x[..tile.len()], &mut q, &mut TileMask::default()));
            }
        })?;
        self.time("logarithm: dequantize", records, || {
            for tile in &self.tiles {
                log.dequantize(&q[..tile.len()], &mut x);
                black_box(&mut x);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_a_record() {
        let mut records = Records::new(std::io::sink());
        stages_of::<f32>(&[20, 20, 20], 1, &mut records).unwrap();
        stages_of::<f64>(&[2000], 1, &mut records).unwrap();
        records.finish().unwrap();
    }
}
