//! Decoder output to a [`WriteAt`], in few writes.

use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, Tile, Tiles};
use syncline_core::pipeline::TileSink;

use crate::io::{Turns, WriteAt};

/// Collects the tiles of a chunk in boxes, and writes each box when its last tile is complete.
pub(crate) struct FileSink<'a, W: ?Sized> {
    sink: &'a Turns<'a, W>,
    offset: u64,
    element: usize,
    geometry: &'a Geometry,
    tiles: Tiles<'a>,
    current: Option<Tile>,
    /// Tiles of the chunk that are not in the box yet, the current one included.
    left: u64,
    part: Part,
    /// Elements of the box. Longer if an earlier box was longer.
    bytes: &'a mut Vec<u8>,
}

/// A box of consecutive tiles: some whole rows of tiles of one layer, or a part of one row.
#[derive(Default)]
struct Part {
    origin: [u64; 4],
    planes: usize,
    rows: usize,
    /// Elements of a row.
    width: usize,
    /// Tiles that are still missing.
    tiles: u64,
}

impl Part {
    /// Returns the largest box that starts with this tile and has at most `left` tiles.
    fn new(geometry: &Geometry, first: &Tile, left: u64) -> Self {
        let [_, _, y, x] = geometry.dims();
        let [_, ty, tx] = geometry.unclipped_extent().map(|extent| extent as u64);
        let [_, _, row, column] = first.origin;
        let in_row = x.div_ceil(tx);
        let (tiles, rows, width) = if column == 0 && left >= in_row {
            let rows = (left / in_row).min((y - row).div_ceil(ty));
            (rows * in_row, (rows * ty).min(y - row), x)
        } else {
            let tiles = left.min(in_row - column / tx);
            (tiles, first.extent[1] as u64, (tiles * tx).min(x - column))
        };
        Self { origin: first.origin, planes: first.extent[0], rows: rows as usize, width: width as usize, tiles }
    }

    fn elements(&self) -> usize {
        self.planes * self.rows * self.width
    }

    /// Returns the length of runs of its elements that are contiguous in the array.
    fn stretch(&self, geometry: &Geometry) -> usize {
        let [_, _, y, x] = geometry.dims();
        match (self.width as u64 == x, self.rows as u64 == y) {
            (true, true) => self.elements(),
            (true, false) => self.rows * self.width,
            (false, _) => self.width,
        }
    }
}

impl<'a, W: WriteAt + ?Sized> FileSink<'a, W> {
    /// Creates the sink for a chunk of an array that starts at byte `offset`. `bytes` is reused memory.
    pub(crate) fn new(
        sink: &'a Turns<'a, W>,
        offset: u64,
        element: usize,
        geometry: &'a Geometry,
        chunk: u64,
        bytes: &'a mut Vec<u8>,
    ) -> Self {
        let numbers = geometry.chunk_range(chunk);
        let mut tiles = geometry.chunk(chunk);
        let current = tiles.next();
        let left = numbers.end - numbers.start;
        Self { sink, offset, element, geometry, tiles, current, left, part: Part::default(), bytes }
    }

    fn write(&self) -> Result<()> {
        let stretch = self.part.stretch(self.geometry);
        let bytes = &self.bytes[..self.part.elements() * self.element];
        let [b, z, y, x] = self.part.origin;
        self.sink.turn(|sink| {
            for (i, piece) in bytes.chunks_exact(stretch * self.element).enumerate() {
                let row = i * stretch / self.part.width;
                let (plane, row) = ((row / self.part.rows) as u64, (row % self.part.rows) as u64);
                let element = self.geometry.element([b, z + plane, y + row, x]);
                sink.write_all_at(piece, self.offset + element * self.element as u64)?;
            }
            Ok(())
        })
    }
}

impl<W: WriteAt + ?Sized> TileSink for FileSink<'_, W> {
    fn peek(&self) -> Option<(Tile, bool)> {
        self.current.map(|tile| (tile, true))
    }

    /// All tiles of a chunk must be decoded for a file: the box of a skipped tile would remain unwritten.
    fn needs(&self, _: &Tile) -> bool {
        true
    }

    fn skip(&mut self) {
        self.current = self.tiles.next();
    }

    fn put(&mut self, elements: &[u8]) -> Result<()> {
        let Some(tile) = self.current else { return Ok(()) };
        self.current = self.tiles.next();
        if self.part.tiles == 0 {
            self.part = Part::new(self.geometry, &tile, self.left);
            self.left -= self.part.tiles;
            let length = self.part.elements() * self.element;
            self.bytes.resize(length.max(self.bytes.len()), 0);
        }
        let part = &mut self.part;
        let [_, rows, width] = tile.extent;
        let first_row = (tile.origin[2] - part.origin[2]) as usize;
        let first_column = (tile.origin[3] - part.origin[3]) as usize;
        let row_bytes = width * self.element;
        let from = elements[..tile.len() * self.element].chunks_exact(row_bytes);
        for (i, from) in from.enumerate() {
            let row = i / rows * part.rows + first_row + i % rows;
            let at = (row * part.width + first_column) * self.element;
            let to = &mut self.bytes[at..at + row_bytes];
            to.copy_from_slice(from);
            if cfg!(target_endian = "big") {
                to.chunks_exact_mut(self.element).for_each(<[u8]>::reverse);
            }
        }
        part.tiles -= 1;
        if part.tiles == 0 { self.write() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use proptest::prelude::*;
    use syncline_core::array::Shape;

    use super::*;

    /// The written bytes, and the number of writes.
    #[derive(Default)]
    struct Written(Mutex<(Vec<u8>, usize)>);

    impl WriteAt for Written {
        fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
            let (bytes, writes) = &mut *self.0.lock().unwrap();
            let at = offset as usize;
            bytes.resize(bytes.len().max(at + buffer.len()), 0);
            assert!(bytes[at..at + buffer.len()].iter().all(|&byte| byte == 0), "written twice");
            bytes[at..at + buffer.len()].copy_from_slice(buffer);
            *writes += 1;
            Ok(())
        }
    }

    /// Writes an array whose elements are their numbers plus 1, and returns the number of writes.
    fn check(extents: &[u64], chunk_tiles: u32) -> usize {
        let geometry = Geometry::with_chunk_tiles(Shape::new(extents).unwrap(), chunk_tiles).unwrap();
        let (written, mut bytes) = (Written::default(), Vec::new());
        let sink = Turns::new(&written);
        for chunk in 0..geometry.chunks() {
            let mut tiles = FileSink::new(&sink, 3, 4, &geometry, chunk, &mut bytes);
            while let Some((tile, wanted)) = tiles.peek() {
                assert!(wanted);
                let [b, z, y, x] = tile.origin;
                let [planes, rows, width] = tile.extent;
                let number = |p, r, c| geometry.element([b, z + p as u64, y + r as u64, x + c as u64]) as u32 + 1;
                let rows = (0..planes).flat_map(|p| (0..rows).map(move |r| (p, r)));
                let values: Vec<u32> = rows.flat_map(|(p, r)| (0..width).map(move |c| number(p, r, c))).collect();
                tiles.put(bytemuck::cast_slice(&values)).unwrap();
            }
        }
        let (bytes, writes) = written.0.into_inner().unwrap();
        let expected: Vec<u8> = (0..geometry.elements() as u32).flat_map(|i| (i + 1).to_le_bytes()).collect();
        assert!(expected.is_empty() || bytes[3..] == expected, "{extents:?} {chunk_tiles}");
        writes
    }

    #[test]
    fn consecutive_elements_are_written_in_one_call() {
        assert_eq!(check(&[16, 16, 16], 4), 2, "layers of four tiles");
        assert_eq!(check(&[70, 90], 3), 3, "rows of three tiles");
        assert_eq!(check(&[5000], 2), 3);
        assert_eq!(check(&[16, 32, 16], 4), 2 * 2 * 8, "half a layer: a piece of each plane");
        assert_eq!(check(&[], 1), 1);
        assert_eq!(check(&[0, 5], 1), 0);
    }

    proptest! {
        #[test]
        fn every_element_is_written_once(extents in prop::collection::vec(1u64..60, 0..=4), chunk_tiles in 1u32..40) {
            check(&extents, chunk_tiles);
        }
    }
}
