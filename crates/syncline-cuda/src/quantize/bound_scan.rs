//! Scans every value of an array before compression: launcher of `kernels/quantize/bound_scan.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use crate::device::Specialization;
use cudarc::driver::sys::CUdeviceptr;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr};
use syncline_core::array::ElementType;
use syncline_core::bound::scan::{BlockStats, Samples, ScanResult};
use syncline_core::bound::{Bound, Fill, Scan};

use super::structs::{ExcludedBits, ListedElements, ScanReport};
use crate::device::{Device, Grid, Pinned};
use crate::device_kernels::{In, LowBytes, Out, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};

declare_kernels! {
    /// The kernel of `kernels/quantize/bound_scan.cu`.
    struct ScanKernels in "quantize/bound_scan.cu", of (kind: ScanKind) {
        /// Threads of a block.
        const THREADS: u32 = 1024;
        /// Blocks per multiprocessor.
        const BLOCKS: u32 = 1;
        with ELEMENT_TYPE = kind.element as u32;
        with ELEMENT_BYTES = kind.element.computed().size() as u32;
        with EXCLUDED = kind.excluded;
        with UNROLL = unroll(kind.element);
        fn quantize_bound_scan(
            elements: In<u8> as "const StoredBits *", length: u64, excluded: ExcludedBits, limit: LowBytes as "Bits",
            first_sample: u64, stride: u64, listed: ListedElements, partials: Out<u64> as "BlockPartial *",
            blocks_done: Out<u32>, number: u64, host: CUdeviceptr as "ScanReport *",
        );
    }
}

/// What the kernel is compiled for.
#[derive(Clone, Copy, Debug)]
struct ScanKind {
    element: ElementType,
    /// Whether elements are left out.
    excluded: bool,
}

/// Returns the loads of 16 bytes that a thread has in flight. Short elements take more registers as values.
fn unroll(element: ElementType) -> u32 {
    (4 * element.size() / element.computed().size()) as u32
}

/// Maximum number of 64-bit words that a block leaves: `BlockPartial` in quantize/bound_scan.cu.
const PARTIAL_WORDS: usize = 15;

impl ScanReport {
    /// Converts an ordered number that is not 0 to a key.
    fn key(ordered: u64) -> i64 {
        (ordered ^ 1 << 63) as i64
    }

    fn stats(&self, count: u64) -> BlockStats {
        let [nans, infinities, minus_zeros, zeros] = self.counts;
        let any = count > self.excluded.iter().sum::<u64>() + nans + infinities;
        BlockStats {
            lowest: if any { Self::key(!self.lowest) } else { i64::MAX },
            highest: if any { Self::key(self.highest) } else { i64::MIN },
            count,
            excluded: self.excluded,
            nans,
            infinities,
            minus_zeros,
            zeros,
        }
    }

    /// Returns the number and bits of the first NaN, where the scan's first element is number `first` of the array.
    fn first_nan(&self, first: u64) -> Option<(u64, u64)> {
        (self.first_nan != 0).then(|| (first + !self.first_nan, self.nan_bits))
    }

    /// Returns whether one element alone is known to be the lowest, and the highest.
    fn single(&self) -> [bool; 2] {
        self.single.map(|single| single != 0)
    }

    /// Returns what a scan of `length` elements found, of which the first is number `first` of the array.
    pub(super) fn result(&self, length: u64, first: u64) -> ScanResult {
        ScanResult {
            stats: self.stats(length),
            first_nan: self.first_nan(first),
            single: self.single(),
            samples: self.samples(),
        }
    }

    fn samples(&self) -> Samples {
        Samples {
            count: self.samples,
            at_lowest: self.at_lowest,
            at_highest: self.at_highest,
            least_above: (self.samples > self.at_lowest).then(|| Self::key(!self.least_above)),
            greatest_below: (self.samples > self.at_highest).then(|| Self::key(self.greatest_below)),
            too_large: self.too_large,
        }
    }
}

pub(super) fn specializations() -> Vec<Specialization> {
    super::compiled_types()
        .flat_map(|element| [false, true].map(|excluded| ScanKernels::specialization(ScanKind { element, excluded })))
        .collect()
}

/// Scans arrays of one element type in device memory.
#[derive(Debug)]
pub struct BoundScan {
    element: ElementType,
    /// The kernel that scans all elements, and the one that leaves out excluded elements.
    scan: [ScanKernels; 2],
    /// Blocks that the device runs concurrently.
    blocks: u32,
    results: Option<Results>,
}

impl ExcludedBits {
    /// Returns the bits that a scan leaves out. The first ones are repeated where there are fewer than four, and the
    /// kernel counts each element once.
    fn of(scan: &Scan) -> Self {
        let excluded = scan.excluded();
        let first = excluded.first().copied().unwrap_or(0);
        Self { patterns: std::array::from_fn(|i| excluded.get(i).copied().unwrap_or(first)) }
    }
}

/// What a scan of a part of an array found.
#[derive(Clone, Debug)]
pub struct ScannedPart {
    /// Its extremes and counts.
    pub result: ScanResult,
    /// The place of the first listed element.
    first_place: u64,
    /// Bits of the listed elements.
    values: Vec<u64>,
}

impl ScannedPart {
    /// Adds the listed elements to the scan of the whole array. They are the same in every scan.
    pub fn add_values(&self, scan: &mut Scan) {
        scan.add_values(self.first_place, self.values.iter().copied());
    }
}

/// Most elements that are listed.
pub(super) const MOST_LISTED: usize = 2048;

/// Returns the places of the listed elements among `length` elements from number `first` on.
pub(super) fn listed_places(scan: &Scan, first: u64, length: u64) -> Range<u64> {
    let place_from = |element: u64| {
        let place = element / scan.value_stride();
        place + u64::from(scan.value_element(place) < element)
    };
    place_from(first)..place_from(first + length)
}

/// The page-locked memory for the report of a scan, and for the bits of listed elements.
pub(super) type Report = (Arc<Pinned<ScanReport>>, Arc<Pinned<u64>>);

/// Memory for results, reused by later scans.
#[derive(Debug)]
struct Results {
    stream: Arc<CudaStream>,
    partials: CudaSlice<u64>,
    /// Counter of finished blocks, 0 between launches.
    blocks_done: CudaSlice<u32>,
    report: Arc<Pinned<ScanReport>>,
    /// Bits of listed elements.
    values: Arc<Pinned<u64>>,
    /// Places of those of the last scan.
    places: Range<u64>,
    /// Number of scans so far.
    number: u64,
    /// Whether an event was recorded behind the last scan.
    event_recorded: bool,
}

impl Drop for Results {
    fn drop(&mut self) {
        if !self.event_recorded {
            // The page-locked memory must outlive the kernel's writes. An error is reported by the next driver call.
            let _ = self.stream.synchronize();
        }
    }
}

impl BoundScan {
    /// Loads the kernels for arrays of `element`.
    ///
    /// # Errors
    /// Errors of [`Device::kernel`].
    pub fn new(device: &Device, element: ElementType) -> Result<Self> {
        let plain = ScanKernels::load(device, ScanKind { element, excluded: false })?;
        let excluding = ScanKernels::load(device, ScanKind { element, excluded: true })?;
        let blocks =
            plain.quantize_bound_scan.blocks_per_multiprocessor(THREADS, 0)?.max(1) * device.info().multiprocessors;
        Ok(Self { element, scan: [plain, excluding], blocks, results: None })
    }

    /// Scans all elements of an array, given as bytes, on `stream`. The result equals that of
    /// `syncline_core`. Waits for the stream once, and once more for each extreme value that
    /// looks like fill.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless these are whole, aligned elements; [`CudaError::Driver`].
    pub fn scan(
        &mut self,
        stream: &Arc<CudaStream>,
        elements: &CudaView<'_, u8>,
        bound: Bound,
        fill: Fill,
    ) -> Result<Scan> {
        let mut scan = self.empty(elements, bound, fill);
        let found = self.scan_range(stream, elements, 0, &scan)?;
        found.add_values(&mut scan);
        scan.settle_result(&found.result, |again| Ok(self.scan_range(stream, elements, 0, again)?.result))
    }

    /// Scans part of an array: the elements from number `first` on, given as bytes, on `stream`. `empty` is the scan of
    /// the whole array before it has seen any element. Waits for the stream.
    ///
    /// # Errors
    /// The errors of [`Self::scan`].
    pub fn scan_range(
        &mut self,
        stream: &Arc<CudaStream>,
        elements: &CudaView<'_, u8>,
        first: u64,
        empty: &Scan,
    ) -> Result<ScannedPart> {
        self.launch(stream, elements, first, empty)?;
        self.found(elements, first)
    }

    /// Returns the page-locked memory for the report of scans on `stream`, and for the bits of listed elements.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub(super) fn report(&mut self, stream: &Arc<CudaStream>) -> Result<Report> {
        let results = match self.results.take().filter(|results| Arc::ptr_eq(&results.stream, stream)) {
            Some(results) => results,
            None => Results::new(stream, self.blocks)?,
        };
        let results = self.results.insert(results);
        Ok((results.report.clone(), results.values.clone()))
    }

    /// Queues a scan whose report nothing waits for but what is queued behind.
    ///
    /// # Errors
    /// The errors of [`Self::scan`].
    pub(super) fn queue(
        &mut self,
        stream: &Arc<CudaStream>,
        elements: &CudaView<'_, u8>,
        bound: Bound,
        fill: Fill,
    ) -> Result<()> {
        let scan = self.empty(elements, bound, fill);
        self.launch(stream, elements, 0, &scan)
    }

    fn empty(&self, elements: &CudaView<'_, u8>, bound: Bound, fill: Fill) -> Scan {
        Scan::new(self.element, (elements.len() / self.element.size()) as u64, bound, fill)
    }

    /// Queues the kernel, unless there are no elements.
    fn launch(
        &mut self,
        stream: &Arc<CudaStream>,
        elements: &CudaView<'_, u8>,
        first: u64,
        empty: &Scan,
    ) -> Result<()> {
        let size = self.element.size();
        let pointer = elements.device_ptr(stream).0;
        if !elements.len().is_multiple_of(size) || !pointer.is_multiple_of(size as u64) {
            return Err(CudaError::invalid(format!("the bytes are not whole, aligned elements of {}", self.element)));
        }
        let bytes = elements.len() as u64;
        if bytes == 0 {
            return Ok(());
        }
        let mut results = match self.results.take().filter(|results| Arc::ptr_eq(&results.stream, stream)) {
            Some(results) => results,
            None => Results::new(stream, self.blocks)?,
        };
        let length = bytes / size as u64;
        let blocks = bytes.div_ceil(u64::from(THREADS * unroll(self.element) * 16)).min(self.blocks.into()) as u32;
        let kernels = &self.scan[usize::from(!empty.excluded().is_empty())];
        let excluded = ExcludedBits::of(empty);
        let limit = empty.magnitude_limit();
        let stride = empty.sample_stride();
        let first_sample = first.next_multiple_of(stride) - first;
        results.number += 1;
        let host = results.report.device_pointer();
        let places = listed_places(empty, first, length);
        let listed = ListedElements {
            first_element: first,
            first_place: places.start,
            stride: empty.value_stride(),
            count: (places.end - places.start).min(MOST_LISTED as u64),
            values: results.values.device_pointer(),
        };
        results.places = places;
        let Results { partials, blocks_done, number, .. } = &mut results;
        // SAFETY: the kernel reads `length` elements, which the view holds. `partials` has room for `self.blocks`
        // blocks, and the grid has no more. It writes one `ScanReport`, and as many values as there is room for, to
        // page-locked memory, which the host reads only after the report's number has changed.
        unsafe {
            launch!(kernels.quantize_bound_scan on stream, Grid::new(blocks, THREADS); elements, length, excluded,
                limit, first_sample, stride, listed, partials, blocks_done, *number, host)
        }?;
        // Recorded once the host waits: an event would delay the start of a kernel that is launched early behind the
        // scan.
        results.event_recorded = false;
        self.results = Some(results);
        Ok(())
    }

    /// Returns what the last queued kernel found. The first of its elements is number `first` of the array.
    fn found(&mut self, elements: &CudaView<'_, u8>, first: u64) -> Result<ScannedPart> {
        let length = (elements.len() / self.element.size()) as u64;
        let (mut first_place, mut values) = (0, Vec::new());
        let report = match &mut self.results {
            Some(results) if length > 0 => {
                if !std::mem::replace(&mut results.event_recorded, true) {
                    results.report.written()?;
                }
                let report = results.report.wait_for(offset_of!(ScanReport, number), results.number)?[0];
                first_place = results.places.start;
                let count = ((results.places.end - first_place) as usize).min(MOST_LISTED);
                // SAFETY: the report says that the kernel has written everything.
                values = (0..count).map(|i| unsafe { results.values.peek(i) }).collect();
                report
            }
            _ => ScanReport::default(),
        };
        Ok(ScannedPart { result: report.result(length, first), first_place, values })
    }
}

impl Results {
    fn new(stream: &Arc<CudaStream>, blocks: u32) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            partials: stream.alloc_zeros(blocks as usize * PARTIAL_WORDS).doing("allocating for a scan")?,
            blocks_done: stream.alloc_zeros(1).doing("allocating for a scan")?,
            report: Arc::new(Pinned::new(stream, 1)?),
            values: Arc::new(Pinned::new(stream, MOST_LISTED)?),
            places: 0..0,
            number: 0,
            event_recorded: true,
        })
    }
}
