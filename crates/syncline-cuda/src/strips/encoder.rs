//! From elements to the bits of tiles: launcher of `kernels/choose/` and `kernels/strips/`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::array::ElementType;
use syncline_core::geometry::{Geometry, MAX_CHUNK_ELEMENTS};
use syncline_core::huffman::lengths::FLOORS;
use syncline_core::pipeline::{CHOOSING_STEP, COUNTED_STEP, FEWEST_CHOOSING, FEWEST_COUNTED};
use syncline_core::predict::interpolate::Scheme;
use syncline_core::predict::orders::PREDICTORS;
use syncline_core::strips::SYMBOLS;

use super::Encoded;
use super::ordinary::{OrdinaryEncoder, OrdinaryShape};
use super::structs::{CODEBOOK_BYTES, CODEBOOKS, ChunkChoice, CodebookSize, TABLES, TileOutputs};
use crate::device::{Arena, Device, Frame, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::predict::InterpolationPlans;
use crate::predict::structs::Plans;
use crate::quantize::{STEP_WORDS, compiled_types};

declare_kernels! {
    /// The kernel of `kernels/choose/choose.cu`.
    struct ChooseKernels in "choose/choose.cu", of (variant: Variant) {
        with CONSTANTS = variant.constants();
        fn choose(
            slab: In<u8> as "const Stored *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: In<u64> as "const Step *", plans: Plans, vectors: u32, schemes: In<u32>, candidates: u32,
            codes: u32, costs: Out<u32>, done: Out<u32>, choices: Out<ChunkChoice>, listed: Option<Out<u32>>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/strips/count.cu`.
    struct CountKernels in "strips/count.cu", of (variant: Variant) {
        with CONSTANTS = variant.constants();
        fn count_symbols(
            slab: In<u8> as "const Stored *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: In<u64> as "const Step *", plans: Plans, vectors: u32, schemes: In<u32>,
            choices: In<ChunkChoice>, counts: Out<u32>, varying: Out<u32>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/strips/codebooks.cu`.
    struct CodebookKernels in "strips/codebooks.cu" {
        /// Threads of a block.
        const THREADS: u32 = 256;
        with FLOORS = FLOORS;
        with CONSTANTS = sample_constants();
        fn make_codebooks(
            batch: ChunkBatch, counts: In<u32>, varying: In<u32>, done: Out<u32>, sizes: Out<CodebookSize>,
            serialized: Out<u8>, choices: Out<ChunkChoice>, codewords: Out<u32>, codebooks: Out<u8>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/strips/encode_any.cu`.
    struct EncodeKernels in "strips/encode_any.cu", of (variant: Variant) {
        with CONSTANTS = variant.constants();
        fn encode_any(
            slab: In<u8> as "const Stored *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: In<u64> as "const Step *", plans: Plans, choices: Out<ChunkChoice>, codewords: In<u32>,
            outputs: TileOutputs, listed: Option<In<u32>>,
        );
    }
}

/// Most schemes that encoders choose from, as in `choose.cu`.
const MOST_CANDIDATES: usize = 6;
/// Most tiles of the sample that chooses, as in `choose.cu`.
const MOST_SAMPLED: usize = 2 * FEWEST_CHOOSING;
/// Blocks of a multiprocessor that encode the tiles that another kernel leaves over.
const LISTED_BLOCKS: u32 = 8;
/// Tiles that a warp counts one after another, at most, so that few histograms are added up.
const TILES_OF_COUNTING: u32 = 2;

const _: () = assert!(MAX_CHUNK_ELEMENTS as usize / 512 / CHOOSING_STEP <= MOST_SAMPLED);

/// The properties of a stream that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The type of the elements.
    pub element_type: ElementType,
    /// Whether logarithms are quantized, for a point-wise relative bound.
    pub logarithm: bool,
    /// Whether squared errors are summed. Not with `logarithm`.
    pub measured: bool,
    /// Whether tiles may be interpolated. Tiles of logarithms never are.
    pub interpolates: bool,
}

/// What kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    element: ElementType,
    logarithm: bool,
    measured: bool,
    axes: u32,
}

/// The samples of a chunk, for kernels.
fn sample_constants() -> Vec<(&'static str, u64)> {
    let constants = [
        ("CHOOSING_STEP", CHOOSING_STEP),
        ("FEWEST_CHOOSING", FEWEST_CHOOSING),
        ("COUNTED_STEP", COUNTED_STEP),
        ("FEWEST_COUNTED", FEWEST_COUNTED),
    ];
    constants.map(|(name, value)| (name, value as u64)).to_vec()
}

impl Variant {
    /// Most warps of a block.
    const MOST_WARPS: u32 = 4;
    /// Shared memory that the tiles of a block may take together, so that there is room for histograms.
    const MOST_MEMORY: u32 = 36 << 10;

    fn new(form: &Form, geometry: &Geometry) -> Self {
        Self {
            element: form.element_type,
            logarithm: form.logarithm,
            measured: form.measured && !form.logarithm,
            axes: geometry.axes() as u32,
        }
    }

    /// Bytes of a value that is computed with.
    fn value_bytes(self) -> u32 {
        self.element.computed().size() as u32
    }

    /// Elements of an unclipped tile.
    fn elements(self) -> u32 {
        if self.axes == 3 { 512 } else { 1024 }
    }

    /// Warps of a block. Each has a tile.
    fn warps(self) -> u32 {
        (Self::MOST_MEMORY / self.tile_bytes()).clamp(1, Self::MOST_WARPS)
    }

    fn threads(self) -> u32 {
        32 * self.warps()
    }

    fn shape(self) -> OrdinaryShape {
        OrdinaryShape::new(self.axes, self.element, self.logarithm)
    }

    /// Bytes of `TileMemory` in `kernels/predict/code_tile.cuh`, which checks that they suffice.
    fn tile_bytes(self) -> u32 {
        let elements = self.elements();
        let values = self.value_bytes() * (elements + elements / 32);
        let strips = elements / 128 + 2 * elements.div_ceil(512);
        let of_strips = (4 * 178 + 128) + elements / 4 + 4 * (strips + 1);
        let bitmaps = 5 * elements / 8;
        let lattice = 4 * 64;
        8 * elements + values.max(of_strips) + bitmaps + lattice + 160
    }

    /// Dynamic shared memory of a block.
    fn memory(self) -> u32 {
        self.warps() * self.tile_bytes().next_multiple_of(16)
    }

    fn constants(self) -> Vec<(&'static str, u64)> {
        let own = [
            ("ELEMENT_TYPE", self.element as u32),
            ("ELEMENT_BYTES", self.value_bytes()),
            ("LOGARITHM", self.logarithm.into()),
            ("MEASURE", self.measured.into()),
            ("AXES", self.axes),
            ("TILE_ELEMENTS", self.elements()),
            ("WARPS", self.warps()),
            ("MEMORY_BYTES", self.memory()),
        ];
        let own = own.map(|(name, value)| (name, value.into())).into_iter();
        own.chain(sample_constants()).chain(self.shape().constants()).collect()
    }
}

/// Every specialization of the kernels of this module, for the check that all of them compile.
pub(super) fn specializations() -> Vec<Specialization> {
    let mut all = super::ordinary::specializations();
    all.push(CodebookKernels::specialization());
    for element in compiled_types() {
        for (logarithm, measured) in [(false, false), (false, true), (true, false)] {
            for axes in 1..=3 {
                if !element.is_computed() && axes != 3 || logarithm && element.is_integer() {
                    continue;
                }
                let variant = Variant { element, logarithm, measured, axes };
                let unmeasured = Variant { measured: false, ..variant };
                all.push(EncodeKernels::specialization(variant));
                if !measured {
                    all.push(ChooseKernels::specialization(unmeasured));
                    all.push(CountKernels::specialization(unmeasured));
                }
            }
        }
    }
    all
}

/// Encodes the tiles of chunks of arrays of one tiling.
#[derive(Debug)]
pub struct TileEncoder {
    variant: Variant,
    geometry: Geometry,
    device_geometry: DeviceGeometry,
    candidates: &'static [Scheme],
    plans: InterpolationPlans,
    choose: ChooseKernels,
    count: CountKernels,
    codebooks: CodebookKernels,
    encode: EncodeKernels,
    /// The tables of all schemes for whole ordinary tiles.
    schemes: CudaSlice<u32>,
    /// For whole ordinary tiles, unless squared errors are summed.
    ordinary: Option<OrdinaryEncoder>,
    multiprocessors: u32,
}

impl TileEncoder {
    /// Loads the kernels for arrays of this form and tiling, and copies plans of interpolation to the device on
    /// `stream`, on which tiles must be encoded.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`](crate::Device::kernel); [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(device: &Device, stream: &Arc<CudaStream>, form: Form, geometry: &Geometry) -> Result<Self> {
        let variant = Variant::new(&form, geometry);
        let unmeasured = Variant { measured: false, ..variant };
        let interpolates = form.interpolates && !form.logarithm;
        let candidates = if interpolates { Scheme::candidates(geometry.axes()) } else { &[] };
        let new = Self {
            variant,
            geometry: geometry.clone(),
            device_geometry: DeviceGeometry::new(geometry),
            candidates,
            plans: InterpolationPlans::new(stream, form.element_type.computed(), geometry, candidates)?,
            choose: ChooseKernels::load(device, unmeasured)?,
            count: CountKernels::load(device, unmeasured)?,
            codebooks: CodebookKernels::load(device)?,
            encode: EncodeKernels::load(device, variant)?,
            schemes: variant.shape().tables(stream)?,
            ordinary: match variant.measured {
                true => None,
                false => Some(OrdinaryEncoder::new(device, variant.shape())?),
            },
            multiprocessors: device.info().multiprocessors,
        };
        let memory = variant.memory();
        for kernel in [&new.choose.choose, &new.count.count_symbols, &new.encode.encode_any] {
            kernel.allow_shared_memory(memory)?;
        }
        Ok(new)
    }

    /// Queues the encoding of the tiles of a batch with the quantizer's constants `step`, which will be in device
    /// memory when the kernels run. Waits for nothing and copies nothing from the host.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the slab has not all elements of the batch, or `step` not all constants;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn encode<'a>(
        &self,
        frame: &mut Frame<'a>,
        slab: &Slab<'_>,
        batch: &ChunkBatch,
        step: &CudaView<'_, u64>,
    ) -> Result<Encoded<'a>> {
        let stream = frame.stream().clone();
        let element_bytes = self.variant.element.size() as u32;
        slab.check(&self.geometry, batch, element_bytes)?;
        if !slab.bytes.device_ptr(&stream).0.is_multiple_of(element_bytes.into()) {
            return Err(CudaError::invalid("elements must start on a multiple of their size"));
        }
        if step.len() < STEP_WORDS {
            return Err(CudaError::invalid("the quantizer has more constants"));
        }
        let measured = self.variant.measured;
        let mut encoded = Encoded::new(frame, &self.device_geometry, batch, element_bytes, measured)?;
        if batch.tiles() == 0 {
            return Ok(encoded);
        }
        let work = Work { encoder: self, stream: &stream, slab, batch, step, plans: self.plans.argument(&stream) };
        let chunks = batch.chunks() as usize;
        let counts_len = chunks * CODEBOOKS * SYMBOLS;
        let counters = 3 * Arena::bytes_for::<u32>(chunks) + Arena::bytes_for::<u32>(1);
        let mut cleared = frame.cleared(Arena::bytes_for::<u32>(counts_len) + counters)?;
        let (mut counts, mut varying) = (cleared.take(counts_len)?, cleared.take(chunks)?);
        let mut done = [cleared.take(chunks)?, cleared.take(chunks)?];
        let mut pieces = cleared.take(1)?;
        let mut costs = frame.slice(chunks * (PREDICTORS + MOST_CANDIDATES) * MOST_SAMPLED)?;
        // The number of tiles that another kernel leaves over, then those tiles.
        let mut listed = match self.ordinary {
            Some(_) => Some(frame.slice(1 + batch.tiles() as usize)?),
            None => None,
        };
        work.choose(&mut costs, &mut done[0], &mut encoded.choices, listed.as_mut())?;
        work.count(&encoded.choices.as_view(), &mut counts, &mut varying)?;
        let mut codewords = frame.slice(chunks * TABLES * SYMBOLS)?;
        let mut sizes = frame.slice(chunks * TABLES)?;
        let mut serialized = frame.slice(chunks * TABLES * CODEBOOK_BYTES)?;
        let grid = Grid::new(TABLES as u32, THREADS).rows(batch.chunks());
        // SAFETY: there are counts, memory for codebooks, and a choice for each chunk.
        unsafe {
            launch!(self.codebooks.make_codebooks on &stream, grid; *batch, &counts, &varying, &mut done[1], &mut sizes,
                &mut serialized, &mut encoded.choices, &mut codewords, &mut encoded.codebooks)
        }?;
        work.encode(&codewords.as_view(), &mut encoded, listed.as_mut().map(|listed| (listed, &mut pieces)))?;
        encoded.listed = listed;
        Ok(encoded)
    }
}

/// The arguments of the kernels for a batch that has tiles. The slab has all elements of its chunks.
pub(super) struct Work<'w> {
    encoder: &'w TileEncoder,
    pub stream: &'w Arc<CudaStream>,
    pub slab: &'w Slab<'w>,
    pub batch: &'w ChunkBatch,
    pub step: &'w CudaView<'w, u64>,
    plans: Plans,
}

impl Work<'_> {
    /// Returns the tiling of the array.
    pub fn geometry(&self) -> &DeviceGeometry {
        &self.encoder.device_geometry
    }

    /// Returns whether quads of elements of tiles start on multiples of 16 bytes, or of their bytes if these are less,
    /// as kernels take it.
    pub fn vectors(&self) -> u32 {
        let Self { encoder, stream, slab, .. } = self;
        // Where element 0 of the array would be.
        let bytes = encoder.variant.element.size() as u64;
        let origin = slab.bytes.device_ptr(stream).0.wrapping_sub(bytes * slab.first_element);
        u32::from(origin.is_multiple_of((4 * bytes).min(16)) && encoder.device_geometry.row().is_multiple_of(4))
    }

    fn grid(&self, blocks: u32) -> Grid {
        Grid::new(blocks, self.encoder.variant.threads()).shared_memory(self.encoder.variant.memory())
    }

    /// Returns the most intervals of a sample among the chunks. Chunks before the last have the same number of tiles.
    fn intervals(&self, step: usize, fewest: usize) -> u32 {
        let of_chunk = |chunk: u32| {
            let tiles = self.batch.tiles_of(chunk).len();
            let len = step.min((tiles / fewest).max(1));
            tiles.div_ceil(1 << len.ilog2()) as u32
        };
        of_chunk(0).max(of_chunk(self.batch.chunks() - 1))
    }

    fn choose(
        &self,
        costs: &mut CudaViewMut<'_, u32>,
        done: &mut CudaViewMut<'_, u32>,
        choices: &mut CudaViewMut<'_, ChunkChoice>,
        listed: Option<&mut CudaViewMut<'_, u32>>,
    ) -> Result<()> {
        let Self { encoder, stream, slab, batch, step, plans } = *self;
        let listed = listed.map(|listed| listed as &mut dyn DevicePtrMut<u32>);
        let candidates = encoder.candidates.len() as u32;
        let numbered = encoder.candidates.iter().enumerate();
        let codes = numbered.fold(0, |all, (number, scheme)| all | u32::from(scheme.code()) << (4 * number));
        let blocks = self.intervals(CHOOSING_STEP, FEWEST_CHOOSING).div_ceil(encoder.variant.warps());
        let grid = self.grid(blocks * batch.chunks()).rows(1 + candidates);
        // SAFETY: the slab has the elements of the batch, and the plans are those of its tiling; `encoder` outlives the
        // work of the stream. There are a counter, a choice, and costs of all candidates for each chunk.
        unsafe {
            launch!(encoder.choose.choose on stream, grid; &slab.bytes, slab.first_element, encoder.device_geometry,
                *batch, step, plans, self.vectors(), &encoder.schemes, candidates, codes, costs, done, choices, listed)
        }
    }

    fn count(
        &self,
        choices: &CudaView<'_, ChunkChoice>,
        counts: &mut CudaViewMut<'_, u32>,
        varying: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let Self { encoder, stream, slab, batch, step, plans } = *self;
        let intervals = self.intervals(COUNTED_STEP, FEWEST_COUNTED);
        let blocks = intervals.div_ceil(encoder.variant.warps() * TILES_OF_COUNTING);
        let grid = self.grid(blocks).rows(batch.chunks());
        // SAFETY: as for `choose`; there are a choice, a counter, and counts of all codebooks for each chunk.
        unsafe {
            launch!(encoder.count.count_symbols on stream, grid; &slab.bytes, slab.first_element,
                encoder.device_geometry, *batch, step, plans, self.vectors(), &encoder.schemes, choices, counts,
                varying)
        }
    }

    fn encode(
        &self,
        codewords: &CudaView<'_, u32>,
        encoded: &mut Encoded<'_>,
        listed: Option<(&mut CudaViewMut<'_, u32>, &mut CudaViewMut<'_, u32>)>,
    ) -> Result<()> {
        let Self { encoder, stream, slab, batch, step, plans } = *self;
        let (errors, counted) = match &mut encoded.errors {
            Some((errors, counted)) => (errors.device_ptr_mut(stream).0, counted.device_ptr_mut(stream).0),
            None => (0, 0),
        };
        let outputs = TileOutputs {
            facts: encoded.facts.device_ptr_mut(stream).0,
            strip_bits: encoded.strip_bits.device_ptr_mut(stream).0,
            words: encoded.words.device_ptr_mut(stream).0,
            taken: encoded.taken.device_ptr_mut(stream).0,
            errors,
            counted,
            chunk_words: encoded.chunk_words,
        };
        let mut blocks = batch.tiles().div_ceil(encoder.variant.warps());
        let mut rest = None;
        if let (Some(ordinary), Some((listed, pieces))) = (&encoder.ordinary, listed) {
            ordinary.encode(
                self,
                codewords,
                &encoded.choices.as_view(),
                outputs,
                &encoder.schemes,
                (&mut *listed, pieces),
            )?;
            blocks = blocks.min(encoder.multiprocessors * LISTED_BLOCKS);
            rest = Some(&*listed as &dyn DevicePtr<u32>);
        }
        // SAFETY: as for `choose`; there are codewords for each chunk, and outputs for each tile. Tiles that are listed
        // are those of the batch.
        unsafe {
            launch!(encoder.encode.encode_any on stream, self.grid(blocks); &slab.bytes, slab.first_element,
                encoder.device_geometry, *batch, step, plans, &mut encoded.choices, codewords, outputs, rest)
        }
    }
}
