//! From counts to a canonical Huffman code on the device: launcher of `kernels/huffman_codebook.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, PushKernelArg};
use syncline_core::huffman::lengths;

use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source = Source { name: "huffman_codebook.cu", text: include_str!("../../kernels/huffman_codebook.cu") };

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
const CONTROL_BYTES: u32 = 640;
/// Bytes of the kernel's memory for each symbol.
const BYTES_PER_SYMBOL: u32 = 27;
/// Digits of the kernel's radix sort, of which each block of a team publishes its counts.
const DIGITS: u32 = 256;
/// Shared memory that a block of this many threads has beside the arrays: counts of 16 bits for each warp and digit, and a little.
const fn own_shared_memory(threads: u32) -> u32 {
    threads / 32 * DIGITS * 2 + 4096
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
        if alone.memory(symbols) + own_shared_memory(threads) <= shared_memory {
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
        let constants = [
            ("SYMBOLS", symbols),
            ("THREADS", self.threads),
            ("TEAM", self.blocks),
            ("CONTROL_BYTES", CONTROL_BYTES),
            ("MEMORY_BYTES", self.memory(symbols)),
            ("MAX_LENGTH", MAX_LENGTH),
            ("MAX_LENGTH_LARGE", MAX_LENGTH_LARGE),
            ("LARGE", LARGE_ALPHABET),
            ("FLOORS", lengths::FLOORS),
        ];
        Specialization { source: SOURCE, constants: constants.map(|(name, value)| (name, value.into())).to_vec() }
    }
}

/// What the compile check compiles: the alphabets in use, for a device with this much shared memory a block.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let team = |symbols| Team::for_alphabet(symbols, shared_memory, u32::MAX);
    [256, 1024, 4096, 65_536].map(|symbols| team(symbols).specialization(symbols)).to_vec()
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

    /// Codebooks that there is room for.
    pub fn books(&self) -> u32 {
        self.books
    }

    /// For each symbol its codeword: the code in the low 27 bits, its length in the high 5; 0 if the symbol is not used.
    pub fn codewords(&self) -> CudaView<'_, u32> {
        self.codewords.as_view()
    }

    /// As [`Self::codewords`], to fill in a codebook that was made elsewhere.
    pub fn codewords_mut(&mut self) -> CudaViewMut<'_, u32> {
        self.codewords.as_view_mut()
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
    /// Clock cycles of the phases: sorting, GenerateCL (melding and depths), limiting (which melds again where the limit
    /// costs much), GenerateCW.
    pub cycles: [u32; 4],
}

/// Splits an entry of [`DeviceCodebook::codewords`] into length in bits and code.
pub fn unpack(codeword: u32) -> (u32, u32) {
    (codeword >> CODE_BITS, codeword & ((1 << CODE_BITS) - 1))
}

/// Builds codebooks for one size of alphabet.
#[derive(Debug, Clone)]
pub struct CodebookBuilder {
    kernel: Kernel,
    team: Team,
    symbols: u32,
}

impl CodebookBuilder {
    /// For alphabets of `symbols` symbols, 0 to `symbols - 1`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are 1 to 65,536; errors of [`Device::kernel`].
    pub fn new(device: &Device, symbols: u32) -> Result<Self> {
        check_alphabet(symbols)?;
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
        Ok(Self { kernel, team, symbols })
    }

    /// Symbols in the alphabet.
    pub fn symbols(&self) -> u32 {
        self.symbols
    }

    /// Bytes of scratch memory that [`Self::launch`] takes from its frame.
    pub fn scratch_bytes(&self) -> usize {
        if self.team.blocks == 1 { 0 } else { crate::Arena::bytes_for::<u8>(self.team.memory(self.symbols) as usize) }
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
        let memory_bytes = self.team.memory(self.symbols);
        let DeviceCodebook { codewords, symbols, summary, .. } = codebook;
        if self.team.blocks == 1 {
            let no_memory = 0_u64;
            let mut launch = stream.launch_builder(self.kernel.function());
            launch.arg(counts).arg(codewords).arg(symbols).arg(summary).arg(&no_memory);
            let grid = Kernel::grid(codebook.books, self.team.threads, memory_bytes);
            // SAFETY: the kernel's parameters are (const u64 *, u32 *, u16 *, u32 *, u8 *); each block reads SYMBOLS counts and writes SYMBOLS codewords,
            // up to SYMBOLS symbols and the summary's words, at its number times that; lengths checked above and in `DeviceCodebook::with_books`.
            // A lone block does not use the last.
            return unsafe { launch.launch(grid) }.doing("launching the codebook kernel").map(drop);
        }
        let mut memory = frame.slice::<u8>(memory_bytes as usize)?;
        for book in 0..books {
            let mut control = memory.slice_mut(..CONTROL_BYTES as usize);
            stream.memset_zeros(&mut control).doing("clearing the codebook's scratch memory")?;
            let own = book * length..(book + 1) * length;
            let counts = counts.slice(own.clone());
            let (mut codewords, mut symbols) = (codewords.slice_mut(own.clone()), symbols.slice_mut(own));
            let mut summary = summary.slice_mut(book * SUMMARY_WORDS..(book + 1) * SUMMARY_WORDS);
            let mut launch = stream.launch_builder(self.kernel.function());
            launch.arg(&counts).arg(&mut codewords).arg(&mut symbols).arg(&mut summary).arg(&mut memory);
            let grid = Kernel::grid(self.team.blocks, self.team.threads, 0);
            // SAFETY: as above, for one book, and `memory` has the MEMORY_BYTES that the kernel lays its arrays out in. Cooperative: all blocks run at
            // a time.
            unsafe { launch.launch_cooperative(grid) }.doing("launching the codebook kernel")?;
        }
        Ok(())
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
            assert_eq!(Team::for_alphabet(1024, shared_memory, 132).blocks, 1);
            assert_eq!(Team::for_alphabet(65_536, shared_memory, 132).blocks, 64);
            assert_eq!(Team::for_alphabet(65_536, shared_memory, 20).blocks, 20);
        }
        assert_eq!(Team::for_alphabet(4096, 227 << 10, 132), Team { blocks: 1, threads: 1024 });
    }

    #[test]
    fn unpacking() {
        assert_eq!(unpack(20 << 27 | 0xF_FFFF), (20, 0xF_FFFF));
        assert_eq!(unpack(0), (0, 0));
    }
}
