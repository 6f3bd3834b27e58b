//! The plan of a chunk, chosen by a sample of its elements.

use super::encode::Coder;
use super::plan::{Division, Plan};
use crate::bits::logarithm::LOG_BITS;
use crate::error::Result;
use crate::geometry::{Geometry, Tile, balanced_extent};
use crate::pipeline::context::ElementSource;
use crate::quantize::Real;

/// Most pieces of the sample, and the binary logarithm of the elements of each, at least and at most.
const PIECES: usize = 4;
const PIECE_LOG2: (u32, u32) = (12, 15);
/// Binary logarithm of the share of a piece in a chunk.
const SHARE_LOG2: u32 = 7;
/// Plans that all pieces are coded with.
const FINALISTS: usize = 3;
/// Blocks of fewer bytes have one part.
const BYTES_OF_BOXES: u64 = 73_728;

/// Chooses how the blocks of a chunk are coded.
pub(super) fn choose<T: Real>(
    coder: &mut Coder<T>,
    on_grid: bool,
    geometry: &Geometry,
    source: &dyn ElementSource,
    (tiles, bytes): (&[Tile], &mut Vec<u8>),
) -> Result<Plan> {
    let mut pieces = Vec::new();
    let count = tiles.len().min(PIECES);
    let elements: usize = tiles.iter().map(Tile::len).sum();
    let piece_log2 = elements.max(1).ilog2().saturating_sub(SHARE_LOG2).clamp(PIECE_LOG2.0, PIECE_LOG2.1);
    for number in (0..count).step_by(2).chain((1..count).step_by(2)) {
        let tile = &tiles[(2 * number + 1) * tiles.len() / (2 * count)];
        let whole = tile.extent.map(usize::next_power_of_two);
        let side = balanced_extent(whole, piece_log2);
        let extent: [usize; 3] = std::array::from_fn(|axis| side[axis].min(tile.extent[axis]));
        let piece = tile.part(std::array::from_fn(|axis| (tile.extent[axis] - extent[axis]) / 2), extent);
        let window = source.window(geometry, std::slice::from_ref(&piece), bytes)?;
        let mut x = vec![T::from_bits(0); piece.len()];
        coder.elements.gather(&window, &piece, &mut x);
        pieces.push((x, extent));
    }
    let plain = Plan { on_grid, division: Division::Boxes, ..Plan::default() };
    // All plans with half of the pieces, and the best of them with the others, too.
    let (first, others) = pieces.split_at(count.div_ceil(2));
    let mut tried = Vec::new();
    let mut consider = |coder: &mut Coder<T>, plan: Plan| {
        tried.push((cost(coder, first, plan), plan));
        // The earlier one of two plans with the same cost.
        tried.sort_by_key(|&(bits, _)| bits);
        tried[0].1
    };
    // First the axis of the slices and the scheme, then the share of the slice before.
    let mut best = plain;
    for slices in Plan::slices(geometry.axes()) {
        for cubic in [false, true] {
            best = consider(coder, Plan { slices, share: u8::from(slices.is_some()), cubic, ..plain });
        }
    }
    // Slices that have nothing in common, such as the coordinates of points, are predicted worse with any share.
    for slices in Plan::slices(geometry.axes()).filter(Option::is_some) {
        consider(coder, Plan { slices, share: 0, ..best });
    }
    if best.slices.is_some() {
        consider(coder, Plan { share: 2, ..best });
    }
    // Zeros between other values are multiples of the step, so that they need no masks.
    if !on_grid {
        consider(coder, Plan { on_grid: true, ..best });
    }
    tried.truncate(FINALISTS);
    let whole = |(bits, plan)| (bits + cost(coder, others, plan), plan);
    let (bits, plan) = tried.into_iter().map(whole).min_by_key(|&(bits, _)| bits).unwrap_or((0, plain));
    let elements: usize = pieces.iter().map(|(x, _)| x.len()).sum();
    let bytes = bits * geometry.unclipped_len() / 8 / (elements as u64).max(1);
    // Many parts, so that some of a block are read fast, but of some size, so that they take few bytes.
    let division = if bytes < BYTES_OF_BOXES { Division::One } else { Division::Boxes };
    Ok(Plan { division, ..plan })
}

/// Returns the bits that the pieces take with a plan.
fn cost<T: Real>(coder: &mut Coder<T>, pieces: &[(Vec<T>, [usize; 3])], plan: Plan) -> u64 {
    coder.memory.counts.clear();
    let mut bits = 0;
    for (x, extent) in pieces {
        coder.encode(x, *extent, plan);
        bits += coder.memory.block.missed.len() as u64 * 8 * (4 + coder.elements.stored.size() as u64);
    }
    bits + coder.memory.counts.bits_behind() + (coder.memory.counts.entropy() >> LOG_BITS)
}
