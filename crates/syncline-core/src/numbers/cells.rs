//! Counting codes in cells, and choosing bins of cells.
//!
//! Cells are intervals of codes that are fine enough for any choice; bins are made of them by pruning a binary tree
//! from below: two halves become one bin where that takes fewer bits, the description of a bin included.

use super::bins::Bin;
use crate::bits::logarithm::{LOG_BITS, times_log2};
use crate::predict::word::Word;
use crate::simd::{self, InstructionSet, Kernel};

/// Magnitudes below this have cells of their own; above, each power of two has eight cells.
const SINGLE_LOG2: u32 = 9;
const PARTS_LOG2: u32 = 3;
/// Binary logarithm of the most cells of equal width.
const EQUAL_LOG2: u32 = 12;
/// Most cells of any kind.
pub const MAX_CELLS: usize = 1 << EQUAL_LOG2;

/// Bits of the description of a bin.
const BIN_BITS: u64 = 30;
/// A bin of more than one cell has at most this share of the codes: Huffman coding would waste up to half a bit.
const LARGEST_SHARE: u32 = 32;
/// Bits for which a bin is given up whatever its share is, because there are too many.
const FORCED_BITS: u64 = 2000;

/// A division of all codes into cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// By magnitude, fine around zero.
    Octaves,
    /// Of equal width, from the smallest code on.
    Equal {
        /// The smallest code.
        low: i64,
        /// Binary logarithm of the width.
        shift: u32,
    },
}

/// The magnitude that codes are divided by: that of -1 is 0.
#[inline(always)]
fn magnitude(code: i64) -> u64 {
    (code ^ (code >> 63)) as u64
}

/// Returns the cell of a code, even for codes that are not negative. Magnitudes below `2^SINGLE_LOG2` have cells of
/// their own; above, each power of two has `2^PARTS_LOG2`.
#[inline(always)]
fn cell_of<const SINGLE_LOG2: u32, const PARTS_LOG2: u32>(code: i64) -> usize {
    let (magnitude, sign) = (magnitude(code), (code as u64 >> 63) as usize);
    let bits = 64 - (magnitude | 1).leading_zeros();
    let part = (magnitude >> bits.saturating_sub(PARTS_LOG2 + 1)) as usize & ((1 << PARTS_LOG2) - 1);
    let far = (1 << SINGLE_LOG2) + (bits.saturating_sub(SINGLE_LOG2 + 1) << PARTS_LOG2) as usize + part;
    (if magnitude >> SINGLE_LOG2 == 0 { magnitude as usize } else { far }) << 1 | sign
}

/// Writes the cells of codes as [`cell_of`] has them.
#[inline(always)]
fn cells_of<W: Word, const SINGLE_LOG2: u32, const PARTS_LOG2: u32>(codes: &[W], cells: &mut [u16]) {
    if W::BITS > 32 {
        let cell = |code: &W| cell_of::<SINGLE_LOG2, PARTS_LOG2>(code.signed()) as u16;
        cells.iter_mut().zip(codes).for_each(|(slot, code)| *slot = cell(code));
        return;
    }
    // The exponent of a float tells the highest bit, and its fraction the bits below: vectors have conversions.
    let bias = (127 + SINGLE_LOG2) << PARTS_LOG2;
    for (cell, code) in cells.iter_mut().zip(codes) {
        let code = code.signed() as i32;
        let magnitude = (code ^ (code >> 31)) as u32;
        // Without some of the low bits, the conversion cannot round to another cell.
        let float = ((magnitude & !(magnitude >> 10)) as i32 as f32).to_bits();
        let far = (float >> (23 - PARTS_LOG2)).wrapping_sub(bias).wrapping_add(1 << SINGLE_LOG2);
        let number = if magnitude >> SINGLE_LOG2 == 0 { magnitude } else { far };
        *cell = (number << 1 | code as u32 >> 31) as u16;
    }
}

/// Returns the cell of a code among [`Cells::Octaves`], even for codes that are not negative.
#[inline(always)]
pub fn octave_cell(code: i64) -> usize {
    cell_of::<SINGLE_LOG2, PARTS_LOG2>(code)
}

/// Writes the cells of codes among [`Cells::Octaves`].
#[inline(always)]
pub fn octave_cells<W: Word>(codes: &[W], cells: &mut [u16]) {
    cells_of::<W, SINGLE_LOG2, PARTS_LOG2>(codes, cells);
}

/// Returns the cell of a code among [`Cells::Equal`].
#[inline(always)]
pub fn equal_cell(code: i64, low: i64, shift: u32) -> usize {
    (code.wrapping_sub(low) as u64 >> shift) as usize & (MAX_CELLS - 1)
}

/// The smallest and the largest code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest code.
    pub low: i64,
    /// The largest code.
    pub high: i64,
}

impl Range {
    /// Returns the range of some codes; of none, it is empty.
    pub fn of<W: Word>(codes: &[W]) -> Self {
        simd::run(FindRange(codes))
    }
}

struct FindRange<'a, W>(&'a [W]);

impl<W: Word> Kernel for FindRange<'_, W> {
    type Output = Range;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Range {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for &code in self.0 {
            low = low.min(code.signed());
            high = high.max(code.signed());
        }
        Range { low, high }
    }
}

/// A cell with its codes.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    cell: u16,
    /// Where it starts: a magnitude, or a distance from the smallest code.
    start: u64,
    width: u8,
    count: u32,
}

/// A node of the tree over cells in a row.
#[derive(Clone, Copy, Debug)]
struct Node {
    start: u64,
    width: u8,
    count: u32,
    /// The first and the last leaf.
    leaves: [u16; 2],
    /// Bits of its codes if it is one bin, in units of 2^-16, without the description of the bin.
    bits: u64,
    /// Bits of its codes in its bins, descriptions included, and the number of these.
    cost: u64,
    bins: u16,
    /// Nodes of its tree, itself included: 1 for a bin, or a node without codes.
    size: u16,
}

/// Codes whose low bits are 0, without these bits, as counts of cells.
#[derive(Clone, Debug)]
pub struct Family {
    /// Low bits of the codes, all 0.
    pub shift: u8,
    /// The cells of the codes without these bits.
    pub cells: Cells,
    /// Where these codes are.
    pub range: Range,
    /// How many of them were counted in each cell.
    pub counts: Box<[u32; MAX_CELLS]>,
}

/// Bins, and which cells each has.
#[derive(Clone, Debug, Default)]
pub struct Binning {
    /// Those of each family in a row, ascending.
    pub bins: Vec<Bin>,
    /// The bin of each cell, [`MAX_CELLS`] a family; unspecified for cells in no bin.
    pub of_cell: Vec<u8>,
    /// Bits of the counted codes by entropy, in units of 2^-16, the descriptions of bins included.
    pub cost: u64,
}

impl Cells {
    /// Returns cells of equal width for codes in a range, or `None` if they would be too wide to be computed with.
    pub fn equal(range: Range) -> Option<Self> {
        let span = range.high.checked_sub(range.low)? as u64;
        let shift = (64 - span.leading_zeros()).saturating_sub(EQUAL_LOG2);
        Some(Self::Equal { low: range.low, shift })
    }

    /// Returns the cells of one sign, or all if they have none, that codes in the range may have, in a row.
    fn leaves(self, range: Range, counts: &[u32; MAX_CELLS], weight: u32, sign: usize) -> Vec<Leaf> {
        let leaf = |cell: usize, start: u64, width: u32| Leaf {
            cell: cell as u16,
            start,
            width: width as u8,
            count: counts[cell] * weight + 1,
        };
        match self {
            Self::Equal { low, shift } => {
                let last = (range.high.wrapping_sub(low) as u64 >> shift) as usize;
                let all = (last + 1).next_power_of_two();
                let mut leaves: Vec<Leaf> = (0..all).map(|cell| leaf(cell, (cell as u64) << shift, shift)).collect();
                leaves[last + 1..].iter_mut().for_each(|leaf| leaf.count = 0);
                leaves
            }
            Self::Octaves => {
                let far = if sign == 0 { range.high } else { range.low };
                if (far < 0) != (sign == 1) {
                    return Vec::new();
                }
                let bits = 64 - magnitude(far).leading_zeros();
                let singles = 1 << bits.min(SINGLE_LOG2);
                let near = (0..singles).map(|start: u64| leaf((start as usize) << 1 | sign, start, 0));
                let octaves = SINGLE_LOG2 + 1..=bits;
                let parts = octaves.flat_map(|octave| (0..1u64 << PARTS_LOG2).map(move |part| (octave, part)));
                let far = parts.map(|(octave, part)| {
                    let width = octave - 1 - PARTS_LOG2;
                    let start = (1 << (octave - 1)) + (part << width);
                    let code = (start as i64) ^ -(sign as i64);
                    leaf(octave_cell(code), start, width)
                });
                near.chain(far).collect()
            }
        }
    }

    /// Returns the cell of a code.
    #[inline(always)]
    pub fn cell(self, code: i64) -> usize {
        match self {
            Self::Octaves => octave_cell(code),
            Self::Equal { low, shift } => equal_cell(code, low, shift),
        }
    }
}

/// The cells of one family in a row, with codes of one sign or without signs, and the tree over them.
#[derive(Clone, Debug)]
struct Side {
    family: usize,
    is_negative: bool,
    leaves: Vec<Leaf>,
    /// The last one is the root.
    nodes: Vec<Node>,
}

/// The trees over the cells of codes, of which bins are made by pruning.
#[derive(Clone, Debug)]
pub struct Forest {
    /// The families of the codes.
    pub families: Vec<Family>,
    sides: Vec<Side>,
    total: u32,
    /// Bits that the description of a bin is taken to have.
    bin_bits: u64,
}

impl Forest {
    /// Returns the trees for codes of which every `weight`th was counted.
    pub fn new(families: Vec<Family>, weight: u32) -> Self {
        let mut sides = Vec::new();
        for (number, family) in families.iter().enumerate() {
            let signs: &[usize] = if family.cells == Cells::Octaves { &[1, 0] } else { &[0] };
            for &sign in signs {
                let leaves = family.cells.leaves(family.range, &family.counts, weight, sign);
                sides.push(Side { family: number, is_negative: sign == 1, leaves, nodes: Vec::new() });
            }
        }
        let total: u32 = sides.iter().flat_map(|side| &side.leaves).map(|leaf| leaf.count).sum();
        // A division of counted codes by chance seems to save a bit or so, which is multiplied by the weight.
        let bin_bits = BIN_BITS + u64::from(weight) * 3 / 2;
        sides.iter_mut().for_each(|side| side.nodes = nodes_over(&side.leaves, total, bin_bits));
        Self { families, sides, total, bin_bits }
    }

    /// Chooses at most `most` bins, and no more than the last time.
    pub fn prune(&mut self, most: usize) -> Binning {
        loop {
            let of_trees = || self.sides.iter().map(|side| side.nodes.last().map_or(0, |root| usize::from(root.bins)));
            let (bins, fewest) = (of_trees().sum::<usize>(), of_trees().filter(|&bins| bins > 0).count());
            if bins <= most.max(fewest) {
                return self.binning();
            }
            self.bin_bits *= if bins > 3 * most { 8 } else { 2 };
            for side in &mut self.sides {
                // What is one bin remains one if descriptions take more bits.
                let mut nodes = Vec::with_capacity(side.nodes.len());
                side.nodes.iter().for_each(|&node| add_node(&mut nodes, node, self.total, self.bin_bits));
                side.nodes = nodes;
            }
        }
    }

    /// Returns the bins of the pruned trees.
    fn binning(&self) -> Binning {
        let mut binning = Binning { of_cell: vec![0; MAX_CELLS * self.families.len()], ..Binning::default() };
        for side in &self.sides {
            let Family { shift, cells, .. } = self.families[side.family];
            binning.cost += side.nodes.last().map_or(0, |root| root.cost);
            let mut bins: Vec<&Node> = side.nodes.iter().filter(|node| node.size == 1 && node.count > 0).collect();
            // Larger magnitudes of negative codes are smaller codes.
            if side.is_negative {
                bins.reverse();
            }
            for node in bins {
                let number = binning.bins.len() as u8;
                let low = match cells {
                    Cells::Equal { low, .. } => low.wrapping_add(node.start as i64),
                    Cells::Octaves if side.is_negative => !(node.start + ((1 << node.width) - 1)) as i64,
                    Cells::Octaves => node.start as i64,
                };
                binning.bins.push(Bin { low: low << shift, width: node.width, shift });
                for leaf in &side.leaves[usize::from(node.leaves[0])..=usize::from(node.leaves[1])] {
                    binning.of_cell[MAX_CELLS * side.family + usize::from(leaf.cell)] = number;
                }
            }
        }
        binning
    }
}

/// Returns the pruned tree over leaves, each node behind its halves, where `total` codes were counted in all trees and
/// the description of a bin takes `bin_bits`.
fn nodes_over(leaves: &[Leaf], total: u32, bin_bits: u64) -> Vec<Node> {
    let log_total = times_log2(total) / u64::from(total.max(1));
    let node = |start: u64, width: u8, count: u32, leaves: [u16; 2], size: u16| {
        let bits = (u64::from(count) * log_total).saturating_sub(times_log2(count));
        let bits = bits + ((u64::from(count) * u64::from(width)) << LOG_BITS);
        Node { start, width, count, leaves, bits, cost: 0, bins: 0, size }
    };
    let mut nodes: Vec<Node> = Vec::with_capacity(leaves.len());
    for (number, leaf) in leaves.iter().enumerate() {
        add_node(&mut nodes, node(leaf.start, leaf.width, leaf.count, [number as u16; 2], 1), total, bin_bits);
        // Two halves of an interval whose length is a power of two are joined.
        while let Some(&b) = nodes.last()
            && let Some(&a) = nodes[..nodes.len() - usize::from(b.size)].last()
            && a.width == b.width
            && a.start >> a.width & 1 == 0
        {
            let leaves = [a.leaves[0], b.leaves[1]];
            let joined = node(a.start, a.width + 1, a.count + b.count, leaves, 1 + a.size + b.size);
            add_node(&mut nodes, joined, total, bin_bits);
        }
    }
    debug_assert!(nodes.last().is_none_or(|root| usize::from(root.size) == nodes.len()), "cells fill an interval");
    nodes
}

/// Adds a node behind its halves, if it has some, and makes it one bin if that takes no more bits.
fn add_node(nodes: &mut Vec<Node>, mut node: Node, total: u32, bin_bits: u64) {
    let single = if node.count == 0 { 0 } else { node.bits + (bin_bits << LOG_BITS) };
    if node.size > 1 {
        let (Some(&right), end) = (nodes.last(), nodes.len()) else { return };
        let left = nodes[end - 1 - usize::from(right.size)];
        let double = left.cost + right.cost;
        let may_be_one = node.count <= total / LARGEST_SHARE || bin_bits > FORCED_BITS;
        if node.count > 0 && !(may_be_one && single <= double) {
            (node.cost, node.bins, node.size) = (double, left.bins + right.bins, 1 + left.size + right.size);
            return nodes.push(node);
        }
        nodes.truncate(end - usize::from(left.size + right.size));
    }
    (node.cost, node.bins, node.size) = (single, u16::from(node.count > 0), 1);
    nodes.push(node);
}

/// Bits of codes by a rough estimate, which is fine enough to compare predictors.
#[derive(Clone, Debug)]
pub struct Estimate {
    counts: Box<[u32; ROUGH_CELLS]>,
    codes: u32,
}

impl Default for Estimate {
    fn default() -> Self {
        Self { counts: Box::new([0; ROUGH_CELLS]), codes: 0 }
    }
}

/// Magnitudes below this have cells of their own in the estimate; above, each power of two has four.
const ROUGH_SINGLE_LOG2: u32 = 5;
const ROUGH_PARTS_LOG2: u32 = 2;
/// Not fewer than there are cells.
const ROUGH_CELLS: usize = 1 << 10;
/// Codes whose cells are found together.
const ROUGH_ROW: usize = 64;

impl Estimate {
    /// Starts anew.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.codes = 0;
    }

    /// Adds codes.
    pub fn add<W: Word>(&mut self, codes: &[W]) {
        simd::run(AddCodes(self, codes));
    }

    #[inline(always)]
    fn add_each<W: Word>(&mut self, codes: &[W]) {
        let mut cells = [0; ROUGH_ROW];
        for codes in codes.chunks(ROUGH_ROW) {
            cells_of::<W, ROUGH_SINGLE_LOG2, ROUGH_PARTS_LOG2>(codes, &mut cells);
            cells[..codes.len()].iter().for_each(|&cell| self.counts[usize::from(cell) & (ROUGH_CELLS - 1)] += 1);
        }
        self.codes += codes.len() as u32;
    }

    /// Returns the bits of all codes in units of 2^-16.
    pub fn bits(&self) -> u64 {
        let (mut coded, mut raw_bits) = (0, 0);
        for (cell, &count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            let octave = (cell >> (1 + ROUGH_PARTS_LOG2)).checked_sub(1 << (ROUGH_SINGLE_LOG2 - ROUGH_PARTS_LOG2));
            let width = octave.map_or(0, |octave| octave as u64 + u64::from(ROUGH_SINGLE_LOG2 - ROUGH_PARTS_LOG2));
            coded += times_log2(count);
            raw_bits += u64::from(count) * width;
        }
        times_log2(self.codes).saturating_sub(coded) + (raw_bits << LOG_BITS)
    }
}

struct AddCodes<'a, W>(&'a mut Estimate, &'a [W]);

impl<W: Word> Kernel for AddCodes<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        self.0.add_each(self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codes() -> impl Strategy<Value = Vec<u64>> {
        let code =
            prop_oneof![any::<u64>(), 0..20u64, (any::<u64>(), 0..64u32).prop_map(|(code, shift)| code >> shift)];
        prop::collection::vec(
            (code, any::<bool>()).prop_map(|(code, negate)| if negate { !code } else { code }),
            1..300,
        )
    }

    proptest! {
        #[test]
        fn cells_of_many_codes_are_those_of_each(codes in codes()) {
            fn check<W: Word>(codes: &[u64]) {
                let codes: Vec<W> = codes.iter().map(|&code| W::narrow(code)).collect();
                let mut cells = vec![0; codes.len()];
                octave_cells(&codes, &mut cells);
                for (cell, code) in cells.into_iter().zip(codes) {
                    assert_eq!(usize::from(cell), octave_cell(code.signed()), "{code:?}");
                }
            }
            check::<u8>(&codes);
            check::<u16>(&codes);
            check::<u32>(&codes);
            check::<u64>(&codes);
        }

        #[test]
        fn every_code_is_in_its_bin(codes in codes(), most in prop_oneof![Just(255usize), Just(8), Just(2)]) {
            let range = Range::of(&codes);
            for cells in [Some(Cells::Octaves), Cells::equal(range)].into_iter().flatten() {
                let mut family = Family { shift: 0, cells, range, counts: Box::new([0; MAX_CELLS]) };
                codes.iter().for_each(|&code| family.counts[cells.cell(code as i64)] += 1);
                let binning = Forest::new(vec![family], 1).prune(most);
                prop_assert!(binning.bins.len() <= most);
                for &code in &codes {
                    let bin = binning.bins[usize::from(binning.of_cell[cells.cell(code as i64)])];
                    let raw = (code as i64).wrapping_sub(bin.low) as u64;
                    prop_assert!(bin.width == 64 || raw >> bin.width == 0, "{code} {bin:?}");
                }
            }
        }
    }
}
