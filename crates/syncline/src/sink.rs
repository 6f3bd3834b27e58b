//! A decoder's output that goes to a [`WriteAt`], a run of tiles at a time.

use bytemuck::Pod;
use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, Tile, Tiles};
use syncline_core::pipeline::TileSink;

use crate::io::WriteAt;

/// Gathers the tiles of one row of tiles into a box and writes it when the row ends.
pub(crate) struct FileSink<'a, W: ?Sized> {
    sink: &'a W,
    offset: u64,
    element: usize,
    geometry: &'a Geometry,
    tiles: Tiles<'a>,
    current: Option<Tile>,
    /// Tiles of the current row with their elements' bytes.
    run: Vec<Tile>,
    values: Vec<u8>,
    rows: Vec<u8>,
}

impl<'a, W: WriteAt + ?Sized> FileSink<'a, W> {
    pub(crate) fn new(sink: &'a W, offset: u64, element: usize, geometry: &'a Geometry, chunk: u64) -> Self {
        let mut tiles = geometry.chunk(chunk);
        let current = tiles.next();
        Self { sink, offset, element, geometry, tiles, current, run: Vec::new(), values: Vec::new(), rows: Vec::new() }
    }

    /// Writes the last row.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let (Some(first), Some(last)) = (self.run.first(), self.run.last()) else { return Ok(()) };
        let [planes, rows, _] = first.extent;
        let width = (last.origin[3] + last.extent[2] as u64 - first.origin[3]) as usize;
        let row_bytes = width * self.element;
        self.rows.resize(planes * rows * row_bytes, 0);
        let mut values = self.values.as_slice();
        for tile in &self.run {
            let part = tile.extent[2] * self.element;
            let at = (tile.origin[3] - first.origin[3]) as usize * self.element;
            for row in self.rows.chunks_exact_mut(row_bytes) {
                let (now, later) = values.split_at(part);
                row[at..at + part].copy_from_slice(now);
                values = later;
            }
        }
        let rows_at_once = if width as u64 == self.geometry.dims()[3] { rows } else { 1 };
        for (i, part) in self.rows.chunks_exact(rows_at_once * row_bytes).enumerate() {
            let row = i * rows_at_once;
            let [b, z, y, x] = first.origin;
            let element = self.geometry.element([b, z + (row / rows) as u64, y + (row % rows) as u64, x]);
            self.sink.write_all_at(part, self.offset + element * self.element as u64)?;
        }
        self.run.clear();
        self.values.clear();
        Ok(())
    }
}

impl<W: WriteAt + ?Sized> TileSink for FileSink<'_, W> {
    fn peek(&self) -> Option<(Tile, bool)> {
        self.current.map(|tile| (tile, true))
    }

    fn skip(&mut self) {
        self.current = self.tiles.next();
    }

    fn put<T: Pod>(&mut self, values: &[T]) -> Result<()> {
        let Some(tile) = self.current else { return Ok(()) };
        self.current = self.tiles.next();
        if self.run.first().is_some_and(|first| first.origin[..3] != tile.origin[..3]) {
            self.flush()?;
        }
        let start = self.values.len();
        self.values.extend_from_slice(bytemuck::cast_slice(&values[..tile.len()]));
        if cfg!(target_endian = "big") {
            self.values[start..].chunks_exact_mut(self.element).for_each(<[u8]>::reverse);
        }
        self.run.push(tile);
        Ok(())
    }
}
