//! Times the stages of lossy compression up to the codes on GPU 0, compared with a device-to-device copy in the same
//! run: `cargo bench -p syncline-cuda --bench quantize`.
//!
//! Reports medians of CUDA-event times after warm-up. Rates are bytes of the array per second. `tests/quantize` checks
//! the results.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use syncline_core::array::{Element, Shape};
use syncline_core::bound::{Bound, Fill, resolve};
use syncline_core::container::Header;
use syncline_core::geometry::{Geometry, TileSize};
use syncline_core::huffman::IndexKind;
use syncline_core::quantize::Real;
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::geometry::Slab;
use syncline_cuda::quantize::{BoundScan, Quantizer};

mod fields;
mod timing;
use fields::Data;
use timing::Runs;

const RUNS: Runs = Runs { warm_up: 2, counted: 9 };

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    let stream = device.context().default_stream();
    let copy = timing::copy_rate(&stream, RUNS)?;
    println!(
        "array, bound: scan | quantize | all of gather, in GB/s (share of C); verbatim, outliers, constant groups left \
         out in %"
    );
    let smooth = Data { noise: 0.002, fill: false };
    let cube = &[1024, 512, 512][..];
    for bound in [Bound::Rel(1e-2), Bound::Rel(1e-3), Bound::Rel(1e-4)] {
        time::<f32>(&device, &stream, copy, cube, bound, smooth)?;
    }
    time::<f32>(&device, &stream, copy, cube, Bound::Rel(1e-3), Data { noise: 0.2, ..smooth })?;
    time::<f32>(&device, &stream, copy, cube, Bound::Rel(1e-3), Data { fill: true, ..smooth })?;
    time::<f32>(&device, &stream, copy, cube, Bound::PwRel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[288, 115, 69, 69], Bound::Rel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[449, 449, 235], Bound::Rel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[26, 1800, 3600], Bound::Rel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[1000, 500, 500], Bound::Rel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[1000, 511, 511], Bound::Rel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[100, 500, 500], Bound::Rel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[16384, 16384], Bound::Rel(1e-3), smooth)?;
    time::<f32>(&device, &stream, copy, &[1 << 28], Bound::Rel(1e-3), smooth)?;
    time::<f64>(&device, &stream, copy, &[512, 512, 512], Bound::Rel(1e-3), smooth)?;
    time::<f64>(&device, &stream, copy, &[16384, 8192], Bound::Rel(1e-3), smooth)?;
    time::<f64>(&device, &stream, copy, &[1 << 27], Bound::Rel(1e-3), smooth)
}

fn time<T: Real + Element>(
    device: &Device,
    stream: &Arc<CudaStream>,
    copy: f64,
    extents: &[u64],
    bound: Bound,
    data: Data,
) -> Result<()> {
    if std::env::var("Q_ONE")
        .is_ok_and(|w| w != format!("{} {extents:?} {bound:?} {} {}", T::TYPE, data.noise, data.fill))
    {
        return Ok(());
    }
    let invalid = |error: syncline_core::error::Error| CudaError::invalid(error.to_string());
    let shape = Shape::new(extents).map_err(invalid)?;
    let (array, _) = fields::generate::<T>(stream, extents, data)?;
    let mut arena = Arena::new(stream.clone());
    let mut scan = BoundScan::new(device, T::TYPE)?;
    let found = scan.scan(stream, &array.as_view(), bound, Fill::Auto)?;
    let (scan_time, _) =
        timing::seconds(stream, RUNS, || scan.scan(stream, &array.as_view(), bound, Fill::None).map(|_| ()))?;
    let resolved = resolve(&found, false).map_err(invalid)?;
    let geometry = Geometry::new(shape);
    let header = Header {
        element_type: T::TYPE,
        shape,
        pipeline: resolved.pipeline,
        index: IndexKind::Symbol,
        group_log2: 7,
        lzss_codes: false,
        token_codes: false,
        tile_size: TileSize::Small,
        bound,
        abs_bound: resolved.abs_bound,
        step: resolved.step,
        range: resolved.range,
        patterns: resolved.patterns.iter().map(|p| p.bits).collect(),
        chunk_tiles: geometry.tiles_per_chunk(),
    };
    let quantizer = Quantizer::new(device, &header, &geometry)?;
    let slab = Slab { bytes: array.as_view(), first_element: 0 };
    let chunks = geometry.chunks();
    // The first call allocates the arena.
    quantizer.quantize(&mut arena.frame()?, &slab, 0..chunks)?;
    let (quantize_time, _) =
        timing::seconds(stream, RUNS, || quantizer.quantize(&mut arena.frame()?, &slab, 0..chunks).map(|_| ()))?;
    let mut frame = arena.frame()?;
    let mut out = quantizer.quantize(&mut frame, &slab, 0..chunks)?;
    let summaries = out.read_summaries(stream)?;
    let (gather_time, _) = timing::seconds(stream, Runs { warm_up: 1, counted: 3 }, || {
        quantizer.gather(&mut frame, &slab, &mut out, &summaries).map(|_| ())
    })?;
    let bytes = array.len() as f64;
    let rate = |time: f64| format!("{:6.0} ({:.2})", bytes / time / 1e9, bytes / time / copy);
    let elements = shape.len() as f64;
    let sum =
        |of: fn(&syncline_cuda::quantize::ChunkSummary) -> u32| summaries.iter().map(|s| f64::from(of(s))).sum::<f64>();
    println!(
        "  {} {extents:?} {bound:?} noise {} fill {}: {} | {} ({:.0} us) | {} ({:.0} us); {:.3} {:.3} {:.1}",
        T::TYPE,
        data.noise,
        data.fill,
        rate(scan_time),
        rate(quantize_time),
        quantize_time * 1e6,
        rate(gather_time),
        gather_time * 1e6,
        100.0 * sum(|s| s.verbatim) / elements,
        100.0 * sum(|s| s.outliers) / elements,
        100.0 * (1.0 - sum(|s| s.groups) * 128.0 / elements),
    );
    Ok(())
}
