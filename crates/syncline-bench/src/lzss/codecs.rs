//! Our lossless pipelines and other projects' codecs on one thread of the CPU.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use syncline::{
    ArrayView, Backend, Bound, DecodeOptions, ElementType, LosslessPipeline, Options, Shape, SymbolWidth, compress,
    decompress,
};

use syncline_cuda::timing::Times;

use super::cpu::DEVICE;
use super::{Row, Set};
use crate::lossy::Rate;

type Code = Box<dyn Fn(&[u8]) -> Result<Vec<u8>>>;
type Decode = Box<dyn Fn(&[u8], usize) -> Result<Vec<u8>>>;

/// Something that compresses bytes.
pub struct Codec {
    name: String,
    level: Option<u8>,
    symbol: Option<SymbolWidth>,
    compress: Code,
    decompress: Decode,
}

impl Codec {
    /// One of our pipelines; a width of `None` is chosen chunk by chunk.
    pub fn ours(element: ElementType, pipeline: LosslessPipeline, level: u8, symbol: Option<SymbolWidth>) -> Self {
        let options = Options::new(Bound::Lossless).with_backend(Backend::Cpu).with_threads(1);
        let options = options.with_pipeline(pipeline).with_level(level).with_symbol(symbol);
        let uses_lzss = pipeline != LosslessPipeline::Planes;
        Self {
            name: pipeline.to_string(),
            level: uses_lzss.then_some(level),
            symbol,
            compress: Box::new(move |bytes| {
                let shape = Shape::new(&[(bytes.len() / element.size()) as u64])?;
                Ok(compress(&ArrayView::from_bytes(bytes, element, shape)?, &options)?)
            }),
            decompress: Box::new(|stream, _| {
                let options = DecodeOptions::default().with_backend(Backend::Cpu).with_threads(1);
                Ok(decompress(stream, &options)?.into_bytes())
            }),
        }
    }

    /// Those of other projects that this build has.
    pub fn rivals(element: ElementType) -> Vec<Self> {
        #[cfg(feature = "rivals")]
        return others::all(element);
        #[cfg(not(feature = "rivals"))]
        {
            let _ = element;
            Vec::new()
        }
    }

    /// Measures it on a set.
    ///
    /// # Errors
    /// It fails, or other bytes come back.
    pub fn measure(&self, set: &Set, runs: usize) -> Result<Row> {
        Self::measure_in_turn(std::slice::from_ref(self), set, runs).remove(0)
    }

    /// Measures several on a set, run by run in turn, so that whatever else the machine does meets all of them. The first run is not counted. All compression comes before all decompression: what
    /// the one gives back decides whether the other's memory is new to the process, for some codecs and not for others.
    pub fn measure_in_turn(codecs: &[Self], set: &Set, runs: usize) -> Vec<Result<Row>> {
        let mut all: Vec<Result<Seconds>> = codecs.iter().map(|_| Ok(Seconds::default())).collect();
        let mut in_turn = |step: fn(&Self, &Set, &mut Seconds) -> Result<f64>,
                           times: fn(&mut Seconds) -> &mut Vec<f64>| {
            for run in 0..=runs.max(1) {
                for (codec, seconds) in codecs.iter().zip(&mut all) {
                    let Ok(so_far) = seconds else { continue };
                    match step(codec, set, so_far).with_context(|| format!("{} on {}", codec.name, set.name)) {
                        Ok(time) if run > 0 => times(so_far).push(time),
                        Ok(_) => {}
                        Err(error) => *seconds = Err(error),
                    }
                }
            }
        };
        in_turn(Self::run_compression, |seconds| &mut seconds.compression);
        in_turn(Self::run_decompression, |seconds| &mut seconds.decompression);
        codecs.iter().zip(all).map(|(codec, seconds)| Ok(codec.row(set, seconds?))).collect()
    }

    /// Compresses once; the seconds.
    fn run_compression(&self, set: &Set, so_far: &mut Seconds) -> Result<f64> {
        let start = Instant::now();
        let stream = (self.compress)(&set.bytes)?;
        let seconds = start.elapsed().as_secs_f64();
        so_far.stream = stream;
        Ok(seconds)
    }

    /// Decompresses once what has been compressed.
    fn run_decompression(&self, set: &Set, so_far: &mut Seconds) -> Result<f64> {
        let start = Instant::now();
        let back = (self.decompress)(&so_far.stream, set.bytes.len())?;
        let seconds = start.elapsed().as_secs_f64();
        ensure!(back == set.bytes, "other bytes came back");
        Ok(seconds)
    }

    fn row(&self, set: &Set, seconds: Seconds) -> Row {
        let length = set.bytes.len() as u64;
        Row {
            set: set.name.clone(),
            element: set.element.to_string(),
            bytes: length,
            device: DEVICE.to_owned(),
            codec: self.name.clone(),
            chunk: None,
            level: self.level,
            symbol: self.symbol.map(SymbolWidth::bytes),
            ratio: length as f64 / seconds.stream.len() as f64,
            compress: Rate::new(length, &Times::new(seconds.compression), None),
            decompress: Some(Rate::new(length, &Times::new(seconds.decompression), None)),
        }
    }
}

/// What runs took.
#[derive(Default)]
struct Seconds {
    compression: Vec<f64>,
    decompression: Vec<f64>,
    stream: Vec<u8>,
}

#[cfg(feature = "rivals")]
mod others {
    use bytemuck::{cast_slice, try_cast_slice};
    use pco::ChunkConfig;
    use pco::data_types::Number;
    use pco::standalone::{simple_compress, simple_decompress};

    use super::*;

    pub(super) fn all(element: ElementType) -> Vec<Codec> {
        let mut all = vec![zstandard(1), zstandard(3), lz4_block()];
        // Pcodec is not made for bytes, and says so.
        all.extend(match element {
            ElementType::U16 => Some(pcodec::<u16>()),
            ElementType::I16 => Some(pcodec::<i16>()),
            ElementType::U32 => Some(pcodec::<u32>()),
            ElementType::I32 => Some(pcodec::<i32>()),
            ElementType::F32 => Some(pcodec::<f32>()),
            ElementType::U64 => Some(pcodec::<u64>()),
            ElementType::I64 => Some(pcodec::<i64>()),
            ElementType::F64 => Some(pcodec::<f64>()),
            _ => None,
        });
        all
    }

    fn codec(name: String, compress: Code, decompress: Decode) -> Codec {
        Codec { name, level: None, symbol: None, compress, decompress }
    }

    fn zstandard(level: i32) -> Codec {
        codec(
            format!("zstd -{level}"),
            Box::new(move |bytes| Ok(zstd::bulk::compress(bytes, level)?)),
            Box::new(|stream, length| Ok(zstd::bulk::decompress(stream, length)?)),
        )
    }

    fn lz4_block() -> Codec {
        codec(
            "lz4".into(),
            Box::new(|bytes| Ok(lz4::block::compress(bytes, None, false)?)),
            Box::new(|stream, length| Ok(lz4::block::decompress(stream, Some(i32::try_from(length)?))?)),
        )
    }

    fn pcodec<T: Number + bytemuck::Pod>() -> Codec {
        codec(
            "pcodec".into(),
            Box::new(|bytes| {
                let numbers = try_cast_slice::<u8, T>(bytes).map_err(|error| anyhow::anyhow!("{error}"))?;
                Ok(simple_compress(numbers, &ChunkConfig::default())?)
            }),
            Box::new(|stream, _| Ok(cast_slice::<T, u8>(&simple_decompress::<T>(stream)?).to_vec())),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_gives_the_bytes_back() {
        for name in ["hurr-quant", "tpch-int32", "tpch-shipmode", "rtm-float32"] {
            let set = Set::load(name, 1).unwrap();
            let ours = LosslessPipeline::ALL.map(|pipeline| Codec::ours(set.element, pipeline, 3, None));
            let rivals = Codec::rivals(set.element);
            assert_eq!(rivals.len(), if cfg!(feature = "rivals") { 3 + set.element.size().min(2) - 1 } else { 0 });
            for codec in ours.iter().chain(&rivals) {
                let row = codec.measure(&set, 1).unwrap();
                assert!(row.ratio > 0.99 && row.compress.median > 0.0, "{row:?}");
                assert_eq!(row.level.is_some(), row.codec.contains("lzss") || row.codec == "auto", "{row:?}");
            }
        }
    }
}
