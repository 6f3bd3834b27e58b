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
use syncline_cuda::device::{Device, Frame, Kernel, Source, Specialization, source};
use syncline_cuda::error::{CudaError, DriverContext, Result};
use syncline_cuda::huffman::decode::prepare::Scratch;
use syncline_cuda::huffman::decode::{Decoding, FORMATS, SEQUENCE, constants};

const SOURCE: Source = source!("shared_memory_tuning_2022/decode.cu");

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

fn specialization(symbol_bytes: usize, group_log2: u32, pairs: bool, classes: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, pairs);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into())]);
    constants.push(("CLASSES", classes.into()));
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let classes = highest_ratio(shared_memory, 1) + 1;
    let of = |pairs| FORMATS.map(|(bytes, group_log2)| specialization(bytes, group_log2, pairs, classes));
    [of(false), of(true)].concat()
}

/// The kernels and the streams of the classes.
#[derive(Debug, Clone)]
pub(super) struct TunedWriter {
    counts: Kernel,
    starts: Kernel,
    order: Kernel,
    /// Writing kernels with lookups of single symbols, and in pairs.
    write: [Kernel; 2],
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
        let specialization = |pairs| specialization(S::BYTES, group_log2, pairs, buffers.len() as u32);
        let kernel = |name| device.kernel(&specialization(false), name);
        let write = |pairs| -> Result<Kernel> {
            let kernel = device.kernel(&specialization(pairs), "shared_memory_tuning_2022_write")?;
            kernel.allow_shared_memory(buffers.iter().copied().max().unwrap_or(0))?;
            Ok(kernel)
        };
        let new_stream = || device.context().new_stream().doing("making a stream");
        Ok(Self {
            counts: kernel("shared_memory_tuning_2022_count")?,
            starts: kernel("shared_memory_tuning_2022_scan")?,
            order: kernel("shared_memory_tuning_2022_sort")?,
            write: [write(false)?, write(true)?],
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
        if sequences > 0 {
            let mut launch = self.counts.launch_on(&stream);
            launch.arg(&decoding.batch.descriptors).arg(&sizes.streams).arg(&counts).arg(&decoding.batch.totals);
            launch.arg(&mut sequence_counts);
            let blocks = one_wave(resident(&self.counts, SEQUENCE, 0, self.multiprocessors)?, &sizes);
            // SAFETY: the kernel's parameters are (const StreamDescriptor *, u32, const u8 *, const BatchTotals *, u32
            // *), with a count for each subsequence and a sum for each sequence.
            unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, 0)) }?;
        }
        let sequence_counts = sequence_counts.as_view();
        let mut launch = self.starts.launch_on(&stream);
        launch.arg(&decoding.batch.descriptors).arg(&sequence_counts).arg(&mut starts).arg(&mut *decoding.status);
        // SAFETY: the kernel's parameters are (const StreamDescriptor *, const u32 *, u32 *, u32 *), with a block and a
        // status word for each stream, and a count and a start for each sequence.
        unsafe { launch.launch(Kernel::grid(sizes.streams, SEQUENCE, 0)) }?;
        if sequences == 0 {
            return Ok(());
        }
        let mut launch = self.order.launch_on(&stream);
        launch.arg(&sequence_counts).arg(&decoding.batch.totals).arg(&mut order).arg(&mut class_ends);
        // SAFETY: the kernel's parameters are (const u32 *, const BatchTotals *, u32 *, u32 *), with a count and a
        // place for each sequence, and an end for each class. Every sequence has one class.
        unsafe { launch.launch(Kernel::grid(1, SORT_THREADS, 0)) }?;
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
        let kernel = &self.write[usize::from(sizes.pairs())];
        // Raw addresses, because views of one buffer would make the launches wait for each other. Events order them
        // instead, and they write to disjoint places.
        let before: [CUdeviceptr; 2] =
            [decoding.input.device_ptr(stream).0, decoding.batch.descriptors.device_ptr(stream).0];
        let after: [CUdeviceptr; 9] = [
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
        let written: [CUdeviceptr; 2] =
            [scratch.sums.device_ptr_mut(stream).0, decoding.output.device_ptr_mut(stream).0];
        let ready = stream.record_event(None).doing("recording an event")?;
        let queue = |(class, &bytes): (usize, &u32)| {
            let own_stream = if class == 0 { stream } else { &self.streams[class - 1] };
            if class > 0 {
                own_stream.wait(&ready).doing("waiting for an event")?;
            }
            let own_class = class as u32;
            let room = bytes / self.symbol_bytes;
            let mut launch = kernel.launch_on(&own_stream);
            before.iter().for_each(|pointer| {
                launch.arg(pointer);
            });
            launch.arg(&sizes.streams);
            after.iter().for_each(|pointer| {
                launch.arg(pointer);
            });
            launch.arg(&own_class).arg(&room).arg(&written[0]).arg(&written[1]);
            let blocks = one_wave(resident(kernel, SEQUENCE, bytes, self.multiprocessors)?, &sizes);
            // SAFETY: the kernel's parameters are (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor
            // *, const u32 *, const u16 *, const u32 *, const u8 *, const u8 *, const u32 *, const u32 *, const u32 *,
            // u32, u32, u32 *, u8 *). All arguments are views that this call holds, valid until the work queued on the
            // frame's stream is done, and that stream waits for this launch below. The kernel reads words within the
            // bounds of the descriptors, which `Decoding::check` compared with the buffers, and writes symbols only up
            // to the number of live groups, to groups of the stream. The shared memory holds `room` symbols.
            unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, bytes)) }?;
            Ok(())
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
