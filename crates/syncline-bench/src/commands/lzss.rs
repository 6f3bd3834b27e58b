//! `lzss`: lossless pipelines and general compressors side by side, on one thread.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use syncline::{ArrayView, Bound, DecodeOptions, ElementType, LosslessPipeline, Options, Shape, compress, decompress};

/// Arguments of `lzss`.
#[derive(Args)]
pub struct Arguments {
    /// Raw arrays whose names end in their element type, as x.i32; anything else is bytes
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// LZSS level
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    level: u8,
    /// Runs to time each way; the fastest counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Measures every pipeline and rival on every file and prints the table.
///
/// # Errors
/// A file cannot be read, or a codec fails or gives other bytes.
pub fn run(arguments: &Arguments) -> Result<()> {
    println!("{:<28}{:<16}{:>9}{:>15}{:>17}", "file", "codec", "ratio", "compress MB/s", "decompress MB/s");
    for path in &arguments.files {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let element = element_type(path);
        let bytes = &bytes[..bytes.len() / element.size() * element.size()];
        ensure!(!bytes.is_empty(), "{} is empty", path.display());
        for codec in codecs(element, arguments.level) {
            let row = measure(&codec, bytes, arguments.runs).with_context(|| codec.name.clone())?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            println!("{name:<28}{:<16}{:>9.3}{:>15.0}{:>17.0}", codec.name, row.ratio, row.compress, row.decompress);
        }
    }
    Ok(())
}

fn element_type(path: &Path) -> ElementType {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    ElementType::ALL.into_iter().find(|element| element.to_string() == extension).unwrap_or(ElementType::U8)
}

type Code = Box<dyn Fn(&[u8]) -> Result<Vec<u8>>>;
type Decode = Box<dyn Fn(&[u8], usize) -> Result<Vec<u8>>>;

struct Codec {
    name: String,
    compress: Code,
    decompress: Decode,
}

fn codecs(element: ElementType, level: u8) -> Vec<Codec> {
    let ours = LosslessPipeline::ALL.map(|pipeline| {
        let options = Options::new(Bound::Lossless).with_pipeline(pipeline).with_level(level).with_threads(1);
        Codec {
            name: pipeline.to_string(),
            compress: Box::new(move |bytes| {
                let shape = Shape::new(&[(bytes.len() / element.size()) as u64])?;
                Ok(compress(&ArrayView::from_bytes(bytes, element, shape)?, &options)?)
            }),
            decompress: Box::new(|stream, _| {
                Ok(decompress(stream, &DecodeOptions::default().with_threads(1))?.into_bytes())
            }),
        }
    });
    #[cfg(feature = "rivals")]
    let rivals = [zstandard(), lz4_block()];
    #[cfg(not(feature = "rivals"))]
    let rivals = [];
    ours.into_iter().chain(rivals).collect()
}

#[cfg(feature = "rivals")]
fn zstandard() -> Codec {
    Codec {
        name: "zstd -3".into(),
        compress: Box::new(|bytes| Ok(zstd::bulk::compress(bytes, 3)?)),
        decompress: Box::new(|stream, length| Ok(zstd::bulk::decompress(stream, length)?)),
    }
}

#[cfg(feature = "rivals")]
fn lz4_block() -> Codec {
    Codec {
        name: "lz4".into(),
        compress: Box::new(|bytes| Ok(lz4::block::compress(bytes, None, false)?)),
        decompress: Box::new(|stream, length| Ok(lz4::block::decompress(stream, Some(i32::try_from(length)?))?)),
    }
}

/// Ratio, and speeds in MB/s of uncompressed bytes.
struct Row {
    ratio: f64,
    compress: f64,
    decompress: f64,
}

fn measure(codec: &Codec, bytes: &[u8], runs: usize) -> Result<Row> {
    let (mut encoding, mut decoding) = (f64::MAX, f64::MAX);
    let mut length = 0;
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        let stream = (codec.compress)(bytes)?;
        encoding = encoding.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let back = (codec.decompress)(&stream, bytes.len())?;
        decoding = decoding.min(start.elapsed().as_secs_f64());
        ensure!(back == bytes, "other bytes came back");
        length = stream.len();
    }
    let speed = |seconds: f64| bytes.len() as f64 / seconds / 1e6;
    Ok(Row { ratio: bytes.len() as f64 / length as f64, compress: speed(encoding), decompress: speed(decoding) })
}
