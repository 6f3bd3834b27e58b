//! What the caller asks for.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use syncline_core::bound::{Bound, Fill};
use syncline_core::error::{Error, Result};
use syncline_core::huffman::{Decoder, IndexKind};
use syncline_core::lzss::SymbolWidth;
use syncline_core::pipeline::{LosslessOptions, LosslessPipeline};

use crate::backend::Backend;

/// Called after each chunk with the elements done and all elements; `Break` cancels the work with [`Error::Cancelled`].
pub type Progress = Arc<dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync>;

/// How to compress.
#[derive(Clone)]
pub struct Options {
    /// The error bound.
    pub bound: Bound,
    /// Which values are fill, left out of the range and kept exactly.
    pub fill: Fill,
    /// Which index the codes carry.
    pub index: IndexKind,
    /// Pipeline, LZSS symbols and level of lossless streams, and of quantization codes where they become LZSS tokens.
    pub lossless: LosslessOptions,
    /// Which processor does the work; the result is the same.
    pub backend: Backend,
    /// Threads to use, 0 for all.
    pub threads: usize,
    /// Most bytes of the host's memory that may be allocated, the result included.
    pub memory_limit: Option<u64>,
    /// Most bytes of each GPU's memory in which the array may be kept, so that it need be read but once; all there are
    /// if this is `None`. A larger array goes through in pieces; the result is the same.
    pub device_memory: Option<u64>,
    /// Progress and cancellation.
    pub progress: Option<Progress>,
}

impl Options {
    /// Defaults with this bound: detected fill values, the symbol index, all threads, no limit.
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            fill: Fill::Auto,
            index: IndexKind::Symbol,
            lossless: LosslessOptions::default(),
            backend: Backend::Auto,
            threads: 0,
            memory_limit: None,
            device_memory: None,
            progress: None,
        }
    }

    /// Sets the fill values.
    #[must_use]
    pub fn with_fill(self, fill: Fill) -> Self {
        Self { fill, ..self }
    }

    /// Sets the index kind.
    #[must_use]
    pub fn with_index(self, index: IndexKind) -> Self {
        Self { index, ..self }
    }

    /// Sets how lossless chunks are coded, and whether quantization codes may be LZSS tokens.
    #[must_use]
    pub fn with_pipeline(mut self, pipeline: LosslessPipeline) -> Self {
        self.lossless.pipeline = pipeline;
        self
    }

    /// Sets the width of LZSS symbols; `None` chooses for each chunk.
    #[must_use]
    pub fn with_symbol(mut self, symbol: Option<SymbolWidth>) -> Self {
        self.lossless.symbol = symbol;
        self
    }

    /// Sets the LZSS level, 1 (fastest) to 9 (smallest).
    #[must_use]
    pub fn with_level(mut self, level: u8) -> Self {
        self.lossless.level = level;
        self
    }

    /// Sets the processor that does the work.
    #[must_use]
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Sets the number of threads, 0 for all.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Limits the bytes that may be allocated.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self { memory_limit: Some(bytes), ..self }
    }

    /// Limits the bytes of each GPU's memory in which the array may be kept.
    #[must_use]
    pub fn with_device_memory(self, bytes: u64) -> Self {
        Self { device_memory: Some(bytes), ..self }
    }

    /// Sets the progress callback.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress: Some(progress), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(Bound::Lossless)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("bound", &self.bound)
            .field("fill", &self.fill)
            .field("index", &self.index)
            .field("lossless", &self.lossless)
            .field("backend", &self.backend)
            .field("threads", &self.threads)
            .field("memory_limit", &self.memory_limit)
            .field("device_memory", &self.device_memory)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

/// How to decompress.
#[derive(Clone, Default)]
pub struct DecodeOptions {
    /// Which Huffman decoder to use; all give the same symbols.
    pub decoder: Decoder,
    /// Which processor does the work; the result is the same.
    pub backend: Backend,
    /// Threads to use, 0 for all.
    pub threads: usize,
    /// Most bytes of the host's memory that may be allocated, the result included.
    pub memory_limit: Option<u64>,
    /// Progress and cancellation.
    pub progress: Option<Progress>,
}

impl DecodeOptions {
    /// Sets the decoder.
    #[must_use]
    pub fn with_decoder(self, decoder: Decoder) -> Self {
        Self { decoder, ..self }
    }

    /// Sets the processor that does the work.
    #[must_use]
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Sets the number of threads, 0 for all.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Limits the bytes that may be allocated.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self { memory_limit: Some(bytes), ..self }
    }

    /// Sets the progress callback.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress: Some(progress), ..self }
    }
}

impl fmt::Debug for DecodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeOptions")
            .field("decoder", &self.decoder)
            .field("backend", &self.backend)
            .field("threads", &self.threads)
            .field("memory_limit", &self.memory_limit)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

/// Counts finished elements over threads and asks the callback.
pub(crate) struct Meter<'a> {
    progress: Option<&'a Progress>,
    done: std::sync::atomic::AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(progress: &'a Option<Progress>, total: u64) -> Self {
        Self { progress: progress.as_ref(), done: 0.into(), total }
    }

    /// Reports `elements` more.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the callback says so.
    pub(crate) fn advance(&self, elements: u64) -> Result<()> {
        let done = self.done.fetch_add(elements, std::sync::atomic::Ordering::Relaxed) + elements;
        match self.progress.map(|progress| progress(done, self.total)) {
            Some(ControlFlow::Break(())) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}
