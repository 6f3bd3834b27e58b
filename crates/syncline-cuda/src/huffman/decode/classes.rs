//! Writing symbols with shared memory tuned by compression ratio, a launch a class: launcher of `kernels/huffman_decode_classes.cu`.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, PushKernelArg};
use syncline_core::huffman::Symbol;

use super::gap::{GapTuning, Known, MOST_BUFFER_BYTES, OWN_SHARED_MEMORY, Room, Step};
use super::{Decoding, SEQUENCE, SHAPES, Scratch, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_decode_classes.cu", text: include_str!("../../../kernels/huffman_decode_classes.cu") };

/// Bytes of symbols that a sequence of compression ratio 1 has: those of its codewords.
const RATIO_BYTES: u32 = SEQUENCE * syncline_core::huffman::SUBSEQUENCE_BITS / 8;
/// Highest ratio with a class of its own: 16-bit symbols without free groups go no higher.
const HIGHEST_RATIO: u32 = 16;
/// Symbols more than its ratio's that a class has room for, since a sequence seldom starts where a unit of 16 bytes does.
const SLACK: u32 = 64;
const SORT_THREADS: u32 = 1024;

/// Ratios with a class of their own if so many blocks are to fit a multiprocessor: what the paper calls T_high.
fn highest_ratio(shared_memory: u32, blocks: u32) -> u32 {
    ((shared_memory / blocks).saturating_sub(OWN_SHARED_MEMORY) / RATIO_BYTES).clamp(1, HIGHEST_RATIO)
}

/// Bytes of the buffer of each class.
fn buffers(room: Room, symbol_bytes: u32, shared_memory: u32) -> Vec<u32> {
    let most = shared_memory.saturating_sub(OWN_SHARED_MEMORY);
    let whole = |bytes: u32| bytes.clamp(SLACK * symbol_bytes, most) / (SLACK * symbol_bytes) * (SLACK * symbol_bytes);
    match room {
        Room::Mean => Vec::new(),
        Room::Fixed { bytes } => vec![whole(bytes)],
        Room::Classes { blocks } => (1..=highest_ratio(shared_memory, blocks))
            .map(|ratio| whole(ratio * RATIO_BYTES + SLACK * symbol_bytes))
            .chain([whole(MOST_BUFFER_BYTES as u32)])
            .collect(),
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, known: bool, pairs: bool, classes: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, pairs);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into())]);
    constants.extend([("ENTRIES", known.into()), ("CLASSES", classes.into())]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let classes = highest_ratio(shared_memory, 1) + 1;
    let of = |known, pairs| {
        SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, known, pairs, classes)).to_vec()
    };
    [of(false, false), of(false, true), of(true, false), of(true, true)].concat()
}

/// The kernels, for long codewords or for short.
#[derive(Debug, Clone)]
struct Kernels {
    counts: Kernel,
    starts: Kernel,
    order: Kernel,
    write: Kernel,
    /// Blocks that the device runs at a time: counting, and writing each class.
    counting_blocks: u32,
    writing_blocks: Vec<u32>,
}

/// Launches that write symbols given where subsequences start, class by class.
#[derive(Debug, Clone)]
pub(super) struct ClassWriting {
    kernels: [Kernels; 2],
    /// Bytes of the buffer of each class.
    buffers: Vec<u32>,
    /// A stream for each class but the first, whose launch is on the caller's.
    streams: Vec<Arc<CudaStream>>,
    pairs: Option<bool>,
    symbol_bytes: u32,
}

/// What is found out about sequences.
struct Found<'a> {
    counts: CudaViewMut<'a, u16>,
    sequence_counts: CudaViewMut<'a, u32>,
    starts: CudaViewMut<'a, u32>,
    order: CudaViewMut<'a, u32>,
    class_ends: CudaViewMut<'a, u32>,
}

impl ClassWriting {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, known: bool, tuning: GapTuning) -> Result<Self> {
        let info = device.info();
        if matches!(tuning.room, Room::Classes { blocks: 0 } | Room::Fixed { bytes: 0 }) || !tuning.staged {
            return Err(CudaError::invalid("classes need room, and at least a block to a multiprocessor"));
        }
        if tuning.threads != SEQUENCE {
            return Err(CudaError::invalid("with classes a thread has a subsequence"));
        }
        let buffers = buffers(tuning.room, S::BYTES as u32, info.shared_memory_per_block);
        let kernels = |pairs| -> Result<Kernels> {
            let specialization = specialization(S::BYTES, group_log2, known, pairs, buffers.len() as u32);
            let kernel = |name| device.kernel(&specialization, name);
            let (counts, write) = (kernel("class_counts")?, kernel("class_write")?);
            write.allow_shared_memory(buffers.iter().copied().max().unwrap_or(0))?;
            let resident = |kernel: &Kernel, bytes: u32| -> Result<u32> {
                Ok(kernel.blocks_per_multiprocessor(SEQUENCE, bytes)?.max(1) * info.multiprocessors)
            };
            let writing_blocks = buffers.iter().map(|&bytes| resident(&write, bytes)).collect::<Result<_>>()?;
            let counting_blocks = resident(&counts, 0)?;
            let (starts, order) = (kernel("class_starts")?, kernel("class_order")?);
            Ok(Kernels { counts, starts, order, write, counting_blocks, writing_blocks })
        };
        let kernels = [kernels(false)?, kernels(true)?];
        let streams = (1..buffers.len())
            .map(|_| device.context().new_stream().doing("making a stream"))
            .collect::<Result<_>>()?;
        Ok(Self { kernels, buffers, streams, pairs: tuning.pairs, symbol_bytes: S::BYTES as u32 })
    }

    /// Decodes all sequences; `known` as the kernels were made for.
    pub fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        known: Option<Known<'_, '_>>,
        step: Step<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        if totals.sequences == 0 {
            return Ok(());
        }
        let sequences = totals.sequences as usize;
        let kernels = &self.kernels[usize::from(self.pairs.unwrap_or(totals.pairs()))];
        let own_counts = if known.is_some() { 1 } else { totals.subsequences as usize };
        let mut found = Found {
            counts: frame.slice(own_counts)?,
            sequence_counts: frame.slice(sequences)?,
            starts: frame.slice(sequences)?,
            order: frame.slice(sequences)?,
            class_ends: frame.slice(self.buffers.len())?,
        };
        self.count(frame, work, scratch, known.as_ref(), kernels, &mut found)?;
        step("output index")?;
        let mut launch = frame.stream().launch_builder(kernels.order.function());
        let sequence_counts = found.sequence_counts.as_view();
        launch.arg(&sequence_counts).arg(&totals.sequences).arg(&mut found.order).arg(&mut found.class_ends);
        // SAFETY: parameters (const u32 *, u32, u32 *, u32 *): a count and a place for each sequence, an end for each class. Every sequence has one class.
        unsafe { launch.launch(Kernel::grid(1, SORT_THREADS, 0)) }.doing("sorting sequences by class")?;
        step("tuning")?;
        self.write(frame, work, scratch, known.as_ref(), kernels, &mut found)?;
        step("decoding and writing")
    }

    fn count<S: Symbol + DeviceRepr>(
        &self,
        frame: &Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        known: Option<&Known<'_, '_>>,
        kernels: &Kernels,
        found: &mut Found<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        let tables = scratch.tables.as_view();
        let mut launch = frame.stream().launch_builder(kernels.counts.function());
        launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
        launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols).arg(&totals.sequences);
        match known {
            Some(known) => launch.arg(known.counts),
            None => launch.arg(&mut found.counts),
        };
        launch.arg(&mut found.sequence_counts);
        let blocks = kernels.counting_blocks.min(totals.sequences);
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, u32, u16 *, u32 *). Words and gaps are read within what
        // the descriptors say (`Decoding::check`); a count for each subsequence, in whole sequences, only read if they are known, and one for each sequence.
        unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, 0)) }.doing("counting symbols")?;
        let sequence_counts = found.sequence_counts.as_view();
        let mut launch = frame.stream().launch_builder(kernels.starts.function());
        launch.arg(&work.batch.descriptors).arg(&sequence_counts).arg(&mut found.starts).arg(&mut *work.status);
        // SAFETY: parameters (const Stream *, const u32 *, u32 *, u32 *): a block and a word of status for each stream, a count and a start for each sequence.
        unsafe { launch.launch(Kernel::grid(totals.streams, SEQUENCE, 0)) }.doing("adding up sequences")?;
        Ok(())
    }

    /// A launch a class, each on a stream of its own, which waits for what is before and which the caller's stream then waits for.
    fn write<S: Symbol + DeviceRepr>(
        &self,
        frame: &Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        known: Option<&Known<'_, '_>>,
        kernels: &Kernels,
        found: &mut Found<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        let stream = frame.stream();
        // Addresses, since views of one buffer would make the launches wait for one another. They are ordered by events instead, and write different places.
        let no_entries: CUdeviceptr = 0;
        let pointers: [CUdeviceptr; 12] = [
            work.input.device_ptr(stream).0,
            work.batch.descriptors.device_ptr(stream).0,
            work.batch.books.device_ptr(stream).0,
            scratch.tables.as_view().device_ptr(stream).0,
            work.batch.symbols.device_ptr(stream).0,
            scratch.map.as_view().device_ptr(stream).0,
            known.map_or(no_entries, |known| known.entries.device_ptr(stream).0),
            known.map_or_else(|| found.counts.device_ptr_mut(stream).0, |known| known.counts.device_ptr(stream).0),
            found.starts.as_view().device_ptr(stream).0,
            found.order.as_view().device_ptr(stream).0,
            found.class_ends.as_view().device_ptr(stream).0,
            scratch.sums.device_ptr_mut(stream).0,
        ];
        let output = work.output.device_ptr_mut(stream).0;
        let ready = stream.record_event(None).doing("recording an event")?;
        for (class, &bytes) in self.buffers.iter().enumerate().rev() {
            let own_stream = if class == 0 { stream } else { &self.streams[class - 1] };
            if class > 0 {
                own_stream.wait(&ready).doing("waiting for an event")?;
            }
            let own_class = class as u32;
            let room = bytes / self.symbol_bytes;
            let [input, descriptors, books, tables, symbols, map, entries, counts, starts, order, ends, sums] =
                &pointers;
            let mut launch = own_stream.launch_builder(kernels.write.function());
            launch.arg(input).arg(descriptors).arg(&totals.streams).arg(books).arg(tables).arg(symbols).arg(map);
            launch.arg(entries).arg(counts).arg(starts).arg(order).arg(ends).arg(&own_class).arg(&room);
            launch.arg(sums).arg(&output);
            let blocks = kernels.writing_blocks[class].min(totals.sequences);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const u32 *, const u8 *, const u16 *, const u32 *,
            // const u32 *, const u32 *, u32, u32, u32 *, u8 *). All are views that this call holds, valid until the work queued on the frame's stream is done,
            // and that stream waits below for this launch. `room` symbols of shared memory; symbols go to groups within the stream; entries are null only for the kernel
            // that does not use them.
            unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, bytes)) }.doing("decoding a class")?;
            if class > 0 {
                stream.join(own_stream).doing("waiting for a class")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_room_for_their_ratio() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for (blocks, symbol_bytes) in [(1, 1), (1, 2), (3, 2)] {
                let all = buffers(Room::Classes { blocks }, symbol_bytes, shared_memory);
                let highest = all.len() - 1;
                assert_eq!(highest as u32, highest_ratio(shared_memory, blocks));
                for (class, &bytes) in all.iter().enumerate() {
                    assert!(bytes.is_multiple_of(SLACK * symbol_bytes) && bytes > 0, "{all:?}");
                    assert!(bytes + OWN_SHARED_MEMORY <= shared_memory, "{all:?}");
                    let fits = (class as u32 + 1) * RATIO_BYTES <= shared_memory - OWN_SHARED_MEMORY;
                    assert!(class == highest || !fits || bytes >= (class as u32 + 1) * RATIO_BYTES, "{all:?}");
                }
            }
        }
        // A quarter of a multiprocessor's threads is one block here: 188 KiB.
        assert_eq!(buffers(Room::Classes { blocks: 1 }, 2, 227 << 10).len(), 17);
        assert_eq!(buffers(Room::Classes { blocks: 3 }, 2, 227 << 10).len(), 5);
        assert_eq!(buffers(Room::Fixed { bytes: 10_000 }, 2, 227 << 10), [9984]);
    }
}
