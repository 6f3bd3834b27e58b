//! Decoding of whole ordinary tiles: launchers of `kernels/decode/cubes.cu` and `rows.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use syncline_core::container::{Header, MAX_CLASSES};
use syncline_core::geometry::Geometry;
use syncline_core::strips::{MAX_LENGTH, STRIP_LEN};

use super::Format;
use super::structs::{LaunchArguments, Values};
use crate::container::structs::ParsedArgument;
use crate::device::{Device, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::DeviceGeometry;
use crate::predict::{lines, points, whole_tiles};

/// Declares the kernel of one kind of ordinary tiles. All of them have the same parameters.
macro_rules! declare_unit_kernel {
    ($(#[$about:meta])* $kernels:ident in $file:tt, $kernel:ident, $constants:ident) => {
        declare_kernels! {
            $(#[$about])*
            struct $kernels in $file, of (units: UnitFormat) {
                with UNITS = units.constants();
                with FORM = units.$constants();
                fn $kernel(
                    input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, schemes: In<u32>,
                    arguments: LaunchArguments, output: Out<u8> as "Stored *",
                );
            }
        }
    };
}

declare_unit_kernel! {
    /// The kernel of `kernels/decode/cubes.cu`.
    CubeKernels in "decode/cubes.cu", decode_cubes, line_constants
}

declare_unit_kernel! {
    /// The kernel of `kernels/decode/rows.cu`.
    RowKernels in "decode/rows.cu", decode_rows, point_constants
}

/// Strips that a warp decodes side by side.
const STRIPS_OF_UNIT: u32 = 32;
/// Elements of a row of a tile of two dimensions; tiles of one dimension are cut into rows.
const ROW: u32 = 32;
/// Most warps of a block: each thread can use 128 registers.
const MOST_WARPS: u32 = 16;

/// The properties that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnitFormat {
    format: Format,
    axes: u32,
    warps: u32,
}

impl UnitFormat {
    /// Returns the format for a device with this much shared memory per block in bytes; `None` if it does not suffice
    /// for several warps.
    fn new(format: Format, axes: u32, shared_memory: u32) -> Option<Self> {
        let own = |warps| Self { format, axes, warps };
        let room = shared_memory.checked_sub(own(0).memory_bytes())?;
        let warps = (room / own(0).warp_bytes()).min(MOST_WARPS);
        (warps >= 2).then(|| own(warps))
    }

    /// Returns whether tiles are those of three dimensions, which are interpolated along lines.
    fn is_cubes(self) -> bool {
        self.axes == 3
    }

    fn strips(self) -> u32 {
        self.format.tile_elements / STRIP_LEN as u32
    }

    fn strip_room(self) -> u32 {
        (if self.is_cubes() { lines::STRIP_ROOM } else { points::STRIP_ROOM }) as u32
    }

    /// Returns the elements of shared memory of a warp.
    fn values(self) -> u32 {
        match self.is_cubes() {
            // Two tiles, and some more between them.
            true => 2 * (8 * lines::PLANE as u32 + 4),
            // Rows are longer by one element.
            false => self.format.tile_elements + self.format.tile_elements / ROW,
        }
    }

    fn layout(self) -> points::Layout {
        points::Layout::new(self.format.value_bytes() as usize)
    }

    /// Returns the words of the table of a scheme.
    fn table_words(self) -> u32 {
        (if self.is_cubes() { lines::TABLE_WORDS } else { self.layout().words }) as u32
    }

    /// Returns the bytes of shared memory of a warp (`WarpMemory` of the kernels).
    fn warp_bytes(self) -> u32 {
        let codes = 2 * (STRIPS_OF_UNIT / self.strips()) * (self.strips() * self.strip_room() + 2);
        let values = self.values() * self.format.value_bytes() as u32;
        codes.next_multiple_of(16) + values.next_multiple_of(16)
    }

    /// Returns the bytes of shared memory of a block (`BlockMemory` of the kernels).
    fn memory_bytes(self) -> u32 {
        let tables = 4 * ((MAX_CLASSES as u32) << MAX_LENGTH) + 4 * self.table_words() + 16;
        self.warps * self.warp_bytes() + tables
    }

    /// Returns the constants of `kernels/decode/units.cuh`.
    fn constants(self) -> Vec<(&'static str, u64)> {
        let numbers = [
            ("ELEMENT_TYPE", self.format.element as u32),
            ("ELEMENT_BYTES", self.format.value_bytes() as u32),
            ("LOGARITHM", self.format.logarithm.into()),
            ("WARPS", self.warps),
            ("MEMORY_BYTES", self.memory_bytes()),
            ("STRIPS", self.strips()),
            ("STRIP_ROOM", self.strip_room()),
            ("VALUES", self.values()),
            ("TABLE_WORDS", self.table_words()),
        ];
        numbers.map(|(name, number)| (name, number.into())).to_vec()
    }

    /// Returns the constants of `cubes.cu` beside these.
    fn line_constants(self) -> Vec<(&'static str, u64)> {
        let [row, plane, lines_at] = [lines::ROW, lines::PLANE, lines::LINES_AT].map(|number| number as u64);
        vec![("ROW", row), ("PLANE", plane), ("STORED", lines::STORED), ("LINES_AT", lines_at)]
    }

    /// Returns the constants of `rows.cu` beside these.
    fn point_constants(self) -> Vec<(&'static str, u64)> {
        let layout = self.layout();
        let numbers = [
            ("AXES", self.axes as usize),
            ("PASSES_AT", points::PASSES_AT),
            ("CLASSES_AT", points::CLASSES_AT),
            ("LINES_AT", layout.lines_at),
            ("CODES_AT", layout.codes_at),
        ];
        numbers.map(|(name, number)| (name, number as u64)).to_vec()
    }
}

#[derive(Debug, Clone)]
enum Kernels {
    Cubes(CubeKernels),
    Rows(RowKernels),
}

/// Decodes whole ordinary tiles.
#[derive(Debug, Clone)]
pub(super) struct UnitDecoder {
    kernels: Kernels,
    format: UnitFormat,
    schemes: CudaSlice<u32>,
}

impl UnitDecoder {
    /// Loads the kernel for the stream with this header. Work is on `stream`. Returns `None` if there is no kernel for
    /// its tiles on this device.
    ///
    /// # Errors
    /// The errors of [`TileDecoder::new`](super::TileDecoder::new).
    pub fn new(device: &Device, stream: &Arc<CudaStream>, header: &Header, tiling: &Geometry) -> Result<Option<Self>> {
        let format = Format::new(header, tiling)?;
        let format = UnitFormat::new(format, tiling.axes() as u32, device.info().shared_memory_per_block);
        let Some(format) = format else { return Ok(None) };
        let kernels = Kernels::load(device, format)?;
        let Format { logarithm, .. } = format.format;
        let schemes = whole_tiles::copied(stream, format.axes, format.format.value_bytes() as u32, logarithm)?;
        Ok(Some(Self { kernels, format, schemes }))
    }

    /// Decodes the ordinary tiles of a batch with a block for each multiprocessor, and lists the others.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        multiprocessors: u32,
        input: &CudaView<'_, u8>,
        (geometry, parsed, values, arguments): (DeviceGeometry, ParsedArgument, Values, LaunchArguments),
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let Self { kernels, format, schemes } = self;
        let grid = Grid::new(multiprocessors, 32 * format.warps).shared_memory(format.memory_bytes()).early(true);
        // SAFETY: as for `TileDecoder::decode`. Tiles that are listed are those of the batch, each at most once, for
        // which `parsed` has room. There is a table for each scheme that parsing accepts.
        unsafe {
            match kernels {
                Kernels::Cubes(cubes) => {
                    launch!(cubes.decode_cubes on stream, grid; input, geometry, parsed, values, schemes, arguments,
                        output)
                }
                Kernels::Rows(rows) => {
                    launch!(rows.decode_rows on stream, grid; input, geometry, parsed, values, schemes, arguments,
                        output)
                }
            }
        }
    }
}

impl Kernels {
    fn load(device: &Device, format: UnitFormat) -> Result<Self> {
        let bytes = format.memory_bytes();
        Ok(match format.is_cubes() {
            true => {
                let cubes = CubeKernels::load(device, format)?;
                cubes.decode_cubes.allow_shared_memory(bytes)?;
                Self::Cubes(cubes)
            }
            false => {
                let rows = RowKernels::load(device, format)?;
                rows.decode_rows.allow_shared_memory(bytes)?;
                Self::Rows(rows)
            }
        })
    }
}

/// Returns the specializations for the check that all of them compile.
pub(super) fn specializations() -> Vec<Specialization> {
    let kinds = super::compiled_kinds();
    let shapes = [(3, 512), (2, 1024), (1, 1024)];
    let formats = kinds.flat_map(|(element, logarithm)| {
        let shapes = shapes.into_iter().filter(move |&shape| element.is_computed() || shape == (3, 512));
        shapes.map(move |(axes, tile_elements)| UnitFormat {
            format: Format { element, logarithm, tile_elements },
            axes,
            warps: 4,
        })
    });
    let specialization = |format: UnitFormat| match format.is_cubes() {
        true => CubeKernels::specialization(format),
        false => RowKernels::specialization(format),
    };
    formats.map(specialization).collect()
}
