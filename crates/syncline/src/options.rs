//! Options of compression and decompression.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_core::bound::{Bound, Fill};
use syncline_core::error::{Error, Result};
use syncline_core::huffman::{Decoder, IndexKind};
use syncline_core::lzss::SymbolWidth;
use syncline_core::pipeline::{Coder, CoderOptions, Effort};

use crate::devices::Backend;

type Callback = dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync;

/// The progress callback of a call, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Progress(Option<Arc<Callback>>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "callback" } else { "none" })
    }
}

/// Options of compression.
///
/// ```
/// use syncline::{Bound, Coder, CompressOptions, Fill};
/// let options = CompressOptions::new(Bound::Rel(1e-3)).with_fill(Fill::Value(-9999.0)).with_threads(4);
/// assert_eq!(options.coder(), Coder::Huffman);
/// assert_eq!(CompressOptions::new(Bound::Lossless).coder(), Coder::Auto);
/// ```
#[derive(Clone, Debug)]
pub struct CompressOptions {
    bound: Bound,
    fill: Fill,
    index: IndexKind,
    coder: Option<Coder>,
    symbol: Option<SymbolWidth>,
    level: u8,
    effort: Effort,
    backend: Backend,
    threads: usize,
    memory_limit: Option<u64>,
    device_memory_limit: Option<u64>,
    pub(crate) progress: Progress,
}

impl CompressOptions {
    /// Creates options with this bound and otherwise the defaults: [`Fill::Auto`], [`IndexKind::Symbol`],
    /// [`Coder::default_for`] the bound, LZSS level 3, [`Effort::Fast`], [`Backend::Auto`], one thread per core
    /// and no memory limit.
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            fill: Fill::Auto,
            index: IndexKind::Symbol,
            coder: None,
            symbol: None,
            level: CoderOptions::default().level,
            effort: Effort::default(),
            backend: Backend::Auto,
            threads: 0,
            memory_limit: None,
            device_memory_limit: None,
            progress: Progress::default(),
        }
    }

    /// Sets the error bound. A coder that was not set follows it.
    #[must_use]
    pub fn with_bound(self, bound: Bound) -> Self {
        Self { bound, ..self }
    }

    /// Sets which values stand for missing data. They are kept exactly and left out of the value range.
    #[must_use]
    pub fn with_fill(self, fill: Fill) -> Self {
        Self { fill, ..self }
    }

    /// Sets the index of the Huffman streams, which determines how fast and in how small parts they can be decoded.
    #[must_use]
    pub fn with_index(self, index: IndexKind) -> Self {
        Self { index, ..self }
    }

    /// Sets the lossless stage. Without this, it is [`Coder::Auto`] for lossless streams and [`Coder::Huffman`] with an
    /// error bound.
    #[must_use]
    pub fn with_coder(self, coder: Coder) -> Self {
        Self { coder: Some(coder), ..self }
    }

    /// Sets the width of LZSS symbols. `None` chooses it by a sample of each chunk.
    #[must_use]
    pub fn with_symbol(self, symbol: Option<SymbolWidth>) -> Self {
        Self { symbol, ..self }
    }

    /// Sets the LZSS level, from 1 (fastest) to 9 (smallest).
    #[must_use]
    pub fn with_level(self, level: u8) -> Self {
        Self { level, ..self }
    }

    /// Sets how much time compression with an error bound may take for a smaller stream. No effect on lossless streams.
    ///
    /// Efforts other than [`Effort::Fast`] need [`IndexKind::Symbol`].
    #[must_use]
    pub fn with_effort(self, effort: Effort) -> Self {
        Self { effort, ..self }
    }

    /// Sets the processor that does the work. The stream is the same on each.
    #[must_use]
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Sets the number of threads; 0 means one per core. More than four per core, or more than there are chunks, are
    /// never started.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Limits the bytes of host memory that may be allocated, the result included.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self { memory_limit: Some(bytes), ..self }
    }

    /// Limits the bytes of each GPU's memory in which the array may be kept. An array that fits is read only once; a
    /// larger one is read twice, in pieces. The stream is the same.
    #[must_use]
    pub fn with_device_memory_limit(self, bytes: u64) -> Self {
        Self { device_memory_limit: Some(bytes), ..self }
    }

    /// Sets a callback that gets the number of elements done and of all elements. It is called after each chunk, also
    /// from several threads at once; [`ControlFlow::Break`] cancels the work with [`Error::Cancelled`].
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self { progress: Progress(Some(Arc::new(progress))), ..self }
    }

    /// Returns the error bound.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Returns which values stand for missing data.
    pub fn fill(&self) -> Fill {
        self.fill
    }

    /// Returns the index of the Huffman streams.
    pub fn index(&self) -> IndexKind {
        self.index
    }

    /// Returns the lossless stage: the one that was set, or the default for the bound and the effort.
    pub fn coder(&self) -> Coder {
        match (self.coder, self.bound, self.effort) {
            (Some(coder), ..) => coder,
            (None, Bound::Lossless, _) | (None, _, Effort::Fast | Effort::Balanced) => Coder::default_for(self.bound),
            (None, ..) => Coder::LzssHuffman,
        }
    }

    /// Returns how much time compression may take.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Returns the width of LZSS symbols, if it was set.
    pub fn symbol(&self) -> Option<SymbolWidth> {
        self.symbol
    }

    /// Returns the LZSS level.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns the processor that does the work.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the number of threads; 0 means one per core.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the limit on host memory in bytes, if there is one.
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_limit
    }

    /// Returns the limit on the memory of each GPU in bytes, if there is one.
    pub fn device_memory_limit(&self) -> Option<u64> {
        self.device_memory_limit
    }

    /// The parameters of the lossless stage.
    pub(crate) fn coder_options(&self) -> CoderOptions {
        CoderOptions { coder: self.coder(), symbol: self.symbol, level: self.level, effort: self.effort }
    }
}

impl Default for CompressOptions {
    /// Options of lossless compression.
    fn default() -> Self {
        Self::new(Bound::Lossless)
    }
}

/// Options of decompression. The default uses one thread per core and has no memory limit.
#[derive(Clone, Debug, Default)]
pub struct DecompressOptions {
    decoder: Decoder,
    backend: Backend,
    threads: usize,
    memory_limit: Option<u64>,
    pub(crate) progress: Progress,
}

impl DecompressOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the Huffman decoder. The array is the same with each; [`Decoder::Auto`] takes the fastest.
    #[must_use]
    pub fn with_decoder(self, decoder: Decoder) -> Self {
        Self { decoder, ..self }
    }

    /// Sets the processor that does the work. The array is the same on each.
    #[must_use]
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// Sets the number of threads; 0 means one per core. More than four per core, or more than there are chunks, are
    /// never started.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Limits the bytes of host memory that may be allocated, the result included.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self { memory_limit: Some(bytes), ..self }
    }

    /// Sets a callback that gets the number of elements done and of all elements. It is called after each chunk, also
    /// from several threads at once; [`ControlFlow::Break`] cancels the work with [`Error::Cancelled`].
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self { progress: Progress(Some(Arc::new(progress))), ..self }
    }

    /// Returns the Huffman decoder.
    pub fn decoder(&self) -> Decoder {
        self.decoder
    }

    /// Returns the processor that does the work.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the number of threads; 0 means one per core.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the limit on host memory in bytes, if there is one.
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory_limit
    }
}

/// Counts finished elements over threads and calls the progress callback.
pub(crate) struct Meter<'a> {
    progress: &'a Progress,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(progress: &'a Progress, total: u64) -> Self {
        Self { progress, done: AtomicU64::new(0), total }
    }

    /// Adds `elements` to those that are done.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the callback cancels the work.
    pub(crate) fn advance(&self, elements: u64) -> Result<()> {
        let done = self.done.fetch_add(elements, Ordering::Relaxed) + elements;
        match self.progress.0.as_ref().map(|progress| progress(done, self.total)) {
            Some(ControlFlow::Break(())) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}
