//! Plans a stream before it is written: computes bounds of its length, which are enough to choose between streams.

use super::codebook::Codebook;
use super::encode::{EncodeOptions, EncodeScratch, EncodeSummary};
use super::encode::{begin, choose_codebooks, count_bits, finish, write_codewords};
use super::histogram::Survey;
use super::stream::Header;
use super::{IndexKind, Symbol, index};
use crate::bits::reader::BitWords;
use crate::simd::{self, InstructionSet, Kernel};

/// A stream of which all is known but its codewords and, until somebody has to know, the length of its index.
#[derive(Debug)]
pub struct Plan {
    options: EncodeOptions,
    zero_bit: u16,
    survey: Survey,
    codebook: Codebook,
    bits: u32,
    /// Bytes before the index.
    before_index: usize,
    /// Fewest and most bytes that the index may have.
    index: (usize, usize),
}

impl Plan {
    /// Returns the minimum and the maximum number of bytes that the stream may have.
    pub fn stream_bytes(&self) -> (usize, usize) {
        let with =
            |index: usize| (self.before_index + index).next_multiple_of(16) + BitWords::byte_len(self.bits) as usize;
        (with(self.index.0), with(self.index.1))
    }

    /// Computes the number of bytes of the stream of these symbols, which takes one pass over them.
    ///
    /// # Panics
    /// The symbols are not those of the plan.
    pub fn measure<S: Symbol>(&mut self, symbols: &[S], scratch: &mut EncodeScratch) -> usize {
        if self.index.0 < self.index.1 {
            let EncodeScratch { starts, codewords: bytes, .. } = scratch;
            let (group_len, are_coded, codebook) =
                (1 << self.options.group_log2, &self.survey.are_coded, &self.codebook);
            starts.clear();
            simd::run(Measuring { symbols, group_len, are_coded, codebook, starts });
            bytes.clear();
            index::write_starts(starts, bytes);
            self.index = (bytes.len(), bytes.len());
        }
        self.stream_bytes().0
    }
}

/// Plans the stream that [`encode`](fn@super::encode) writes for `symbols` without classes, if it has less than `limit`
/// bytes. This takes less than half of the time of writing it.
///
/// # Panics
/// As [`encode`](fn@super::encode).
pub fn plan<S: Symbol>(
    symbols: &[S],
    options: &EncodeOptions,
    limit: usize,
    scratch: &mut EncodeScratch,
) -> Option<Plan> {
    let (group_len, zero_bit) = begin(symbols, options, scratch);
    let mut plan = plan_surveyed(symbols, group_len, zero_bit, options, scratch);
    let (fewest, most) = plan.stream_bytes();
    let is_shorter = most < limit || fewest < limit && plan.measure(symbols, scratch) < limit;
    is_shorter.then_some(plan)
}

/// Returns the plan of `groups` groups that are all zero-bit groups. [`write_plan`] writes it without symbols.
pub fn plan_zero_bit_groups<S: Symbol>(
    groups: usize,
    zero_bit: u16,
    options: &EncodeOptions,
    scratch: &mut EncodeScratch,
) -> Plan {
    scratch.survey.are_coded.clear();
    scratch.survey.are_coded.resize(groups, false);
    scratch.survey.largest = zero_bit;
    plan_surveyed::<S>(&[], 1 << options.group_log2, zero_bit, options, scratch)
}

/// Plans the stream of symbols that have been surveyed.
fn plan_surveyed<S: Symbol>(
    symbols: &[S],
    group_len: usize,
    zero_bit: u16,
    options: &EncodeOptions,
    scratch: &mut EncodeScratch,
) -> Plan {
    let codebook = choose_codebooks(symbols, group_len, &[], scratch).remove(0);
    let bits = count_bits(std::slice::from_ref(&codebook), scratch);
    let EncodeScratch { survey, codewords: bytes, .. } = scratch;
    bytes.clear();
    codebook.write(bytes);
    let mut length = Header::BYTES + bytes.len().next_multiple_of(4);
    if survey.are_coded.contains(&false) {
        length += survey.are_coded.len().div_ceil(8);
    }
    let before_index = length.next_multiple_of(8);
    let index = match options.index {
        IndexKind::None => (0, 0),
        IndexKind::Symbol => {
            let coded = survey.are_coded.iter().filter(|&&is_coded| is_coded).count();
            let shortest = codebook.counts().iter().position(|&count| count > 0).unwrap_or(0);
            index::starts_bytes(coded, group_len * (codebook.longest() as usize - shortest))
        }
    };
    Plan { options: *options, zero_bit, survey: std::mem::take(survey), codebook, bits, before_index, index }
}

/// Appends the stream that was planned for these symbols, which [`plan_zero_bit_groups`] needs none of: what
/// [`encode`](fn@super::encode) would append.
///
/// # Panics
/// As [`encode`](fn@super::encode), or the symbols are others.
pub fn write_plan<S: Symbol>(
    symbols: &[S],
    plan: Plan,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> EncodeSummary {
    assert!(out.len().is_multiple_of(16), "streams start on multiples of 16");
    let codebooks = std::slice::from_ref(&plan.codebook);
    let (fewest, most) = plan.stream_bytes();
    scratch.survey = plan.survey;
    write_codewords(symbols, 1 << plan.options.group_log2, &[], codebooks, plan.bits, scratch);
    let summary = finish(symbols, plan.zero_bit, &plan.options, codebooks, plan.bits, scratch, out);
    assert!((fewest as u64..=most as u64).contains(&summary.stream_bytes), "the stream is as planned");
    summary
}

/// Finds the start of the codewords of each coded group, and their end.
struct Measuring<'a, S> {
    symbols: &'a [S],
    group_len: usize,
    are_coded: &'a [bool],
    codebook: &'a Codebook,
    starts: &'a mut Vec<u32>,
}

impl<S: Symbol> Kernel for Measuring<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let lengths = self.codebook.lengths();
        let mut start = 0;
        for (group, _) in
            self.symbols.chunks_exact(self.group_len).zip(self.are_coded).filter(|&(_, &is_coded)| is_coded)
        {
            self.starts.push(start);
            start += group.iter().map(|symbol| u32::from(lengths[symbol.index()])).sum::<u32>();
        }
        self.starts.push(start);
    }
}
