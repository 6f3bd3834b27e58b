//! What the host prepares for decoding: a descriptor for each stream of a batch, and its codebooks.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, DeviceRepr};
use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::lengths::MAX_LENGTH;
use syncline_core::huffman::{IndexKind, SUBSEQUENCE_BITS, Stream, Symbol};

use super::{INDEX_BLOCK, PAIRED_SHARE, PLACED_GROUPS, SEQUENCE, TABLE_BITS};
use crate::error::{CudaError, DriverContext, Result};

const LENGTHS: usize = MAX_LENGTH as usize + 1;
/// Bytes before a stream's codebooks (FORMAT.md, "Huffman stream").
const HEADER_BYTES: usize = 40;
/// Mask of a symbol in a table entry that may hold two.
const NARROW_MASK: u32 = 0xfff;
/// Mask of a symbol in a table entry that holds one.
const WIDE_MASK: u32 = 0xffff;

/// `Stream` of `huffman/decode/decode.cuh`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Descriptor {
    words: u64,
    index: u64,
    bitmap: u64,
    out: u64,
    classes: u64,
    groups: u32,
    live: u32,
    bits: u32,
    index_bytes: u32,
    sum: u32,
    weighted: u32,
    first_book: u32,
    books: u32,
    free_symbol: u32,
    longest: u32,
    has_free: u32,
    map: u32,
    first_task: u32,
    first_sequence: u32,
    first_subsequence: u32,
    first_placing: u32,
}

// SAFETY: plain integers without padding (five of 8 bytes, then sixteen of 4), laid out as the kernels' struct.
unsafe impl DeviceRepr for Descriptor {}

/// `Book` of `huffman/decode/decode.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Book {
    limit: [u32; LENGTHS],
    offset: [u32; LENGTHS],
    longest: u32,
    symbols: u32,
    symbol_count: u32,
    base: u32,
    mask: u32,
    absent: u32,
}

// SAFETY: integers of 4 bytes, laid out as the kernels' struct.
unsafe impl DeviceRepr for Book {}

impl Book {
    /// The decoding form of a codebook; its symbols in canonical order go to the end of `symbols`.
    fn new(codebook: &Codebook, symbols: &mut Vec<u16>) -> Self {
        let (mut limit, mut offset) = ([0; LENGTHS], [0; LENGTHS]);
        for length in 1..=MAX_LENGTH {
            let end = u64::from(codebook.first(length) + codebook.counts()[length as usize]) << (32 - length);
            limit[length as usize] = u32::try_from(end).unwrap_or(u32::MAX);
            offset[length as usize] = codebook.entry(length).wrapping_sub(codebook.first(length));
        }
        let start = symbols.len();
        symbols.extend(codebook.sorted_symbols());
        let own = &symbols[start..];
        let short: u32 = codebook.counts()[..=TABLE_BITS as usize].iter().sum();
        let short = &own[..short as usize];
        let least = short.iter().copied().min().unwrap_or(0);
        let most = short.iter().copied().max().unwrap_or(0);
        let narrow = u32::from(most - least) <= NARROW_MASK;
        Self {
            limit,
            offset,
            longest: codebook.longest(),
            symbols: start as u32,
            symbol_count: own.len() as u32,
            base: if narrow { least.into() } else { 0 },
            mask: if narrow { NARROW_MASK } else { WIDE_MASK },
            absent: 0,
        }
    }
}

/// A stream of a batch and where things are on the device.
#[derive(Debug, Clone, Copy)]
pub struct BatchStream<'b, 'a, S> {
    /// The stream, parsed from the bytes that the device has too.
    pub stream: &'b Stream<'a, S>,
    /// Offset in bytes of the stream in the input, a multiple of 16.
    pub input_offset: u64,
    /// Where its first symbol goes in the output, counted in symbols; in bytes a multiple of 16.
    pub output_offset: u64,
    /// Where the class of its first group stands in the array of classes; for streams that need classes.
    pub classes_offset: u64,
}

/// Streams that are decoded by one launch, described on the device. All have the same group size.
#[derive(Debug)]
pub struct Batch<S> {
    pub(super) descriptors: CudaSlice<Descriptor>,
    pub(super) books: CudaSlice<Book>,
    pub(super) symbols: CudaSlice<u16>,
    pub(super) sums: CudaSlice<DeviceTotals>,
    pub(super) totals: Totals,
    symbol: PhantomData<S>,
}

/// A batch as decoders take it: made by the host ([`Batch::as_view`]) or on the device ([`Parser`](super::Parser)).
#[derive(Debug)]
pub struct BatchView<'b, S> {
    pub(crate) descriptors: CudaView<'b, Descriptor>,
    pub(crate) books: CudaView<'b, Book>,
    pub(crate) symbols: CudaView<'b, u16>,
    pub(crate) sums: CudaView<'b, DeviceTotals>,
    /// Upper bounds, if the batch was made on the device.
    pub(crate) totals: Totals,
    /// Status words are not cleared: parsing has written them.
    pub(crate) keep_status: bool,
    /// Codebooks of few symbols have the tables of reconstruction behind these.
    pub(crate) tabled: bool,
    pub(crate) symbol: PhantomData<S>,
}

/// `Totals` of `huffman/decode/decode.cuh`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct DeviceTotals {
    tasks: u32,
    sequences: u32,
    placings: u32,
    unused: u32,
}

// SAFETY: integers of 4 bytes, laid out as the kernels' struct.
unsafe impl DeviceRepr for DeviceTotals {}

/// Sums over the streams of a batch, and what all of them have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub streams: u32,
    pub books: u32,
    pub most_books: u32,
    pub group_log2: u32,
    pub live_with_map: u32,
    pub tasks: u32,
    pub sequences: u32,
    pub subsequences: u32,
    pub placings: u32,
    pub bits: u64,
    pub live_symbols: u64,
    /// Live symbols, each stream's times the share that can be looked up in pairs.
    pub paired_symbols: f64,
    pub longest: u32,
    pub input_bytes: u64,
    pub output_symbols: u64,
    pub classes: u64,
    /// The index that all streams have, if they have the same.
    pub index: Option<IndexKind>,
}

impl<S: Symbol + DeviceRepr> Batch<S> {
    /// Describes `streams` on the device. Their outputs must not overlap.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for offsets that are not aligned or streams of different group sizes, or too many
    /// of them; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, streams: &[BatchStream<'_, '_, S>]) -> Result<Self> {
        let mut totals =
            Totals { group_log2: 7, index: streams.first().map(|s| s.stream.index_kind()), ..Totals::default() };
        let (mut descriptors, mut books, mut symbols) = (Vec::new(), Vec::new(), Vec::new());
        for (i, one) in streams.iter().enumerate() {
            let group_log2 = one.stream.group_len().ilog2();
            if i > 0 && group_log2 != totals.group_log2 {
                return Err(CudaError::invalid("the streams of a batch have different group sizes: make two batches"));
            }
            totals.group_log2 = group_log2;
            descriptors.push(describe(one, books.len(), &mut totals)?);
            books.extend(one.stream.codebooks().iter().map(|codebook| Book::new(codebook, &mut symbols)));
        }
        totals.streams = narrow(descriptors.len() as u64)?;
        totals.books = narrow(books.len() as u64)?;
        narrow(symbols.len() as u64)?;
        check_overlap(streams)?;
        // Nothing has no address: an empty batch gets one of each.
        if descriptors.is_empty() {
            descriptors.push(Descriptor::default());
        }
        if books.is_empty() {
            books.push(Book::new(&Codebook::default(), &mut symbols));
        }
        if symbols.is_empty() {
            symbols.push(0);
        }
        Ok(Self {
            descriptors: stream.clone_htod(&descriptors).doing("describing a batch")?,
            books: stream.clone_htod(&books).doing("describing a batch")?,
            symbols: stream.clone_htod(&symbols).doing("describing a batch")?,
            sums: stream.clone_htod(&[totals.on_device()]).doing("describing a batch")?,
            totals,
            symbol: PhantomData,
        })
    }

    /// The batch as decoders take it.
    pub fn as_view(&self) -> BatchView<'_, S> {
        BatchView {
            descriptors: self.descriptors.as_view(),
            books: self.books.as_view(),
            symbols: self.symbols.as_view(),
            sums: self.sums.as_view(),
            totals: self.totals,
            keep_status: false,
            tabled: false,
            symbol: PhantomData,
        }
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.totals.streams as usize
    }

    /// Symbols that the output must have room for.
    #[doc(hidden)]
    pub fn output_len(&self) -> u64 {
        self.totals.output_symbols
    }

    /// Entries that the array of classes must have; 0 if no stream needs classes.
    #[doc(hidden)]
    pub fn classes_len(&self) -> u64 {
        self.totals.classes
    }
}

impl<S> BatchView<'_, S> {
    /// Symbols that the output must have room for.
    pub(crate) fn symbols_of_output(&self) -> usize {
        self.totals.output_symbols as usize
    }
}

impl Totals {
    fn on_device(&self) -> DeviceTotals {
        DeviceTotals { tasks: self.tasks, sequences: self.sequences, placings: self.placings, unused: 0 }
    }

    /// Whether most codewords are so short that two fit a lookup.
    pub fn pairs(&self) -> bool {
        self.paired_symbols >= PAIRED_SHARE * self.live_symbols as f64
    }
}

/// The share of lookups that give two symbols, as the code has it: a codeword of `n` bits has the share `2^-n`.
fn paired_share(codebook: &Codebook) -> f64 {
    let counts = &codebook.counts()[..=TABLE_BITS as usize];
    let share = |length: usize| f64::from(counts[length]) / f64::from(1_u32 << length);
    (1..counts.len()).map(|first| share(first) * (1..counts.len() - first).map(share).sum::<f64>()).sum()
}

fn narrow(number: u64) -> Result<u32> {
    // Half of what fits, so that kernels may round up.
    u32::try_from(number)
        .ok()
        .filter(|&n| n < 1 << 31)
        .ok_or_else(|| CudaError::invalid("the batch is too large: make several"))
}

/// The descriptor of a stream that comes after those in `totals`, and adds it to them.
fn describe<S: Symbol>(one: &BatchStream<'_, '_, S>, books_before: usize, totals: &mut Totals) -> Result<Descriptor> {
    let BatchStream { stream, input_offset, output_offset, classes_offset } = *one;
    let output_bytes = output_offset.checked_mul(S::BYTES as u64);
    if input_offset % 16 != 0 || output_bytes.is_none_or(|bytes| bytes % 16 != 0) {
        return Err(CudaError::invalid("streams and their outputs start on multiples of 16 bytes"));
    }
    let has_free = stream.live_groups() < stream.groups();
    let bitmap = (HEADER_BYTES + stream.codebook_bytes()).next_multiple_of(4);
    let bitmap_bytes = if has_free { stream.groups().div_ceil(8) } else { 0 };
    let index = (bitmap + bitmap_bytes).next_multiple_of(8);
    let words = (index + stream.index_bytes()).next_multiple_of(16);
    let bits = stream.codeword_bits();
    let live = stream.live_groups() as u32;
    let checksum = stream.checksum();
    let descriptor = Descriptor {
        words: input_offset + words as u64,
        index: input_offset + index as u64,
        bitmap: input_offset + bitmap as u64,
        out: output_offset,
        classes: classes_offset,
        groups: stream.groups() as u32,
        live,
        bits,
        index_bytes: stream.index_bytes() as u32,
        sum: checksum.sum,
        weighted: checksum.weighted,
        first_book: narrow(books_before as u64)?,
        books: stream.codebooks().len() as u32,
        free_symbol: u32::from(Into::<u16>::into(stream.free_symbol())),
        longest: stream.longest_codeword(),
        has_free: has_free.into(),
        map: totals.live_with_map,
        first_task: totals.tasks,
        first_sequence: totals.sequences,
        first_subsequence: totals.subsequences,
        first_placing: totals.placings,
    };
    let add = |total: &mut u32, more: u32| narrow(u64::from(*total) + u64::from(more)).map(|sum| *total = sum);
    add(&mut totals.tasks, live.div_ceil(INDEX_BLOCK))?;
    add(&mut totals.sequences, bits.div_ceil(SUBSEQUENCE_BITS * SEQUENCE))?;
    // Whole sequences, so that each starts on a multiple of its size.
    add(&mut totals.subsequences, bits.div_ceil(SUBSEQUENCE_BITS * SEQUENCE) * SEQUENCE)?;
    if has_free {
        add(&mut totals.live_with_map, live)?;
        add(&mut totals.placings, (stream.groups() as u32).div_ceil(PLACED_GROUPS))?;
    }
    totals.most_books = totals.most_books.max(stream.codebooks().len() as u32);
    totals.bits += u64::from(bits);
    totals.live_symbols += (stream.live_groups() * stream.group_len()) as u64;
    let books = stream.codebooks().len().max(1) as f64;
    let share = stream.codebooks().iter().map(paired_share).sum::<f64>() / books;
    totals.paired_symbols += share * (stream.live_groups() * stream.group_len()) as f64;
    totals.longest = totals.longest.max(stream.longest_codeword());
    let end = |start: u64, length: usize| {
        start.checked_add(length as u64).ok_or_else(|| CudaError::invalid("an offset is beyond all memory"))
    };
    totals.input_bytes = totals.input_bytes.max(end(input_offset, stream.byte_len())?);
    totals.output_symbols = totals.output_symbols.max(end(output_offset, stream.symbols())?);
    if stream.needs_classes() {
        totals.classes = totals.classes.max(end(classes_offset, stream.groups())?);
    }
    totals.index = totals.index.filter(|&index| index == stream.index_kind());
    Ok(descriptor)
}

fn check_overlap<S: Symbol>(streams: &[BatchStream<'_, '_, S>]) -> Result<()> {
    let mut outputs: Vec<_> = streams
        .iter()
        .filter(|s| s.stream.symbols() > 0)
        .map(|s| (s.output_offset, s.output_offset.saturating_add(s.stream.symbols() as u64)))
        .collect();
    outputs.sort_unstable();
    if outputs.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        return Err(CudaError::invalid("the outputs of a batch overlap"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use syncline_core::huffman::{EncodeOptions, EncodeScratch, encode};

    use super::*;

    #[test]
    fn offsets_lead_to_the_parts() {
        for (index, free) in [(IndexKind::Symbol, 5), (IndexKind::Gap, 0), (IndexKind::None, 5)] {
            let symbols: Vec<u16> = (0..128 * 70).map(|i| if i < 128 * 9 { 5 } else { (i * i % 37) as u16 }).collect();
            let mut bytes = Vec::new();
            let options = EncodeOptions { index, free_symbol: Some(free), ..EncodeOptions::default() };
            let summary = encode(&symbols, &[], &options, &mut EncodeScratch::default(), &mut bytes);
            let stream = Stream::<u16>::parse(&bytes, "test").unwrap();
            let mut totals = Totals::default();
            let one = BatchStream { stream: &stream, input_offset: 32, output_offset: 64, classes_offset: 0 };
            let descriptor = describe(&one, 0, &mut totals).unwrap();
            let word_bytes = u64::from(summary.codeword_bits.div_ceil(32)) * 4 + 8;
            assert_eq!(descriptor.words + word_bytes, 32 + bytes.len() as u64, "codewords end the stream");
            assert!(descriptor.index + u64::from(summary.index_bytes) <= descriptor.words);
            assert_eq!(descriptor.has_free == 1, free == 5);
            if free == 5 {
                assert_eq!(bytes[descriptor.bitmap as usize - 32..][..2], [0xff, 1], "nine free groups");
            }
            assert_eq!(totals.tasks, summary.live_groups.div_ceil(32));
            assert_eq!(totals.output_symbols, 64 + symbols.len() as u64);
        }
    }

    #[test]
    fn books_tell_narrow_from_wide() {
        assert_eq!(paired_share(&Codebook::new(vec![6; 64]).unwrap()), 1.0);
        assert_eq!(paired_share(&Codebook::new(vec![7; 128]).unwrap()), 0.0);
        let mut symbols = Vec::new();
        let mut lengths = vec![0_u8; 5000];
        (lengths[100], lengths[101], lengths[4999]) = (1, 2, 2);
        let book = Book::new(&Codebook::new(lengths.clone()).unwrap(), &mut symbols);
        assert_eq!((book.base, book.mask, book.symbol_count), (0, WIDE_MASK, 3));
        (lengths[1000], lengths[100]) = (1, 0);
        lengths[101] = 0;
        lengths[4000] = 2;
        let book = Book::new(&Codebook::new(lengths).unwrap(), &mut symbols);
        assert_eq!((book.base, book.mask, book.symbols, book.limit[2]), (1000, NARROW_MASK, 3, u32::MAX));
    }
}
