//! Streams whose chunks have token codebooks, or the shorter of these and other codings.

use std::ops::Range;

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, ErrorSummary, Pipeline, PsnrGoal, Resolved};
use syncline_core::container::{ALIGNMENT, HEADER_LEN, Header, RECORD_HEADER_LEN, table_and_trailer};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::compress_bound;

use super::token_codes::{self, BatchRecords, TokenCompressor};
use super::{CompressOptions, Compressed, Compressor, total};
use crate::device::{Copies, Transfer};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::Slab;
use crate::pipeline::check_output;

/// Size of a batch's elements in bytes if each chunk is coded in two ways, for which there is memory of its own.
const COMPARED_BYTES: u64 = 128 << 20;

impl BatchRecords {
    /// Returns the errors of all chunks.
    pub(super) fn total(&self) -> ErrorSummary {
        total(&self.errors)
    }

    fn extend(&mut self, other: Self) {
        self.lengths.extend(other.lengths);
        self.errors.extend(other.errors);
    }

    fn bytes(&self) -> u64 {
        self.lengths.iter().map(|&length| u64::from(length)).sum()
    }
}

/// Memory for records of both codings of a batch.
struct Compared {
    tokens: CudaSlice<u8>,
    others: CudaSlice<u8>,
}

impl Compressor<'_> {
    /// Compresses an array whose bound is resolved.
    pub(super) fn compress_token_codes(
        &mut self,
        input: &CudaView<'_, u8>,
        (element_type, shape): (ElementType, Shape),
        options: &CompressOptions,
        mut resolved: Resolved,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Compressed> {
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: compress_bound(element_type, shape), available });
        }
        let geometry = Geometry::new(shape);
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        let goal = match options.bound {
            Bound::Psnr(target) => Some(PsnrGoal::new(target, &resolved)),
            _ => None,
        };
        let mut attempt = 0;
        loop {
            if resolved.pipeline == Pipeline::Lossless {
                return Err(CudaError::Lossless("no quantization step serves this bound".into()));
            }
            let header = Header {
                group_log2: options.group_log2,
                lzss_codes: self.coder.coder.lzss_codes(),
                token_codes: true,
                ..Header::new(element_type, shape, IndexKind::Symbol, &resolved)
            };
            let chunks = 0..geometry.chunks();
            let records = self.token_records(&header, &geometry, chunks, &slab, HEADER_LEN as u64, output)?;
            if let Some(tightened) =
                goal.as_ref().and_then(|goal| goal.next(element_type, &resolved, &records.total(), attempt))
            {
                (resolved, attempt) = (tightened, attempt + 1);
                continue;
            }
            let end = HEADER_LEN as u64 + records.bytes();
            let table = table_and_trailer(&header, &records.lengths);
            let needed = end + table.len() as u64;
            if needed > available {
                return Err(CudaError::NoRoom { needed, available });
            }
            for (at, bytes) in [(0, &header.to_bytes()[..]), (end, &table)] {
                let place = &mut output.slice_mut(at as usize..at as usize + bytes.len());
                self.stream.memcpy_htod(bytes, place).doing("writing the chunk table")?;
            }
            self.stream.synchronize().doing("waiting for compression")?;
            return Ok(Compressed { bytes: needed, header, resolved });
        }
    }

    /// Writes the records of some chunks from byte `start` of the output on. Does not wait for the last steps.
    pub(super) fn token_records(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        start: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<BatchRecords> {
        check_output(&self.stream, output)?;
        if chunks.start > chunks.end || chunks.end > geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of {}", geometry.chunks())));
        }
        if header.lzss_codes != self.coder.coder.lzss_codes() {
            return Err(CudaError::invalid("the header says otherwise of codes as LZSS tokens than the coder"));
        }
        let element_bytes = header.element_type.size() as u32;
        let compressor = match self.token_compressor.take().filter(|own| own.element_bytes() == element_bytes) {
            Some(own) => own,
            None => TokenCompressor::new(self.device, element_bytes)?,
        };
        let rewritable = self.coder.rewritable;
        self.token_compressor.insert(compressor).prepare(self.device, &self.stream, header, geometry, rewritable)?;
        let batch_bytes = if header.lzss_codes { self.batch_bytes.min(COMPARED_BYTES) } else { self.batch_bytes };
        let step = token_codes::chunks_of_batch(geometry, batch_bytes);
        let mut compared = header.lzss_codes.then(|| self.compared(geometry, step, element_bytes)).transpose()?;
        let mut records = BatchRecords::default();
        let mut at = start;
        for first in chunks.clone().step_by(step as usize) {
            let batch = first..chunks.end.min(first + step);
            let own = match &mut compared {
                None => self.token_batch(geometry, batch, slab, at, output)?,
                Some(compared) => self.compare(header, geometry, batch, slab, compared, at, output)?,
            };
            at += own.bytes();
            records.extend(own);
        }
        Ok(records)
    }

    /// Writes the records of a batch of chunks, all with token codebooks or raw.
    fn token_batch(
        &mut self,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        at: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<BatchRecords> {
        let Some(compressor) = &mut self.token_compressor else {
            return Err(CudaError::invalid("no stream was begun"));
        };
        compressor.batch(&mut self.arena.frame()?, geometry, chunks, slab, at, output)
    }

    /// Allocates memory for the records of both codings of `chunks` chunks.
    fn compared(&self, geometry: &Geometry, chunks: u64, element_bytes: u32) -> Result<Compared> {
        let chunk = u64::from(geometry.tiles_per_chunk()).min(geometry.tiles()) * geometry.unclipped_len();
        let chunk = chunk * u64::from(element_bytes) + (RECORD_HEADER_LEN + ALIGNMENT) as u64;
        let bytes = chunks.min(geometry.chunks()) * chunk.next_multiple_of(ALIGNMENT as u64);
        let allocate = || self.stream.alloc_zeros::<u8>(bytes.max(1) as usize).allocating(bytes);
        Ok(Compared { tokens: allocate()?, others: allocate()? })
    }

    /// Writes the shorter of the records with token codebooks and with other codings for each chunk of a batch; of
    /// equals those with token codebooks.
    #[expect(clippy::too_many_arguments, reason = "the chunks, where they come from and go to")]
    fn compare(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        compared: &mut Compared,
        at: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<BatchRecords> {
        let tokens = self.token_batch(geometry, chunks.clone(), slab, 0, &mut compared.tokens.as_view_mut())?;
        let others_header = Header { token_codes: false, ..header.clone() };
        let others = self.chunk_records(&others_header, geometry, chunks, slab, &mut compared.others.as_view_mut())?;
        let mut chosen = BatchRecords::default();
        let mut copies = Copies::default();
        let mut from = [compared.tokens.device_ptr(&self.stream).0, compared.others.device_ptr(&self.stream).0];
        let to = output.device_ptr_mut(&self.stream).0;
        let mut end = at;
        for number in 0..tokens.lengths.len() {
            let lengths = [tokens.lengths[number], others.lengths[number]];
            let which = usize::from(lengths[1] < lengths[0]);
            let length = lengths[which];
            if end + u64::from(length) <= output.len() as u64 {
                copies.add(from[which], to + end, length.into());
            }
            end += u64::from(length);
            chosen.lengths.push(length);
            chosen.errors.push([&tokens, &others][which].errors[number]);
            from.iter_mut().zip(lengths).for_each(|(from, length)| *from += u64::from(length));
        }
        if end > output.len() as u64 {
            return Err(CudaError::NoRoom { needed: end, available: output.len() as u64 });
        }
        Transfer::new(self.device)?.copy(&self.stream, &copies)?;
        Ok(chosen)
    }

    /// Returns the bytes of device memory that compressing such an array with token codebooks takes.
    pub(super) fn needed_token_workspace(&self, header: &Header, geometry: &Geometry) -> u64 {
        if !header.lzss_codes {
            return token_codes::needed_workspace(geometry, self.batch_bytes);
        }
        let others = Header { token_codes: false, ..header.clone() };
        let tokens = token_codes::needed_workspace(geometry, self.batch_bytes.min(COMPARED_BYTES));
        // Memory for both codings' records is less than four times the codes of a batch.
        tokens.max(self.needed_workspace(&others, geometry)) + 4 * COMPARED_BYTES
    }
}
