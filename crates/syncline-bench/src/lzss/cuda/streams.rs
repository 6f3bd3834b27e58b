//! Complete compression and decompression on the device: lossless streams of LZSS chunks, and lossy streams with and
//! without codes as LZSS tokens.

use anyhow::{Context, Result, ensure};
use syncline::{Bound, Coder, ElementType, Shape};
use syncline_core::pipeline::CoderOptions;
use syncline_cuda::error::DriverContext;
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::pipeline::{CompressOptions, Compressor, Decompressor, StreamInfo, compress_bound};
use syncline_cuda::timing;

use super::{Gpu, Loaded};
use crate::check::POISON;
use crate::fields::{Field, Generator};
use crate::lossy::Rate;
use crate::lzss::{Row, lossy};

/// The lossless coders that the GPU supports.
const PIPELINES: [Coder; 2] = [Coder::Lzss, Coder::LzssHuffman];
/// Coders of the codes of lossy streams, and their names in tables.
const CODES: [(Coder, &str); 3] = [
    (Coder::Huffman, lossy::SYNCLINE),
    (Coder::Auto, lossy::SYNCLINE_AUTO),
    (Coder::LzssHuffman, lossy::SYNCLINE_LZSS),
];

impl Gpu {
    /// Times our lossless coders on a set as an array of one axis, including the decisions on the host.
    ///
    /// # Errors
    /// An operation fails, or the decompressed bytes differ.
    pub fn measure_pipelines(&mut self, loaded: &Loaded<'_>, level: u8) -> Result<Vec<Row>> {
        let context = |pipeline| format!("{}, pipeline {pipeline}, level {level}", loaded.name);
        let rows = PIPELINES.map(|pipeline| self.pipeline(loaded, pipeline, level).with_context(|| context(pipeline)));
        rows.into_iter().collect()
    }

    fn pipeline(&mut self, loaded: &Loaded<'_>, pipeline: Coder, level: u8) -> Result<Row> {
        let (stream, input, element) = (self.stream.clone(), &loaded.input.as_view(), loaded.set.element);
        let shape = Shape::new(&[(input.len() / element.size()) as u64])?;
        let options = CoderOptions { coder: pipeline, level, ..CoderOptions::default() };
        let room = compress_bound(element, shape) as usize;
        let mut output = stream.alloc_zeros::<u8>(room).doing("allocating")?;
        self.check.poison(&mut output.as_view_mut(), POISON)?;
        let mut compressor = LosslessCompressor::new(&self.device, &stream)?;
        let mut length = 0;
        let compression = timing::seconds(&stream, self.runs, || {
            let output = &mut output.as_view_mut();
            length = compressor.compress(input, element, shape, &options, output)?.bytes;
            Ok(())
        })?;
        let made = output.slice(..length as usize);
        let info = StreamInfo::from_device(&stream, &made)?;
        let mut back = stream.alloc_zeros::<u8>(input.len()).doing("allocating")?;
        self.check.poison(&mut back.as_view_mut(), POISON)?;
        let mut decompressor = LosslessDecompressor::new(&self.device, stream.clone(), &info)?;
        let decompression =
            timing::seconds(&stream, self.runs, || decompressor.decompress(&made, &mut back.as_view_mut()))?;
        decompressor.check()?;
        let differences = self.check.differences(input, &back.as_view())?;
        ensure!(differences == 0, "{differences} bytes differ from what was compressed");
        let row = self.row(loaded, pipeline.name(), length, &compression, Some(&decompression));
        Ok(Row { level: Some(level), ..row })
    }

    /// Times lossy streams of a field of about `mebibytes` MiB: without LZSS tokens, with tokens where an estimate
    /// predicts a gain, and with tokens wherever they are shorter.
    ///
    /// # Errors
    /// An operation fails, the values differ from those without tokens, or the bound is violated.
    pub fn measure_lossy(&mut self, generator: Generator, mebibytes: usize) -> Result<Vec<lossy::Row>> {
        let share = ((mebibytes << 20) as f64 / (4 * generator.elements()) as f64).min(1.0);
        let field = generator.generate(share.cbrt());
        self.lossy(&field).with_context(|| format!("on {}", field.name))
    }

    fn lossy(&mut self, field: &Field) -> Result<Vec<lossy::Row>> {
        let stream = self.stream.clone();
        let extents: Vec<u64> = field.extents.iter().map(|&extent| extent as u64).collect();
        let (element, shape) = (ElementType::F32, Shape::new(&extents)?);
        let bytes = size_of_val(&field.values[..]);
        let input = stream.clone_htod(bytemuck::cast_slice::<f32, u8>(&field.values)).doing("uploading a field")?;
        let room = compress_bound(element, shape) as usize;
        let mut output = stream.alloc_zeros::<u8>(room).doing("allocating")?;
        let mut back = stream.alloc_zeros::<f32>(field.values.len()).doing("allocating")?;
        let mut first: Option<Vec<f32>> = None;
        let mut rows = Vec::new();
        for (pipeline, codec) in CODES {
            let options = CompressOptions::new(Bound::Rel(lossy::BOUND));
            let lossless = CoderOptions { coder: pipeline, ..CoderOptions::default() };
            let mut compressor = Compressor::new(&self.device, &stream)?.with_coder(lossless);
            self.check.poison(&mut output.as_view_mut(), POISON)?;
            let mut length = 0;
            let compression = timing::seconds(&stream, self.runs, || {
                let output = &mut output.as_view_mut();
                length = compressor.compress(&input.as_view(), element, shape, &options, output)?.bytes;
                Ok(())
            })?;
            let made = output.slice(..length as usize);
            let info = StreamInfo::from_device(&stream, &made)?;
            let mut decompressor = Decompressor::new(&self.device, stream.clone(), &info)?;
            stream.memset_zeros(&mut back).doing("clearing")?;
            let decompression =
                timing::seconds(&stream, self.runs, || decompressor.decompress(&made, &mut back.as_view_mut()))?;
            decompressor.check()?;
            let values = stream.clone_dtoh(&back).doing("reading a field")?;
            match &first {
                None => {
                    let bound = lossy::BOUND * field.range();
                    let worst = crate::statistics::max_error(&field.values, &values);
                    ensure!(worst <= bound, "the bound {bound} is broken by an error of {worst}");
                    first = Some(values);
                }
                Some(first) => ensure!(*first == values, "{pipeline}: other values than without tokens"),
            }
            let rate = |times| Rate::new(bytes as u64, times, Some(self.copy));
            rows.push(lossy::Row {
                field: field.name.clone(),
                shape: field.shape_text(),
                bytes: bytes as u64,
                device: self.device.info().name.clone(),
                codec: codec.to_owned(),
                level: None,
                ratio: bytes as f64 / length as f64,
                compress: rate(&compression),
                decompress: rate(&decompression),
            });
        }
        Ok(rows)
    }
}
