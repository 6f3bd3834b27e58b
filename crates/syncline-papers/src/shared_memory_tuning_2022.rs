//! Writing symbols with online tuning of shared memory: Rivera, Di, Tian, Yu, Tao, Cappello, "Optimizing Huffman
//! Decoding for Error-Bounded Lossy Compression on GPUs", IPDPS 2022 (Section IV, Algorithms 1 and 2; Figure 3 and
//! Table I).
//!
//! The last phase of [`self_sync_2022`](super::self_sync_2022) and [`gap_array_2022`](super::gap_array_2022): sequences
//! are sorted into classes by compression ratio, and each class is one launch with as much shared memory as it needs.
//! Launches `kernels/shared_memory_tuning_2022/decode.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::Symbol;

use crate::decode::subsequences::{EntryPoints, one_wave, resident};
use syncline_cuda::device::{Device, Frame, Grid, Specialization};
use syncline_cuda::device_kernels::{In, Out, declare_kernels, launch};
use syncline_cuda::error::{CudaError, DriverContext, Result};
use syncline_cuda::huffman::decode::prepare::Scratch;
use syncline_cuda::huffman::decode::{BatchTotals, Decoding, FORMATS, SEQUENCE, StreamDescriptor, constants};

declare_kernels! {
    /// The kernels of `kernels/shared_memory_tuning_2022/decode.cu`.
    struct TuningKernels in "shared_memory_tuning_2022/decode.cu",
        of (symbol_bytes: usize, group_log2: u32, pairs: bool), by (classes: u32)
    {
        with COMMON = constants(symbol_bytes, group_log2, pairs);
        with SEQUENCE = SEQUENCE;
        with THREADS = SEQUENCE;
        fn shared_memory_tuning_2022_count(
            streams: In<StreamDescriptor>, stream_count: u32, counts: In<u8>, totals: In<BatchTotals>,
            sequence_counts: Out<u32>,
        );
        fn shared_memory_tuning_2022_scan(
            streams: In<StreamDescriptor>, sequence_counts: In<u32>, starts: Out<u32>, status: Out<u32>,
        );
        fn shared_memory_tuning_2022_sort(
            sequence_counts: In<u32>, totals: In<BatchTotals>, order: Out<u32>, class_ends: Out<u32>,
        );
        fn shared_memory_tuning_2022_write(
            input: CUdeviceptr as "const uint8_t *", streams: CUdeviceptr as "const StreamDescriptor *",
            stream_count: u32, codebooks: CUdeviceptr as "const CodebookDescriptor *",
            tables: CUdeviceptr as "const uint32_t *", symbols: CUdeviceptr as "const uint16_t *",
            map: CUdeviceptr as "const uint32_t *", entries: CUdeviceptr as "const uint8_t *",
            counts: CUdeviceptr as "const uint8_t *", starts: CUdeviceptr as "const uint32_t *",
            order: CUdeviceptr as "const uint32_t *", class_ends: CUdeviceptr as "const uint32_t *", own_class: u32,
            room: u32, sums: CUdeviceptr as "uint32_t *", out: CUdeviceptr as "uint8_t *",
        );
    }
}

/// Static shared memory of a block in bytes, an upper bound: tables and the words of a sequence.
const STATIC_SHARED_MEMORY: u32 = 34 << 10;
/// Bytes of the buffer of the last class, whose sequences take several rounds.
const LAST_BUFFER: u32 = 38 << 10;
/// Bytes of symbols of a sequence with compression ratio 1.
const RATIO_BYTES: u32 = SEQUENCE * syncline_core::huffman::SUBSEQUENCE_BITS / 8;
/// Highest ratio with a class of its own; 16-bit symbols do not exceed it without zero-bit groups.
const HIGHEST_RATIO: u32 = 16;
/// Symbols that are added to the buffer of a class, because a sequence seldom starts at a 16-byte boundary.
const SLACK: u32 = 64;
const SORT_THREADS: u32 = 1024;

/// Returns the number of ratios with a class of their own (T_high in the paper) if this many blocks must fit a
/// multiprocessor.
fn highest_ratio(shared_memory: u32, blocks: u32) -> u32 {
    ((shared_memory / blocks).saturating_sub(STATIC_SHARED_MEMORY) / RATIO_BYTES).clamp(1, HIGHEST_RATIO)
}

/// The size of the shared-memory buffer for a sequence's symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferSize {
    /// Sized by the compression ratio of each sequence, as in the paper: one launch per class, each on its own stream.
    /// There is a class for each ratio up to which `blocks` blocks of 512 threads fit a multiprocessor; the paper uses
    /// a quarter of the threads, 1 block on an H200.
    Classes {
        /// Blocks per multiprocessor.
        blocks: u32,
    },
    /// The same size for all sequences, as in the paper's brute-force search.
    Fixed {
        /// Bytes of symbols.
        bytes: u32,
    },
}

/// Returns the bytes of the buffer of each class.
fn buffers(buffer: BufferSize, symbol_bytes: u32, shared_memory: u32) -> Vec<u32> {
    let most = shared_memory.saturating_sub(STATIC_SHARED_MEMORY);
    let whole = |bytes: u32| bytes.clamp(SLACK * symbol_bytes, most) / (SLACK * symbol_bytes) * (SLACK * symbol_bytes);
    match buffer {
        BufferSize::Fixed { bytes } => vec![whole(bytes)],
        BufferSize::Classes { blocks } => (1..=highest_ratio(shared_memory, blocks))
            .map(|ratio| whole(ratio * RATIO_BYTES + SLACK * symbol_bytes))
            .chain([whole(LAST_BUFFER)])
            .collect(),
    }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let classes = highest_ratio(shared_memory, 1) + 1;
    let of =
        |pairs| FORMATS.map(|(bytes, group_log2)| TuningKernels::specialization(bytes, group_log2, pairs, classes));
    [of(false), of(true)].concat()
}

/// The kernels and the streams of the classes.
#[derive(Debug, Clone)]
pub(super) struct TunedWriter {
    /// Kernels with lookups of single symbols, and in pairs. Only those that write symbols look them up.
    kernels: [TuningKernels; 2],
    /// Bytes of the buffer of each class.
    buffers: Vec<u32>,
    /// One stream per class except the first, which uses the caller's stream.
    streams: Vec<Arc<CudaStream>>,
    symbol_bytes: u32,
    multiprocessors: u32,
}

impl TunedWriter {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, buffer: BufferSize) -> Result<Self> {
        let info = device.info();
        if matches!(buffer, BufferSize::Classes { blocks: 0 } | BufferSize::Fixed { bytes: 0 }) {
            return Err(CudaError::invalid(
                "the buffer must not be empty, and there must be at least one block per multiprocessor",
            ));
        }
        let buffers = buffers(buffer, S::BYTES as u32, info.shared_memory_per_block);
        let load = |pairs| -> Result<TuningKernels> {
            let kernels = TuningKernels::load(device, S::BYTES, group_log2, pairs, buffers.len() as u32)?;
            let most = buffers.iter().copied().max().unwrap_or(0);
            kernels.shared_memory_tuning_2022_write.allow_shared_memory(most)?;
            Ok(kernels)
        };
        let new_stream = || device.context().new_stream().doing("making a stream");
        Ok(Self {
            kernels: [load(false)?, load(true)?],
            streams: (1..buffers.len()).map(|_| new_stream()).collect::<Result<_>>()?,
            buffers,
            symbol_bytes: S::BYTES as u32,
            multiprocessors: info.multiprocessors,
        })
    }

    /// Decodes and writes from the given entry points.
    pub fn write<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        decoding: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        entry_points: &EntryPoints<'_>,
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        if sizes.streams == 0 {
            return Ok(());
        }
        let sequences = sizes.sequences as usize;
        let mut sequence_counts = frame.slice::<u32>(sequences)?;
        let mut starts = frame.slice::<u32>(sequences)?;
        let mut order = frame.slice::<u32>(sequences)?;
        let mut class_ends = frame.slice::<u32>(self.buffers.len())?;
        let stream = frame.stream().clone();
        let counts = entry_points.counts.as_view();
        let kernels = &self.kernels[0];
        if sequences > 0 {
            let blocks = one_wave(
                resident(&kernels.shared_memory_tuning_2022_count, SEQUENCE, 0, self.multiprocessors)?,
                &sizes,
            );
            // SAFETY: a count for each subsequence and a sum for each sequence.
            unsafe {
                launch!(kernels.shared_memory_tuning_2022_count on &stream, Grid::new(blocks, SEQUENCE);
                    &decoding.batch.descriptors, sizes.streams, &counts, &decoding.batch.totals, &mut sequence_counts)
            }?;
        }
        let sequence_counts = sequence_counts.as_view();
        // SAFETY: a block and a status word for each stream, and a count and a start for each sequence.
        unsafe {
            launch!(kernels.shared_memory_tuning_2022_scan on &stream, Grid::new(sizes.streams, SEQUENCE);
                &decoding.batch.descriptors, &sequence_counts, &mut starts, decoding.status)
        }?;
        if sequences == 0 {
            return Ok(());
        }
        // SAFETY: a count and a place for each sequence, and an end for each class. Every sequence has one class.
        unsafe {
            launch!(kernels.shared_memory_tuning_2022_sort on &stream, Grid::new(1, SORT_THREADS); &sequence_counts,
                &decoding.batch.totals, &mut order, &mut class_ends)
        }?;
        self.write_classes(frame, decoding, scratch, entry_points, [&starts, &order, &class_ends])
    }

    /// Launches the classes, each on its own stream: these wait for the caller's stream before, and the caller's stream
    /// waits for them after.
    fn write_classes<S: Symbol + DeviceRepr>(
        &self,
        frame: &Frame<'_>,
        decoding: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        entry_points: &EntryPoints<'_>,
        sorted: [&CudaViewMut<'_, u32>; 3],
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        let stream = frame.stream();
        let kernels = &self.kernels[usize::from(sizes.pairs())];
        // Raw addresses, because views of one buffer would make the launches wait for each other. Events order them
        // instead, and they write to disjoint places.
        let [input, streams]: [CUdeviceptr; 2] =
            [decoding.input.device_ptr(stream).0, decoding.batch.descriptors.device_ptr(stream).0];
        let [codebooks, tables, symbols, map, entries, counts, starts, order, ends]: [CUdeviceptr; 9] = [
            decoding.batch.codebooks.device_ptr(stream).0,
            scratch.tables.as_view().device_ptr(stream).0,
            decoding.batch.symbols.device_ptr(stream).0,
            scratch.map.as_view().device_ptr(stream).0,
            entry_points.entries.as_view().device_ptr(stream).0,
            entry_points.counts.as_view().device_ptr(stream).0,
            sorted[0].as_view().device_ptr(stream).0,
            sorted[1].as_view().device_ptr(stream).0,
            sorted[2].as_view().device_ptr(stream).0,
        ];
        let [sums, output]: [CUdeviceptr; 2] =
            [scratch.sums.device_ptr_mut(stream).0, decoding.output.device_ptr_mut(stream).0];
        let ready = stream.record_event(None).doing("recording an event")?;
        let queue = |(class, &bytes): (usize, &u32)| {
            let own_stream = if class == 0 { stream } else { &self.streams[class - 1] };
            if class > 0 {
                own_stream.wait(&ready).doing("waiting for an event")?;
            }
            let own_class = class as u32;
            let room = bytes / self.symbol_bytes;
            let blocks = one_wave(
                resident(&kernels.shared_memory_tuning_2022_write, SEQUENCE, bytes, self.multiprocessors)?,
                &sizes,
            );
            let grid = Grid::new(blocks, SEQUENCE).shared_memory(bytes);
            // SAFETY: all arguments are views that this call holds, valid until the work queued on the frame's stream
            // is done, and that stream waits for this launch below. The kernel reads words within the bounds of the
            // descriptors, which `Decoding::check` compared with the buffers, and writes symbols only up to the number
            // of coded groups, to groups of the stream. The shared memory holds `room` symbols.
            unsafe {
                launch!(kernels.shared_memory_tuning_2022_write on own_stream, grid; input, streams, sizes.streams,
                    codebooks, tables, symbols, map, entries, counts, starts, order, ends, own_class, room, sums,
                    output)
            }
        };
        let queued: Result<()> = self.buffers.iter().enumerate().rev().try_for_each(queue);
        // Even after an error, since the memory may be reused when this returns: later work on the caller's stream must
        // come after these launches.
        self.streams.iter().try_for_each(|own_stream| stream.join(own_stream)).doing("waiting for classes")?;
        drop((decoding.input.device_ptr(stream), decoding.output.device_ptr_mut(stream)));
        queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_room_for_their_ratio() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for (blocks, symbol_bytes) in [(1, 1), (1, 2), (3, 2)] {
                let all = buffers(BufferSize::Classes { blocks }, symbol_bytes, shared_memory);
                let highest = all.len() - 1;
                assert_eq!(highest as u32, highest_ratio(shared_memory, blocks));
                for (class, &bytes) in all.iter().enumerate() {
                    assert!(bytes.is_multiple_of(SLACK * symbol_bytes) && bytes > 0, "{all:?}");
                    assert!(bytes + STATIC_SHARED_MEMORY <= shared_memory, "{all:?}");
                    let fits = (class as u32 + 1) * RATIO_BYTES <= shared_memory - STATIC_SHARED_MEMORY;
                    assert!(class == highest || !fits || bytes >= (class as u32 + 1) * RATIO_BYTES, "{all:?}");
                }
            }
        }
        // A quarter of a multiprocessor's threads is one block here: 193 KiB.
        assert_eq!(buffers(BufferSize::Classes { blocks: 1 }, 2, 227 << 10).len(), 17);
        assert_eq!(buffers(BufferSize::Classes { blocks: 3 }, 2, 227 << 10).len(), 6);
        assert_eq!(buffers(BufferSize::Fixed { bytes: 10_000 }, 2, 227 << 10), [9984]);
    }
}
