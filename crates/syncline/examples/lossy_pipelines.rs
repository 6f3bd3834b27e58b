//! Ratio and one-core speed of a field of `f32` through every pipeline of lossy streams: `lossy_pipelines FILE SHAPE
//! REL...`, as `x.f32 100x500x500 1e-2 1e-3`.
//!
//! "plain" is Huffman coding as other compressors have it, without free groups: every element takes a codeword of one
//! codebook a chunk. Its ratio counts the codewords and all of the stream that is neither codewords, codebooks nor
//! index.

use std::time::Instant;

use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, DecompressOptions, Effort, Header, Shape, StreamFile,
    compress,
};
use syncline_core::geometry::{Geometry, Tile, Window};
use syncline_core::huffman::lengths::code_lengths;
use syncline_core::pipeline::{ElementSource, quantize_chunk};

const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, shape, bounds @ ..] = arguments.as_slice() else {
        return Err("lossy_pipelines FILE SHAPE REL...".into());
    };
    let shape: Shape = shape.parse()?;
    let mut bytes = std::fs::read(path)?;
    bytes.truncate(shape.len() as usize * 4);
    let view = ArrayView::from_bytes(&bytes, syncline::ElementType::F32, shape)?;
    for bound in bounds {
        let options = CompressOptions::new(Bound::Rel(bound.parse()?)).with_backend(Backend::Cpu).with_threads(1);
        let plain = plain_ratio(&view, &options)?;
        println!("{path} {shape} at {bound}: plain Huffman, ratio {plain:.2}");
        for pipeline in [Coder::Huffman, Coder::LzssHuffman, Coder::Auto] {
            let options =
                options.clone().with_advanced(Advanced::default().with_coder(pipeline)).with_effort(Effort::Fast);
            let (stream, compression) = best(|| compress(&view, &options))?;
            let file = StreamFile::open(&stream[..])?;
            let mut back = vec![0; bytes.len()];
            let decoding = DecompressOptions::default().with_backend(Backend::Cpu).with_threads(1);
            let (_, decompression) = best(|| file.decompress_into(&mut back, &decoding))?;
            let ratio = bytes.len() as f64 / stream.len() as f64;
            let report = file.inspect()?;
            let speed = |seconds: f64| bytes.len() as f64 / seconds / 1e6;
            println!(
                "  {:12} ratio {ratio:8.2}, {:6.2} of plain, {:3} of {:3} chunks LZSS, compress {:5.0} MB/s, \
                 decompress {:5.0} MB/s",
                pipeline.name(),
                ratio / plain,
                report.totals.lzss_chunks,
                report.totals.chunks,
                speed(compression),
                speed(decompression),
            );
        }
    }
    Ok(())
}

/// The result and the least seconds of some runs.
fn best<T>(mut work: impl FnMut() -> syncline::Result<T>) -> syncline::Result<(T, f64)> {
    let mut least = f64::MAX;
    for _ in 1..RUNS {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    let start = Instant::now();
    let result = work()?;
    Ok((result, least.min(start.elapsed().as_secs_f64())))
}

struct Whole<'a>(&'a [u8]);

impl ElementSource for Whole<'_> {
    fn window<'s>(&'s self, geometry: &Geometry, _: &[Tile], _: &'s mut Vec<u8>) -> syncline::Result<Window<'s>> {
        Ok(Window::raster(self.0, 0, geometry))
    }
}

fn plain_ratio(view: &ArrayView, options: &CompressOptions) -> syncline::Result<f64> {
    let stream = compress(view, options)?;
    let file = StreamFile::open(&stream[..])?;
    let header: &Header = file.header();
    let geometry = Geometry::new(header.shape);
    let mut bits = 0u64;
    for chunk in 0..geometry.chunks() {
        let codes = quantize_chunk(header, &geometry, chunk, &Whole(view.bytes()))?;
        let mut counts = vec![0u32; 1 << 16];
        codes.codes.iter().for_each(|&code| counts[usize::from(code)] += 1);
        // Those of constant tiles.
        counts[codes.radius as usize] +=
            (geometry.chunk_elements(chunk) as u32).saturating_sub(codes.codes.len() as u32);
        let mut lengths = Vec::new();
        code_lengths(&counts, &mut Default::default(), &mut lengths);
        bits += lengths.iter().zip(&counts).map(|(&length, &count)| u64::from(length) * u64::from(count)).sum::<u64>();
    }
    let report = file.inspect()?;
    let coded = report.totals.codeword_bytes + report.totals.codebook_bytes + report.totals.index_bytes;
    let rest = stream.len() as u64 - coded;
    Ok(view.bytes().len() as f64 / (bits as f64 / 8.0 + rest as f64))
}
