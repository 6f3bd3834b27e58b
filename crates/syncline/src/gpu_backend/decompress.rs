//! Decompression on GPUs: records through page-locked memory to the devices, layers of tiles back.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use syncline_core::bound::Pipeline;
use syncline_core::error::Result;
use syncline_core::geometry::{Geometry, Region};
use syncline_cuda::Device;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use syncline_cuda::error::{DriverContext, Result as CudaResult};
use syncline_cuda::geometry::boxes::BoxPacker;
use syncline_cuda::lossless::LosslessDecompressor;
use syncline_cuda::pipeline::{Decompressor, StreamInfo};

use super::buffers::Ring;
use super::load::Loader;
use super::plan::{LayerBatch, Place, layer_batches};
use super::{BUFFERS, Gpu, Gpus, Sizes, failure, joined};
use crate::io::ReadAt;
use crate::options::Meter;
use crate::pool::Pool;

/// Takes elements as they come: number of the part, first element in the order of the region, bytes.
type Put<'p> = dyn Fn(usize, u64, &[u8]) -> Result<()> + Sync + 'p;

/// A region of one stream's array on its way through the devices.
pub(crate) struct Decompression<'g> {
    _gpus: &'g Gpus,
    info: StreamInfo,
    batches: Vec<LayerBatch>,
    lanes: Vec<Lane<'g>>,
}

/// What decompresses a stream of either kind.
pub(crate) enum Engine {
    Lossy(Box<Decompressor>),
    Lossless(Box<LosslessDecompressor>),
}

/// The decompressors of former streams, which hand their memory on to those of the same kind.
#[derive(Default)]
pub(crate) struct Former {
    lossy: Option<Box<Decompressor>>,
    lossless: Option<Box<LosslessDecompressor>>,
}

impl Former {
    /// Keeps the decompressor of a stream. Not to be called after an error: what a damaged stream states may make it
    /// large.
    pub(crate) fn keep(&mut self, engine: Engine) {
        match engine {
            Engine::Lossy(engine) => self.lossy = Some(engine),
            Engine::Lossless(engine) => self.lossless = Some(engine),
        }
    }

    /// Returns the bytes of device memory that are kept.
    #[cfg(test)]
    pub(crate) fn workspace_bytes(&self) -> usize {
        let lossy = self.lossy.as_ref().map_or(0, |kept| kept.workspace_bytes());
        lossy + self.lossless.as_ref().map_or(0, |kept| kept.workspace_bytes())
    }

    /// Frees the device memory that grows with the arrays.
    pub(crate) fn free_workspace(&mut self) {
        self.lossless = None;
        if let Some(decompressor) = &mut self.lossy {
            decompressor.free_workspace();
        }
    }
}

impl Engine {
    /// Returns what decompresses a stream.
    pub(crate) fn new(
        device: &Device,
        stream: &Arc<CudaStream>,
        info: &StreamInfo,
        former: &mut Former,
    ) -> CudaResult<Self> {
        Ok(match info.header().pipeline {
            Pipeline::Lossless => Self::Lossless(Box::new(match former.lossless.take() {
                Some(former) => former.for_stream(device, info)?,
                None => LosslessDecompressor::new(device, stream.clone(), info)?,
            })),
            Pipeline::Quantized | Pipeline::LogQuantized => Self::Lossy(Box::new(match former.lossy.take() {
                Some(former) => former.for_stream(device, info)?,
                None => Decompressor::new(device, stream.clone(), info)?,
            })),
        })
    }

    /// Decompresses a whole stream to memory for its array, and waits for it.
    pub(crate) fn array(&mut self, input: &CudaView<'_, u8>, output: &mut CudaViewMut<'_, u8>) -> CudaResult<()> {
        match self {
            Self::Lossy(engine) => {
                engine.decompress(input, output)?;
                engine.check()
            }
            Self::Lossless(engine) => {
                engine.decompress(input, output)?;
                engine.check()
            }
        }
    }

    /// Decompresses tiles to a slab that starts with element `first_element`, and waits for them.
    pub(crate) fn tiles(
        &mut self,
        input: &CudaView<'_, u8>,
        input_offset: u64,
        tiles: Range<u64>,
        slab: &mut CudaViewMut<'_, u8>,
        first_element: u64,
    ) -> CudaResult<()> {
        match self {
            Self::Lossy(engine) => {
                engine.decompress_tiles(input, input_offset, tiles, slab, first_element)?;
                engine.check()
            }
            Self::Lossless(engine) => {
                engine.decompress_tiles(input, input_offset, tiles, slab, first_element)?;
                engine.check()
            }
        }
    }
}

/// A stream of a device with all it needs.
struct Lane<'g> {
    engine: Engine,
    stream: Arc<CudaStream>,
    records: CudaSlice<u8>,
    slab: CudaSlice<u8>,
    /// The elements of boxes, for regions that are not one stretch of the array.
    packed: Option<(BoxPacker, CudaSlice<u8>)>,
    loader: Loader<'g>,
    outbound: Ring<'g>,
}

impl<'g> Decompression<'g> {
    /// Gets memory and streams for a region of a stream's array.
    ///
    /// # Errors
    /// No memory for it on host or devices, or the driver's.
    pub(crate) fn new<S: ReadAt + ?Sized>(
        gpus: &'g Gpus,
        source: &S,
        region: &Region,
        memory_limit: Option<u64>,
    ) -> Result<Self> {
        let batches = |geometry: &Geometry, element, batch| layer_batches(geometry, region, element, batch);
        Self::with_sizes(gpus, source, batches, memory_limit, Sizes::default())
    }

    pub(super) fn with_sizes<S: ReadAt + ?Sized>(
        gpus: &'g Gpus,
        source: &S,
        batches: impl FnOnce(&Geometry, u64, u64) -> Vec<LayerBatch>,
        memory_limit: Option<u64>,
        sizes: Sizes,
    ) -> Result<Self> {
        let info = StreamInfo::read(source.size()?, |offset, length| {
            let mut bytes = vec![0; length];
            source.read_exact_at(&mut bytes, offset)?;
            Ok(bytes)
        })
        .map_err(failure)?;
        let element_type = info.header().element_type;
        let batches = batches(info.geometry(), element_type.size() as u64, sizes.batch);
        let devices = gpus.0.len().min(batches.len()).max(1);
        let lanes_each = sizes.lanes.min(batches.len().div_ceil(devices)).max(1);
        let piece = sizes.piece_bytes(devices * lanes_each, memory_limit)?;
        if memory_limit.is_some() {
            gpus.0.iter().for_each(|gpu| gpu.buffers.clear());
        }
        let work = Work { info: &info, batches: &batches, piece };
        // Lane after lane goes to the next device, as batches go to the next lane.
        let devices = (0..lanes_each).flat_map(|_| gpus.0[..devices].iter());
        let lanes = devices.map(|gpu| Lane::new(gpu, &work)).collect::<Result<_>>()?;
        Ok(Self { _gpus: gpus, info, batches, lanes })
    }

    /// Elements that come as parts, as ranges in the order of the region, ascending.
    pub(crate) fn parts(&self) -> Vec<Range<u64>> {
        self.batches.iter().map(|batch| batch.part.clone()).collect()
    }

    /// Decompresses; `put` gets the elements of each part of [`Self::parts`], in pieces that come in order within the
    /// part, parts in any order and from several threads.
    pub(crate) fn run<S: ReadAt + ?Sized>(
        &mut self,
        source: &S,
        pool: &Pool,
        meter: &Meter,
        put: &Put<'_>,
    ) -> Result<()> {
        let threads = pool.threads().div_ceil(self.lanes.len());
        let job = Job { source, info: &self.info, batches: &self.batches, threads, meter, put };
        run(&mut self.lanes, &job)
    }
}

/// Bytes of the stream that a batch's records take.
fn record_range(info: &StreamInfo, batch: &LayerBatch) -> Range<u64> {
    info.bytes_of(info.chunks_of(batch.tiles.clone()))
}

/// What lanes need memory for.
struct Work<'a> {
    info: &'a StreamInfo,
    batches: &'a [LayerBatch],
    piece: usize,
}

/// What all lanes work on.
struct Job<'a, S: ?Sized> {
    source: &'a S,
    info: &'a StreamInfo,
    batches: &'a [LayerBatch],
    /// Threads that read for a lane.
    threads: usize,
    meter: &'a Meter<'a>,
    put: &'a Put<'a>,
}

fn run<S: ReadAt + ?Sized>(lanes: &mut [Lane<'_>], job: &Job<'_, S>) -> Result<()> {
    let count = lanes.len();
    let failed = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = lanes
            .iter_mut()
            .enumerate()
            .map(|(number, lane)| {
                scope.spawn(move || {
                    // After an error nobody begins another batch.
                    let mine = (number..job.batches.len()).step_by(count);
                    mine.take_while(|_| !failed.load(Ordering::Relaxed))
                        .try_for_each(|batch| lane.batch(job, batch))
                        .inspect_err(|_| failed.store(true, Ordering::Relaxed))
                })
            })
            .collect();
        threads.into_iter().map(joined).collect::<Vec<_>>().into_iter().collect()
    })
}

impl<'g> Lane<'g> {
    fn new(gpu: &'g Gpu, work: &Work<'_>) -> Result<Self> {
        Self::build(gpu, work).map_err(failure)
    }

    fn build(gpu: &'g Gpu, work: &Work<'_>) -> CudaResult<Self> {
        let device = &gpu.device;
        let stream = device.context().new_stream().doing("making a stream")?;
        let most = |length: &dyn Fn(&LayerBatch) -> Range<u64>| {
            let longest = work.batches.iter().map(|batch| length(batch).end - length(batch).start).max();
            longest.unwrap_or(0).max(1) as usize
        };
        let records = most(&|batch| record_range(work.info, batch));
        let size = work.info.header().element_type.size();
        let bytes = most(&|batch| batch.elements.clone()) * size;
        let packed = match work.batches.iter().any(|batch| matches!(batch.place, Place::Boxes(..))) {
            true => {
                let bytes = most(&|batch| batch.part.clone()) * size;
                let packer = BoxPacker::new(device, &stream, size as u64)?;
                Some((packer, stream.alloc_zeros(bytes).allocating(bytes as u64)?))
            }
            false => None,
        };
        Ok(Self {
            engine: Engine::new(device, &stream, work.info, &mut Former::default())?,
            records: stream.alloc_zeros(records).allocating(records as u64)?,
            slab: stream.alloc_zeros(bytes).allocating(bytes as u64)?,
            packed,
            loader: Loader::new(gpu, &stream, work.piece),
            outbound: Ring::new(gpu, &stream, work.piece),
            stream,
        })
    }

    fn batch<S: ReadAt + ?Sized>(&mut self, job: &Job<'_, S>, number: usize) -> Result<()> {
        let batch = &job.batches[number];
        let bytes = record_range(job.info, batch);
        let length = (bytes.end - bytes.start) as usize;
        let read = |offset: u64, part: &mut [u8]| Ok(job.source.read_exact_at(part, bytes.start + offset)?);
        self.loader.load(job.threads, length, &mut self.records.as_view_mut(), read)?;
        let input = self.records.slice(..length);
        let elements = batch.elements.clone();
        let size = job.info.header().element_type.size();
        let slab = &mut self.slab.slice_mut(..(elements.end - elements.start) as usize * size);
        // Nothing is handed on before it is known to be right.
        self.engine.tiles(&input, bytes.start, batch.tiles.clone(), slab, elements.start).map_err(failure)?;
        if let (Place::Boxes(boxes, shape), Some((packer, packed))) = (&batch.place, &mut self.packed) {
            packer.pack(boxes, *shape, &slab.as_view(), &mut packed.as_view_mut()).map_err(failure)?;
        }
        self.hand_out(job, number)
    }

    /// Copies a batch's elements back and hands them on, a piece while the next is being copied.
    fn hand_out<S: ?Sized>(&mut self, job: &Job<'_, S>, number: usize) -> Result<()> {
        let LayerBatch { part: wanted, place, .. } = &job.batches[number];
        let (made, first_made) = match (place, &self.packed) {
            (Place::From(first), _) => (&self.slab, *first),
            (Place::Boxes(..), Some((_, packed))) => (packed, 0),
            (Place::Boxes(..), None) => return Ok(()),
        };
        let size = job.info.header().element_type.size();
        let length = (self.outbound.bytes() / size) as u64;
        let pieces = || (wanted.start..wanted.end).step_by(length as usize).map(|at| at..(at + length).min(wanted.end));
        let mut ahead = pieces().take(BUFFERS);
        let first = self.outbound.turn();
        let queue = |outbound: &mut Ring, piece: Range<u64>| {
            let place = |element: u64| (first_made + element - wanted.start) as usize * size;
            let view = made.slice(place(piece.start)..place(piece.end));
            outbound.take_turn().and_then(|buffer| buffer.read(&view)).map_err(failure)
        };
        ahead.try_for_each(|piece| queue(&mut self.outbound, piece))?;
        let mut later = pieces().skip(BUFFERS);
        for (i, piece) in pieces().enumerate() {
            let bytes = (piece.end - piece.start) as usize * size;
            let buffer = self.outbound.taken(first + i);
            (job.put)(number, piece.start, &buffer.wait().map_err(failure)?[..bytes])?;
            job.meter.advance(piece.end - piece.start)?;
            if let Some(next) = later.next() {
                queue(&mut self.outbound, next)?;
            }
        }
        Ok(())
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        // Work may be queued after an error; what it uses must not go before it.
        let _ = self.stream.synchronize();
    }
}
