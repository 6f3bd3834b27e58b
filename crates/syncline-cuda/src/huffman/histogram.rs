//! Counting symbols: launcher of `kernels/huffman/histogram.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DeviceRepr, PushKernelArg};

use crate::device::{Device, Kernel, Source, Specialization, source};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source = source!("huffman/histogram.cu");

/// Most copies of the counters in a block: one for each lane of a warp.
const MOST_COPIES: u32 = 32;
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

/// How the counters are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    bins: u32,
    /// Blocks that share the alphabet out among them.
    spans: u32,
    /// Copies of the counters in a block.
    copies: u32,
    threads: u32,
}

impl Layout {
    /// The layout for an alphabet on a device with this much shared memory a block: as many copies as fit, up to one a
    /// lane.
    fn for_alphabet(bins: u32, shared_memory: u32) -> Self {
        let rows = shared_memory / 4;
        let mut layout = Self { bins, spans: 1, copies: 1, threads: 1024 };
        while layout.rows() > rows {
            layout.spans += 1;
        }
        layout.copies = 1 << (rows / layout.rows()).min(MOST_COPIES).ilog2();
        // Measured: small blocks are a little faster where several fit a multiprocessor.
        if layout.shared_memory() <= shared_memory / 4 {
            layout.threads = 512;
        }
        layout
    }

    /// Entries of the counts, of which there is one more than bins, that a block looks after.
    fn span(self) -> u32 {
        (self.bins + 1).div_ceil(self.spans)
    }

    /// Counters of a copy.
    fn rows(self) -> u32 {
        if self.spans == 1 { self.bins + 1 } else { self.span() + 1 }
    }

    fn shared_memory(self) -> u32 {
        4 * self.rows() * self.copies
    }

    fn specialization(self, symbol_bytes: u32) -> Specialization {
        let constants = [
            ("SYMBOL_BYTES", symbol_bytes),
            ("BINS", self.bins),
            ("SPAN", self.span()),
            ("COPIES", self.copies),
            ("THREADS", self.threads),
        ];
        Specialization { source: SOURCE, constants: constants.map(|(name, value)| (name, value.into())).to_vec() }
    }
}

/// What the compile check compiles: the alphabets in use, for a device with this much shared memory a block.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let alphabets = [(1, 256), (2, 256), (2, 1024), (2, 4096), (2, 16384), (2, 65536)];
    alphabets.map(|(bytes, bins)| Layout::for_alphabet(bins, shared_memory).specialization(bytes)).to_vec()
}

/// Counts the symbols of an alphabet.
#[derive(Debug, Clone)]
pub struct Histogram<S> {
    kernel: Kernel,
    layout: Layout,
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
        let most = 1 << (8 * S::BYTES);
        if !(1..=most).contains(&bins) {
            return Err(CudaError::invalid(format!("a histogram has 1 to {most} bins, not {bins}")));
        }
        Self::with_layout(device, Layout::for_alphabet(bins, device.info().shared_memory_per_block))
    }

    /// [`Self::new`] with fewer copies of the counters in a block (a power of two), to measure what they are worth.
    ///
    /// # Errors
    /// As [`Self::new`]; also if there are not that many in [`Self::new`]'s.
    pub fn with_copies(device: &Device, bins: u32, copies: u32) -> Result<Self> {
        let layout = Self::new(device, bins)?.layout;
        if !copies.is_power_of_two() || copies > layout.copies {
            return Err(CudaError::invalid(format!("copies are a power of two up to {}, not {copies}", layout.copies)));
        }
        Self::with_layout(device, Layout { copies, ..layout })
    }

    fn with_layout(device: &Device, layout: Layout) -> Result<Self> {
        let kernel = device.kernel(&layout.specialization(S::BYTES), "histogram")?;
        kernel.allow_shared_memory(layout.shared_memory())?;
        let resident = kernel.blocks_per_multiprocessor(layout.threads, layout.shared_memory())?.max(1);
        let blocks = resident * device.info().multiprocessors;
        Ok(Self { kernel, layout, blocks, symbol: std::marker::PhantomData })
    }

    /// Symbols in the alphabet.
    pub fn bins(&self) -> u32 {
        self.layout.bins
    }

    /// Entries that the counts need: one for each bin and one behind them, for symbols outside of the alphabet.
    pub fn counts_len(&self) -> usize {
        self.layout.bins as usize + 1
    }

    /// Writes how often each symbol occurs to the first `bins` entries of `counts`, and how many symbols are outside of
    /// the alphabet to the next.
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
        let Layout { spans, threads, .. } = self.layout;
        let blocks = bytes.div_ceil(LEAST_BYTES_PER_BLOCK).min(u64::from((self.blocks / spans).max(1))) as u32;
        let mut grid = Kernel::grid(blocks, threads, self.layout.shared_memory());
        grid.grid_dim.1 = spans;
        let mut launch = stream.launch_builder(self.kernel.function());
        launch.arg(symbols).arg(&length).arg(&mut counts);
        // SAFETY: the kernel's parameters are (const symbols *, u64, u64 *). It reads `length` symbols, the view's
        // length, and adds to `bins + 1` counts, checked above; entries past `bins` stay 0 in shared memory and are not
        // added.
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
                assert!(layout.shared_memory() <= shared_memory, "{layout:?}");
                assert!(layout.copies.is_power_of_two() && layout.copies <= 32, "{layout:?}");
                assert!(layout.span() * layout.spans > bins, "every entry has a block: {layout:?}");
            }
        }
        assert_eq!(Layout::for_alphabet(1024, 227 << 10), Layout { bins: 1024, spans: 1, copies: 32, threads: 1024 });
        assert_eq!(Layout::for_alphabet(256, 227 << 10), Layout { bins: 256, spans: 1, copies: 32, threads: 512 });
        assert_eq!(Layout::for_alphabet(65_536, 227 << 10).spans, 2);
        assert_eq!(Layout::for_alphabet(65_536, 64 << 10).spans, 5);
    }
}
