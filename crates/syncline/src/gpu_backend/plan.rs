//! How the work is cut: chunks into batches for compression, layers of tiles for decompression.

use std::ops::Range;

use syncline_core::geometry::{Geometry, Region};

/// Slabs start on a multiple of so many elements, so that their elements keep the alignment they have in the array.
const SLAB_ALIGNMENT: u64 = 64;

/// Ranges of chunks of about so many bytes of elements.
pub(super) fn chunk_batches(geometry: &Geometry, element_bytes: u64, batch_bytes: u64) -> Vec<Range<u64>> {
    let chunk = u64::from(geometry.tiles_per_chunk()) * geometry.unclipped_len() * element_bytes;
    let step = (batch_bytes / chunk).max(1);
    let chunks = geometry.chunks();
    (0..chunks).step_by(step as usize).map(|first| first..(first + step).min(chunks)).collect()
}

/// Raster range of the elements that some chunks are made from; it starts where a slab may.
pub(super) fn slab_of(geometry: &Geometry, chunks: &Range<u64>) -> Range<u64> {
    let first = geometry.chunk_span(chunks.start);
    // Later chunks end later, but for those of one layer of tiles, which all end in its last plane.
    let end = chunks.clone().rev().take(2).map(|chunk| geometry.chunk_span(chunk).end).max().unwrap_or(first.end);
    first.start / SLAB_ALIGNMENT * SLAB_ALIGNMENT..end
}

/// Tiles whose elements are one stretch of the array in raster order, together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayerBatch {
    /// Numbers of the tiles.
    pub(super) tiles: Range<u64>,
    /// Raster range of their elements.
    pub(super) elements: Range<u64>,
}

/// Layers of tiles that hold a raster range of elements, in batches of about so many bytes.
pub(super) fn layer_batches(
    geometry: &Geometry,
    wanted: &Range<u64>,
    element_bytes: u64,
    batch_bytes: u64,
) -> Vec<LayerBatch> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let [_, z, y, x] = geometry.dims();
    let [tz, ty, tx] = geometry.unclipped_extent().map(|extent| extent as u64);
    let (in_row, in_plane) = (x.div_ceil(tx), y.div_ceil(ty) * x.div_ceil(tx));
    // Layer of an element, and tiles of a layer.
    let (layer, tiles): (&dyn Fn(u64) -> u64, u64) = match geometry.axes() {
        1 => (&|e| e / tx, 1),
        2 => (&|e| e / x / ty, in_row),
        _ => (&|e| e / (x * y * z) * z.div_ceil(tz) + e / (x * y) % z / tz, in_plane),
    };
    let bytes = tiles * geometry.unclipped_len() * element_bytes;
    let step = (batch_bytes / bytes).max(1);
    let start_of = |tile: u64| match tile < geometry.tiles() {
        true => geometry.element(geometry.tile(tile).origin),
        false => geometry.elements(),
    };
    let (first, last) = (layer(wanted.start), layer(wanted.end - 1));
    let batch = |from: u64| {
        let tiles = from * tiles..((from + step).min(last + 1) * tiles).min(geometry.tiles());
        let elements = start_of(tiles.start)..start_of(tiles.end);
        LayerBatch { tiles, elements }
    };
    (first..=last).step_by(step as usize).map(batch).collect()
}

/// The raster range of a region's elements, if they lie one after another.
pub(crate) fn stretch(geometry: &Geometry, region: &Region) -> Option<Range<u64>> {
    if region.is_empty() {
        return Some(0..0);
    }
    if !region.is_box() {
        return None;
    }
    let (start, extent, dims) = (region.start(), region.extent(), geometry.dims());
    let cut = extent.iter().position(|&extent| extent > 1).unwrap_or(3);
    if extent[cut + 1..] != dims[cut + 1..] {
        return None;
    }
    let first = geometry.element(start);
    Some(first..first + region.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_core::array::Shape;

    use super::*;

    proptest! {
        #[test]
        fn slabs_hold_their_chunks(extents in prop::collection::vec(1u64..60, 0..=4), chunk_tiles in 1u32..9,
            batch in 1u64..100_000) {
            let geometry = Geometry::with_chunk_tiles(Shape::new(&extents).unwrap(), chunk_tiles).unwrap();
            let batches = chunk_batches(&geometry, 4, batch);
            prop_assert_eq!(batches.iter().map(|b| b.end - b.start).sum::<u64>(), geometry.chunks());
            let mut last = 0..0;
            for chunks in batches {
                let slab = slab_of(&geometry, &chunks);
                // So that every element is in some slab, and a look at each up to the start of the next meets it once.
                prop_assert!(last.start <= slab.start && slab.start <= last.end && slab.end <= geometry.elements());
                last = slab.clone();
                for chunk in chunks {
                    let span = geometry.chunk_span(chunk);
                    prop_assert!(slab.start <= span.start && span.end <= slab.end);
                }
            }
            prop_assert_eq!(last.end, geometry.elements());
        }

        #[test]
        fn layers_hold_just_their_tiles(
            extents in prop::collection::vec(1u64..60, 0..=4), batch in 1u64..100_000, from in 0.0f64..1.0,
                share in 0.0f64..1.0,
        ) {
            let geometry = Geometry::new(Shape::new(&extents).unwrap());
            let count = geometry.elements();
            let start = (count as f64 * from) as u64;
            let wanted = start..(start + (count as f64 * share) as u64 + 1).min(count);
            let mut at = None;
            for LayerBatch { tiles, elements } in layer_batches(&geometry, &wanted, 4, batch) {
                prop_assert!(at.is_none_or(|at| at == elements.start));
                at = Some(elements.end);
                let mut count = 0;
                for tile in geometry.range(tiles) {
                    let last = [0, 1, 2, 3].map(|a| tile.origin[a]
                        + if a == 0 { 0 } else { tile.extent[a - 1] as u64 - 1 });
                    prop_assert!(elements.start <= geometry.element(tile.origin)
                        && geometry.element(last) < elements.end);
                    count += tile.len() as u64;
                }
                prop_assert_eq!(count, elements.end - elements.start);
            }
            let batches = layer_batches(&geometry, &wanted, 4, batch);
            prop_assert!(batches[0].elements.start <= wanted.start
                && wanted.end <= batches[batches.len() - 1].elements.end);
        }

        #[test]
        fn stretches_are_regions_in_order(axes in prop::collection::vec((1u64..6, 0u64..6, 0u64..6), 1..=4)) {
            let extents: Vec<u64> = axes.iter().map(|a| a.0).collect();
            let geometry = Geometry::new(Shape::new(&extents).unwrap());
            let ranges: Vec<_> = axes.iter().map(|&(e, a, b)| a.min(b).min(e)..a.max(b).min(e)).collect();
            let region = geometry.region(&ranges).unwrap();
            let (start, extent) = (region.start(), region.extent());
            let mut elements = Vec::new();
            for b in 0..extent[0] { for z in 0..extent[1] { for y in 0..extent[2] { for x in 0..extent[3] {
                elements.push(geometry.element([start[0] + b, start[1] + z, start[2] + y, start[3] + x]));
            }}}}
            let in_order = elements.windows(2).all(|pair| pair[1] == pair[0] + 1);
            match stretch(&geometry, &region) {
                Some(stretch) => prop_assert!(stretch.eq(elements.iter().copied())),
                None => prop_assert!(!in_order),
            }
        }
    }
}
