//! Token streams as bytes (`docs/FORMAT.md`, "Token stream").

use super::group::{TokenDecoder, read_two_groups};
use super::{LARGE_GROUP_LEN, Mode};
use crate::bits::pack::{pack_values, packed_len, unpack_values};
use crate::bits::reader::BitWords;
use crate::container::{Fields, align};
use crate::error::{Error, Result};
use crate::huffman::codebook::{Codebook, LENGTHS};
use crate::huffman::index;
use crate::simd::{self, InstructionSet, Kernel};

/// Most classes of groups, and so codebooks, in a stream.
pub const MAX_CLASSES: usize = 4;

/// Flag: a bitmap marks the groups that contain only zeros.
const ZERO_GROUPS: u8 = 1;
/// Flag: there is no index, so that a group starts where the one before ends.
const NO_INDEX: u8 = 2;

/// The fixed start of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub groups: u32,
    pub live_groups: u32,
    pub codebooks: u8,
    /// Two bits for each codebook.
    pub modes: u8,
    pub flags: u8,
    pub bits: u32,
    pub codebook_bytes: u32,
    pub index_bytes: u32,
}

impl Header {
    pub const BYTES: usize = 24;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.groups.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.live_groups.to_le_bytes());
        bytes[8..12].copy_from_slice(&[self.codebooks, self.modes, self.flags, 0]);
        bytes[12..16].copy_from_slice(&self.bits.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.codebook_bytes.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.index_bytes.to_le_bytes());
        bytes
    }
}

/// The fixed start of a stream as far as its groups determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounts {
    /// Groups.
    pub groups: u32,
    /// Groups that are not zeros only.
    pub live_groups: u32,
    /// Bits of all codewords and raw bits.
    pub bits: u32,
    /// Bytes of the index, or `None` without one.
    pub index_bytes: Option<u32>,
}

/// Bytes of the start of a stream, which its codebooks follow.
pub const STREAM_HEADER_BYTES: usize = Header::BYTES;

/// Returns the start of a stream with these codebooks, each of a mode, which take `codebook_bytes` bytes.
pub fn stream_header(counts: StreamCounts, modes: &[Mode], codebook_bytes: u32) -> [u8; STREAM_HEADER_BYTES] {
    let StreamCounts { groups, live_groups, bits, index_bytes } = counts;
    let header = Header {
        groups,
        live_groups,
        codebooks: modes.len() as u8,
        modes: (0..).zip(modes).fold(0, |packed, (number, &mode): (u32, _)| packed | (mode as u8) << (2 * number)),
        flags: if live_groups < groups { ZERO_GROUPS } else { 0 } | if index_bytes.is_none() { NO_INDEX } else { 0 },
        bits,
        codebook_bytes,
        index_bytes: index_bytes.unwrap_or(0),
    };
    header.to_bytes()
}

/// Appends the start of a stream up to the end of its codebooks, and zeros up to a multiple of 4.
pub fn write_head(counts: StreamCounts, codebooks: &[(Mode, Codebook)], out: &mut Vec<u8>) {
    let start = out.len();
    let codebooks_start = start + STREAM_HEADER_BYTES;
    out.resize(codebooks_start, 0);
    codebooks.iter().for_each(|(_, code)| code.write(out));
    let modes: Vec<Mode> = codebooks.iter().map(|&(mode, _)| mode).collect();
    let header = stream_header(counts, &modes, (out.len() - codebooks_start) as u32);
    out[start..codebooks_start].copy_from_slice(&header);
    align(out, 4);
}

/// Appends a stream, with or without an index. `starts` has the first bit of each live group and the end of the last
/// one.
#[expect(clippy::too_many_arguments, reason = "the parts of a stream")]
pub(super) fn write_parts(
    bits: u32,
    has_index: bool,
    codebooks: &[(Mode, Codebook)],
    live: &[bool],
    classes: &[u8],
    starts: &[u32],
    words: &[u8],
    out: &mut Vec<u8>,
) {
    let mut index = Vec::new();
    if has_index {
        index::write_starts(starts, &mut index);
    }
    let live_groups = starts.len() as u32 - 1;
    let index_bytes = has_index.then_some(index.len() as u32);
    let counts = StreamCounts { groups: live.len() as u32, live_groups, bits, index_bytes };
    write_head(counts, codebooks, out);
    if live.contains(&false) {
        pack_values::<1>(live.iter().map(|&live| u8::from(!live)), out);
    }
    if codebooks.len() > 1 {
        pack_values::<2>(classes.iter().copied(), out);
    }
    align(out, 8);
    out.extend_from_slice(&index);
    align(out, 16);
    out.extend_from_slice(words);
}

/// A token stream that has been read and checked, all but its codewords.
#[derive(Debug)]
pub struct TokenStream<'a> {
    header: Header,
    decoders: Vec<TokenDecoder>,
    /// Place of each group among the live ones, `None` for a group of zeros.
    ranks: Vec<Option<u32>>,
    /// Class of each live group; empty if there is one codebook.
    classes: Vec<u8>,
    /// The first bit of each live group, and the end of the last one. Without an index, empty until they are found.
    starts: Vec<u32>,
    words: BitWords<'a>,
    place: &'a str,
}

impl<'a> TokenStream<'a> {
    /// Reads the stream of `groups` groups that `section` is; `place` names it in errors. Before groups are read from a
    /// stream without an index, [`Self::find_starts`] finds them.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Corrupt`] if the section is not such a stream.
    pub fn parse(section: &'a [u8], groups: usize, place: &'a str) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(place, format!("token stream: {what}"));
        let mut fields = Fields::new(section, place);
        let mut header = Header { groups: fields.u32()?, live_groups: fields.u32()?, ..Header::default() };
        (header.codebooks, header.modes, header.flags) = (fields.u8()?, fields.u8()?, fields.u8()?);
        let reserved = fields.u8()?;
        (header.bits, header.codebook_bytes, header.index_bytes) = (fields.u32()?, fields.u32()?, fields.u32()?);
        if header.groups as usize != groups {
            return Err(bad("its groups do not fit the tiles"));
        }
        let unused_modes = u32::from(header.modes) >> (2 * header.codebooks.min(4));
        if !matches!(header.codebooks, 1 | 4)
            || header.flags & !(ZERO_GROUPS | NO_INDEX) != 0
            || reserved != 0
            || unused_modes != 0
        {
            return Err(bad("a field is out of range"));
        }
        let decoders = read_codebooks(fields.take(header.codebook_bytes as usize)?, &header, place)?;
        fields.align(4)?;
        let zeros = if header.flags & ZERO_GROUPS != 0 { fields.take(groups.div_ceil(8))? } else { &[] };
        let mut live_groups = 0;
        // Memory: `groups` comes from the geometry of the chunk.
        let ranks: Vec<Option<u32>> = (0..groups)
            .map(|group| {
                let zero = zeros.get(group / 8).is_some_and(|byte| byte >> (group % 8) & 1 != 0);
                let rank = live_groups;
                live_groups += u32::from(!zero);
                (!zero).then_some(rank)
            })
            .collect();
        if live_groups != header.live_groups {
            return Err(bad("zero groups and live groups do not add up"));
        }
        let mut classes = Vec::new();
        if header.codebooks > 1 {
            let packed = fields.take(packed_len::<2>(live_groups as usize))?;
            classes.extend(unpack_values::<2>(packed, live_groups as usize));
        }
        fields.align(8)?;
        let index = fields.take(header.index_bytes as usize)?;
        let starts = match header.flags & NO_INDEX {
            0 => index::read_starts(index, live_groups, header.bits).map_err(bad)?,
            _ if index.is_empty() => Vec::new(),
            _ => return Err(bad("an index that it says it has not")),
        };
        fields.align(16)?;
        let words = BitWords::new(fields.rest(), header.bits).ok_or_else(|| bad("wrong length of the codewords"))?;
        Ok(Self { header, decoders, ranks, classes, starts, words, place })
    }

    /// Returns whether the stream has an index.
    pub fn has_index(&self) -> bool {
        self.header.flags & NO_INDEX == 0
    }

    /// Finds where the groups of a stream without an index start, by decoding all of them. `lengths` are the numbers of
    /// codes of the groups, at most [`LARGE_GROUP_LEN`] each.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the codewords are not those of groups of these lengths.
    pub fn find_starts(&mut self, lengths: impl Iterator<Item = usize>) -> Result<()> {
        let live: Vec<usize> = lengths.zip(&self.ranks).filter_map(|(length, rank)| rank.map(|_| length)).collect();
        let starts = simd::run(FindStarts { stream: self, lengths: &live });
        let what = "token stream: codewords that groups of these lengths cannot have";
        self.starts = starts.ok_or_else(|| Error::corrupt(self.place, what))?;
        Ok(())
    }

    /// Decodes the groups of a tile to one lane of `codes`, which holds zeros: whole groups from number `group` on, of
    /// which the last may be shorter.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the codewords are not those of groups of these lengths.
    ///
    /// # Panics
    /// There are no such groups.
    #[inline]
    pub fn read_groups<const L: usize>(
        &self,
        group: usize,
        group_len: usize,
        codes: &mut [[i32; L]],
        lane: usize,
    ) -> Result<()> {
        simd::run(ReadGroups { stream: self, group, group_len, codes, lane }).map_err(|number| {
            let what = format!("token stream: group {number} or that before has codewords that it cannot have");
            Error::corrupt(self.place, what)
        })
    }

    /// Computes [`Self::read_groups`]. Returns the number of a group whose codewords are wrong, if there is one.
    #[inline(always)]
    fn read_groups_body<const L: usize>(
        &self,
        group: usize,
        group_len: usize,
        codes: &mut [[i32; L]],
        lane: usize,
    ) -> std::result::Result<(), usize> {
        let mut number = group;
        let mut rest = codes.chunks_mut(group_len);
        while let Some(first) = rest.next() {
            let read = match (self.ranks[number], self.ranks.get(number + 1)) {
                (Some(rank), Some(Some(_))) if rest.len() > 0 => {
                    let second = rest.next().unwrap_or_default();
                    number += 1;
                    self.read_two(rank as usize, [first, second], lane)
                }
                (Some(rank), _) => self.read_one(rank as usize, first, lane),
                (None, _) => Some(()),
            };
            read.ok_or(number)?;
            number += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn decoder(&self, rank: usize) -> &TokenDecoder {
        &self.decoders[self.classes.get(rank).map_or(0, |&class| class.into())]
    }

    #[inline(always)]
    fn read_one<const L: usize>(&self, rank: usize, codes: &mut [[i32; L]], lane: usize) -> Option<()> {
        self.decoder(rank).read_group(self.words, self.starts[rank], self.starts[rank + 1], codes, lane)
    }

    #[inline(always)]
    fn read_two<const L: usize>(&self, rank: usize, codes: [&mut [[i32; L]]; 2], lane: usize) -> Option<()> {
        let bounds = [self.starts[rank], self.starts[rank + 1], self.starts[rank + 2]];
        read_two_groups([self.decoder(rank), self.decoder(rank + 1)], self.words, bounds, codes, lane)
    }

    /// Returns the number of groups that are not zeros only.
    pub fn live_groups(&self) -> u32 {
        self.header.live_groups
    }

    /// Returns the modes of the codebooks.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        (0..self.header.codebooks).filter_map(|number| Mode::from_code(self.header.modes >> (2 * number) & 3))
    }

    /// Returns the number of codewords of each length, over all codebooks.
    pub fn code_length_histogram(&self) -> [u32; LENGTHS] {
        std::array::from_fn(|length| self.decoders.iter().map(|decoder| decoder.counts()[length]).sum())
    }

    /// Returns the lengths in bytes of codewords, codebooks, and index.
    pub fn part_bytes(&self) -> [u64; 3] {
        [self.header.bits.div_ceil(8), self.header.codebook_bytes, self.header.index_bytes].map(u64::from)
    }
}

/// Computes [`TokenStream::find_starts`] for live groups. Returns `None` if the codewords are not theirs.
struct FindStarts<'s, 'a> {
    stream: &'s TokenStream<'a>,
    lengths: &'s [usize],
}

impl Kernel for FindStarts<'_, '_> {
    type Output = Option<Vec<u32>>;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Self::Output {
        let Self { stream, lengths } = self;
        let mut codes = [[0i32; 1]; LARGE_GROUP_LEN];
        let (mut starts, mut position) = (Vec::with_capacity(lengths.len() + 1), 0);
        for (rank, &length) in lengths.iter().enumerate() {
            starts.push(position);
            position = stream.decoder(rank).end_of_group(stream.words, position, codes.get_mut(..length)?)?;
            if position > stream.header.bits {
                return None;
            }
        }
        starts.push(position);
        (position == stream.header.bits).then_some(starts)
    }
}

/// Computes [`TokenStream::read_groups`].
struct ReadGroups<'s, 'a, 'c, const L: usize> {
    stream: &'s TokenStream<'a>,
    group: usize,
    group_len: usize,
    codes: &'c mut [[i32; L]],
    lane: usize,
}

impl<const L: usize> Kernel for ReadGroups<'_, '_, '_, L> {
    type Output = std::result::Result<(), usize>;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Self::Output {
        self.stream.read_groups_body(self.group, self.group_len, self.codes, self.lane)
    }
}

fn read_codebooks(mut bytes: &[u8], header: &Header, place: &str) -> Result<Vec<TokenDecoder>> {
    let bad = |what: &str| Error::corrupt(place, format!("token stream: {what}"));
    let mut decoders = Vec::new();
    for number in 0..header.codebooks {
        let mode = Mode::from_code(header.modes >> (2 * number) & 3).ok_or_else(|| bad("unknown mode"))?;
        let (code, length) = Codebook::parse(bytes, mode.alphabet(), place)?;
        decoders.push(TokenDecoder::new(mode, code));
        bytes = &bytes[length..];
    }
    if bytes.is_empty() { Ok(decoders) } else { Err(bad("its codebooks are too long")) }
}
