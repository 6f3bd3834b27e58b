//! Encodes chunks as numbers and writes them to records: launches `kernels/lossless/numbers_code.cu` and
//! `numbers_write.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaViewMut, DevicePtr};
use syncline_core::array::ElementType;
use syncline_core::pipeline::{MOST_SAMPLED_CODES, SAMPLED_NUMBER_ELEMENTS, sampled_code_rows};

use super::cost_model::Job;
use super::number_choices::{
    CodedBatch, CodedNumbers, SampledTiles, Shared, choose_plans, device_bins, device_plan, read,
};
use super::number_records::{MASKS, NumberRecord, RESTS, SYMBOLS, nowhere};
use super::planes::{GROUP, LaidOut, PlaneEncoder, WordEncoder, WordsLaidOut};
use super::records::PlaneList;
use super::structs::{ChunkBins, CodedChunk, CodedTile, NumberChunk, NumberPlaces};
use super::tiles::{Slots, Tiles};
use crate::device::{Copies, Device, Frame, Grid, Patches, Specialization, Transfer, fetch};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::encode::{NO_OFFSET, StreamRange};

declare_kernels! {
    /// The kernels of `kernels/lossless/numbers_code.cu`.
    struct CodeKernels in "lossless/numbers_code.cu", of (element: ElementType) {
        with THREADS = CODE_THREADS;
        with ELEMENT_BYTES = element.size() as u32;
        with FLOATS = element.is_float();
        with GROUP = GROUP as u32;
        with SAMPLED = SAMPLED_NUMBER_ELEMENTS;
        with SAMPLED_CODES = MOST_SAMPLED_CODES;
        with SAMPLED_ROW = sampled_code_rows(0).0;
        fn numbers_sample(
            geometry: DeviceGeometry, batch: ChunkBatch, slots: CUdeviceptr as "const uint8_t *", stride: u64,
            sample: Out<u8> as "word_t *",
        );
        fn numbers_code(
            geometry: DeviceGeometry, batch: ChunkBatch, slots: CUdeviceptr as "const uint8_t *", stride: u64,
            plans: In<NumberChunk>, rests_at: In<u64>, codes: Out<u8>, code_stride: u64, rests: Out<u16>,
            masked: Out<u32>, verbatim: Out<u32>, tiles: Out<CodedTile>,
        );
        fn numbers_add_up(
            geometry: DeviceGeometry, batch: ChunkBatch, tiles: Out<CodedTile>, chunks: Out<CodedChunk>,
        );
        fn numbers_rows(
            geometry: DeviceGeometry, batch: ChunkBatch, tiles: In<CodedTile>, chunks: In<CodedChunk>, codes: In<u8>,
            code_stride: u64, sample: Out<u8> as "word_t *",
        );
    }
}

declare_kernels! {
    /// The kernels of `kernels/lossless/numbers_write.cu`.
    struct WriteKernels in "lossless/numbers_write.cu", of (element: ElementType) {
        with THREADS = CODE_THREADS;
        with ELEMENT_BYTES = element.size() as u32;
        with FLOATS = element.is_float();
        with GROUP = GROUP as u32;
        fn numbers_symbols(
            geometry: DeviceGeometry, batch: ChunkBatch, tiles: In<CodedTile>, all_bins: In<ChunkBins>,
            of_cell: In<u8>, symbols_before: In<u32>, masks_before: In<u32>, codes: In<u8>, code_stride: u64,
            masked: In<u32>, bytes: Out<u8>, words: Out<u16>, raw_bytes: Out<u32>,
        );
        fn numbers_write(
            geometry: DeviceGeometry, batch: ChunkBatch, slots: CUdeviceptr as "const uint8_t *", stride: u64,
            tiles: In<CodedTile>, all_bins: In<ChunkBins>, of_cell: In<u8>, codes: In<u8>, code_stride: u64,
            verbatim: In<u32>, raw_bytes: In<u32>, raw_before: In<u32>, places: In<NumberPlaces>, out: Out<u8>,
        );
    }
}

/// Threads of a block with one tile per warp. Blocks are small, because a tile takes up to 8 KiB of shared memory.
const CODE_THREADS: u32 = 128;
/// 32-bit words of a tile's bits: `TILE_WORDS` in `kernels/lossless/code_tile.cuh`.
const TILE_WORDS: usize = syncline_core::geometry::MAX_TILE_ELEMENTS / 32;

/// Returns every specialization, for the check that all of them compile.
pub(super) fn specializations() -> Vec<Specialization> {
    use ElementType::{Bf16, F32, F64, I64, U8, U16, U32};
    let elements = [F32, F64, Bf16, U8, U16, U32, I64].into_iter();
    elements.flat_map(|element| [CodeKernels::specialization(element), WriteKernels::specialization(element)]).collect()
}

/// A batch of chunks, and where their elements are.
#[derive(Clone, Copy)]
pub(super) struct Work<'w> {
    pub job: Job<'w>,
    pub tiles: &'w Tiles,
    pub batch: &'w ChunkBatch,
    /// Number of the first chunk in the array.
    pub first_chunk: u64,
    pub slots: Slots,
}

impl Work<'_> {
    fn chunks(&self) -> usize {
        self.batch.chunks() as usize
    }

    /// Returns the grid of kernels with a tile a warp.
    fn grid(&self) -> Grid {
        Grid::new(self.batch.tiles().div_ceil(CODE_THREADS / 32), CODE_THREADS)
    }
}

/// The codes of the tiles of a batch.
struct Codes<'a> {
    codes: CudaViewMut<'a, u8>,
    rests: CudaViewMut<'a, u16>,
    /// The streams of rests, and the chunks that have one.
    rest_list: PlaneList,
    with_rests: Vec<usize>,
    masked: CudaViewMut<'a, u32>,
    verbatim: CudaViewMut<'a, u32>,
    tiles: CudaViewMut<'a, CodedTile>,
}

/// Huffman streams of symbols of one size, and the section of the chunk that each of them is.
#[derive(Default)]
struct Streams {
    list: PlaneList,
    free_symbols: Vec<u16>,
    /// The chunk and the section of each stream.
    places: Vec<(usize, usize)>,
    /// The largest symbol of each stream, or a bound for it.
    greatest: Vec<u32>,
}

impl Streams {
    /// Adds a stream of `count` symbols, if there are any. Returns the number of its first symbol.
    fn add(&mut self, place: (usize, usize), count: u32, free_symbol: u16, greatest: u32) -> u64 {
        let plane = self.list.add(count.into());
        if plane.stream.is_some() {
            self.free_symbols.push(free_symbol);
            self.places.push(place);
            self.greatest.push(greatest);
        }
        plane.start
    }

    fn ranges(&self) -> Vec<StreamRange> {
        let range = |(&(first_group, groups), &free_symbol)| StreamRange { first_group, groups, free_symbol };
        self.list.streams.iter().zip(&self.free_symbols).map(range).collect()
    }
}

/// Chunks of numbers whose records are laid out but not yet written.
pub(super) struct LaidOutNumbers<'a> {
    pub records: Vec<NumberRecord>,
    codes: Codes<'a>,
    bins: CudaViewMut<'a, ChunkBins>,
    of_cell: CudaViewMut<'a, u8>,
    raw_bytes: CudaViewMut<'a, u32>,
    of_bytes: (Streams, Option<LaidOut<'a>>),
    of_words: (Streams, Option<WordsLaidOut<'a>>),
    of_rests: (Streams, Option<WordsLaidOut<'a>>),
}

/// Encodes chunks as numbers.
#[derive(Debug)]
pub(super) struct NumberEncoder {
    device: Device,
    transfer: Transfer,
    code: CodeKernels,
    write: WriteKernels,
    element: ElementType,
    /// Created on first use, because their kernels take a while to compile.
    bytes: Option<PlaneEncoder<u8>>,
    words: Option<WordEncoder>,
    rests: Option<WordEncoder>,
    of_elements: Shared<u8>,
    of_tiles: Shared<u8>,
    of_codes: Shared<u8>,
    coded_tiles: Shared<CodedTile>,
}

impl NumberEncoder {
    pub fn new(device: &Device, element: ElementType) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            transfer: Transfer::new(device)?,
            code: CodeKernels::load(device, element)?,
            write: WriteKernels::load(device, element)?,
            element,
            bytes: None,
            words: None,
            rests: None,
            of_elements: None,
            of_tiles: None,
            of_codes: None,
            coded_tiles: None,
        })
    }

    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Codes the chunks of a batch, and lays out their records. Waits for the device.
    pub fn lay_out<'a>(&mut self, frame: &mut Frame<'a>, work: Work<'_>) -> Result<LaidOutNumbers<'a>> {
        let (codes, mut chunks) = self.code(frame, work)?;
        let stream = frame.stream().clone();

        // Places the Huffman streams.
        let (mut of_bytes, mut of_words, mut of_rests) = <(Streams, Streams, Streams)>::default();
        let (mut all_bins, mut of_cell) = (Vec::with_capacity(chunks.len()), Vec::new());
        for (number, chunk) in chunks.iter().enumerate() {
            let mut bins = device_bins(chunk, of_cell.len() as u32);
            if let Some(binning) = &chunk.binning {
                of_cell.extend_from_slice(&binning.of_cell);
                let streams = if bins.symbol_bytes == 1 { &mut of_bytes } else { &mut of_words };
                let greatest = binning.symbols as u32 - 1;
                bins.symbols_at = streams.add((number, SYMBOLS), chunk.symbols, binning.commonest, greatest);
            }
            all_bins.push(bins);
        }
        for (number, (chunk, bins)) in chunks.iter().zip(&mut all_bins).enumerate() {
            bins.masks_at = of_bytes.add((number, MASKS), chunk.mask_bytes, 0, u8::MAX.into());
        }
        of_rests.list = codes.rest_list.clone();
        for &number in &codes.with_rests {
            of_rests.free_symbols.push(0);
            of_rests.places.push((number, RESTS));
            of_rests.greatest.push(chunks[number].greatest_rest);
        }

        let (bins, of_cell) = (frame.upload(&all_bins)?, frame.upload(&of_cell)?);
        let before = |of: fn(&CodedNumbers) -> &[u32]| chunks.iter().flat_map(of).copied().collect::<Vec<_>>();
        let symbols_before = frame.upload(&before(|chunk| &chunk.symbols_before))?;
        let masks_before = frame.upload(&before(|chunk| &chunk.masks_before))?;
        let mut bytes = frame.slice::<u8>(of_bytes.list.symbols as usize)?;
        let mut words = frame.slice::<u16>(of_words.list.symbols as usize)?;
        let mut raw_bytes = frame.slice::<u32>(work.batch.tiles() as usize)?;
        // SAFETY: there are bins for each chunk, and an entry of each list for each tile. The streams have room for the
        // symbols and masks that the host has counted as the kernel does.
        unsafe {
            launch!(self.write.numbers_symbols on &stream, work.grid(); *work.tiles.geometry(), *work.batch,
                &codes.tiles, &bins, &of_cell, &symbols_before, &masks_before, &codes.codes,
                work.tiles.slot_bytes(), &codes.masked, &mut bytes, &mut words, &mut raw_bytes)
        }?;

        // Lays out the Huffman streams.
        let mut laid_out_bytes = match (&mut self.bytes, of_bytes.places.is_empty()) {
            (_, true) => None,
            (encoder, false) => {
                let encoder = match encoder {
                    Some(encoder) => encoder,
                    none => none.insert(PlaneEncoder::new(&self.device, 1 << 8)?),
                };
                Some(encoder.lay_out(frame, &bytes.as_view(), &of_bytes.ranges())?)
            }
        };
        let mut lay_out_words = |encoder: &mut Option<WordEncoder>, streams: &Streams, words: &CudaViewMut<'_, u16>| {
            let encoder = encoder.get_or_insert_with(|| WordEncoder::new(&self.device));
            (!streams.places.is_empty())
                .then(|| encoder.lay_out(frame, &words.as_view(), &streams.ranges(), &streams.greatest))
                .transpose()
        };
        let mut laid_out_words = lay_out_words(&mut self.words, &of_words, &words)?;
        let mut laid_out_rests = lay_out_words(&mut self.rests, &of_rests, &codes.rests)?;
        let raw = fetch(&stream, &raw_bytes, "reading the lengths of raw bits")?;
        if let (Some(encoder), Some(laid_out)) = (&self.bytes, &mut laid_out_bytes) {
            encoder.wait(laid_out)?;
        }
        for (encoder, laid_out) in [(&self.words, &mut laid_out_words), (&self.rests, &mut laid_out_rests)] {
            if let (Some(encoder), Some(laid_out)) = (encoder, laid_out) {
                encoder.wait(laid_out)?;
            }
        }

        // Lays out the records.
        let mut streams = vec![[0; 3]; chunks.len()];
        let plans = [
            (&of_bytes, laid_out_bytes.as_ref().map(|laid_out| &laid_out.plans)),
            (&of_words, laid_out_words.as_ref().map(|laid_out| &laid_out.plans)),
            (&of_rests, laid_out_rests.as_ref().map(|laid_out| &laid_out.plans)),
        ];
        for (of, plans) in plans {
            for (&(chunk, section), plan) in of.places.iter().zip(plans.into_iter().flatten()) {
                let own = [SYMBOLS, MASKS, RESTS].iter().position(|&other| other == section).unwrap_or(0);
                streams[chunk][own] = u64::from(plan.stream_bytes);
            }
        }
        let mut rest = &raw[..];
        let records = chunks.iter_mut().zip(streams).map(|(chunk, streams)| {
            let (own, others) = rest.split_at(chunk.are_varying.len());
            rest = others;
            NumberRecord::new(chunk, own, streams, work.tiles.element_bytes())
        });
        let records = records.collect();
        Ok(LaidOutNumbers {
            records,
            codes,
            bins,
            of_cell,
            raw_bytes,
            of_bytes: (of_bytes, laid_out_bytes),
            of_words: (of_words, laid_out_words),
            of_rests: (of_rests, laid_out_rests),
        })
    }

    /// Codes the chunks of a batch, and chooses their bins. Waits for the device.
    fn code<'a>(&mut self, frame: &mut Frame<'a>, work: Work<'_>) -> Result<(Codes<'a>, Vec<CodedNumbers>)> {
        let stream = frame.stream().clone();
        let Work { job, tiles, batch, first_chunk, slots } = work;
        let (geometry, size) = (*tiles.geometry(), tiles.element_bytes() as usize);
        let (chunk_count, tile_count) = (work.chunks(), batch.tiles() as usize);

        // Samples elements and chooses plans.
        let mut elements = frame.slice::<u8>(chunk_count * SAMPLED_NUMBER_ELEMENTS * size)?;
        let a_chunk_a_block = Grid::new(batch.chunks(), CODE_THREADS);
        // SAFETY: each chunk has its elements at its slot, and the sample has room for the most of each chunk.
        unsafe {
            launch!(self.code.numbers_sample on &stream, a_chunk_a_block; geometry, *batch, slots.pointer, slots.stride,
                &mut elements)
        }?;
        let chunks = first_chunk..first_chunk + chunk_count as u64;
        let sampled: Vec<SampledTiles> = chunks.map(|chunk| SampledTiles::new(job.geometry, chunk)).collect();
        let runs: Vec<_> = sampled.iter().flat_map(|chunk| chunk.runs.iter().cloned()).collect();
        let of_tiles = tiles.sample(frame, &runs, job.slab)?;
        let of_tiles = read(&stream, &mut self.of_tiles, &of_tiles)?;
        let of_elements = read(&stream, &mut self.of_elements, &elements)?;
        let plans = choose_plans(self.element, job.geometry.axes(), sampled, (of_elements, of_tiles))?;

        // Codes the tiles.
        let (mut rest_list, mut with_rests, mut rests_at) = (PlaneList::default(), Vec::new(), vec![0; chunk_count]);
        for (number, _) in plans.iter().enumerate().filter(|(_, plan)| plan.number.has_rest()) {
            rests_at[number] = rest_list.add(tiles.elements_of(batch, number as u32)).start;
            with_rests.push(number);
        }
        let on_device: Vec<NumberChunk> = plans.iter().map(device_plan).collect();
        let (on_device, rests_at) = (frame.upload(&on_device)?, frame.upload(&rests_at)?);
        let mut codes = Codes {
            codes: frame.slice(chunk_count * tiles.slot_bytes() as usize)?,
            rests: frame.slice(rest_list.symbols as usize)?,
            rest_list,
            with_rests,
            masked: frame.slice(tile_count * TILE_WORDS)?,
            verbatim: frame.slice(tile_count * TILE_WORDS)?,
            tiles: frame.slice(tile_count)?,
        };
        let mut counted = frame.slice::<CodedChunk>(chunk_count)?;
        let mut sample = frame.slice::<u8>(chunk_count * MOST_SAMPLED_CODES * size)?;
        let rows = (MOST_SAMPLED_CODES / sampled_code_rows(0).0) as u32;
        let row_grid = Grid::new(rows.div_ceil(CODE_THREADS / 32), CODE_THREADS).rows(batch.chunks());
        let stride = tiles.slot_bytes();
        // SAFETY: each chunk has its elements at its slot, a slot for its codes, and a plan; each tile has an entry and
        // words. The rests of the chunks that have some have room with their last groups filled up. The sample has room
        // for the most rows of each chunk.
        unsafe {
            launch!(self.code.numbers_code on &stream, work.grid(); geometry, *batch, slots.pointer, slots.stride,
                &on_device, &rests_at, &mut codes.codes, stride, &mut codes.rests, &mut codes.masked,
                &mut codes.verbatim, &mut codes.tiles)?;
            launch!(self.code.numbers_add_up on &stream, a_chunk_a_block; geometry, *batch, &mut codes.tiles,
                &mut counted)?;
            launch!(self.code.numbers_rows on &stream, row_grid; geometry, *batch, &codes.tiles, &counted,
                &codes.codes, stride, &mut sample)?;
        }
        let coded = CodedBatch {
            geometry: job.geometry.clone(),
            element: self.element,
            first_chunk,
            plans,
            sample: read(&stream, &mut self.of_codes, &sample)?,
            tiles: read(&stream, &mut self.coded_tiles, &codes.tiles)?,
            chunks: fetch(&stream, &counted, "reading what chunks have")?,
        };
        Ok((codes, coded.choose()?))
    }

    /// Writes the records of the chunks that have a place in the output, except for their checksums.
    pub fn write(
        &mut self,
        frame: &mut Frame<'_>,
        work: Work<'_>,
        laid_out: LaidOutNumbers<'_>,
        places: &[Option<u64>],
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let LaidOutNumbers { records, codes, bins, of_cell, raw_bytes, of_bytes, of_words, of_rests } = laid_out;
        let mut made = Vec::new();
        let (mut patches, mut copies, mut ranges) = (Patches::default(), Copies::default(), Vec::new());
        for (number, (record, place)) in records.iter().zip(places).enumerate() {
            let Some(place) = *place else { continue };
            record.patch(place, work.first_chunk + number as u64, &mut patches);
            for (at, bytes) in record.made().filter(|(_, bytes)| !bytes.is_empty()) {
                made.resize(made.len().next_multiple_of(16), 0);
                ranges.push((made.len() as u64, place + at, bytes.len() as u64));
                made.extend_from_slice(bytes);
            }
        }
        let made = frame.upload(&made)?;
        let (from, to) = (made.device_ptr(&stream).0, output.device_ptr(&stream).0);
        ranges.into_iter().for_each(|(at, place, bytes)| copies.add(from + at, to + place, bytes));
        self.transfer.patch(&stream, &patches, output)?;
        self.transfer.copy(&stream, &copies)?;

        let number_places = records.iter().zip(places).map(|(record, place)| match *place {
            Some(place) => record.places(place),
            None => nowhere(),
        });
        let number_places = frame.upload(&number_places.collect::<Vec<NumberPlaces>>())?;
        let raw_before: Vec<u32> = records.iter().flat_map(|record| record.raw_before.iter().copied()).collect();
        let raw_before = frame.upload(&raw_before)?;
        // SAFETY: records with a place lie in the output, with room for the raw bits and verbatim values that were
        // counted.
        unsafe {
            launch!(self.write.numbers_write on &stream, work.grid(); *work.tiles.geometry(), *work.batch,
                work.slots.pointer, work.slots.stride, &codes.tiles, &bins, &of_cell, &codes.codes,
                work.tiles.slot_bytes(), &codes.verbatim, &raw_bytes, &raw_before, &number_places, &mut *output)
        }?;

        let offsets = |streams: &Streams| -> Vec<u64> {
            let place = |&(chunk, section): &(usize, usize)| {
                places[chunk].map_or(NO_OFFSET, |place| place + records[chunk].section_at(section))
            };
            streams.places.iter().map(place).collect()
        };
        if let (Some(encoder), (streams, Some(laid_out))) = (&mut self.bytes, of_bytes) {
            encoder.write(&stream, laid_out, &offsets(&streams), output)?;
        }
        for (encoder, of) in [(&mut self.words, of_words), (&mut self.rests, of_rests)] {
            if let (Some(encoder), (streams, Some(laid_out))) = (encoder, of) {
                encoder.write(&stream, laid_out, &offsets(&streams), output)?;
            }
        }
        Ok(())
    }
}
