//! Decompression on the device: records are parsed and decoded without synchronizing with the host.

mod scratch;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::geometry::TileSize;

use scratch::{Scratch, Sizes};

use super::StreamInfo;
use super::batches::Batch;
use crate::blocks::{BlockDecoder, ParsedBatch};
use crate::container::hash::{ExcludedRange, Hasher, Pieces};
use crate::container::parse::{Hashing, PROBLEM_HASH, RecordLocations, RecordParser, Records, problem_text};
use crate::container::parsed::{PROBLEM_WORDS, Parsed};
use crate::container::structs::MAX_CHUNKS;
use crate::decode::{Decoding, TileDecoder};
use crate::device::{Device, Frame, fetch};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::DeviceGeometry;
use crate::predict::InterpolationPlans;

/// Maximum number of elements of a batch of chunks.
const BATCH_ELEMENTS: u64 = 1 << 28;

/// Decompresses one stream, or others whose headers give the same sizes, from device memory to device memory.
///
/// Only [`Self::check`] waits for the device. Scratch memory is allocated by the constructor ([`Self::workspace_bytes`]
/// returns its size) and kept, also for another stream ([`Self::for_stream`]). After the first call nothing is
/// allocated, so that calls can be captured in a CUDA graph, if the context does not track slices across streams
/// (`CudaContext::disable_event_tracking`).
#[derive(Debug)]
pub struct Decompressor {
    info: StreamInfo,
    geometry: DeviceGeometry,
    parser: RecordParser,
    stages: Stages,
    hasher: Hasher,
    scratch: Scratch,
    chunks_in_batch: u64,
    /// The batches of the whole array, computed in advance because the device idles until the host's first launch.
    batches: Arc<[Batch]>,
}

/// The stages of a stream's chunks.
#[derive(Debug)]
enum Stages {
    Tiles { decoder: TileDecoder, plans: InterpolationPlans },
    Blocks(BlockDecoder),
}

/// The parsed records of a batch, and the stage that decodes them.
enum Found<'s, 'a> {
    Tiles(&'s TileDecoder, &'s InterpolationPlans, Box<Parsed<'a>>),
    Blocks(&'s BlockDecoder, Box<ParsedBatch<'a>>),
}

impl Found<'_, '_> {
    fn decode(&mut self, frame: &mut Frame<'_>, work: Decoding<'_, '_>) -> Result<()> {
        match self {
            Self::Tiles(decoder, plans, parsed) => decoder.decode(frame, parsed, plans, work),
            Self::Blocks(decoder, parsed) => decoder.decode(frame, parsed, work),
        }
    }
}

impl Decompressor {
    /// Returns a decompressor for the stream that `info` describes, working on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for streams that [`StreamInfo::check_decompressible`] rejects, which only the CPU
    /// decompresses; errors of [`Device::kernel`]; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(device: &Device, stream: Arc<CudaStream>, info: &StreamInfo) -> Result<Self> {
        Self::build(device, stream, info, None)
    }

    /// Returns a decompressor for another stream that takes over the scratch memory. It allocates only what the other
    /// stream needs beyond this memory.
    ///
    /// # Errors
    /// The errors of [`Self::new`]. The scratch memory is freed then.
    pub fn for_stream(self, device: &Device, info: &StreamInfo) -> Result<Self> {
        let stream = self.scratch.arena.stream().clone();
        Self::build(device, stream, info, Some(self))
    }

    fn build(device: &Device, stream: Arc<CudaStream>, info: &StreamInfo, former: Option<Self>) -> Result<Self> {
        info.check_decompressible()?;
        let (header, tiling) = (info.header(), info.geometry());
        let (scratch, plans) = former.map_or((None, None), |former| {
            let plans = match former.stages {
                Stages::Tiles { plans, .. } if former.info.has_plans_of(info) => Some(plans),
                _ => None,
            };
            (Some(former.scratch), plans)
        });
        let in_chunk = u64::from(tiling.tiles_per_chunk()) * tiling.unclipped_len();
        // Each chunk takes memory for hashing according to the longest record, which in a damaged stream may be far
        // longer than the chunk's elements. The batch size therefore considers both.
        let elements_of_record = info.longest_record() / (2 * header.element_type.size() as u64);
        let chunks_in_batch = (BATCH_ELEMENTS / in_chunk.max(elements_of_record)).clamp(1, MAX_CHUNKS as u64);
        let chunks = tiling.chunks();
        let sizes = Sizes { chunks: chunks as usize, in_batch: chunks_in_batch.min(chunks).max(1) as usize };
        let scratch = match scratch {
            Some(mut scratch) => {
                scratch.grow(&sizes)?;
                scratch
            }
            None => Scratch::new(&stream, &sizes)?,
        };
        let stages = match header.tile_size {
            TileSize::Block => Stages::Blocks(BlockDecoder::new(device, header, tiling)?),
            _ => Stages::Tiles {
                decoder: TileDecoder::new(device, &stream, header, tiling)?,
                plans: plans.map_or_else(|| InterpolationPlans::of_stream(&stream, header, tiling), Ok)?,
            },
        };
        let mut decompressor = Self {
            geometry: DeviceGeometry::new(tiling),
            parser: RecordParser::new(device, header.element_type.size())?,
            stages,
            hasher: Hasher::new(device)?,
            scratch,
            chunks_in_batch,
            batches: Batch::all(info, 0..chunks, chunks_in_batch)?.into(),
            info: info.clone(),
        };
        let (main, beside) = decompressor.workspace();
        decompressor.scratch.reserve(main, beside)?;
        Ok(decompressor)
    }

    /// Returns the description of the stream that the decompressor was created for.
    pub fn info(&self) -> &StreamInfo {
        &self.info
    }

    /// Returns the bytes of device memory that the decompressor holds.
    pub fn workspace_bytes(&self) -> usize {
        let of_plans = match &self.stages {
            Stages::Tiles { plans, .. } => plans.bytes(),
            Stages::Blocks(_) => 0,
        };
        self.scratch.bytes() + of_plans
    }

    /// Frees the scratch memory that grows with the arrays, which the next call allocates again.
    pub fn free_workspace(&mut self) {
        self.scratch.arena.clear();
    }

    /// Returns the bytes of arena memory that the largest batch takes on the caller's stream and on the second stream.
    fn workspace(&self) -> (usize, usize) {
        let (mut main, mut side) = (0, 0);
        for own in &*self.batches {
            let count = own.geometry.chunks() as usize;
            let mut bytes = match &self.stages {
                Stages::Tiles { .. } => Parsed::workspace(&self.geometry, &own.geometry),
                Stages::Blocks(blocks) => blocks.workspace(&own.geometry),
            };
            match Hashing::pays(own.longest()) {
                true => bytes += Hashing::workspace(count, own.longest()),
                false => {
                    side =
                        side.max(Hasher::workspace(count, own.longest() as usize) + RecordLocations::workspace(count))
                }
            }
            main = main.max(bytes);
        }
        (main, side)
    }

    /// Queues the decompression of the whole array without waiting for it. `input` is the stream, and `output` receives
    /// the array's elements as bytes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the input or the output has another length, or if the input does not start on
    /// a multiple of 16 bytes, or the output on one of an element; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    /// The device detects damage inside chunks, which [`Self::check`] reports.
    pub fn decompress(&mut self, input: &CudaView<'_, u8>, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
        let tiles = 0..self.info.geometry().tiles();
        if input.len() as u64 != self.info.stream_len() || output.len() as u64 != self.info.decompressed_len() {
            return Err(CudaError::invalid(format!(
                "the stream has {} bytes and the array {}, the input {} and the output {}",
                self.info.stream_len(),
                self.info.decompressed_len(),
                input.len(),
                output.len()
            )));
        }
        self.decompress_tiles(input, 0, tiles, output, 0)
    }

    /// Queues the decompression of the tiles with these numbers without waiting for it. `input` contains the stream
    /// from byte `input_offset` on (a multiple of 16), at least the records of the tiles' chunks
    /// ([`StreamInfo::bytes_of`]). `output` contains, as bytes, the array's elements from number `first_element` on in
    /// raster order, at least those of the tiles. Elements of other tiles remain unchanged.
    ///
    /// # Errors
    /// The errors of [`Self::decompress`].
    pub fn decompress_tiles(
        &mut self,
        input: &CudaView<'_, u8>,
        input_offset: u64,
        tiles: Range<u64>,
        output: &mut CudaViewMut<'_, u8>,
        first_element: u64,
    ) -> Result<()> {
        let wanted = self.info.chunks_of(tiles.clone());
        let mut batches = self.batches.clone();
        // Each batch only writes the problems of its own chunks.
        if wanted != (0..self.info.geometry().chunks()) {
            batches = Batch::all(&self.info, wanted, self.chunks_in_batch)?.into();
            self.scratch.clear_problems()?;
        }
        for batch in &*batches {
            self.decompress_batch(input, input_offset, batch, tiles.clone(), output, first_element)?;
        }
        Ok(())
    }

    /// Waits for the queued work and returns the error of the first damaged chunk of the last call. All other chunks
    /// have been decompressed correctly.
    ///
    /// # Errors
    /// [`CudaError::Core`] for the first damaged chunk; [`CudaError::Driver`].
    pub fn check(&self) -> Result<()> {
        let stream = self.scratch.arena.stream();
        // There may be more, of another stream.
        let chunks = self.info.geometry().chunks() as usize;
        let problems = fetch(stream, &self.scratch.problems.slice(..chunks * PROBLEM_WORDS), "reading problems")?;
        let differ = fetch(stream, &self.scratch.hashes_differ.slice(..chunks), "reading problems")?;
        for (chunk, (problems, &differs)) in problems.chunks_exact(PROBLEM_WORDS).zip(&differ).enumerate() {
            let of_hash = if differs != 0 { PROBLEM_HASH } else { 0 };
            if let Some(text) = problem_text(problems.iter().fold(of_hash, |all, bits| all | bits)) {
                return Err(self.info.corrupt(chunk as u64, text));
            }
        }
        Ok(())
    }

    fn decompress_batch(
        &mut self,
        input: &CudaView<'_, u8>,
        input_offset: u64,
        batch: &Batch,
        tiles: Range<u64>,
        output: &mut CudaViewMut<'_, u8>,
        first_element: u64,
    ) -> Result<()> {
        let (Batch { geometry, lengths }, chunks) = (batch, batch.chunks());
        let bytes = self.info.bytes_of(chunks.clone());
        let first = bytes.start.checked_sub(input_offset);
        let first = first.ok_or_else(|| CudaError::invalid("the input starts behind the records that are wanted"))?;
        let records = Records { input, first, lengths };
        let Scratch { arena, side_arena, side, problems, hashes_differ, hash_progress, progress_is_clear } =
            &mut self.scratch;
        let stream = arena.stream().clone();
        let mut frame = arena.frame()?;
        if !*progress_is_clear {
            stream.memset_zeros(hash_progress).doing("clearing scratch memory")?;
        }
        let own = chunks.start as usize..chunks.end as usize;
        let problems = problems.slice_mut(own.start * PROBLEM_WORDS..own.end * PROBLEM_WORDS);
        let longest = batch.longest();
        let mut progress = hash_progress.slice_mut(..lengths.len());
        let mut differs = hashes_differ.slice_mut(own);
        // The parsing kernel compares the hashes of short records in additional blocks. The hashes of long records are
        // computed on the second stream, because parsing leaves most of the device idle.
        let beside = !Hashing::pays(longest);
        if beside {
            // Hashing may start together with parsing; driver calls that parsing does not need are made later.
            side.mark(&stream)?;
        }
        *progress_is_clear = false;
        let hashing = (!beside).then_some(Hashing { longest, progress: &mut progress, differs: &mut differs });
        let header = self.info.header();
        let whole = &self.geometry;
        let mut found = match &self.stages {
            Stages::Tiles { decoder, plans } => {
                let parsed = self.parser.parse(&mut frame, records, header, whole, geometry, problems, hashing)?;
                Found::Tiles(decoder, plans, Box::new(parsed))
            }
            Stages::Blocks(decoder) => {
                let parsed = decoder.parse(&mut frame, records, header, geometry, problems, hashing)?;
                Found::Blocks(decoder, Box::new(parsed))
            }
        };
        let rest = || -> Result<()> {
            if beside {
                side.follow()?;
                let mut side_frame = side_arena.frame()?;
                let places = self.parser.locate(&mut side_frame, records)?;
                let pieces = Pieces {
                    starts: &places.starts,
                    lengths: &places.lengths,
                    longest,
                    excluded: ExcludedRange::RECORD,
                };
                self.hasher.verify(&mut side_frame, input, &pieces, &mut progress, &mut differs)?;
            }
            let work = Decoding {
                input: &input.slice(..),
                batch: geometry,
                tiles,
                output: &mut output.slice_mut(..),
                first_element,
            };
            found.decode(&mut frame, work)
        };
        let done = rest();
        if beside {
            // This also happens after an error, because the caller may free the input when this function returns.
            side.join(&stream)?;
            // Dropping the guard records an event, after hashing has joined the stream, so that other streams of the
            // caller wait before they reuse the input.
            drop(input.device_ptr(&stream));
        }
        done?;
        *progress_is_clear = true;
        Ok(())
    }
}
