//! Encoding small batches in one launch: launchers of `kernels/huffman/encode/small.cu` and
//! `kernels/huffman/encode/whole.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::{IndexKind, SUBSEQUENCE_BITS, lengths};

use super::batch::{Batch, Encoded, SHORT_LIST, StreamSpan};
use super::books::Books;
use super::encoder::books_pointers;
use super::format::Format;
use crate::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::Result;
use crate::huffman::codebook_small::{COUNT_BYTES, SMALL_ALPHABET, block_constants, shared_and_tree};
use crate::huffman::histogram::Symbol;

const SOURCE: Source = source!("huffman/encode/small.cu");
const WHOLE: Source = source!("huffman/encode/whole.cu");
/// Threads of a block that has its codebooks: as few as have a lane for each of its groups, since what warps do once
/// takes as long as there are warps.
const GIVEN_THREADS: [u32; 2] = [512, 1024];
/// Threads of a block that makes its codebooks: one for each symbol.
const WHOLE_THREADS: u32 = 1024;
/// Streams of a small batch, at most: a lane looks at each.
const MOST_STREAMS: u32 = SHORT_LIST as u32;
/// Blocks at most: a thread looks at each.
const MOST_BLOCKS: u32 = 256;
/// Groups that are dealt out together, and symbols that a warp encodes at a time, and a lane.
const UNIT_GROUPS: u32 = 8;
const ROUND_SYMBOLS: u32 = 512;
const LANE_SYMBOLS: u32 = 16;
/// Words behind a warp's codewords.
const PAST_SLOT: u32 = 8;
/// Shared memory that a block has beside what is laid out here.
const OWN_SHARED_MEMORY: u32 = 12 << 10;
/// Words that a block says of itself, and those beside them (`state_words`).
const STATE_WORDS: u32 = 5 * 2 + 32;
const OTHER_WORDS: u32 = 6 * MOST_STREAMS + 2;
/// Words of a tree that blocks share, and of a stream beside those and its counts (`Together`).
const TREE_WORDS: u32 = 33;
const TOGETHER_WORDS: u32 = 1;
/// Symbols of a stream whose codebook is made on the way, and blocks that share it, are below these: both are in a
/// word.
const COUNTED_SYMBOLS: u64 = 1 << 24;
const COUNTING_BLOCKS: u32 = 1 << 8;
/// Trees of the largest size that a block makes at a time, and copies of its counters: clearing and adding up more
/// takes longer than they save.
const TREES_AT_ONCE: u32 = 3;
const COPIES: u32 = 1;
/// Largest alphabet whose codewords are in shared memory.
const MOST_ALPHABET: u32 = 4096;

/// Whether batches of this format may be small: a codebook a stream.
fn is_for(format: &Format) -> bool {
    !format.classes && format.alphabet <= MOST_ALPHABET
}

/// What the compile check compiles.
pub(super) fn specializations(format: &Format) -> Vec<Specialization> {
    let given = GIVEN_THREADS.iter().filter(|_| is_for(format)).map(|&threads| specialization(format, threads));
    given.chain(is_for_whole(format).then(|| whole_specialization(format))).collect()
}

/// Whether codebooks of this format are a block's.
fn is_for_whole(format: &Format) -> bool {
    is_for(format) && format.alphabet <= SMALL_ALPHABET
}

fn whole_specialization(format: &Format) -> Specialization {
    let mut constants = specialization(format, WHOLE_THREADS).constants;
    let own = block_constants(format.alphabet, WHOLE_THREADS);
    constants.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
    constants.extend(own);
    constants.extend([("COPIES", COPIES.into()), ("TREES_AT_ONCE", TREES_AT_ONCE.into())]);
    Specialization { source: WHOLE, constants }
}

/// Bytes of a block's memory for a codebook.
fn codebook_bytes(format: &Format) -> u32 {
    let (shared, tree) = shared_and_tree(format.alphabet, COUNT_BYTES);
    shared + TREES_AT_ONCE * tree
}

/// Bytes of a block's memory for the index: of each group, and of none (`INDEX_ROOM` and `PAST_INDEX_ROOM` in
/// huffman/encode/gaps_small.cuh).
fn index_room(format: &Format) -> (u32, u32) {
    match format.index {
        // Where each lane's symbols start, and a byte a subsequence.
        IndexKind::Gap => {
            (2 * format.group() / LANE_SYMBOLS + format.group() * format.longest() / SUBSEQUENCE_BITS, 16)
        }
        // The bits of the live groups.
        IndexKind::None | IndexKind::Symbol => (2, 0),
    }
}

fn specialization(format: &Format, threads: u32) -> Specialization {
    // The segment's size plays no part here.
    let mut constants = format.constants(4096);
    constants.extend([("INDEX", format.index as u64), ("THREADS", threads.into())]);
    Specialization { source: SOURCE, constants }
}

/// A stream and its blocks: `Stream` in huffman/encode/small.cuh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct ListedStream {
    /// Its first group, and above 48 bits the free symbol.
    first_group: u64,
    groups: u32,
    first_block: u16,
    blocks: u16,
}

/// The streams, and how blocks are dealt out to them: `StreamList` in huffman/encode/small.cuh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct StreamList {
    of: [ListedStream; SHORT_LIST],
    stream_of: [u8; MOST_BLOCKS as usize],
    streams: u32,
    /// Units of a block, but for a stream's last.
    most: u32,
}

// SAFETY: plain numbers, laid out as `StreamList` in huffman/encode/small.cuh.
unsafe impl DeviceRepr for StreamList {}

impl StreamList {
    /// Deals out at most so many blocks, each to one stream; a stream without groups has one too. `even`: no block has
    /// more than it must; otherwise the last of a stream has far less than the others. `None` if there are too few
    /// blocks, or too many streams.
    fn new(streams: &[StreamSpan], blocks: u32, even: bool) -> Option<Self> {
        let mut list = Self {
            of: [ListedStream::default(); SHORT_LIST],
            stream_of: [0; MOST_BLOCKS as usize],
            streams: streams.len() as u32,
            most: 1,
        };
        let units = |span: &StreamSpan| span.groups.div_ceil(UNIT_GROUPS);
        // Streams have a block each that is not full.
        let full = blocks.checked_sub(list.streams).filter(|&full| full > blocks / 2)?;
        let all: u64 = streams.iter().map(|span| u64::from(units(span))).sum();
        if streams.len() > SHORT_LIST || blocks > MOST_BLOCKS {
            return None;
        }
        list.most = u32::try_from(all.div_ceil(full.into())).ok()?.max(1);
        let wanted = |most: u32| -> u32 { streams.iter().map(|span| units(span).div_ceil(most).max(1)).sum() };
        while even && list.most > 1 && wanted(list.most - 1) <= blocks {
            list.most -= 1;
        }
        let mut end = 0;
        for (i, span) in streams.iter().enumerate() {
            let begin = end;
            end += units(span).div_ceil(list.most).max(1) as usize;
            list.stream_of[begin..end].fill(i as u8);
            list.of[i] = ListedStream {
                // Below 2^48, as has been checked.
                first_group: span.first_group | u64::from(span.free_symbol) << 48,
                groups: span.groups,
                first_block: begin as u16,
                blocks: (end - begin) as u16,
            };
        }
        Some(list)
    }

    fn blocks(&self) -> u32 {
        self.of[..self.streams as usize].iter().map(|stream| u32::from(stream.blocks)).sum()
    }
}

/// How a small batch is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    list: StreamList,
    threads: u32,
    /// Rounds of a warp.
    rounds: u32,
    /// Groups of a block.
    groups: u32,
    shared_memory: u32,
}

/// How at most so many blocks lay out these streams; `None` if they have no room. `whole`: codebooks are made on the
/// way.
fn plan(format: &Format, whole: bool, streams: &[StreamSpan], blocks: u32, shared_memory: u32) -> Option<Plan> {
    // Who writes the codebook, the last of a stream, does so before it encodes.
    let list = StreamList::new(streams, blocks, !whole)?;
    let is_counted = |span: &StreamSpan| u64::from(span.groups) * u64::from(format.group()) < COUNTED_SYMBOLS;
    if whole && !(list.blocks() < COUNTING_BLOCKS && streams.iter().all(is_counted)) {
        return None;
    }
    let groups = list.most.checked_mul(UNIT_GROUPS)?;
    // A thread for each, from a multiple of 32 on.
    let has_room = |threads: &&u32| groups <= **threads - 32;
    let threads = *if whole { &[WHOLE_THREADS][..] } else { &GIVEN_THREADS }.iter().find(has_room)?;
    let rounds = (groups * format.group()).div_ceil(ROUND_SYMBOLS).div_ceil(threads / 32);
    let slots = threads / 32 * (rounds * ROUND_SYMBOLS * format.longest() / 8 + 4 * PAST_SLOT);
    let kept = if whole { groups * format.group() * format.symbol_bytes } else { 0 };
    let area = if whole { slots.max(codebook_bytes(format)) } else { slots };
    let (of_group, past) = index_room(format);
    let wanted = 4 * format.alphabet + kept + (2 + of_group) * groups + past + area;
    (wanted <= shared_memory).then_some(Plan { list, threads, rounds, groups, shared_memory: wanted })
}

/// Where a codebook goes: `Made` in huffman/encode/whole.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct MadePointers([CUdeviceptr; 5]);

// SAFETY: five device addresses, as `Made` has.
unsafe impl DeviceRepr for MadePointers {}

/// Where streams go: `Result` in huffman/encode/small.cuh.
#[derive(Clone, Copy)]
#[repr(C)]
struct ResultPointers([CUdeviceptr; 3], u64);

// SAFETY: three device addresses and a number, as `Result` has.
unsafe impl DeviceRepr for ResultPointers {}

impl ResultPointers {
    fn new(encoded: &mut Encoded, stream: &Arc<CudaStream>) -> Self {
        let room = encoded.bytes.len() as u64;
        let Encoded { bytes, places, plans, .. } = encoded;
        let pointers =
            [plans.device_ptr_mut(stream).0, places.device_ptr_mut(stream).0, bytes.device_ptr_mut(stream).0];
        Self(pointers, room)
    }
}

/// The kernels, and what their blocks may have.
#[derive(Debug, Clone)]
pub(super) struct Small {
    /// For each of [`GIVEN_THREADS`].
    given: [Kernel; 2],
    /// Where codebooks are made on the way.
    whole: Option<Kernel>,
    format: Format,
    multiprocessors: u32,
    shared_memory: u32,
}

impl Small {
    /// For batches of this format; `None` if none is ever small.
    pub fn new(device: &Device, format: &Format) -> Result<Option<Self>> {
        if !is_for(format) {
            return Ok(None);
        }
        let shared_memory = device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY);
        let kernel = |specialization: &Specialization, name, threads| -> Result<Option<Kernel>> {
            let kernel = device.kernel(specialization, name)?;
            kernel.allow_shared_memory(shared_memory)?;
            Ok((kernel.blocks_per_multiprocessor(threads, shared_memory)? > 0).then_some(kernel))
        };
        let [fewer, more] =
            GIVEN_THREADS.map(|threads| kernel(&specialization(format, threads), "encode_small", threads));
        let (Some(fewer), Some(more)) = (fewer?, more?) else { return Ok(None) };
        let given = [fewer, more];
        let whole = || kernel(&whole_specialization(format), "encode_whole", WHOLE_THREADS);
        let whole = if is_for_whole(format) { whole()? } else { None };
        let multiprocessors = device.info().multiprocessors;
        Ok(Some(Self { given, whole, format: *format, multiprocessors, shared_memory }))
    }

    /// How to launch a batch that has its codebooks; `None` if it is not small.
    pub fn plan(&self, batch: &Batch) -> Option<Plan> {
        plan(&self.format, false, batch.short.as_deref()?, self.multiprocessors, self.shared_memory)
    }

    /// How to launch a batch whose codebooks are to be made; `None` if it is not small.
    pub fn plan_whole(&self, batch: &Batch) -> Option<(&Kernel, Plan)> {
        let kernel = self.whole.as_ref()?;
        let plan = plan(&self.format, true, batch.short.as_deref()?, self.multiprocessors, self.shared_memory)?;
        Some((kernel, plan))
    }

    /// Encodes the batch, whose plan it is; the caller has checked that everything was made for it.
    pub fn launch<S: Symbol>(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        books: &Books,
        encoded: &mut Encoded,
        plan: Plan,
    ) -> Result<&'static str> {
        let stream: Arc<CudaStream> = frame.stream().clone();
        let blocks = plan.list.blocks();
        let mut states = frame.counters((blocks * STATE_WORDS + OTHER_WORDS) as usize)?;
        let codewords = books.codebooks.codewords();
        let kernel = &self.given[usize::from(plan.threads > GIVEN_THREADS[0])];
        let launch = ProgrammaticDependentLaunch::new(kernel, &stream).cooperative(true).reads(input).value(plan.list);
        let launch = launch.reads(&codewords).value(books_pointers(books, &stream));
        let launch = launch.reads(&books.status).value(plan.rounds).value(plan.groups).writes(&mut states);
        let launch = launch.value(ResultPointers::new(encoded, &stream));
        // SAFETY: the kernel's parameters are (const u8 *, StreamList, const u32 *, Books, u32 *, u32, u32, u64 *,
        // Result); the status is only read. Spans lie within the input, as checked; the codebooks, plans and places are
        // this batch's. States are five 64-bit words and 32 of 32 bits for each block, and `OTHER_WORDS`; all are 0, as
        // each launch leaves them, and counters start where an allocation does. Shared memory is what the kernel lays
        // out: a table, a slot for each warp, for each group a number and what the index needs; a block has at most
        // `groups` groups, a warp `rounds` rounds: a block has at most `most` units of a stream. A stream is written
        // only where there is room for it. The launch is cooperative, so that blocks may wait for each other.
        unsafe { launch.launch(Kernel::grid(blocks, plan.threads, plan.shared_memory)) }?;
        Ok(kernel.name())
    }

    /// Makes the codebooks of the batch, whose kernel and plan for that these are, and encodes it; the caller has
    /// checked that everything was made for it.
    pub fn launch_whole<S: Symbol>(
        &self,
        kernel: &Kernel,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        books: &mut Books,
        encoded: &mut Encoded,
        plan: Plan,
    ) -> Result<()> {
        let stream: Arc<CudaStream> = frame.stream().clone();
        let blocks = plan.list.blocks();
        let of_stream = TOGETHER_WORDS + (lengths::FLOORS + 1) * TREE_WORDS + self.format.alphabet;
        let mut states = frame.counters((blocks * STATE_WORDS + OTHER_WORDS + MOST_STREAMS * of_stream) as usize)?;
        let Books { codebooks, summaries, bytes, status, .. } = books;
        let address = |words: &mut CudaSlice<u32>| words.device_ptr_mut(&stream).0;
        let (codewords, symbols, summary) = codebooks.parts();
        let made = MadePointers([
            address(codewords),
            symbols.device_ptr_mut(&stream).0,
            address(summary),
            address(summaries),
            bytes.device_ptr_mut(&stream).0,
        ]);
        let launch = ProgrammaticDependentLaunch::new(kernel, &stream).cooperative(true).reads(input).value(plan.list);
        let launch = launch.value(made).writes(status);
        let launch = launch.value(plan.rounds).value(plan.groups).writes(&mut states);
        let launch = launch.value(ResultPointers::new(encoded, &stream));
        // SAFETY: the kernel's parameters are (const u8 *, StreamList, Made, u32 *, u32, u32, u64 *, Result). As in
        // `launch`; a codebook is written where `Books::new` has room for it, behind the states are a word, the trees
        // and ALPHABET counts for each of `MOST_STREAMS` streams, 0 too, and shared memory has the symbols besides, and
        // where the slots are at least `codebook_bytes`.
        unsafe { launch.launch(Kernel::grid(blocks, plan.threads, plan.shared_memory)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_room() {
        let format =
            Format { symbol_bytes: 2, group_log2: 7, alphabet: 1024, classes: false, index: IndexKind::Symbol };
        let (blocks, shared_memory) = (132, (227 << 10) - OWN_SHARED_MEMORY);
        let spans = |groups: &[u32]| -> Vec<_> {
            groups.iter().map(|&groups| StreamSpan { first_group: 9, groups, free_symbol: 3 }).collect()
        };
        let of = |whole, groups: &[u32]| plan(&format, whole, &spans(groups), blocks, shared_memory);
        let mut ten_megabytes = vec![4096; 9];
        ten_megabytes.push(39_062 - 9 * 4096);
        let (given, whole) = (of(false, &ten_megabytes).unwrap(), of(true, &ten_megabytes).unwrap());
        assert_eq!((given.rounds, given.groups, given.list.blocks()), (5, 320, 124));
        assert_eq!((whole.rounds, whole.groups, whole.list.blocks()), (3, 328, 124));
        assert_eq!((given.threads, whole.threads), (512, 1024));
        assert_eq!(given.shared_memory, 4096 + 320 * 4 + 16 * (5 * 1024 + 32));
        assert_eq!(whole.shared_memory, 4096 + 328 * (256 + 4) + 32 * (3 * 1024 + 32));
        // More groups of a block than 512 threads have lanes for.
        let more = of(false, &[8192; 8]).unwrap();
        assert_eq!((more.groups, more.threads), (512, 1024));
        let least = of(true, &[0]).unwrap();
        assert_eq!((least.list.blocks(), least.groups), (1, 8));
        assert_eq!(least.shared_memory, 4096 + 8 * (256 + 4) + (32 * (1024 + 32)).max(codebook_bytes(&format)));
        assert!(of(false, &[1; 32]).is_some() && of(false, &[1; 33]).is_none());
        assert_eq!((of(true, &[8192; 10]), of(false, &[1 << 16; 3])), (None, None));
        // Gaps take a little more: of each group where its 8 lanes start, and 16 gaps at most, instead of the bits of
        // those that are live.
        let with_gaps = Format { index: IndexKind::Gap, ..format };
        for (whole, without) in [(false, given), (true, whole)] {
            let with = plan(&with_gaps, whole, &spans(&ten_megabytes), blocks, shared_memory).unwrap();
            let shared_memory = without.shared_memory + without.groups * (16 + 16 - 2) + 16;
            assert_eq!(with, Plan { shared_memory, ..without });
        }
        for count in 1..32 {
            let groups: Vec<u32> = (0..count).map(|i| i * 977 % 3001).collect();
            let Plan { list, threads, rounds, groups: room, .. } = of(false, &groups).unwrap();
            assert!(rounds * (threads / 32) * ROUND_SYMBOLS >= room * 128 && room <= threads - 32);
            assert!(list.blocks() <= blocks);
            for (i, &groups) in groups.iter().enumerate() {
                let (first, own) = (list.of[i].first_block, u32::from(list.of[i].blocks));
                let units = groups.div_ceil(UNIT_GROUPS);
                assert!(
                    own * list.most >= units && (own - 1) * list.most <= units,
                    "no block begins behind its stream"
                );
                assert!(
                    (first..first + list.of[i].blocks)
                        .all(|block| usize::from(list.stream_of[usize::from(block)]) == i)
                );
            }
        }
    }
}
