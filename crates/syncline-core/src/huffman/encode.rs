//! Encoding: survey, histograms, codebooks, codewords, index.

use super::codebook::Codebook;
use super::codewords::{JOINED, Pieces, join, merge};
use super::histogram::{self, HistogramScratch, NARROW, Survey};
use super::lengths::{LengthScratch, code_lengths, code_lengths_of_list};
use super::stream::Header;
use super::{Checksum, IndexKind, MAX_CLASSES, MAX_SYMBOLS, Symbol, index};
use crate::bits::pack::pack_values;
use crate::bits::reader::BitWords;
use crate::bits::writer::BitWriter;
use crate::simd::{self, InstructionSet, Isa, Kernel};

/// Options of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Logarithm of the symbols in a group: 6 or 7.
    pub group_log2: u8,
    /// The index that is stored with the codewords.
    pub index: IndexKind,
    /// The symbol whose groups take no bits; `None` selects the most frequent symbol.
    pub zero_bit_symbol: Option<u16>,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self { group_log2: 7, index: IndexKind::Symbol, zero_bit_symbol: None }
    }
}

/// Buffers that are reused from stream to stream.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    pub(super) survey: Survey,
    histogram: HistogramScratch,
    counts: [Vec<u32>; MAX_CLASSES],
    total: Vec<u32>,
    lengths: LengthScratch,
    /// The symbols of a short stream of a wide alphabet, and the bits of their codewords.
    listed: Vec<u16>,
    listed_bits: Option<u64>,
    tables: Vec<u32>,
    pub(super) codewords: Vec<u8>,
    pub(super) starts: Vec<u32>,
    /// Memory for callers' symbols.
    pub(crate) spare: Vec<Vec<u16>>,
}

/// Properties of the encoded stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeSummary {
    /// Groups.
    pub groups: u32,
    /// Groups with codewords.
    pub coded_groups: u32,
    /// Codebooks: 1, or 4 if the classes paid.
    pub codebooks: u8,
    /// The zero-bit symbol.
    pub zero_bit_symbol: u16,
    /// Bits of all codewords.
    pub codeword_bits: u32,
    /// Bytes of all codebooks.
    pub codebook_bytes: u32,
    /// Bytes of the index.
    pub index_bytes: u32,
    /// Bytes of the whole stream.
    pub stream_bytes: u64,
}

impl EncodeSummary {
    /// Returns whether the decoder will need the classes.
    pub fn uses_classes(&self) -> bool {
        self.codebooks > 1
    }
}

/// Appends a Huffman stream of `symbols` to `out`.
///
/// `classes` has one class, 0 to 3, for each group, or is empty: one class. They are used if that makes codewords and
/// codebooks shorter and the index is [`IndexKind::Symbol`]; the decoder must then be given the same.
///
/// # Panics
/// If the symbols are not whole groups, are more than [`MAX_SYMBOLS`], the classes are not one per group or over 3, the
/// zero-bit symbol does not fit the symbol type, or `out` does not end on a multiple of 16: mistakes of the caller,
/// whatever the data.
pub fn encode<S: Symbol>(
    symbols: &[S],
    classes: &[u8],
    options: &EncodeOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> EncodeSummary {
    let (group_len, zero_bit) = begin(symbols, options, scratch);
    assert!(classes.is_empty() || classes.len() == symbols.len() / group_len, "one class for each group");
    assert!(out.len().is_multiple_of(16), "streams start on multiples of 16");

    let classes = if options.index == IndexKind::Symbol { classes } else { &[] };
    let codebooks = choose_codebooks(symbols, group_len, classes, scratch);
    let classes = if codebooks.len() > 1 { classes } else { &[] };
    let bits = count_bits(&codebooks, scratch);
    write_codewords(symbols, group_len, classes, &codebooks, bits, scratch);
    finish(symbols, zero_bit, options, &codebooks, bits, scratch, out)
}

/// Checks and surveys the symbols. Returns the symbols of a group, and the zero-bit symbol.
pub(super) fn begin<S: Symbol>(symbols: &[S], options: &EncodeOptions, scratch: &mut EncodeScratch) -> (usize, u16) {
    assert!(matches!(options.group_log2, 6 | 7), "groups have 64 or 128 symbols");
    let group_len = 1usize << options.group_log2;
    assert!(
        symbols.len().is_multiple_of(group_len) && symbols.len() <= MAX_SYMBOLS,
        "whole groups, at most MAX_SYMBOLS"
    );
    let zero_bit = options.zero_bit_symbol.unwrap_or_else(|| histogram::commonest(symbols, &mut scratch.histogram));
    assert!(Into::<u16>::into(S::truncate(zero_bit)) == zero_bit, "the zero-bit symbol is a symbol");
    scratch.survey.fill(symbols, group_len, S::truncate(zero_bit));
    (group_len, zero_bit)
}

/// Writes the stream whose codewords are in `scratch`.
pub(super) fn finish<S: Symbol>(
    symbols: &[S],
    zero_bit: u16,
    options: &EncodeOptions,
    codebooks: &[Codebook],
    bits: u32,
    scratch: &EncodeScratch,
    out: &mut Vec<u8>,
) -> EncodeSummary {
    let group_len = 1 << options.group_log2;
    let mut header = Header {
        groups: scratch.survey.are_coded.len() as u32,
        coded_groups: scratch.starts.len() as u32 - 1,
        group_log2: options.group_log2,
        symbol_bytes: S::BYTES as u8,
        index: options.index,
        codebooks: codebooks.len() as u8,
        zero_bit_symbol: zero_bit,
        longest: codebooks.iter().map(|c| c.longest() as u8).max().unwrap_or(0),
        has_zero_bit_groups: scratch.survey.are_coded.contains(&false),
        checksum: checksum_of_coded(symbols, group_len, &scratch.survey.are_coded),
        bits,
        ..Header::default()
    };
    write_stream(codebooks, &mut header, scratch, out)
}

/// Puts the parts together; fills in the header's sizes.
fn write_stream(
    codebooks: &[Codebook],
    header: &mut Header,
    scratch: &EncodeScratch,
    out: &mut Vec<u8>,
) -> EncodeSummary {
    let start = out.len();
    let are_coded = &scratch.survey.are_coded;
    out.resize(start + Header::BYTES, 0);
    for codebook in codebooks {
        codebook.write(out);
    }
    header.codebook_bytes = (out.len() - start - Header::BYTES) as u32;
    align(out, 4);
    if header.has_zero_bit_groups {
        pack_values::<1>(are_coded.iter().map(|&is_coded| u8::from(!is_coded)), out);
    }
    align(out, 8);
    let before_index = out.len();
    match header.index {
        IndexKind::None => {}
        IndexKind::Symbol => index::write_starts(&scratch.starts, out),
    }
    header.index_bytes = (out.len() - before_index) as u32;
    align(out, 16);
    out.extend_from_slice(&scratch.codewords);
    out[start..start + Header::BYTES].copy_from_slice(&header.to_bytes());
    EncodeSummary {
        groups: header.groups,
        coded_groups: header.coded_groups,
        codebooks: header.codebooks,
        zero_bit_symbol: header.zero_bit_symbol,
        codeword_bits: header.bits,
        codebook_bytes: header.codebook_bytes,
        index_bytes: header.index_bytes,
        stream_bytes: (out.len() - start) as u64,
    }
}

/// Pads the stream to a multiple of `to` bytes. The stream starts at a multiple of 16, so that alignment within `out`
/// is alignment within the stream.
fn align(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// Most symbols of a wide alphabet that are sorted instead of counted: passes over all counters would take longer.
const MOST_LISTED: usize = 1 << 14;

/// Chooses one codebook, or four if codebooks for the groups' classes make the stream shorter.
pub(super) fn choose_codebooks<S: Symbol>(
    symbols: &[S],
    group_len: usize,
    classes: &[u8],
    scratch: &mut EncodeScratch,
) -> Vec<Codebook> {
    let EncodeScratch { survey, histogram, counts, total, lengths, listed, listed_bits, .. } = scratch;
    let class_count = if classes.is_empty() { 1 } else { MAX_CLASSES };
    *listed_bits = None;
    if class_count == 1 && usize::from(survey.largest) >= NARROW && symbols.len() <= MOST_LISTED {
        listed.clear();
        let groups = symbols.chunks_exact(group_len).zip(&survey.are_coded).filter(|(_, is_coded)| **is_coded);
        groups.for_each(|(group, _)| listed.extend(group.iter().map(|&symbol| Into::<u16>::into(symbol))));
        let mut of_symbols = Vec::new();
        *listed_bits = Some(code_lengths_of_list(listed, lengths, &mut of_symbols));
        return vec![Codebook::new(of_symbols).expect("code lengths are complete")];
    }
    let counts = &mut counts[..class_count];
    let class_of = |g: usize| survey.are_coded[g].then(|| classes.get(g).copied().unwrap_or(0));
    histogram::count(symbols, group_len, class_of, survey.largest, histogram, counts);
    total.clear();
    if class_count > 1 {
        total.resize(counts[0].len(), 0);
        for count in counts.iter() {
            total.iter_mut().zip(count).for_each(|(sum, &n)| *sum += n);
        }
    }
    if class_count == 1 {
        return vec![build(&counts[0], lengths)];
    }
    let single = build(total, lengths);
    let several: Vec<_> = counts.iter().map(|count| build(count, lengths)).collect();
    let several_bits: u64 = several.iter().zip(counts.iter()).map(|(book, count)| coded_bits(book, count)).sum();
    if several_bits < coded_bits(&single, total) { several } else { vec![single] }
}

fn build(frequencies: &[u32], scratch: &mut LengthScratch) -> Codebook {
    let mut lengths = Vec::new();
    code_lengths(frequencies, scratch, &mut lengths);
    Codebook::new(lengths).expect("code lengths are complete")
}

/// Returns the bits of the codewords of symbols with these frequencies plus the bits of the codebook.
fn coded_bits(codebook: &Codebook, frequencies: &[u32]) -> u64 {
    let codewords: u64 = codebook.lengths().iter().zip(frequencies).map(|(&l, &f)| u64::from(l) * u64::from(f)).sum();
    let mut bytes = Vec::new();
    codebook.write(&mut bytes);
    codewords + 8 * bytes.len() as u64
}

/// Writes all codewords and their padding to `scratch.codewords`, the start of each coded group and the end to
/// `scratch.starts`.
pub(super) fn write_codewords<S: Symbol>(
    symbols: &[S],
    group_len: usize,
    classes: &[u8],
    codebooks: &[Codebook],
    bits: u32,
    scratch: &mut EncodeScratch,
) {
    let largest = scratch.survey.largest as usize;
    let longest = codebooks.iter().map(Codebook::longest).max().unwrap_or(0);
    let entries = if largest < NARROW { NARROW } else { 1 << 16 };
    // Only the entries of used symbols are read.
    let table_len = entries * codebooks.len();
    scratch.tables.resize(scratch.tables.len().max(table_len), 0);
    for (table, codebook) in scratch.tables.chunks_exact_mut(entries).zip(codebooks) {
        codebook.fill_codewords(table);
    }
    scratch.codewords.clear();
    scratch.codewords.resize(BitWords::byte_len(bits) as usize, 0);
    scratch.starts.clear();
    let EncodeScratch { survey, starts, .. } = scratch;
    let groups = Groups { symbols, group_len, classes, are_coded: &survey.are_coded, alphabet: largest + 1, starts };
    let writer = BitWriter::new(&mut scratch.codewords);
    let tables = &scratch.tables[..table_len];
    let written = match (entries == NARROW, longest <= 16) {
        (true, true) => simd::run(JoinedWriter(Writer::<_, NARROW>::new(groups, tables, writer))),
        (true, false) => simd::run(PairWriter(Writer::<_, NARROW>::new(groups, tables, writer))),
        (false, true) => simd::run(JoinedWriter(Writer::<_, { 1 << 16 }>::new(groups, tables, writer))),
        (false, false) => simd::run(PairWriter(Writer::<_, { 1 << 16 }>::new(groups, tables, writer))),
    };
    assert_eq!(written, bits, "codewords take what the histogram says");
}

/// Returns the number of bits of all codewords.
pub(super) fn count_bits(codebooks: &[Codebook], scratch: &EncodeScratch) -> u32 {
    if let Some(bits) = scratch.listed_bits {
        return bits as u32;
    }
    let mut bits = 0u64;
    for (codebook, count) in codebooks.iter().zip(&scratch.counts) {
        // With one codebook for several classes `total` holds the frequencies.
        let count = if codebooks.len() == 1 && !scratch.total.is_empty() { &scratch.total } else { count };
        bits += codebook.lengths().iter().zip(count).map(|(&l, &f)| u64::from(l) * u64::from(f)).sum::<u64>();
    }
    // At most 2^23 symbols of 20 bits.
    bits as u32
}

struct Groups<'a, S> {
    symbols: &'a [S],
    group_len: usize,
    classes: &'a [u8],
    are_coded: &'a [bool],
    alphabet: usize,
    starts: &'a mut Vec<u32>,
}

/// Arguments of both kernels that write codewords.
struct Writer<'a, S, const ENTRIES: usize> {
    groups: Groups<'a, S>,
    tables: &'a [[u32; ENTRIES]],
    writer: BitWriter<'a>,
}

impl<'a, S, const ENTRIES: usize> Writer<'a, S, ENTRIES> {
    fn new(groups: Groups<'a, S>, tables: &'a [u32], writer: BitWriter<'a>) -> Self {
        Self { groups, tables: tables.as_chunks().0, writer }
    }
}

/// Writes codewords of at most 16 bits each. (These are loops, because closures are not compiled for wider vectors.)
struct JoinedWriter<'a, S, const ENTRIES: usize>(Writer<'a, S, ENTRIES>);

impl<S: Symbol, const ENTRIES: usize> Kernel for JoinedWriter<'_, S, ENTRIES> {
    type Output = u32;

    const WIDEST: Isa = Isa::Avx512Vbmi2;

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) -> u32 {
        let Writer { groups, tables, mut writer } = self.0;
        let mut pieces = Pieces::default();
        for (g, group) in groups.symbols.chunks_exact(groups.group_len).enumerate() {
            if !groups.are_coded[g] {
                continue;
            }
            groups.starts.push(writer.position());
            let table = &tables[groups.classes.get(g).copied().unwrap_or(0) as usize];
            for symbols in group.as_chunks::<JOINED>().0 {
                let count = join(isa, symbols, table, groups.alphabet, &mut pieces);
                let (bits, lengths) = (pieces.bits.as_chunks::<2>().0, pieces.lengths.as_chunks::<2>().0);
                for (&[first, second], &[first_count, second_count]) in bits.iter().zip(lengths).take(count / 2) {
                    // Nearly always or nearly never, so the branch is cheaper than a second store.
                    if first_count + second_count <= 64 {
                        // Every piece has a bit at least.
                        writer.put(first << (second_count & 63) | second, (first_count + second_count) as u32);
                    } else {
                        writer.put(first, first_count as u32);
                        writer.put(second, second_count as u32);
                    }
                }
            }
        }
        groups.starts.push(writer.position());
        writer.finish()
    }
}

/// Writes codewords of up to 20 bits each, two at a time.
struct PairWriter<'a, S, const ENTRIES: usize>(Writer<'a, S, ENTRIES>);

impl<S: Symbol, const ENTRIES: usize> Kernel for PairWriter<'_, S, ENTRIES> {
    type Output = u32;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> u32 {
        let Writer { groups, tables, mut writer } = self.0;
        for (g, group) in groups.symbols.chunks_exact(groups.group_len).enumerate() {
            if !groups.are_coded[g] {
                continue;
            }
            groups.starts.push(writer.position());
            let table = &tables[groups.classes.get(g).copied().unwrap_or(0) as usize];
            for two in group.as_chunks::<2>().0 {
                let (bits, count) = merge(&two.map(|symbol| u64::from(table[symbol.index() & (ENTRIES - 1)])));
                writer.put(bits, count);
            }
        }
        groups.starts.push(writer.position());
        writer.finish()
    }
}

fn checksum_of_coded<S: Symbol>(symbols: &[S], group_len: usize, are_coded: &[bool]) -> Checksum {
    simd::run(ChecksumOfCoded { symbols, group_len, are_coded })
}

struct ChecksumOfCoded<'a, S> {
    symbols: &'a [S],
    group_len: usize,
    are_coded: &'a [bool],
}

impl<S: Symbol> Kernel for ChecksumOfCoded<'_, S> {
    type Output = Checksum;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Checksum {
        let mut total = Checksum::default();
        let mut first = 0;
        let groups = self.symbols.chunks_exact(self.group_len);
        for (group, _) in groups.zip(self.are_coded).filter(|&(_, &is_coded)| is_coded) {
            total.add(Checksum::of(group, first));
            first += self.group_len as u32;
        }
        total
    }
}
