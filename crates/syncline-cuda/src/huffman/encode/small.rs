//! Encoding small batches in one launch: launchers of `kernels/huffman_encode_small.cu` and `kernels/huffman_encode_whole.cu`.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::{IndexKind, lengths};

use super::batch::{Batch, Encoded};
use super::books::Books;
use super::encoder::books_pointers;
use super::format::Format;
use crate::device::{Device, Frame, Kernel, Source, Specialization, Successive};
use crate::error::Result;
use crate::huffman::codebook_small::{COUNT_BYTES, SMALL_ALPHABET, block_constants, shared_and_tree};
use crate::huffman::histogram::Symbol;

const SOURCE: Source =
    Source { name: "huffman_encode_small.cu", text: include_str!("../../../kernels/huffman_encode_small.cu") };
const WHOLE: Source =
    Source { name: "huffman_encode_whole.cu", text: include_str!("../../../kernels/huffman_encode_whole.cu") };
const THREADS: u32 = 1024;
const WARPS: u32 = THREADS / 32;
/// Streams of a small batch, at most: a lane looks at each.
const MOST_STREAMS: u32 = 32;
/// Blocks at most: a thread looks at each.
const MOST_BLOCKS: u32 = 256;
/// Groups that are dealt out together, and symbols that a warp encodes at a time.
const UNIT_GROUPS: u32 = 8;
const ROUND_SYMBOLS: u32 = 512;
/// Words behind a warp's codewords.
const PAST_SLOT: u32 = 8;
/// Groups of a block at most: a thread for each, from a multiple of 32 on.
const MOST_GROUPS: u32 = THREADS - 32;
/// Shared memory that a block has beside what is laid out here.
const OWN_SHARED_MEMORY: u32 = 12 << 10;
/// Words that a block says of itself, and those beside them (`state_words`).
const STATE_WORDS: u32 = 5 * 2 + 32;
const OTHER_WORDS: u32 = 2 * MOST_STREAMS + 2;
/// Words of a tree that blocks share, and of a stream beside those and its counts (`Together`).
const TREE_WORDS: u32 = 33;
const TOGETHER_WORDS: u32 = 2;
/// Trees of the largest size that a block makes at a time, and copies of its counters.
const TREES_AT_ONCE: u32 = 3;
const COPIES: u32 = 4;
/// Largest alphabet whose codewords are in shared memory.
const MOST_ALPHABET: u32 = 4096;

/// Whether batches of this format may be small: no gap index, a codebook a stream.
fn is_for(format: &Format) -> bool {
    !format.classes && format.index != IndexKind::Gap && format.alphabet <= MOST_ALPHABET
}

/// What the compile check compiles.
pub(super) fn specializations(format: &Format) -> Vec<Specialization> {
    let given = is_for(format).then(|| specialization(format));
    given.into_iter().chain(is_for_whole(format).then(|| whole_specialization(format))).collect()
}

/// Whether codebooks of this format are a block's.
fn is_for_whole(format: &Format) -> bool {
    is_for(format) && format.alphabet <= SMALL_ALPHABET
}

fn whole_specialization(format: &Format) -> Specialization {
    let mut constants = specialization(format).constants;
    let own = block_constants(format.alphabet, THREADS);
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

fn specialization(format: &Format) -> Specialization {
    // The segment's size plays no part here.
    let mut constants = format.constants(4096);
    constants.extend([("INDEX", format.index as u64), ("THREADS", THREADS.into())]);
    Specialization { source: SOURCE, constants }
}

/// How a small batch is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// Rounds of a warp.
    rounds: u32,
    /// Groups of a block.
    groups: u32,
    shared_memory: u32,
}

/// How the blocks of `multiprocessors` lay out at most so many symbols in so many streams; `None` if they have no room. `whole`: codebooks are made on the way.
fn plan(
    format: &Format,
    whole: bool,
    streams: u32,
    symbols: u64,
    multiprocessors: u32,
    shared_memory: u32,
) -> Option<Plan> {
    if streams > MOST_STREAMS || multiprocessors > MOST_BLOCKS {
        return None;
    }
    // Streams have a block each that is not full.
    let full = multiprocessors.checked_sub(streams).filter(|&full| full > multiprocessors / 2)?;
    let unit = UNIT_GROUPS * format.group();
    let units = (symbols / u64::from(unit) + u64::from(streams)).div_ceil(full.into());
    let groups = u32::try_from(units).ok()?.checked_mul(UNIT_GROUPS).filter(|&groups| groups <= MOST_GROUPS)?;
    let rounds = (groups * format.group()).div_ceil(ROUND_SYMBOLS).div_ceil(WARPS);
    let slots = WARPS * (rounds * ROUND_SYMBOLS * format.longest() / 8 + 4 * PAST_SLOT);
    let kept = if whole { groups * format.group() * format.symbol_bytes } else { 0 };
    let area = if whole { slots.max(codebook_bytes(format)) } else { slots };
    let wanted = 4 * format.alphabet + kept + 2 * 2 * groups + area;
    (wanted <= shared_memory).then_some(Plan { rounds, groups, shared_memory: wanted })
}

/// Where a codebook goes: `Made` in huffman_encode_whole.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct MadePointers([CUdeviceptr; 5]);

// SAFETY: five device addresses, as `Made` has.
unsafe impl DeviceRepr for MadePointers {}

/// Where streams go: `Result` in huffman_encode_small.cuh.
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
    given: Kernel,
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
        let kernel = |specialization: &Specialization, name| -> Result<Option<Kernel>> {
            let kernel = device.kernel(specialization, name)?;
            kernel.allow_shared_memory(shared_memory)?;
            Ok((kernel.blocks_per_multiprocessor(THREADS, shared_memory)? > 0).then_some(kernel))
        };
        let Some(given) = kernel(&specialization(format), "encode_small")? else { return Ok(None) };
        let whole = || kernel(&whole_specialization(format), "encode_whole");
        let whole = if is_for_whole(format) { whole()? } else { None };
        let multiprocessors = device.info().multiprocessors;
        Ok(Some(Self { given, whole, format: *format, multiprocessors, shared_memory }))
    }

    /// How to launch a batch that has its codebooks; `None` if it is not small.
    pub fn plan(&self, batch: &Batch) -> Option<Plan> {
        plan(&self.format, false, batch.streams, batch.symbols, self.multiprocessors, self.shared_memory)
    }

    /// How to launch a batch whose codebooks are to be made; `None` if it is not small.
    pub fn plan_whole(&self, batch: &Batch) -> Option<(&Kernel, Plan)> {
        let kernel = self.whole.as_ref()?;
        let plan = plan(&self.format, true, batch.streams, batch.symbols, self.multiprocessors, self.shared_memory)?;
        Some((kernel, plan))
    }

    /// Encodes the batch, whose plan it is; the caller has checked that everything was made for it.
    pub fn launch<S: Symbol>(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        batch: &Batch,
        books: &Books,
        encoded: &mut Encoded,
        plan: Plan,
    ) -> Result<&'static str> {
        let stream: Arc<CudaStream> = frame.stream().clone();
        let blocks = self.multiprocessors;
        let mut states = frame.counters((blocks * STATE_WORDS + OTHER_WORDS) as usize)?;
        let codewords = books.codebooks.codewords();
        let launch = Successive::new(&self.given, &stream).together(true).reads(input).reads(&batch.spans);
        let launch = launch.value(batch.streams).reads(&codewords).value(books_pointers(books, &stream));
        let launch = launch.reads(&books.status).value(plan.rounds).value(plan.groups).writes(&mut states);
        let launch = launch.value(ResultPointers::new(encoded, &stream));
        // SAFETY: the kernel's parameters are (const u8 *, const Span *, u32, const u32 *, Books, u32 *, u32, u32, u64 *, Result); the status is only read. Spans lie within the
        // input, as checked; the codebooks, plans and places are this batch's. States are five 64-bit words and 32 of 32 bits for each block, and `OTHER_WORDS`; all are 0, as each launch leaves
        // them, and counters start where an allocation does. Shared memory is what the kernel lays out: a table, a slot for each warp, two numbers for each group; a block has at most
        // `groups` groups, a warp `rounds` rounds, as the symbols of all streams, rounded up to a unit each, come to over the blocks (`plan`). A stream is written only where there is
        // room for it. The launch is cooperative, so that blocks may wait for each other.
        unsafe { launch.launch(Kernel::grid(blocks, THREADS, plan.shared_memory)) }?;
        Ok(self.given.name())
    }

    /// Makes the codebooks of the batch, whose kernel and plan for that these are, and encodes it; the caller has checked that everything was made for it.
    #[expect(clippy::too_many_arguments, reason = "those of `launch`, and the kernel")]
    pub fn launch_whole<S: Symbol>(
        &self,
        kernel: &Kernel,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        batch: &Batch,
        books: &mut Books,
        encoded: &mut Encoded,
        plan: Plan,
    ) -> Result<()> {
        let stream: Arc<CudaStream> = frame.stream().clone();
        let blocks = self.multiprocessors;
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
        let launch = Successive::new(kernel, &stream).together(true).reads(input).reads(&batch.spans);
        let launch = launch.value(batch.streams).value(made).writes(status);
        let launch = launch.value(plan.rounds).value(plan.groups).writes(&mut states);
        let launch = launch.value(ResultPointers::new(encoded, &stream));
        // SAFETY: the kernel's parameters are (const u8 *, const Span *, u32, Made, u32 *, u32, u32, u64 *, Result). As in `launch`; a codebook is written where `Books::new` has room for it,
        // behind the states are two words, the trees and ALPHABET counts for each of `MOST_STREAMS` streams, 0 too, and shared memory has the symbols besides, and where the slots are
        // at least `codebook_bytes`.
        unsafe { launch.launch(Kernel::grid(blocks, THREADS, plan.shared_memory)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_room() {
        let format =
            Format { symbol_bytes: 2, group_log2: 7, alphabet: 1024, classes: false, index: IndexKind::Symbol };
        let (multiprocessors, shared_memory) = (132, (227 << 10) - OWN_SHARED_MEMORY);
        let of = |streams, symbols| plan(&format, false, streams, symbols, multiprocessors, shared_memory);
        let whole = |streams, symbols| plan(&format, true, streams, symbols, multiprocessors, shared_memory);
        let ten_megabytes = of(10, 5_000_000).unwrap();
        assert_eq!((ten_megabytes.rounds, ten_megabytes.groups), (3, 328));
        let kept = whole(10, 5_000_000).unwrap();
        assert_eq!(kept.shared_memory, ten_megabytes.shared_memory + 328 * 256);
        assert_eq!(
            whole(1, 0).unwrap().shared_memory,
            4096 + 8 * (256 + 4) + (32 * (1024 + 32)).max(codebook_bytes(&format))
        );
        assert_eq!(whole(10, 10_000_000), None);
        assert!(of(1, 0).is_some() && of(32, 1 << 20).is_some());
        assert_eq!((of(33, 1 << 20), of(10, 1 << 24)), (None, None));
        for symbols in (0..12_000_000).step_by(77_777) {
            if let Some(plan) = of(7, symbols) {
                let units = symbols.div_ceil(1024) + 7;
                assert!(u64::from(plan.groups / UNIT_GROUPS) * 125 >= units - 7, "{symbols}");
                assert!(plan.rounds * WARPS * ROUND_SYMBOLS >= plan.groups * 128 && plan.groups <= MOST_GROUPS);
            }
        }
    }
}
