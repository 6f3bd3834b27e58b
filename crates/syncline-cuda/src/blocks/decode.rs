//! Decoding of chunks of blocks: launchers of `parse.cu`, `decode_codes.cu`, and `decode_values.cu` in
//! `kernels/blocks/`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut};
use syncline_core::array::ElementType;
use syncline_core::container::Header;
use syncline_core::contexts::MASKS;
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::blocks::mask_patterns;

use super::sizes::Sizes;
use super::structs::{BlockPlan, BlockTables, DECODE_TABLE_BYTES, NEAR_TABLES, ParsedBlocks};
use super::{GROUPS, SHARES};
use crate::container::parse::{Hashing, Records, device_records};
use crate::container::parsed::{PROBLEM_WORDS, Parsed};
use crate::container::structs::{DeviceHashing, DeviceRecords, ParsedArgument};
use crate::decode::structs::{LaunchArguments, Values};
use crate::decode::{Decoding, wanted_tiles};
use crate::device::{Arena, Device, Frame, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::quantize::{compiled_types, pattern_values};

declare_kernels! {
    /// The kernel of `kernels/blocks/parse.cu`.
    struct ParseKernels in "blocks/parse.cu", by (element_bytes: u32) {
        with ROLES = ROLES;
        with THREADS = PARSE_THREADS;
        fn blocks_parse(
            records: DeviceRecords, geometry: DeviceGeometry, batch: ChunkBatch, parsed: ParsedArgument,
            to: ParsedBlocks, hashing: DeviceHashing,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/decode_codes.cu`, which knows only the values that are computed with.
    struct CodeKernels in "blocks/decode_codes.cu", of (computed: ElementType) {
        with ELEMENT_TYPE = computed as u32;
        with ELEMENT_BYTES = computed.size() as u32;
        with THREADS = DECODE_THREADS;
        fn blocks_decode_codes(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, blocks: ParsedBlocks,
            arguments: LaunchArguments,
        );
    }
}

declare_kernels! {
    /// The kernels of `kernels/blocks/decode_values.cu`.
    struct ValueKernels in "blocks/decode_values.cu", of (element: ElementType) {
        with ELEMENT_TYPE = element as u32;
        with ELEMENT_BYTES = element.computed().size() as u32;
        with THREADS = DECODE_THREADS;
        with SHARES = SHARES;
        fn blocks_decode_coarse(
            geometry: DeviceGeometry, parsed: ParsedArgument, blocks: ParsedBlocks, values: Values,
            arguments: LaunchArguments, output: Out<u8> as "StoredBits *",
        );
        fn blocks_decode_finest(
            geometry: DeviceGeometry, parsed: ParsedArgument, blocks: ParsedBlocks, values: Values,
            arguments: LaunchArguments, group: u32, output: Out<u8> as "StoredBits *",
        );
        fn blocks_write_elements(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, blocks: ParsedBlocks, values: Values,
            arguments: LaunchArguments, output: Out<u8> as "StoredBits *",
        );
        fn blocks_write_verbatim(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, arguments: LaunchArguments,
            output: Out<u8> as "StoredBits *",
        );
    }
}

/// Blocks of threads that share the work of a chunk: one each for its record, plan, sizes of units, and anchors, and
/// two for verbatim values (`ROLE_ANCHORS` of the kernel).
const ROLES: u32 = 6;
/// Threads of a block of `blocks_parse`.
const PARSE_THREADS: u32 = 256;
/// Threads of a block of the kernels that decode: a warp for each unit that a part of a block can have.
const DECODE_THREADS: u32 = 256;
/// Shared memory for the tables of a chunk.
const NEAR_BYTES: u32 = (NEAR_TABLES * DECODE_TABLE_BYTES) as u32;

/// Decodes the blocks of one stream.
#[derive(Debug, Clone)]
pub struct BlockDecoder {
    parse: ParseKernels,
    codes: CodeKernels,
    elements: ValueKernels,
    tiling: Geometry,
    geometry: DeviceGeometry,
    values: Values,
    element: ElementType,
    sizes: Sizes,
    patterns: Vec<u64>,
}

/// The parsed records of a batch of chunks of blocks.
#[derive(Debug)]
pub struct ParsedBatch<'a> {
    parsed: Parsed<'a>,
    plans: CudaViewMut<'a, BlockPlan>,
    tables: CudaViewMut<'a, BlockTables>,
    first_units: CudaViewMut<'a, u32>,
    lanes_log2: CudaViewMut<'a, u8>,
    starts: CudaViewMut<'a, u32>,
    anchors: CudaViewMut<'a, i32>,
    anchor_codes: CudaViewMut<'a, i32>,
    elements: CudaViewMut<'a, u64>,
    masks: CudaViewMut<'a, u8>,
    has_masks: CudaViewMut<'a, u8>,
}

impl BlockDecoder {
    /// Loads the kernels for the stream of blocks with this header.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device, header: &Header, geometry: &Geometry) -> Result<Self> {
        let element = header.element_type;
        let codes = CodeKernels::load(device, element.computed())?;
        codes.blocks_decode_codes.allow_shared_memory(NEAR_BYTES)?;
        Ok(Self {
            parse: ParseKernels::load(device, element.size() as u32)?,
            codes,
            elements: ValueKernels::load(device, element)?,
            tiling: geometry.clone(),
            geometry: DeviceGeometry::new(geometry),
            values: Values::new(header),
            element,
            sizes: Sizes::new(geometry),
            patterns: mask_patterns(&pattern_values(header)),
        })
    }

    /// Returns the bytes of arena memory that parsing a batch takes.
    pub fn workspace(&self, batch: &ChunkBatch) -> usize {
        let [starts, anchors, elements] = self.sizes.of_batch(batch);
        let chunks = batch.chunks() as usize;
        Parsed::workspace(&self.geometry, batch)
            + Arena::bytes_for::<BlockPlan>(chunks)
            + Arena::bytes_for::<BlockTables>(chunks)
            + Arena::bytes_for::<u32>(batch.tiles() as usize)
            + Arena::bytes_for::<u8>(batch.tiles() as usize)
            + Arena::bytes_for::<u32>(starts)
            + 2 * Arena::bytes_for::<i32>(anchors)
            + Arena::bytes_for::<u64>(self.words(elements))
            + Arena::bytes_for::<u8>(elements)
            + Arena::bytes_for::<u8>(batch.tiles() as usize)
    }

    /// Returns the words of 64 bits that the values of so many elements take.
    fn words(&self, elements: usize) -> usize {
        (elements * self.element.computed().size()).div_ceil(8)
    }

    /// Parses the records of a batch on the frame's stream, without waiting for it, as
    /// [`RecordParser::parse`](crate::container::parse::RecordParser::parse) does for chunks of tiles.
    ///
    /// # Errors
    /// Those of that function.
    pub fn parse<'a>(
        &self,
        frame: &mut Frame<'a>,
        records: Records<'_>,
        header: &Header,
        batch: &ChunkBatch,
        problems: CudaViewMut<'a, u32>,
        hashing: Option<Hashing<'_, '_>>,
    ) -> Result<ParsedBatch<'a>> {
        let stream = frame.stream().clone();
        let chunks = batch.chunks() as usize;
        let device_records = device_records(&records, chunks, &stream)?;
        if problems.len() != chunks * PROBLEM_WORDS {
            return Err(CudaError::invalid("every chunk needs words for its problems"));
        }
        let [starts, anchors, elements] = self.sizes.of_batch(batch);
        let mut found = ParsedBatch {
            parsed: Parsed::new(frame, header, &self.geometry, batch, problems)?,
            plans: frame.slice(chunks)?,
            tables: frame.slice(chunks)?,
            first_units: frame.slice(batch.tiles() as usize)?,
            lanes_log2: frame.slice(batch.tiles() as usize)?,
            starts: frame.slice(starts)?,
            anchors: frame.slice(anchors)?,
            anchor_codes: frame.slice(anchors)?,
            elements: frame.slice(self.words(elements))?,
            masks: frame.slice(elements)?,
            has_masks: frame.slice(batch.tiles() as usize)?,
        };
        let (parsed, blocks) = self.arguments(&mut found, &stream);
        let hashing = hashing.map(|hashing| hashing.argument(frame, chunks)).transpose()?.unwrap_or_default();
        let grid = Grid::new(batch.chunks(), PARSE_THREADS).rows(ROLES + hashing.parts);
        // SAFETY: the results were allocated for the batch's chunks and tiles from the frame, so that they live as long
        // as the returned value. Records are read only within the input. `Hashing::argument` allocated the sums of
        // hashes and checked the sizes of progress and results.
        unsafe {
            launch!(self.parse.blocks_parse on &stream, grid; device_records, self.geometry, *batch, parsed, blocks,
                hashing)
        }?;
        Ok(found)
    }

    fn arguments(&self, found: &mut ParsedBatch<'_>, stream: &CudaStream) -> (ParsedArgument, ParsedBlocks) {
        let blocks = ParsedBlocks {
            plans: found.plans.device_ptr_mut(stream).0,
            tables: found.tables.device_ptr_mut(stream).0,
            first_units: found.first_units.device_ptr_mut(stream).0,
            lanes_log2: found.lanes_log2.device_ptr_mut(stream).0,
            starts: found.starts.device_ptr_mut(stream).0,
            anchors: found.anchors.device_ptr_mut(stream).0,
            anchor_codes: found.anchor_codes.device_ptr_mut(stream).0,
            elements: found.elements.device_ptr_mut(stream).0,
            masks: found.masks.device_ptr_mut(stream).0,
            has_masks: found.has_masks.device_ptr_mut(stream).0,
            patterns: std::array::from_fn::<_, MASKS, _>(|i| self.patterns.get(i).copied().unwrap_or(0)),
            pattern_count: self.patterns.len() as u32,
            starts_stride: self.sizes.starts as u32,
            anchors_stride: self.sizes.anchors as u32,
            elements_stride: self.sizes.elements as u32,
        };
        (found.parsed.argument(stream), blocks)
    }

    /// Decodes a parsed batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the output does not hold the elements of the tiles, or if input or output is
    /// misaligned; [`CudaError::Driver`]. Damage sets a bit of the chunk's problems.
    pub fn decode(&self, frame: &Frame<'_>, found: &mut ParsedBatch<'_>, work: Decoding<'_, '_>) -> Result<()> {
        let stream = frame.stream().clone();
        let tiles = wanted_tiles(&self.tiling, self.element.size() as u64, &work, &stream)?;
        if tiles.is_empty() {
            return Ok(());
        }
        let Decoding { input, batch, output, first_element, .. } = work;
        let (parsed, blocks) = self.arguments(found, &stream);
        let arguments = LaunchArguments {
            first_tile: batch.first_tile(),
            tiles_start: tiles.start,
            tiles_end: tiles.end,
            first_element,
            tiles: batch.tiles(),
            only_listed: 0,
            vectors: 0,
            unused: 0,
        };
        let grid = Grid::new(batch.tiles(), DECODE_THREADS).early(true);
        let codes = grid.shared_memory(NEAR_BYTES);
        let shared = Grid::new(batch.tiles() * SHARES, DECODE_THREADS).early(true);
        let Self { elements, geometry, values, .. } = self;
        // SAFETY: parsing allocated the results for the batch and validated what they say; `wanted_tiles` has ensured
        // that the output contains the elements of the tiles.
        unsafe {
            launch!(self.codes.blocks_decode_codes on &stream, codes; input, *geometry, parsed, blocks, arguments)?;
            launch!(elements.blocks_decode_coarse on &stream, grid; *geometry, parsed, blocks, *values, arguments,
                output)?;
            for group in 0..GROUPS {
                launch!(elements.blocks_decode_finest on &stream, shared; *geometry, parsed, blocks, *values, arguments,
                    group, output)?;
            }
            launch!(elements.blocks_write_elements on &stream, shared; input, *geometry, parsed, blocks, *values,
                arguments, output)?;
            launch!(elements.blocks_write_verbatim on &stream, grid; input, *geometry, parsed, *values, arguments,
                output)
        }
    }
}

pub(super) fn specializations() -> Vec<Specialization> {
    let mut all: Vec<_> = [1, 2, 4, 8].map(ParseKernels::specialization).into();
    all.extend([ElementType::F32, ElementType::F64].map(CodeKernels::specialization));
    all.extend(compiled_types().map(ValueKernels::specialization));
    all
}
