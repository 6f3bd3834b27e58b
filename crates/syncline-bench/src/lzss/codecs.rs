//! Measures our lossless coders and other projects' codecs on one thread of the CPU.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, DecompressOptions, ElementType, Shape, SymbolWidth,
    compress, decompress,
};

use syncline_cuda::timing::Times;

use super::cpu::DEVICE;
use super::{Row, Set};
use crate::clock::{Clock, Stopwatch};
use crate::lossy::Rate;
use crate::rivals::{BLOSC2_SETTINGS, Blosc2, Blosc2Setting, Timed};

type Code = Box<dyn Fn(&[u8], Clock) -> Result<Timed<Vec<u8>>>>;
type Decode = Box<dyn Fn(&[u8], usize, Clock) -> Result<Timed<Vec<u8>>>>;

/// How codecs are measured.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Number of measured runs.
    pub runs: usize,
    /// The kind of time to measure.
    pub clock: Clock,
    /// Whether all decompressed data is kept, so that each run writes to new memory.
    pub keeps: bool,
}

/// Times an operation in this process.
fn timed(clock: Clock, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Timed<Vec<u8>>> {
    let watch = Stopwatch::start(clock);
    let value = make()?;
    Ok(Timed { value, seconds: watch.seconds() })
}

/// A codec that compresses bytes and reports the time it took.
pub struct Codec {
    name: String,
    level: Option<u8>,
    symbol: Option<SymbolWidth>,
    compress: Code,
    decompress: Decode,
}

impl Codec {
    /// Returns one of our coders; if `symbol` is `None`, the coder chooses the symbol width of each chunk.
    pub fn ours(element: ElementType, pipeline: Coder, level: u8, symbol: Option<SymbolWidth>) -> Self {
        let options = CompressOptions::new(Bound::Lossless).with_backend(Backend::Cpu).with_threads(1);
        let options =
            options.with_advanced(Advanced::default().with_coder(pipeline).with_level(level).with_symbol(symbol));
        let uses_lzss = pipeline != Coder::Huffman;
        let encode = move |bytes: &[u8]| {
            let shape = Shape::new(&[(bytes.len() / element.size()) as u64])?;
            Ok(compress(&ArrayView::from_bytes(bytes, element, shape)?, &options)?)
        };
        let decode = |stream: &[u8]| {
            let options = DecompressOptions::default().with_backend(Backend::Cpu).with_threads(1);
            Ok(decompress(stream, &options)?.into_bytes())
        };
        Self {
            name: pipeline.to_string(),
            level: uses_lzss.then_some(level),
            symbol,
            compress: Box::new(move |bytes, clock| timed(clock, || encode(bytes))),
            decompress: Box::new(move |stream, _, clock| timed(clock, || decode(stream))),
        }
    }

    /// Starts Blosc2 in a Python interpreter that has it, for elements of this type.
    ///
    /// # Errors
    /// There is no such interpreter, or it lacks `blosc2`.
    pub fn blosc2(python: &str, element: ElementType) -> Result<Vec<Self>> {
        let worker = Rc::new(RefCell::new(Blosc2::start(python)?));
        let size = element.size();
        let codec = |setting: Blosc2Setting| {
            let (to_compress, to_decompress) = (worker.clone(), worker.clone());
            Self {
                name: setting.name.to_owned(),
                level: None,
                symbol: None,
                compress: Box::new(move |bytes, clock| to_compress.borrow_mut().compress(setting, size, bytes, clock)),
                decompress: Box::new(move |stream, _, clock| {
                    to_decompress.borrow_mut().decompress(setting, size, stream, clock)
                }),
            }
        };
        Ok(BLOSC2_SETTINGS.map(codec).into())
    }

    /// Returns the codecs of other projects that are compiled in.
    pub fn rivals(element: ElementType) -> Vec<Self> {
        #[cfg(feature = "rivals")]
        return others::all(element);
        #[cfg(not(feature = "rivals"))]
        {
            let _ = element;
            Vec::new()
        }
    }

    /// Measures the codec on a set.
    ///
    /// # Errors
    /// The codec fails, or the decompressed bytes differ.
    pub fn measure(&self, set: &Set, method: Method) -> Result<Row> {
        Self::measure_alternating(std::slice::from_ref(self), set, method).remove(0)
    }

    /// Measures several codecs on a set. Runs alternate between the codecs, so that other load on the machine affects
    /// all of them. The first run is a warm-up. All compression runs come before all decompression runs, because the
    /// memory that a codec frees determines whether the next one gets new memory, which would affect only some codecs.
    pub fn measure_alternating(codecs: &[Self], set: &Set, method: Method) -> Vec<Result<Row>> {
        let mut all: Vec<Result<Seconds>> = codecs.iter().map(|_| Ok(Seconds::default())).collect();
        let mut alternate = |step: fn(&Self, &Set, Method, &mut Seconds) -> Result<f64>,
                             times: fn(&mut Seconds) -> &mut Vec<f64>| {
            for run in 0..=method.runs.max(1) {
                for (codec, seconds) in codecs.iter().zip(&mut all) {
                    let Ok(so_far) = seconds else { continue };
                    match step(codec, set, method, so_far).with_context(|| format!("{} on {}", codec.name, set.name)) {
                        Ok(time) if run > 0 => times(so_far).push(time),
                        Ok(_) => {}
                        Err(error) => *seconds = Err(error),
                    }
                }
            }
        };
        alternate(Self::run_compression, |seconds| &mut seconds.compression);
        alternate(Self::run_decompression, |seconds| &mut seconds.decompression);
        codecs.iter().zip(all).map(|(codec, seconds)| Ok(codec.row(set, seconds?))).collect()
    }

    /// Compresses once and returns the seconds.
    fn run_compression(&self, set: &Set, method: Method, so_far: &mut Seconds) -> Result<f64> {
        let Timed { value, seconds } = (self.compress)(&set.bytes, method.clock)?;
        so_far.stream = value;
        Ok(seconds)
    }

    /// Decompresses the compressed bytes once and returns the seconds.
    fn run_decompression(&self, set: &Set, method: Method, so_far: &mut Seconds) -> Result<f64> {
        let Timed { value: back, seconds } = (self.decompress)(&so_far.stream, set.bytes.len(), method.clock)?;
        ensure!(back == set.bytes, "other bytes came back");
        if method.keeps {
            so_far.kept.push(back);
        }
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

/// Durations of the runs in seconds.
#[derive(Default)]
struct Seconds {
    compression: Vec<f64>,
    decompression: Vec<f64>,
    stream: Vec<u8>,
    kept: Vec<Vec<u8>>,
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
        // Pcodec rejects bytes.
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

    fn codec(
        name: String,
        compress: impl Fn(&[u8]) -> Result<Vec<u8>> + 'static,
        decompress: impl Fn(&[u8], usize) -> Result<Vec<u8>> + 'static,
    ) -> Codec {
        Codec {
            name,
            level: None,
            symbol: None,
            compress: Box::new(move |bytes, clock| timed(clock, || compress(bytes))),
            decompress: Box::new(move |stream, length, clock| timed(clock, || decompress(stream, length))),
        }
    }

    fn zstandard(level: i32) -> Codec {
        codec(
            format!("zstd -{level}"),
            move |bytes| Ok(zstd::bulk::compress(bytes, level)?),
            |stream, length| Ok(zstd::bulk::decompress(stream, length)?),
        )
    }

    fn lz4_block() -> Codec {
        codec(
            "lz4".into(),
            |bytes| Ok(lz4::block::compress(bytes, None, false)?),
            |stream, length| Ok(lz4::block::decompress(stream, Some(i32::try_from(length)?))?),
        )
    }

    fn pcodec<T: Number + bytemuck::Pod>() -> Codec {
        codec(
            "pcodec".into(),
            |bytes| {
                let numbers = try_cast_slice::<u8, T>(bytes).map_err(|error| anyhow::anyhow!("{error}"))?;
                Ok(simple_compress(numbers, &ChunkConfig::default())?)
            },
            |stream, _| Ok(cast_slice::<T, u8>(&simple_decompress::<T>(stream)?).to_vec()),
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
            let ours = Coder::ALL.map(|pipeline| Codec::ours(set.element, pipeline, 3, None));
            let rivals = Codec::rivals(set.element);
            assert_eq!(rivals.len(), if cfg!(feature = "rivals") { 3 + set.element.size().min(2) - 1 } else { 0 });
            for codec in ours.iter().chain(&rivals) {
                let method = Method { runs: 1, clock: Clock::Processor, keeps: true };
                let row = codec.measure(&set, method).unwrap();
                assert!(row.ratio > 0.99 && row.compress.median > 0.0, "{row:?}");
                assert_eq!(row.level.is_some(), row.codec.contains("lzss") || row.codec == "auto", "{row:?}");
            }
        }
    }
}
