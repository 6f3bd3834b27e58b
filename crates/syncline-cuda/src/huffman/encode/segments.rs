//! The kernels that encode segments, and the constants of the kernels after them.

use super::format::Format;
use crate::device::{Source, Specialization, source};
use crate::device_kernels::{In, Out, declare_kernels};
use crate::huffman::encode::StreamPlan;
use crate::huffman::encode::structs::{CodebookArrays, EncodeScratch, SegmentSums, StreamInput};
use cudarc::driver::sys::CUdeviceptr;

declare_kernels! {
    /// The kernel of `kernels/huffman/encode/segments.cu`.
    pub(super) struct SegmentKernels in "huffman/encode/segments.cu", of (kernel: &SegmentKernel, format: &Format) {
        with FORMAT = format.constants(kernel.segment);
        with THREADS = kernel.threads;
        with OWN = kernel.constants.to_vec();
        fn segments_encode(
            symbols: CUdeviceptr as "const uint8_t *", inputs: In<StreamInput>, all_codewords: In<u32>,
            codebooks_used: In<u32>, classes: Option<In<u8>>, segments_in_stream: u32,
            slots: CUdeviceptr as "uint32_t *", sums: Out<SegmentSums>, group_bits: Out<u16>,
        );
    }
}

declare_kernels! {
    /// The kernels of `kernels/huffman/encode/streams.cu`.
    pub(super) struct StreamKernels in "huffman/encode/streams.cu", of (segment: u32, format: &Format) {
        with FORMAT = format.constants(segment);
        with INDEX = format.index as u32;
        with THREADS = LAYOUT_THREADS;
        with WRITE_THREADS = WRITE_THREADS;
        fn streams_lay_out(
            inputs: In<StreamInput>, codebooks: CodebookArrays, all: EncodeScratch, segments_in_stream: u32,
            status: In<u32>, plans: Out<StreamPlan>, offsets: Out<u64>, blocks_done: Out<u32>,
        );
        fn streams_write(
            plans: Out<StreamPlan>, codebooks: CodebookArrays, all: EncodeScratch,
            all_slots: CUdeviceptr as "const uint32_t *", slots_in_stream: u64,
            inputs: CUdeviceptr as "const StreamInput *", segments_in_stream: u32, offsets: In<u64>, out: Out<u8>,
            out_bytes: u64, blocks_in_stream: u32,
        );
    }
}

/// Name of Syncline's own kernel in huffman/encode/segments.cu.
pub(super) const SEGMENTS_ENCODE: &str = "segments_encode";
/// Threads of a block that computes the layout of a stream.
pub(super) const LAYOUT_THREADS: u32 = 1024;
/// Threads of a block that writes streams.
pub(super) const WRITE_THREADS: u32 = 256;
/// Threads of a block that encodes segments, and resident blocks per multiprocessor.
const THREADS: u32 = 256;
const RESIDENT_BLOCKS: u32 = 4;
/// Symbols of a segment in large, medium and small inputs. Small inputs need short segments to occupy the device.
const SEGMENT_SYMBOLS: [u32; 3] = [8192, 4096, 2048];
/// Words of a warp's bit buffer in huffman/encode/segments.cu.
const BUFFER_WORDS: u32 = 4 * 128 + 16;
/// Maximum shared memory of a block in bytes, which every device has.
const MAX_SHARED_MEMORY: u32 = 64 << 10;

/// A kernel that encodes segments, with its launch parameters. They change its speed but not the bytes of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentKernel {
    /// The source file.
    pub source: Source,
    /// Name of the kernel.
    pub name: &'static str,
    /// Symbols of a segment.
    pub segment: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Segments that a block encodes.
    pub segments_in_block: u32,
    /// Dynamic shared memory of a block in bytes.
    pub shared_memory: u32,
    /// Constants in addition to those of the format and `THREADS`.
    pub constants: [(&'static str, u64); 2],
}

impl SegmentKernel {
    /// Returns Syncline's own kernel with segments of `segment` symbols.
    pub(super) fn new(format: &Format, segment: u32) -> Self {
        // The bit buffer of each warp, and the bits of its groups.
        let buffers = THREADS / 32 * (4 * BUFFER_WORDS + segment / format.group() * 2);
        let table = format.class_count() * format.alphabet * 4;
        let shared_table = buffers + table <= MAX_SHARED_MEMORY;
        Self {
            source: source!("huffman/encode/segments.cu"),
            name: SEGMENTS_ENCODE,
            segment,
            threads: THREADS,
            segments_in_block: THREADS / 32,
            shared_memory: buffers + if shared_table { table } else { 0 },
            constants: [("RESIDENT_BLOCKS", RESIDENT_BLOCKS.into()), ("SHARED_TABLE", shared_table.into())],
        }
    }

    /// Returns the specialization of this kernel, which has the parameters of Syncline's own.
    pub(super) fn specialization(&self, format: &Format) -> Specialization {
        SegmentKernels::specialization(self, format).with_kernel(self.source, SEGMENTS_ENCODE, self.name)
    }

    /// Returns the specializations for the compile check.
    pub fn specializations(&self, format: &Format) -> Vec<Specialization> {
        vec![self.specialization(format), StreamKernels::specialization(self.segment, format)]
    }
}

/// Returns Syncline's own kernels for large, medium and small inputs.
pub(super) fn kernels(format: &Format) -> [SegmentKernel; 3] {
    SEGMENT_SYMBOLS.map(|segment| SegmentKernel::new(format, segment))
}
