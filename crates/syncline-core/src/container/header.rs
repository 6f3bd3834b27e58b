//! The fixed header of a stream.

mod extents;

use twox_hash::XxHash3_64;

use crate::array::{ElementType, Shape};
use crate::bits::fields::Fields;
use crate::bound::{Bound, MOST_DISTANT, Pipeline, Resolved, computed_bound};
use crate::error::{Error, Result};
use crate::geometry::{Geometry, TileSize};
use crate::huffman::IndexKind;
use crate::quantize::mask::MAX_PATTERNS;
use crate::quantize::{Real, Stored};

use extents::{EXTENT_BYTES, read_extents, write_extents};

/// The format version that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u16 = 1;
/// Length of the header in bytes.
pub const HEADER_LEN: usize = 144;

const MAGIC: [u8; 8] = *b"\x89SYN\r\n\x1a\n";
/// Offset of the hash of all bytes of the header before it.
pub const HEADER_HASH_AT: usize = 128;
/// The largest code of a size of tiles.
const LARGEST_TILE_SIZE: u8 = TileSize::Block as u8;

/// The header of a stream: its contents, and the options that it was made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Element type.
    pub element_type: ElementType,
    /// Shape of the array.
    pub shape: Shape,
    /// Kind of the stream.
    pub pipeline: Pipeline,
    /// Requested kind of index.
    pub index: IndexKind,
    /// Requested bound.
    pub bound: Bound,
    /// Bound that holds: an absolute error, or the relative error of each value for [`Bound::PwRel`]; 0 if lossless.
    pub abs_bound: f64,
    /// Quantization step; 0 if lossless.
    pub step: f64,
    /// Smallest and largest finite value that is not fill, as computed with, if known: of integers of 64 bits, without
    /// `low`.
    pub range: Option<(f64, f64)>,
    /// The bits of the smallest integer of 64 bits, which they are computed relative to; 0 for other types.
    pub low: u64,
    /// Bit patterns of elements that are masked, at most four.
    pub patterns: Vec<u64>,
    /// Size of the tiles. Only quantized streams may have blocks.
    pub tile_size: TileSize,
    /// Number of tiles in a chunk.
    pub chunk_tiles: u32,
}

impl Header {
    /// Returns the header of a stream for a resolved bound.
    pub fn new(element_type: ElementType, shape: Shape, index: IndexKind, resolved: &Resolved) -> Self {
        Self {
            element_type,
            shape,
            pipeline: resolved.pipeline,
            index,
            bound: resolved.bound,
            abs_bound: resolved.abs_bound,
            step: resolved.step,
            range: resolved.range,
            low: resolved.low,
            patterns: resolved.patterns.iter().map(|p| p.bits).collect(),
            tile_size: TileSize::Small,
            chunk_tiles: Geometry::new(shape).tiles_per_chunk(),
        }
    }

    /// Returns how the elements of a stream with loss become values that are computed with.
    pub fn stored<T: Real>(&self) -> Stored<T> {
        Stored::new(self.element_type, self.low, &self.patterns)
    }

    /// Returns the smallest and largest finite value that is not fill, if known. Integers of more than 53 bits are
    /// rounded.
    pub fn value_range(&self) -> Option<(f64, f64)> {
        let is_wide = self.element_type.is_wide_integer();
        let low = if is_wide { self.element_type.number_of_bits(self.low) } else { 0.0 };
        self.range.map(|(first, last)| (low + first, low + last))
    }

    /// Returns the bound that is computed with, which is half more than the one that holds for integers.
    pub fn computed_bound(&self) -> f64 {
        computed_bound(self.element_type, self.abs_bound)
    }

    /// Sets the size of the tiles, and the default number of them in a chunk. Streams that are not quantized have small
    /// tiles in place of blocks.
    #[must_use]
    pub fn with_tile_size(self, tile_size: TileSize) -> Self {
        let tile_size = if self.pipeline == Pipeline::Quantized { tile_size } else { TileSize::Small };
        Self { tile_size, chunk_tiles: Geometry::with_tiles(self.shape, tile_size).tiles_per_chunk(), ..self }
    }

    /// Returns how the array is divided into tiles and chunks.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the number of tiles in a chunk is impossible.
    pub fn geometry(&self) -> Result<Geometry> {
        Geometry::of_stream(self.shape, self.tile_size, self.chunk_tiles)
            .map_err(|_| Error::corrupt("the header", "the number of tiles in a chunk is impossible"))
    }

    /// Returns the header as bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&(HEADER_LEN as u16).to_le_bytes());
        out.extend_from_slice(&[
            self.element_type as u8,
            self.shape.rank() as u8,
            self.pipeline as u8,
            self.index as u8,
            0,
            self.bound.code(),
            self.patterns.len() as u8,
            self.tile_size as u8,
        ]);
        out.extend_from_slice(&self.chunk_tiles.to_le_bytes());
        out.extend_from_slice(&write_extents(self.shape));
        let (low, high) = self.range.unwrap_or((f64::NAN, f64::NAN));
        let low = if self.element_type.is_wide_integer() { self.low } else { low.to_bits() };
        for value in [self.bound.value(), self.abs_bound, self.step] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&low.to_le_bytes());
        out.extend_from_slice(&high.to_le_bytes());
        for pattern in 0..MAX_PATTERNS {
            out.extend_from_slice(&self.patterns.get(pattern).copied().unwrap_or(0).to_le_bytes());
        }
        let hash = XxHash3_64::oneshot(&out);
        out.extend_from_slice(&hash.to_le_bytes());
        let mut bytes = [0; HEADER_LEN];
        bytes[..out.len()].copy_from_slice(&out);
        bytes
    }

    /// Returns the hash that the header ends with.
    pub fn hash(&self) -> u64 {
        let mut hash = [0; 8];
        hash.copy_from_slice(&self.to_bytes()[HEADER_HASH_AT..HEADER_HASH_AT + 8]);
        u64::from_le_bytes(hash)
    }

    /// Reads and checks the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Error::NotSyncline`], [`Error::UnsupportedVersion`], [`Error::Truncated`], or [`Error::Corrupt`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut fields = Fields::new(bytes, "the header");
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic.is_empty() {
            return Err(Error::NotSyncline("it is empty".into()));
        }
        if !MAGIC.starts_with(magic) {
            return Err(Error::NotSyncline(format!("it starts with the bytes {magic:02x?}")));
        }
        fields.take(MAGIC.len())?;
        let version = fields.u16()?;
        if version > FORMAT_VERSION {
            return Err(Error::UnsupportedVersion { found: version, supported: FORMAT_VERSION });
        }
        let bad = |what: &str| Error::corrupt("the header", what);
        let length = fields.u16()?;
        if version == 0 || length as usize != HEADER_LEN {
            return Err(bad("wrong version or length"));
        }
        let whole = bytes
            .get(..HEADER_LEN)
            .ok_or_else(|| Error::truncated("the header", HEADER_LEN as u64, bytes.len() as u64))?;
        let mut tail = Fields::new(&whole[HEADER_HASH_AT..], "the header");
        if tail.u64()? != XxHash3_64::oneshot(&whole[..HEADER_HASH_AT]) || tail.u64()? != 0 {
            return Err(bad("its checksum does not match"));
        }

        let element_type = ElementType::from_code(fields.u8()?).ok_or_else(|| bad("unknown element type"))?;
        let rank = fields.u8()? as usize;
        let pipeline = Pipeline::from_code(fields.u8()?).ok_or_else(|| bad("unknown pipeline"))?;
        let index = IndexKind::from_code(fields.u8()?).ok_or_else(|| bad("unknown index kind"))?;
        // What is not used is compared in the end.
        fields.u8()?;
        let bound_kind = fields.u8()?;
        let pattern_count = fields.u8()? as usize;
        let tile_size = fields.u8()?;
        let chunk_tiles = fields.u32()?;
        let extents: [u8; EXTENT_BYTES] = fields.array()?;
        let [requested, abs_bound, step] = [fields.f64()?, fields.f64()?, fields.f64()?];
        let (low_bits, high) = (fields.u64()?, fields.f64()?);
        let is_wide = element_type.is_wide_integer();
        let (low, low_bits) = if is_wide { (0.0, low_bits) } else { (f64::from_bits(low_bits), 0) };
        let mut patterns = [0; MAX_PATTERNS];
        for pattern in &mut patterns {
            *pattern = fields.u64()?;
        }

        let has_range = !(low.is_nan() || is_wide && high.is_nan());
        if has_range && !(low <= high && low.is_finite() && high.is_finite()) {
            return Err(bad("its value range is impossible"));
        }
        if pattern_count > MAX_PATTERNS || tile_size > LARGEST_TILE_SIZE {
            return Err(bad("a field is out of range"));
        }
        if pipeline != Pipeline::Lossless && !(step > 0.0 && step.is_finite()) {
            return Err(bad("it has a lossy pipeline without a step"));
        }
        if pipeline == Pipeline::LogQuantized && element_type.is_integer() {
            return Err(bad("it has a pipeline that integers do not have"));
        }
        if pipeline != Pipeline::Lossless && is_wide && !(has_range && high < MOST_DISTANT) {
            return Err(bad("it has a lossy pipeline for integers that are too far from each other"));
        }
        if tile_size != 0 && pipeline != Pipeline::Quantized {
            return Err(bad("it has blocks, which only quantized streams have"));
        }
        let bound = Bound::from_code(bound_kind, requested).ok_or_else(|| bad("unknown bound"))?;
        let shape = read_extents(&extents, rank).ok_or_else(|| bad("impossible shape"))?;
        let header = Self {
            element_type,
            shape,
            pipeline,
            index,
            tile_size: TileSize::ALL[usize::from(tile_size)],
            bound,
            abs_bound,
            step,
            range: has_range.then_some((low, high)),
            low: low_bits,
            patterns: patterns[..pattern_count].to_vec(),
            chunk_tiles,
        };
        // The chunk table is tied to the header by the hash, which is then the same for all that is known of the
        // header.
        if header.to_bytes() != whole {
            return Err(bad("a field that is not used is not 0, or an unknown range is not the NaN of the format"));
        }
        Ok(header)
    }
}
