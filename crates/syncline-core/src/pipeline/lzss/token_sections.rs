//! The sections of an LZSS chunk: tokens as they are, or as Huffman-coded planes.

use std::borrow::Cow;
use std::marker::PhantomData;

use super::{DISTANCES_BIT, FLAGS_BIT, LENGTHS_BIT, LITERALS_BIT};
use crate::bits::fields::{Fields, align};
use crate::container::{ALIGNMENT, SectionWriter};
use crate::error::Result;
use crate::huffman::{self, Decoder, IndexKind, MAX_SYMBOLS, Symbol};
use crate::lzss::{Params, SLACK, Tokens};
use crate::pipeline::codes::{GROUP, GROUP_LOG2, read_stream};
use crate::pipeline::context::Context;
use crate::simd::{self, InstructionSet, Kernel};

/// Storage of the parts of the tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoredPlanes {
    /// Bytes of a symbol of the literals' planes, 0 if nothing is in planes.
    pub literal_bytes: u8,
    /// Which planes are coded.
    pub coded: u16,
}

/// Returns the bytes of the flags.
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

/// Writes the four sections in planes, each Huffman-coded if that is shorter. The literals need not be among the
/// tokens.
pub(super) fn write_coded(
    sections: &mut SectionWriter,
    out: &mut Vec<u8>,
    (tokens, literals): (&Tokens, &[u8]),
    params: &Params,
    (index, scratch): (IndexKind, &mut huffman::EncodeScratch),
    may_use_words: bool,
) -> StoredPlanes {
    let mut coded = 0;
    let mut coder = SectionEncoder { index, scratch };
    let mut write =
        |out: &mut Vec<u8>, bytes: &[u8], stride, bit| coded |= coder.planes::<u8>(out, bytes, stride) << bit;
    sections.section(out, |out| write(out, &flag_bytes(&tokens.flags), 1, FLAGS_BIT));
    sections.section(out, |out| write(out, &tokens.lengths, 1, LENGTHS_BIT));
    sections.section(out, |out| write(out, &tokens.distances, params.distance_bytes(), DISTANCES_BIT));
    let width = params.width.bytes();
    // Bytes of a value depend on each other: 16-bit symbols are worth their longer codebook where values are few.
    let (mut literal_mask, mut literal_bytes) = (0, 1);
    sections.section(out, |out| {
        // Symbols below 256 have the same codewords as bytes and as 16-bit symbols, but fewer planes of zeros as 16-bit
        // symbols.
        let used = used_bits(literals, width);
        let may_use_words = may_use_words && width > 1;
        if may_use_words && used < 256 {
            let wide = coder.plan::<u16>(literals, width / 2, used, literals.len() / width);
            if let Some(wide) = wide {
                (literal_mask, literal_bytes) = (coder.write(out, wide), 2);
                return;
            }
        }
        let mut narrow = coder.plan::<u8>(literals, width, used, usize::MAX).expect("a plan of any length");
        let mut wide = if may_use_words { coder.plan::<u16>(literals, width / 2, used, narrow.most) } else { None };
        // Computing exact lengths takes a pass over the symbols.
        if wide.as_ref().is_some_and(|wide| narrow.fewest <= wide.most) {
            let length = coder.measure(&mut narrow);
            wide = wide.filter(|wide| wide.fewest < length);
            if let Some(some) = &mut wide
                && coder.measure(some) >= length
            {
                wide = None;
            }
        }
        (literal_mask, literal_bytes) = match wide {
            Some(wide) => {
                coder.recycle(narrow);
                (coder.write(out, wide), 2)
            }
            None => (coder.write(out, narrow), 1),
        };
    });
    StoredPlanes { literal_bytes, coded: coded | literal_mask << LITERALS_BIT }
}

/// Returns the bits that are set in any of the symbols of `width` bytes.
fn used_bits(symbols: &[u8], width: usize) -> u64 {
    let mut used = simd::run(UsedBits(symbols));
    for half in [4, 2, 1].into_iter().filter(|&half| half >= width) {
        used = (used | used >> (8 * half)) & (u64::MAX >> (64 - 8 * half));
    }
    used
}

/// Computes the bits that are set in any word of eight bytes.
struct UsedBits<'a>(&'a [u8]);

impl Kernel for UsedBits<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> u64 {
        let (words, rest) = self.0.as_chunks::<8>();
        let mut used = 0;
        for (i, &byte) in rest.iter().enumerate() {
            used |= u64::from(byte) << (8 * i);
        }
        for word in words {
            used |= u64::from_le_bytes(*word);
        }
        used
    }
}

struct SectionEncoder<'a> {
    index: IndexKind,
    scratch: &'a mut huffman::EncodeScratch,
}

/// The planes of a section, each as it will be stored.
struct PlannedPlanes<S> {
    /// The symbols, in memory of the scratch's (none for zeros), filled up to whole groups, how many there are, and how
    /// they are coded if they are.
    planes: Vec<(Vec<u16>, usize, Option<huffman::Plan>)>,
    /// Fewest and most bytes of all planes.
    fewest: usize,
    most: usize,
    symbol: PhantomData<S>,
}

impl<S> PlannedPlanes<S> {
    /// Counts a plane more, of `raw` bytes if it is not coded.
    fn add(&mut self, plan: Option<&huffman::Plan>, raw: usize) {
        let (fewest, most) = plan.map_or((raw, raw), huffman::Plan::stream_bytes);
        self.fewest = self.fewest.next_multiple_of(ALIGNMENT) + fewest;
        self.most = self.most.next_multiple_of(ALIGNMENT) + most;
    }
}

impl SectionEncoder<'_> {
    /// Appends every `stride`-th symbol of `bytes` as a plane, then every one after these, and so on, each after
    /// align(16). Returns which are coded.
    fn planes<S: Symbol>(&mut self, out: &mut Vec<u8>, bytes: &[u8], stride: usize) -> u16 {
        let used = used_bits(bytes, stride * S::BYTES);
        let planned = self.plan::<S>(bytes, stride, used, usize::MAX).expect("a plan of any length");
        self.write(out, planned)
    }

    /// Plans these planes, if they take less than `limit` bytes. `used` has the bits that any of the symbols together
    /// have.
    fn plan<S: Symbol>(&mut self, bytes: &[u8], stride: usize, used: u64, limit: usize) -> Option<PlannedPlanes<S>> {
        let options = huffman::EncodeOptions { group_log2: GROUP_LOG2, index: self.index, zero_bit_symbol: Some(0) };
        let mut planned = PlannedPlanes { planes: Vec::with_capacity(stride), fewest: 0, most: 0, symbol: PhantomData };
        let count = bytes.len() / (stride * S::BYTES);
        for first in 0..stride {
            let raw = count * S::BYTES;
            let is_codable = count > 0 && count <= MAX_SYMBOLS - GROUP;
            if is_codable && used >> (8 * S::BYTES * first) & (u64::MAX >> (64 - 8 * S::BYTES)) == 0 {
                // All symbols are 0, so that they are neither extracted nor examined.
                let plan = huffman::plan_zero_bit_groups::<S>(count.div_ceil(GROUP), 0, &options, self.scratch);
                if plan.stream_bytes().1 < raw {
                    planned.add(Some(&plan), raw);
                    planned.planes.push((Vec::new(), count, Some(plan)));
                    if planned.fewest >= limit {
                        self.recycle(planned);
                        return None;
                    }
                    continue;
                }
            }
            let mut memory = self.scratch.spare.pop().unwrap_or_default();
            let length = count.next_multiple_of(GROUP);
            // The memory never shrinks, so that its contents need not be cleared again.
            if memory.len() < length * S::BYTES / 2 {
                memory.resize(length * S::BYTES / 2, 0);
            }
            let plane = &mut bytemuck::cast_slice_mut(&mut memory)[..length];
            plane[count..].fill(S::truncate(0));
            let some = &mut plane[..count];
            match stride * S::BYTES {
                1 => simd::run(ExtractPlane::<S, 1> { bytes, first, plane: some }),
                2 => simd::run(ExtractPlane::<S, 2> { bytes, first, plane: some }),
                4 => simd::run(ExtractPlane::<S, 4> { bytes, first, plane: some }),
                _ => simd::run(ExtractPlane::<S, 8> { bytes, first, plane: some }),
            }
            let before = planned.fewest.next_multiple_of(ALIGNMENT).min(limit);
            let mut plan = None;
            if is_codable {
                plan = huffman::plan(plane, &options, raw.min(limit - before), self.scratch);
            }
            planned.add(plan.as_ref(), raw);
            planned.planes.push((memory, count, plan));
            if planned.fewest >= limit {
                self.recycle(planned);
                return None;
            }
        }
        Some(planned)
    }

    /// Finds out how many bytes planes have.
    fn measure<S: Symbol>(&mut self, planned: &mut PlannedPlanes<S>) -> usize {
        (planned.fewest, planned.most) = (0, 0);
        let mut planes = std::mem::take(&mut planned.planes);
        for (memory, count, plan) in &mut planes {
            if let Some(plan) = plan {
                plan.measure(plane_in::<S>(memory, *count), self.scratch);
            }
            planned.add(plan.as_ref(), *count * S::BYTES);
        }
        planned.planes = planes;
        planned.fewest
    }

    /// Takes back the memory of planes.
    fn recycle<S>(&mut self, planned: PlannedPlanes<S>) {
        self.scratch.spare.extend(planned.planes.into_iter().map(|plane| plane.0).filter(|memory| !memory.is_empty()));
    }

    /// Appends planes. Returns which are coded.
    fn write<S: Symbol>(&mut self, out: &mut Vec<u8>, planned: PlannedPlanes<S>) -> u16 {
        let mut mask = 0;
        for (i, (memory, count, plan)) in planned.planes.into_iter().enumerate() {
            align(out, ALIGNMENT);
            let plane = plane_in::<S>(&memory, count);
            match plan {
                Some(plan) => {
                    mask |= 1 << i;
                    huffman::write_plan(plane, plan, self.scratch, out);
                }
                None => append_raw(out, &plane[..count]),
            }
            if !memory.is_empty() {
                self.scratch.spare.push(memory);
            }
        }
        mask
    }
}

/// Returns the symbols of a plane in its memory, padded to whole groups. Returns no symbols if there is no memory,
/// because all symbols are then 0.
fn plane_in<S: Symbol>(memory: &[u16], count: usize) -> &[S] {
    bytemuck::cast_slice(memory).get(..count.next_multiple_of(GROUP)).unwrap_or_default()
}

/// Takes symbol `first` of every `SIZE` bytes.
struct ExtractPlane<'a, S, const SIZE: usize> {
    bytes: &'a [u8],
    first: usize,
    plane: &'a mut [S],
}

impl<S: Symbol, const SIZE: usize> Kernel for ExtractPlane<'_, S, SIZE> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let shift = 8 * (self.first * S::BYTES) as u32;
        for (symbol, bytes) in self.plane.iter_mut().zip(self.bytes.as_chunks::<SIZE>().0) {
            // Whole values, shifted: loads that vectors have.
            let mut value = [0; 8];
            value[..SIZE].copy_from_slice(bytes);
            *symbol = match SIZE {
                1 => S::truncate(bytes[0].into()),
                2 => S::truncate(u16::from_le_bytes([value[0], value[1]]) >> shift),
                4 => S::truncate((u32::from_le_bytes([value[0], value[1], value[2], value[3]]) >> shift) as u16),
                _ => S::truncate((u64::from_le_bytes(value) >> shift) as u16),
            };
        }
    }
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

/// Bytes that are read in pieces, each followed by at least [`SLACK`] readable bytes.
#[derive(Clone, Copy)]
pub(super) struct PaddedBytes<'p> {
    bytes: &'p [u8],
    /// The bytes from `end_at` on, followed by [`SLACK`] more, if `bytes` does not contain those.
    end: &'p [u8],
    end_at: usize,
}

impl<'p> From<&'p [u8]> for PaddedBytes<'p> {
    /// Takes bytes of which the last [`SLACK`] are only padding.
    fn from(bytes: &'p [u8]) -> Self {
        Self { bytes, end: &[], end_at: bytes.len() }
    }
}

impl<'p> PaddedBytes<'p> {
    /// Returns the bytes that start at `at`: `length` bytes, and at least [`SLACK`] more.
    pub fn piece(&self, at: usize, length: usize) -> &'p [u8] {
        if at + length + SLACK <= self.bytes.len() { &self.bytes[at..] } else { &self.end[at - self.end_at..] }
    }
}

/// Reads planes back.
pub(super) struct PlaneReader<'a> {
    pub context: &'a Context<'a>,
}

impl PlaneReader<'_> {
    /// Checks that a section that is stored without coding has `length` bytes.
    pub fn check_length(&self, section: &[u8], length: usize) -> Result<()> {
        if section.len() == length {
            return Ok(());
        }
        Err(self.context.corrupt("an LZSS section does not fit the token counts"))
    }

    /// Returns a section of `length` bytes that is stored without coding, for reads of at most `most` bytes. Its end is
    /// copied to `buffer` if fewer than [`SLACK`] bytes follow it in `tail`.
    pub fn plain<'p>(
        &self,
        section: &'p [u8],
        tail: &'p [u8],
        (length, most): (usize, usize),
        buffer: &'p mut Vec<u8>,
    ) -> Result<PaddedBytes<'p>> {
        self.check_length(section, length)?;
        if let Some(section) = tail.get(..length + SLACK) {
            return Ok(section.into());
        }
        let end_at = length.saturating_sub(most + SLACK);
        buffer.clear();
        buffer.extend_from_slice(&section[end_at..]);
        buffer.resize(length - end_at + SLACK, 0);
        Ok(PaddedBytes { bytes: section, end: buffer, end_at })
    }

    /// Decodes a section of `stride` planes of `count` symbols each. Interleaves their symbols in `out`, followed by
    /// [`SLACK`] zeros.
    pub fn planes<S: Symbol>(
        &self,
        section: &[u8],
        stride: usize,
        count: usize,
        mask: u16,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        // The allocation is bounded, because the counts of the blocks have been checked against the number of bytes of
        // the chunk.
        out.resize(count * stride * S::BYTES + SLACK, 0);
        let mut fields = Fields::new(section, &self.context.place);
        let mut plane: Vec<S> = Vec::new();
        for first in 0..stride {
            fields.align(ALIGNMENT)?;
            if mask >> first & 1 == 1 {
                let stream = read_stream::<S>(self.context, &section[fields.position()..], count)?;
                plane.resize(stream.symbols(), S::truncate(0));
                stream.decoder(Decoder::Auto, &[])?.decode(&mut plane, 1)?;
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
        if fields.rest().is_empty() { Ok(()) } else { Err(self.context.corrupt("an LZSS section is too long")) }
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
