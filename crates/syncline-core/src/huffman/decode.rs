//! Decoding. `chunked` is the simple decoder that the others are tested against. `indexed` is the fast decoder for
//! streams with a symbol index. `self_sync` decodes streams without an index in parallel.

mod canonical;
mod chunked;
mod dense;
mod direct;
mod indexed;
mod interleaved;
mod lookup;
mod ranges;
mod self_sync;

use std::ops::Range;

use self::canonical::Canonical;
use self::direct::Direct;
use self::lookup::Lookup;
use super::{Checksum, Decoder, IndexKind, Stream, Symbol};
use crate::error::{Error, Result};

/// A stream with its decoding tables, ready to decode.
#[derive(Debug)]
pub struct StreamDecoder<'s, 'a, S> {
    stream: &'s Stream<'a, S>,
    kind: Decoder,
    classes: &'s [u8],
    canonical: Vec<Canonical>,
    lookups: Vec<Lookup>,
    /// Decoders that replace `lookups` if codewords are long.
    direct: Vec<Direct>,
    /// Number of coded groups before each run of 64 groups.
    ranks: Vec<u32>,
}

impl<'a, S: Symbol> Stream<'a, S> {
    /// Builds the tables of a decoder. `classes` contains the class of each group if [`Stream::needs_classes`], and is
    /// ignored otherwise.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the decoder needs an index that the stream has not; [`Error::Corrupt`] if the
    /// classes do not fit the stream.
    pub fn decoder<'s>(&'s self, kind: Decoder, classes: &'s [u8]) -> Result<StreamDecoder<'s, 'a, S>> {
        let kind = self.resolve(kind)?;
        let classes = if self.needs_classes() { classes } else { &[] };
        if self.needs_classes() {
            self.check_classes(classes)?;
        }
        let canonical: Vec<_> = self.codebooks.iter().map(Canonical::new).collect();
        let direct = if kind == Decoder::Indexed { Direct::for_codebooks(&canonical) } else { Vec::new() };
        let lookups = if kind == Decoder::Chunked || !direct.is_empty() {
            Vec::new()
        } else {
            Lookup::for_codebooks::<S>(&canonical)
        };
        let ranks = self.ranks();
        Ok(StreamDecoder { stream: self, kind, classes, canonical, lookups, direct, ranks })
    }

    fn resolve(&self, kind: Decoder) -> Result<Decoder> {
        let index = self.index_kind();
        let fits = match kind {
            Decoder::Auto => {
                return Ok(match index {
                    IndexKind::None => Decoder::SelfSync,
                    IndexKind::Symbol => Decoder::Indexed,
                });
            }
            Decoder::Chunked => true,
            Decoder::SelfSync => !self.needs_classes(),
            Decoder::Indexed => index == IndexKind::Symbol,
        };
        if fits {
            return Ok(kind);
        }
        let books = self.codebooks.len();
        Err(Error::invalid(format!(
            "the {kind} decoder cannot read a stream with index '{index}' and {books} codebook(s): use auto or chunked"
        )))
    }

    fn check_classes(&self, classes: &[u8]) -> Result<()> {
        let bad = |what: String| Err(Error::corrupt(&*self.place, format!("Huffman stream: {what}")));
        if classes.len() != self.groups() {
            return bad(format!("{} classes for {} groups", classes.len(), self.groups()));
        }
        let has_code: Vec<bool> = self.codebooks.iter().map(|codebook| codebook.longest() > 0).collect();
        let without_code = |class: u8| !has_code.get(usize::from(class)).is_some_and(|&has| has);
        match classes.iter().enumerate().find(|&(g, &class)| without_code(class) && !self.is_zero_bit(g)) {
            Some((g, class)) => bad(format!("group {g} has class {class}, which has no codewords")),
            None => Ok(()),
        }
    }

    fn ranks(&self) -> Vec<u32> {
        let mut coded = 0;
        let blocks = self.groups().div_ceil(64);
        (0..blocks)
            .map(|block| {
                let before = coded;
                let zero_bit: u32 = self.zero_bit.iter().skip(block * 8).take(8).map(|byte| byte.count_ones()).sum();
                coded += (self.groups() - block * 64).min(64) as u32 - zero_bit;
                before
            })
            .collect()
    }
}

impl<S: Symbol> StreamDecoder<'_, '_, S> {
    /// Returns the decoder in use, which is never [`Decoder::Auto`].
    pub fn kind(&self) -> Decoder {
        self.kind
    }

    /// Returns whether [`StreamDecoder::decode_groups`] is supported.
    pub fn can_decode_groups(&self) -> bool {
        self.kind == Decoder::Indexed
    }

    /// Decodes all groups into `out`, which has room for exactly [`Stream::symbols`], with up to `threads` threads of
    /// the current pool, and compares the checksum.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `out` has another length; [`Error::Corrupt`] if the symbols do not match the
    /// checksum, or their codewords the index: what is in `out` is then worthless.
    pub fn decode(&self, out: &mut [S], threads: usize) -> Result<()> {
        if out.len() != self.stream.symbols() {
            return Err(Error::invalid(format!("{} symbols do not go into {}", self.stream.symbols(), out.len())));
        }
        let checksum = match self.kind {
            Decoder::Indexed => indexed::decode_all(self, out, threads).ok_or_else(|| self.damaged_index())?,
            Decoder::SelfSync => dense::decode(self, out, |dense| self_sync::decode(self, dense, threads))?,
            Decoder::Chunked | Decoder::Auto => dense::decode(self, out, |dense| chunked::decode(self, dense))?,
        };
        self.stream.verify(checksum)
    }

    /// Decodes the groups of `range` to `out`, which has exactly the length of their symbols, and returns the checksum
    /// of the coded groups. The sum ([`Checksum::add`]) over ranges that cover the stream is the argument of
    /// [`Stream::verify`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless the decoder is [`Decoder::Indexed`], the range is in the stream and `out` has
    /// its length; [`Error::Corrupt`] if the codewords do not match the index.
    pub fn decode_groups(&self, range: Range<usize>, out: &mut [S]) -> Result<Checksum> {
        if self.kind != Decoder::Indexed {
            return Err(Error::invalid(format!("the {} decoder reads whole streams only", self.kind)));
        }
        if range.start > range.end || range.end > self.stream.groups() {
            return Err(Error::invalid(format!("groups {range:?} of {}", self.stream.groups())));
        }
        if out.len() != range.len() * self.stream.group_len() {
            return Err(Error::invalid(format!("{} groups do not go into {} symbols", range.len(), out.len())));
        }
        indexed::decode(self, range, out).ok_or_else(|| self.damaged_index())
    }

    fn damaged_index(&self) -> Error {
        Error::corrupt(&*self.stream.place, "Huffman stream: a group of codewords does not end where the index says")
    }

    /// Returns the number of coded groups before group `group`.
    fn rank(&self, group: usize) -> usize {
        let Some(&before) = self.ranks.get(group / 64) else { return self.stream.coded_groups() };
        let block = group / 64 * 64;
        before as usize + (block..group).filter(|&g| !self.stream.is_zero_bit(g)).count()
    }

    /// Class of a group, 0 without classes; always one that has a codebook.
    #[inline(always)]
    fn class(&self, group: usize) -> usize {
        self.classes.get(group).map_or(0, |&class| class.into())
    }
}
