//! Codebooks and encoder for one of the Huffman streams of a batch's records.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};

use crate::device::{Device, Frame};
use crate::error::{DriverContext, Result};
use crate::huffman::Symbol;
use crate::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, LaidOutStreams, NO_OFFSET,
    Overlap, StreamSpan, StreamTarget,
};

/// Codebook builder and encoder of one stream format, and their results for one batch.
#[derive(Debug)]
pub(super) struct StreamCoder<S> {
    format: Format,
    builder: BatchCodebooksBuilder<S>,
    encoder: Encoder<S>,
    buffers: Option<CoderBuffers>,
}

/// Results for one batch.
#[derive(Debug)]
pub(super) struct CoderBuffers {
    pub batch: Batch,
    pub codebooks: BatchCodebooks,
    encoded: Encoded,
}

impl CoderBuffers {
    fn new(stream: &Arc<CudaStream>, batch: Batch) -> Result<Self> {
        // The streams are written straight into records, so that no output is allocated here.
        let (codebooks, encoded) = (BatchCodebooks::new(stream, &batch)?, Encoded::new(stream, &batch, 0)?);
        Ok(Self { batch, codebooks, encoded })
    }
}

impl<S: Symbol> StreamCoder<S> {
    pub fn new(device: &Device, format: Format) -> Result<Self> {
        let builder = BatchCodebooksBuilder::new(device, &format)?;
        Ok(Self { format, builder, encoder: Encoder::new(device, &format)?, buffers: None })
    }

    /// Returns buffers for streams that a kernel will list. Reuses those of the previous batch if they have the same
    /// sizes.
    pub fn allocate_for_listing(
        &mut self,
        stream: &Arc<CudaStream>,
        streams: u32,
        most_groups: u32,
        input_groups: u64,
    ) -> Result<&mut CoderBuffers> {
        let same =
            |buffers: &CoderBuffers| (buffers.batch.streams(), buffers.batch.most_groups()) == (streams, most_groups);
        let mut buffers = match self.buffers.take().filter(same) {
            Some(buffers) => buffers,
            None => {
                CoderBuffers::new(stream, Batch::on_device(stream, &self.format, streams, most_groups, input_groups)?)?
            }
        };
        buffers.batch.set_input_groups(input_groups);
        Ok(self.buffers.insert(buffers))
    }

    /// Builds the codebooks of the batch in the buffers, and lays out its streams. Returns `None` without buffers.
    pub fn lay_out<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        symbols: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
    ) -> Result<Option<LaidOutStreams<'a>>> {
        let Some(CoderBuffers { batch, codebooks, encoded }) = &mut self.buffers else { return Ok(None) };
        self.builder.launch(&mut frame.nested(), symbols, classes, batch, codebooks)?;
        let input = EncodeInput { symbols, classes, batch, codebooks };
        self.encoder.lay_out(frame, &input, encoded).map(Some)
    }

    /// Lays out the batch as [`Self::lay_out`] does, with codewords in place of the symbols if the encoder supports
    /// that.
    pub fn lay_out_in_place<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        symbols: &mut CudaViewMut<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
    ) -> Result<Option<LaidOutStreams<'a>>> {
        if !self.encoder.can_encode_in_place() {
            return self.lay_out(frame, &symbols.as_view(), classes);
        }
        let Some(CoderBuffers { batch, codebooks, encoded }) = &mut self.buffers else { return Ok(None) };
        self.builder.launch(&mut frame.nested(), &symbols.as_view(), classes, batch, codebooks)?;
        self.encoder.lay_out_in_place(frame, symbols, classes, (batch, codebooks), encoded).map(Some)
    }

    /// Builds codebooks for these streams and lays them out. Returns `None` if there are no streams.
    fn lay_out_listed<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        symbols: &CudaView<'_, S>,
        streams: &[StreamSpan],
    ) -> Result<Option<LaidOutStreams<'a>>> {
        self.buffers = None;
        if streams.is_empty() {
            return Ok(None);
        }
        let stream = frame.stream().clone();
        self.buffers = Some(CoderBuffers::new(&stream, Batch::new(&stream, &self.format, streams)?)?);
        self.lay_out(frame, symbols, None)
    }

    /// Lists the streams of the buffers from the host, with the smallest code other than 0 and the largest of each.
    pub fn list(&mut self, stream: &Arc<CudaStream>, spans: &[StreamSpan], extremes: &[[u16; 2]]) -> Result<()> {
        self.buffers.as_mut().map_or(Ok(()), |buffers| buffers.batch.list(stream, spans, extremes))
    }

    /// Returns the bytes of device memory held between batches.
    pub fn device_bytes(&self) -> u64 {
        self.buffers.as_ref().map_or(0, |buffers| buffers.codebooks.device_bytes())
    }

    /// Returns the results for the batch in the buffers.
    pub fn encoded(&mut self) -> Option<&mut Encoded> {
        self.buffers.as_mut().map(|buffers| &mut buffers.encoded)
    }

    /// Writes the streams while the previous kernel still runs, which writes other parts of the records.
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        layout: Option<LaidOutStreams<'_>>,
        output: &mut CudaViewMut<'_, u8>,
        overlap: Overlap,
    ) -> Result<()> {
        match (layout, &mut self.buffers) {
            (Some(mut layout), Some(CoderBuffers { codebooks, encoded, .. })) => {
                let target = StreamTarget { output, overlap: Some(overlap) };
                self.encoder.write(stream, &mut layout, codebooks, encoded, target)
            }
            _ => Ok(()),
        }
    }
}

impl<S: Symbol> StreamCoder<S> {
    /// Writes each stream to its place in the output, except those with [`NO_OFFSET`].
    pub fn write_at(
        &mut self,
        stream: &Arc<CudaStream>,
        layout: Option<LaidOutStreams<'_>>,
        mut places: Vec<u64>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        match (layout, &mut self.buffers) {
            (Some(mut layout), Some(CoderBuffers { codebooks, encoded, .. })) => {
                places.resize(encoded.offsets().len(), NO_OFFSET);
                stream.memcpy_htod(&places, encoded.offsets_mut()).doing("placing streams")?;
                let target = StreamTarget { output, overlap: None };
                self.encoder.write(stream, &mut layout, codebooks, encoded, target)
            }
            _ => Ok(()),
        }
    }
}

/// Lays out streams that only some batches have, with a coder that is created on first use.
pub(super) fn lay_out_optional<'a, S: Symbol>(
    device: &Device,
    coder: &mut Option<StreamCoder<S>>,
    format: Format,
    frame: &mut Frame<'a>,
    symbols: Option<&CudaView<'_, S>>,
    streams: &[StreamSpan],
) -> Result<Option<LaidOutStreams<'a>>> {
    let Some(symbols) = symbols.filter(|_| !streams.is_empty()) else {
        // Clears the results of an earlier batch, so that they are not taken for this one's.
        if let Some(coder) = coder {
            coder.buffers = None;
        }
        return Ok(None);
    };
    created(device, coder, format)?.lay_out_listed(frame, symbols, streams)
}

/// Returns the coder, which is created on first use.
pub(super) fn created<'c, S: Symbol>(
    device: &Device,
    coder: &'c mut Option<StreamCoder<S>>,
    format: Format,
) -> Result<&'c mut StreamCoder<S>> {
    match coder {
        Some(coder) => Ok(coder),
        none => Ok(none.insert(StreamCoder::new(device, format)?)),
    }
}
