//! Counting symbols: launcher of `kernels/huffman_histogram.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DeviceRepr, PushKernelArg};

use crate::device::{Device, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_histogram.cu", text: include_str!("../../kernels/huffman_histogram.cu") };

/// Most copies of a histogram in a block: one for each lane of a warp.
const MOST_COPIES: u32 = 32;
/// Fewest copies worth having; alphabets with less room for copies are counted in 16-bit counters.
const FEWEST_COPIES: u32 = 4;
/// Threads of a block that keeps replicated counters.
const REPLICATED_THREADS: u32 = 512;
/// Threads of a block that keeps 16-bit counters: it has a multiprocessor to itself. Times the 32 symbols of a round this is at most 2^15, half
/// of what such a counter holds.
const WIDE_THREADS: u32 = 1024;
/// A block counts at least this many bytes, so that adding up its counters is not most of its work.
const LEAST_BYTES_PER_BLOCK: u64 = 32 << 10;

/// A symbol type: `u8` or `u16`.
pub trait Symbol: DeviceRepr + sealed::Sealed {
    /// Bytes of a symbol.
    const BYTES: u32;
}

impl Symbol for u8 {
    const BYTES: u32 = 1;
}

impl Symbol for u16 {
    const BYTES: u32 = 2;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

/// How the counters are laid out in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// So many copies of 32-bit counters.
    Replicated { copies: u32 },
    /// One copy of 16-bit counters for this many bins; several blocks share an alphabet that is larger.
    Wide { span: u32 },
}

impl Layout {
    /// The layout for an alphabet on a device with this much shared memory a block.
    fn for_alphabet(bins: u32, shared_memory: u32) -> Self {
        // Two or more blocks to a multiprocessor: one loads while the other counts.
        let copies = shared_memory / 2 / (4 * (bins + 1));
        if copies >= FEWEST_COPIES {
            return Self::Replicated { copies: 1 << copies.min(MOST_COPIES).ilog2() };
        }
        Self::wide(bins, shared_memory)
    }

    fn wide(bins: u32, shared_memory: u32) -> Self {
        // A few bytes of shared memory are the kernel's own.
        let span = (shared_memory - 1024) / 2;
        Self::Wide { span: (1 << span.ilog2()).min(bins.next_power_of_two()).max(2) }
    }

    fn shared_memory(self, bins: u32) -> u32 {
        match self {
            Self::Replicated { copies } => 4 * (bins + 1) * copies,
            Self::Wide { span } => 2 * span,
        }
    }

    fn threads(self) -> u32 {
        match self {
            Self::Replicated { .. } => REPLICATED_THREADS,
            Self::Wide { .. } => WIDE_THREADS,
        }
    }

    fn kernel_name(self) -> &'static str {
        match self {
            Self::Replicated { .. } => "histogram_replicated",
            Self::Wide { .. } => "histogram_wide",
        }
    }

    fn specialization(self, symbol_bytes: u32, bins: u32) -> Specialization {
        let own = match self {
            Self::Replicated { copies } => ("COPIES", copies),
            Self::Wide { span } => ("SPAN", span),
        };
        let constants = [("SYMBOL_BYTES", symbol_bytes), ("BINS", bins), ("THREADS", self.threads()), own];
        Specialization { source: SOURCE, constants: constants.map(|(name, value)| (name, value.into())).to_vec() }
    }
}

/// What the compile check compiles: the alphabets in use, for a device with this much shared memory a block.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let alphabets = [(1, 256), (2, 256), (2, 1024), (2, 4096), (2, 16384), (2, 65536)];
    alphabets.map(|(bytes, bins)| Layout::for_alphabet(bins, shared_memory).specialization(bytes, bins)).to_vec()
}

/// Counts the symbols of an alphabet.
#[derive(Debug, Clone)]
pub struct Histogram<S> {
    kernel: Kernel,
    layout: Layout,
    bins: u32,
    /// Blocks that the device runs at a time.
    blocks: u32,
    symbol: std::marker::PhantomData<S>,
}

impl<S: Symbol> Histogram<S> {
    /// A histogram of `bins` symbols, 0 to `bins - 1`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `bins` is 1 to 256 (`u8`) or 65,536 (`u16`); errors of [`Device::kernel`].
    pub fn new(device: &Device, bins: u32) -> Result<Self> {
        Self::check_bins(bins)?;
        let layout = Layout::for_alphabet(bins, device.info().shared_memory_per_block);
        Self::with_layout(device, bins, layout)
    }

    /// [`Self::new`] with so many copies of the histogram in a block (a power of two up to 32), to measure what they are worth.
    ///
    /// # Errors
    /// As [`Self::new`]; also if that many do not fit.
    pub fn with_copies(device: &Device, bins: u32, copies: u32) -> Result<Self> {
        if !copies.is_power_of_two() || copies > MOST_COPIES {
            return Err(CudaError::invalid(format!("copies are a power of two up to {MOST_COPIES}, not {copies}")));
        }
        Self::check_bins(bins)?;
        Self::with_layout(device, bins, Layout::Replicated { copies })
    }

    /// [`Self::new`] with counters of 16 bits even if wider ones fit, to measure both.
    ///
    /// # Errors
    /// As [`Self::new`]; also for one-byte symbols.
    pub fn with_wide_counters(device: &Device, bins: u32) -> Result<Self> {
        Self::check_bins(bins)?;
        if S::BYTES == 1 {
            return Err(CudaError::invalid("one-byte symbols always have wide enough counters"));
        }
        Self::with_layout(device, bins, Layout::wide(bins, device.info().shared_memory_per_block))
    }

    fn check_bins(bins: u32) -> Result<()> {
        let most = 1 << (8 * S::BYTES);
        if (1..=most).contains(&bins) {
            return Ok(());
        }
        Err(CudaError::invalid(format!("a histogram has 1 to {most} bins, not {bins}")))
    }

    fn with_layout(device: &Device, bins: u32, layout: Layout) -> Result<Self> {
        let kernel = device.kernel(&layout.specialization(S::BYTES, bins), layout.kernel_name())?;
        let shared_memory = layout.shared_memory(bins);
        kernel.allow_shared_memory(shared_memory)?;
        let resident = kernel.blocks_per_multiprocessor(layout.threads(), shared_memory)?.max(1);
        let blocks = resident * device.info().multiprocessors;
        Ok(Self { kernel, layout, bins, blocks, symbol: std::marker::PhantomData })
    }

    /// Symbols in the alphabet.
    pub fn bins(&self) -> u32 {
        self.bins
    }

    /// Entries that the counts need: one for each bin and one behind them, for symbols outside of the alphabet.
    pub fn counts_len(&self) -> usize {
        self.bins as usize + 1
    }

    /// Writes how often each symbol occurs to the first `bins` entries of `counts`, and how many symbols are outside of the alphabet to the next.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if `counts` has fewer than [`Self::counts_len`] entries; [`CudaError::Driver`].
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        symbols: &CudaView<'_, S>,
        counts: &mut CudaViewMut<'_, u64>,
    ) -> Result<()> {
        let given = counts.len();
        let mut counts = counts.try_slice_mut(..self.counts_len()).ok_or_else(|| {
            CudaError::invalid(format!("the counts need {} entries, {given} given", self.counts_len()))
        })?;
        stream.memset_zeros(&mut counts).doing("clearing the counts")?;
        let length = symbols.len() as u64;
        let bytes = length * u64::from(S::BYTES);
        if bytes == 0 {
            return Ok(());
        }
        let spans = match self.layout {
            Layout::Replicated { .. } => 1,
            Layout::Wide { span } => self.bins.div_ceil(span),
        };
        let blocks = bytes.div_ceil(LEAST_BYTES_PER_BLOCK).min(u64::from((self.blocks / spans).max(1))) as u32;
        let mut grid = Kernel::grid(blocks, self.layout.threads(), self.layout.shared_memory(self.bins));
        grid.grid_dim.1 = spans;
        let mut launch = stream.launch_builder(self.kernel.function());
        launch.arg(symbols).arg(&length).arg(&mut counts);
        // SAFETY: the kernel's parameters are (const symbols *, u64, u64 *). It reads `length` symbols, the view's length, and adds to
        // `bins + 1` counts, checked above; every bin index is clamped to `bins` before use.
        unsafe { launch.launch(grid) }.doing("launching the histogram")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_fit() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for bins in [1, 2, 3, 255, 256, 1000, 1024, 4096, 10_000, 32_768, 65_535, 65_536] {
                let layout = Layout::for_alphabet(bins, shared_memory);
                assert!(layout.shared_memory(bins) + 1024 <= shared_memory, "{layout:?} for {bins}");
                match layout {
                    Layout::Replicated { copies } => assert!(copies.is_power_of_two() && copies <= 32),
                    Layout::Wide { span } => assert!(span.is_power_of_two() && span >= 2),
                }
            }
        }
        assert_eq!(Layout::for_alphabet(1024, 227 << 10), Layout::Replicated { copies: 16 });
        assert_eq!(Layout::for_alphabet(65_536, 227 << 10), Layout::Wide { span: 65_536 });
        assert_eq!(Layout::for_alphabet(65_536, 64 << 10), Layout::Wide { span: 16_384 });
    }
}
