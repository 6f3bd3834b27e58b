//! Decompression on the device: records are parsed, decoded and reconstructed without synchronizing with the host.

mod reconstruct;
mod scratch;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceRepr};
use syncline_core::array::Element;

use reconstruct::{Part, reconstruct};
use scratch::{Scratch, Sizes};

use super::StreamInfo;
use super::batches::Batch;
use crate::container::hash::{ExcludedRange, Hasher, Pieces};
use crate::container::parse::{
    BITMAP_GROUP_LOG2, Format, Hashing, RecordLocations, RecordParser, Records, STATUS_HASH, chunk_status_text,
    cleared_bytes,
};
use crate::container::structs::MAX_CHUNKS;
use crate::device::{Arena, Device, fetch, view_bytes_mut};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::DeviceGeometry;
use crate::huffman::decode::{Decoding, Indexed, workspace};
use crate::lzss_codes::CodeTokens;
use crate::predict::InterpolationPlans;
use crate::reconstruct::{Reconstructor, Strategy};
use crate::token_codes::TokenCodes;

/// Maximum number of elements of a batch of chunks if one kernel decodes and reconstructs. The second constant applies
/// if codes go through device memory, where they then take at most 128 MiB.
const FUSED_ELEMENTS: u64 = 1 << 28;
const DECODED_ELEMENTS: u64 = 1 << 26;
/// Maximum number of chunks of a batch if these may have token codebooks, which take about 1 MiB for each chunk. The
/// codes take twice as much memory as those of Huffman streams.
const TOKEN_CODES_CHUNKS: u64 = 64;

/// Device memory of a decompressor that another one takes over.
#[derive(Default)]
struct Reused {
    scratch: Option<Scratch>,
    tokens: Option<CodeTokens>,
    plans: Option<InterpolationPlans>,
}

/// Decompresses one stream, or others whose headers give the same sizes, from device memory to device memory.
///
/// Only [`Self::check`] waits for the device, and calls for streams whose codes may be LZSS tokens, which also take
/// more scratch memory. Scratch memory is allocated by the constructor ([`Self::workspace_bytes`] returns its size) and
/// kept, also for another stream ([`Self::for_stream`]). After the first call nothing is allocated, so that calls can
/// be captured in a CUDA graph, if the context does not track slices across streams
/// (`CudaContext::disable_event_tracking`).
#[derive(Debug)]
pub struct Decompressor {
    info: StreamInfo,
    format: Format,
    geometry: DeviceGeometry,
    parser: RecordParser,
    /// The decoder of codes, unless the reconstructor decodes them itself.
    decoder: Option<Indexed<u16>>,
    bitmaps: Option<Indexed<u8>>,
    /// The token decoder, if chunks may have their codes as LZSS tokens.
    tokens: Option<CodeTokens>,
    /// The decoder of token streams and the plans of interpolation, if chunks may have token codebooks.
    token_codes: Option<(TokenCodes, InterpolationPlans)>,
    reconstructor: Reconstructor,
    hasher: Hasher,
    scratch: Scratch,
    chunks_in_batch: u64,
    /// The batches of the whole array, computed in advance because the device idles until the host's first launch.
    batches: Arc<[Batch]>,
}

impl Decompressor {
    /// Returns a decompressor for the stream that `info` describes, working on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for streams that [`StreamInfo::check_decompressible`] rejects, which only the CPU
    /// decompresses; errors of [`Device::kernel`]; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(device: &Device, stream: Arc<CudaStream>, info: &StreamInfo) -> Result<Self> {
        Self::build(device, stream, info, None, None)
    }

    /// Returns a decompressor for another stream, with the default strategy, that takes over the scratch memory. It
    /// allocates only what the other stream needs beyond this memory.
    ///
    /// # Errors
    /// The errors of [`Self::new`]. The scratch memory is freed then.
    pub fn for_stream(self, device: &Device, info: &StreamInfo) -> Result<Self> {
        let stream = self.scratch.arena.stream().clone();
        Self::build(device, stream, info, None, Some(self))
    }

    /// Returns a decompressor that reconstructs with the given strategy, so that benches can compare strategies.
    ///
    /// # Errors
    /// The errors of [`Self::new`] and [`Reconstructor::with_way`].
    pub fn with_way(device: &Device, stream: Arc<CudaStream>, info: &StreamInfo, way: Strategy) -> Result<Self> {
        Self::build(device, stream, info, Some(way), None)
    }

    fn build(
        device: &Device,
        stream: Arc<CudaStream>,
        info: &StreamInfo,
        way: Option<Strategy>,
        former: Option<Self>,
    ) -> Result<Self> {
        info.check_decompressible()?;
        let header = info.header();
        let format = Format::new(header, info.geometry());
        // If some chunks have tokens instead of streams of codes, the codes of all chunks are decoded to device memory.
        let has_tokens = header.lzss_codes || header.token_codes;
        let way = if has_tokens { way.or(Some(Strategy::Decoded)) } else { way };
        if has_tokens && way != Some(Strategy::Decoded) {
            return Err(CudaError::invalid("where codes may be tokens they are decoded before all else"));
        }
        let reconstructor = match way {
            Some(way) => Reconstructor::with_way(device, header, info.geometry(), way)?,
            None => Reconstructor::new(device, header, info.geometry())?,
        };
        let way = reconstructor.way();
        let decoder = match way.decodes() {
            true => None,
            false => Some(Indexed::new(device, header.group_log2.into())?),
        };
        let bitmaps = match format.bitmap_kinds() {
            0 => None,
            _ => Some(Indexed::new(device, BITMAP_GROUP_LOG2)?),
        };
        let group_log2 = header.group_log2.into();
        let Reused { scratch, tokens, plans } = former.map_or_else(Reused::default, |former| former.reused(info));
        let tokens = match tokens {
            None if header.lzss_codes => Some(CodeTokens::new(device, &stream, group_log2)?),
            tokens => tokens,
        };
        let token_codes = match (header.token_codes, plans) {
            (false, _) => None,
            (true, Some(plans)) => Some((TokenCodes::new(device, info.geometry())?, plans)),
            (true, None) => {
                let plans = InterpolationPlans::new(&stream, header, info.geometry())?;
                Some((TokenCodes::new(device, info.geometry())?, plans))
            }
        };
        let (elements, most_chunks) = match way {
            _ if header.token_codes => (DECODED_ELEMENTS, TOKEN_CODES_CHUNKS),
            Strategy::Fused => (FUSED_ELEMENTS, MAX_CHUNKS as u64),
            _ => (DECODED_ELEMENTS, MAX_CHUNKS as u64),
        };
        let in_chunk = u64::from(info.geometry().tiles_per_chunk()) * info.geometry().unclipped_len();
        // Each chunk takes memory for hashing according to the longest record, which in a damaged stream may be far
        // longer than the chunk's elements. The batch size therefore considers both.
        let elements_of_record = info.longest_record() / (2 * header.element_type.size() as u64);
        let chunks_in_batch = (elements / in_chunk.max(elements_of_record)).clamp(1, most_chunks);
        let chunks = info.geometry().chunks() as usize;
        let most = chunks_in_batch.min(chunks as u64).max(1) as usize;
        let sizes =
            Sizes { chunks, kept_bytes: cleared_bytes(most, most * format.bitmap_kinds() as usize), in_batch: most };
        let scratch = match scratch {
            Some(mut scratch) => {
                scratch.grow(&sizes)?;
                scratch
            }
            None => Scratch::new(&stream, &sizes)?,
        };
        let mut decompressor = Self {
            format,
            geometry: DeviceGeometry::new(info.geometry(), header.group_log2),
            parser: RecordParser::new(device, header.element_type.size())?,
            decoder,
            bitmaps,
            tokens,
            token_codes,
            reconstructor,
            hasher: Hasher::new(device)?,
            scratch,
            chunks_in_batch,
            batches: Batch::all(info, 0..chunks as u64, chunks_in_batch)?.into(),
            info: info.clone(),
        };
        let (main, beside) = decompressor.workspace()?;
        decompressor.scratch.reserve(main, beside)?;
        Ok(decompressor)
    }

    /// Returns the device memory of which a decompressor for another stream can make use.
    fn reused(self, info: &StreamInfo) -> Reused {
        let (own, other) = (self.info.header(), info.header());
        let same_tokens = other.lzss_codes && own.group_log2 == other.group_log2;
        let same_plans = self.info.geometry() == info.geometry()
            && (own.pipeline, own.element_type) == (other.pipeline, other.element_type);
        Reused {
            scratch: Some(self.scratch),
            tokens: self.tokens.filter(|_| same_tokens),
            plans: self.token_codes.map(|(_, plans)| plans).filter(|_| same_plans),
        }
    }

    /// Returns the description of the stream that the decompressor was created for.
    pub fn info(&self) -> &StreamInfo {
        &self.info
    }

    /// Returns the bytes of device memory that the decompressor holds.
    pub fn workspace_bytes(&self) -> usize {
        let tokens = self.tokens.as_ref().map_or(0, CodeTokens::workspace_bytes);
        let plans = self.token_codes.as_ref().map_or(0, |(_, plans)| plans.bytes());
        self.scratch.bytes() + tokens + plans
    }

    /// Frees the scratch memory that grows with the arrays, which the next call allocates again. That of codes as LZSS
    /// tokens stays.
    pub fn free_workspace(&mut self) {
        self.scratch.arena.clear();
    }

    /// Returns the bytes of arena memory that the largest batch takes on the caller's stream and on the second stream.
    fn workspace(&self) -> Result<(usize, usize)> {
        let (mut main, mut side) = (0, 0);
        for own in &*self.batches {
            let Batch { geometry: batch, lengths } = own;
            let record_bytes = lengths.iter().map(|&length| u64::from(length)).sum();
            let count = batch.chunks() as usize;
            let codes = self.format.code_bounds(batch, record_bytes, 0);
            let mut bytes = self.format.workspace(batch, self.decoder.is_some());
            bytes += Arena::bytes_for::<u8>(1) + self.reconstructor.workspace(batch.chunks(), batch.slots());
            let mut of_codes = 0;
            if self.decoder.is_some() {
                of_codes = workspace(&codes.sizes()?);
                of_codes += Arena::bytes_for::<u16>(codes.output_symbols as usize);
            }
            if self.bitmaps.is_some() {
                let bounds = self.format.bitmap_bounds(batch, record_bytes, 0);
                bytes += workspace(&bounds.sizes()?);
            }
            if let Some((token_codes, _)) = &self.token_codes {
                of_codes = of_codes.max(token_codes.workspace(batch.chunks()));
            }
            bytes += of_codes;
            match Hashing::pays(own.longest()) {
                true => bytes += Hashing::workspace(count, own.longest()),
                false => {
                    side =
                        side.max(Hasher::workspace(count, own.longest() as usize) + RecordLocations::workspace(count))
                }
            }
            main = main.max(bytes);
        }
        Ok((main, side))
    }

    /// Queues the decompression of the whole array without waiting for it. `input` is the stream, and `output` receives
    /// the array's elements.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if `E` is not the stream's element type, if the input or the output has another
    /// length, or if the input does not start on a multiple of 16 bytes; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`]. The device detects damage inside chunks, which [`Self::check`] reports.
    pub fn decompress<E: Element + DeviceRepr>(
        &mut self,
        input: &CudaView<'_, u8>,
        output: &mut CudaViewMut<'_, E>,
    ) -> Result<()> {
        let tiles = 0..self.info.geometry().tiles();
        if input.len() as u64 != self.info.stream_len() || output.len() as u64 != self.info.elements() {
            return Err(CudaError::invalid(format!(
                "the stream has {} bytes and {} elements, the input {} and the output {}",
                self.info.stream_len(),
                self.info.elements(),
                input.len(),
                output.len()
            )));
        }
        self.tiles(input, 0, tiles, output, 0)
    }

    /// Queues the decompression of the tiles with these numbers without waiting for it. `input` contains the stream
    /// from byte `input_offset` on (a multiple of 16), at least the records of the tiles' chunks
    /// ([`StreamInfo::bytes_of`]). `output` contains the array's elements from number `first_element` on in raster
    /// order, at least those of the tiles. Elements of other tiles remain unchanged.
    ///
    /// # Errors
    /// The errors of [`Self::decompress`].
    pub fn decompress_tiles<E: Element + DeviceRepr>(
        &mut self,
        input: &CudaView<'_, u8>,
        input_offset: u64,
        tiles: Range<u64>,
        output: &mut CudaViewMut<'_, E>,
        first_element: u64,
    ) -> Result<()> {
        self.tiles(input, input_offset, tiles, output, first_element)
    }

    fn tiles<E: Element + DeviceRepr>(
        &mut self,
        input: &CudaView<'_, u8>,
        input_offset: u64,
        tiles: Range<u64>,
        output: &mut CudaViewMut<'_, E>,
        first_element: u64,
    ) -> Result<()> {
        if E::TYPE != self.info.header().element_type {
            return Err(CudaError::invalid(format!(
                "the stream's elements are {}, the output's {}",
                self.info.header().element_type,
                E::TYPE
            )));
        }
        let mut output = view_bytes_mut(output);
        let wanted = self.info.chunks_of(tiles.clone());
        let mut batches = self.batches.clone();
        // Each batch only writes the statuses of its own chunks.
        if wanted != (0..self.info.geometry().chunks()) {
            batches = Batch::all(&self.info, wanted, self.chunks_in_batch)?.into();
            self.scratch.clear_statuses()?;
        }
        for batch in &*batches {
            self.decompress_batch(input, input_offset, batch, tiles.clone(), &mut output, first_element)?;
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
        let statuses = fetch(stream, &self.scratch.statuses.slice(..chunks), "reading statuses")?;
        let differ = fetch(stream, &self.scratch.hashes_differ.slice(..chunks), "reading statuses")?;
        for (chunk, (&status, &differs)) in statuses.iter().zip(&differ).enumerate() {
            if let Some(text) = chunk_status_text(status | if differs != 0 { STATUS_HASH } else { 0 }) {
                return Err(self.info.corrupt(chunk as u64, &text));
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
        let Scratch { arena, side_arena, side, statuses, hashes_differ, kept, hash_progress, kept_is_clear } =
            &mut self.scratch;
        let stream = arena.stream().clone();
        let mut frame = arena.frame()?;

        if !*kept_is_clear {
            stream.memset_zeros(kept).doing("clearing scratch memory")?;
            stream.memset_zeros(hash_progress).doing("clearing scratch memory")?;
        }
        let own = chunks.start as usize..chunks.end as usize;
        let longest = batch.longest();
        let mut progress = hash_progress.slice_mut(..lengths.len());
        let mut differs = hashes_differ.slice_mut(own.clone());
        // The parsing kernel compares the hashes of short records in additional blocks. The hashes of long records are
        // computed on the second stream, because parsing leaves most of the device idle.
        let beside = !Hashing::pays(longest);
        if beside {
            // Hashing may start together with parsing; driver calls that parsing does not need are made later.
            side.mark(&stream)?;
        }
        *kept_is_clear = false;
        let kinds = self.format.bitmap_kinds() as usize;
        let kept = kept.slice_mut(..cleared_bytes(lengths.len(), lengths.len() * kinds));
        let classes = self.decoder.is_some();
        let hashing = (!beside).then_some(Hashing { longest, progress: &mut progress, differs: &mut differs });
        let mut parsed = self.parser.parse(
            &mut frame,
            records,
            &self.format,
            &self.geometry,
            geometry,
            classes,
            Some(kept),
            hashing,
        )?;
        let mut result = statuses.slice_mut(own);
        let rest = || -> Result<bool> {
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
            let ending = parsed.batch_finish(&stream, &mut result)?;
            let none = frame.slice::<u8>(0)?.into_view();
            if let (Some(decoder), Some(bitmaps), Some(bytes)) =
                (&self.bitmaps, &parsed.bitmaps, &mut parsed.bitmap_bytes)
            {
                let work = Decoding {
                    input: &input.slice(..),
                    classes: &none,
                    batch: bitmaps,
                    output: &mut bytes.slice_mut(..),
                    status: &mut parsed.bitmap_status.slice_mut(..),
                };
                decoder.launch(&mut frame, work)?;
            }
            let reconstruction = Part { tiles, first_chunk: chunks.start, first_element };
            let tokens = self.tokens.as_mut().map(|tokens| (tokens, records, geometry));
            let token_codes = self.token_codes.as_ref().map(|(decoder, plans)| (decoder, plans, geometry));
            reconstruct(
                &mut frame,
                self.decoder.as_ref(),
                tokens,
                token_codes,
                &self.reconstructor,
                input,
                &mut parsed,
                output,
                reconstruction,
                ending,
            )
        };
        let done = rest();
        if beside {
            // This also happens after an error, because the caller may free the input when this function returns.
            side.join(&stream)?;
            // Dropping the guard records an event, after hashing has joined the stream, so that other streams of the
            // caller wait before they reuse the input.
            drop(input.device_ptr(&stream));
        }
        if !done? {
            self.parser.finish(&stream, &mut parsed, &mut result)?;
        }
        *kept_is_clear = true;
        Ok(())
    }
}
