//! Chunk records from the parts of their chunks: launchers of `kernels/container/{layout,write}.cu`.

#![allow(unsafe_code)]

use std::mem::{offset_of, size_of};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits};

use syncline_core::container::{ALIGNMENT, ChunkKind, RECORD_HEADER_LEN, SECTIONS};

use super::hash::{Gap, Hasher, Pieces, Written};
use super::prepared::Prepared;
use super::progress::{self, Progress};

use crate::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, fetch, source};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::huffman::encode::{Encoded, Plan};
use crate::quantize::ChunkSummary;

const LAYOUT: Source = source!("container/layout.cu");
const WRITE: Source = source!("container/write.cu");
/// Threads of the block that lays records out, one a chunk: most batches have fewer chunks.
const LAYOUT_THREADS: u32 = 256;
/// Threads of a block that writes records, beside the many blocks that write codes.
const WRITE_THREADS: u32 = 512;
/// Blocks that write a record: the more the sooner, while there are few records. Where there are no lists two have all
/// there is, and others would be in the way of those that write codes.
const BLOCKS_OF_RECORD: u32 = 8;
const LEAST_BLOCKS_OF_RECORD: u32 = 2;

/// Section of the codes.
const CODES_SECTION: usize = 3;

pub(super) fn specializations() -> Vec<Specialization> {
    let of_elements = |bytes| [layout_specialization(bytes), write_specialization(bytes)];
    of_elements(4).into_iter().chain(of_elements(8)).chain([progress::specialization()]).collect()
}

fn layout_specialization(element_bytes: u64) -> Specialization {
    let word = |bytes: usize| (bytes / size_of::<u32>()) as u64;
    let constants = vec![
        ("THREADS", LAYOUT_THREADS.into()),
        ("ELEMENT_BYTES", element_bytes),
        ("PLAN_WORDS", word(size_of::<Plan>())),
        ("PLAN_GROUPS", word(offset_of!(Plan, groups))),
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

/// What a chunk has besides its tiles, and where that is: `ChunkParts` in container/record.cuh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChunkParts {
    first: [u64; 2],
    rest: [u32; 6],
}

// SAFETY: plain numbers without padding, laid out as `ChunkParts` in container/record.cuh.
unsafe impl DeviceRepr for ChunkParts {}

/// What a chunk comes to with its codes as LZSS tokens: `TokenParts` in container/record.cuh.
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

// SAFETY: plain numbers without padding, laid out as `TokenParts` in container/record.cuh.
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

/// `RecordPlan` in container/record.cuh.
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

// SAFETY: plain numbers without padding, laid out as `RecordPlan` in container/record.cuh.
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

/// `Streams` in container/layout.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct StreamsPointers {
    plans: CUdeviceptr,
    places: CUdeviceptr,
}

/// `Sources` in container/layout.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct SourcesPointers {
    summaries: CUdeviceptr,
    tiles: CUdeviceptr,
    streams: [StreamsPointers; 4],
    narrow_streams: u32,
    sums_of_chunk: u32,
    tokens: CUdeviceptr,
}

// SAFETY: addresses and two numbers of 32 bits, as `Sources` has.
unsafe impl DeviceRepr for SourcesPointers {}

/// `Output` in container/layout.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct OutputPointers {
    room: u64,
    start: u64,
    state: CUdeviceptr,
    starts: CUdeviceptr,
    lengths: CUdeviceptr,
    begins: u64,
    number: u64,
    streams_done: CUdeviceptr,
    unwritten: CUdeviceptr,
    signed: CUdeviceptr,
    groups_of_block: u32,
    blocks_of_record: u32,
    are_all: u64,
}

// SAFETY: words of 64 bits, and two of 32 bits side by side, as `Output` has.
unsafe impl DeviceRepr for OutputPointers {}

/// `Lists` in container/write.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct ListsPointers([CUdeviceptr; 7]);

// SAFETY: seven addresses, as `Lists` has.
unsafe impl DeviceRepr for ListsPointers {}

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

/// The streams of a batch, laid out: those of codes with the usual radius, one a chunk, and of the chunks that have
/// them those with the wide one, masks, signs.
pub struct Streams<'a> {
    /// One for each chunk, in order.
    pub narrow: &'a mut Encoded,
    /// With the wide radius.
    pub wide: Option<&'a mut Encoded>,
    /// Bitmaps of masks.
    pub masks: Option<&'a mut Encoded>,
    /// Bitmaps of signs.
    pub signs: Option<&'a mut Encoded>,
    /// Where those with the usual radius that are laid out are counted; 0: they are not.
    pub done: CUdeviceptr,
    /// The list of those.
    pub spans: CUdeviceptr,
    /// Groups of those that a block which writes streams has.
    pub groups_of_block: u32,
}

/// Writes records.
///
/// Kernels in the order of layout, the encoders' writing of streams, writing and signing.
#[derive(Debug)]
pub struct RecordWriter {
    element_bytes: u32,
    layout: Kernel,
    write: Kernel,
    hasher: Hasher,
    blocks_at_a_time: u32,
    /// Bytes of a group of codes.
    group_bytes: u32,
}

/// Records that are laid out but not yet written.
pub struct RecordLayout<'a> {
    parts: CudaViewMut<'a, ChunkParts>,
    plans: CudaViewMut<'a, RecordPlan>,
    starts: CudaViewMut<'a, u64>,
    /// Of each stream with the usual radius the blocks that have yet to write something of its record, if they are
    /// counted.
    unwritten: Option<CudaViewMut<'a, u32>>,
    spans: CUdeviceptr,
    first_chunk: u64,
    chunks: u32,
    /// Blocks that write a record.
    blocks: u32,
}

impl RecordLayout<'_> {
    /// Where it says of each stream with the usual radius how many blocks have yet to write something of its record; 0:
    /// nowhere.
    pub(crate) fn unwritten(&mut self, stream: &Arc<CudaStream>) -> CUdeviceptr {
        self.unwritten.as_mut().map_or(0, |unwritten| unwritten.device_ptr_mut(stream).0)
    }

    /// Where the codes go of the chunks that have tokens, which waits for the stream.
    pub(crate) fn read_token_places(&self, stream: &Arc<CudaStream>) -> Result<Vec<Option<u64>>> {
        let plans = fetch(stream, &self.plans, "reading where records are")?;
        Ok(plans.iter().map(RecordPlan::token_place).collect())
    }
}

impl RecordWriter {
    /// For arrays of elements of 4 or 8 bytes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for other elements; errors of [`Device::kernel`].
    pub fn new(device: &Device, element_bytes: u32, group_log2: u8) -> Result<Self> {
        if !matches!(element_bytes, 4 | 8) {
            return Err(CudaError::invalid("elements have 4 or 8 bytes"));
        }
        Ok(Self {
            element_bytes,
            layout: device.kernel(&layout_specialization(element_bytes.into()), "record_layout")?,
            write: device.kernel(&write_specialization(element_bytes.into()), "record_write")?,
            hasher: Hasher::new(device)?,
            blocks_at_a_time: device.info().multiprocessors * 2,
            group_bytes: (size_of::<u16>() as u32) << group_log2,
        })
    }

    /// Places the records of a batch behind those before, and its streams in them. `first` is the number of the batch's
    /// first chunk in `progress`. Without `any_lists` no chunk has outliers or verbatim values.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the parts do not fit together; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    #[expect(clippy::too_many_arguments, reason = "the batch in its parts, and where it goes")]
    pub(crate) fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        contents: &Contents<'_>,
        prepared: &Prepared<'_>,
        summaries: &CudaView<'_, ChunkSummary>,
        streams: &mut Streams<'_>,
        tokens: Option<&TokenLists<'_>>,
        any_lists: bool,
        progress: &mut Progress,
        first: u64,
        room: u64,
    ) -> Result<RecordLayout<'a>> {
        let stream = frame.stream().clone();
        let chunks = contents.batch.chunks();
        let tiles = contents.batch.tiles() as usize;
        let summarized = summaries.len() >= chunks as usize && prepared.chunks() >= chunks;
        if !summarized || contents.metas.len() < tiles || contents.bases.len() < tiles {
            return Err(CudaError::invalid("each chunk has a summary, each tile a meta and a base"));
        }
        if streams.narrow.plans().len() < chunks as usize || progress.chunks() < first + u64::from(chunks) {
            return Err(CudaError::invalid("there is room for fewer chunks"));
        }
        if tokens.is_some_and(|tokens| tokens.parts.len() < chunks as usize) {
            return Err(CudaError::invalid("tokens of fewer chunks"));
        }
        let mut parts = frame.slice::<ChunkParts>(chunks as usize)?;
        let mut plans = frame.slice::<RecordPlan>(chunks as usize)?;
        let mut starts = frame.slice::<u64>(chunks as usize)?;
        let most = if any_lists || tokens.is_some() { BLOCKS_OF_RECORD } else { LEAST_BLOCKS_OF_RECORD };
        let blocks = most.min(self.blocks_at_a_time.div_ceil(chunks.max(1))).max(LEAST_BLOCKS_OF_RECORD);
        let spans = streams.spans;
        if chunks == 0 {
            return Ok(RecordLayout {
                parts,
                plans,
                starts,
                unwritten: None,
                spans,
                first_chunk: first,
                chunks,
                blocks,
            });
        }
        let are_all = streams.wide.is_none() && streams.masks.is_none() && streams.signs.is_none() && tokens.is_none();
        let counted = streams.done != 0 && are_all;
        let mut unwritten = match counted {
            true => Some(frame.slice::<u32>(streams.narrow.plans().len())?),
            false => None,
        };
        let pointers = |encoded: Option<&mut Encoded>| match encoded {
            Some(encoded) => {
                let (plans, _) = encoded.plans().device_ptr(&stream);
                StreamsPointers { plans, places: encoded.places_mut().device_ptr_mut(&stream).0 }
            }
            None => StreamsPointers { plans: 0, places: 0 },
        };
        let sources = SourcesPointers {
            summaries: summaries.device_ptr(&stream).0,
            tiles: prepared.tiles().device_ptr(&stream).0,
            narrow_streams: streams.narrow.plans().len() as u32,
            sums_of_chunk: prepared.sums_of_chunk(),
            streams: [
                pointers(Some(streams.narrow)),
                pointers(streams.wide.as_deref_mut()),
                pointers(streams.masks.as_deref_mut()),
                pointers(streams.signs.as_deref_mut()),
            ],
            tokens: tokens.map_or(0, |tokens| tokens.parts.device_ptr(&stream).0),
        };
        let begins = u64::from(!std::mem::replace(&mut progress.begun, true));
        progress.batches += 1;
        let signed = progress.signed();
        let mut lengths = progress.lengths.slice_mut(first as usize..);
        let output = OutputPointers {
            room,
            start: progress.start,
            state: progress.state.device_ptr_mut(&stream).0,
            starts: starts.device_ptr_mut(&stream).0,
            lengths: lengths.device_ptr_mut(&stream).0,
            begins,
            number: progress.batches,
            streams_done: streams.done,
            unwritten: unwritten.as_mut().map_or(0, |unwritten| unwritten.device_ptr_mut(&stream).0),
            signed,
            groups_of_block: streams.groups_of_block,
            blocks_of_record: blocks,
            are_all: are_all.into(),
        };
        let launch =
            ProgrammaticDependentLaunch::new(&self.layout, &stream).value(contents.geometry).value(contents.batch);
        let launch = launch.value(sources).value(output).writes(&mut parts).writes(&mut plans);
        // SAFETY: the kernel's parameters are (Geometry, ChunkBatch, Sources, Output, ChunkParts *, RecordPlan *).
        // There are summaries, sums of tiles, parts, a length and a plan for the batch's chunks, a narrow stream for
        // each; `Assembler` numbers the other streams by the batches that it makes of them. Before it waits it reads
        // what quantizing has left of chunks: `encode_layout` lets it begin when all before that is done, and other
        // kernels when they are done themselves. Where it waits for a count, it sets that to 0 again.
        unsafe { launch.launch(Kernel::grid(1, LAYOUT_THREADS, 0)) }?;
        streams.narrow.counted();
        Ok(RecordLayout { parts, plans, starts, unwritten, spans, first_chunk: first, chunks, blocks })
    }

    /// Writes everything of the records but the Huffman streams and the hashes, when the word at `laid_out.0` is
    /// `laid_out.1`.
    ///
    /// # Errors
    /// As [`Self::lay_out`].
    pub(crate) fn write(
        &self,
        stream: &Arc<CudaStream>,
        contents: &Contents<'_>,
        layout: &mut RecordLayout<'_>,
        tokens: Option<&TokenLists<'_>>,
        laid_out: (CUdeviceptr, u64),
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
        let (blocks, unwritten) = (layout.blocks, layout.unwritten(stream));
        let (parts, plans) = (layout.parts.as_view(), layout.plans.as_view());
        let launch = ProgrammaticDependentLaunch::new(&self.write, stream)
            .value(contents.geometry)
            .value(contents.batch)
            .reads(&parts);
        let launch = launch.reads(&plans).reads(contents.metas).reads(contents.bases).value(pointers);
        let launch = launch.reads(&contents.slab.bytes).value(contents.slab.first_element).value(blocks).writes(output);
        let launch = launch.value(laid_out.0).value(laid_out.1).value(unwritten);
        // SAFETY: the kernel's parameters are (Geometry, ChunkBatch, const ChunkParts *, const RecordPlan *, const u16
        // *, const i32 *, Lists, const Element *, u64, u32, u8 *, const u64 *, u64, u32 *). Plans place records within
        // the output or say that there is no room; metas, bases and parts are as `lay_out` checked; lists have what the
        // parts say, and the elements are those of the batch's chunks, which `Assembler` sees to. Before it waits it
        // reads tiles and bases, which nobody writes once records are being laid out.
        unsafe { launch.launch(Kernel::grid(layout.chunks * blocks, WRITE_THREADS, 0)) }
    }

    /// Writes the hashes of the records, when all else of them is written. `scratch` is memory that nobody needs any
    /// more.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    #[expect(clippy::too_many_arguments, reason = "the records in their parts, and where to work")]
    pub fn sign(
        &self,
        frame: &mut Frame<'_>,
        prepared: &mut Prepared<'_>,
        layout: &mut RecordLayout<'_>,
        progress: &mut Progress,
        longest: u32,
        output: &mut CudaViewMut<'_, u8>,
        scratch: &mut CudaViewMut<'_, u16>,
    ) -> Result<()> {
        let first = layout.first_chunk as usize;
        let mut written = Written { signed: progress.signed(), ..Written::default() };
        if layout.unwritten.is_some() {
            // A record of a chunk has at most 8 bytes an element and some more, its sums a sixteenth of that; its
            // groups had two bytes an element.
            let unwritten = layout.unwritten(frame.stream());
            written = Written { unwritten, spans: layout.spans, group_bytes: self.group_bytes, ..written };
        }
        let lengths = progress.lengths.slice(first..first + layout.chunks as usize);
        let starts = layout.starts.as_view();
        let pieces = Pieces { starts: &starts, lengths: &lengths, longest, gap: Gap::RECORD };
        self.hasher.sign_in(frame, output, &pieces, prepared.hashed_mut(), scratch, written)
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> u32 {
        self.element_bytes
    }
}
