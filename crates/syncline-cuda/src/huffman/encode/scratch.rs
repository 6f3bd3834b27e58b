//! Scratch memory of an encoder: between the segments that are encoded and the streams that they are laid out as.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::SUBSEQUENCE_BITS;

use super::batch::Batch;
use super::format::Format;
use super::shape::Shape;
use crate::device::Frame;
use crate::error::Result;

/// Words that a segment's sums have (`SegmentSums` in huffman/encode/encode.cuh), and what the layout notes of it.
const SUMS_WORDS: usize = 4;
const STARTS_WORDS: usize = 2;

/// Where the layout's scratch memory is: `Scratch` in huffman/encode/scratch.cuh.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ScratchPointers([CUdeviceptr; 7]);

// SAFETY: seven device addresses, as `Scratch` has.
unsafe impl DeviceRepr for ScratchPointers {}

/// Where segments are encoded to.
pub(super) enum Slots<'a> {
    Own(CudaViewMut<'a, u32>),
    /// The symbols' own memory, where the segments of a stream stand from its first symbol on.
    InPlace(CUdeviceptr),
}

impl Slots<'_> {
    pub fn pointer(&mut self, stream: &Arc<CudaStream>) -> CUdeviceptr {
        match self {
            Self::Own(slots) => slots.device_ptr_mut(stream).0,
            Self::InPlace(symbols) => *symbols,
        }
    }
}

/// Words that are noted of a segment for the gap index (`NOTED_WORDS` in huffman/encode/encode.cuh): the length of each
/// codeword in 4 bits, in 8 where they may be longer, and 16 bits for 16 symbols.
fn noted_words(format: &Format, segment: u32) -> usize {
    let length_bits = if format.longest() <= 16 { 4 } else { 8 };
    (segment * length_bits / 32 + segment / 32) as usize
}

/// Scratch memory of one call.
pub(super) struct Scratch<'a> {
    pub slots: Slots<'a>,
    pub sums: CudaViewMut<'a, u32>,
    pub group_bits: CudaViewMut<'a, u16>,
    starts: CudaViewMut<'a, u32>,
    live_bits: CudaViewMut<'a, u16>,
    free_bitmap: CudaViewMut<'a, u32>,
    descriptors: CudaViewMut<'a, u64>,
    gaps: CudaViewMut<'a, u8>,
    /// Lengths of codewords, where the encoder notes them.
    pub notes: CudaViewMut<'a, u32>,
}

impl<'a> Scratch<'a> {
    /// For `segments` segments of `segment` symbols in each stream.
    pub fn new(
        frame: &mut Frame<'a>,
        format: &Format,
        batch: &Batch,
        segments: u32,
        shape: &Shape,
        in_place: Option<CUdeviceptr>,
    ) -> Result<Self> {
        let segment = shape.segment;
        let streams = batch.streams as usize;
        let all = streams * segments as usize;
        let groups_in_stream = segments as usize * (segment / format.group()) as usize;
        let slot_words = segment as usize * format.longest() as usize / 32;
        let gaps =
            if shape.reads_symbols_again(format) { all * slot_words * 32 / SUBSEQUENCE_BITS as usize } else { 0 };
        Ok(Self {
            slots: match in_place {
                Some(symbols) => Slots::InPlace(symbols),
                None => Slots::Own(frame.slice(all * slot_words)?),
            },
            sums: frame.slice(all * SUMS_WORDS)?,
            group_bits: frame.slice(streams * groups_in_stream)?,
            starts: frame.slice(all * STARTS_WORDS)?,
            // Index blocks of 32 groups are cleared and read whole.
            live_bits: frame.slice(streams * groups_in_stream.next_multiple_of(32))?,
            free_bitmap: frame.slice(streams * groups_in_stream.div_ceil(32))?,
            descriptors: frame.slice(streams * groups_in_stream.div_ceil(32))?,
            // The end of a stream that fills its last subsequence exactly is noted too.
            gaps: frame.slice(gaps + 1)?,
            notes: frame.slice(if shape.notes_lengths() { all * noted_words(format, segment) } else { 1 })?,
        })
    }

    pub fn pointers(&mut self, stream: &Arc<CudaStream>) -> ScratchPointers {
        // All of it is used on this one stream, whose order is all the order there need be.
        ScratchPointers([
            self.sums.device_ptr_mut(stream).0,
            self.group_bits.device_ptr_mut(stream).0,
            self.starts.device_ptr_mut(stream).0,
            self.live_bits.device_ptr_mut(stream).0,
            self.free_bitmap.device_ptr_mut(stream).0,
            self.descriptors.device_ptr_mut(stream).0,
            self.gaps.device_ptr_mut(stream).0,
        ])
    }
}
