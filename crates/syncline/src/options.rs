//! Options of compression and decompression.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::TileSize;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{Coder, CoderOptions, Effort};

use crate::advanced::Advanced;
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
/// use syncline::{Bound, CompressOptions, Effort, Fill};
/// let options = CompressOptions::new(Bound::Rel(1e-3)).with_fill(Fill::Value(-9999.0)).with_threads(4);
/// assert_eq!(options.effort(), Effort::Balanced);
/// let quick = CompressOptions::new(Bound::Lossless).with_effort(Effort::Fast);
/// ```
#[derive(Clone, Debug)]
pub struct CompressOptions {
    bound: Bound,
    fill: Fill,
    effort: Effort,
    advanced: Advanced,
    rewritable: bool,
    backend: Backend,
    threads: usize,
    memory_limit: Option<u64>,
    device_memory_limit: Option<u64>,
    pub(crate) progress: Progress,
}

impl CompressOptions {
    /// Creates options with this bound and otherwise the defaults: [`Fill::Auto`], [`Effort::Balanced`],
    /// [`Backend::Auto`], one thread per core, and no memory limit.
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            fill: Fill::Auto,
            effort: Effort::default(),
            advanced: Advanced::default(),
            rewritable: false,
            backend: Backend::Auto,
            threads: 0,
            memory_limit: None,
            device_memory_limit: None,
            progress: Progress::default(),
        }
    }

    /// Sets the error bound.
    #[must_use]
    pub fn with_bound(self, bound: Bound) -> Self {
        Self { bound, ..self }
    }

    /// Sets which values stand for missing data. They are kept exactly and left out of the value range.
    #[must_use]
    pub fn with_fill(self, fill: Fill) -> Self {
        Self { fill, ..self }
    }

    /// Sets how much time compression may take for a smaller stream.
    #[must_use]
    pub fn with_effort(self, effort: Effort) -> Self {
        Self { effort, ..self }
    }

    /// Sets single choices of the encoder that are otherwise those of the effort.
    #[must_use]
    pub fn with_advanced(self, advanced: Advanced) -> Self {
        Self { advanced, ..self }
    }

    /// Sets whether the array may be decompressed, changed in parts, and compressed again any number of times with the
    /// same [`Bound::Abs`] or [`Bound::PwRel`], as stores do with the chunks of an array: each element then stays
    /// within the bound of the value that was last written to it, because decompressed values compress to themselves.
    /// Without this, each time may add an error of up to the bound.
    ///
    /// Values are then quantized with a step that depends on the bound alone, to whole multiples of it, which makes
    /// streams of smooth fields larger. [`Bound::Rel`] and [`Bound::Psnr`] refer to the range of each array that
    /// is compressed, which changes with its elements, so that they are not kept. No effect on lossless streams.
    #[must_use]
    pub fn with_rewritable(self, rewritable: bool) -> Self {
        Self { rewritable, ..self }
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

    /// Returns how much time compression may take.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Returns the single choices of the encoder that were set.
    pub fn advanced(&self) -> Advanced {
        self.advanced
    }

    /// Returns the advanced options that were set and change nothing, each with the reason.
    pub fn advanced_without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let Advanced { coder, index, level, symbol } = self.advanced;
        let is_lossy = self.bound != Bound::Lossless;
        let without_lzss = self.coder() == Coder::Numbers;
        let without_index = self.coder() == Coder::Lzss;
        let checks = [
            (coder.is_some() && is_lossy, ("coder", "with an error bound")),
            (index != IndexKind::Symbol && is_lossy, ("index", "with an error bound")),
            (level.is_some() && is_lossy, ("level", "with an error bound")),
            (symbol.is_some() && is_lossy, ("symbol", "with an error bound")),
            (level.is_some() && !is_lossy && without_lzss, ("level", "without LZSS: add coder=auto")),
            (symbol.is_some() && !is_lossy && without_lzss, ("symbol", "without LZSS: add coder=auto")),
            (
                index != IndexKind::Symbol && !is_lossy && without_index,
                ("index", "with coder=lzss, which has no index"),
            ),
        ];
        checks.into_iter().filter_map(|(is_useless, what)| is_useless.then_some(what)).collect()
    }

    /// Returns the coder of lossless streams: the one that was set, or that of the effort.
    pub(crate) fn coder(&self) -> Coder {
        self.advanced.coder.unwrap_or(self.effort.coder())
    }

    /// Returns the size of the tiles of the effort. Lossless streams, and those with a pointwise bound, have no blocks.
    pub(crate) fn tile_size(&self) -> TileSize {
        match (self.bound, self.effort) {
            (Bound::Lossless | Bound::PwRel(_), _) | (_, Effort::Fast) => TileSize::Small,
            _ => TileSize::Block,
        }
    }

    /// Returns whether decompressed values compress to themselves.
    pub fn rewritable(&self) -> bool {
        self.rewritable
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

    /// Checks that the options fit each other and the element type.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn validate(&self, element_type: ElementType) -> Result<()> {
        self.bound.validate(element_type)?;
        self.coder_options().validate()
    }

    /// Returns whether values may be interpolated that are no multiples of the step.
    pub(crate) fn interpolates(&self) -> bool {
        !self.rewritable
    }

    /// Returns the choices of the encoder of chunks.
    pub(crate) fn coder_options(&self) -> CoderOptions {
        let Advanced { symbol, level, .. } = self.advanced;
        CoderOptions {
            coder: self.coder(),
            symbol,
            level: level.unwrap_or(self.effort.level()),
            interpolates: self.interpolates(),
        }
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
