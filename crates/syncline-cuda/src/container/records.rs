//! Chunk records from the parts of their chunks: launchers of `kernels/container_{layout,write,table}.cu`.

use std::mem::{offset_of, size_of};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits,
};

use super::hash::{Gap, Hasher, Pieces};
use syncline_core::container::{ALIGNMENT, ChunkKind, HEADER_LEN, RECORD_HEADER_LEN, SECTIONS};

use crate::device::{Device, Frame, Kernel, Pinned, Source, Specialization, Successive};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::huffman::encode::{Batch, Encoded, Plan};
use crate::quantize::ChunkSummary;

const LAYOUT: Source = Source { name: "container_layout.cu", text: include_str!("../../kernels/container_layout.cu") };
const WRITE: Source = Source { name: "container_write.cu", text: include_str!("../../kernels/container_write.cu") };
const TABLE: Source = Source { name: "container_table.cu", text: include_str!("../../kernels/container_table.cu") };
const THREADS: u32 = 1024;
/// Threads of a block that writes records, beside the many blocks that write codes.
const WRITE_THREADS: u32 = 512;
/// Blocks that write a record: the more the sooner, while there are few records.
const BLOCKS_OF_RECORD: u32 = 8;

/// Section of the codes.
const CODES_SECTION: usize = 3;
const STATUS_BAD_STREAM: u32 = 1;
/// Words of 64 bits that say how far a stream is written.
const STATE_WORDS: usize = 2;

pub(super) fn specializations() -> Vec<Specialization> {
    let of_elements = |bytes| [layout_specialization(bytes), write_specialization(bytes)];
    of_elements(4).into_iter().chain(of_elements(8)).chain([table_specialization()]).collect()
}

fn layout_specialization(element_bytes: u64) -> Specialization {
    let word = |bytes: usize| (bytes / size_of::<u32>()) as u64;
    let constants = vec![
        ("THREADS", THREADS.into()),
        ("ELEMENT_BYTES", element_bytes),
        ("PLAN_WORDS", word(size_of::<Plan>())),
        ("PLAN_CODEBOOKS", word(offset_of!(Plan, codebooks))),
        ("PLAN_BYTES", word(offset_of!(Plan, stream_bytes))),
        ("PLAN_STATUS", word(offset_of!(Plan, status))),
    ];
    Specialization { source: LAYOUT, constants }
}

fn write_specialization(element_bytes: u64) -> Specialization {
    Specialization {
        source: WRITE,
        constants: vec![("THREADS", WRITE_THREADS.into()), ("ELEMENT_BYTES", element_bytes)],
    }
}

fn table_specialization() -> Specialization {
    let word = |bytes: usize| (bytes / size_of::<u32>()) as u64;
    let constants = vec![
        ("THREADS", THREADS.into()),
        ("SUMMARY_WORDS", word(size_of::<ChunkSummary>())),
        ("SUMMARY_GROUPS", word(offset_of!(ChunkSummary, groups))),
        ("SUMMARY_OUTLIERS", word(offset_of!(ChunkSummary, outliers))),
        ("SUMMARY_VERBATIM", word(offset_of!(ChunkSummary, verbatim))),
        ("SUMMARY_MASKS", word(offset_of!(ChunkSummary, mask_bytes))),
        ("SUMMARY_SIGNS", word(offset_of!(ChunkSummary, sign_bytes))),
        ("SUMMARY_RADIUS", word(offset_of!(ChunkSummary, radius))),
        ("STREAM_HEADER", HEADER_LEN as u64),
    ];
    Specialization { source: TABLE, constants }
}

/// What quantising says of a chunk, and where that goes: `ChunkParts` in container_record.cuh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChunkParts {
    first: [u64; 2],
    rest: [u32; 8],
}

// SAFETY: plain numbers without padding, laid out as `ChunkParts` in container_record.cuh.
unsafe impl DeviceRepr for ChunkParts {}

/// What a chunk comes to with its codes as LZSS tokens: `TokenParts` in container_record.cuh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct TokenParts {
    /// In the batch's list of outliers of the narrow codes.
    pub first_outlier: u64,
    /// How many the chunk has.
    pub outliers: u32,
    /// Bytes of its section of codes; 0: there are no tokens.
    pub bytes: u32,
}

// SAFETY: plain numbers without padding, laid out as `TokenParts` in container_record.cuh.
unsafe impl DeviceRepr for TokenParts {}

/// What records of LZSS tokens have in place of the outliers that others have.
pub(crate) struct TokenLists<'t> {
    /// Of each chunk of the batch.
    pub parts: CudaView<'t, TokenParts>,
    /// Positions of outliers in their chunks.
    pub positions: CudaView<'t, u32>,
    /// Their residuals.
    pub residuals: CudaView<'t, i32>,
}

/// `RecordPlan` in container_record.cuh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RecordPlan {
    place: u64,
    bytes: u32,
    kind: u32,
    flags: u32,
    live: u32,
    lengths: [u32; 10],
    status: u32,
    unused: u32,
}

// SAFETY: plain numbers without padding, laid out as `RecordPlan` in container_record.cuh.
unsafe impl DeviceRepr for RecordPlan {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for RecordPlan {}

impl RecordPlan {
    /// Where the codes go, if they are LZSS tokens.
    fn token_place(&self) -> Option<u64> {
        let head = RECORD_HEADER_LEN + SECTIONS * size_of::<u32>();
        let lengths = self.lengths[..CODES_SECTION].iter().map(|&bytes| u64::from(bytes));
        let parts = std::iter::once(head as u64).chain(lengths).map(|bytes| bytes.next_multiple_of(ALIGNMENT as u64));
        (self.kind == ChunkKind::LzssCodes as u32).then(|| self.place + parts.sum::<u64>())
    }
}

/// `Streams` in container_layout.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct StreamsPointers {
    plans: CUdeviceptr,
    places: CUdeviceptr,
}

/// `Sources` in container_layout.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct SourcesPointers {
    parts: CUdeviceptr,
    tiles: CUdeviceptr,
    streams: [StreamsPointers; 4],
    narrow_streams: u64,
    tokens: CUdeviceptr,
}

// SAFETY: addresses and a number of 32 bits, padded to 64, as `Sources` has.
unsafe impl DeviceRepr for SourcesPointers {}

/// `Output` in container_layout.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct OutputPointers {
    room: u64,
    start: u64,
    state: CUdeviceptr,
    starts: CUdeviceptr,
    lengths: CUdeviceptr,
    begins: u64,
}

// SAFETY: numbers and addresses, the last of 32 bits and padded, as `Output` has.
unsafe impl DeviceRepr for OutputPointers {}

/// `TileSums` in container_record.cuh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct TileSums([u32; 4]);

// SAFETY: plain numbers without padding, laid out as `TileSums` in container_record.cuh.
unsafe impl DeviceRepr for TileSums {}

/// What quantising has left of each tile.
#[derive(Debug)]
pub struct Tiles<'v, 'a> {
    /// What each tile is.
    pub metas: &'v mut CudaViewMut<'a, u16>,
    /// The base of each.
    pub bases: &'v CudaView<'v, i32>,
    /// Outliers and verbatim values of each, if somebody will ask. Of chunks that will be raw these and the metas are cleared, so that nobody gathers for them.
    pub counts: Option<[&'v mut CudaViewMut<'a, u16>; 2]>,
}

/// `TileArrays` in container_table.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct TilePointers([CUdeviceptr; 4]);

// SAFETY: four addresses, as `TileArrays` has.
unsafe impl DeviceRepr for TilePointers {}

/// `StreamHeader` in container_table.cu.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct StreamHeader([u8; HEADER_LEN]);

// SAFETY: as many bytes as `StreamHeader` has, aligned like it.
unsafe impl DeviceRepr for StreamHeader {}

/// `Lists` in container_write.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct ListsPointers([CUdeviceptr; 7]);

// SAFETY: seven addresses, as `Lists` has.
unsafe impl DeviceRepr for ListsPointers {}

/// `Told` in container_table.cu.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Told {
    bytes: u64,
    status: u64,
    /// The number of the stream, written last.
    number: u64,
}

// SAFETY: three u64, laid out as `Told` in container_table.cu.
unsafe impl DeviceRepr for Told {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for Told {}

/// How far a stream is written: lives in device memory from the first batch of chunks to the last.
#[derive(Debug)]
pub struct Progress {
    /// Where the next record starts in the output; the status.
    state: CudaSlice<u64>,
    /// Bytes of each record.
    lengths: CudaSlice<u32>,
    /// Where the host reads both, made when it first does.
    host: Option<(Pinned<u64>, Pinned<u32>)>,
    told: Pinned<Told>,
    stream: Arc<CudaStream>,
    /// Streams so far.
    number: u64,
    /// Where the first record starts.
    start: u64,
    /// Whether a batch has been laid out.
    begun: bool,
}

/// What a stream came out as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes that the output must have.
    pub bytes: u64,
    /// Whether it has as many: if not, it does not hold a stream.
    pub fits: bool,
}

impl Progress {
    /// For streams of up to `chunks` chunks.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, chunks: u64) -> Result<Self> {
        let length = usize::try_from(chunks).unwrap_or(usize::MAX).max(1);
        let told = Pinned::new(stream, 1)?;
        let allocate = || {
            let state = stream.alloc_zeros(STATE_WORDS)?;
            let lengths = stream.alloc_zeros(length)?;
            Ok(Self { state, lengths, host: None, told, stream: stream.clone(), number: 0, start: 0, begun: false })
        };
        allocate().map_err(|_: cudarc::driver::DriverError| CudaError::OutOfMemory { bytes: 4 * chunks })
    }

    /// Begins a stream whose records start at byte `start` of the output, a multiple of 16.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`].
    pub fn start(&mut self, start: u64) -> Result<()> {
        if !start.is_multiple_of(ALIGNMENT as u64) {
            return Err(CudaError::invalid("records start on multiples of 16"));
        }
        (self.start, self.begun) = (start, false);
        Ok(())
    }

    /// Chunks that there is room for.
    pub fn chunks(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// Where the records end, and the bytes of the first `count` of them, which waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if there are fewer, or a Huffman stream is not valid, which those of quantised codes never are.
    pub fn records(&mut self, count: u64) -> Result<(Outcome, Vec<u32>)> {
        if !self.begun {
            return Ok((Outcome { bytes: self.start, fits: true }, Vec::new()));
        }
        let count = usize::try_from(count).ok().filter(|&count| count <= self.lengths.len());
        let count = count.ok_or_else(|| CudaError::invalid("there is room for fewer chunks"))?;
        let (states, lengths) = match &mut self.host {
            Some(host) => host,
            None => {
                let lengths = Pinned::new(&self.stream, self.lengths.len())?;
                self.host.insert((Pinned::new(&self.stream, STATE_WORDS)?, lengths))
            }
        };
        // Both are there when the second is.
        lengths.read(&self.lengths.slice(..count))?;
        states.read(&self.state)?;
        let state = states.wait()?;
        let outcome = Self::outcome_of(state[0], state[1])?;
        Ok((outcome, lengths.wait()?[..count].to_vec()))
    }

    /// What [`RecordWriter::finish`] has said, which waits for the stream.
    ///
    /// # Errors
    /// As [`Self::records`].
    pub fn outcome(&self) -> Result<Outcome> {
        let told = self.told.wait_for(offset_of!(Told, number), self.number)?[0];
        Self::outcome_of(told.bytes, told.status)
    }

    fn outcome_of(bytes: u64, status: u64) -> Result<Outcome> {
        let status = status as u32;
        if status & STATUS_BAD_STREAM != 0 {
            return Err(CudaError::invalid("symbols without a codeword in a chunk"));
        }
        Ok(Outcome { bytes, fits: status == 0 })
    }
}

/// The values that stand beside the codes, for all chunks of a batch one after another.
#[derive(Debug)]
pub struct Lists<'a> {
    /// Positions of outliers in their chunks.
    pub outlier_positions: CudaView<'a, u32>,
    /// Their residuals.
    pub outlier_residuals: CudaView<'a, i32>,
    /// Positions of verbatim values in their chunks.
    pub verbatim_positions: CudaView<'a, u32>,
    /// Their bytes.
    pub verbatim_values: CudaView<'a, u8>,
}

/// What the records of a batch are made of, but for the Huffman streams.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The array's tiling.
    pub geometry: DeviceGeometry,
    /// The chunks.
    pub batch: ChunkBatch,
    /// What each tile is.
    pub metas: &'a CudaView<'a, u16>,
    /// The base of each tile.
    pub bases: &'a CudaView<'a, i32>,
    /// Outliers and verbatim values.
    pub lists: &'a Lists<'a>,
    /// Elements of the array, with all of the chunks.
    pub slab: &'a Slab<'a>,
}

impl Contents<'_> {
    /// Most elements that a chunk of the batch may have.
    pub fn most_chunk_elements(&self) -> u64 {
        u64::from(self.batch.slots()) << self.geometry.group_log2()
    }
}

/// The streams of a batch, laid out: those of codes with the usual radius, one a chunk, and of the chunks that have them those with the wide one, masks, signs.
pub struct Streams<'a> {
    /// One for each chunk, in order.
    pub narrow: &'a mut Encoded,
    /// With the wide radius.
    pub wide: Option<&'a mut Encoded>,
    /// Bitmaps of masks.
    pub masks: Option<&'a mut Encoded>,
    /// Bitmaps of signs.
    pub signs: Option<&'a mut Encoded>,
}

/// What follows from the summaries and tiles of a batch, in device memory.
#[derive(Debug)]
pub struct Prepared<'a> {
    parts: CudaViewMut<'a, ChunkParts>,
    tiles: CudaViewMut<'a, TileSums>,
    /// How far hashing is.
    progress: CudaViewMut<'a, u64>,
}

/// Writes records.
///
/// Kernels in the order of layout, the encoders' writing of streams, writing and signing.
#[derive(Debug)]
pub struct RecordWriter {
    element_bytes: u32,
    layout: Kernel,
    write: Kernel,
    table: Kernel,
    begin: Kernel,
    hasher: Hasher,
    blocks_at_a_time: u32,
}

/// Records that are laid out but not yet written.
pub struct RecordLayout<'a> {
    plans: CudaViewMut<'a, RecordPlan>,
    starts: CudaViewMut<'a, u64>,
    first_chunk: u64,
    chunks: u32,
}

impl RecordLayout<'_> {
    /// Where the codes go of the chunks that have tokens, which waits for the stream.
    pub(crate) fn read_token_places(&self, stream: &Arc<CudaStream>) -> Result<Vec<Option<u64>>> {
        let plans = stream.clone_dtoh(&self.plans).doing("reading where records are")?;
        stream.synchronize().doing("reading where records are")?;
        Ok(plans.iter().map(RecordPlan::token_place).collect())
    }
}

impl RecordWriter {
    /// For arrays of elements of 4 or 8 bytes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for other elements; errors of [`Device::kernel`].
    pub fn new(device: &Device, element_bytes: u32) -> Result<Self> {
        if !matches!(element_bytes, 4 | 8) {
            return Err(CudaError::invalid("elements have 4 or 8 bytes"));
        }
        Ok(Self {
            element_bytes,
            layout: device.kernel(&layout_specialization(element_bytes.into()), "record_layout")?,
            write: device.kernel(&write_specialization(element_bytes.into()), "record_write")?,
            table: device.kernel(&table_specialization(), "record_table")?,
            begin: device.kernel(&table_specialization(), "record_begin")?,
            hasher: Hasher::new(device)?,
            blocks_at_a_time: device.info().multiprocessors * 2,
        })
    }

    /// Writes what follows from the summaries and tiles of a batch: the list of the streams of its codes, the parts of each chunk, and the summaries to the host. Clears `control`,
    /// if it is given.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are fewer summaries, streams or tiles than chunks have; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    #[expect(clippy::too_many_arguments, reason = "the batch in its parts, and where they go")]
    pub(crate) fn begin<'a>(
        &self,
        frame: &mut Frame<'a>,
        geometry: &DeviceGeometry,
        batch: &ChunkBatch,
        summaries: &CudaView<'_, ChunkSummary>,
        streams: &mut Batch,
        tiles: Tiles<'_, '_>,
        control: Option<&mut CudaViewMut<'_, u32>>,
        host: Option<&mut Pinned<ChunkSummary>>,
    ) -> Result<Prepared<'a>> {
        let stream = frame.stream().clone();
        let (count, chunks) = (streams.streams(), batch.chunks() as usize);
        let few = host.as_ref().is_some_and(|host| host.len() < chunks);
        if few || summaries.len() < chunks || count < batch.chunks() || batch.slots() > streams.most_groups() {
            return Err(CudaError::invalid("a stream and a summary for each chunk"));
        }
        let Tiles { metas, bases, counts } = tiles;
        let few = |length: usize| length < batch.tiles() as usize;
        if few(metas.len()) || few(bases.len()) || counts.as_ref().is_some_and(|all| all.iter().any(|c| few(c.len()))) {
            return Err(CudaError::invalid("a meta, a base and counts for each tile"));
        }
        let pointer = |counts: &mut CudaViewMut<'_, u16>| counts.device_ptr_mut(&stream).0;
        let [outliers, verbatim] = counts.map_or([0; 2], |counts| counts.map(pointer));
        let tiles = TilePointers([pointer(metas), bases.device_ptr(&stream).0, outliers, verbatim]);
        let mut prepared =
            Prepared { parts: frame.slice(chunks)?, tiles: frame.slice(chunks)?, progress: frame.slice(chunks)? };
        let (control, words) = match control {
            Some(control) => {
                let words = control.len() as u64;
                (control.device_ptr_mut(&stream).0, words)
            }
            None => (0, 0),
        };
        let host_pointer = host.as_ref().map_or(0, |host| host.device_pointer());
        let launch = Successive::new(&self.begin, &stream).value(*geometry).value(*batch).value(self.element_bytes);
        let launch = launch.reads(summaries).value(count).value(tiles).writes(streams.spans_mut());
        let launch = launch.writes(&mut prepared.parts).writes(&mut prepared.tiles).writes(&mut prepared.progress);
        let launch = launch.value(control).value(words).value(host_pointer);
        // SAFETY: the kernel's parameters are (Geometry, ChunkBatch, u32, const u32 *, u32, TileArrays, Span *, ChunkParts *, TileSums *, u64 *, u32 *, u64, u32 *); it reads and
        // clears what there is of the batch's tiles, reads a summary a chunk and writes `count` spans, of at most `slots` groups each from the chunk's slots on, parts, sums and a
        // word for each chunk, `words` words of `control`, and as many summaries to the host, which has room and waits for the event below. It waits at its start.
        unsafe { launch.launch(Kernel::grid(1 + batch.chunks(), THREADS, 0)) }?;
        if let Some(host) = host {
            host.written()?;
        }
        Ok(prepared)
    }

    /// Places the records of a batch behind those before, and its streams in them. `first` is the number of the batch's first chunk in `progress`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the parts do not fit together; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    #[expect(clippy::too_many_arguments, reason = "the batch in its parts, and where it goes")]
    pub(crate) fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        contents: &Contents<'_>,
        prepared: &Prepared<'_>,
        streams: &mut Streams<'_>,
        tokens: Option<&TokenLists<'_>>,
        progress: &mut Progress,
        first: u64,
        room: u64,
    ) -> Result<RecordLayout<'a>> {
        let stream = frame.stream().clone();
        let chunks = contents.batch.chunks();
        let tiles = contents.batch.tiles() as usize;
        if prepared.parts.len() < chunks as usize || contents.metas.len() < tiles || contents.bases.len() < tiles {
            return Err(CudaError::invalid("each chunk has parts, each tile a meta and a base"));
        }
        if streams.narrow.plans().len() < chunks as usize || progress.chunks() < first + u64::from(chunks) {
            return Err(CudaError::invalid("there is room for fewer chunks"));
        }
        if tokens.is_some_and(|tokens| tokens.parts.len() < chunks as usize) {
            return Err(CudaError::invalid("tokens of fewer chunks"));
        }
        let mut plans = frame.slice::<RecordPlan>(chunks as usize)?;
        let mut starts = frame.slice::<u64>(chunks as usize)?;
        if chunks == 0 {
            return Ok(RecordLayout { plans, starts, first_chunk: first, chunks });
        }
        let pointers = |encoded: Option<&mut Encoded>| match encoded {
            Some(encoded) => {
                let (plans, _) = encoded.plans().device_ptr(&stream);
                StreamsPointers { plans, places: encoded.places_mut().device_ptr_mut(&stream).0 }
            }
            None => StreamsPointers { plans: 0, places: 0 },
        };
        let sources = SourcesPointers {
            parts: prepared.parts.device_ptr(&stream).0,
            tiles: prepared.tiles.device_ptr(&stream).0,
            narrow_streams: streams.narrow.plans().len() as u64,
            streams: [
                pointers(Some(streams.narrow)),
                pointers(streams.wide.as_deref_mut()),
                pointers(streams.masks.as_deref_mut()),
                pointers(streams.signs.as_deref_mut()),
            ],
            tokens: tokens.map_or(0, |tokens| tokens.parts.device_ptr(&stream).0),
        };
        let begins = u64::from(!std::mem::replace(&mut progress.begun, true));
        let mut lengths = progress.lengths.slice_mut(first as usize..);
        let output = OutputPointers {
            room,
            start: progress.start,
            state: progress.state.device_ptr_mut(&stream).0,
            starts: starts.device_ptr_mut(&stream).0,
            lengths: lengths.device_ptr_mut(&stream).0,
            begins,
        };
        let launch = Successive::new(&self.layout, &stream).value(contents.geometry).value(contents.batch);
        let launch = launch.value(sources).value(output).writes(&mut plans);
        // SAFETY: the kernel's parameters are (Geometry, ChunkBatch, Sources, Output, RecordPlan *). There are parts, sums of tiles, a length and a plan for the batch's
        // chunks, a narrow stream for each; `Assembler` numbers the other streams by the batches that it makes of them. It waits at its start.
        unsafe { launch.launch(Kernel::grid(1, THREADS, 0)) }?;
        Ok(RecordLayout { plans, starts, first_chunk: first, chunks })
    }

    /// Writes everything of the records but the Huffman streams and the hashes.
    ///
    /// # Errors
    /// As [`Self::lay_out`].
    pub(crate) fn write(
        &self,
        stream: &Arc<CudaStream>,
        contents: &Contents<'_>,
        prepared: &Prepared<'_>,
        layout: &RecordLayout<'_>,
        tokens: Option<&TokenLists<'_>>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        if layout.chunks == 0 {
            return Ok(());
        }
        let lists = contents.lists;
        let narrow = tokens.map_or([0; 3], |tokens| {
            let TokenLists { parts, positions, residuals } = tokens;
            [parts.device_ptr(stream).0, positions.device_ptr(stream).0, residuals.device_ptr(stream).0]
        });
        let pointers = ListsPointers([
            lists.outlier_positions.device_ptr(stream).0,
            lists.outlier_residuals.device_ptr(stream).0,
            lists.verbatim_positions.device_ptr(stream).0,
            lists.verbatim_values.device_ptr(stream).0,
            narrow[0],
            narrow[1],
            narrow[2],
        ]);
        let blocks = BLOCKS_OF_RECORD.min(self.blocks_at_a_time.div_ceil(layout.chunks)).max(2);
        let (parts, plans) = (prepared.parts.as_view(), layout.plans.as_view());
        let launch = Successive::new(&self.write, stream).value(contents.geometry).value(contents.batch).reads(&parts);
        let launch = launch.reads(&plans).reads(contents.metas).reads(contents.bases).value(pointers);
        let launch = launch.reads(&contents.slab.bytes).value(contents.slab.first_element).value(blocks).writes(output);
        // SAFETY: the kernel's parameters are (Geometry, ChunkBatch, const ChunkParts *, const RecordPlan *, const u16 *, const i32 *, Lists, const Element *, u64, u32, u8 *).
        // Plans place records within the output or say that there is no room; metas, bases and parts are as `lay_out` checked; lists have what the parts say, and the
        // elements are those of the batch's chunks, which `Assembler` sees to. It waits at its start.
        unsafe { launch.launch(Kernel::grid(layout.chunks * blocks, WRITE_THREADS, 0)) }
    }

    /// Writes the hashes of the records, when all else of them is written. `scratch` is memory that nobody needs any more.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    #[expect(clippy::too_many_arguments, reason = "the records in their parts, and where to work")]
    pub fn sign(
        &self,
        frame: &mut Frame<'_>,
        prepared: &mut Prepared<'_>,
        layout: &RecordLayout<'_>,
        progress: &Progress,
        longest: u32,
        output: &mut CudaViewMut<'_, u8>,
        scratch: &mut CudaViewMut<'_, u16>,
    ) -> Result<()> {
        let first = layout.first_chunk as usize;
        let lengths = progress.lengths.slice(first..first + layout.chunks as usize);
        let starts = layout.starts.as_view();
        let pieces = Pieces { starts: &starts, lengths: &lengths, longest, gap: Gap::RECORD };
        self.hasher.sign_in(frame, output, &pieces, &mut prepared.progress, scratch)
    }

    /// Writes the header in front of the records, the chunk table and the trailer behind them, behind [`Self::sign`] of the last batch on the same stream.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are other chunks; [`CudaError::Driver`].
    pub fn finish(
        &self,
        stream: &Arc<CudaStream>,
        progress: &mut Progress,
        header: &[u8; HEADER_LEN],
        chunks: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        if chunks > progress.chunks() || progress.start != HEADER_LEN as u64 || progress.begun != (chunks > 0) {
            return Err(CudaError::invalid("the stream was begun with other chunks"));
        }
        let room = output.len() as u64;
        let header = StreamHeader(*header);
        progress.number += 1;
        let (number, told) = (progress.number, progress.told.device_pointer());
        let launch = Successive::new(&self.table, stream).value(header).reads(&progress.lengths).value(chunks);
        let launch = launch.reads(&progress.state).value(room).writes(output).value(number).value(told);
        // SAFETY: the kernel's parameters are (StreamHeader, const u32 *, u64, const u64 *, u64, u8 *, u64, Told *); it reads `chunks` lengths and the state, and writes only where
        // `room` bytes hold all that it writes, and what the host is told, which waits for the event below. It waits before it tells; the kernel before it, which hashes, has waited for all
        // that it reads and touches nothing that it writes, and if there is none it waits at its start.
        unsafe { launch.launch(Kernel::grid(1, THREADS, 0)) }?;
        progress.told.written()
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> u32 {
        self.element_bytes
    }
}
