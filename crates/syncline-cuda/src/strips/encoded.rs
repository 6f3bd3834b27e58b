//! Memory for the tiles of a batch that are encoded.

use cudarc::driver::CudaViewMut;

use super::{CODEBOOK_ROOM, ChunkChoice, TileFacts};
use crate::device::Frame;
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};

/// The tiles of a batch of chunks, encoded.
#[derive(Debug)]
pub struct Encoded<'a> {
    /// How each chunk is coded.
    pub choices: CudaViewMut<'a, ChunkChoice>,
    /// The codebooks of each chunk, serialized, in [`CODEBOOK_ROOM`] bytes.
    pub codebooks: CudaViewMut<'a, u8>,
    /// What is known of each tile.
    pub facts: CudaViewMut<'a, TileFacts>,
    /// Bits of each strip, [`DeviceGeometry::strip_capacity`] entries for each tile.
    pub strip_bits: CudaViewMut<'a, u16>,
    /// Bits of the tiles of each chunk, in [`Self::chunk_words`] words.
    pub words: CudaViewMut<'a, u32>,
    /// Words that the tiles of each chunk took; more than there are if they had no room.
    pub taken: CudaViewMut<'a, u32>,
    /// Sum of squared errors of each tile, and the number of elements in it; `None` unless they are measured.
    pub errors: Option<(CudaViewMut<'a, u64>, CudaViewMut<'a, u32>)>,
    /// The number of tiles that the kernel of ordinary tiles left over, then these; `None` if all tiles took one
    /// kernel.
    pub listed: Option<CudaViewMut<'a, u32>>,
    /// Words for the bits of a chunk. A chunk whose tiles do not fit is longer than its elements.
    pub chunk_words: u64,
}

impl<'a> Encoded<'a> {
    /// Allocates memory for the chunks of a batch, of elements of `element_bytes` bytes.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory); [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn new(
        frame: &mut Frame<'a>,
        geometry: &DeviceGeometry,
        batch: &ChunkBatch,
        element_bytes: u32,
        measured: bool,
    ) -> Result<Self> {
        let (chunks, tiles) = (batch.chunks() as usize, batch.tiles() as usize);
        let chunk_words = Self::chunk_words(geometry, element_bytes);
        let errors = match measured {
            true => Some((frame.slice(tiles)?, frame.slice(tiles)?)),
            false => None,
        };
        Ok(Self {
            choices: frame.slice(chunks)?,
            codebooks: frame.slice(chunks * CODEBOOK_ROOM)?,
            facts: frame.slice(tiles)?,
            strip_bits: frame.slice(tiles * geometry.strip_capacity() as usize)?,
            words: frame.slice(chunks * chunk_words as usize)?,
            taken: frame.zeros(chunks)?,
            errors,
            listed: None,
            chunk_words,
        })
    }

    /// Returns the words for the bits of a chunk: as many as the elements have, a bit more for each element of tiles
    /// with verbatim values, and two words for each tile that are not whole.
    pub fn chunk_words(geometry: &DeviceGeometry, element_bytes: u32) -> u64 {
        let tiles = u64::from(geometry.chunk_tiles()).min(geometry.tiles());
        let tile = u64::from(geometry.tile_elements());
        tiles * (tile * u64::from(element_bytes) / 4 + tile.div_ceil(32) + 2)
    }
}
