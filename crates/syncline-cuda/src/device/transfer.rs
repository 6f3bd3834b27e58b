//! Launches `kernels/device/transfer.cu`: copies, patches, counts and joins ranges of device memory.

#![allow(unsafe_code)]

mod structs;

use crate::device::Specialization;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut};

use self::structs::{CopyRange, Patch};
pub(crate) use self::structs::{PlaneJoin, STRUCTS};
use super::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{DriverContext, Result};

declare_kernels! {
    /// The kernels of `kernels/device/transfer.cu`.
    struct TransferKernels in "device/transfer.cu" {
        const THREADS: u32 = 256;
        fn transfer_copy(pieces: In<CopyRange>);
        fn transfer_patch(patches: In<Patch>, count: u32, out: Out<u8>);
        fn transfer_join(joins: In<PlaneJoin>, noted: In<u32>);
        fn transfer_statuses(statuses: In<u32>, chunks: In<u32>, count: u32, code: u32, of_chunks: Out<u32>);
    }
}
/// Maximum number of bytes that a block copies, a multiple of 16.
const PIECE: u64 = 32 << 10;
/// Approximate number of values that a block joins.
const JOINED: u32 = 8 << 10;

/// Returns the specializations of the device layer's own kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    vec![TransferKernels::specialization()]
}

/// A list of ranges of device memory that one launch copies.
#[derive(Debug, Default)]
pub(crate) struct Copies(Vec<CopyRange>);

impl Copies {
    /// Adds a copy of `bytes` bytes. Both addresses must have that many bytes.
    pub fn add(&mut self, from: CUdeviceptr, to: CUdeviceptr, bytes: u64) {
        let parts = (0..bytes).step_by(PIECE as usize);
        self.0.extend(parts.map(|at| CopyRange { from: from + at, to: to + at, bytes: PIECE.min(bytes - at) }));
    }
}

/// A list of small writes from the host that one launch carries out.
#[derive(Debug, Default)]
pub(crate) struct Patches(Vec<Patch>);

impl Patches {
    /// Adds bytes for the output from offset `at` on.
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        for (number, part) in bytes.chunks(16).enumerate() {
            let mut data = [0; 16];
            data[..part.len()].copy_from_slice(part);
            self.0.push(Patch { at: at + 16 * number as u64, bytes: part.len() as u32, unused: 0, data });
        }
    }

    /// Adds zeros up to the next multiple of 16, which it returns.
    pub fn align(&mut self, at: u64) -> u64 {
        let end = at.next_multiple_of(16);
        self.add(at, &[0; 16][..(end - at) as usize]);
        end
    }

    /// Returns the end of the last patch in the output.
    fn end(&self) -> u64 {
        self.0.iter().map(|patch| patch.at + u64::from(patch.bytes)).max().unwrap_or(0)
    }
}

/// Copies, patches, counts and joins ranges of device memory.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    kernels: TransferKernels,
}

impl Transfer {
    pub fn new(device: &Device) -> Result<Self> {
        TransferKernels::load(device).map(|kernels| Self { kernels })
    }

    /// Copies ranges. The code that added them guarantees that source and destination exist and are not otherwise
    /// accessed meanwhile.
    pub fn copy(&self, stream: &Arc<CudaStream>, copies: &Copies) -> Result<()> {
        if copies.0.is_empty() {
            return Ok(());
        }
        let list = stream.clone_htod(&copies.0).doing("listing copies")?;
        // SAFETY: a block for each range; `Copies::add` requires valid addresses.
        unsafe { launch!(self.kernels.transfer_copy on &stream, Grid::new(copies.0.len() as u32, THREADS); &list) }
    }

    /// Writes patches that lie in the output.
    pub(crate) fn patch(
        &self,
        stream: &Arc<CudaStream>,
        patches: &Patches,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        if patches.0.is_empty() {
            return Ok(());
        }
        assert!(patches.end() <= output.len() as u64, "the records were laid out within the output");
        let list = stream.clone_htod(&patches.0).doing("listing patches")?;
        let count = patches.0.len() as u32;
        // SAFETY: the patches lie in the output, as checked above.
        unsafe {
            launch!(self.kernels.transfer_patch on &stream, Grid::new(count.div_ceil(THREADS), THREADS); &list, count,
                output)
        }
    }

    /// Joins planes, except those of chunks whose word of `noted` is not 0. The addresses must be valid as for
    /// [`Self::copy`].
    pub(crate) fn join(&self, frame: &mut Frame<'_>, joins: &[PlaneJoin], noted: &CudaView<'_, u32>) -> Result<()> {
        let most = joins.iter().map(|join| join.count).max().unwrap_or(0);
        if most == 0 {
            return Ok(());
        }
        assert!(joins.iter().all(|join| (join.chunk as usize) < noted.len()), "every chunk has a word");
        let stream = frame.stream().clone();
        let list = frame.upload(joins)?;
        let grid = Grid::new(joins.len() as u32, THREADS).rows(most.div_ceil(JOINED).min(1 << 15));
        // SAFETY: several blocks for each join. Each chunk has a word, as checked above. Values are aligned to their
        // size, and planes to that of their symbols.
        unsafe { launch!(self.kernels.transfer_join on &stream, grid; &list, noted) }
    }

    /// Sets the bits `code` in the status word of the chunk of each stream whose status is not 0. `chunks` has the
    /// index of each stream's chunk among the `of_chunks` status words.
    pub fn note(
        &self,
        frame: &mut Frame<'_>,
        statuses: &CudaView<'_, u32>,
        chunks: &[u32],
        code: u32,
        of_chunks: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let count = chunks.len() as u32;
        if count == 0 {
            return Ok(());
        }
        assert!(statuses.len() >= chunks.len() && chunks.iter().all(|&chunk| (chunk as usize) < of_chunks.len()));
        let stream = frame.stream().clone();
        let list = frame.upload(chunks)?;
        // SAFETY: there are as many statuses as chunk indices, and the indices are below the length of `of_chunks`, as
        // checked above.
        unsafe {
            launch!(self.kernels.transfer_statuses on &stream, Grid::new(count.div_ceil(THREADS), THREADS); statuses,
                &list, count, code, of_chunks)
        }
    }
}
