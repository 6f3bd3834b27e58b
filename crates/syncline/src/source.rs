//! Sources of elements for the encoder: memory, or any [`ReadAt`].

use syncline_core::array::ElementType;
use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, Tile, Window};
use syncline_core::pipeline::ElementSource;

use crate::io::ReadAt;
use crate::ring::Ring;

/// Bytes of a gap between the rows of a box that is read, too: to read it takes less time than a call for each row.
const LARGEST_GAP: usize = 1 << 12;
/// Bytes of a box with its gaps.
const MOST_WITH_GAPS: usize = 1 << 22;

/// An array of little-endian elements that starts at a byte offset of a source.
pub(crate) struct ArraySource<'a, S: ?Sized> {
    source: &'a S,
    offset: u64,
    element_size: u64,
}

impl<'a, S: ReadAt + ?Sized> ArraySource<'a, S> {
    pub(crate) fn new(source: &'a S, offset: u64, element_type: ElementType) -> Self {
        Self { source, offset, element_size: element_type.size() as u64 }
    }

    /// Returns the bytes of an element.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "for GPUs"))]
    pub(crate) fn element_size(&self) -> u64 {
        self.element_size
    }

    /// Fills `out` with the bytes of the elements from number `first` on.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "for GPUs"))]
    pub(crate) fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        Ok(self.source.read_exact_at(out, self.offset + first * self.element_size)?)
    }

    /// Returns the bytes of elements `first..first + count`, read into `buffer` unless they are in memory.
    pub(crate) fn elements<'s>(&'s self, first: u64, count: u64, buffer: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let start = self.offset + first * self.element_size;
        let length = (count * self.element_size) as usize;
        if let Some(bytes) = self.source.in_memory() {
            let part = bytes.get(start as usize..start as usize + length);
            return part.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        buffer.resize(length, 0);
        self.source.read_exact_at(buffer, start)?;
        Ok(buffer)
    }
}

impl<S: ReadAt + ?Sized> ElementSource for ArraySource<'_, S> {
    fn window<'s>(&'s self, geometry: &Geometry, run: &[Tile], buffer: &'s mut Vec<u8>) -> Result<Window<'s>> {
        if self.source.in_memory().is_some() {
            let bytes = self.elements(0, geometry.elements(), buffer)?;
            return Ok(Window::raster(bytes, 0, geometry));
        }
        self.copied(geometry, run, buffer)
    }
}

impl<S: ReadAt + ?Sized> ArraySource<'_, S> {
    /// Copies the box of a run to the buffer.
    fn copied<'b>(&self, geometry: &Geometry, run: &[Tile], buffer: &'b mut Vec<u8>) -> Result<Window<'b>> {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let [planes, rows, _] = first.extent;
        let size = self.element_size as usize;
        let width = (last.origin[3] + last.extent[2] as u64 - first.origin[3]) as usize;
        let whole_row = geometry.dims()[3] as usize;
        // Each run has its own box, whose planes are read at once, with what is between its rows if that is not much.
        let with_gaps = (planes * rows * size).saturating_mul(whole_row);
        let is_whole = width == whole_row || ((whole_row - width) * size <= LARGEST_GAP && with_gaps <= MOST_WITH_GAPS);
        let (pitch, rows_at_once) = if is_whole { (whole_row, rows) } else { (width, 1) };
        buffer.resize(planes * rows * pitch * size, 0);
        for (i, part) in buffer.chunks_exact_mut(rows_at_once * pitch * size).enumerate() {
            let row = i * rows_at_once;
            let [b, z, y, x] = first.origin;
            let element = geometry.element([b, z + (row / rows) as u64, y + (row % rows) as u64, x]);
            let needed = ((rows_at_once - 1) * pitch + width) * size;
            self.source.read_exact_at(&mut part[..needed], self.offset + element * self.element_size)?;
        }
        let [b, z, y, x] = first.origin;
        let own = [0, (rows * pitch) as u64, pitch as u64];
        Ok(Window::new(buffer, b * own[0] + z * own[1] + y * own[2] + x, own))
    }
}

/// The elements of an array that are in a ring.
pub(crate) struct Part<'a> {
    ring: &'a Ring,
    element_type: ElementType,
}

impl<'a> Part<'a> {
    pub(crate) fn new(ring: &'a Ring, element_type: ElementType) -> Self {
        Self { ring, element_type }
    }
}

impl ElementSource for Part<'_> {
    fn window<'s>(&'s self, geometry: &Geometry, run: &[Tile], buffer: &'s mut Vec<u8>) -> Result<Window<'s>> {
        let size = self.element_type.size() as u64;
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let corner = std::array::from_fn(|a| last.origin[a] + if a == 0 { 0 } else { last.extent[a - 1] as u64 - 1 });
        let bytes = geometry.element(first.origin) * size..(geometry.element(corner) + 1) * size;
        match self.ring.contiguous(bytes) {
            Some((bytes, position)) => Ok(Window::raster(bytes, position / size, geometry)),
            None => ArraySource { source: self.ring, offset: 0, element_size: size }.copied(geometry, run, buffer),
        }
    }
}
