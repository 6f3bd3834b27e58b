//! The bins of a chunk's codes: choosing them by a sample, and finding those of all codes.

use crate::bits::logarithm::{LOG_BITS, times_log2};
use crate::huffman::lengths::{LengthScratch, code_lengths};
use crate::numbers::bins::{Bin, MAX_BINS};
use crate::numbers::cells::{Binning, Cells, Family, Forest, MAX_CELLS, Range, equal_cell, octave_cells};
use crate::numbers::raw_bits::{RawBits, TileBits};
use crate::numbers::tuples::{TUPLES, most_bins, pack};
use crate::predict::word::Word;
use crate::simd::{self, InstructionSet, Kernel};

/// Codes in a row that are sampled.
pub(super) const SAMPLED_ROW: usize = 64;
/// Most codes of a sample.
pub(super) const MOST_SAMPLED: usize = 1 << 14;
/// Bits of a symbol in a codebook, and of a bin.
const SYMBOL_BITS: u64 = 9;
const BIN_BITS: u64 = 24;
/// More bins a symbol may take so large a share of the bits in addition.
const LEAST_SHARE: u64 = 512;
/// Codes of a sample whose trailing zeros are counted.
const MOST_ZEROS_COUNTED: usize = 1 << 12;

/// The bins of a chunk, and the cells by which the encoder finds them.
pub(super) struct Binned {
    /// Low bits that are 0, and cells of what is left, of each family.
    pub families: Vec<(u8, Cells)>,
    pub binning: Binning,
    pub tuple: usize,
    /// The number of symbols.
    pub symbols: usize,
    /// The symbol that most of the sample has.
    pub commonest: u16,
}

impl Binned {
    /// Chooses the bins for `count` codes in a range, of which [`sample_codes`] takes a sample, and how many of them
    /// make a symbol.
    pub fn choose<W: Word>(sample: &[W], count: usize, range: Range, predictor: u8) -> Self {
        let weight = weight_of(count);
        let rows: Vec<&[W]> = sample.chunks(SAMPLED_ROW).collect();
        let shifts = trailing_zeros(&rows);
        let families = |equal: bool| -> Option<Vec<Family>> {
            let family = |&shift: &u8| {
                let range = Range { low: range.low >> shift, high: range.high >> shift };
                let cells = if equal { Cells::equal(range)? } else { Cells::Octaves };
                Some(Family { shift, cells, range, counts: Box::new([0; MAX_CELLS]) })
            };
            shifts.iter().map(family).collect()
        };
        let mut kinds: Vec<Vec<Family>> = families(false).into_iter().collect();
        if predictor == 0 {
            kinds.extend(families(true));
        }
        let counted = kinds.into_iter().map(|mut families| {
            let mut places = Vec::with_capacity(sample.len());
            simd::run(FindPlaces { rows: &rows, kinds: &kinds_of(&families), places: &mut places });
            for &place in &places {
                families[usize::from(place) / MAX_CELLS].counts[usize::from(place) % MAX_CELLS] += 1;
            }
            let mut forest = Forest::new(families, weight as u32);
            (forest.prune(MAX_BINS), forest, places)
        });
        let (mut binning, mut forest, sampled) =
            counted.min_by_key(|(binning, ..)| binning.cost).expect("there are octaves");
        let mut lengths = LengthScratch::default();
        let mut best: Option<(u64, Self)> = None;
        for tuple in TUPLES {
            if binning.bins.len() > most_bins(tuple) {
                binning = forest.prune(most_bins(tuple));
            }
            if binning.bins.len() > most_bins(tuple) {
                break;
            }
            // More bins a symbol take less time.
            let least = best.as_ref().map_or(u64::MAX, |&(bits, _)| bits + bits / LEAST_SHARE);
            let estimate = Estimate { families: &forest.families, binning: &binning, tuple, weight: weight as u64 };
            let Some((bits, commonest)) = estimate.bits(&sampled, least, &mut lengths) else { continue };
            let symbols = binning.bins.len().pow(tuple as u32);
            let (families, binning) = (kinds_of(&forest.families), binning.clone());
            best = Some((bits, Self { families, binning, tuple, symbols, commonest }));
        }
        best.expect("one bin a symbol is always possible").1
    }

    /// Writes the symbols and raw bits of the codes of tiles of these lengths. Returns the bytes of the raw bits of
    /// each.
    pub fn code<W: Word>(&self, codes: &[W], lengths: &[usize], symbols: &mut Vec<u16>, raw: &mut RawBits) -> Vec<u32> {
        symbols.clear();
        raw.clear();
        let mut table = [Bin::default(); 256];
        table[..self.binning.bins.len()].copy_from_slice(&self.binning.bins);
        let mut rest = codes;
        let mut bins = Vec::new();
        let mut raw_lengths = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let (codes, others) = rest.split_at(length);
            rest = others;
            bins.resize(length, 0);
            raw_lengths.push(simd::run(Classify { binned: self, table: &table, codes, bins: &mut bins, raw }));
            match self.tuple {
                1 => pack::<1>(&bins, self.binning.bins.len(), symbols),
                2 => pack::<2>(&bins, self.binning.bins.len(), symbols),
                4 => pack::<4>(&bins, self.binning.bins.len(), symbols),
                _ => pack::<8>(&bins, self.binning.bins.len(), symbols),
            }
        }
        raw_lengths
    }
}

/// Returns the share of codes that are sampled, as one of so many rows.
pub(super) fn weight_of(count: usize) -> usize {
    count.div_ceil(MOST_SAMPLED).max(1)
}

/// Writes the codes that are sampled of a chunk's, some rows that are spread evenly, to `sample`.
pub(super) fn sample_codes<W: Word>(codes: &[W], sample: &mut Vec<W>) {
    sample.clear();
    codes.chunks(SAMPLED_ROW).step_by(weight_of(codes.len())).for_each(|row| sample.extend_from_slice(row));
}

/// Returns the number of the last family that a code may be in; 0 is in the first one.
#[inline(always)]
fn family_of(shifts: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator, code: i64) -> usize {
    let zeros = if code == 0 { 0 } else { code.trailing_zeros() };
    shifts.enumerate().rev().find(|&(_, shift)| u32::from(shift) <= zeros).map_or(0, |(family, _)| family)
}

/// Returns the place of a code's cell among those of all families.
#[inline(always)]
fn place(families: &[(u8, Cells)], code: i64) -> usize {
    let family = if families.len() == 1 { 0 } else { family_of(families.iter().map(|family| family.0), code) };
    let (shift, cells) = families[family];
    MAX_CELLS * family + cells.cell(code >> shift)
}

fn kinds_of(families: &[Family]) -> Vec<(u8, Cells)> {
    families.iter().map(|family| (family.shift, family.cells)).collect()
}

/// Finds the places of the cells of codes.
struct FindPlaces<'a, W> {
    rows: &'a [&'a [W]],
    kinds: &'a [(u8, Cells)],
    places: &'a mut Vec<u16>,
}

impl<W: Word> Kernel for FindPlaces<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { rows, kinds, places } = self;
        for row in rows {
            match *kinds {
                [(0, Cells::Octaves)] => {
                    let mut cells = [0; SAMPLED_ROW];
                    octave_cells(row, &mut cells);
                    places.extend_from_slice(&cells[..row.len()]);
                }
                [(0, Cells::Equal { low, shift })] => {
                    places.extend(row.iter().map(|code| equal_cell(code.signed(), low, shift) as u16));
                }
                _ => places.extend(row.iter().map(|code| place(kinds, code.signed()) as u16)),
            }
        }
    }
}

/// Returns the shifts of the families that codes are divided into: 0, and up to two numbers of low bits that are 0
/// more often than by chance.
fn trailing_zeros<W: Word>(rows: &[&[W]]) -> Vec<u8> {
    let mut shifts = vec![0];
    let step = (rows.len() * SAMPLED_ROW).div_ceil(MOST_ZEROS_COUNTED).max(1);
    // How many codes have how many trailing zeros, and raw bits that they might have.
    let mut counted = vec![0u32; 65 * 65];
    for code in rows.iter().step_by(step).copied().flatten() {
        let magnitude = code.magnitude();
        let raw = (64 - magnitude.leading_zeros()).saturating_sub(4);
        let zeros = if magnitude == 0 { 0 } else { magnitude.trailing_zeros() };
        counted[(zeros * 65 + raw) as usize] += 1;
    }
    let all = counted.iter().enumerate().filter(|&(_, &count)| count > 0);
    let codes: Vec<(u32, u32, u32)> = all.map(|(at, &count)| (at as u32 / 65, at as u32 % 65, count)).collect();
    let total: u32 = codes.iter().map(|&(.., count)| count).sum();
    let total_bits: u64 = codes.iter().map(|&(_, raw, count)| u64::from(count) * (u64::from(raw) + 4)).sum();
    let bits_of = |shifts: &[u8]| -> u64 {
        let mut counts = [0u32; 3];
        let mut raw_bits = 0u64;
        for &(zeros, raw, count) in &codes {
            let family = shifts.iter().rposition(|&shift| u32::from(shift) <= zeros).unwrap_or(0);
            counts[family] += count;
            raw_bits += u64::from(count) * u64::from(raw.saturating_sub(shifts[family].into()));
        }
        let entropy = times_log2(total) - counts.iter().map(|&count| times_log2(count)).sum::<u64>();
        raw_bits + (entropy >> LOG_BITS)
    };
    // No code saves more bits than its family has a shift.
    let mut at_least = [0u64; 65];
    codes.iter().for_each(|&(zeros, _, count)| at_least[zeros as usize] += u64::from(count));
    (0..64).rev().for_each(|zeros| at_least[zeros] += at_least[zeros + 1]);
    let may_save = |shift: u8| u64::from(shift) * at_least[usize::from(shift)] > total_bits / 256;
    let mut least = bits_of(&shifts);
    while shifts.len() < 3 {
        let others = (1..W::BITS as u8 - 1).filter(|&shift| may_save(shift) && !shifts.contains(&shift));
        let candidates = others.map(|shift| {
            let mut with = shifts.clone();
            with.push(shift);
            with.sort_unstable();
            (bits_of(&with), with)
        });
        let Some((bits, with)) = candidates.min() else { break };
        if bits + total_bits / 256 >= least {
            break;
        }
        (least, shifts) = (bits, with);
    }
    shifts
}

/// What the bits of a sample's codes are estimated with.
struct Estimate<'a> {
    families: &'a [Family],
    binning: &'a Binning,
    tuple: usize,
    weight: u64,
}

impl Estimate<'_> {
    /// Returns the bits that all codes take if the sampled ones are in these cells, in units of 2^-16, and the symbol
    /// that most of them have, if the bits are below `least`.
    fn bits(&self, cells: &[u16], least: u64, scratch: &mut LengthScratch) -> Option<(u64, u16)> {
        let Self { families, binning, tuple, weight } = *self;
        let bins = binning.bins.len();
        let symbols = bins.pow(tuple as u32);
        let of_cells = families.iter().flat_map(|family| family.counts.iter()).zip(&binning.of_cell);
        let raw_bits =
            of_cells.clone().map(|(&count, &bin)| u64::from(count) * u64::from(binning.bins[usize::from(bin)].width));
        let raw = raw_bits.sum::<u64>() << LOG_BITS;
        if weight * raw >= least {
            return None;
        }
        let mut counts = vec![0u32; symbols];
        if tuple == 1 {
            of_cells.for_each(|(&count, &bin)| counts[usize::from(bin)] += count);
        } else {
            let bin_of = |cell: u16| usize::from(binning.of_cell[usize::from(cell)]);
            let symbols = cells.chunks_exact(tuple);
            symbols.for_each(|cells| counts[cells.iter().fold(0, |symbol, &cell| symbol * bins + bin_of(cell))] += 1);
        }
        let used = counts.iter().filter(|&&count| count > 0).count() as u64;
        let coded = if symbols <= 256 {
            let mut lengths = Vec::new();
            code_lengths(&counts, scratch, &mut lengths);
            let bits = counts.iter().zip(&lengths).map(|(&count, &length)| u64::from(count) * u64::from(length));
            bits.sum::<u64>() << LOG_BITS
        } else {
            let total: u32 = counts.iter().sum();
            times_log2(total).saturating_sub(counts.iter().map(|&count| times_log2(count)).sum())
        };
        // The entropy of a sample is too small by 0.7 bits for each symbol that occurs.
        let described = used * (SYMBOL_BITS + weight * 3 / 4) + bins as u64 * BIN_BITS;
        let bits = weight * (coded + raw) + (described << LOG_BITS);
        let commonest = (0..symbols).max_by_key(|&symbol| counts[symbol]).unwrap_or(0);
        (bits < least).then_some((bits, commonest as u16))
    }
}

/// Finds the bins of a tile's codes, and writes their raw bits.
struct Classify<'a, W> {
    binned: &'a Binned,
    table: &'a [Bin; 256],
    codes: &'a [W],
    bins: &'a mut [u8],
    raw: &'a mut RawBits,
}

impl<W: Word> Kernel for Classify<'_, W> {
    type Output = u32;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> u32 {
        let Self { binned, table, codes, bins, raw } = self;
        let of_cell = &binned.binning.of_cell;
        match binned.families[..] {
            [(0, cells)] => {
                let of_cell: &[u8; MAX_CELLS] = of_cell[..].try_into().expect("as many as cells");
                match cells {
                    Cells::Octaves => {
                        let mut cells = [0; 64];
                        for (bins, codes) in bins.chunks_mut(64).zip(codes.chunks(64)) {
                            octave_cells(codes, &mut cells);
                            let place = |cell: u16| usize::from(cell) & (MAX_CELLS - 1);
                            bins.iter_mut().zip(&cells).for_each(|(bin, &cell)| *bin = of_cell[place(cell)]);
                        }
                    }
                    Cells::Equal { low, shift } => {
                        let cell = |code: W| equal_cell(code.signed(), low, shift);
                        bins.iter_mut().zip(codes).for_each(|(bin, &code)| *bin = of_cell[cell(code)]);
                    }
                }
            }
            ref families => {
                bins.iter_mut().zip(codes).for_each(|(bin, code)| *bin = of_cell[place(families, code.signed())]);
            }
        }
        let widest = binned.binning.bins.iter().map(|bin| bin.width).max().unwrap_or(0);
        let raw_of = |bin: u8, code: W| {
            let Bin { low, width, shift } = table[usize::from(bin)];
            ((code.signed().wrapping_sub(low) as u64) >> shift, u32::from(width))
        };
        raw.tile(codes.len(), |bits| {
            // Codes of few raw bits are joined before they are written.
            let joined = match widest {
                0 => codes.len(),
                1..=7 => put_joined::<W, 8>(bits, bins, codes, raw_of),
                8..=14 => put_joined::<W, 4>(bits, bins, codes, raw_of),
                15..=28 => put_joined::<W, 2>(bits, bins, codes, raw_of),
                29..=56 => put_joined::<W, 1>(bits, bins, codes, raw_of),
                _ => 0,
            };
            for (&bin, &code) in bins[joined..].iter().zip(&codes[joined..]) {
                let (raw, width) = raw_of(bin, code);
                bits.put_wide(raw, width);
            }
        })
    }
}

/// Writes the raw bits of codes, `COUNT` at a time, of at most 56 bits together. Returns how many codes are written.
#[inline(always)]
fn put_joined<W: Word, const COUNT: usize>(
    bits: &mut TileBits<'_>,
    bins: &[u8],
    codes: &[W],
    raw_of: impl Fn(u8, W) -> (u64, u32),
) -> usize {
    for (bins, codes) in bins.chunks_exact(COUNT).zip(codes.chunks_exact(COUNT)) {
        let (mut joined, mut filled) = (0, 0);
        for (&bin, &code) in bins.iter().zip(codes) {
            let (raw, width) = raw_of(bin, code);
            joined |= raw << filled;
            filled += width;
        }
        bits.put(joined, filled);
    }
    codes.len() / COUNT * COUNT
}
