//! Scratch memory of an encoder: intermediate results between encoding segments and writing streams.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut};

use super::batch::Batch;
use super::format::Format;
use super::segments::SegmentKernel;
use super::structs::{EncodeScratch, SegmentSums};
use crate::device::Frame;
use crate::error::Result;

/// 32-bit words of a segment's start: an element of `EncodeScratch::starts`.
const STARTS_WORDS: usize = 2;

/// Scratch memory of one call.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    /// Codewords of the segments.
    pub slots: CudaViewMut<'a, u32>,
    pub sums: CudaViewMut<'a, SegmentSums>,
    pub group_bits: CudaViewMut<'a, u16>,
    starts: CudaViewMut<'a, u32>,
    coded_group_bits: CudaViewMut<'a, u16>,
    free_bitmap: CudaViewMut<'a, u32>,
    descriptors: CudaViewMut<'a, u64>,
}

impl<'a> Scratch<'a> {
    /// Allocates scratch memory for `segments` segments in each stream.
    pub fn new(
        frame: &mut Frame<'a>,
        format: &Format,
        batch: &Batch,
        segments: u32,
        kernel: &SegmentKernel,
    ) -> Result<Self> {
        let segment = kernel.segment;
        let streams = batch.streams as usize;
        let all = streams * segments as usize;
        let groups_in_stream = segments as usize * (segment / format.group()) as usize;
        let slot_words = segment as usize * format.longest() as usize / 32;
        Ok(Self {
            slots: frame.slice(all * slot_words)?,
            sums: frame.slice(all)?,
            group_bits: frame.slice(streams * groups_in_stream)?,
            starts: frame.slice(all * STARTS_WORDS)?,
            // The kernels read and clear whole index blocks of 32 groups.
            coded_group_bits: frame.slice(streams * groups_in_stream.next_multiple_of(32))?,
            free_bitmap: frame.slice(streams * groups_in_stream.div_ceil(32))?,
            descriptors: frame.slice(streams * groups_in_stream.div_ceil(32))?,
        })
    }

    /// Returns the addresses for the kernels. All of them run on `stream`, which orders their accesses.
    pub fn addresses(&mut self, stream: &Arc<CudaStream>) -> EncodeScratch {
        EncodeScratch {
            sums: self.sums.device_ptr_mut(stream).0,
            group_bits: self.group_bits.device_ptr_mut(stream).0,
            starts: self.starts.device_ptr_mut(stream).0,
            coded_group_bits: self.coded_group_bits.device_ptr_mut(stream).0,
            free_bitmap: self.free_bitmap.device_ptr_mut(stream).0,
            descriptors: self.descriptors.device_ptr_mut(stream).0,
        }
    }
}
