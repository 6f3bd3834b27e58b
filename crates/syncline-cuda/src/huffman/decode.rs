//! Huffman decoders on the GPU, for batches of streams: launchers of `kernels/huffman/decode/`.
//!
//! The host parses streams ([`Stream::parse`](syncline_core::huffman::Stream::parse)) and describes them ([`Batch`]),
//! or the device does ([`Parser`]); codewords, index and bitmap stay on the device and are not trusted: what does not
//! fit is reported in a status word for each stream ([`status_text`]).

#![allow(unsafe_code)]

pub(crate) mod batch;
mod chunked;
mod classes;
mod gap;
mod indexed;
pub(crate) mod parse;
mod self_sync;
mod spans;

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use cudarc::driver::{CudaView, CudaViewMut, DevicePtr, DeviceRepr};
use syncline_core::huffman::lengths::MAX_LENGTH;
use syncline_core::huffman::{Decoder, Symbol};

pub use batch::{Batch, BatchStream, BatchView};
pub use chunked::Chunked;
pub use classes::Room;
pub use gap::{Gap, Writing};
pub use indexed::{Indexed, IndexedTuning};
pub use parse::{Limits, Parser, StreamPlace};
pub use self_sync::{SelfSync, SelfSyncTuning};
pub use spans::SpansTuning;

use crate::device::{Arena, Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, Result};

/// Live groups in a block of the symbol index.
const INDEX_BLOCK: u32 = 32;
/// Subsequences in a sequence: what a block of the gap and self-synchronizing decoders works on.
const SEQUENCE: u32 = 512;
/// Groups of a stream that a block of `decode_prepare` places.
const PLACED_GROUPS: u32 = 1024;
/// Bits that a table lookup takes.
pub(crate) const TABLE_BITS: u32 = 12;
/// Words of a codebook's tables: for lookups, for long codewords (`BOOK_WORDS` of `huffman/decode/decode.cuh`).
const BOOK_WORDS: usize = (1 << TABLE_BITS) + LONG_ENTRIES as usize;
/// Entries of a codebook's tables for counting (`COUNTS` and `ENDS` there).
const COUNT_ENTRIES: usize = (1 << 14) + (1 << TABLE_BITS);
/// Entries for codewords longer than a lookup.
pub(crate) const LONG_ENTRIES: u32 = 2048;
/// Blocks that build a codebook's tables: more where there are few codebooks, so that the device is full.
const TABLE_BLOCKS: RangeInclusive<u32> = 16..=64;
/// Blocks that build tables, about.
const ALL_TABLE_BLOCKS: u32 = 1024;
/// Threads of the preparing kernels' blocks.
const PREPARE_THREADS: u32 = 256;

const PREPARE: Source = source!("huffman/decode/prepare.cu");

/// What a status word says, or `None` if it is 0 and the stream's symbols are right.
pub fn status_text(status: u32) -> Option<&'static str> {
    match status {
        0 => None,
        s if s & STATUS_HEADER != 0 => Some("its header contradicts itself or the bytes that are there"),
        s if s & STATUS_BOOK != 0 => Some("its codebooks are not those of complete codes"),
        s if s & STATUS_ROOM != 0 => Some("it has more groups than there should be"),
        s if s & STATUS_CLASS != 0 => Some("a group's class has no codewords"),
        s if s & STATUS_INDEX != 0 => Some("the index does not fit the codewords"),
        s if s & STATUS_COUNT != 0 => Some("the codewords are not as many as the symbols"),
        _ => Some("the decoded symbols do not match their checksum"),
    }
}

/// The bits of a status word, as in `huffman/decode/decode.cuh` and `huffman/decode/parse.cuh`.
const STATUS_COUNT: u32 = 2;
const STATUS_INDEX: u32 = 4;
const STATUS_CLASS: u32 = 8;
const STATUS_HEADER: u32 = 16;
const STATUS_BOOK: u32 = 32;
const STATUS_ROOM: u32 = 64;

/// Lookups go by pairs where at least this share of them gives two symbols: lanes that get one hold up the others. On
/// an H200 pairs were faster at a share of 0.98 (3.4 bits a symbol), slower at 0.94 (4.4 bits).
pub(crate) const PAIRED_SHARE: f64 = 0.96;

/// Bytes of an arena that decoding takes; with [`Decoder::Auto`] of tables and sums alone, for decoders elsewhere.
pub(crate) fn workspace(decoder: Decoder, totals: &batch::Totals) -> usize {
    let tables = Arena::bytes_for::<u32>(totals.books as usize * BOOK_WORDS)
        + Arena::bytes_for::<u32>(2 * totals.streams as usize + 1);
    let counts = Arena::bytes_for::<u16>(totals.books as usize * COUNT_ENTRIES);
    let shared = tables + Arena::bytes_for::<u32>(totals.live_with_map.max(1) as usize);
    match decoder {
        Decoder::Gap => shared + counts + spans::workspace(totals),
        Decoder::SelfSync => shared + counts + spans::workspace(totals) + self_sync::workspace(totals),
        Decoder::Chunked | Decoder::Indexed => shared,
        Decoder::Auto => tables,
    }
}

/// Constants that every decoding kernel needs.
fn constants(symbol_bytes: usize, group_log2: u32, pairs: bool) -> Vec<(&'static str, u64)> {
    constants_for(symbol_bytes, group_log2, TABLE_BITS, pairs)
}

/// The same with another number of bits that a lookup takes.
fn constants_for(symbol_bytes: usize, group_log2: u32, table_bits: u32, pairs: bool) -> Vec<(&'static str, u64)> {
    let constants = [
        ("SYMBOL_BYTES", symbol_bytes as u32),
        ("GROUP_LOG2", group_log2),
        ("TABLE_BITS", table_bits),
        ("LONGEST", MAX_LENGTH),
        ("PAIRS", pairs.into()),
    ];
    constants.map(|(name, value)| (name, value.into())).to_vec()
}

/// Every combination of symbol width and group size.
const SHAPES: [(usize, u32); 4] = [(1, 6), (1, 7), (2, 6), (2, 7)];

/// What the compile check compiles.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let prepare = |bits| SHAPES.map(|(bytes, group_log2)| prepare_specialization(bytes, group_log2, bits));
    let few = indexed::table_bits(shared_memory);
    [
        prepare(TABLE_BITS).to_vec(),
        if few == TABLE_BITS { Vec::new() } else { prepare(few).to_vec() },
        parse::specializations(),
        indexed::specializations(shared_memory),
        chunked::specializations(),
        gap::specializations(),
        spans::specializations(),
        classes::specializations(shared_memory),
        self_sync::specializations(),
    ]
    .concat()
}

fn prepare_specialization(symbol_bytes: usize, group_log2: u32, table_bits: u32) -> Specialization {
    let mut constants = constants_for(symbol_bytes, group_log2, table_bits, false);
    constants.push(("THREADS", PREPARE_THREADS.into()));
    Specialization { source: PREPARE, constants }
}

/// A decoder's input and output on the device.
#[derive(Debug)]
pub struct Decoding<'d, 'v, S> {
    /// The streams of the batch, at their offsets; starts on a multiple of 16 bytes.
    pub input: &'d CudaView<'v, u8>,
    /// Classes of groups; may be empty if no stream needs them.
    pub classes: &'d CudaView<'v, u8>,
    /// The streams.
    pub batch: &'d BatchView<'v, S>,
    /// Where symbols go; starts on a multiple of 16 bytes. What is in it is worthless for streams whose status is not
    /// 0.
    pub output: &'d mut CudaViewMut<'v, S>,
    /// A word for each stream: 0 or what is wrong ([`status_text`]).
    pub status: &'d mut CudaViewMut<'v, u32>,
}

impl<S: Symbol + DeviceRepr> Decoding<'_, '_, S> {
    /// Checks lengths and alignments against the batch, and that `decoder` reads its streams.
    fn check(&self, frame: &Frame<'_>, decoder: Decoder, group_log2: u32) -> Result<()> {
        let totals = &self.batch.totals;
        let stream = frame.stream();
        let misaligned =
            self.input.device_ptr(stream).0 % 16 != 0 || self.output.as_view().device_ptr(stream).0 % 16 != 0;
        let index_fits = match decoder {
            Decoder::Indexed => totals.index == Some(syncline_core::huffman::IndexKind::Symbol),
            Decoder::Gap => totals.index == Some(syncline_core::huffman::IndexKind::Gap),
            Decoder::SelfSync => totals.most_books <= 1,
            Decoder::Auto | Decoder::Chunked => true,
        };
        let short = |length: usize, needed: u64| (length as u64) < needed;
        let problems = [
            (short(self.input.len(), totals.input_bytes), "the input is shorter than the batch's streams"),
            (short(self.output.len(), totals.output_symbols), "the output is shorter than the batch's symbols"),
            (short(self.classes.len(), totals.classes), "there are fewer classes than the batch's groups"),
            (self.status.len() != totals.streams as usize, "there is one word of status for each stream"),
            (misaligned, "input and output start on multiples of 16 bytes"),
            (totals.streams > 0 && !index_fits, "a stream has not the index or the codebooks that the decoder reads"),
            (totals.streams > 0 && totals.group_log2 != group_log2, "the decoder is for another group size"),
        ];
        match problems.iter().find(|problem| problem.0) {
            Some(&(_, problem)) => Err(CudaError::invalid(problem)),
            None => Ok(()),
        }
    }
}

/// The kernels before and after each decoder.
#[derive(Debug, Clone)]
struct Preparation<S> {
    prepare: Kernel,
    verify: Kernel,
    symbol: PhantomData<S>,
}

/// Scratch memory of one launch.
struct Scratch<'a> {
    /// Tables of all codebooks.
    tables: CudaViewMut<'a, u32>,
    /// Their tables for counting, where codewords are counted.
    counts: Option<CudaViewMut<'a, u16>>,
    /// For each live group of streams with free groups, its group.
    map: CudaViewMut<'a, u32>,
    /// Checksums of all streams.
    sums: CudaViewMut<'a, u32>,
    /// Words that are 0, as many as the decoder asked for.
    cleared: CudaViewMut<'a, u32>,
}

impl<'a> Scratch<'a> {
    /// The tables for counting.
    fn counts(&self) -> Result<CudaView<'_, u16>> {
        self.counts.as_ref().map(CudaViewMut::as_view).ok_or_else(Self::no_counts)
    }

    /// The same, and the words that are 0.
    fn counts_and_cleared(&mut self) -> Result<(CudaView<'_, u16>, &mut CudaViewMut<'a, u32>)> {
        let counts = self.counts.as_ref().map(CudaViewMut::as_view).ok_or_else(Self::no_counts)?;
        Ok((counts, &mut self.cleared))
    }

    fn no_counts() -> CudaError {
        CudaError::invalid("there are no tables for counting")
    }
}

/// Constants that kernels outside of this module which include `huffman/decode/decode.cuh` for codes need.
pub(crate) fn code_constants(group_log2: u32) -> Vec<(&'static str, u64)> {
    constants(2, group_log2, true)
}

impl<S: Symbol + DeviceRepr> Preparation<S> {
    fn new(device: &Device, group_log2: u32, table_bits: u32) -> Result<Self> {
        if !matches!(group_log2, 6 | 7) {
            return Err(CudaError::invalid("groups have 64 or 128 symbols"));
        }
        let specialization = prepare_specialization(S::BYTES, group_log2, table_bits);
        let kernel = |name| device.kernel(&specialization, name);
        Ok(Self { prepare: kernel("decode_prepare")?, verify: kernel("decode_verify")?, symbol: PhantomData })
    }

    /// Builds tables, those for `counting` too, places groups, fills free ones unless the decoder does, clears sums,
    /// status and `cleared` words for the decoder.
    fn before<'a>(
        &self,
        frame: &mut Frame<'a>,
        work: &mut Decoding<'_, '_, S>,
        counting: bool,
        filling: bool,
        cleared: usize,
    ) -> Result<Scratch<'a>> {
        let totals = work.batch.totals;
        let stream = frame.stream().clone();
        let mut counts = match counting {
            true => Some(frame.slice(totals.books as usize * COUNT_ENTRIES)?),
            false => None,
        };
        let mut tables = frame.slice(totals.books as usize * BOOK_WORDS)?;
        let mut map = frame.slice(totals.live_with_map.max(1) as usize)?;
        let mut sums = frame.slice(2 * totals.streams as usize + 1)?;
        let cleared_words = cleared as u32;
        let mut cleared = frame.slice(cleared)?;
        if totals.streams > 0 {
            let parts = (ALL_TABLE_BLOCKS / totals.books.max(1)).clamp(*TABLE_BLOCKS.start(), *TABLE_BLOCKS.end());
            let first_placing = totals.books * parts;
            let launch = ProgrammaticDependentLaunch::new(&self.prepare, &stream)
                .reads(&work.batch.books)
                .reads(&work.batch.symbols);
            let launch = launch.reads(work.input).reads(&work.batch.descriptors).value(totals.streams);
            let launch = launch.reads(&work.batch.sums).value(parts).value(first_placing);
            let launch = launch.value(u32::from(filling)).value(u32::from(work.batch.keep_status)).writes(&mut tables);
            let launch = match &mut counts {
                Some(counts) => launch.writes(counts),
                None => launch.value(0_u64),
            };
            let launch = launch.writes(&mut map).writes(&mut sums).writes(&mut cleared).value(cleared_words);
            let launch = launch.writes(&mut *work.status).writes(&mut *work.output);
            let grid = Kernel::grid(first_placing + totals.placings, PREPARE_THREADS, 0);
            // SAFETY: parameters (const Book *, const u16 *, const u8 *, const Stream *, u32, const Totals *, u32, u32,
            // u32, u32, u32 *, u16 *, u32 *, u32 *, u32 *, u32, u32 *, u8 *); blocks for each of the batch's books,
            // which index its symbols, with BOOK_WORDS of tables or fewer and COUNT_ENTRIES (or null) each; two sums
            // and a word of status for each stream, and one more. Bitmaps lie in the input and groups in the output
            // (`Decoding::check`); ranks are bounded by the stream's live groups, of which the map has as many as the
            // batch counted.
            unsafe { launch.launch(grid) }?;
        }
        Ok(Scratch { tables, counts, map, sums, cleared })
    }

    /// Compares the checksums, where the decoder has not.
    fn after(&self, frame: &Frame<'_>, work: &mut Decoding<'_, '_, S>, scratch: &Scratch<'_>) -> Result<()> {
        let streams = work.batch.totals.streams;
        if streams == 0 {
            return Ok(());
        }
        let stream = frame.stream();
        let launch =
            ProgrammaticDependentLaunch::new(&self.verify, stream).reads(&work.batch.descriptors).value(streams);
        let launch = launch.reads(&scratch.sums).writes(&mut *work.status);
        let grid = Kernel::grid(streams.div_ceil(PREPARE_THREADS), PREPARE_THREADS, 0);
        // SAFETY: parameters (const Stream *, u32, const u32 *, u32 *): two sums and a word of status for each stream.
        unsafe { launch.launch(grid) }
    }
}
