//! Times reconstruction on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda --bench reconstruct`.
//!
//! Medians of CUDA-event times after warm-up, of everything from parsed chunks to elements: tables, decoding, elements, checksums. Outputs are poisoned first and
//! compared with the CPU's. Rates are of elements written; the copy's is its payload. Arguments: parts of the names of the lines wanted, and files ending in
//! `.syn`: streams whose arrays are taken as further fields, repeated along their slowest axis.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use syncline_core::array::ElementType;
use syncline_core::bound::Bound;
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::huffman::decode::status_text;
use syncline_cuda::reconstruct::{Codes, Reconstruction, Reconstructor};

#[path = "../tests/common/stream.rs"]
mod streams;
mod timing;
use streams::{HostParsed, Making, compress, decompress, opened, parallel};
use timing::Runs;

const RUNS: Runs = Runs { warm_up: 2, counted: 11 };
/// Bytes of a large field.
const LARGE: u64 = 1 << 30;

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    let stream = device.context().default_stream();
    let copy = timing::copy_rate(&stream, RUNS)?;
    // `cargo bench` passes its own flag.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let (files, wanted) = arguments.into_iter().partition(|argument| argument.ends_with(".syn"));
    let bench = Bench { device: &device, stream, copy, wanted };
    println!("{:44} {:>6} {:>9} {:>9} {:>6} {:>9} {:>6}", "field", "bits", "MiB", "fused", "of C", "unfused", "of C");
    let wave = |wavelength: f64, noise: f64| Field { wavelength, noise, flat: 0.0 };
    bench.field("hurricane, 3-D f32", &[100, 500, 500], wave(60.0, 0.3), ElementType::F32)?;
    bench.field("smooth, 3-D f32", &[1024, 512, 512], wave(60.0, 0.3), ElementType::F32)?;
    bench.field("smooth, 3-D f64", &[512, 512, 512], wave(60.0, 0.3), ElementType::F64)?;
    bench.field("rough, 3-D f32", &[1024, 512, 512], wave(20.0, 8.0), ElementType::F32)?;
    bench.field("rough, 3-D f64", &[512, 512, 512], wave(20.0, 8.0), ElementType::F64)?;
    let empty = Field { wavelength: 60.0, noise: 2.0, flat: 0.9 };
    bench.field("nearly empty, 3-D f32", &[1024, 512, 512], empty, ElementType::F32)?;
    bench.field("smooth, 2-D f32", &[16384, 16384], wave(200.0, 0.5), ElementType::F32)?;
    bench.field("rough, 1-D f32", &[1 << 28], wave(300.0, 4.0), ElementType::F32)?;
    bench.field("rough, 1-D f64", &[1 << 27], wave(300.0, 4.0), ElementType::F64)?;
    let planes = (timing::SMALL / 4 / 65_536) as u64;
    bench.field("small, 3-D f32", &[planes, 256, 256], wave(60.0, 0.3), ElementType::F32)?;
    bench.field("odd rows, 3-D f32", &[512, 511, 509], wave(60.0, 0.3), ElementType::F32)?;
    let files: Vec<String> = files;
    for file in &files {
        bench.file(file)?;
    }
    Ok(())
}

/// Waves and noise.
#[derive(Clone, Copy)]
struct Field {
    /// In elements.
    wavelength: f64,
    /// In quantisation steps.
    noise: f64,
    /// Share of the array, in slabs, where there is nothing but one value.
    flat: f64,
}

impl Field {
    /// Bound of all fields here; values are between -3 and 3.
    const BOUND: f64 = 3e-3;

    fn bytes(self, extents: &[u64], element: ElementType) -> Vec<u8> {
        let nx = extents[extents.len() - 1];
        let ny = if extents.len() > 1 { extents[extents.len() - 2] } else { 1 };
        let rows: u64 = extents.iter().product::<u64>() / nx;
        // One long row is cut, so that threads share it.
        let (rows, nx, ny) = if rows == 1 { (nx / 4096, 4096, u64::MAX) } else { (rows, nx, ny) };
        let wave = |at: u64, scale: f64| (at as f64 * std::f64::consts::TAU / self.wavelength * scale).sin();
        let along_x: Vec<f64> = (0..nx).map(|x| wave(x, 1.0)).collect();
        let across: Vec<f64> = (0..nx).map(|x| wave(x, 0.37)).collect();
        let rows_at_once = (1 << 16) / nx + 1;
        let parts = parallel(rows.div_ceil(rows_at_once) as usize, |part| {
            let mut out = Vec::new();
            for row in part as u64 * rows_at_once..rows.min((part as u64 + 1) * rows_at_once) {
                let (y, z) = (row % ny, row / ny);
                let (a, b) = (wave(y, 0.9) + wave(z, 0.7), wave(y + z, 0.31));
                let flat = (z as f64 / 37.0).fract() < self.flat || (y as f64 / 97.0).fract() < self.flat * 0.5;
                let mut state = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                for x in 0..nx as usize {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let noise = ((state >> 40) as f64 / f64::from(1 << 24) - 0.5) * self.noise * 2.0 * Self::BOUND;
                    let value = if flat { 0.5 } else { along_x[x] * b + across[x] * a + noise };
                    match element {
                        ElementType::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
                        _ => out.extend_from_slice(&value.to_le_bytes()),
                    }
                }
            }
            out
        });
        parts.concat()
    }
}

struct Bench<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    copy: f64,
    wanted: Vec<String>,
}

impl Bench<'_> {
    fn is_wanted(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part.as_str()))
    }

    fn field(&self, name: &str, extents: &[u64], field: Field, element: ElementType) -> Result<()> {
        if !self.is_wanted(name) {
            return Ok(());
        }
        let bytes = field.bytes(extents, element);
        let stream = compress(&bytes, element, extents, Bound::Abs(Field::BOUND), &Making::default());
        self.time(name, &stream)
    }

    fn file(&self, path: &str) -> Result<()> {
        let stream = std::fs::read(path).expect("a stream of Syncline");
        let (header, _) = opened(&stream);
        let once = decompress(&stream);
        let mut extents = header.shape.extents().to_vec();
        let name = format!("{path} {extents:?}");
        self.time(&name, &stream)?;
        let times = (LARGE / once.len() as u64).max(1);
        if times > 1 {
            extents[0] *= times;
            let bytes = once.repeat(times as usize);
            let stream =
                compress(&bytes, header.element_type, &extents, Bound::Abs(header.resolved), &Making::default());
            self.time(&format!("{path} {extents:?}"), &stream)?;
        }
        Ok(())
    }

    fn time(&self, name: &str, stream: &[u8]) -> Result<()> {
        let (header, geometry) = opened(stream);
        let bytes = geometry.elements() as usize * header.element_type.size();
        let host = HostParsed::new(stream, 0..geometry.chunks(), true);
        let parsed = host.upload(&self.stream);
        let mut output = self.stream.clone_htod(&vec![0xa5_u8; bytes]).doing("poisoning")?;
        let mut status = self.stream.alloc_zeros::<u32>(parsed.chunk_count as usize).doing("allocating")?;
        let mut arena = Arena::new(self.stream.clone());
        let (view, input, batch, decoded) =
            (parsed.view(), parsed.input.as_view(), parsed.batch.as_view(), parsed.codes.as_view());
        let mut rates = Vec::new();
        let expected = decompress(stream);
        for fused in [true, false] {
            let reconstructor = match fused {
                true => Reconstructor::new(self.device, &header, &geometry)?,
                false => Reconstructor::from_codes(self.device, &header, &geometry)?,
            };
            let (median, _) = timing::seconds(&self.stream, RUNS, || {
                let work = Reconstruction {
                    input: &input,
                    parsed: &view,
                    codes: if fused { Codes::Streams(&batch) } else { Codes::Decoded(&decoded) },
                    first_chunk: 0,
                    tiles: 0..u64::MAX,
                    output: &mut output.as_view_mut(),
                    first_element: 0,
                    status: &mut status.as_view_mut(),
                };
                reconstructor.launch(&mut arena.frame()?, work)
            })?;
            rates.push(bytes as f64 / median);
            let got = self.stream.clone_dtoh(&output).doing("reading back")?;
            assert!(got == expected, "{name}, fused {fused}: wrong elements");
            self.stream.memset_zeros(&mut output).doing("poisoning")?;
        }
        for status in self.stream.clone_dtoh(&status).doing("reading back")? {
            assert_eq!(status_text(status), None, "{name}");
        }
        let bits = stream.len() as f64 * 8.0 / geometry.elements() as f64;
        println!(
            "{name:44} {bits:6.2} {:9.0} {:9.0} {:6.2} {:9.0} {:6.2}",
            bytes as f64 / f64::from(1 << 20),
            rates[0] / 1e9,
            rates[0] / self.copy,
            rates[1] / 1e9,
            rates[1] / self.copy
        );
        Ok(())
    }
}
