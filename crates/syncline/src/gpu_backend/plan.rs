//! How the work is cut: chunks into batches for compression, layers of tiles for decompression.

use std::ops::Range;

use syncline_core::geometry::{Geometry, Region};
use syncline_cuda::geometry::boxes::{BoxRows, BoxShape};

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
    let first = geometry.element_range(chunks.start);
    // Later chunks end later, but for those of one layer of tiles, which all end in its last plane.
    let end = chunks.clone().rev().take(2).map(|chunk| geometry.element_range(chunk).end).max().unwrap_or(first.end);
    first.start / SLAB_ALIGNMENT * SLAB_ALIGNMENT..end
}

/// Tiles with a part of the elements of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerBatch {
    /// Numbers of the tiles.
    pub(crate) tiles: Range<u64>,
    /// A raster range that has all of their elements.
    pub(crate) elements: Range<u64>,
    /// The part: numbers of elements in the order of the region.
    pub(crate) part: Range<u64>,
    /// Where these are in the raster range.
    pub(crate) place: Place,
}

/// Where some elements of a region are in a raster range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One after another, from this one on.
    From(u64),
    /// In boxes.
    Boxes(Vec<BoxRows>, BoxShape),
}

/// Layers of tiles that hold a region, in batches of about so many bytes.
pub(crate) fn layer_batches(
    geometry: &Geometry,
    region: &Region,
    element_bytes: u64,
    batch_bytes: u64,
) -> Vec<LayerBatch> {
    match stretch(geometry, region) {
        Some(wanted) => stretch_batches(geometry, &wanted, element_bytes, batch_bytes),
        None => box_batches(geometry, region, element_bytes, batch_bytes),
    }
}

/// Layers of tiles that hold a region whose elements do not lie one after another. Of each layer, a batch has the tiles
/// from the first to the last one that the region meets; layers share a batch if no chunk lies between these.
fn box_batches(geometry: &Geometry, region: &Region, element_bytes: u64, batch_bytes: u64) -> Vec<LayerBatch> {
    let (start, extent, dims) = (region.start(), region.extent(), geometry.dims());
    let end: [u64; 4] = std::array::from_fn(|axis| start[axis] + extent[axis]);
    let (along, side) = (4 - geometry.axes().clamp(2, 3), geometry.layer_side());
    let chunk_of = |tile: u64| tile / u64::from(geometry.tiles_per_chunk());
    let row = extent[3];
    let rows_of_line: u64 = extent[along + 1..3].iter().product();
    let shape = BoxShape { rows: 0, length: row, in_plane: extent[2], strides: [dims[2] * dims[3], dims[3]] };
    let (mut batches, mut done) = (Vec::<LayerBatch>::new(), 0);
    for b in (0..extent[0]).map(|position| region.field_at(position)) {
        let mut line = start[along];
        while line < end[along] {
            let next = end[along].min((line / side + 1) * side);
            let mut ends = [[b, start[1], start[2], start[3]], [b, end[1] - 1, end[2] - 1, end[3] - 1]];
            (ends[0][along], ends[1][along]) = (line, next - 1);
            let [first, last] = ends.map(|end| geometry.tile_with(end));
            let last_tile = geometry.tile(last);
            let corner = std::array::from_fn(|a| {
                last_tile.origin[a] + if a == 0 { 0 } else { last_tile.extent[a - 1] as u64 - 1 }
            });
            let elements = geometry.element(geometry.tile(first).origin)..geometry.element(corner) + 1;
            let rows = (next - line) * rows_of_line;
            let joins = |batch: &LayerBatch| {
                let bytes = (elements.end - batch.elements.start) * element_bytes;
                chunk_of(first) <= chunk_of(batch.tiles.end - 1) + 1 && bytes <= batch_bytes
            };
            let is_new = !batches.last().is_some_and(joins);
            if is_new {
                let elements = elements.start / SLAB_ALIGNMENT * SLAB_ALIGNMENT..elements.end;
                let place = Place::Boxes(Vec::new(), shape);
                batches.push(LayerBatch { tiles: first..last + 1, elements, part: done..done, place });
            }
            if let Some(LayerBatch { tiles, elements: all, part, place: Place::Boxes(boxes, shape) }) =
                batches.last_mut()
            {
                // Another layer of the same field goes on with the same box.
                if is_new || line == start[along] {
                    boxes.push(BoxRows { first_row: shape.rows, from: geometry.element(ends[0]) - all.start });
                }
                (tiles.end, all.end) = (last + 1, elements.end);
                shape.rows += rows;
                part.end += rows * row;
            }
            done += rows * row;
            line = next;
        }
    }
    batches
}

/// Layers of tiles that hold a raster range of elements, in batches of about so many bytes.
pub(super) fn stretch_batches(
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
        let own = elements.start.max(wanted.start)..elements.end.min(wanted.end);
        let place = Place::From(own.start - elements.start);
        LayerBatch { tiles, elements, part: own.start - wanted.start..own.end - wanted.start, place }
    };
    (first..=last).step_by(step as usize).map(batch).collect()
}

/// The raster range of a region's elements, if they lie one after another.
fn stretch(geometry: &Geometry, region: &Region) -> Option<Range<u64>> {
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
                    let range = geometry.element_range(chunk);
                    prop_assert!(slab.start <= range.start && range.end <= slab.end);
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
            for LayerBatch { tiles, elements, .. } in stretch_batches(&geometry, &wanted, 4, batch) {
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
            let batches = stretch_batches(&geometry, &wanted, 4, batch);
            prop_assert!(batches[0].elements.start <= wanted.start
                && wanted.end <= batches[batches.len() - 1].elements.end);
        }

        #[test]
        fn boxes_are_regions_in_order(
            axes in prop::collection::vec((1u64..40, 0u64..40, 0u64..40), 1..=4), batch in 1u64..10_000,
        ) {
            let extents: Vec<u64> = axes.iter().map(|a| a.0).collect();
            let geometry = Geometry::with_chunk_tiles(Shape::new(&extents).unwrap(), 3).unwrap();
            let ranges: Vec<_> = axes.iter().map(|&(e, a, b)| a.min(b).min(e)..a.max(b).min(e)).collect();
            let region = geometry.region(&ranges).unwrap();
            let (start, extent) = (region.start(), region.extent());
            let mut expected = Vec::new();
            for b in 0..extent[0] { for z in 0..extent[1] { for y in 0..extent[2] { for x in 0..extent[3] {
                expected.push(geometry.element([region.field_at(b), start[1] + z, start[2] + y, start[3] + x]));
            }}}}
            let mut found = Vec::new();
            for batch in layer_batches(&geometry, &region, 4, batch) {
                prop_assert_eq!(batch.part.start, found.len() as u64);
                for tile in geometry.range(batch.tiles.clone()) {
                    let last = [0, 1, 2, 3].map(|a| tile.origin[a]
                        + if a == 0 { 0 } else { tile.extent[a - 1] as u64 - 1 });
                    prop_assert!(batch.elements.start <= geometry.element(tile.origin)
                        && geometry.element(last) < batch.elements.end);
                }
                match &batch.place {
                    Place::From(first) => {
                        let first = batch.elements.start + first;
                        found.extend(first..first + batch.part.end - batch.part.start);
                    }
                    Place::Boxes(boxes, shape) => for row in 0..shape.rows {
                        let own = boxes.iter().rfind(|own| own.first_row <= row).unwrap();
                        let (z, y) = ((row - own.first_row) / shape.in_plane, (row - own.first_row) % shape.in_plane);
                        let first = batch.elements.start + own.from + z * shape.strides[0] + y * shape.strides[1];
                        found.extend(first..first + shape.length);
                    }
                }
                prop_assert_eq!(batch.part.end, found.len() as u64);
                for &element in &found[batch.part.start as usize..] {
                    prop_assert!(batch.elements.contains(&element));
                }
            }
            prop_assert_eq!(found, expected);
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
