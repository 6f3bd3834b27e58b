//! Syncline through the public library.

use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, DecompressOptions, Effort, StreamFile, compress,
    decompress,
};

use super::{Codec, Timed, threads_text};
use crate::clock::Stopwatch;

/// Name in records.
pub(super) const NAME: &str = "syncline";

/// Options of Syncline and their name in records.
pub struct Variant {
    /// The name.
    pub name: String,
    /// The options, whose bound is replaced.
    pub options: CompressOptions,
}

impl Variant {
    fn new(name: impl Into<String>, options: CompressOptions) -> Self {
        Self { name: name.into(), options }
    }
}

/// Returns a variant with these options in addition to an effort.
fn advanced(name: &str, effort: Effort, advanced: Advanced) -> Variant {
    Variant::new(name, CompressOptions::new(Bound::Lossless).with_effort(effort).with_advanced(advanced))
}

/// Returns a variant for each effort.
pub fn efforts(efforts: &[Effort]) -> Vec<Variant> {
    efforts.iter().map(|&effort| advanced(effort.name(), effort, Advanced::default())).collect()
}

/// Returns the variants whose sizes are compared, the default first.
pub fn ratio_variants() -> Vec<Variant> {
    efforts(&[Effort::Balanced, Effort::Fast, Effort::Best])
}

/// Returns variants of lossless compression beside the efforts.
pub fn lossless_variants() -> Vec<Variant> {
    let coder = |coder: Coder| {
        advanced(&format!("balanced, coder {coder}"), Effort::Balanced, Advanced::default().with_coder(coder))
    };
    vec![coder(Coder::LzssHuffman), coder(Coder::Lzss)]
}

/// Returns Syncline for arrays in host memory. GPUs decompress into memory that has been used before, the CPU and
/// codecs of other projects into new memory.
pub fn ours(variant: &Variant, backend: Backend, threads: usize) -> Codec {
    let options = variant.options.clone().with_backend(backend).with_threads(threads);
    let decode = DecompressOptions::default().with_backend(backend).with_threads(threads);
    let on_cpu = backend == Backend::Cpu;
    Codec {
        name: NAME.to_owned(),
        options: variant.name.clone(),
        device: if on_cpu { threads_text(threads) } else { backend.to_string() },
        compress: Box::new(move |array, bound, clock| {
            let (shape, options) = (array.shape()?, options.clone().with_bound(bound));
            let view = ArrayView::from_bytes(&array.bytes, array.element, shape)?;
            Timed::run(clock, || Ok(compress(&view, &options)?))
        }),
        decompress: Box::new(move |array, stream, out, clock| {
            if on_cpu {
                let Timed { bytes, seconds } = Timed::run(clock, || Ok(decompress(stream, &decode)?.into_bytes()))?;
                *out = bytes;
                return Ok(seconds);
            }
            out.resize(array.bytes.len(), 0);
            let watch = Stopwatch::start(clock);
            StreamFile::open(stream)?.decompress_into(out, &decode)?;
            Ok(watch.seconds())
        }),
    }
}
