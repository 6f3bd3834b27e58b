//! Compression on GPUs: elements through page-locked memory to slabs on the devices, records back in order.

mod kept;

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use syncline_core::array::ElementType;
use syncline_core::bound::scan::ScanResult;
use syncline_core::bound::{Bound, ErrorSummary, Pipeline, Resolved, Scan, resolve};
use syncline_core::container::{ALIGNMENT, Header, RECORD_HEADER_LEN};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::CoderOptions;
use syncline_cuda::CudaError;
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use syncline_cuda::device::Pinned;
use syncline_cuda::error::{DriverContext, Result as CudaResult};
use syncline_cuda::geometry::Slab;
use syncline_cuda::lossless::LosslessCompressor;
use syncline_cuda::pipeline::{ChunkRecords, Compressor, Sizing};
use syncline_cuda::quantize::{BoundScan, ScannedPart};

use self::kept::Kept;
pub(super) use self::kept::KeptLanes;
use super::load::Loader;
use super::plan::{chunk_batches, slab_of};
use super::{BUFFERS, Gpu, Gpus, Sizes, driver, failure, joined};
use crate::io::ReadAt;
use crate::options::{CompressOptions, Meter};
use crate::pool::Pool;
use crate::range::{empty_scan, resolve_by_scan};
use crate::source::ArraySource;

/// Device memory of a lane beside its slabs and records, for each byte of a batch's elements: what encoding takes, with
/// some room.
const WORKSPACE_SHARE: u64 = 2;
/// Device memory of a lane whatever its batches.
const WORKSPACE_BYTES: u64 = 128 << 20;

/// Elements of an array whose lane is kept for the next one: they are one chunk.
const MOST_KEPT_ELEMENTS: u64 = 1 << 20;
/// Bytes of the records of a lane that is kept, at least: those of all such arrays, unless their tiles are clipped
/// much.
const KEPT_ROOM: u64 = 8 * MOST_KEPT_ELEMENTS + 4096;

/// One array on its way through the devices.
pub(crate) struct Compression {
    element_type: ElementType,
    geometry: Geometry,
    coder: CoderOptions,
    batches: Vec<Range<u64>>,
    /// The lane of each batch.
    lane_of: Vec<usize>,
    lanes: Vec<Lane>,
    /// What the devices keep of the array, if they have room for all of it: it is read once then.
    parts: Option<Vec<Part>>,
    /// Whether the lane and the part go to the next compression of a small array.
    keeps: bool,
    /// Whether no work has failed or was abandoned.
    is_sound: bool,
}

/// A device's share of the array, in its memory.
struct Part {
    /// At least its elements.
    slab: CudaSlice<u8>,
    elements: Range<u64>,
    /// A lane of the device.
    loader: usize,
    element_type: ElementType,
    scan: BoundScan,
}

/// A stream of a device with all it needs.
struct Lane {
    gpu: &'static Gpu,
    stream: Arc<CudaStream>,
    compressor: Compressor<'static>,
    /// Made when first needed.
    lossless: Option<LosslessCompressor<'static>>,
    /// Index of the device's part.
    part: usize,
    /// For the elements of a batch, where they are not kept.
    slab: Option<CudaSlice<u8>>,
    records: CudaSlice<u8>,
    loader: Loader<'static>,
    outbound: Outbound,
}

/// A lane's buffers for records: they go to whoever writes them and come back.
struct Outbound {
    waiting: Vec<Pinned<u8>>,
    /// Buffers that there are.
    made: usize,
    bytes: usize,
}

/// What a lane hands over, batch by batch.
enum Made {
    Batch(ChunkRecords),
    /// So many bytes of its records, being copied to the buffer.
    Piece(Pinned<u8>, usize),
}

impl Compression {
    /// Gets memory and streams for an array.
    ///
    /// # Errors
    /// No memory for it on host or devices, or the driver's.
    pub(crate) fn new(
        gpus: &Gpus,
        element_type: ElementType,
        geometry: &Geometry,
        options: &CompressOptions,
    ) -> Result<Self> {
        let sizes = Sizes::default();
        let device_memory = options.device_memory_limit().unwrap_or(sizes.device_memory);
        Self::with_sizes(gpus, element_type, geometry, options, Sizes { device_memory, ..sizes })
    }

    pub(super) fn with_sizes(
        gpus: &Gpus,
        element_type: ElementType,
        geometry: &Geometry,
        options: &CompressOptions,
        sizes: Sizes,
    ) -> Result<Self> {
        let size = element_type.size() as u64;
        let batches = chunk_batches(geometry, size, sizes.batch);
        let devices = gpus.0.len().min(batches.len()).max(1);
        let share = |device: usize| batches.len() * device / devices..batches.len() * (device + 1) / devices;
        let slab_bytes = |chunks: &Range<u64>| {
            let slab = slab_of(geometry, chunks);
            (slab.end - slab.start) * size
        };
        let largest_slab = batches.iter().map(slab_bytes).max().unwrap_or(0);
        let room = batches.iter().map(|chunks| records_room(geometry, chunks, size)).max().unwrap_or(0);
        let lanes_each = sizes.lanes.min(batches.len().div_ceil(devices)).max(1);
        let piece = sizes.piece_bytes(lanes_each * devices, options.memory_limit())?;

        let parts: Vec<Range<u64>> = match batches.is_empty() {
            true => Vec::new(),
            false => (0..devices).map(share).map(|b| batches[b.start].start..batches[b.end - 1].end).collect(),
        };
        let lane_bytes = room + WORKSPACE_SHARE * room + WORKSPACE_BYTES;
        let keeps = geometry.elements() <= MOST_KEPT_ELEMENTS && options.memory_limit().is_none();
        let room = if keeps { room.max(KEPT_ROOM) } else { room };
        // What is not looked at beforehand need not be kept.
        let mut resident = !parts.is_empty() && options.bound() != Bound::Lossless;
        if keeps {
            resident &= largest_slab <= sizes.device_memory;
        }
        for (gpu, chunks) in gpus.0.iter().zip(&parts).filter(|_| !keeps) {
            let device = &gpu.device;
            device.context().bind_to_thread().map_err(driver)?;
            let (free, _) = device.context().mem_get_info().map_err(driver)?;
            resident &=
                slab_bytes(chunks) + lanes_each as u64 * lane_bytes <= (free as u64 / 10 * 9).min(sizes.device_memory);
        }
        let (mut lanes, mut kept_part) = (Vec::new(), None);
        for (part, &gpu) in gpus.0[..devices].iter().enumerate() {
            if options.memory_limit().is_some() {
                gpu.buffers.clear();
            }
            for _ in 0..lanes_each {
                let slab = if resident { 0 } else { largest_slab };
                let kept = if keeps { gpu.kept.take(room, piece) } else { None };
                let lane = match kept {
                    Some(Kept { lane, part }) => {
                        kept_part = part;
                        lane.with_slab(slab)
                    }
                    None => Lane::new(gpu, part, slab, room, piece),
                };
                lanes.push(lane.map_err(failure)?);
            }
        }
        let mut kept = |(part, chunks): (usize, &Range<u64>)| {
            let loader = part * lanes_each;
            let elements = slab_of(geometry, chunks);
            let bytes = (elements.end - elements.start) * size;
            let suits = |part: &Part| part.element_type == element_type && part.slab.len() as u64 >= bytes;
            if let Some(part) = kept_part.take().filter(suits) {
                return Ok(Part { elements, loader, ..part });
            }
            let room = if keeps { bytes.next_power_of_two() } else { bytes };
            let slab = allocate(&lanes[loader].stream, room).map_err(failure)?;
            let scan = BoundScan::new(&lanes[loader].gpu.device, element_type).map_err(failure)?;
            Ok(Part { slab, elements, loader, element_type, scan })
        };
        let parts = resident.then(|| parts.iter().enumerate().map(&mut kept).collect::<Result<_>>()).transpose()?;
        // Where the devices keep their shares, batches are where their elements are; else they go round.
        let lane_of = (0..batches.len())
            .map(|batch| match &parts {
                Some(_) => {
                    let device = (0..devices).find(|&d| share(d).contains(&batch)).unwrap_or(0);
                    device * lanes_each + (batch - share(device).start) % lanes_each
                }
                None => batch % devices * lanes_each + batch / devices % lanes_each,
            })
            .collect();
        let geometry = geometry.clone();
        let coder = options.coder_options();
        Ok(Self { element_type, geometry, coder, batches, lane_of, lanes, parts, keeps, is_sound: true })
    }

    /// Prepares for tiles of another size, if these are not those that it was made for. Devices no longer keep the
    /// array then: it is read again.
    pub(crate) fn with_geometry(self, gpus: &Gpus, geometry: &Geometry, options: &CompressOptions) -> Result<Self> {
        if self.geometry.tile_size() == geometry.tile_size() {
            return Ok(self);
        }
        let element_type = self.element_type;
        // Its memory is free for what follows.
        drop(self);
        let sizes = Sizes { device_memory: 0, ..Sizes::default() };
        Self::with_sizes(gpus, element_type, geometry, options, sizes)
    }

    /// Resolves the bound by a look at all elements: on the devices, if these can keep them.
    pub(crate) fn resolve<S: ReadAt + ?Sized>(
        &mut self,
        array: &ArraySource<S>,
        options: &CompressOptions,
        pool: &Pool,
    ) -> Result<Resolved> {
        let len = self.geometry.elements();
        if self.parts.is_none() {
            return resolve_by_scan(array, self.element_type, len, options, pool);
        }
        let mut empty = empty_scan(self.element_type, len, options)?;
        let found = self.look(&empty, Some((array, pool.threads())))?;
        found.iter().for_each(|part| part.add_values(&mut empty));
        let nothing_to_load = None::<(&ArraySource<S>, usize)>;
        let scan = empty.settle_result(&merged(&found)?, |again| merged(&self.look(again, nothing_to_load)?))?;
        resolve(&scan, options.rewritable())
    }

    /// What is in the array, part by part; each is first loaded to its device, if there is something to load it from.
    fn look<S: ReadAt + ?Sized>(
        &mut self,
        empty: &Scan,
        load_from: Option<(&ArraySource<S>, usize)>,
    ) -> Result<Vec<ScannedPart>> {
        self.is_sound = false;
        let parts = self.parts.as_mut().map_or(&mut [][..], Vec::as_mut_slice);
        // Each device looks at its elements up to where the next one's start, so that none is counted twice.
        let starts = parts.iter().skip(1).map(|part| part.elements.start).chain([self.geometry.elements()]);
        let starts: Vec<u64> = starts.collect();
        let size = self.element_type.size() as u64;
        let load_from = load_from.map(|(array, threads)| (array, threads.div_ceil(starts.len())));
        let mut lanes: Vec<Option<&mut Lane>> = self.lanes.iter_mut().map(Some).collect();
        std::thread::scope(|scope| {
            let looking: Vec<_> = (parts.iter_mut().zip(&starts))
                .filter_map(|(part, &end)| {
                    let lane = lanes[part.loader].take()?;
                    Some(scope.spawn(move || {
                        if let Some((array, threads)) = load_from {
                            load(&mut lane.loader, array, threads, &part.elements, &mut part.slab.as_view_mut())?;
                        }
                        let bytes = ((end - part.elements.start) * size) as usize;
                        let elements = part.slab.slice(..bytes);
                        part.scan.scan_range(&lane.stream, &elements, part.elements.start, empty).map_err(failure)
                    }))
                })
                .collect();
            looking.into_iter().map(joined).collect::<Result<Vec<_>>>()
        })
        .inspect(|_: &Vec<ScannedPart>| self.is_sound = true)
    }

    /// Compresses all chunks; `write` gets their records' bytes in order. Returns the records' lengths, and the chunks'
    /// summaries added up.
    pub(crate) fn compress<S: ReadAt + ?Sized>(
        &mut self,
        array: &ArraySource<S>,
        header: &Header,
        pool: &Pool,
        meter: &Meter,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(Vec<u32>, ErrorSummary)> {
        let threads = pool.threads().div_ceil(self.lanes.len().max(1));
        self.is_sound = false;
        let (geometry, batches, lane_of, parts) = (&self.geometry, &self.batches, &self.lane_of, &self.parts);
        let job = Job { array, header, geometry, coder: &self.coder, threads };
        std::thread::scope(|scope| {
            let mut ends = Vec::new();
            for (number, lane) in self.lanes.iter_mut().enumerate() {
                let (made, take) = channel();
                let (give_back, returned) = channel();
                ends.push((take, give_back));
                let mine = batches.iter().zip(lane_of).filter(move |(_, of)| **of == number).map(|(batch, _)| batch);
                let part = parts.as_ref().and_then(|parts| parts.get(lane.part));
                let job = &job;
                scope.spawn(move || {
                    if let Err(error) = lane.run(job, part, mine, &made, &returned) {
                        // If nobody listens any more, another error came first.
                        let _ = made.send(Err(error));
                    }
                    // Buffers that were handed over and not used up come back for the next run.
                    drop(made);
                    lane.outbound.waiting.extend(returned);
                });
            }
            let mut lengths = Vec::new();
            let mut total = ErrorSummary::default();
            for (batch, &lane) in batches.iter().zip(lane_of) {
                let (take, give_back) = &ends[lane];
                let next = || take.recv().unwrap_or_else(|_| Err(Error::gpu("a thread of the GPU's work ended early")));
                let Made::Batch(ChunkRecords { lengths: batch_lengths, errors }) = next()? else {
                    return Err(Error::gpu("records without their lengths"));
                };
                let mut left: u64 = batch_lengths.iter().map(|&length| u64::from(length)).sum();
                lengths.extend(batch_lengths);
                total.squared_error += errors.squared_error;
                total.counted += errors.counted;
                while left > 0 {
                    let Made::Piece(buffer, length) = next()? else {
                        return Err(Error::gpu("records that are too short"));
                    };
                    write(&buffer.wait().map_err(failure)?[..length])?;
                    left -= length as u64;
                    let _ = give_back.send(buffer);
                }
                meter.advance(batch.clone().map(|chunk| geometry.chunk_elements(chunk)).sum())?;
            }
            Ok((lengths, total))
        })
        .inspect(|_| self.is_sound = true)
    }
}

impl Drop for Compression {
    fn drop(&mut self) {
        if !self.keeps || !self.is_sound {
            return;
        }
        let mut parts = self.parts.take().into_iter().flatten();
        for lane in self.lanes.drain(..) {
            let gpu = lane.gpu;
            gpu.kept.give_back(Kept { lane, part: parts.next() });
        }
    }
}

/// Combines what was found in all parts of an array.
fn merged(parts: &[ScannedPart]) -> Result<ScanResult> {
    let results = parts.iter().map(|part| part.result);
    results.reduce(ScanResult::merge).ok_or_else(|| Error::gpu("an array without parts"))
}

/// What all lanes work on.
struct Job<'a, S: ?Sized> {
    array: &'a ArraySource<'a, S>,
    header: &'a Header,
    geometry: &'a Geometry,
    coder: &'a CoderOptions,
    /// Threads that read for a lane.
    threads: usize,
}

impl Lane {
    fn new(gpu: &'static Gpu, part: usize, slab: u64, records: u64, piece: usize) -> CudaResult<Self> {
        let stream = gpu.device.context().new_stream().doing("making a stream")?;
        Ok(Self {
            gpu,
            compressor: Compressor::new(&gpu.device, &stream, Sizing::Measured)?,
            lossless: None,
            part,
            slab: (slab > 0).then(|| allocate(&stream, slab)).transpose()?,
            records: allocate(&stream, records)?,
            loader: Loader::new(gpu, &stream, piece),
            outbound: Outbound { waiting: Vec::with_capacity(BUFFERS), made: 0, bytes: piece },
            stream,
        })
    }

    /// Returns the lane with a slab of at least so many bytes, if these are not 0.
    fn with_slab(mut self, slab: u64) -> CudaResult<Self> {
        if slab > 0 && self.slab.as_ref().is_none_or(|own| (own.len() as u64) < slab) {
            self.slab = None;
            self.slab = Some(allocate(&self.stream, slab)?);
        }
        Ok(self)
    }

    /// Compresses the lane's batches one after another and hands over what they become.
    fn run<'b, S: ReadAt + ?Sized>(
        &mut self,
        job: &Job<'_, S>,
        part: Option<&Part>,
        batches: impl Iterator<Item = &'b Range<u64>>,
        made: &Sender<Result<Made>>,
        returned: &Receiver<Pinned<u8>>,
    ) -> Result<()> {
        for chunks in batches {
            let mut own = self.slab.take();
            let slab = match (part, &mut own) {
                (Some(part), _) => {
                    let bytes = (part.elements.end - part.elements.start) as usize * job.header.element_type.size();
                    Slab { bytes: part.slab.slice(..bytes), first_element: part.elements.start }
                }
                (None, Some(own)) => {
                    let elements = slab_of(job.geometry, chunks);
                    let slab = &mut own.as_view_mut();
                    load(&mut self.loader, job.array, job.threads, &elements, slab)?;
                    let bytes = (elements.end - elements.start) as usize * job.header.element_type.size();
                    Slab { bytes: own.slice(..bytes), first_element: elements.start }
                }
                (None, None) => return Err(Error::gpu("a batch without elements")),
            };
            let output = &mut self.records.as_view_mut();
            let compressed = if job.header.pipeline == Pipeline::Lossless {
                let compressor = match &mut self.lossless {
                    Some(compressor) => compressor,
                    none => none.insert(LosslessCompressor::new(&self.gpu.device, &self.stream).map_err(failure)?),
                };
                compressor.compress_chunks(job.header, job.geometry, job.coder, chunks.clone(), &slab, output)
            } else {
                let what = (chunks.clone(), job.coder.interpolates);
                self.compressor.compress_chunks(job.header, job.geometry, what, &slab, output)
            };
            let records = compressed.map_err(failure)?;
            self.slab = own;
            let length = records.lengths.iter().map(|&length| length as usize).sum();
            if made.send(Ok(Made::Batch(records))).is_err() {
                return Ok(());
            }
            let mut at = 0;
            while at < length {
                let Some(mut buffer) = self.buffer(returned)? else { return Ok(()) };
                let count = buffer.len().min(length - at);
                let piece: CudaView<u8> = self.records.slice(at..at + count);
                buffer.read(&piece).map_err(failure)?;
                at += count;
                if made.send(Ok(Made::Piece(buffer, count))).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Lane {
    /// A buffer for records: one that waits, a new one, or one that comes back. `None` if nobody writes any more.
    fn buffer(&mut self, returned: &Receiver<Pinned<u8>>) -> Result<Option<Pinned<u8>>> {
        let outbound = &mut self.outbound;
        if let Some(buffer) = outbound.waiting.pop().or_else(|| returned.try_recv().ok()) {
            return Ok(Some(buffer));
        }
        if outbound.made < BUFFERS {
            outbound.made += 1;
            return self.gpu.buffers.take(&self.stream, outbound.bytes).map(Some).map_err(failure);
        }
        Ok(returned.recv().ok())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // A slab is shared by lanes and remembers only who read it last: it must not be given back while this lane's
        // work is still queued. There is nobody to report to.
        let _ = self.stream.synchronize();
        self.outbound.waiting.drain(..).for_each(|buffer| self.gpu.buffers.give_back(buffer));
    }
}

/// Copies elements to the start of a slab.
fn load<S: ReadAt + ?Sized>(
    loader: &mut Loader<'_>,
    array: &ArraySource<S>,
    threads: usize,
    elements: &Range<u64>,
    slab: &mut CudaViewMut<'_, u8>,
) -> Result<()> {
    let size = array.element_size();
    let bytes = ((elements.end - elements.start) * size) as usize;
    loader.load(threads, bytes, slab, |offset, part| array.read(elements.start + offset / size, part))
}

/// Most bytes of the records of some chunks: all raw.
fn records_room(geometry: &Geometry, chunks: &Range<u64>, element_bytes: u64) -> u64 {
    let chunk = u64::from(geometry.tiles_per_chunk()) * geometry.unclipped_len();
    let chunk = chunk.min(geometry.elements()) * element_bytes;
    (chunks.end - chunks.start) * (chunk + (RECORD_HEADER_LEN + ALIGNMENT) as u64)
}

fn allocate(stream: &Arc<CudaStream>, bytes: u64) -> CudaResult<CudaSlice<u8>> {
    let length = usize::try_from(bytes.max(1)).map_err(|_| CudaError::OutOfMemory { bytes })?;
    stream.alloc_zeros::<u8>(length).allocating(bytes)
}
