//! The encoder's choices for a chunk by its samples alone, for other implementations of the pipeline.

use super::Plan;
use super::binned::{Binned, MOST_SAMPLED, SAMPLED_ROW, weight_of};
use super::choose::{SAMPLED_ELEMENTS, Sample, choose, sampled_numbers};
use crate::array::ElementType;
use crate::numbers::bins::Bin;
use crate::numbers::cells::{Cells, Range};
use crate::predict::word::Word;

/// Most sampled elements of a chunk: one of each interval of `ceil(elements / SAMPLED_NUMBER_ELEMENTS)`.
pub const SAMPLED_NUMBER_ELEMENTS: usize = SAMPLED_ELEMENTS;
/// Most sampled codes of a chunk.
pub const MOST_SAMPLED_CODES: usize = MOST_SAMPLED;

/// The bins of a chunk, and how codes are found to be in them.
#[derive(Clone, Debug)]
pub struct NumberBinning {
    /// Low bits that are 0, and cells of what is left, of each family.
    pub families: Vec<(u8, Cells)>,
    /// Those of each family in a row.
    pub bins: Vec<Bin>,
    /// The bin of each cell, [`MAX_CELLS`](crate::numbers::cells::MAX_CELLS) a family.
    pub of_cell: Vec<u8>,
    /// Bins of a symbol.
    pub tuple: usize,
    /// The number of symbols.
    pub symbols: usize,
    /// The symbol that most of the sample has.
    pub commonest: u16,
}

/// Returns the numbers of the tiles of a chunk that its plan is chosen with, counted from its first, which has `first`
/// elements.
pub fn number_sample(tiles: usize, first: usize) -> Vec<usize> {
    sampled_numbers(tiles, first)
}

/// Returns the codes of a sampled row, and how many rows there are from one that is sampled to the next, of `count`
/// codes of tiles that are not constant.
pub fn sampled_code_rows(count: usize) -> (usize, usize) {
    (SAMPLED_ROW, weight_of(count))
}

fn words<W: Word>(bytes: &[u8]) -> Vec<W> {
    bytes.chunks_exact(size_of::<W>()).map(bytemuck::pod_read_unaligned).collect()
}

/// Chooses the plan of a chunk with these sampled elements, and these elements of the sampled tiles of these extents,
/// in the machine's byte order. Bins of a symbol are to be chosen later.
///
/// # Panics
/// `of_tiles` has not the extents' length.
pub fn choose_number_plan(
    element: ElementType,
    axes: usize,
    elements: &[u8],
    extents: &[[usize; 3]],
    of_tiles: &[u8],
) -> Plan {
    fn plan<W: Word>(
        element: ElementType,
        axes: usize,
        elements: &[u8],
        extents: &[[usize; 3]],
        of_tiles: &[u8],
    ) -> Plan {
        let (elements, of_tiles) = (words::<W>(elements), words::<W>(of_tiles));
        let mut rest = &of_tiles[..];
        let tiles = extents.iter().map(|&extent| {
            let (tile, others) = rest.split_at(extent.iter().product());
            rest = others;
            (extent, tile)
        });
        let tiles: Vec<_> = tiles.collect();
        choose(element, axes, (&elements, &tiles), &mut Sample::default())
    }
    match element.size() {
        1 => plan::<u8>(element, axes, elements, extents, of_tiles),
        2 => plan::<u16>(element, axes, elements, extents, of_tiles),
        4 => plan::<u32>(element, axes, elements, extents, of_tiles),
        _ => plan::<u64>(element, axes, elements, extents, of_tiles),
    }
}

/// Chooses the bins for `count` codes in a range, of which `sample` has the sampled rows, in the machine's byte order.
pub fn choose_number_bins(
    element: ElementType,
    predictor: u8,
    sample: &[u8],
    count: usize,
    range: Range,
) -> NumberBinning {
    let binned = match element.size() {
        1 => Binned::choose(&words::<u8>(sample), count, range, predictor),
        2 => Binned::choose(&words::<u16>(sample), count, range, predictor),
        4 => Binned::choose(&words::<u32>(sample), count, range, predictor),
        _ => Binned::choose(&words::<u64>(sample), count, range, predictor),
    };
    let Binned { families, binning, tuple, symbols, commonest } = binned;
    NumberBinning { families, bins: binning.bins, of_cell: binning.of_cell, tuple, symbols, commonest }
}
