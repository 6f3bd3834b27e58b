//! cuSZ with GPULZ before its Huffman coder: Zhang, Tian, Di, Yu, Swany, Tao, Cappello, "GPULZ: Optimizing LZSS
//! Lossless Compression for Multi-byte Data on Modern GPUs", ICS 2023 (Section 4.5, Table 3).
//!
//! A composition of Syncline's stages. [`Quantization`] quantizes values and predicts the integers by the Lorenzo
//! predictor of all axes, in tiles with zeros around them, as cuSZ does; a residual becomes a code of 16 bits. The
//! codes, in the order of the array, become a lossless stream of LZSS tokens with Huffman coding: by [`compress_codes`]
//! on the CPU, or by [`syncline_cuda::lossless`] with [`OPTIONS`] on a GPU, with the same bytes.
//!
//! In contrast to the paper, Huffman streams have an index, and the bound is kept exactly: values that quantization
//! misses are stored.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Resolved;
use syncline_core::container::{HEADER_LEN, Header, read_outline, table_and_trailer};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::{Geometry, MAX_TILE_ELEMENTS, Tile, Window};
use syncline_core::huffman::IndexKind;
use syncline_core::mem::scatter::Scatter;
use syncline_core::pipeline::{
    Coder, CoderOptions, DecodeScratch, ElementSource, EncodeScratch, decode_chunk, encode_chunk,
};
use syncline_core::predict::orders;
use syncline_core::quantize::Linear;
use syncline_core::quantize::mask::TileMask;

/// Residuals with a magnitude below this have a code; code 0 stands for all others.
pub const RADIUS: i32 = 512;

/// How codes are compressed: with the window of 128 symbols.
pub const OPTIONS: CoderOptions =
    CoderOptions { coder: Coder::LzssHuffman, symbol: None, level: 3, interpolates: false };

/// The Lorenzo predictor of all axes.
const LORENZO: u8 = 7;

/// What is stored besides the codes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rare {
    /// The residuals of code 0, in the order of tiles.
    pub residuals: Vec<i32>,
    /// The values that quantization misses, by their positions in the array.
    pub exact: Vec<(u64, f32)>,
}

impl Rare {
    /// Returns the bytes that they take.
    pub fn stored_bytes(&self) -> u64 {
        (size_of_val(self.residuals.as_slice()) + self.exact.len() * (size_of::<u64>() + size_of::<f32>())) as u64
    }
}

/// Quantizes and predicts the values of an array within an absolute bound.
#[derive(Clone, Debug)]
pub struct Quantization {
    geometry: Geometry,
    linear: Linear<f32>,
}

impl Quantization {
    /// Returns the quantization of an array of this shape, in which errors are below `bound`.
    pub fn new(shape: Shape, bound: f64) -> Self {
        Self { geometry: Geometry::new(shape), linear: Linear::new(2.0 * bound, bound) }
    }

    /// Returns the codes of the array's values, in C order, and what they cannot express.
    ///
    /// # Panics
    /// There are fewer values than the array has.
    pub fn codes(&self, values: &[f32]) -> (Vec<u16>, Rare) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let window = Window::raster(&bytes, 0, &self.geometry);
        let (mut codes, mut rare) = (vec![0; values.len()], Rare::default());
        let (mut x, mut q) = ([0.0f32; MAX_TILE_ELEMENTS], [0i32; MAX_TILE_ELEMENTS]);
        for tile in self.geometry.range(0..self.geometry.tiles()) {
            let (x, q) = (&mut x[..tile.len()], &mut q[..tile.len()]);
            window.gather(&tile, x);
            let mut missed = TileMask::default();
            if self.linear.quantize_tile(x, q, &mut missed) {
                let position = |i: usize| self.positions(&tile).nth(i).unwrap_or_default();
                rare.exact.extend(missed.ones().map(|i| (position(i), x[i])));
            }
            orders::difference(q, tile.extent, LORENZO);
            for (position, &residual) in self.positions(&tile).zip(q.iter()) {
                codes[position as usize] = code(residual);
                if codes[position as usize] == 0 {
                    rare.residuals.push(residual);
                }
            }
        }
        (codes, rare)
    }

    /// Returns the values of codes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the codes, or what they cannot express, are not those of an array of this shape.
    pub fn values(&self, codes: &[u16], rare: &Rare) -> Result<Vec<f32>> {
        let bad = |what: &str| Error::corrupt("the codes", what);
        if codes.len() as u64 != self.geometry.elements() {
            return Err(bad("there are not as many as the array has elements"));
        }
        let mut values = vec![0.0; codes.len()];
        let mut residuals = rare.residuals.iter();
        let (mut x, mut q) = ([0.0f32; MAX_TILE_ELEMENTS], [0i32; MAX_TILE_ELEMENTS]);
        for tile in self.geometry.range(0..self.geometry.tiles()) {
            let (x, q) = (&mut x[..tile.len()], &mut q[..tile.len()]);
            for (position, residual) in self.positions(&tile).zip(q.iter_mut()) {
                *residual = match codes[position as usize] {
                    0 => *residuals.next().ok_or_else(|| bad("there are fewer residuals than codes of 0"))?,
                    code => i32::from(code) - RADIUS,
                };
            }
            orders::restore(q, tile.extent, LORENZO, 0);
            self.linear.dequantize(q, x);
            self.positions(&tile).zip(x.iter()).for_each(|(position, &value)| values[position as usize] = value);
        }
        for &(position, value) in &rare.exact {
            *values.get_mut(position as usize).ok_or_else(|| bad("a value lies outside of the array"))? = value;
        }
        match residuals.next() {
            None => Ok(values),
            Some(_) => Err(bad("there are more residuals than codes of 0")),
        }
    }

    /// Returns the positions of a tile's elements in the array.
    fn positions(&self, tile: &Tile) -> impl Iterator<Item = u64> {
        let [b, z, y, x] = tile.origin;
        let [depth, height, width] = tile.extent.map(|extent| extent as u64);
        let geometry = &self.geometry;
        (z..z + depth).flat_map(move |z| {
            (y..y + height).flat_map(move |y| (x..x + width).map(move |x| geometry.element([b, z, y, x])))
        })
    }
}

fn code(residual: i32) -> u16 {
    if residual.unsigned_abs() < RADIUS.unsigned_abs() { (residual + RADIUS) as u16 } else { 0 }
}

/// Codes in host memory.
struct Codes<'a>(&'a [u8]);

impl ElementSource for Codes<'_> {
    fn window<'s>(&'s self, geometry: &Geometry, _: &[Tile], _: &'s mut Vec<u8>) -> Result<Window<'s>> {
        Ok(Window::raster(self.0, 0, geometry))
    }
}

/// Returns the lossless stream of codes, made on one thread.
///
/// # Errors
/// [`Error::InvalidArgument`] if there are more codes than an array can have elements.
pub fn compress_codes(codes: &[u16]) -> Result<Vec<u8>> {
    let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    let shape = Shape::new(&[codes.len() as u64])?;
    let header = Header::new(ElementType::U16, shape, IndexKind::Symbol, &Resolved::lossless());
    let geometry = header.geometry()?;
    let (mut stream, mut scratch) = (header.to_bytes().to_vec(), EncodeScratch::default());
    let mut lengths = Vec::new();
    for chunk in 0..geometry.chunks() {
        let start = stream.len();
        encode_chunk(&header, &geometry, chunk, &Codes(&bytes), &OPTIONS, &mut scratch, &mut stream)?;
        lengths.push((stream.len() - start) as u32);
    }
    debug_assert_eq!(stream.len(), HEADER_LEN + lengths.iter().map(|&length| length as usize).sum::<usize>());
    stream.extend(table_and_trailer(&header, &lengths));
    Ok(stream)
}

/// Returns the codes of a stream that [`compress_codes`] or a GPU made, on one thread.
///
/// # Errors
/// Those of a damaged stream, or of one that is not of codes.
pub fn decompress_codes(stream: &[u8]) -> Result<Vec<u16>> {
    let read = |offset: u64, length: usize| Ok(stream[offset as usize..][..length].to_vec());
    let (header, geometry, table) = read_outline(stream.len() as u64, read)?;
    if header.element_type != ElementType::U16 {
        return Err(Error::invalid("the stream is not one of 16-bit codes"));
    }
    let mut bytes = vec![0; geometry.elements() as usize * size_of::<u16>()];
    let mut scratch = DecodeScratch::default();
    for mut sink in Scatter::new(&mut bytes, &geometry, geometry.whole(), size_of::<u16>()) {
        let chunk = sink.chunk();
        let (offset, length) = table.record(chunk);
        let record = &stream[offset as usize..][..length];
        decode_chunk(&header, &geometry, chunk, record, &mut scratch, &mut sink)?;
    }
    Ok(bytes.as_chunks().0.iter().map(|&code| u16::from_le_bytes(code)).collect())
}
