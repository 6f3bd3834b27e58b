//! From counts to a canonical Huffman code on the device: launcher of `kernels/huffman_codebook.cu` and `kernels/huffman_codebook_tries.cu`,
//! and for small alphabets of `kernels/huffman_codebook_small.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, PushKernelArg};
use syncline_core::huffman::lengths;

use super::codebook_small::{self, Purpose, SMALL_ALPHABET, SmallCodebooks, StreamPointers};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source = Source { name: "huffman_codebook.cu", text: include_str!("../../kernels/huffman_codebook.cu") };
const TRIES: Source =
    Source { name: "huffman_codebook_tries.cu", text: include_str!("../../kernels/huffman_codebook_tries.cu") };

/// Longest codeword in bits, if at most [`LARGE_ALPHABET`] symbols are used.
pub const MAX_LENGTH: u32 = 16;
/// Longest codeword in bits of larger alphabets.
pub const MAX_LENGTH_LARGE: u32 = lengths::MAX_LENGTH;
/// Most used symbols of an alphabet that counts as small.
pub const LARGE_ALPHABET: u32 = 4096;
/// Most symbols of an alphabet.
pub const MOST_SYMBOLS: u32 = 1 << 16;
/// Counts above this are clamped to it and reported ([`Summary::counts_clamped`]).
pub const LARGEST_COUNT: u64 = (1 << 43) - 1;

/// The part of the kernel's memory that starts as zeros. Whole cache lines, so that the arrays after it are aligned.
const CONTROL_BYTES: u32 = 128;
/// Bytes of the kernel's memory for each symbol.
const BYTES_PER_SYMBOL: u32 = 19;
/// Digits of the kernel's radix sort, of which each block of a team publishes its counts.
const DIGITS: u32 = 256;
/// Shared memory that a block of this many threads has beside the arrays: counts of 16 bits for each warp and digit, of the sort and of lengths, and a little.
const fn own_shared_memory(threads: u32) -> u32 {
    threads / 32 * (DIGITS + 32) * 2 + 4096
}
/// Threads of a block in a team of several, which has a block for [`SYMBOLS_PER_BLOCK`] symbols: measured with 256 to 1,024 threads and 16 to 128 blocks.
const TEAM_THREADS: u32 = 512;
/// See [`TEAM_THREADS`].
const SYMBOLS_PER_BLOCK: u32 = 1024;
/// Words of the kernel's summary.
const SUMMARY_WORDS: usize = 72;
/// Bits of a packed codeword that hold the code itself; the length is above them.
const CODE_BITS: u32 = 27;

/// The blocks that build a codebook together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Team {
    blocks: u32,
    threads: u32,
}

impl Team {
    /// One block while its arrays fit in shared memory, else several that share device memory, at most one a multiprocessor, so that all of them run
    /// at the same time.
    fn for_alphabet(symbols: u32, shared_memory: u32, multiprocessors: u32) -> Self {
        // More threads than these wait for one another longer than they save (measured).
        let threads = match symbols {
            ..257 => 256,
            257..2049 => 512,
            _ => 1024,
        };
        let alone = Self { blocks: 1, threads };
        let tries_fit = Tries::for_alphabet(symbols, shared_memory).in_shared;
        if tries_fit && alone.memory(symbols) + own_shared_memory(threads) <= shared_memory {
            return alone;
        }
        let blocks = symbols.div_ceil(SYMBOLS_PER_BLOCK).min(multiprocessors).max(2);
        Self { blocks, threads: TEAM_THREADS }
    }

    /// Bytes of the kernel's arrays.
    fn memory(self, symbols: u32) -> u32 {
        let digit_counts = if self.blocks > 1 { self.blocks * DIGITS * 4 } else { 0 };
        (CONTROL_BYTES + BYTES_PER_SYMBOL * symbols + digit_counts).next_multiple_of(16)
    }

    fn specialization(self, symbols: u32) -> Specialization {
        let mut constants = constants(symbols, self.threads, self.blocks);
        constants.extend([("CONTROL_BYTES", CONTROL_BYTES.into()), ("MEMORY_BYTES", self.memory(symbols).into())]);
        Specialization { source: SOURCE, constants }
    }
}

/// How the tries of the limit's step (3) are made, a block each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tries {
    threads: u32,
    /// Whether a try's arrays are in shared memory.
    in_shared: bool,
}

impl Tries {
    fn for_alphabet(symbols: u32, shared_memory: u32) -> Self {
        // Of a round's melds few threads have more than a handful, and blocks are many.
        let threads = (symbols / 16).next_power_of_two().clamp(32, 1024);
        let in_shared = u64::from(symbols) * 18 + u64::from(own_shared_memory(threads)) <= shared_memory.into();
        Self { threads, in_shared }
    }

    /// Bytes of a try's arrays: weights of leaves (only in shared memory; else they follow from the sums of counts) and of trees, and the trees' fronts.
    fn bytes(self, symbols: u32) -> u32 {
        (symbols * if self.in_shared { 18 } else { 10 }).next_multiple_of(16)
    }

    fn specialization(self, symbols: u32) -> Specialization {
        let mut constants = constants(symbols, self.threads, 1);
        constants.extend([("IN_SHARED", self.in_shared.into()), ("TRY_BYTES", self.bytes(symbols).into())]);
        Specialization { source: TRIES, constants }
    }
}

/// The start of what a codebook leaves for the tries: numbers of leaves and bits of each.
const PENDING_HEAD: u32 = 2944;

/// Bytes of what a codebook leaves for the tries: the start, sums of its sorted counts, symbols in that order.
fn pending_bytes(symbols: u32) -> u32 {
    (PENDING_HEAD + (symbols + 1) * 8 + symbols * 2).next_multiple_of(16)
}

/// What both kernels are compiled with.
pub(super) fn constants(symbols: u32, threads: u32, team: u32) -> Vec<(&'static str, u64)> {
    let constants = [
        ("SYMBOLS", symbols),
        ("THREADS", threads),
        ("TEAM", team),
        ("MAX_LENGTH", MAX_LENGTH),
        ("MAX_LENGTH_LARGE", MAX_LENGTH_LARGE),
        ("LARGE", LARGE_ALPHABET),
        ("FLOORS", lengths::FLOORS),
        ("PENDING_HEAD", PENDING_HEAD),
        ("PENDING_BYTES", pending_bytes(symbols)),
    ];
    constants.map(|(name, value)| (name, value.into())).to_vec()
}

/// What the compile check compiles: the alphabets in use, for a device with this much shared memory a block.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let of = |symbols| {
        let team = Team::for_alphabet(symbols, shared_memory, u32::MAX).specialization(symbols);
        [team, Tries::for_alphabet(symbols, shared_memory).specialization(symbols)]
    };
    let mut all = [256, 1024, 4096, 65_536].map(of).concat();
    all.extend(codebook_small::specializations());
    all
}

/// A codebook in device memory, or several of one alphabet one after another.
#[derive(Debug)]
pub struct DeviceCodebook {
    books: u32,
    codewords: CudaSlice<u32>,
    symbols: CudaSlice<u16>,
    summary: CudaSlice<u32>,
}

impl DeviceCodebook {
    /// Room for the codebook of an alphabet of this many symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are 1 to 65,536 symbols; [`CudaError::OutOfMemory`].
    pub fn new(stream: &Arc<CudaStream>, symbols: u32) -> Result<Self> {
        Self::with_books(stream, symbols, 1)
    }

    /// Room for `books` codebooks, each of an alphabet of this many symbols: they are built side by side.
    ///
    /// # Errors
    /// As [`Self::new`]; also if there are no books.
    pub fn with_books(stream: &Arc<CudaStream>, symbols: u32, books: u32) -> Result<Self> {
        check_alphabet(symbols)?;
        if books == 0 {
            return Err(CudaError::invalid("a batch of codebooks has at least one"));
        }
        let count = books as usize;
        let length = symbols as usize * count;
        let allocate = || {
            Ok(Self {
                books,
                codewords: stream.alloc_zeros(length)?,
                symbols: stream.alloc_zeros(length)?,
                summary: stream.alloc_zeros(SUMMARY_WORDS * count)?,
            })
        };
        allocate().map_err(|_: cudarc::driver::DriverError| CudaError::OutOfMemory { bytes: 6 * length as u64 })
    }

    /// What a kernel fills.
    pub(super) fn parts(&mut self) -> (&mut CudaSlice<u32>, &mut CudaSlice<u16>, &mut CudaSlice<u32>) {
        (&mut self.codewords, &mut self.symbols, &mut self.summary)
    }

    /// Codebooks that there is room for.
    pub fn books(&self) -> u32 {
        self.books
    }

    /// For each symbol its codeword: the code in the low 27 bits, its length in the high 5; 0 if the symbol is not used.
    pub fn codewords(&self) -> CudaView<'_, u32> {
        self.codewords.as_view()
    }

    /// The used symbols in the order of their codewords: ascending by (length, symbol). Entries beyond [`Summary::used`] are unspecified.
    pub fn symbols_by_codeword(&self) -> CudaView<'_, u16> {
        self.symbols.as_view()
    }

    /// The device's summary, as [`Summary`] reads it.
    pub fn summary(&self) -> CudaView<'_, u32> {
        self.summary.as_view()
    }

    /// Copies the summary to the host, which waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn read_summary(&self, stream: &Arc<CudaStream>) -> Result<Summary> {
        let words = stream.clone_dtoh(&self.summary).doing("reading the codebook's summary")?;
        let per_length = |first: usize| std::array::from_fn(|length| words[first + length]);
        Ok(Summary {
            used: words[0],
            longest: words[1],
            counts_clamped: words[2] != 0,
            rounds: words[3],
            first: per_length(4),
            entry: per_length(36),
            cycles: std::array::from_fn(|phase| words[68 + phase]),
        })
    }
}

/// What a codebook's decoder needs beside the symbols, and how the codebook came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Symbols that occur.
    pub used: u32,
    /// Bits of the longest codeword; 0 if no symbol occurs.
    pub longest: u32,
    /// A count was above [`LARGEST_COUNT`]: the code is valid but not the best.
    pub counts_clamped: bool,
    /// Rounds of melding the counts as they are.
    pub rounds: u32,
    /// First codeword of each length in bits.
    pub first: [u32; 32],
    /// For each length, how many codewords are shorter.
    pub entry: [u32; 32],
    /// Clock cycles of the phases: sorting, GenerateCL (melding), depths and their limit (and the try that ended last, where the limit costs much), GenerateCW.
    pub cycles: [u32; 4],
}

/// Splits an entry of [`DeviceCodebook::codewords`] into length in bits and code.
pub fn unpack(codeword: u32) -> (u32, u32) {
    (codeword >> CODE_BITS, codeword & ((1 << CODE_BITS) - 1))
}

/// Builds codebooks for one size of alphabet.
#[derive(Debug, Clone)]
pub struct CodebookBuilder {
    symbols: u32,
    large: Box<LargeCodebooks>,
    /// For more than [`FEW_BOOKS`] codebooks of a small alphabet.
    small: Option<SmallCodebooks>,
}

/// So many codebooks are sooner ready if each has all of a block for its tree, and more blocks for the limit's step (3): measured for one (1,024 symbols: 18 to 24 microseconds
/// instead of 34 to 41 where that step is not due, 83 instead of 66 where it is).
const FEW_BOOKS: u32 = 8;

/// A block or a team of blocks a codebook, and another kernel for the limit's step (3).
#[derive(Debug, Clone)]
struct LargeCodebooks {
    kernel: Kernel,
    team: Team,
    tries_kernel: Kernel,
    tries: Tries,
    /// Blocks of tries that the device runs at a time.
    tries_resident: u32,
    symbols: u32,
}

impl CodebookBuilder {
    /// For alphabets of `symbols` symbols, 0 to `symbols - 1`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are 1 to 65,536; errors of [`Device::kernel`].
    pub fn new(device: &Device, symbols: u32) -> Result<Self> {
        check_alphabet(symbols)?;
        let small = symbols <= SMALL_ALPHABET;
        let small = small.then(|| SmallCodebooks::new(device, symbols, Purpose::Counts)).transpose()?;
        Ok(Self { symbols, large: Box::new(LargeCodebooks::new(device, symbols)?), small })
    }

    /// Symbols in the alphabet.
    pub fn symbols(&self) -> u32 {
        self.symbols
    }

    /// Bytes of scratch memory that [`Self::launch`] takes from its frame for so many codebooks.
    pub fn scratch_bytes(&self, books: u32) -> usize {
        if self.small_for(books).is_some() { 0 } else { self.large.scratch_bytes(books) }
    }

    fn small_for(&self, books: u32) -> Option<&SmallCodebooks> {
        self.small.as_ref().filter(|_| books > FEW_BOOKS)
    }

    /// Builds the codebook for `counts`, or each of several for its share of them, on the frame's stream: nothing goes through the host.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are fewer counts than symbols or `codebook` is for other symbols; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        counts: &CudaView<'_, u64>,
        codebook: &mut DeviceCodebook,
    ) -> Result<()> {
        let length = self.symbols as usize;
        let books = codebook.books as usize;
        if counts.len() < length * books || codebook.codewords.len() != length * books {
            return Err(CudaError::invalid(format!(
                "{books} codebooks of {length} symbols need that many counts and room for just that many, not {} and {}",
                counts.len(),
                codebook.codewords.len()
            )));
        }
        let stream = frame.stream().clone();
        let Some(small) = self.small_for(codebook.books) else {
            return self.large.launch(frame, counts, codebook);
        };
        let (pointer, _read) = counts.device_ptr(&stream);
        // SAFETY: there are as many counts of 64 bits as the codebooks take, checked above; nothing is made for streams.
        unsafe { small.launch(&stream, pointer, codebook, StreamPointers::default()) }
    }
}

impl LargeCodebooks {
    fn new(device: &Device, symbols: u32) -> Result<Self> {
        let info = device.info();
        let team = Team::for_alphabet(symbols, info.shared_memory_per_block, info.multiprocessors);
        let kernel = device.kernel(&team.specialization(symbols), "codebook")?;
        if team.blocks == 1 {
            kernel.allow_shared_memory(team.memory(symbols))?;
        } else {
            let resident = kernel.blocks_per_multiprocessor(team.threads, 0)? * info.multiprocessors;
            if resident < team.blocks {
                return Err(CudaError::invalid(format!(
                    "a codebook of {symbols} symbols needs {} blocks at a time, this device runs {resident}",
                    team.blocks
                )));
            }
        }
        let tries = Tries::for_alphabet(symbols, info.shared_memory_per_block);
        let tries_kernel = device.kernel(&tries.specialization(symbols), "codebook_tries")?;
        let shared = if tries.in_shared { tries.bytes(symbols) } else { 0 };
        tries_kernel.allow_shared_memory(shared)?;
        let tries_resident = tries_kernel.blocks_per_multiprocessor(tries.threads, shared)? * info.multiprocessors;
        Ok(Self { kernel, team, tries_kernel, tries, tries_resident, symbols })
    }

    fn scratch_bytes(&self, books: u32) -> usize {
        let bytes = |length: u64| crate::Arena::bytes_for::<u8>(usize::try_from(length).unwrap_or(usize::MAX));
        let memory = if self.team.blocks == 1 { 0 } else { bytes(self.team.memory(self.symbols).into()) };
        let at_a_time = if self.team.blocks == 1 { books } else { 1 };
        memory
            + crate::Arena::bytes_for::<u32>(at_a_time as usize)
            + bytes(u64::from(at_a_time) * u64::from(pending_bytes(self.symbols)))
            + bytes(self.tries_memory().max(1) as u64)
    }

    /// Bytes of device memory for the tries of a codebook.
    fn tries_memory(&self) -> usize {
        if self.tries.in_shared { 0 } else { self.tries.bytes(self.symbols) as usize * lengths::FLOORS as usize }
    }

    /// [`CodebookBuilder::launch`], which has checked the lengths.
    fn launch(&self, frame: &mut Frame<'_>, counts: &CudaView<'_, u64>, codebook: &mut DeviceCodebook) -> Result<()> {
        let (length, books) = (self.symbols as usize, codebook.books as usize);
        let stream = frame.stream().clone();
        let memory_bytes = self.team.memory(self.symbols);
        let at_a_time = if self.team.blocks == 1 { books } else { 1 };
        let mut due = frame.slice::<u32>(at_a_time)?;
        let mut pending = frame.slice::<u8>(at_a_time * pending_bytes(self.symbols) as usize)?;
        let mut tries_memory = frame.slice::<u8>(self.tries_memory().max(1))?;
        if self.team.blocks == 1 {
            let DeviceCodebook { codewords, symbols, summary, .. } = codebook;
            let no_memory = 0_u64;
            let mut launch = stream.launch_builder(self.kernel.function());
            launch.arg(counts).arg(&mut *codewords).arg(&mut *symbols).arg(&mut *summary);
            launch.arg(&no_memory).arg(&mut due).arg(&mut pending);
            let grid = Kernel::grid(codebook.books, self.team.threads, memory_bytes);
            // SAFETY: the kernel's parameters are (const u64 *, u32 *, u16 *, u32 *, u8 *, u32 *, u8 *); each block reads SYMBOLS counts and writes SYMBOLS codewords,
            // up to SYMBOLS symbols, the summary's words, a word of `due` and up to PENDING_BYTES, at its number times that; lengths checked above and in
            // `DeviceCodebook::with_books`. A lone block does not use the fifth.
            unsafe { launch.launch(grid) }.doing("launching the codebook kernel")?;
            let parts = (codewords.as_view_mut(), symbols.as_view_mut(), summary.as_view_mut());
            return self.launch_tries(frame, codebook.books, &due, &mut pending, &mut tries_memory, parts);
        }
        let mut memory = frame.slice::<u8>(memory_bytes as usize)?;
        for book in 0..books {
            let mut control = memory.slice_mut(..CONTROL_BYTES as usize);
            stream.memset_zeros(&mut control).doing("clearing the codebook's scratch memory")?;
            let own = book * length..(book + 1) * length;
            let counts = counts.slice(own.clone());
            let DeviceCodebook { codewords, symbols, summary, .. } = &mut *codebook;
            let (mut codewords, mut symbols) = (codewords.slice_mut(own.clone()), symbols.slice_mut(own));
            let mut summary = summary.slice_mut(book * SUMMARY_WORDS..(book + 1) * SUMMARY_WORDS);
            let mut launch = stream.launch_builder(self.kernel.function());
            launch.arg(&counts).arg(&mut codewords).arg(&mut symbols).arg(&mut summary);
            launch.arg(&mut memory).arg(&mut due).arg(&mut pending);
            let grid = Kernel::grid(self.team.blocks, self.team.threads, 0);
            // SAFETY: as above, for one book, and `memory` has the MEMORY_BYTES that the kernel lays its arrays out in. Cooperative: all blocks run at
            // a time.
            unsafe { launch.launch_cooperative(grid) }.doing("launching the codebook kernel")?;
            let parts = (codewords, symbols, summary);
            self.launch_tries(frame, 1, &due, &mut pending, &mut tries_memory, parts)?;
        }
        Ok(())
    }

    /// The limit's step (3) for those codebooks for which it is due: the launch has nothing to do if there are none.
    fn launch_tries(
        &self,
        frame: &Frame<'_>,
        books: u32,
        due: &CudaViewMut<'_, u32>,
        pending: &mut CudaViewMut<'_, u8>,
        memory: &mut CudaViewMut<'_, u8>,
        (mut codewords, mut symbols, mut summary): (CudaViewMut<'_, u32>, CudaViewMut<'_, u16>, CudaViewMut<'_, u32>),
    ) -> Result<()> {
        let due = due.as_view();
        let mut launch = frame.stream().launch_builder(self.tries_kernel.function());
        launch.arg(&due).arg(&books).arg(pending).arg(memory);
        launch.arg(&mut codewords).arg(&mut symbols).arg(&mut summary);
        let blocks = (u64::from(books) * u64::from(lengths::FLOORS)).min(self.tries_resident.into());
        let shared = if self.tries.in_shared { self.tries.bytes(self.symbols) } else { 0 };
        let grid = Kernel::grid((blocks as u32).max(lengths::FLOORS), self.tries.threads, shared);
        // SAFETY: the kernel's parameters are (const u32 *, u32, u8 *, u8 *, u32 *, u16 *, u32 *): for each book a word, PENDING_BYTES that the first kernel has filled
        // where the word is not 0, SYMBOLS codewords and symbols and a summary. TRY_BYTES for each try of one book in shared memory or, if they are in device memory,
        // where books are built one after another.
        unsafe { launch.launch(grid) }.doing("launching the tries of the length limit").map(drop)
    }
}

fn check_alphabet(symbols: u32) -> Result<()> {
    if (1..=MOST_SYMBOLS).contains(&symbols) {
        return Ok(());
    }
    Err(CudaError::invalid(format!("an alphabet has 1 to {MOST_SYMBOLS} symbols, not {symbols}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teams_fit() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for symbols in [1, 2, 255, 256, 257, 1000, 1024, 4096, 10_000, 65_536] {
                let team = Team::for_alphabet(symbols, shared_memory, 132);
                assert!(team.threads.is_multiple_of(256) && team.threads <= 1024, "{team:?}");
                if team.blocks == 1 {
                    assert!(team.memory(symbols) + own_shared_memory(team.threads) <= shared_memory, "{team:?}");
                }
            }
            assert_eq!(Team::for_alphabet(65_536, shared_memory, 132).blocks, 64);
            assert_eq!(Team::for_alphabet(65_536, shared_memory, 20).blocks, 20);
        }
        assert_eq!(Team::for_alphabet(4096, 227 << 10, 132), Team { blocks: 1, threads: 1024 });
        assert!(!Tries::for_alphabet(65_536, 227 << 10).in_shared);
        assert_eq!(Tries::for_alphabet(1024, 64 << 10), Tries { threads: 64, in_shared: true });
    }

    #[test]
    fn unpacking() {
        assert_eq!(unpack(20 << 27 | 0xF_FFFF), (20, 0xF_FFFF));
        assert_eq!(unpack(0), (0, 0));
    }
}
