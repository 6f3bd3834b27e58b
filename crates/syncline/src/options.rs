//! Options of compression and decompression.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::TileSize;
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
    effort: Option<Effort>,
    tile_size: Option<TileSize>,
    rewritable: bool,
    backend: Backend,
    threads: usize,
    memory_limit: Option<u64>,
    device_memory_limit: Option<u64>,
    pub(crate) progress: Progress,
}

impl CompressOptions {
    /// Creates options with this bound and otherwise the defaults: [`Fill::Auto`], [`IndexKind::Symbol`],
    /// [`Coder::default_for`] the bound, LZSS level 3, [`Effort::default_for`] the index, [`TileSize::Small`],
    /// [`Backend::Auto`], one thread per core and no memory limit.
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            fill: Fill::Auto,
            index: IndexKind::Symbol,
            coder: None,
            symbol: None,
            level: CoderOptions::default().level,
            effort: None,
            tile_size: Some(TileSize::Small),
            rewritable: false,
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
    /// Without this, it is [`Effort::Balanced`] with [`IndexKind::Symbol`], and [`Effort::Fast`] with other indexes.
    /// The other efforts have no [`IndexKind::Gap`]; with [`IndexKind::None`], only the CPU compresses and
    /// decompresses.
    #[must_use]
    pub fn with_effort(self, effort: Effort) -> Self {
        Self { effort: Some(effort), ..self }
    }

    /// Sets the size of the tiles in which values are predicted. Large tiles make streams of smooth fields smaller, but
    /// a part of an array takes up to eight times as many elements to be decoded, and only the CPU compresses with
    /// them. They need a bound, and an effort other than [`Effort::Fast`]. No effect on lossless streams.
    ///
    /// `None` compresses a sample of at most 1 Mi elements with both sizes, and takes large tiles if that saves more
    /// than 4 %, or anything with [`Effort::Best`]. [`Writer`](crate::Writer), which does not see the whole array,
    /// takes small ones then.
    #[must_use]
    pub fn with_tile_size(self, tile_size: Option<TileSize>) -> Self {
        Self { tile_size, ..self }
    }

    /// Sets whether the array may be decompressed, changed in parts, and compressed again any number of times with the
    /// same [`Bound::Abs`] or [`Bound::PwRel`], as stores do with the chunks of an array: each element then stays
    /// within the bound of the value that was last written to it, because decompressed values compress to themselves.
    /// Without this, each time may add an error of up to the bound.
    ///
    /// Values are then quantized with a step that depends on the bound alone, and no tiles are interpolated, which
    /// makes streams of smooth fields larger. [`Bound::Rel`] and [`Bound::Psnr`] refer to the range of each array that
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

    /// Returns the index of the Huffman streams.
    pub fn index(&self) -> IndexKind {
        self.index
    }

    /// Returns the lossless stage: the one that was set, or the default for the bound and the effort.
    pub fn coder(&self) -> Coder {
        let tries_lzss = self.effort() == Effort::Best && self.tile_size != Some(TileSize::Large);
        match (self.coder, self.bound) {
            (Some(coder), _) => coder,
            (None, bound) if tries_lzss && bound != Bound::Lossless => Coder::LzssHuffman,
            (None, bound) => Coder::default_for(bound),
        }
    }

    /// Returns how much time compression may take: what was set, or the default for the index.
    pub fn effort(&self) -> Effort {
        self.effort.unwrap_or(Effort::default_for(self.index))
    }

    /// Returns the size of the tiles; `None` if it is chosen by a sample.
    pub fn tile_size(&self) -> Option<TileSize> {
        self.tile_size
    }

    /// Returns whether decompressed values compress to themselves.
    pub fn rewritable(&self) -> bool {
        self.rewritable
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

    /// Checks that the options fit each other and the element type.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn validate(&self, element_type: ElementType) -> Result<()> {
        self.bound.validate(element_type)?;
        self.coder_options().validate(self.bound, self.index)?;
        if self.tile_size == Some(TileSize::Small) || self.bound == Bound::Lossless {
            return Ok(());
        }
        if self.effort() == Effort::Fast {
            return Err(Error::invalid("only small tiles have the effort fast: use the effort balanced or best"));
        }
        if self.tile_size == Some(TileSize::Large) && self.coder().lzss_codes() {
            let coder = self.coder();
            return Err(Error::invalid(format!("the coder {coder} needs small tiles: use the coder huffman")));
        }
        Ok(())
    }

    /// The parameters of the lossless stage.
    pub(crate) fn coder_options(&self) -> CoderOptions {
        let (coder, effort) = (self.coder(), self.effort());
        let (symbol, level, rewritable) = (self.symbol, self.level, self.rewritable);
        CoderOptions { coder, symbol, level, effort, rewritable, ..CoderOptions::default() }
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
