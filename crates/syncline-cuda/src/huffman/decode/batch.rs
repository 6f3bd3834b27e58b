//! Batches described by the host: a descriptor for each stream, and its codebooks.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, DeviceRepr};
use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::lengths::MAX_LENGTH;
use syncline_core::huffman::{IndexKind, SUBSEQUENCE_BITS, Stream, Symbol};

use super::structs::{BatchTotals, CodebookDescriptor, LENGTHS, StreamDescriptor};
use super::{BITMAP_BLOCK_GROUPS, INDEX_BLOCK, PAIRED_SHARE, SEQUENCE, TABLE_BITS};
use crate::error::{CudaError, DriverContext, Result};

/// Bytes before a stream's codebooks (FORMAT.md, "Huffman stream").
const HEADER_BYTES: usize = 40;
/// Mask of a symbol in a table entry that may have two.
const NARROW_MASK: u32 = 0xfff;
/// Mask of a symbol in a table entry that has one.
const WIDE_MASK: u32 = 0xffff;

impl CodebookDescriptor {
    /// Converts a codebook; appends its symbols in canonical order to `symbols`.
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

/// A stream of a batch and its positions on the device.
#[derive(Debug, Clone, Copy)]
pub struct BatchStream<'b, 'a, S> {
    /// The stream, parsed from the same bytes as those on the device.
    pub stream: &'b Stream<'a, S>,
    /// Offset of the stream in the input in bytes, a multiple of 16.
    pub input_offset: u64,
    /// Index of its first symbol in the output, a multiple of 16 bytes.
    pub output_offset: u64,
    /// Index of its first group in the array of classes, if the stream needs classes.
    pub classes_offset: u64,
}

/// Streams that are decoded by one launch, described on the device. All have the same group size.
#[derive(Debug)]
pub struct Batch<S> {
    pub(super) descriptors: CudaSlice<StreamDescriptor>,
    pub(super) codebooks: CudaSlice<CodebookDescriptor>,
    pub(super) symbols: CudaSlice<u16>,
    pub(super) totals: CudaSlice<BatchTotals>,
    pub(super) sizes: BatchSizes,
    symbol: PhantomData<S>,
}

/// A view of a batch, described by the host ([`Batch::as_view`]) or on the device ([`Parser`](super::Parser)).
#[derive(Debug)]
pub struct BatchView<'b, S> {
    #[doc(hidden)]
    pub descriptors: CudaView<'b, StreamDescriptor>,
    #[doc(hidden)]
    pub codebooks: CudaView<'b, CodebookDescriptor>,
    #[doc(hidden)]
    pub symbols: CudaView<'b, u16>,
    #[doc(hidden)]
    pub totals: CudaView<'b, BatchTotals>,
    /// Upper bounds if the batch was described on the device.
    #[doc(hidden)]
    pub sizes: BatchSizes,
    /// Whether parsing has written the status words, so that they must not be cleared.
    pub(crate) keep_status: bool,
    pub(crate) symbol: PhantomData<S>,
}

/// Sums over the streams of a batch, and properties that all of them share.
#[derive(Debug, Clone, Copy, Default)]
pub struct BatchSizes {
    pub streams: u32,
    pub codebooks: u32,
    pub max_codebooks: u32,
    pub group_log2: u32,
    pub mapped_groups: u32,
    pub index_blocks: u32,
    pub sequences: u32,
    pub subsequences: u32,
    pub bitmap_blocks: u32,
    pub bits: u64,
    pub coded_symbols: u64,
    /// Sum over the streams of symbols of coded groups times the share of lookups that give two symbols.
    pub paired_symbols: f64,
    pub longest: u32,
    pub input_bytes: u64,
    pub output_symbols: u64,
    pub classes: u64,
    /// The index kind, if all streams have the same.
    pub index: Option<IndexKind>,
}

impl<S: Symbol + DeviceRepr> Batch<S> {
    /// Copies the descriptions of `streams` to the device. Their outputs must not overlap.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for misaligned offsets, different group sizes or too many streams;
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, streams: &[BatchStream<'_, '_, S>]) -> Result<Self> {
        let mut sizes = BatchSizes {
            group_log2: 7,
            index: streams.first().map(|s| s.stream.index_kind()),
            ..BatchSizes::default()
        };
        let (mut descriptors, mut codebooks, mut symbols) = (Vec::new(), Vec::new(), Vec::new());
        for (i, one) in streams.iter().enumerate() {
            let group_log2 = one.stream.group_len().ilog2();
            if i > 0 && group_log2 != sizes.group_log2 {
                return Err(CudaError::invalid("the streams of a batch must have the same group size"));
            }
            sizes.group_log2 = group_log2;
            descriptors.push(describe(one, codebooks.len(), &mut sizes)?);
            codebooks
                .extend(one.stream.codebooks().iter().map(|codebook| CodebookDescriptor::new(codebook, &mut symbols)));
        }
        sizes.streams = narrow(descriptors.len() as u64)?;
        sizes.codebooks = narrow(codebooks.len() as u64)?;
        narrow(symbols.len() as u64)?;
        check_overlap(streams)?;
        // Empty slices have no address, so an empty batch gets one element of each.
        if descriptors.is_empty() {
            descriptors.push(StreamDescriptor::default());
        }
        if codebooks.is_empty() {
            codebooks.push(CodebookDescriptor::new(&Codebook::default(), &mut symbols));
        }
        if symbols.is_empty() {
            symbols.push(0);
        }
        Ok(Self {
            descriptors: stream.clone_htod(&descriptors).doing("describing a batch")?,
            codebooks: stream.clone_htod(&codebooks).doing("describing a batch")?,
            symbols: stream.clone_htod(&symbols).doing("describing a batch")?,
            totals: stream.clone_htod(&[sizes.totals()]).doing("describing a batch")?,
            sizes,
            symbol: PhantomData,
        })
    }

    /// Returns a view of the batch for decoders.
    pub fn as_view(&self) -> BatchView<'_, S> {
        BatchView {
            descriptors: self.descriptors.as_view(),
            codebooks: self.codebooks.as_view(),
            symbols: self.symbols.as_view(),
            totals: self.totals.as_view(),
            sizes: self.sizes,
            keep_status: false,
            symbol: PhantomData,
        }
    }

    /// Returns the number of streams.
    pub fn streams(&self) -> usize {
        self.sizes.streams as usize
    }

    /// Returns the number of symbols that the output must have room for.
    #[doc(hidden)]
    pub fn output_len(&self) -> u64 {
        self.sizes.output_symbols
    }

    /// Returns the number of elements that the array of classes must have; 0 if no stream needs classes.
    #[doc(hidden)]
    pub fn classes_len(&self) -> u64 {
        self.sizes.classes
    }
}

impl BatchSizes {
    fn totals(&self) -> BatchTotals {
        BatchTotals {
            index_blocks: self.index_blocks,
            sequences: self.sequences,
            bitmap_blocks: self.bitmap_blocks,
            unused: 0,
        }
    }

    /// Returns whether most codewords are so short that two of them fit a lookup.
    pub fn pairs(&self) -> bool {
        self.paired_symbols >= PAIRED_SHARE * self.coded_symbols as f64
    }
}

/// Returns the expected share of lookups that give two symbols: a codeword of `n` bits has probability `2^-n`.
fn paired_share(codebook: &Codebook) -> f64 {
    let counts = &codebook.counts()[..=TABLE_BITS as usize];
    let share = |length: usize| f64::from(counts[length]) / f64::from(1_u32 << length);
    (1..counts.len()).map(|first| share(first) * (1..counts.len() - first).map(share).sum::<f64>()).sum()
}

fn narrow(number: u64) -> Result<u32> {
    // Half of the range, so that kernels may round up.
    u32::try_from(number)
        .ok()
        .filter(|&n| n < 1 << 31)
        .ok_or_else(|| CudaError::invalid("the batch is too large: split it"))
}

/// Returns the descriptor of a stream, which follows those in `sizes`, and adds the stream to them.
fn describe<S: Symbol>(
    one: &BatchStream<'_, '_, S>,
    books_before: usize,
    sizes: &mut BatchSizes,
) -> Result<StreamDescriptor> {
    let BatchStream { stream, input_offset, output_offset, classes_offset } = *one;
    let output_bytes = output_offset.checked_mul(S::BYTES as u64);
    if input_offset % 16 != 0 || output_bytes.is_none_or(|bytes| bytes % 16 != 0) {
        return Err(CudaError::invalid("streams and their outputs must be aligned to 16 bytes"));
    }
    let has_zero_bit_groups = stream.coded_groups() < stream.groups();
    let bitmap = (HEADER_BYTES + stream.codebook_bytes()).next_multiple_of(4);
    let bitmap_bytes = if has_zero_bit_groups { stream.groups().div_ceil(8) } else { 0 };
    let index = (bitmap + bitmap_bytes).next_multiple_of(8);
    let words = (index + stream.index_bytes()).next_multiple_of(16);
    let bits = stream.codeword_bits();
    let coded_groups = stream.coded_groups() as u32;
    let checksum = stream.checksum();
    let descriptor = StreamDescriptor {
        words: input_offset + words as u64,
        index: input_offset + index as u64,
        bitmap: input_offset + bitmap as u64,
        out: output_offset,
        classes: classes_offset,
        groups: stream.groups() as u32,
        coded_groups,
        bits,
        index_bytes: stream.index_bytes() as u32,
        sum: checksum.sum,
        weighted: checksum.weighted,
        first_codebook: narrow(books_before as u64)?,
        codebooks: stream.codebooks().len() as u32,
        zero_bit_symbol: u32::from(Into::<u16>::into(stream.zero_bit_symbol())),
        longest: stream.longest_codeword(),
        has_zero_bit_groups: has_zero_bit_groups.into(),
        map: sizes.mapped_groups,
        first_index_block: sizes.index_blocks,
        first_sequence: sizes.sequences,
        first_subsequence: sizes.subsequences,
        first_bitmap_block: sizes.bitmap_blocks,
    };
    let add = |total: &mut u32, more: u32| narrow(u64::from(*total) + u64::from(more)).map(|sum| *total = sum);
    add(&mut sizes.index_blocks, coded_groups.div_ceil(INDEX_BLOCK))?;
    add(&mut sizes.sequences, bits.div_ceil(SUBSEQUENCE_BITS * SEQUENCE))?;
    // Streams start at whole sequences.
    add(&mut sizes.subsequences, bits.div_ceil(SUBSEQUENCE_BITS * SEQUENCE) * SEQUENCE)?;
    if has_zero_bit_groups {
        add(&mut sizes.mapped_groups, coded_groups)?;
        add(&mut sizes.bitmap_blocks, (stream.groups() as u32).div_ceil(BITMAP_BLOCK_GROUPS))?;
    }
    sizes.max_codebooks = sizes.max_codebooks.max(stream.codebooks().len() as u32);
    sizes.bits += u64::from(bits);
    sizes.coded_symbols += (stream.coded_groups() * stream.group_len()) as u64;
    let codebooks = stream.codebooks().len().max(1) as f64;
    let share = stream.codebooks().iter().map(paired_share).sum::<f64>() / codebooks;
    sizes.paired_symbols += share * (stream.coded_groups() * stream.group_len()) as f64;
    sizes.longest = sizes.longest.max(stream.longest_codeword());
    let end = |start: u64, length: usize| {
        start.checked_add(length as u64).ok_or_else(|| CudaError::invalid("an offset overflows"))
    };
    sizes.input_bytes = sizes.input_bytes.max(end(input_offset, stream.byte_len())?);
    sizes.output_symbols = sizes.output_symbols.max(end(output_offset, stream.symbols())?);
    if stream.needs_classes() {
        sizes.classes = sizes.classes.max(end(classes_offset, stream.groups())?);
    }
    sizes.index = sizes.index.filter(|&index| index == stream.index_kind());
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
    fn descriptors_locate_the_sections_of_a_stream() {
        for (index, free) in [(IndexKind::Symbol, 5), (IndexKind::None, 0), (IndexKind::None, 5)] {
            let symbols: Vec<u16> = (0..128 * 70).map(|i| if i < 128 * 9 { 5 } else { (i * i % 37) as u16 }).collect();
            let mut bytes = Vec::new();
            let options = EncodeOptions { index, zero_bit_symbol: Some(free), ..EncodeOptions::default() };
            let summary = encode(&symbols, &[], &options, &mut EncodeScratch::default(), &mut bytes);
            let stream = Stream::<u16>::parse(&bytes, "test").unwrap();
            let mut sizes = BatchSizes::default();
            let one = BatchStream { stream: &stream, input_offset: 32, output_offset: 64, classes_offset: 0 };
            let descriptor = describe(&one, 0, &mut sizes).unwrap();
            let word_bytes = u64::from(summary.codeword_bits.div_ceil(32)) * 4 + 8;
            assert_eq!(descriptor.words + word_bytes, 32 + bytes.len() as u64, "codewords end the stream");
            assert!(descriptor.index + u64::from(summary.index_bytes) <= descriptor.words);
            assert_eq!(descriptor.has_zero_bit_groups == 1, free == 5);
            if free == 5 {
                assert_eq!(bytes[descriptor.bitmap as usize - 32..][..2], [0xff, 1], "nine free groups");
            }
            assert_eq!(sizes.index_blocks, summary.coded_groups.div_ceil(32));
            assert_eq!(sizes.output_symbols, 64 + symbols.len() as u64);
        }
    }

    #[test]
    fn codebooks_with_a_narrow_range_of_symbols() {
        assert_eq!(paired_share(&Codebook::new(vec![6; 64]).unwrap()), 1.0);
        assert_eq!(paired_share(&Codebook::new(vec![7; 128]).unwrap()), 0.0);
        let mut symbols = Vec::new();
        let mut lengths = vec![0_u8; 5000];
        (lengths[100], lengths[101], lengths[4999]) = (1, 2, 2);
        let codebook = CodebookDescriptor::new(&Codebook::new(lengths.clone()).unwrap(), &mut symbols);
        assert_eq!((codebook.base, codebook.mask, codebook.symbol_count), (0, WIDE_MASK, 3));
        (lengths[1000], lengths[100]) = (1, 0);
        lengths[101] = 0;
        lengths[4000] = 2;
        let codebook = CodebookDescriptor::new(&Codebook::new(lengths).unwrap(), &mut symbols);
        assert_eq!(
            (codebook.base, codebook.mask, codebook.symbols, codebook.limit[2]),
            (1000, NARROW_MASK, 3, u32::MAX)
        );
    }
}
