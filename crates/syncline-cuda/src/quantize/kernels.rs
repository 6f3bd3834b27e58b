//! Which kernels quantize a kind of stream over a tiling, and the shapes of their blocks.

use syncline_core::geometry::Geometry;

use super::step::Kind;
use crate::device::{Source, Specialization, source};

const CODES: Source = source!("quantize/codes.cu");
const CLIPPED: Source = source!("quantize/codes_clipped.cu");
const FINISH: Source = source!("quantize/finish.cu");
pub(super) const WIDE: Source = source!("quantize/wide.cu");
pub(super) const GATHER: Source = source!("quantize/gather.cu");

/// Units of a block of `quantize_codes` on devices with little shared memory.
pub(super) const FEW_UNITS: u32 = 4;
/// An array of which more than one in so many elements is in a clipped tile gets the kernel for that.
const CLIPPED_SHARE: u64 = 256;
/// One of which more than one in so many is, in 3-D, gets one way for tiles whole and clipped: less code, which is
/// waited for where both ways are taken all the time.
pub(super) const MANY_CLIPPED_SHARE: u64 = 8;
/// Threads of a block of `quantize_finish`.
pub(super) const FINISH_THREADS: u32 = 512;
/// Blocks of a chunk there, where the device has clusters.
pub(super) const FINISH_CLUSTER: u32 = 4;
/// Warps of a block of the kernels that have a warp a tile.
pub(super) const WARPS: u32 = 4;

/// Shared memory of a block: what the block shares and, for each warp, codes and integers of a unit, or codes of two
/// units and elements or integers of one.
pub(super) fn shared_memory(kind: Kind, ahead: bool, units: u32) -> u32 {
    if ahead { units * 1024 * (2 * 2 + kind.element_bytes) + 4608 } else { units * 1024 * (2 + 4) + 2048 }
}

/// Units that a block works on at a time, and blocks on a multiprocessor. These limit registers: 80 with 24 warps
/// there, 96 with 20, 128 with 16.
pub(super) fn block_shape(kind: Kind, ahead: bool) -> (u32, u32) {
    match kind {
        _ if !ahead => (8, 3),
        Kind { element_bytes: 8, .. } | Kind { patterns: true, .. } => (7, 2),
        Kind { axes: 3, .. } => (9, 2),
        _ => (7, 3),
    }
}

/// Threads of a block: a warp a unit, and where elements are fetched ahead one that has none.
pub(super) fn threads(ahead: bool, units: u32) -> u32 {
    (units + u32::from(ahead)) * 32
}

/// The kernel from elements to codes: with `ahead` the one that fetches ahead, with blocks of so many units, so many of
/// them on a multiprocessor.
pub(super) fn codes_specialization(
    kind: Kind,
    ahead: bool,
    many_clipped: bool,
    units: u32,
    blocks: u32,
) -> Specialization {
    let mut constants = vec![
        ("ELEMENT_BYTES", kind.element_bytes),
        ("LOGARITHM", kind.logarithm.into()),
        ("AXES", kind.axes),
        ("PATTERNS", kind.patterns.into()),
        ("MEASURE", kind.measure.into()),
        ("UNITS", units),
        ("BLOCKS", blocks),
    ];
    if ahead {
        constants.push(("MANY_CLIPPED", many_clipped.into()));
    }
    let source = if ahead { CLIPPED } else { CODES };
    Specialization { source, constants: constants.into_iter().map(|(name, value)| (name, value.into())).collect() }
}

/// A kernel that has a warp a tile.
pub(super) fn tile_specialization(kind: Kind, source: Source) -> Specialization {
    let constants = [
        ("ELEMENT_BYTES", kind.element_bytes),
        ("LOGARITHM", kind.logarithm.into()),
        ("AXES", kind.axes),
        ("WARPS", WARPS),
    ];
    Specialization { source, constants: constants.map(|(name, value)| (name, value.into())).to_vec() }
}

/// The kernel that finishes chunks.
pub(super) fn finish_specialization() -> Specialization {
    Specialization {
        source: FINISH,
        constants: vec![("THREADS", FINISH_THREADS.into()), ("CLUSTER", FINISH_CLUSTER.into())],
    }
}

/// Whether an array of this kind and tiling gets the kernel that fetches ahead: `f32`, and arrays with clipped tiles,
/// rows that are not multiples of 16 bytes, or fill patterns.
pub(super) fn is_ahead(kind: Kind, geometry: &Geometry) -> bool {
    if kind.logarithm {
        return false;
    }
    if kind.element_bytes == 4 {
        return true;
    }
    let [_, _, _, x] = geometry.dims();
    let ragged = kind.axes > 1 && !(x * u64::from(kind.element_bytes)).is_multiple_of(16);
    kind.patterns || ragged || is_clipped(kind, geometry, CLIPPED_SHARE)
}

/// Whether more than one in `share` of the elements is in a clipped tile; in 1-D none is.
pub(super) fn is_clipped(kind: Kind, geometry: &Geometry, share: u64) -> bool {
    let [b, z, y, x] = geometry.dims();
    let side = geometry.unclipped_extent().map(|side| side as u64);
    let whole = b * (z - z % side[0]) * (y - y % side[1]) * (x - x % side[2]);
    kind.axes > 1 && (b * z * y * x - whole) > b * z * y * x / share
}

/// Kinds of which there is a kernel for arrays with many clipped tiles.
pub(super) fn may_have_many_clipped(kind: Kind) -> bool {
    kind.axes == 3 && kind.element_bytes == 4 && !kind.logarithm && !kind.patterns && !kind.measure
}

/// All of a kind of stream, whatever the tiling.
pub(super) fn specializations(kind: Kind) -> Vec<Specialization> {
    let codes = |ahead, many_clipped| {
        let (units, blocks) = block_shape(kind, ahead);
        codes_specialization(kind, ahead, many_clipped, units, blocks)
    };
    let ahead = (!kind.logarithm).then(|| codes(true, false));
    let many_clipped = may_have_many_clipped(kind).then(|| codes(true, true));
    let in_registers = (kind.logarithm || kind.element_bytes == 8).then(|| codes(false, false));
    let tiles = [tile_specialization(kind, WIDE), tile_specialization(kind, GATHER), finish_specialization()];
    ahead.into_iter().chain(many_clipped).chain(in_registers).chain(tiles).collect()
}
