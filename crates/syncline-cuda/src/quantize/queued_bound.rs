//! Resolves the bound of an array while work is queued behind the scan: a function of the host reads what the scan
//! found. The kernels that quantize either wait for it, or take the constants of the scan, which it then compares with
//! its own.

#![allow(unsafe_code, reason = "functions of the host use page-locked memory without locks")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, DevicePtrMut};
use syncline_core::bound::{Bound, Fill, Pipeline, Resolved, Scan, resolve};
use syncline_core::container::{HEADER_LEN, Header};

use super::bound_scan::BoundScan;
use super::step::STEP_WORDS;
use super::structs::{ScanReport, Step};
use crate::device::{Device, HostFunction, Pinned, SideStream};
use crate::error::{CudaError, DriverContext, Result};

/// Words of 64 bits of a stream's header.
const HEADER_WORDS: usize = HEADER_LEN / size_of::<u64>();
/// The words that the function of the host leaves for kernels: the quantizer's constants, the header, the status.
const HEADER_AT: usize = STEP_WORDS;
const STATUS_AT: usize = HEADER_AT + HEADER_WORDS;
const WORDS: usize = STATUS_AT + 1;

/// The status if the array cannot be quantized with the bound.
pub(crate) const STATUS_LOSSLESS: u32 = 8;
/// The status if kernels took the constants of the scan, and the host has others, as it has where values are masked.
pub(crate) const STATUS_OTHER_CONSTANTS: u32 = 16;

/// The quantizer's constants, in memory that is written before the kernels run.
pub(crate) struct QueuedStep<'s> {
    pub words: CudaView<'s, u64>,
    /// Whether the kernel that was queued last computes them, while it scans the same elements.
    pub follows_scan: bool,
}

/// The work of the host.
#[derive(Debug)]
struct Resolver {
    /// The scan before it has seen any element.
    empty: Scan,
    report: Arc<Pinned<ScanReport>>,
    /// The words for the kernels.
    words: Arc<Pinned<u64>>,
    /// The header, whose bound is not resolved yet.
    header: Header,
    pipeline: Pipeline,
    rewritable: bool,
    /// Whether kernels wait for the constants. Otherwise they take those of the scan.
    comes_first: AtomicBool,
}

/// Resolves bounds of arrays of one type and shape.
#[derive(Debug)]
pub(crate) struct QueuedBound {
    /// Dropped first: it waits for the side stream.
    resolve: HostFunction,
    stream: Arc<CudaStream>,
    /// For the function of the host, beside the kernels.
    side: SideStream,
    scan: BoundScan,
    bound: Bound,
    fill: Fill,
    words: Arc<Pinned<u64>>,
    device_words: CudaSlice<u64>,
    resolver: Arc<Resolver>,
}

impl Resolver {
    /// Resolves the bound, and leaves words for the kernels.
    fn run(&self) {
        // SAFETY: this runs behind the kernel that writes the report.
        let report = unsafe { self.report.peek(0) };
        let found = report.result(self.header.shape.len(), 0);
        // One pass tells everything, because no fill values are looked for.
        let resolved = self.empty.clone().settle_result(&found, |_| Err(())).ok();
        let minus_zeros = resolved.as_ref().is_some_and(|scan| scan.minus_zeros() > 0);
        let resolved = resolved
            .and_then(|scan| resolve(&scan, self.rewritable).ok())
            .filter(|found| found.pipeline == self.pipeline);
        let mut status = if resolved.is_some() { 0 } else { STATUS_LOSSLESS };
        // Kernels behind run in any case: then with constants that are as good as any.
        let resolved = resolved.unwrap_or_else(|| Resolved {
            pipeline: self.pipeline,
            bound: self.header.bound,
            abs_bound: 0.5,
            step: 0.5,
            ..Resolved::lossless()
        });
        let Header { element_type, shape, index, group_log2, .. } = self.header;
        let header = Header { group_log2, ..Header::new(element_type, shape, index, &resolved) };
        let step = Step::new(&header, minus_zeros).words();
        if status == 0 && !self.comes_first.load(Ordering::Relaxed) && step != report.step.words() {
            status = STATUS_OTHER_CONSTANTS;
        }
        let bytes = header.to_bytes();
        let header = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        for (index, word) in step.into_iter().chain(header).chain([u64::from(status)]).enumerate() {
            // SAFETY: this runs ahead of the copy that reads the words.
            unsafe { self.words.poke(index, word) };
        }
    }
}

impl QueuedBound {
    /// Prepares for arrays on `stream`, for streams with this header, in which nothing is resolved yet.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for bounds and fill values that take several passes over the array;
    /// [`CudaError::Lossless`] if there is nothing to quantize; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(
        device: &Device,
        stream: &Arc<CudaStream>,
        header: Header,
        fill: Fill,
        rewritable: bool,
    ) -> Result<Self> {
        let Header { element_type, shape, bound, .. } = header;
        bound.validate(element_type)?;
        let pipeline = match bound {
            Bound::Abs(_) | Bound::Rel(_) => Pipeline::Quantized,
            Bound::PwRel(_) => Pipeline::LogQuantized,
            Bound::Psnr(_) => {
                let text = "a PSNR takes several attempts, between which the host decides: use another bound";
                return Err(CudaError::Unsupported(text.into()));
            }
            _ => return Err(CudaError::Lossless("the bound asked for is lossless".into())),
        };
        if fill == Fill::Auto {
            let text = "fill values are detected in several passes, between which the host decides: give the fill \
                        values, or none";
            return Err(CudaError::Unsupported(text.into()));
        }
        if shape.is_empty() {
            return Err(CudaError::Lossless("the array is empty".into()));
        }
        let mut scan = BoundScan::new(device, element_type)?;
        let empty = Scan::new(element_type, shape.len(), bound, fill);
        let report = scan.report(stream)?;
        let words = Arc::new(Pinned::new(stream, WORDS)?);
        // The scan computes neither the constants of logarithms nor those of rewritable streams.
        let comes_first = AtomicBool::new(pipeline == Pipeline::LogQuantized || rewritable);
        let resolver =
            Arc::new(Resolver { rewritable, empty, report, words: words.clone(), header, pipeline, comes_first });
        let work = resolver.clone();
        let side = SideStream::new(stream.context())?;
        Ok(Self {
            stream: stream.clone(),
            resolve: HostFunction::new(side.stream(), move || work.run()),
            side,
            scan,
            bound,
            fill,
            words,
            device_words: stream.alloc_zeros(WORDS).doing("allocating constants")?,
            resolver,
        })
    }

    /// Makes kernels wait for the constants of the host.
    pub fn resolve_first(&mut self) {
        self.resolver.comes_first.store(true, Ordering::Relaxed);
    }

    /// Returns whether kernels wait for the constants of the host.
    fn resolves_first(&self) -> bool {
        self.resolver.comes_first.load(Ordering::Relaxed)
    }

    /// Queues the scan of an array, and beside the stream the resolution and the copy of its results, for which
    /// [`Self::join`] waits.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless these are whole, aligned elements; [`CudaError::Driver`].
    pub fn queue(&mut self, elements: &CudaView<'_, u8>) -> Result<()> {
        let resolves_first = self.resolves_first();
        let Self { stream, side, scan, bound, fill, words, device_words, resolve, .. } = self;
        scan.queue(stream, elements, *bound, *fill, !resolves_first)?;
        side.fork(stream)?;
        resolve.queue()?;
        // SAFETY: the function of the host owns the words, too: it waits for the stream before it drops them, and keeps
        // them for ever if it is captured.
        unsafe { words.queue_copy(side.stream(), device_words) }?;
        if resolves_first { self.join() } else { Ok(()) }
    }

    /// Makes work that is queued from now on wait for the results of the host.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn join(&self) -> Result<()> {
        self.side.join(&self.stream)
    }

    /// Returns the quantizer's constants for the kernels of the `first` batch, which are queued behind the scan, or of
    /// another one.
    pub fn step(&self, first: bool) -> QueuedStep<'_> {
        match self.scan.step().filter(|_| !self.resolves_first()) {
            Some(words) => QueuedStep { words, follows_scan: first },
            None => QueuedStep { words: self.device_words.slice(..STEP_WORDS), follows_scan: false },
        }
    }

    /// Returns the address of the header's words.
    pub fn header(&self) -> CUdeviceptr {
        self.device_words.slice(HEADER_AT..).device_ptr(&self.stream).0
    }

    /// Returns the address of the word of the status.
    pub fn status(&mut self) -> CUdeviceptr {
        self.device_words.slice_mut(STATUS_AT..).device_ptr_mut(&self.stream).0
    }
}
