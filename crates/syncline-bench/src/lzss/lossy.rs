//! The paper's application of the stage: the quantization codes of a lossy compressor, with and without LZSS before
//! Huffman coding.
//!
//! Codes are those of the papers' compressor ([`quantization_codes`]): tiles predicted from zeros, one code per value.
//! The streams contain the codes and 8 bytes for each outlier. LZSS and the Huffman coding of its tokens are those of
//! our lossless coder for an array of `u16`.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, DecompressOptions, Effort, IndexKind, SymbolWidth,
    compress, decompress,
};
use syncline_core::huffman::{Decoder, EncodeOptions, EncodeScratch, Stream, encode};

use super::cpu::DEVICE;
use crate::codes::{RADIUS, Tiling, quantization_codes};
use crate::fields::{Field, Generator};
use crate::huffman::{GROUP_LOG2, chunk_symbols, timed};
use crate::lossy::Rate;

/// Fields of the paper's table.
pub const FIELDS: [Generator; 4] = [Generator::Cesm, Generator::Hurricane, Generator::Nyx, Generator::Rtm];
/// Relative bound of the paper's table.
pub const BOUND: f64 = 1e-2;
/// Bytes of an outlier: its position and its value.
const OUTLIER: usize = 8;

/// Huffman coding alone, as published.
pub const HUFFMAN: &str = "huffman, all groups coded";
/// Huffman coding with zero-bit groups.
pub const FREE: &str = "huffman, free groups";
/// LZSS followed by Huffman coding.
pub const LZSS: &str = "lzss+huffman";
/// Our compressor with its defaults, from values to values: Huffman coding of its own codes, with zero-bit groups.
pub const SYNCLINE: &str = "syncline";
/// Our compressor, with LZSS in the chunks where that is shorter.
pub const SYNCLINE_LZSS: &str = "syncline, lzss+huffman";
/// Our compressor, with LZSS where an estimate predicts a gain.
pub const SYNCLINE_AUTO: &str = "syncline, auto";

/// The results for a field with one codec.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the field.
    pub field: String,
    /// Extents, slowest axis first.
    pub shape: String,
    /// Bytes of the values.
    pub bytes: u64,
    /// Name of the device.
    pub device: String,
    /// The codec: [`HUFFMAN`], [`FREE`], [`LZSS`], [`SYNCLINE`], [`SYNCLINE_LZSS`] or [`SYNCLINE_AUTO`].
    pub codec: String,
    /// Level of LZSS.
    pub level: Option<u8>,
    /// Bytes of values divided by bytes of the stream.
    pub ratio: f64,
    /// Throughput from codes (for our compressor, values) to a stream, in bytes of values.
    pub compress: Rate,
    /// Throughput from a stream to codes (for our compressor, values), in bytes of values.
    pub decompress: Rate,
}

/// Measures a field of about `mebibytes` MiB with every codec, and LZSS at these levels.
///
/// # Errors
/// The decompressed codes or values differ.
pub fn measure(generator: Generator, mebibytes: usize, levels: &[u8], runs: usize) -> Result<Vec<Row>> {
    let share = ((mebibytes << 20) as f64 / (4 * generator.elements()) as f64).min(1.0);
    let field = generator.generate(share.cbrt());
    let codes = quantization_codes(&field, BOUND, Tiling::Zeros);
    let case = Case { field: &field, codes: &codes, runs };
    case.all(levels).with_context(|| format!("on {}", field.name))
}

struct Case<'f> {
    field: &'f Field,
    codes: &'f [u16],
    runs: usize,
}

impl Case<'_> {
    fn all(&self, levels: &[u8]) -> Result<Vec<Row>> {
        let mut rows = vec![self.huffman(HUFFMAN, None)?, self.huffman(FREE, Some(RADIUS as u16))?];
        for &level in levels {
            rows.push(self.lzss(level)?);
        }
        rows.push(self.whole(SYNCLINE, Coder::Huffman)?);
        rows.push(self.whole(SYNCLINE_LZSS, Coder::LzssHuffman)?);
        Ok(rows)
    }

    fn row(
        &self,
        codec: &str,
        level: Option<u8>,
        stream: usize,
        compress: impl FnMut() -> Result<f64>,
        decompress: impl FnMut() -> Result<f64>,
    ) -> Result<Row> {
        let bytes = size_of_val(&self.field.values[..]) as u64;
        Ok(Row {
            field: self.field.name.clone(),
            shape: self.field.shape_text(),
            bytes,
            device: DEVICE.to_owned(),
            codec: codec.to_owned(),
            level,
            ratio: bytes as f64 / stream as f64,
            compress: Rate::new(bytes, &timed(self.runs, compress)?, None),
            decompress: Rate::new(bytes, &timed(self.runs, decompress)?, None),
        })
    }

    fn outlier_bytes(&self) -> usize {
        self.codes.iter().filter(|&&code| code == 0).count() * OUTLIER
    }

    fn huffman(&self, name: &str, free_symbol: Option<u16>) -> Result<Row> {
        let group = 1 << GROUP_LOG2;
        let mut padded = self.codes.to_vec();
        padded.resize(padded.len().next_multiple_of(group), RADIUS as u16);
        let chunk = chunk_symbols(padded.len());
        // No code has this value, so that there are no zero-bit groups.
        let free = free_symbol.unwrap_or(2 * RADIUS as u16);
        let options = EncodeOptions { group_log2: GROUP_LOG2, index: IndexKind::Symbol, zero_bit_symbol: Some(free) };
        let mut scratch = EncodeScratch::default();
        let mut encode_all = || -> Vec<Vec<u8>> {
            let one = |part: &[u16]| {
                let mut out = Vec::new();
                encode(part, &[], &options, &mut scratch, &mut out);
                out
            };
            padded.chunks(chunk).map(one).collect()
        };
        let streams = encode_all();
        let mut back = vec![0_u16; padded.len()];
        let stream = streams.iter().map(Vec::len).sum::<usize>() + self.outlier_bytes();
        let encoding = || {
            let start = Instant::now();
            std::hint::black_box(encode_all());
            Ok(start.elapsed().as_secs_f64())
        };
        let decoding = || {
            back.fill(u16::MAX);
            let start = Instant::now();
            for (bytes, out) in streams.iter().zip(back.chunks_mut(chunk)) {
                Stream::<u16>::parse(bytes, "a stream of the bench")?.decoder(Decoder::Auto, &[])?.decode(out, 1)?;
            }
            let seconds = start.elapsed().as_secs_f64();
            ensure!(back == padded, "{name}: other codes came back");
            Ok(seconds)
        };
        self.row(name, None, stream, encoding, decoding)
    }

    fn lzss(&self, level: u8) -> Result<Row> {
        let options = CompressOptions::new(Bound::Lossless).with_backend(Backend::Cpu).with_threads(1);
        let options = options.with_advanced(
            Advanced::default().with_coder(Coder::LzssHuffman).with_level(level).with_symbol(Some(SymbolWidth::Two)),
        );
        let extent = [self.codes.len() as u64];
        let encode = || Ok(compress(&ArrayView::new(self.codes, &extent)?, &options)?);
        let stream: Vec<u8> = encode()?;
        let decode_options = DecompressOptions::default().with_backend(Backend::Cpu).with_threads(1);
        let encoding = || {
            let start = Instant::now();
            let made: Result<Vec<u8>> = encode();
            let seconds = start.elapsed().as_secs_f64();
            made.map(|_| seconds)
        };
        let decoding = || {
            let start = Instant::now();
            let back = decompress(&stream, &decode_options)?;
            let seconds = start.elapsed().as_secs_f64();
            ensure!(
                back.bytes() == bytemuck::cast_slice::<u16, u8>(self.codes),
                "level {level}: other codes came back"
            );
            Ok(seconds)
        };
        self.row(LZSS, Some(level), stream.len() + self.outlier_bytes(), encoding, decoding)
    }

    fn whole(&self, name: &str, pipeline: Coder) -> Result<Row> {
        let options = CompressOptions::new(Bound::Rel(BOUND)).with_backend(Backend::Cpu).with_threads(1);
        let options = options.with_advanced(Advanced::default().with_coder(pipeline)).with_effort(Effort::Fast);
        let extents: Vec<u64> = self.field.extents.iter().map(|&extent| extent as u64).collect();
        let encode = || Ok(compress(&ArrayView::new(&self.field.values, &extents)?, &options)?);
        let stream: Vec<u8> = encode()?;
        let decode_options = DecompressOptions::default().with_backend(Backend::Cpu).with_threads(1);
        let bound = BOUND * self.field.range();
        let encoding = || {
            let start = Instant::now();
            let made: Result<Vec<u8>> = encode();
            let seconds = start.elapsed().as_secs_f64();
            made.map(|_| seconds)
        };
        let decoding = || {
            let start = Instant::now();
            let back = decompress(&stream, &decode_options)?;
            let seconds = start.elapsed().as_secs_f64();
            let worst = crate::statistics::max_error(&self.field.values, &crate::fields::floats(back.bytes()));
            ensure!(worst <= bound, "the bound {bound} is broken by an error of {worst}");
            Ok(seconds)
        };
        self.row(name, None, stream.len(), encoding, decoding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_codes_back() {
        for field in FIELDS {
            let rows = measure(field, 1, &[3, 6], 1).unwrap();
            let ratio = |codec: &str| rows.iter().find(|row| row.codec == codec).unwrap().ratio;
            assert_eq!(rows.len(), 6);
            assert!(ratio(SYNCLINE_LZSS) >= ratio(SYNCLINE));
            assert!(ratio(FREE) > ratio(HUFFMAN) && ratio(SYNCLINE) > ratio(HUFFMAN), "{rows:?}");
            // A code takes at least one bit.
            assert!(ratio(HUFFMAN) < 32.0 && ratio(LZSS) > 5.0, "{rows:?}");
        }
    }
}
