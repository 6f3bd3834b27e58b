//! The section of codes (`docs/FORMAT.md`, "Codes").

use std::ops::Range;

use super::codebook::{Decoder, Encoder, MAX_LENGTH};
use super::decode::read_strips;
use super::encode::Strip;
use super::writer::{WordWriter, WordsEnd};
use super::{STRIP_LEN, SYMBOLS, index};
use crate::bits::fields::{Fields, align};
use crate::bits::pack::pack_values;
use crate::bits::reader::BitWords;
use crate::error::{Error, Result};
use crate::geometry::MAX_TILE_ELEMENTS;
use crate::huffman::codebook::{Codebook, LENGTHS};
use crate::quantize::mask::TileMask;
use crate::simd::{self, InstructionSet, Kernel};

/// Flag: a bitmap marks the strips that contain only zeros.
const ZERO_STRIPS: u8 = 1;

/// Encodes the strips of a chunk one after another.
#[derive(Debug, Default)]
pub struct StreamWriter {
    /// The words so far, then room for more.
    words: Vec<u8>,
    end: WordsEnd,
    /// Bits of the strips that are not zeros only.
    lengths: Vec<u32>,
    /// Whether each strip is zeros only.
    zeros: Vec<u8>,
}

/// Bytes that the words of a strip take at most: for each code, runs of 1, 2, 4, 8, and 16 zeros, and one that follows
/// as extra bits.
const MOST_STRIP_BYTES: usize = STRIP_LEN * (6 * MAX_LENGTH as usize + 32) / 8 + 16;

impl StreamWriter {
    /// Forgets all strips.
    pub fn clear(&mut self) {
        self.end = WordsEnd::default();
        self.lengths.clear();
        self.zeros.clear();
    }

    /// Appends a strip.
    #[inline]
    pub fn push(&mut self, strip: Strip<'_>, encoder: &Encoder) {
        let start = self.end.position();
        let least = (start / 8) as usize + MOST_STRIP_BYTES;
        if self.words.len() < least {
            self.words.resize(2 * least, 0);
        }
        self.end = simd::run(Write { out: WordWriter::resume(&mut self.words, self.end), strip, encoder });
        let bits = self.end.position() - start;
        self.zeros.push(u8::from(bits == 0));
        if bits > 0 {
            self.lengths.push(bits as u32);
        }
    }

    /// Appends the section: its header, the codebooks, the strips that are zeros only, the index, and the codewords.
    pub fn write(&mut self, codebooks: &[&Codebook], out: &mut Vec<u8>) {
        let bits = self.end.position() as u32;
        let has_zeros = self.zeros.contains(&1);
        let start = out.len();
        out.resize(start + Header::BYTES, 0);
        codebooks.iter().for_each(|code| code.write(out));
        let codebook_bytes = (out.len() - start - Header::BYTES) as u32;
        align(out, 4);
        if has_zeros {
            pack_values::<1>(self.zeros.iter().copied(), out);
            align(out, 4);
        }
        let index_start = out.len();
        index::write(&self.lengths, out);
        let header = Header {
            strips: self.zeros.len() as u32,
            coded_strips: self.lengths.len() as u32,
            codebooks: codebooks.len() as u8,
            flags: if has_zeros { ZERO_STRIPS } else { 0 },
            codebook_bytes,
            bits,
            index_bytes: (out.len() - index_start) as u32,
        };
        out[start..start + Header::BYTES].copy_from_slice(&header.to_bytes());
        align(out, 16);
        let words_start = out.len();
        out.extend_from_slice(&self.words[..(bits.div_ceil(32) * 4) as usize]);
        out.resize(words_start + BitWords::byte_len(bits) as usize, 0);
    }
}

/// Computes [`Encoder::write`].
struct Write<'w, 's> {
    out: WordWriter<'w>,
    strip: Strip<'s>,
    encoder: &'s Encoder,
}

impl Kernel for Write<'_, '_> {
    type Output = WordsEnd;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> WordsEnd {
        let Self { out, strip, encoder } = self;
        encoder.write(strip, out)
    }
}

/// The fixed start of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    strips: u32,
    coded_strips: u32,
    codebooks: u8,
    flags: u8,
    codebook_bytes: u32,
    bits: u32,
    index_bytes: u32,
}

impl Header {
    const BYTES: usize = 24;
    const BITS_AT: usize = 16;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.strips.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.coded_strips.to_le_bytes());
        bytes[8..12].copy_from_slice(&[self.codebooks, self.flags, 0, 0]);
        bytes[12..16].copy_from_slice(&self.codebook_bytes.to_le_bytes());
        bytes[Self::BITS_AT..20].copy_from_slice(&self.bits.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.index_bytes.to_le_bytes());
        bytes
    }
}

/// A section that has been read and checked, all but its codewords.
#[derive(Debug)]
pub struct CodeStream<'a> {
    header: Header,
    decoders: Vec<Decoder>,
    lengths: [u32; LENGTHS],
    /// Place of each strip among those that are not zeros only, `None` for a strip of zeros.
    ranks: Vec<Option<u32>>,
    /// The first bit of each coded strip, and the end of the last one.
    starts: Vec<u32>,
    words: BitWords<'a>,
    /// Where the codewords start in the section.
    words_at: usize,
    place: &'a str,
}

/// Bytes of a section of codes from which it is known where its codewords start.
pub const CODES_HEADER_LEN: usize = Header::BYTES;

/// Returns where the codewords start in a section of codes of `len` bytes, which starts with `head`; `None` if `head`
/// is too short or states more codewords than the section has.
pub fn codewords_at(head: &[u8], len: usize) -> Option<usize> {
    let bits = u32::from_le_bytes(*head.get(Header::BITS_AT..)?.first_chunk()?);
    len.checked_sub(BitWords::byte_len(bits) as usize)
}

impl<'a> CodeStream<'a> {
    /// Reads the section of a chunk with `strips` strips and this number of codebooks; `place` names it in errors.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Corrupt`] if it is not such a section.
    pub fn parse(section: &'a [u8], strips: usize, codebooks: usize, place: &'a str) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(place, format!("codes: {what}"));
        let mut fields = Fields::new(section, place);
        let (count, coded_strips) = (fields.u32()?, fields.u32()?);
        let (books, flags, reserved) = (fields.u8()?, fields.u8()?, fields.u16()?);
        let (codebook_bytes, bits, index_bytes) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let header = Header { strips: count, coded_strips, codebooks: books, flags, codebook_bytes, bits, index_bytes };
        if count as usize != strips {
            return Err(bad("the number of strips does not fit the tiles"));
        }
        if usize::from(books) != codebooks || flags & !ZERO_STRIPS != 0 || reserved != 0 {
            return Err(bad("a field is out of range"));
        }
        let (decoders, lengths) = read_codebooks(fields.take(codebook_bytes as usize)?, books, place)?;
        fields.align(4)?;
        let mut zeros: &[u8] = &[];
        if flags & ZERO_STRIPS != 0 {
            zeros = fields.take(strips.div_ceil(8))?;
            fields.align(4)?;
        }
        // Memory: `strips` comes from the geometry of the chunk.
        let mut next = 0;
        let ranks: Vec<Option<u32>> = (0..strips)
            .map(|strip| {
                let is_zero = zeros.get(strip / 8).is_some_and(|byte| byte >> (strip % 8) & 1 != 0);
                let rank = next;
                next += u32::from(!is_zero);
                (!is_zero).then_some(rank)
            })
            .collect();
        if next != coded_strips {
            return Err(bad("the strips of zeros and the others do not add up"));
        }
        let starts = index::read(fields.take(index_bytes as usize)?, coded_strips as usize, bits).map_err(bad)?;
        fields.align(16)?;
        let words_at = fields.position();
        let words = BitWords::new(fields.rest(), bits).ok_or_else(|| bad("wrong length of the codewords"))?;
        Ok(Self { header, decoders, lengths, ranks, starts, words, words_at, place })
    }

    /// Returns the bytes of the section that have the codewords of these strips.
    ///
    /// # Panics
    /// There are no such strips.
    pub fn bytes_of(&self, strips: Range<usize>) -> Range<usize> {
        let mut coded = self.ranks[strips].iter().flatten();
        let Some(&first) = coded.next() else { return self.words_at..self.words_at };
        let last = coded.next_back().copied().unwrap_or(first);
        let (start, end) = (self.starts[first as usize], self.starts[last as usize + 1]);
        self.words_at + start as usize / 32 * 4..self.words_at + (end as usize).div_ceil(32) * 4
    }

    /// Decodes strips, from number `strip` on, with codebook number `codebook` to one lane of `codes`, which holds
    /// zeros.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the codewords are not those of strips of these lengths.
    ///
    /// # Panics
    /// There are no such strips.
    #[inline]
    pub fn read<const L: usize>(
        &self,
        strip: usize,
        codebook: usize,
        codes: &mut [[i32; L]],
        lane: usize,
    ) -> Result<()> {
        simd::run(Read { stream: self, strip, codebook, codes, lane }).map_err(|number| {
            Error::corrupt(
                self.place,
                format!("codes: strip {number} or that before has codewords that it cannot have"),
            )
        })
    }

    /// Decodes the bitmap of a tile of these extents, whose strips begin with number `strip`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the codewords are not those of a bitmap.
    ///
    /// # Panics
    /// There are no such strips.
    pub fn read_bitmap(&self, strip: usize, extent: [usize; 3]) -> Result<TileMask> {
        let mut codes = [[0]; TileMask::codes_of(MAX_TILE_ELEMENTS)];
        let codes = &mut codes[..TileMask::codes_of(extent.iter().product())];
        self.read(strip, self.decoders.len() - 1, codes, 0)?;
        TileMask::from_codes(codes, extent)
            .ok_or_else(|| Error::corrupt(self.place, "codes: a code of a bitmap is none of four bits"))
    }

    /// Computes [`Self::read`]. Returns the number of a strip whose codewords are wrong, if there is one.
    #[inline(always)]
    fn read_body<const L: usize>(
        &self,
        strip: usize,
        codebook: usize,
        codes: &mut [[i32; L]],
        lane: usize,
    ) -> std::result::Result<(), usize> {
        let decoder = self.decoders.get(codebook).ok_or(strip)?;
        let bounds = |number: usize| {
            let rank = self.ranks.get(number).copied().flatten()? as usize;
            Some([self.starts[rank], self.starts[rank + 1]])
        };
        let mut number = strip;
        let mut rest = codes.chunks_mut(STRIP_LEN);
        while let Some(first) = rest.next() {
            number += 1;
            let Some(of_first) = bounds(number - 1) else { continue };
            let read = match (rest.len() > 0).then(|| bounds(number)).flatten() {
                Some(of_second) => {
                    number += 1;
                    let second = rest.next().unwrap_or_default();
                    read_strips(decoder, self.words, [of_first, of_second], [first, second], lane)
                }
                None => read_strips(decoder, self.words, [of_first], [first], lane),
            };
            read.ok_or(number - 1)?;
        }
        Ok(())
    }

    /// Returns the number of strips that are not zeros only.
    pub fn coded_strips(&self) -> u32 {
        self.header.coded_strips
    }

    /// Returns the number of codewords of each length, over all codebooks.
    pub fn code_length_histogram(&self) -> [u32; LENGTHS] {
        self.lengths
    }

    /// Returns the lengths in bytes of codewords, codebooks, and index.
    pub fn part_bytes(&self) -> [u64; 3] {
        [self.header.bits.div_ceil(8), self.header.codebook_bytes, self.header.index_bytes].map(u64::from)
    }
}

/// Computes [`CodeStream::read`].
struct Read<'s, 'a, 'c, const L: usize> {
    stream: &'s CodeStream<'a>,
    strip: usize,
    codebook: usize,
    codes: &'c mut [[i32; L]],
    lane: usize,
}

impl<const L: usize> Kernel for Read<'_, '_, '_, L> {
    type Output = std::result::Result<(), usize>;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Self::Output {
        self.stream.read_body(self.strip, self.codebook, self.codes, self.lane)
    }
}

/// Reads codebooks. Returns their tables, and how many codewords of each length they have together.
fn read_codebooks(mut bytes: &[u8], count: u8, place: &str) -> Result<(Vec<Decoder>, [u32; LENGTHS])> {
    let bad = |what: &str| Error::corrupt(place, format!("codes: {what}"));
    let (mut decoders, mut lengths) = (Vec::new(), [0; LENGTHS]);
    for _ in 0..count {
        let (code, length) = Codebook::parse(bytes, SYMBOLS, place)?;
        lengths.iter_mut().zip(code.counts()).for_each(|(all, count)| *all += count);
        decoders.push(Decoder::new(&code).ok_or_else(|| bad("a codeword is too long"))?);
        bytes = &bytes[length..];
    }
    if bytes.is_empty() { Ok((decoders, lengths)) } else { Err(bad("its codebooks are too long")) }
}
