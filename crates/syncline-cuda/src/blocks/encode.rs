//! Encoding of chunks of blocks: from elements to records but for their hashes.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::array::ElementType;
use syncline_core::container::Header;
use syncline_core::contexts::{CONTEXTS, SYMBOLS};
use syncline_core::geometry::Geometry;

use super::sizes::Sizes;
use super::structs::{
    BlockConsidered, BlockPlace, BlockPlan, BlockRecord, BlockSamples, BlockUnit, EncodeTables, EncodedBlocks,
    FINALISTS, INTERVALS, NEAR_TABLES, SEGMENT_EVENTS_BYTES, TABLE_ROOM, TRIED_PLANS,
};
use super::{GROUPS, SHARES};
use crate::container::progress::Progress;
use crate::container::records::longest_record;
use crate::container::structs::{ErrorSums, RecordPlaces};
use crate::device::{Device, Frame, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab, element_range};
use crate::quantize::compiled_types;
use crate::quantize::structs::Step;

declare_kernels! {
    /// The kernel of `kernels/blocks/sample.cu`.
    struct SampleKernels in "blocks/sample.cu", of (element: ElementType) {
        with ELEMENT_TYPE = element as u32;
        with ELEMENT_BYTES = element.computed().size() as u32;
        with THREADS = QUANTIZE_THREADS;
        fn blocks_sample(
            geometry: DeviceGeometry, batch: ChunkBatch, slab: In<u8> as "const Stored *", first_element: u64,
            quantizer: In<Step>, interpolates: bool, round: u32, to: EncodedBlocks, samples: BlockSamples,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/choose.cu`.
    struct ChooseKernels in "blocks/choose.cu" {
        with THREADS = CHOOSE_THREADS;
        fn blocks_choose(
            geometry: DeviceGeometry, batch: ChunkBatch, quantizer: In<Step>, interpolates: bool, round: u32,
            to: EncodedBlocks, samples: BlockSamples,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/quantize.cu`.
    struct QuantizeKernels in "blocks/quantize.cu", of (element: ElementType), by (measured: bool) {
        with ELEMENT_TYPE = element as u32;
        with ELEMENT_BYTES = element.computed().size() as u32;
        with THREADS = QUANTIZE_THREADS;
        with SHARES = SHARES;
        fn blocks_count_zeros(
            geometry: DeviceGeometry, batch: ChunkBatch, slab: In<u8> as "const Stored *", first_element: u64,
            quantizer: In<Step>, to: EncodedBlocks,
        );
        fn blocks_quantize_coarse(
            geometry: DeviceGeometry, batch: ChunkBatch, slab: In<u8> as "const Stored *", first_element: u64,
            quantizer: In<Step>, to: EncodedBlocks,
        );
        fn blocks_quantize_finest(
            geometry: DeviceGeometry, batch: ChunkBatch, slab: In<u8> as "const Stored *", first_element: u64,
            quantizer: In<Step>, group: u32, to: EncodedBlocks,
        );
        fn blocks_count(
            geometry: DeviceGeometry, batch: ChunkBatch, slab: In<u8> as "const Stored *", first_element: u64,
            quantizer: In<Step>, to: EncodedBlocks,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/tables.cu`.
    struct TableKernels in "blocks/tables.cu" {
        with THREADS = TABLE_THREADS;
        fn blocks_tables(to: EncodedBlocks);
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/encode.cu`.
    struct EncodeKernels in "blocks/encode.cu" {
        with THREADS = ENCODE_THREADS;
        fn blocks_encode(geometry: DeviceGeometry, batch: ChunkBatch, to: EncodedBlocks);
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/layout.cu`.
    struct LayoutKernels in "blocks/layout.cu", by (element_bytes: u32) {
        with THREADS = LAYOUT_THREADS;
        fn blocks_layout(
            geometry: DeviceGeometry, batch: ChunkBatch, from: EncodedBlocks, records: Out<BlockRecord>,
            places: RecordPlaces,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/write.cu`.
    struct WriteKernels in "blocks/write.cu", by (element_bytes: u32) {
        with THREADS = WRITE_THREADS;
        fn blocks_write(
            geometry: DeviceGeometry, batch: ChunkBatch, from: EncodedBlocks, records: In<BlockRecord>,
            slab: In<u8> as "const Bits *", first_element: u64, blocks_each: u32, output: Out<u8>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/blocks/pieces.cu`.
    struct PieceKernels in "blocks/pieces.cu" {
        with THREADS = WRITE_THREADS;
        fn blocks_pieces(records: In<BlockRecord>, blocks_each: u32, output: Out<u8>);
    }
}

/// Threads of the blocks of each kernel.
const QUANTIZE_THREADS: u32 = 256;
const CHOOSE_THREADS: u32 = 32 * PLANS_OF_ROUNDS[0];
const TABLE_THREADS: u32 = 128;
/// A warp for each unit of a part.
const ENCODE_THREADS: u32 = 256;
/// Shared memory for the tables of a chunk, and for a segment of each warp.
const ENCODE_BYTES: u32 = (NEAR_TABLES * INTERVALS * 8) as u32 + ENCODE_THREADS / 32 * SEGMENT_EVENTS_BYTES as u32;
const LAYOUT_THREADS: u32 = 256;
const WRITE_THREADS: u32 = 256;
/// Pieces of the sample of a chunk that a round codes, and plans that each of the three rounds considers
/// (`kernels/blocks/sample.cuh`).
const PIECES_OF_ROUND: u32 = 2;
const PLANS_OF_ROUNDS: [u32; 3] = [8, TRIED_PLANS as u32 - 8, FINALISTS as u32];
/// Most elements of a piece.
const PIECE_ELEMENTS: usize = 1 << 15;
/// Blocks of threads that write a record.
const WRITERS: u32 = 16;

/// The kernels of one type of elements.
#[derive(Debug)]
struct Kernels {
    sample: SampleKernels,
    choose: ChooseKernels,
    quantize: QuantizeKernels,
    tables: TableKernels,
    encode: EncodeKernels,
    layout: LayoutKernels,
    write: WriteKernels,
    pieces: PieceKernels,
}

/// Encodes the blocks of arrays with one kind of header.
#[derive(Debug)]
pub struct BlockEncoder {
    kernels: Kernels,
    tiling: Geometry,
    geometry: DeviceGeometry,
    element: ElementType,
    measured: bool,
    interpolates: bool,
    sizes: Sizes,
}

/// Memory for the samples of a batch.
struct Samples<'a> {
    bits: CudaViewMut<'a, u32>,
    anchors: CudaViewMut<'a, i32>,
    counts: CudaViewMut<'a, u32>,
    bits_of_plans: CudaViewMut<'a, u64>,
    considered: CudaViewMut<'a, BlockConsidered>,
}

/// The chunks of a batch, coded and laid out.
#[derive(Debug)]
pub struct EncodedBatch<'a> {
    plans: CudaViewMut<'a, BlockPlan>,
    values: CudaViewMut<'a, u64>,
    codes: CudaViewMut<'a, i32>,
    missed: CudaViewMut<'a, u32>,
    anchors: CudaViewMut<'a, i32>,
    counts: CudaViewMut<'a, u32>,
    zeros: CudaViewMut<'a, u32>,
    verbatim: CudaViewMut<'a, u32>,
    events: CudaViewMut<'a, u32>,
    errors: Option<CudaViewMut<'a, ErrorSums>>,
    table_words: CudaViewMut<'a, u32>,
    encode_tables: CudaViewMut<'a, EncodeTables>,
    units: CudaViewMut<'a, BlockUnit>,
    words: CudaViewMut<'a, u32>,
    places: CudaViewMut<'a, BlockPlace>,
    heads: CudaViewMut<'a, u32>,
    records: CudaViewMut<'a, BlockRecord>,
    starts: CudaViewMut<'a, u64>,
}

/// Where the small sections of a chunk are in its head, in words.
struct Head {
    sizes_at: usize,
    words: usize,
}

impl Head {
    fn new(sizes: &Sizes, tiles: usize) -> Self {
        // An anchor takes at most 66 bits, a unit 32, and the lanes of a block 4; a word more each, for the rest.
        let anchors = (tiles * sizes.anchors * 66).div_ceil(32) + 1;
        let units = tiles * sizes.units + tiles.div_ceil(8) + 3;
        Self { sizes_at: anchors, words: anchors + units }
    }
}

impl BlockEncoder {
    /// Loads the kernels for streams of blocks with such a header. Errors are summed up only if `measured`, and values
    /// are not multiples of the step only if `interpolates`.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(
        device: &Device,
        header: &Header,
        geometry: &Geometry,
        (measured, interpolates): (bool, bool),
    ) -> Result<Self> {
        let element = header.element_type;
        let element_bytes = element.size() as u32;
        let encode = EncodeKernels::load(device)?;
        encode.blocks_encode.allow_shared_memory(ENCODE_BYTES)?;
        Ok(Self {
            kernels: Kernels {
                sample: SampleKernels::load(device, element)?,
                choose: ChooseKernels::load(device)?,
                quantize: QuantizeKernels::load(device, element, measured)?,
                tables: TableKernels::load(device)?,
                encode,
                layout: LayoutKernels::load(device, element_bytes)?,
                write: WriteKernels::load(device, element_bytes)?,
                pieces: PieceKernels::load(device)?,
            },
            tiling: geometry.clone(),
            geometry: DeviceGeometry::new(geometry),
            element,
            measured,
            interpolates,
            sizes: Sizes::new(geometry),
        })
    }

    /// Returns the most bytes of a record.
    pub(crate) fn longest_record(&self) -> u32 {
        longest_record(&self.geometry, self.element.size() as u32)
    }

    /// Encodes the blocks of a batch, which is not empty, and writes their records but for the hashes behind those of
    /// earlier batches, on the frame's stream, without waiting for it. `first` chunks of the stream are in these. The
    /// slab holds the elements of the batch, as the caller has checked.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the progress has not as many chunks; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn encode<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        (batch, first): (&ChunkBatch, u64),
        constants: &CudaView<'_, u64>,
        progress: &mut Progress,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<EncodedBatch<'a>> {
        if progress.chunks() < first + u64::from(batch.chunks()) {
            return Err(CudaError::invalid("a batch has more chunks than the progress of the stream"));
        }
        let stream = frame.stream().clone();
        let mut made = self.allocate(frame, batch)?;
        let places = progress.places(first, output.len() as u64, &mut made.starts);
        let to = self.argument(&mut made, &stream);
        let (blocks, chunks, geometry) = (batch.tiles(), batch.chunks(), self.geometry);
        let first_element = slab.first_element;
        let mut samples = self.samples(frame, batch)?;
        let sample_argument = self.samples_argument(&mut samples, &stream);
        let interpolates = self.interpolates;
        let Kernels { sample, choose, quantize, tables, encode, layout, write, pieces } = &self.kernels;
        // SAFETY: `allocate` has an entry for each chunk, block, and mask of the batch, and room for the most that its
        // elements give; the slab has its elements. Each kernel waits for the one before it.
        unsafe {
            let step: CudaView<'_, Step> =
                constants.transmute(1).ok_or_else(|| CudaError::invalid("the constants are too short"))?;
            for (round, plans) in (0..).zip(PLANS_OF_ROUNDS) {
                launch!(sample.blocks_sample on &stream, Grid::new(chunks * PIECES_OF_ROUND * plans, QUANTIZE_THREADS);
                    geometry, *batch, &slab.bytes, first_element, &step, interpolates, round, to, sample_argument)?;
                launch!(choose.blocks_choose on &stream, Grid::new(chunks, CHOOSE_THREADS);
                    geometry, *batch, &step, interpolates, round, to, sample_argument)?;
            }
            let shared = Grid::new(blocks * SHARES, QUANTIZE_THREADS).early(true);
            launch!(quantize.blocks_count_zeros on &stream, shared; geometry, *batch, &slab.bytes, first_element,
                &step, to)?;
            launch!(quantize.blocks_quantize_coarse on &stream, Grid::new(blocks, QUANTIZE_THREADS).early(true);
                geometry, *batch, &slab.bytes, first_element, &step, to)?;
            for group in 0..GROUPS {
                launch!(quantize.blocks_quantize_finest on &stream, shared; geometry, *batch, &slab.bytes,
                    first_element, &step, group, to)?;
            }
            launch!(quantize.blocks_count on &stream, shared; geometry, *batch, &slab.bytes, first_element, &step, to)?;
            launch!(tables.blocks_tables on &stream, Grid::new(chunks, TABLE_THREADS).early(true); to)?;
            let by_blocks = Grid::new(blocks, ENCODE_THREADS).early(true).shared_memory(ENCODE_BYTES);
            launch!(encode.blocks_encode on &stream, by_blocks; geometry, *batch, to)?;
            launch!(layout.blocks_layout on &stream, Grid::new(chunks, LAYOUT_THREADS).early(true);
                geometry, *batch, to, &mut made.records, places)?;
            let records = made.records.as_view();
            launch!(write.blocks_write on &stream, Grid::new(chunks * WRITERS, WRITE_THREADS).early(true);
                geometry, *batch, to, &records, &slab.bytes, first_element, WRITERS, output)?;
            launch!(pieces.blocks_pieces on &stream, Grid::new(chunks * WRITERS, WRITE_THREADS).early(true);
                &records, WRITERS, output)?;
        }
        Ok(made)
    }

    fn samples<'a>(&self, frame: &mut Frame<'a>, batch: &ChunkBatch) -> Result<Samples<'a>> {
        let chunks = batch.chunks() as usize;
        let jobs = chunks * (PIECES_OF_ROUND * PLANS_OF_ROUNDS[0]) as usize;
        let plans = chunks * PLANS_OF_ROUNDS.iter().sum::<u32>() as usize;
        Ok(Samples {
            bits: frame.slice(jobs * self.piece_elements().div_ceil(32))?,
            anchors: frame.slice(jobs * self.sizes.anchors)?,
            counts: frame.zeros(plans * CONTEXTS * SYMBOLS)?,
            bits_of_plans: frame.zeros(plans)?,
            considered: frame.slice(chunks)?,
        })
    }

    fn samples_argument(&self, samples: &mut Samples<'_>, stream: &Arc<CudaStream>) -> BlockSamples {
        BlockSamples {
            bits: samples.bits.device_ptr_mut(stream).0,
            anchors: samples.anchors.device_ptr_mut(stream).0,
            counts: samples.counts.device_ptr_mut(stream).0,
            bits_of_plans: samples.bits_of_plans.device_ptr_mut(stream).0,
            considered: samples.considered.device_ptr_mut(stream).0,
            piece_elements: self.piece_elements() as u32,
            piece_words: self.piece_elements().div_ceil(32) as u32,
            anchors_stride: self.sizes.anchors as u32,
            unused: 0,
        }
    }

    /// Returns the most elements of a piece.
    fn piece_elements(&self) -> usize {
        PIECE_ELEMENTS.min(self.tiling.unclipped_len() as usize)
    }

    fn allocate<'a>(&self, frame: &mut Frame<'a>, batch: &ChunkBatch) -> Result<EncodedBatch<'a>> {
        let range = element_range(&self.tiling, batch);
        let elements = (range.end - range.start) as usize;
        // Samples are coded before, in the same memory.
        let of_samples = (batch.chunks() * PIECES_OF_ROUND * PLANS_OF_ROUNDS[0]) as usize * self.piece_elements();
        let coded = elements.max(of_samples);
        let (chunks, blocks) = (batch.chunks() as usize, batch.tiles() as usize);
        let Sizes { anchors, elements: block, units, .. } = self.sizes;
        let bitmap_words = block.div_ceil(32);
        let head = Head::new(&self.sizes, self.tiles_of_chunk());
        let words = elements + elements / 32 + blocks * units * 33 + 1;
        Ok(EncodedBatch {
            plans: frame.zeros(chunks)?,
            values: frame.slice((coded * self.element.computed().size()).div_ceil(8))?,
            codes: frame.slice(coded)?,
            missed: frame.slice(blocks * bitmap_words)?,
            anchors: frame.slice(blocks * anchors)?,
            counts: frame.zeros(chunks * CONTEXTS * SYMBOLS)?,
            zeros: frame.zeros(blocks)?,
            verbatim: frame.zeros(blocks)?,
            events: frame.zeros(blocks)?,
            errors: if self.measured { Some(frame.zeros(chunks)?) } else { None },
            table_words: frame.slice(chunks * TABLE_ROOM / 4)?,
            encode_tables: frame.slice(chunks)?,
            units: frame.slice(blocks * units)?,
            words: frame.slice(words)?,
            places: frame.slice(blocks)?,
            heads: frame.slice(chunks * head.words)?,
            records: frame.slice(chunks)?,
            starts: frame.slice(chunks)?,
        })
    }

    fn tiles_of_chunk(&self) -> usize {
        u64::from(self.tiling.tiles_per_chunk()).min(self.tiling.tiles()) as usize
    }

    fn argument(&self, made: &mut EncodedBatch<'_>, stream: &Arc<CudaStream>) -> EncodedBlocks {
        let head = Head::new(&self.sizes, self.tiles_of_chunk());
        EncodedBlocks {
            plans: made.plans.device_ptr_mut(stream).0,
            values: made.values.device_ptr_mut(stream).0,
            codes: made.codes.device_ptr_mut(stream).0,
            missed: made.missed.device_ptr_mut(stream).0,
            anchors: made.anchors.device_ptr_mut(stream).0,
            counts: made.counts.device_ptr_mut(stream).0,
            zeros: made.zeros.device_ptr_mut(stream).0,
            verbatim: made.verbatim.device_ptr_mut(stream).0,
            events: made.events.device_ptr_mut(stream).0,
            errors: made.errors.as_mut().map_or(0, |errors| errors.device_ptr_mut(stream).0),
            table_words: made.table_words.device_ptr_mut(stream).0,
            encode_tables: made.encode_tables.device_ptr_mut(stream).0,
            units: made.units.device_ptr_mut(stream).0,
            words: made.words.device_ptr_mut(stream).0,
            places: made.places.device_ptr_mut(stream).0,
            heads: made.heads.device_ptr_mut(stream).0,
            head_words: head.words as u32,
            anchors_at: 0,
            sizes_at: head.sizes_at as u32,
            anchors_stride: self.sizes.anchors as u32,
            bitmap_words: self.sizes.elements.div_ceil(32) as u32,
            units_of_block: self.sizes.units as u32,
        }
    }
}

impl EncodedBatch<'_> {
    /// Returns the start of each record in the output in bytes, and memory that nothing reads any more.
    pub(crate) fn starts_and_memory(&mut self) -> (CudaView<'_, u64>, CudaViewMut<'_, u32>) {
        (self.starts.as_view(), self.words.slice_mut(..))
    }

    /// Returns the errors of each chunk, if they are measured.
    pub fn errors(&self) -> Option<CudaView<'_, ErrorSums>> {
        self.errors.as_ref().map(|errors| errors.as_view())
    }
}

/// Returns the specializations for the check that all of them compile.
pub(super) fn specializations() -> Vec<Specialization> {
    let mut all = vec![
        ChooseKernels::specialization(),
        TableKernels::specialization(),
        EncodeKernels::specialization(),
        PieceKernels::specialization(),
    ];
    for element in compiled_types() {
        all.extend([false, true].map(|measured| QuantizeKernels::specialization(element, measured)));
        all.push(SampleKernels::specialization(element));
    }
    for element_bytes in [1, 2, 4, 8] {
        all.push(LayoutKernels::specialization(element_bytes));
        all.push(WriteKernels::specialization(element_bytes));
    }
    all
}
