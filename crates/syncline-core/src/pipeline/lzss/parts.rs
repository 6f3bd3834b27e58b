//! The sections of an LZSS chunk: tokens as they are, or as Huffman-coded planes.

use std::borrow::Cow;

use super::{DISTANCES_BIT, FLAGS_BIT, LENGTHS_BIT, LITERALS_BIT};
use crate::container::{ALIGNMENT, Fields, SectionWriter, align};
use crate::error::{Error, Result};
use crate::huffman::{self, Decoder, IndexKind, MAX_SYMBOLS, Stream, Symbol};
use crate::lzss::{Params, SLACK, Tokens};

/// log2 of the symbols in a group: as coarse as can be, as parts are decoded whole.
const GROUP_LOG2: u8 = 7;
const GROUP: usize = 1 << GROUP_LOG2;

/// How the parts are stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Planes {
    /// Bytes of a symbol of the literals' planes, 0 if nothing is in planes.
    pub literal_bytes: u8,
    /// Which planes are coded.
    pub coded: u16,
}

/// Bytes of the flags.
fn flag_bytes(flags: &[u64]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytemuck::cast_slice(flags).into();
    }
    flags.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Writes the four sections as they are.
pub(super) fn write_plain(sections: &mut SectionWriter, out: &mut Vec<u8>, tokens: &Tokens) {
    sections.section(out, |out| out.extend_from_slice(&flag_bytes(&tokens.flags)));
    sections.section(out, |out| out.extend_from_slice(&tokens.lengths));
    sections.section(out, |out| out.extend_from_slice(&tokens.distances));
    sections.section(out, |out| out.extend_from_slice(&tokens.literals));
}

/// Writes the four sections in planes, each Huffman-coded if that is shorter.
pub(super) fn write_coded(
    sections: &mut SectionWriter,
    out: &mut Vec<u8>,
    tokens: &Tokens,
    params: &Params,
    index: IndexKind,
    scratch: &mut huffman::EncodeScratch,
) -> Planes {
    let mut coded = 0;
    let mut coder = Coder { index, scratch };
    let mut one = |out: &mut Vec<u8>, bytes: &[u8], stride, bit| coded |= coder.planes::<u8>(out, bytes, stride) << bit;
    sections.section(out, |out| one(out, &flag_bytes(&tokens.flags), 1, FLAGS_BIT));
    sections.section(out, |out| one(out, &tokens.lengths, 1, LENGTHS_BIT));
    sections.section(out, |out| one(out, &tokens.distances, params.distance_bytes(), DISTANCES_BIT));
    let width = params.width.bytes();
    // Bytes of a value depend on each other: 16-bit symbols are worth their longer codebook where values are few.
    let mut literals = Vec::new();
    let mut literal_mask = coder.planes::<u8>(&mut literals, &tokens.literals, width);
    let mut literal_bytes = 1;
    if width > 1 {
        let mut wide = Vec::new();
        let mask = coder.planes::<u16>(&mut wide, &tokens.literals, width / 2);
        if wide.len() < literals.len() {
            (literals, literal_mask, literal_bytes) = (wide, mask, 2);
        }
    }
    sections.section(out, |out| out.extend_from_slice(&literals));
    Planes { literal_bytes, coded: coded | literal_mask << LITERALS_BIT }
}

struct Coder<'a> {
    index: IndexKind,
    scratch: &'a mut huffman::EncodeScratch,
}

impl Coder<'_> {
    /// Appends every `stride`-th symbol of `bytes` as a plane, then every one after these, and so on, each after align(16). Returns which are coded.
    fn planes<S: Symbol>(&mut self, out: &mut Vec<u8>, bytes: &[u8], stride: usize) -> u16 {
        let options = huffman::EncodeOptions { group_log2: GROUP_LOG2, index: self.index, free_symbol: Some(0) };
        let mut mask = 0;
        let mut plane: Vec<S> = Vec::new();
        for first in 0..stride {
            plane.clear();
            match stride * S::BYTES {
                1 => extract::<S, 1>(bytes, first, &mut plane),
                2 => extract::<S, 2>(bytes, first, &mut plane),
                4 => extract::<S, 4>(bytes, first, &mut plane),
                _ => extract::<S, 8>(bytes, first, &mut plane),
            }
            let count = plane.len();
            align(out, ALIGNMENT);
            let start = out.len();
            if count > 0 && count <= MAX_SYMBOLS - GROUP {
                plane.resize(count.next_multiple_of(GROUP), S::truncate(0));
                huffman::encode(&plane, &[], &options, self.scratch, out);
            }
            if out.len() > start && out.len() - start < count * S::BYTES {
                mask |= 1 << first;
            } else {
                out.truncate(start);
                append_raw(out, &plane[..count]);
            }
        }
        mask
    }
}

/// Appends symbol `first` of every `SIZE` bytes to `plane`.
fn extract<S: Symbol, const SIZE: usize>(bytes: &[u8], first: usize, plane: &mut Vec<S>) {
    let offset = first * S::BYTES;
    plane.extend(bytes.as_chunks::<SIZE>().0.iter().map(|symbols| symbol::<S>(&symbols[offset..])));
}

/// Appends symbols as they are.
fn append_raw<S: Symbol>(out: &mut Vec<u8>, plane: &[S]) {
    if cfg!(target_endian = "little") {
        out.extend_from_slice(bytemuck::cast_slice(plane));
        return;
    }
    let raw = plane.iter().map(|&symbol| Into::<u16>::into(symbol).to_le_bytes());
    out.extend(raw.flat_map(|bytes| bytes.into_iter().take(S::BYTES)));
}

/// The symbol that `bytes` starts with.
#[inline(always)]
fn symbol<S: Symbol>(bytes: &[u8]) -> S {
    S::truncate(if S::BYTES == 1 { bytes[0].into() } else { u16::from_le_bytes([bytes[0], bytes[1]]) })
}

/// Reads planes back.
pub(super) struct PlaneReader<'a> {
    pub decoder: Decoder,
    pub place: &'a str,
}

impl PlaneReader<'_> {
    /// A section that is stored as it is: `length` bytes and [`SLACK`] more, which are those of its `tail` where that has as many, or zeros, with the section, in `buffer`.
    pub fn plain<'p>(&self, section: &[u8], tail: &'p [u8], length: usize, buffer: &'p mut Vec<u8>) -> Result<&'p [u8]> {
        if section.len() != length {
            return Err(Error::corrupt(self.place, "an LZSS section does not fit the token counts"));
        }
        if let Some(section) = tail.get(..length + SLACK) {
            return Ok(section);
        }
        buffer.clear();
        buffer.extend_from_slice(section);
        buffer.resize(length + SLACK, 0);
        Ok(buffer)
    }

    /// A section of `stride` planes of `count` symbols each; `out` becomes their symbols in turn and [`SLACK`] zeros.
    pub fn planes<S: Symbol>(
        &self,
        section: &[u8],
        stride: usize,
        count: usize,
        mask: u16,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let bad = |what: &str| Error::corrupt(self.place, what);
        out.clear();
        // Memory: the counts are those of blocks that were checked against the chunk's bytes.
        out.resize(count * stride * S::BYTES + SLACK, 0);
        let mut fields = Fields::new(section, self.place);
        let mut plane: Vec<S> = Vec::new();
        for first in 0..stride {
            fields.align(ALIGNMENT)?;
            if mask >> first & 1 == 1 {
                let stream = Stream::<S>::parse(&section[fields.position()..], self.place)?;
                if stream.group_len() != GROUP || stream.groups() != count.div_ceil(GROUP) || stream.needs_classes() {
                    return Err(bad("an LZSS plane does not fit the token counts"));
                }
                plane.resize(stream.symbols(), S::truncate(0));
                stream.decoder(self.decoder, &[])?.decode(&mut plane, 1)?;
                fields.take(stream.byte_len())?;
                for (symbols, &symbol) in out.chunks_exact_mut(stride * S::BYTES).zip(&plane[..count]) {
                    put(&mut symbols[first * S::BYTES..], symbol);
                }
            } else {
                let raw = fields.take(count * S::BYTES)?;
                for (symbols, raw) in out.chunks_exact_mut(stride * S::BYTES).zip(raw.chunks_exact(S::BYTES)) {
                    symbols[first * S::BYTES..(first + 1) * S::BYTES].copy_from_slice(raw);
                }
            }
        }
        if fields.rest().is_empty() { Ok(()) } else { Err(bad("an LZSS section is too long")) }
    }
}

#[inline(always)]
fn put<S: Symbol>(out: &mut [u8], symbol: S) {
    let bytes = Into::<u16>::into(symbol).to_le_bytes();
    out[0] = bytes[0];
    if S::BYTES == 2 {
        out[1] = bytes[1];
    }
}
