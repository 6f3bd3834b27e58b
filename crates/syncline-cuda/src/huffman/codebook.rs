//! From counts to a canonical Huffman code on the device: launcher of `kernels/huffman/codebook/codebook.cu` and
//! `kernels/huffman/codebook/tries.cu`, for large alphabets of `kernels/huffman/codebook/team.cu` and
//! `kernels/huffman/codebook/trees.cu`, and for small ones of `kernels/huffman/codebook/small.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, PushKernelArg};
use syncline_core::huffman::lengths;

use super::codebook_small::{self, Purpose, SMALL_ALPHABET, SmallCodebooks, StreamPointers};
use super::codebook_team::{TeamCodebooks, TreesShape};
use crate::device::{Device, Frame, Kernel, Source, Specialization, fetch, source};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source = source!("huffman/codebook/codebook.cu");
const TRIES: Source = source!("huffman/codebook/tries.cu");
const TEAM: Source = source!("huffman/codebook/team.cu");

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
pub(super) const CONTROL_BYTES: u32 = 128;
/// Bytes of the kernel's memory for each symbol.
const BYTES_PER_SYMBOL: u32 = 19;
/// Digits of the kernel's radix sort, of which each block of a team publishes its counts.
const DIGITS: u32 = 256;
/// Shared memory that a block of this many threads has beside the arrays: counts of 16 bits for each warp and digit, of
/// the sort and of lengths, and a little.
const fn own_shared_memory(threads: u32) -> u32 {
    threads / 32 * (DIGITS + 32) * 2 + 4096
}
/// Threads of a block in a team of several, which has a block for [`SYMBOLS_PER_BLOCK`] symbols: measured with 256 to
/// 1,024 threads and 16 to 128 blocks.
const TEAM_THREADS: u32 = 512;
/// See [`TEAM_THREADS`].
const SYMBOLS_PER_BLOCK: u32 = 1024;
/// Words of the kernel's summary.
pub(super) const SUMMARY_WORDS: usize = 72;
/// Bits of a packed codeword that hold the code itself; the length is above them.
const CODE_BITS: u32 = 27;

/// The blocks that sort the symbols of a codebook together, and write its codewords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Team {
    pub blocks: u32,
    pub threads: u32,
}

impl Team {
    /// One block while its arrays fit in shared memory, else several that share device memory, at most one a
    /// multiprocessor, so that all of them run at the same time.
    fn for_alphabet(symbols: u32, shared_memory: u32, multiprocessors: u32) -> Self {
        // More threads than these wait for one another longer than they save (measured).
        let threads = match symbols {
            ..257 => 256,
            257..2049 => 512,
            _ => 1024,
        };
        let alone = Self { blocks: 1, threads };
        let tries = tries_bytes(symbols) + own_shared_memory(tries_threads(symbols));
        if tries.max(alone.memory(symbols) + own_shared_memory(threads)) <= shared_memory {
            return alone;
        }
        let blocks = symbols.div_ceil(SYMBOLS_PER_BLOCK).min(multiprocessors).max(2);
        Self { blocks, threads: TEAM_THREADS }
    }

    /// Bytes of the kernels' arrays.
    pub fn memory(self, symbols: u32) -> u32 {
        let digit_counts = if self.blocks > 1 { self.blocks * DIGITS * 4 } else { 0 };
        (CONTROL_BYTES + BYTES_PER_SYMBOL * symbols + 16 + digit_counts).next_multiple_of(16)
    }

    pub fn specialization(self, symbols: u32) -> Specialization {
        let source = if self.blocks == 1 { SOURCE } else { TEAM };
        let mut constants = constants(symbols, self.threads, self.blocks);
        constants.extend([
            ("CONTROL_BYTES", CONTROL_BYTES.into()),
            ("MEMORY_BYTES", self.memory(symbols).into()),
            ("TREES_BYTES", TREES_BYTES.into()),
        ]);
        Specialization { source, constants }
    }
}

/// Threads of a block that makes a try of the limit's step (3), where codebooks are many.
fn tries_threads(symbols: u32) -> u32 {
    // Of a round's melds few threads have more than a handful, and blocks are many.
    (symbols / 16).next_power_of_two().clamp(32, 1024)
}

/// Bytes of a try's arrays, in shared memory: weights of leaves and of trees, and the trees' fronts.
fn tries_bytes(symbols: u32) -> u32 {
    (symbols * 18).next_multiple_of(16)
}

fn tries_specialization(symbols: u32) -> Specialization {
    let mut constants = constants(symbols, tries_threads(symbols), 1);
    constants.push(("TRY_BYTES", tries_bytes(symbols).into()));
    Specialization { source: TRIES, constants }
}

/// Trees that a code may come from: of the counts as they are, and of the limit's step (3).
pub(super) const TREES_OF_CODE: u32 = lengths::FLOORS + 1;
/// Bytes of what the blocks of trees of a large alphabet leave for the codewords.
pub(super) const TREES_BYTES: u32 = 3072;

/// The start of what a codebook leaves for the tries: numbers of leaves and bits of each.
const PENDING_HEAD: u32 = 2944;

/// Bytes of what a codebook leaves for the tries: the start, sums of its sorted counts, symbols in that order.
fn pending_bytes(symbols: u32) -> u32 {
    (PENDING_HEAD + (symbols + 1) * 8 + symbols * 2).next_multiple_of(16)
}

/// What all kernels are compiled with.
pub(super) fn constants(symbols: u32, threads: u32, team: u32) -> Vec<(&'static str, u64)> {
    let constants = [
        ("SYMBOLS", symbols),
        ("THREADS", threads),
        ("COOPERATIVE_BLOCKS", team),
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
        let team = Team::for_alphabet(symbols, shared_memory, u32::MAX);
        let trees = TreesShape::for_alphabet(symbols, shared_memory).specialization(symbols, team);
        [team.specialization(symbols), if team.blocks == 1 { tries_specialization(symbols) } else { trees }]
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
    /// [`CudaError::InvalidArgument`] unless there are 1 to 65,536 symbols; [`CudaError::OutOfMemory`],
    /// [`CudaError::Driver`].
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
        allocate().allocating(6 * length as u64)
    }

    /// What a kernel fills.
    pub(super) fn parts(&mut self) -> (&mut CudaSlice<u32>, &mut CudaSlice<u16>, &mut CudaSlice<u32>) {
        (&mut self.codewords, &mut self.symbols, &mut self.summary)
    }

    /// Codebooks that there is room for.
    pub fn books(&self) -> u32 {
        self.books
    }

    /// For each symbol its codeword: the code in the low 27 bits, its length in the high 5; 0 if the symbol is not
    /// used.
    pub fn codewords(&self) -> CudaView<'_, u32> {
        self.codewords.as_view()
    }

    /// The used symbols in the order of their codewords: ascending by (length, symbol). Entries beyond
    /// [`Summary::used`] are unspecified.
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
        let words = fetch(stream, &self.summary, "reading the codebook's summary")?;
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
    /// Rounds of melding the counts as they are; where few are left each meld counts as one.
    pub rounds: u32,
    /// First codeword of each length in bits.
    pub first: [u32; 32],
    /// For each length, how many codewords are shorter.
    pub entry: [u32; 32],
    /// Clock cycles of the phases: sorting, GenerateCL (melding), depths and their limit (and the try that ended last,
    /// where the limit costs much), GenerateCW.
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

/// So many codebooks are sooner ready if each has all of a block for its tree, and more blocks for the limit's step
/// (3): measured for one (1,024 symbols: 18 to 24 microseconds instead of 34 to 41 where that step is not due, 83
/// instead of 66 where it is).
const FEW_BOOKS: u32 = 8;

/// Codebooks that few blocks make at a time.
#[derive(Debug, Clone)]
enum LargeCodebooks {
    Block(BlockCodebooks),
    Team(TeamCodebooks),
}

/// A block a codebook and another kernel for the limit's step (3), or, if codebooks are few, a block for each tree.
#[derive(Debug, Clone)]
struct BlockCodebooks {
    kernel: Kernel,
    tries: Kernel,
    symbols: u32,
    threads: u32,
    memory: u32,
    /// Blocks of either kernel that the device runs at a time.
    resident: u32,
    tries_resident: u32,
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

    /// Builds the codebook for `counts`, or each of several for its share of them, on the frame's stream: nothing goes
    /// through the host.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are fewer counts than symbols or `codebook` is for other symbols;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
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
        // SAFETY: there are as many counts of 64 bits as the codebooks take, checked above; nothing is made for
        // streams.
        unsafe { small.launch(&stream, pointer, codebook, StreamPointers::default()) }
    }
}

impl LargeCodebooks {
    fn new(device: &Device, symbols: u32) -> Result<Self> {
        let info = device.info();
        let team = Team::for_alphabet(symbols, info.shared_memory_per_block, info.multiprocessors);
        if team.blocks == 1 {
            BlockCodebooks::new(device, symbols, team).map(Self::Block)
        } else {
            TeamCodebooks::new(device, symbols, team).map(Self::Team)
        }
    }

    fn scratch_bytes(&self, books: u32) -> usize {
        match self {
            Self::Block(block) => block.scratch_bytes(books),
            Self::Team(team) => team.scratch_bytes(),
        }
    }

    /// [`CodebookBuilder::launch`], which has checked the lengths.
    fn launch(&self, frame: &mut Frame<'_>, counts: &CudaView<'_, u64>, codebook: &mut DeviceCodebook) -> Result<()> {
        match self {
            Self::Block(block) => block.launch(frame, counts, codebook),
            Self::Team(team) => team.launch(frame, counts, codebook),
        }
    }
}

/// Bytes of an arena that so many take.
pub(super) fn arena_bytes(length: u64) -> usize {
    crate::Arena::bytes_for::<u8>(usize::try_from(length).unwrap_or(usize::MAX))
}

impl BlockCodebooks {
    fn new(device: &Device, symbols: u32, team: Team) -> Result<Self> {
        let multiprocessors = device.info().multiprocessors;
        let (threads, memory) = (team.threads, team.memory(symbols));
        let kernel = device.kernel(&team.specialization(symbols), "codebook")?;
        kernel.allow_shared_memory(memory)?;
        let resident = kernel.blocks_per_multiprocessor(threads, memory)? * multiprocessors;
        let tries = device.kernel(&tries_specialization(symbols), "codebook_tries")?;
        let shared = tries_bytes(symbols);
        tries.allow_shared_memory(shared)?;
        let tries_resident = tries.blocks_per_multiprocessor(tries_threads(symbols), shared)? * multiprocessors;
        Ok(Self { kernel, tries, symbols, threads, memory, resident, tries_resident })
    }

    /// Blocks of each codebook.
    fn parts(&self, books: u32) -> u32 {
        if u64::from(books) * u64::from(TREES_OF_CODE) <= self.resident.into() { TREES_OF_CODE } else { 1 }
    }

    fn scratch_bytes(&self, books: u32) -> usize {
        crate::Arena::bytes_for::<u32>(books as usize)
            + arena_bytes(u64::from(books) * u64::from(pending_bytes(self.symbols)))
    }

    fn launch(&self, frame: &mut Frame<'_>, counts: &CudaView<'_, u64>, codebook: &mut DeviceCodebook) -> Result<()> {
        let (stream, books) = (frame.stream().clone(), codebook.books);
        let parts = self.parts(books);
        let mut due = frame.slice::<u32>(books as usize)?;
        let mut pending = frame.slice::<u8>(books as usize * pending_bytes(self.symbols) as usize)?;
        let mut arrived = frame.counters(books as usize)?;
        let DeviceCodebook { codewords, symbols, summary, .. } = codebook;
        let mut launch = stream.launch_builder(self.kernel.function());
        launch.arg(counts).arg(&mut *codewords).arg(&mut *symbols).arg(&mut *summary);
        launch.arg(&parts).arg(&mut due).arg(&mut arrived).arg(&mut pending);
        let grid = Kernel::grid(books * parts, self.threads, self.memory);
        // SAFETY: the kernel's parameters are (const u64 *, u32 *, u16 *, u32 *, u32, u32 *, u32 *, u8 *); the blocks
        // of a codebook read SYMBOLS counts and write SYMBOLS codewords, up to SYMBOLS symbols, the summary's words, a
        // word of `due`, a word of `arrived`, which is 0 and is left so, and up to PENDING_BYTES, at its number times
        // that; lengths checked by the caller and in `DeviceCodebook::with_books`.
        unsafe { launch.launch(grid) }.doing("launching the codebook kernel")?;
        if parts > 1 {
            return Ok(());
        }
        // Has nothing to do where step (3) is due for none.
        let mut launch = stream.launch_builder(self.tries.function());
        launch.arg(&mut due).arg(&books).arg(&mut pending);
        launch.arg(codewords).arg(symbols).arg(summary);
        let blocks = (u64::from(books) * u64::from(lengths::FLOORS)).min(self.tries_resident.into());
        let grid =
            Kernel::grid((blocks as u32).max(lengths::FLOORS), tries_threads(self.symbols), tries_bytes(self.symbols));
        // SAFETY: the kernel's parameters are (const u32 *, u32, u8 *, u32 *, u16 *, u32 *): for each book a word,
        // PENDING_BYTES that the first kernel has filled where the word is not 0, SYMBOLS codewords and symbols and a
        // summary. TRY_BYTES of shared memory.
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
        assert_eq!((tries_threads(1024), tries_bytes(1024)), (64, 18 << 10));
    }

    #[test]
    fn unpacking() {
        assert_eq!(unpack(20 << 27 | 0xF_FFFF), (20, 0xF_FFFF));
        assert_eq!(unpack(0), (0, 0));
    }
}
