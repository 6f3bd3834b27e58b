//! Reading a stream's parts and checking that they fit together.

use std::marker::PhantomData;

use super::codebook::Codebook;
use super::lengths::MAX_LENGTH;
use super::{Checksum, IndexKind, MAX_CLASSES, MAX_SYMBOLS, Symbol, index};
use crate::bits::reader::BitWords;
use crate::error::{Error, Result};

/// `Err` says what is wrong.
type Check<T> = std::result::Result<T, &'static str>;

/// Bytes of the header of a Huffman stream.
pub const HEADER_BYTES: usize = Header::BYTES;

/// The fixed start of a stream, as in `docs/FORMAT.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub groups: u32,
    pub coded_groups: u32,
    pub group_log2: u8,
    pub symbol_bytes: u8,
    pub index: IndexKind,
    pub codebooks: u8,
    pub zero_bit_symbol: u16,
    pub longest: u8,
    pub has_zero_bit_groups: bool,
    pub checksum: Checksum,
    pub bits: u32,
    pub codebook_bytes: u32,
    pub index_bytes: u32,
}

impl Header {
    pub const BYTES: usize = 40;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut put = |at: usize, number: u32| bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        put(0, self.groups);
        put(4, self.coded_groups);
        put(8, u32::from_le_bytes([self.group_log2, self.symbol_bytes, self.index as u8, self.codebooks]));
        let [low, high] = self.zero_bit_symbol.to_le_bytes();
        put(12, u32::from_le_bytes([low, high, self.longest, self.has_zero_bit_groups.into()]));
        put(16, self.checksum.sum);
        put(20, self.checksum.weighted);
        put(24, self.bits);
        put(28, self.codebook_bytes);
        put(32, self.index_bytes);
        bytes
    }

    /// Reads and checks each field on its own and against the others.
    fn from_bytes(bytes: &[u8; Self::BYTES], symbol_bytes: usize) -> Check<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let header = Self {
            groups: word(0),
            coded_groups: word(4),
            group_log2: bytes[8],
            symbol_bytes: bytes[9],
            index: IndexKind::from_code(bytes[10]).ok_or("unknown index kind")?,
            codebooks: bytes[11],
            zero_bit_symbol: u16::from_le_bytes([bytes[12], bytes[13]]),
            longest: bytes[14],
            has_zero_bit_groups: bytes[15] & 1 == 1,
            checksum: Checksum { sum: word(16), weighted: word(20) },
            bits: word(24),
            codebook_bytes: word(28),
            index_bytes: word(32),
        };
        let codebooks_allowed = if header.index == IndexKind::Symbol { MAX_CLASSES } else { 1 };
        let coded_symbols = u64::from(header.coded_groups) << (header.group_log2 & 7);
        let problems = [
            (!matches!(header.group_log2, 6 | 7), "groups of neither 64 nor 128 symbols"),
            (header.symbol_bytes as usize != symbol_bytes, "symbols of another width"),
            (header.codebooks == 0 || header.codebooks as usize > codebooks_allowed, "impossible number of codebooks"),
            (symbol_bytes == 1 && header.zero_bit_symbol > 0xff, "zero-bit symbol out of range"),
            (u32::from(header.longest) > MAX_LENGTH, "codewords too long"),
            (bytes[15] > 1 || word(36) != 0, "unknown flags"),
            (u64::from(header.groups) << (header.group_log2 & 7) > MAX_SYMBOLS as u64, "too many groups"),
            (header.coded_groups > header.groups, "more coded groups than groups"),
            (
                header.has_zero_bit_groups == (header.coded_groups == header.groups),
                "zero-bit groups and coded groups do not add up",
            ),
            ((header.coded_groups == 0) != (header.longest == 0), "codewords without coded groups, or the reverse"),
            (u64::from(header.bits) < coded_symbols, "less than a bit for each symbol"),
            (
                u64::from(header.bits) > coded_symbols * u64::from(header.longest),
                "more codeword bits than symbols need",
            ),
        ];
        match problems.iter().find(|p| p.0) {
            Some(&(_, problem)) => Err(problem),
            None => Ok(header),
        }
    }
}

/// A Huffman stream that has been read and checked, all but its codewords.
#[derive(Clone, Debug)]
pub struct Stream<'a, S> {
    pub(super) place: String,
    pub(super) header: Header,
    pub(super) codebooks: Vec<Codebook>,
    /// Bitmap of zero-bit groups; empty if there is none.
    pub(super) zero_bit: &'a [u8],
    /// For each coded group where it starts, and the end; only with the symbol index.
    pub(super) starts: Vec<u32>,
    pub(super) words: BitWords<'a>,
    byte_len: usize,
    symbol: PhantomData<S>,
}

impl<'a, S: Symbol> Stream<'a, S> {
    /// Reads the stream that `bytes` starts with; `place` names it in errors. [`Stream::byte_len`] says where it ends.
    ///
    /// Everything but the codewords is checked: sizes against `bytes`, codebooks for completeness, the bitmap's count,
    /// the index against itself and the number of bits.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends before the stream, [`Error::Corrupt`] if the stream contradicts itself.
    pub fn parse(bytes: &'a [u8], place: &str) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(place, format!("Huffman stream: {what}"));
        let mut parts = Parts { bytes, at: 0, place };
        let mut head = [0; Header::BYTES];
        head.copy_from_slice(parts.take(Header::BYTES as u64)?);
        let header = Header::from_bytes(&head, S::BYTES).map_err(bad)?;
        let codebook_bytes = parts.take(header.codebook_bytes.into())?;
        parts.align(4);
        let zero_bit = parts.take(if header.has_zero_bit_groups { header.groups.div_ceil(8).into() } else { 0 })?;
        parts.align(8);
        let index = parts.take(header.index_bytes.into())?;
        parts.align(16);
        let words = parts.take(BitWords::byte_len(header.bits))?;
        let words = BitWords::new(words, header.bits).ok_or_else(|| bad("fewer codewords than bits"))?;

        let codebooks = parse_codebooks::<S>(codebook_bytes, &header, place)?;
        check_bitmap(zero_bit, &header).map_err(bad)?;
        let starts = match header.index {
            IndexKind::Symbol => index::read_starts(index, header.coded_groups, header.bits).map_err(bad)?,
            IndexKind::None if index.is_empty() => Vec::new(),
            IndexKind::None => return Err(bad("an unexpected index")),
        };
        let place = place.to_owned();
        Ok(Self { place, header, codebooks, zero_bit, starts, words, byte_len: parts.at, symbol: PhantomData })
    }

    /// Returns the number of bytes of the whole stream.
    pub fn byte_len(&self) -> usize {
        self.byte_len
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> usize {
        self.header.groups as usize
    }

    /// Returns the number of symbols in a group, 64 or 128.
    pub fn group_len(&self) -> usize {
        1 << self.header.group_log2
    }

    /// Returns the number of symbols: groups times symbols in a group.
    pub fn symbols(&self) -> usize {
        self.groups() * self.group_len()
    }

    /// Returns the number of groups that have codewords.
    pub fn coded_groups(&self) -> usize {
        self.header.coded_groups as usize
    }

    /// Returns the symbol of zero-bit groups.
    pub fn zero_bit_symbol(&self) -> S {
        S::truncate(self.header.zero_bit_symbol)
    }

    /// Returns whether all symbols of group `group` are the zero-bit symbol.
    pub fn is_zero_bit(&self, group: usize) -> bool {
        self.zero_bit.get(group / 8).is_some_and(|byte| byte >> (group % 8) & 1 == 1)
    }

    /// Returns the kind of the index.
    pub fn index_kind(&self) -> IndexKind {
        self.header.index
    }

    /// Returns the number of bytes of the index.
    pub fn index_bytes(&self) -> usize {
        self.header.index_bytes as usize
    }

    /// Returns the number of bytes of the codebooks.
    pub fn codebook_bytes(&self) -> usize {
        self.header.codebook_bytes as usize
    }

    /// Returns the number of bits of all codewords.
    pub fn codeword_bits(&self) -> u32 {
        self.header.bits
    }

    /// Returns the codebooks: one, or one per class.
    pub fn codebooks(&self) -> &[Codebook] {
        &self.codebooks
    }

    /// Returns whether decoding needs a class for each group.
    pub fn needs_classes(&self) -> bool {
        self.codebooks.len() > 1
    }

    /// Returns the length of the longest codeword in bits, 0 if no group is coded.
    pub fn longest_codeword(&self) -> u32 {
        self.header.longest.into()
    }

    /// Returns the number of codewords of each length over all codebooks; entry 0 is 0.
    pub fn code_length_histogram(&self) -> [u32; MAX_LENGTH as usize + 1] {
        std::array::from_fn(|length| self.codebooks.iter().map(|c| c.counts()[length]).sum())
    }

    /// Returns the checksum of all symbols of coded groups in order, as written by the encoder.
    pub fn checksum(&self) -> Checksum {
        self.header.checksum
    }

    /// Compares the checksum of all symbols of coded groups with what the encoder wrote.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they differ.
    pub fn verify(&self, checksum: Checksum) -> Result<()> {
        if checksum == self.header.checksum {
            return Ok(());
        }
        Err(Error::corrupt(&*self.place, "Huffman stream: the decoded symbols do not match their checksum"))
    }
}

/// Cuts a stream into its parts.
struct Parts<'a, 'p> {
    bytes: &'a [u8],
    at: usize,
    place: &'p str,
}

impl<'a> Parts<'a, '_> {
    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let end = self.at as u64 + len;
        let part = usize::try_from(end).ok().and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or_else(|| {
            Error::truncated(format!("{} (Huffman stream)", self.place), end, self.bytes.len() as u64)
        })?;
        self.at += part.len();
        Ok(part)
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }
}

fn parse_codebooks<S: Symbol>(mut bytes: &[u8], header: &Header, place: &str) -> Result<Vec<Codebook>> {
    let mut codebooks = Vec::with_capacity(header.codebooks.into());
    for _ in 0..header.codebooks {
        let (codebook, len) = Codebook::parse(bytes, 1 << (8 * S::BYTES), place)?;
        codebooks.push(codebook);
        bytes = &bytes[len..];
    }
    let longest = codebooks.iter().map(Codebook::longest).max();
    if !bytes.is_empty() || longest != Some(header.longest.into()) {
        return Err(Error::corrupt(place, "Huffman stream: the codebooks are not what the header says"));
    }
    Ok(codebooks)
}

fn check_bitmap(zero_bit: &[u8], header: &Header) -> Check<()> {
    if !header.has_zero_bit_groups {
        return Ok(());
    }
    let set: u32 = zero_bit.iter().map(|byte| byte.count_ones()).sum();
    let used_in_last = header.groups % 8;
    let padding = if used_in_last == 0 { 0 } else { zero_bit.last().map_or(0, |last| last >> used_in_last) };
    if set != header.groups - header.coded_groups || padding != 0 {
        return Err("the bitmap does not have as many zero-bit groups as the header");
    }
    Ok(())
}
