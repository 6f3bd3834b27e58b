//! Times reconstruction on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda --bench
//! reconstruct`.
//!
//! Reports medians of CUDA-event times after warm-up for everything from parsed chunks to elements: tables, decoding,
//! elements, checksums. Outputs are filled with a pattern before, and compared with the CPU's. Throughputs are of
//! written elements; that of the copy counts each byte once. Arguments: parts of the names of the lines to run, and
//! files ending in `.syn`, which contain streams whose arrays are used as further fields, repeated along their slowest
//! axis.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use syncline_core::array::ElementType;
use syncline_core::bound::Bound;
use syncline_cuda::container::parsed::sums_len;
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::huffman::decode::status_text;
use syncline_cuda::reconstruct::{Codes, Reconstruction, Reconstructor, Way};

#[path = "../tests/common/stream.rs"]
mod streams;
mod timing;
mod waves;
use streams::{HostParsed, Making, compress, decompress, opened};
use timing::Runs;
use waves::Field;

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
    println!(
        "{:44} {:>6} {:>9} {:>9} {:>6} {:>9} {:>6} {:>9} {:>6}",
        "field", "bits", "MiB", "fused", "of C", "apart", "of C", "decoded", "of C"
    );
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
                compress(&bytes, header.element_type, &extents, Bound::Abs(header.abs_bound), &Making::default());
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
        let mut sums = self.stream.alloc_zeros::<u32>(sums_len(parsed.chunk_count as usize)).doing("allocating")?;
        let mut arena = Arena::new(self.stream.clone());
        let (view, input, batch, decoded) =
            (parsed.view(), parsed.input.as_view(), parsed.batch.as_view(), parsed.codes.as_view());
        let mut rates = Vec::new();
        let expected = decompress(stream);
        for way in Way::ALL {
            if way == Way::Apart && geometry.axes() != 3 {
                rates.push(f64::NAN);
                continue;
            }
            let fused = way.decodes();
            let reconstructor = Reconstructor::with_way(self.device, &header, &geometry, way)?;
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
                    sums: &mut sums.as_view_mut(),
                };
                reconstructor.launch(&mut arena.frame()?, work)
            })?;
            rates.push(bytes as f64 / median);
            let got = self.stream.clone_dtoh(&output).doing("reading back")?;
            assert!(got == expected, "{name}, {way:?}: wrong elements");
            self.stream.memset_zeros(&mut output).doing("poisoning")?;
        }
        for status in self.stream.clone_dtoh(&status).doing("reading back")? {
            assert_eq!(status_text(status), None, "{name}");
        }
        let bits = stream.len() as f64 * 8.0 / geometry.elements() as f64;
        println!(
            "{name:44} {bits:6.2} {:9.0} {:9.0} {:6.2} {:9.0} {:6.2} {:9.0} {:6.2}",
            bytes as f64 / f64::from(1 << 20),
            rates[0] / 1e9,
            rates[0] / self.copy,
            rates[1] / 1e9,
            rates[1] / self.copy,
            rates[2] / 1e9,
            rates[2] / self.copy
        );
        Ok(())
    }
}
