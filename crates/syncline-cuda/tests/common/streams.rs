//! Arrays, and the CPU's streams of them.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, ErrorSummary, Fill, PsnrGoal, Resolved, Scan, resolve};
use syncline_core::container::{Header, table_and_trailer};
use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, Tile, TileSize, Window};
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{CoderOptions, ElementSource, EncodeScratch, encode_chunk};

use super::Random;

/// An array in memory, as little-endian bytes.
pub struct Bytes<'a>(pub &'a [u8]);

impl ElementSource for Bytes<'_> {
    fn window<'s>(&'s self, geometry: &Geometry, _run: &[Tile], _buffer: &'s mut Vec<u8>) -> Result<Window<'s>> {
        Ok(Window::raster(self.0, 0, geometry))
    }
}

/// Options of a compression.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub bound: Bound,
    pub fill: Fill,
    pub rewritable: bool,
    pub tile_size: TileSize,
}

impl Options {
    pub fn new(bound: Bound) -> Self {
        Self { bound, fill: Fill::Auto, rewritable: false, tile_size: TileSize::Small }
    }

    pub fn with_tiles(self, tile_size: TileSize) -> Self {
        Self { tile_size, ..self }
    }
}

/// An array with its type and shape.
#[derive(Clone)]
pub struct Field {
    pub name: String,
    pub element: ElementType,
    pub shape: Shape,
    pub bytes: Vec<u8>,
}

/// Returns the bytes of the element next to a value, which the type has one for.
fn bytes_of(element: ElementType, value: f64) -> Vec<u8> {
    let value = if element.is_integer() { value.round_ties_even() } else { value };
    element.bits_of_number(value).unwrap().to_le_bytes()[..element.size()].to_vec()
}

impl Field {
    /// Creates a field from values of f64, which elements of the type are next to.
    pub fn new(name: &str, element: ElementType, extents: &[u64], value: impl Fn(u64) -> f64) -> Self {
        let shape = Shape::new(extents).unwrap();
        let bytes = (0..shape.len()).flat_map(|i| bytes_of(element, value(i))).collect();
        Self { name: format!("{name} {element} {shape}"), element, shape, bytes }
    }

    /// Creates a field of waves with noise.
    pub fn smooth(element: ElementType, extents: &[u64], noise: f64) -> Self {
        let row = extents.last().copied().unwrap_or(1).max(1);
        Self::new(&format!("smooth, noise {noise}"), element, extents, |i| {
            let (x, y) = ((i % row) as f64, (i / row) as f64);
            let random = Random(i).unit() - 0.5;
            (x * 0.05).sin() + (y * 0.013).cos() + noise * random
        })
    }

    /// Replaces some values of the field.
    pub fn with(mut self, name: &str, replaced: impl Fn(u64) -> Option<f64>) -> Self {
        let size = self.element.size();
        for i in 0..self.shape.len() {
            if let Some(value) = replaced(i) {
                self.bytes[i as usize * size..][..size].copy_from_slice(&bytes_of(self.element, value));
            }
        }
        self.name = format!("{}, {name}", self.name);
        self
    }

    /// Resolves a bound as the library does.
    pub fn resolve(&self, options: &Options) -> Resolved {
        resolve(&Scan::of(self.element, &self.bytes, options.bound, options.fill), options.rewritable).unwrap()
    }

    /// Returns the header of the stream for a resolved bound.
    pub fn header(&self, options: &Options, resolved: &Resolved) -> Header {
        let header = Header::new(self.element, self.shape, IndexKind::Symbol, resolved);
        header.with_tile_size(options.tile_size)
    }

    /// Returns the CPU's stream with this header, and its error summary.
    pub fn stream_with(&self, header: &Header) -> (Vec<u8>, ErrorSummary) {
        self.stream_by(header, &CoderOptions::default())
    }

    /// Returns [`Self::stream_with`] with other parameters of the coder.
    pub fn stream_by(&self, header: &Header, coder: &CoderOptions) -> (Vec<u8>, ErrorSummary) {
        let geometry = header.geometry().unwrap();
        let mut out = header.to_bytes().to_vec();
        let mut scratch = EncodeScratch::default();
        let (mut lengths, mut total) = (Vec::new(), ErrorSummary::default());
        for chunk in 0..geometry.chunks() {
            let start = out.len();
            let source = Bytes(&self.bytes);
            let summary = encode_chunk(header, &geometry, chunk, &source, coder, &mut scratch, &mut out).unwrap();
            total.squared_error += summary.squared_error;
            total.counted += summary.counted;
            lengths.push((out.len() - start) as u32);
        }
        out.extend(table_and_trailer(header, &lengths));
        (out, total)
    }

    /// Returns the CPU's stream.
    pub fn stream(&self, options: &Options) -> Vec<u8> {
        self.stream_of(options, &CoderOptions { interpolates: !options.rewritable, ..CoderOptions::default() })
    }

    /// Returns [`Self::stream`] with other parameters of the coder.
    pub fn stream_of(&self, options: &Options, coder: &CoderOptions) -> Vec<u8> {
        let mut resolved = self.resolve(options);
        let header = |resolved: &Resolved| self.header(options, resolved);
        let Bound::Psnr(target) = options.bound else {
            return self.stream_by(&header(&resolved), coder).0;
        };
        let goal = PsnrGoal::new(target, &resolved);
        let mut attempt = 0;
        loop {
            let (stream, summary) = self.stream_by(&header(&resolved), coder);
            match goal.next(self.element, &resolved, &summary, attempt) {
                None => return stream,
                Some(tightened) => (resolved, attempt) = (tightened, attempt + 1),
            }
        }
    }
}
