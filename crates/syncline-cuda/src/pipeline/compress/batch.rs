//! Compression of one batch of chunks through all stages.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut};
use syncline_core::bound::{ErrorSummary, resolve};
use syncline_core::container::Header;

use super::{Compressor, Pending};
use crate::container::assemble::{BatchInput, BatchPlan, Bitmaps, Codes, RecordOutput, TokenCodes};
use crate::container::record::{Contents, Lists};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, Slab};
use crate::quantize::{BoundScan, ChunkSummary, DeviceStep};

impl Pending<'_> {
    /// Waits for the scan, resolves the bound, and completes `header` with it. Returns whether there may be -0.0 among
    /// the elements, and the constants that the device computed.
    fn resolve_pending(
        &mut self,
        scan: &mut BoundScan,
        stream: &Arc<CudaStream>,
        header: &mut Header,
        rewritable: bool,
    ) -> Result<(bool, DeviceStep)> {
        let Some(begun) = self.begun.take() else { return Err(CudaError::invalid("no scan was begun")) };
        let (found, step) = scan.finish(begun, stream, self.input)?;
        let resolved = self.resolved.insert(resolve(&found, rewritable)?);
        *header = Header {
            group_log2: header.group_log2,
            lzss_codes: header.lzss_codes,
            token_codes: header.token_codes,
            ..Header::new(header.element_type, header.shape, header.index, resolved)
        };
        Ok((found.minus_zeros() > 0, step))
    }
}

impl Compressor<'_> {
    /// Writes the records of a batch after those of earlier batches. `first` is the index of the batch's first chunk
    /// among the records, and `most_chunks` the number of chunks in the largest batch. If the bound is `pending`,
    /// elements are quantized with the bound that the device resolves, and `header` is completed. Returns `None` if the
    /// host resolves another bound, else the errors of each chunk.
    #[expect(clippy::too_many_arguments, reason = "the chunks, where they come from and go to")]
    pub(super) fn batch(
        &mut self,
        header: &mut Header,
        batch: &ChunkBatch,
        most_chunks: u32,
        first: u64,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
        pending: Option<&mut Pending<'_>>,
    ) -> Result<Option<Vec<ErrorSummary>>> {
        let (Some(assembler), Some(quantizer), Some(progress), Some(host), Some(control)) =
            (&mut self.assembler, &mut self.quantizer, &mut self.progress, &mut self.summaries, &mut self.control)
        else {
            return Err(CudaError::invalid("no stream was begun"));
        };
        let mut frame = self.arena.frame()?;
        if std::mem::replace(&mut control.used, true) {
            self.stream.memset_zeros(&mut control.words).doing("clearing counters")?;
        }
        let mut counters = control.words.slice_mut(..quantizer.control_words(batch.chunks().into()));
        let mut record_inputs = assembler.allocate_inputs(&mut frame, batch, most_chunks)?;
        let words = counters.len() as u64;
        let clear = (counters.device_ptr_mut(&self.stream).0, words);
        let records = record_inputs.argument(&self.stream, Some(clear), Some(host))?;
        let scan = self.scan.as_mut().filter(|_| pending.is_some()).map(|(_, scan)| scan);
        let step = scan.as_ref().and_then(|scan| scan.step());
        let mut quantized = quantizer.quantize_with(&mut frame, slab, batch, &mut counters, records, step.as_ref())?;
        host.written()?;
        control.used = false;
        if let (Some(pending), Some(scan)) = (pending, scan) {
            let (minus_zeros, step) = pending.resolve_pending(scan, &self.stream, header, self.coder.rewritable)?;
            // Needed if the batch has to be quantized again with the host's bound.
            self.minus_zeros = minus_zeros;
            if !quantizer.confirm(header, minus_zeros, step) {
                return Ok(None);
            }
        }
        let mut tokens = self.tokens.as_mut().filter(|_| header.lzss_codes);
        let narrow = match &tokens {
            Some(tokens) => Some(tokens.narrow(&mut frame, quantizer.geometry(), &mut quantized, &self.coder)?),
            None => None,
        };
        let classes = quantized.group_classes.as_view();
        let codes = Codes { codes: &mut quantized.codes, classes: Some(&classes) };
        let started = assembler.start(&mut frame, record_inputs, codes)?;

        let summaries = &host.wait()?[..batch.chunks() as usize];
        let plan = BatchPlan::new(batch, summaries);
        if !plan.wide.is_empty() {
            quantizer.widen(&mut frame, slab, &mut quantized, summaries)?;
        }
        let mut side = quantizer.gather(&mut frame, slab, &mut quantized, summaries)?;
        let mut coded = None;
        if let (Some(tokens), Some(narrow)) = (&mut tokens, narrow) {
            let lengths = assembler.code_lengths(&self.stream)?;
            let how = &self.coder;
            let (quantized, side) = (&mut quantized, &mut side);
            coded = tokens.encode(&mut frame, quantizer, slab, quantized, narrow, side, summaries, &lengths, how)?;
        }
        let lists = Lists {
            outlier_positions: side.outlier_positions.as_view(),
            outlier_residuals: side.residuals.as_view(),
            verbatim_positions: side.verbatim_positions.as_view(),
            verbatim_values: side.verbatim_values.as_view(),
        };
        let bitmaps = Bitmaps { masks: Some(side.masks.as_view()), signs: Some(side.signs.as_view()) };
        let contents = Contents {
            geometry: *quantizer.geometry(),
            batch: *batch,
            metas: &quantized.metas.as_view(),
            bases: &quantized.bases.as_view(),
            lists: &lists,
            slab,
        };
        let (codes, device_summaries) = (&mut quantized.codes, &quantized.summaries.as_view());
        let stream = &self.stream;
        let (token_lists, mut write);
        let tokens = match (tokens, &mut coded) {
            (Some(encoder), Some(coded)) => {
                let tokens = &mut coded.tokens;
                token_lists = coded.lists.view();
                write = |places: &[Option<u64>], output: &mut CudaViewMut<'_, u8>| {
                    encoder.write(stream, tokens, places, output)
                };
                Some(TokenCodes { lists: &token_lists, write: &mut write })
            }
            _ => None,
        };
        let input =
            BatchInput { plan: &plan, summaries: device_summaries, bitmaps: &bitmaps, contents: &contents, tokens };
        let to = RecordOutput { progress, first, output };
        assembler.finish(&mut frame, started, input, codes, to)?;
        let error = |summary: &ChunkSummary| ErrorSummary {
            squared_error: summary.squared_error.into(),
            counted: summary.counted,
        };
        Ok(Some(summaries.iter().map(error).collect()))
    }
}
