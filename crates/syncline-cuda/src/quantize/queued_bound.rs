//! Resolves the bound of an array while work is queued behind the scan: a function of the host reads what the scan
//! found, and leaves the constants for the kernels that quantize.

#![allow(unsafe_code, reason = "functions of the host use page-locked memory without locks")]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, DevicePtrMut};
use syncline_core::bound::{Bound, Fill, Resolved, Scan, resolve};
use syncline_core::container::{HEADER_LEN, Header};

use super::bound_scan::{BoundScan, MOST_LISTED, listed_places};
use super::step::STEP_WORDS;
use super::structs::{ScanReport, Step};
use crate::device::{Device, HostFunction, Pinned};
use crate::error::{CudaError, DriverContext, Result};

/// Words of 64 bits of a stream's header.
const HEADER_WORDS: usize = HEADER_LEN / size_of::<u64>();
/// The words that the function of the host leaves for kernels: the quantizer's constants, the header, the status.
const HEADER_AT: usize = STEP_WORDS;
const STATUS_AT: usize = HEADER_AT + HEADER_WORDS;
const WORDS: usize = STATUS_AT + 1;

/// The status if the array cannot be quantized with the bound.
pub(crate) const STATUS_LOSSLESS: u32 = 8;

/// The work of the host.
#[derive(Debug)]
struct Resolver {
    /// The scan before it has seen any element.
    empty: Scan,
    report: Arc<Pinned<ScanReport>>,
    /// Bits of listed elements, and their number.
    values: (Arc<Pinned<u64>>, usize),
    /// The words for the kernels.
    words: Arc<Pinned<u64>>,
    /// The header, whose bound is not resolved yet.
    header: Header,
    rewritable: bool,
}

/// Resolves bounds of arrays of one type and shape.
#[derive(Debug)]
pub(crate) struct QueuedBound {
    /// Dropped first: it waits for the stream.
    resolve: HostFunction,
    stream: Arc<CudaStream>,
    scan: BoundScan,
    bound: Bound,
    fill: Fill,
    words: Arc<Pinned<u64>>,
    device_words: CudaSlice<u64>,
}

impl Resolver {
    /// Resolves the bound, and leaves words for the kernels.
    fn run(&self) {
        // SAFETY: this runs behind the kernel that writes the report.
        let report = unsafe { self.report.peek(0) };
        let found = report.result(self.header.shape.len(), 0);
        let (values, count) = &self.values;
        // SAFETY: as for the report.
        let values = (0..*count).map(|i| unsafe { values.peek(i) });
        let mut scan = self.empty.clone();
        scan.add_values(0, values);
        let Header { element_type, shape, index, pipeline, tile_size, .. } = self.header;
        // One pass tells everything, because no fill values are looked for.
        let resolved = scan.settle_result(&found, |_| Err(())).ok();
        let minus_zeros = resolved.as_ref().is_some_and(|scan| scan.minus_zeros() > 0);
        let resolved =
            resolved.and_then(|scan| resolve(&scan, self.rewritable).ok()).filter(|found| found.pipeline == pipeline);
        let status = if resolved.is_some() { 0 } else { STATUS_LOSSLESS };
        // Kernels behind run in any case: then with constants that are as good as any.
        let resolved = resolved.unwrap_or_else(|| Resolved {
            pipeline,
            bound: self.header.bound,
            abs_bound: 0.5,
            step: 0.5,
            ..Resolved::lossless()
        });
        let header = Header::new(element_type, shape, index, &resolved).with_tile_size(tile_size);
        let step = Step::new(&header, minus_zeros).words();
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
        match bound {
            Bound::Abs(_) | Bound::Rel(_) | Bound::PwRel(_) => {}
            Bound::Psnr(_) => {
                let text = "a PSNR takes several attempts, between which the host decides: use another bound";
                return Err(CudaError::Unsupported(text.into()));
            }
            _ => return Err(CudaError::Lossless("the bound asked for is lossless".into())),
        }
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
        let (report, values) = scan.report(stream)?;
        let listed = (listed_places(&empty, 0, shape.len()).end as usize).min(MOST_LISTED);
        let words = Arc::new(Pinned::new(stream, WORDS)?);
        let resolver = Resolver { empty, report, values: (values, listed), words: words.clone(), header, rewritable };
        Ok(Self {
            stream: stream.clone(),
            resolve: HostFunction::new(stream, move || resolver.run()),
            scan,
            bound,
            fill,
            words,
            device_words: stream.alloc_zeros(WORDS).doing("allocating constants")?,
        })
    }

    /// Queues the scan of an array, the resolution, and the copy of its results.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless these are whole, aligned elements; [`CudaError::Driver`].
    pub fn queue(&mut self, elements: &CudaView<'_, u8>) -> Result<()> {
        let Self { stream, scan, bound, fill, words, device_words, resolve, .. } = self;
        scan.queue(stream, elements, *bound, *fill)?;
        resolve.queue()?;
        // SAFETY: the function of the host owns the words, too: it waits for the stream before it drops them, and keeps
        // them for ever if it is captured.
        unsafe { words.queue_copy(stream, device_words) }
    }

    /// Returns the quantizer's constants for kernels that are queued behind.
    pub fn step(&self) -> CudaView<'_, u64> {
        self.device_words.slice(..STEP_WORDS)
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
