//! Groups of codes to a token stream.

use super::Mode;
use super::estimate::Counts;
use super::group::write_group;
use super::stream::{MAX_CLASSES, write_parts};
use crate::bits::reader::BitWords;
use crate::bits::writer::BitWriter;
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::{LengthScratch, code_lengths};
use crate::predict::activity;
use crate::simd::{self, InstructionSet, Kernel};

/// Memory that is reused from stream to stream.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    counts: [Counts; MAX_CLASSES],
    total: Counts,
    /// Class of each live group.
    classes: Vec<u8>,
    /// Whether each group is live.
    live: Vec<bool>,
    activities: Vec<u64>,
    /// Position of the first bit of each live group, and of the end.
    starts: Vec<u32>,
    lengths: LengthScratch,
    words: Vec<u8>,
}

/// The codes of a sequence of groups.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    /// Codes of all groups.
    codes: &'a [i32],
    /// The end of each group in `codes`.
    ends: &'a [u32],
}

impl<'a> Groups<'a> {
    fn iter(self) -> impl Iterator<Item = &'a [i32]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let group = &self.codes[start..end as usize];
            start = end as usize;
            group
        })
    }
}

/// Returns about how many bits the groups take as a token stream. `ends` has the end of each group in `codes`.
pub fn estimate(codes: &[i32], ends: &[u32], scratch: &mut EncodeScratch) -> u64 {
    choose(Groups { codes, ends }, scratch).bits
}

/// Appends a token stream, with or without an index, to `out`, which ends on a multiple of 16. `ends` has the end of
/// each group in `codes`.
///
/// # Panics
/// The ends do not ascend up to the number of codes, or groups have more than 2^9 codes.
pub fn encode(codes: &[i32], ends: &[u32], has_index: bool, scratch: &mut EncodeScratch, out: &mut Vec<u8>) {
    let groups = Groups { codes, ends };
    let choice = choose(groups, scratch);
    let (codebooks, bits) = make_codebooks(&choice, scratch);
    let EncodeScratch { classes, live, starts, words, .. } = scratch;
    let mut tables = Vec::new();
    for (mode, code) in &codebooks {
        let mut table = vec![0; mode.alphabet()];
        code.fill_codewords(&mut table);
        tables.push((*mode, table));
    }
    words.clear();
    words.resize(bits.div_ceil(64) as usize * 8 + 16, 0);
    starts.clear();
    let bits = simd::run(WriteGroups { groups, live, classes, tables: &tables, writer: BitWriter::new(words), starts });
    starts.push(bits);
    words.truncate(BitWords::byte_len(bits) as usize);
    // The writer leaves whole words of 64 bits, whose rest is 0.
    words.resize(BitWords::byte_len(bits) as usize, 0);
    write_parts(bits, has_index, &codebooks, live, classes, starts, words, out);
}

/// Writes the tokens of all live groups, and the position of each group to `starts`. Returns the number of bits.
struct WriteGroups<'a> {
    groups: Groups<'a>,
    live: &'a [bool],
    classes: &'a [u8],
    /// The mode and the codewords of each codebook.
    tables: &'a [(Mode, Vec<u32>)],
    writer: BitWriter<'a>,
    starts: &'a mut Vec<u32>,
}

impl Kernel for WriteGroups<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> u32 {
        let Self { groups, live, classes, tables, mut writer, starts } = self;
        let mut classes = classes.iter();
        for (group, _) in groups.iter().zip(live).filter(|(_, live)| **live) {
            starts.push(writer.position());
            let class = classes.next().copied().unwrap_or(0);
            let (mode, table) = &tables[if tables.len() > 1 { usize::from(class) } else { 0 }];
            write_group(group, *mode, table, &mut writer);
        }
        writer.finish()
    }
}

/// Counts all live groups by class.
struct CountGroups<'a> {
    groups: Groups<'a>,
    live: &'a [bool],
    classes: &'a [u8],
    counts: &'a mut [Counts; MAX_CLASSES],
}

impl Kernel for CountGroups<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { groups, live, classes, counts } = self;
        let live_groups = groups.iter().zip(live).filter(|(_, live)| **live);
        for ((group, _), &class) in live_groups.zip(classes) {
            counts[usize::from(class)].add_group(group);
        }
    }
}

/// The codebooks that a stream takes.
struct Choice {
    /// The mode of each codebook: one for all groups, or one for each class.
    modes: Vec<Mode>,
    /// About how many bits all of the stream takes.
    bits: u64,
}

/// Chooses the classes of the groups, one or four codebooks, and their modes.
fn choose(groups: Groups<'_>, scratch: &mut EncodeScratch) -> Choice {
    let EncodeScratch { counts, total, classes, live, activities, .. } = scratch;
    classify(groups, live, activities, classes);
    counts.iter_mut().for_each(Counts::clear);
    simd::run(CountGroups { groups, live, classes, counts });
    total.clear();
    counts.iter().for_each(|counts| total.add(counts));
    if counts.iter().any(Counts::may_be_wide) {
        counts.iter_mut().filter(|counts| counts.may_be_wide()).for_each(Counts::start_wide);
        let live_groups = groups.iter().zip(&*live).filter(|(_, live)| **live);
        for ((group, _), &class) in live_groups.zip(&*classes) {
            let counts = &mut counts[usize::from(class)];
            if counts.may_be_wide() {
                counts.add_wide_group(group);
            }
        }
        if total.may_be_wide() {
            total.start_wide();
            counts.iter().for_each(|counts| total.add_wide(counts));
        }
    }
    let several = counts.each_ref().map(Counts::best_mode);
    let single = total.best_mode();
    let several_bits = several.iter().map(|(_, bits)| bits).sum::<u64>() + 2 * classes.len() as u64;
    if several_bits < single.1 {
        Choice { modes: several.map(|(mode, _)| mode).to_vec(), bits: several_bits }
    } else {
        Choice { modes: vec![single.0], bits: single.1 }
    }
}

/// Makes the codebooks of the groups that were counted last. Also returns the bits of all codewords and raw bits.
fn make_codebooks(choice: &Choice, scratch: &mut EncodeScratch) -> (Vec<(Mode, Codebook)>, u64) {
    let EncodeScratch { counts, total, lengths, .. } = scratch;
    let counted = if choice.modes.len() == 1 { std::slice::from_ref(total) } else { counts.as_slice() };
    let mut bits = 0;
    let codebook = |(counts, &mode): (&Counts, &Mode)| {
        let mut of_symbols = Vec::new();
        code_lengths(counts.of(mode), lengths, &mut of_symbols);
        bits += counts.bits(mode, &of_symbols);
        (mode, Codebook::new(of_symbols).expect("code lengths are complete"))
    };
    (counted.iter().zip(&choice.modes).map(codebook).collect(), bits)
}

/// Finds the groups that are not all zeros, and gives them classes: quarters of these groups by the bin of their sum of
/// magnitudes.
fn classify(groups: Groups<'_>, live: &mut Vec<bool>, activities: &mut Vec<u64>, classes: &mut Vec<u8>) {
    activities.clear();
    simd::run(SumMagnitudes { groups, sums: activities });
    live.clear();
    live.extend(activities.iter().map(|&activity| activity > 0));
    let of_bins = activity::classes(activities.iter().copied().filter(|&activity| activity > 0));
    classes.clear();
    let live_activities = activities.iter().filter(|&&activity| activity > 0);
    classes.extend(live_activities.map(|&activity| of_bins[activity::bin(activity)]));
}

/// Appends the sum of magnitudes of each group.
struct SumMagnitudes<'a> {
    groups: Groups<'a>,
    sums: &'a mut Vec<u64>,
}

impl Kernel for SumMagnitudes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        // A loop, because closures of adapters are not compiled for wider vectors.
        for group in self.groups.iter() {
            let mut sum = 0;
            for &code in group {
                sum += u64::from(code.unsigned_abs());
            }
            self.sums.push(sum);
        }
    }
}
