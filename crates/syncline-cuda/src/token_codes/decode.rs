//! Decodes the token streams of a batch of records to codes: launchers of `kernels/token_codes/decode.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::ops::Range;

use cudarc::driver::{CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::MAX_CLASSES;
use syncline_core::tokens::{self, Mode};

use super::structs::{TokenMemory, TokenStream};
use crate::container::parse::{ParsedRecords, STATUS_TOKEN_STREAM};
use crate::container::{ParsedArgument, ParsedChunk};
use crate::device::{Arena, Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::decode::parse::parse_constants;
use crate::huffman::decode::structs::CodebookDescriptor;

declare_kernels! {
    /// The kernels of `kernels/token_codes/decode.cu`.
    pub(super) struct DecodeKernels in "token_codes/decode.cu" {
        /// Threads of a block that decodes: as many as there can be, because each block copies the tables of its chunk.
        const DECODE_THREADS: u32 = 1024;
        /// Words of each lane in shared memory.
        const WORDS_AHEAD: u32 = 16;
        with PARSING = parse_constants(2, 7, THREADS);
        with PARSE_BAD = STATUS_TOKEN_STREAM;
        with TOKEN_TABLE_BITS = TABLE_BITS;
        fn token_codes_parse(input: In<u8>, chunks: Out<ParsedChunk>, memory: TokenMemory);
        fn token_codes_clear(chunks: In<ParsedChunk>, slots: u32, group_log2: u32, codes: Out<i32>);
        fn token_codes_decode(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, first_chunk: u64, tiles_start: u64,
            tiles_end: u64, tile_groups: u32, memory: TokenMemory, chunks: Out<ParsedChunk>, codes: Out<i32>,
        );
    }
}

const THREADS: u32 = 256;
/// Blocks that clear the codes of a chunk.
const CLEARING_BLOCKS: u32 = 64;
/// Bits of a table lookup.
const TABLE_BITS: u32 = 12;
/// Shared memory of a block that decodes, in bytes: an entry of four bytes for each lookup and codebook, and the words
/// of its lanes.
const DECODE_BYTES: u32 = (MAX_CLASSES << TABLE_BITS << 2) as u32 + DECODE_THREADS * WORDS_AHEAD * 4;
/// Symbols that each codebook has room for.
const ALPHABET: usize = Mode::Wide.alphabet();

/// Decoded codes of a batch.
#[derive(Debug)]
pub(crate) struct DecodedCodes<'a> {
    /// Groups of [`group_len`](tokens::group_len) codes, `slots` for each chunk. Those of tiles that were not requested
    /// are unspecified.
    pub codes: CudaViewMut<'a, i32>,
    /// Maximum number of groups of a chunk.
    pub slots: u32,
}

/// Decodes the codes of chunks with token codebooks.
#[derive(Debug)]
pub(crate) struct TokenCodes {
    kernels: DecodeKernels,
    geometry: DeviceGeometry,
    /// log2 of the codes in a group.
    group_log2: u32,
    /// Maximum number of groups of a chunk and of a tile.
    slots: u32,
    tile_groups: u32,
}

impl TokenCodes {
    /// Creates a decoder for streams of arrays with this tiling.
    pub fn new(device: &Device, geometry: &Geometry) -> Result<Self> {
        let group_log2 = tokens::group_len(geometry.tile_size()).ilog2();
        let geometry = DeviceGeometry::new(geometry, group_log2 as u8);
        let slots = u32::try_from(geometry.chunk_slots()).map_err(|_| CudaError::invalid("chunks are too large"))?;
        let kernels = DecodeKernels::load(device)?;
        kernels.token_codes_decode.allow_shared_memory(DECODE_BYTES)?;
        Ok(Self { kernels, geometry, group_log2, slots, tile_groups: geometry.max_groups_of_tile().max(1) })
    }

    fn rank_stride(&self) -> u32 {
        self.slots.div_ceil(32)
    }

    /// Returns the bytes of arena memory that [`Self::decode`] takes for `chunks` chunks.
    pub fn workspace(&self, chunks: u32) -> usize {
        let (chunks, slots) = (chunks as usize, self.slots as usize);
        let codebooks = chunks * MAX_CLASSES;
        let slices = [
            Arena::bytes_for::<TokenStream>(chunks),
            Arena::bytes_for::<CodebookDescriptor>(codebooks),
            Arena::bytes_for::<u32>(codebooks << TABLE_BITS),
            Arena::bytes_for::<u16>(codebooks * ALPHABET),
            Arena::bytes_for::<u8>(codebooks * ALPHABET),
            Arena::bytes_for::<u32>(chunks * (slots + 1)),
            Arena::bytes_for::<u32>(chunks * self.rank_stride() as usize),
            Arena::bytes_for::<i32>((chunks * slots) << self.group_log2),
        ];
        slices.iter().sum()
    }

    /// Decodes the codes of the tiles `tiles` of the array that are in the batch and in chunks with token codebooks, on
    /// the frame's stream, without waiting for it. Errors in token streams are added to the status of the chunk, like
    /// errors of parsing.
    pub fn decode<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, u8>,
        batch: &ChunkBatch,
        tiles: Range<u64>,
        parsed: &mut ParsedRecords<'_>,
    ) -> Result<DecodedCodes<'a>> {
        let stream = frame.stream().clone();
        let (chunks, slots) = (batch.chunks() as usize, self.slots as usize);
        let codebooks = chunks * MAX_CLASSES;
        let mut streams = frame.slice::<TokenStream>(chunks)?;
        let mut descriptors = frame.slice::<CodebookDescriptor>(codebooks)?;
        let mut tables = frame.slice::<u32>(codebooks << TABLE_BITS)?;
        let mut symbols = frame.slice::<u16>(codebooks * ALPHABET)?;
        let mut marks = frame.slice::<u8>(codebooks * ALPHABET)?;
        let mut starts = frame.slice::<u32>(chunks * (slots + 1))?;
        let mut ranks = frame.slice::<u32>(chunks * self.rank_stride() as usize)?;
        let mut codes = frame.slice::<i32>((chunks * slots) << self.group_log2)?;
        let memory = TokenMemory {
            streams: streams.device_ptr_mut(&stream).0,
            codebooks: descriptors.device_ptr_mut(&stream).0,
            tables: tables.device_ptr_mut(&stream).0,
            symbols: symbols.device_ptr_mut(&stream).0,
            marks: marks.device_ptr_mut(&stream).0,
            starts: starts.device_ptr_mut(&stream).0,
            ranks: ranks.device_ptr_mut(&stream).0,
            slots: self.slots,
            rank_stride: self.rank_stride(),
        };
        let grid = Grid::new(batch.chunks(), THREADS).rows(MAX_CLASSES as u32 + 1);
        // SAFETY: for chunks whose status is 0, parsing has ensured that the section of codes lies in the input, and
        // that there are as many groups as tiles have, for which `slots` has room. The frame's memory lives until the
        // kernels have run.
        unsafe { launch!(self.kernels.token_codes_parse on &stream, grid; input, parsed.tiles.chunks_mut(), memory) }?;

        let grid = Grid::new(CLEARING_BLOCKS, THREADS).rows(batch.chunks());
        // SAFETY: a chunk has at most `slots` groups, for which `codes` has room.
        unsafe {
            launch!(self.kernels.token_codes_clear on &stream, grid; parsed.tiles.chunks_mut(), self.slots,
                self.group_log2, &mut codes)
        }?;

        let lanes = self.geometry.tiles().min(self.geometry.chunk_tiles().into()) as u32 * self.tile_groups;
        let argument = parsed.tiles.parsed(None).argument(&stream);
        let first_chunk = batch.first_chunk();
        let grid =
            Grid::new(lanes.div_ceil(DECODE_THREADS), DECODE_THREADS).rows(batch.chunks()).shared_memory(DECODE_BYTES);
        // SAFETY: the kernels before have validated what they describe for chunks whose status is 0. Words beyond the
        // last one of a stream are not read, and no group's lane writes more codes than a group has. `codes` has room
        // for `slots` groups of each chunk, which are cleared, and the shared memory for all tables of a chunk and for
        // the words of all lanes.
        unsafe {
            launch!(self.kernels.token_codes_decode on &stream, grid; input, self.geometry, argument, first_chunk,
                tiles.start, tiles.end, self.tile_groups, memory, parsed.tiles.chunks_mut(), &mut codes)
        }?;
        Ok(DecodedCodes { codes, slots: self.slots })
    }
}
