//! Counts of each symbol: launcher of `kernels/reduce_shuffle_merge_2021/histogram.cu`.

#![allow(unsafe_code, reason = "a kernel launch")]

use cudarc::driver::sys::CUdeviceptr;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};

use syncline_cuda::device::{Device, Grid, Specialization};
use syncline_cuda::device_kernels::{Out, declare_kernels, launch};
use syncline_cuda::error::{CudaError, DriverContext, Result};
use syncline_cuda::huffman::Symbol;

declare_kernels! {
    /// The kernel of `kernels/reduce_shuffle_merge_2021/histogram.cu`.
    struct HistogramKernels in "reduce_shuffle_merge_2021/histogram.cu",
        of (layout: CounterLayout), by (symbol_bytes: u32)
    {
        with BINS = layout.bins;
        with PART_ENTRIES = layout.part_entries();
        with COPIES = layout.copies;
        with THREADS = layout.threads;
        fn reduce_shuffle_merge_2021_histogram(
            symbols: CUdeviceptr as "const uint8_t *", length: u64, counts: Out<u64>,
        );
    }
}

/// Maximum number of copies of the counters in a block: one for each lane of a warp.
const MAX_COPIES: u32 = 32;
/// Minimum number of bytes that a block counts, so that the sum over its counters does not dominate.
const MIN_BYTES_PER_BLOCK: u64 = 32 << 10;

/// The distribution of counters to blocks and copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CounterLayout {
    bins: u32,
    /// Blocks that divide the alphabet among them.
    alphabet_parts: u32,
    /// Copies of the counters in a block.
    copies: u32,
    threads: u32,
}

impl CounterLayout {
    /// Returns the layout for an alphabet on a device with this much shared memory per block, in bytes, with as many
    /// copies as fit.
    fn for_alphabet(bins: u32, shared_memory: u32) -> Self {
        let rows = shared_memory / 4;
        let mut layout = Self { bins, alphabet_parts: 1, copies: 1, threads: 1024 };
        while layout.rows() > rows {
            layout.alphabet_parts += 1;
        }
        layout.copies = 1 << (rows / layout.rows()).min(MAX_COPIES).ilog2();
        // Measured: small blocks are a little faster if several fit on a multiprocessor.
        if layout.shared_memory() <= shared_memory / 4 {
            layout.threads = 512;
        }
        layout
    }

    /// Returns the number of counts that a block is responsible for. There is one more count than bins.
    fn part_entries(self) -> u32 {
        (self.bins + 1).div_ceil(self.alphabet_parts)
    }

    /// Returns the number of counters of a copy.
    fn rows(self) -> u32 {
        if self.alphabet_parts == 1 { self.bins + 1 } else { self.part_entries() + 1 }
    }

    fn shared_memory(self) -> u32 {
        4 * self.rows() * self.copies
    }
}

/// Returns the specializations of the alphabets in use for the compile check.
pub(crate) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let alphabets = [(1, 256), (2, 256), (2, 1024), (2, 4096), (2, 16384), (2, 65536)];
    alphabets
        .map(|(bytes, bins)| HistogramKernels::specialization(CounterLayout::for_alphabet(bins, shared_memory), bytes))
        .to_vec()
}

/// Counts the symbols of an alphabet with replicated counters in shared memory.
#[derive(Debug, Clone)]
pub struct Histogram<S> {
    kernels: HistogramKernels,
    layout: CounterLayout,
    /// Resident blocks on the device.
    blocks: u32,
    symbol: std::marker::PhantomData<S>,
}

impl<S: Symbol> Histogram<S> {
    /// Compiles the kernel for `bins` symbols, 0 to `bins - 1`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `bins` is 1 to 256 (`u8`) or 65,536 (`u16`); errors of [`Device::kernel`].
    pub fn new(device: &Device, bins: u32) -> Result<Self> {
        let most = 1 << (8 * S::BYTES);
        if !(1..=most).contains(&bins) {
            return Err(CudaError::invalid(format!("a histogram must have 1 to {most} bins, not {bins}")));
        }
        let layout = CounterLayout::for_alphabet(bins, device.info().shared_memory_per_block);
        let kernels = HistogramKernels::load(device, layout, S::BYTES)?;
        let kernel = &kernels.reduce_shuffle_merge_2021_histogram;
        kernel.allow_shared_memory(layout.shared_memory())?;
        let resident = kernel.blocks_per_multiprocessor(layout.threads, layout.shared_memory())?.max(1);
        let blocks = resident * device.info().multiprocessors;
        Ok(Self { kernels, layout, blocks, symbol: std::marker::PhantomData })
    }

    /// Returns the number of symbols in the alphabet.
    pub fn bins(&self) -> u32 {
        self.layout.bins
    }

    /// Returns the required number of counts: one for each bin, and one for all symbols outside of the alphabet.
    pub fn counts_len(&self) -> usize {
        self.layout.bins as usize + 1
    }

    /// Writes the count of each symbol to the first `bins` entries of `counts`, and the number of symbols outside of
    /// the alphabet to the next entry.
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
        let mut counts = counts
            .try_slice_mut(..self.counts_len())
            .ok_or_else(|| CudaError::invalid(format!("there must be {} counts, not {given}", self.counts_len())))?;
        stream.memset_zeros(&mut counts).doing("clearing the counts")?;
        let length = symbols.len() as u64;
        let bytes = length * u64::from(S::BYTES);
        if bytes == 0 {
            return Ok(());
        }
        let CounterLayout { alphabet_parts, threads, .. } = self.layout;
        let blocks = bytes.div_ceil(MIN_BYTES_PER_BLOCK).min(u64::from((self.blocks / alphabet_parts).max(1))) as u32;
        let grid = Grid::new(blocks, threads).rows(alphabet_parts).shared_memory(self.layout.shared_memory());
        let (symbols, _reads) = symbols.device_ptr(stream);
        // SAFETY: the kernel reads the `length` symbols of the view and adds to `bins + 1` counts, which
        // `try_slice_mut` has checked. Counters of entries past `bins` stay 0 and are not added.
        unsafe {
            launch!(self.kernels.reduce_shuffle_merge_2021_histogram on stream, grid; symbols, length, &mut counts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_fit() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for bins in [1, 2, 3, 255, 256, 1000, 1024, 4096, 10_000, 32_768, 65_535, 65_536] {
                let layout = CounterLayout::for_alphabet(bins, shared_memory);
                assert!(layout.shared_memory() <= shared_memory, "{layout:?}");
                assert!(layout.copies.is_power_of_two() && layout.copies <= 32, "{layout:?}");
                assert!(layout.part_entries() * layout.alphabet_parts > bins, "every entry has a block: {layout:?}");
            }
        }
        assert_eq!(
            CounterLayout::for_alphabet(1024, 227 << 10),
            CounterLayout { bins: 1024, alphabet_parts: 1, copies: 32, threads: 1024 }
        );
        assert_eq!(
            CounterLayout::for_alphabet(256, 227 << 10),
            CounterLayout { bins: 256, alphabet_parts: 1, copies: 32, threads: 512 }
        );
        assert_eq!(CounterLayout::for_alphabet(65_536, 227 << 10).alphabet_parts, 2);
        assert_eq!(CounterLayout::for_alphabet(65_536, 64 << 10).alphabet_parts, 5);
    }
}
