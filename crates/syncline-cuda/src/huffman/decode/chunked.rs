//! The baseline: a thread an independent piece, symbol by symbol. Launcher of `kernels/huffman/decode/chunked.cu`.

#![allow(unsafe_code)]

use cudarc::driver::{DeviceRepr, PushKernelArg};
use syncline_core::huffman::{Decoder, IndexKind, Symbol};

use super::{Decoding, Preparation, SHAPES, TABLE_BITS, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization, source};
use crate::error::{DriverContext, Result};

const SOURCE: Source = source!("huffman/decode/chunked.cu");

/// Threads in a block: few, as there may be few pieces.
const THREADS: u32 = 64;

fn specialization(symbol_bytes: usize, group_log2: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.push(("THREADS", THREADS.into()));
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2)).to_vec()
}

/// Decodes any stream, slowly: a thread a block of the symbol index, or a whole stream without it.
#[derive(Debug, Clone)]
pub struct Chunked<S> {
    preparation: Preparation<S>,
    kernel: Kernel,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> Chunked<S> {
    /// A decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors of
    /// [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        let preparation = Preparation::new(device, group_log2, TABLE_BITS)?;
        let kernel = device.kernel(&specialization(S::BYTES, group_log2), "decode_chunked")?;
        Ok(Self { preparation, kernel, group_log2 })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// As [`Indexed::launch`](super::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut work: Decoding<'_, '_, S>) -> Result<()> {
        work.check(frame, Decoder::Chunked, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut work, false, true, 0)?;
        let totals = work.batch.totals;
        let by_index = u32::from(totals.index == Some(IndexKind::Symbol));
        let pieces = if by_index == 1 { totals.tasks } else { totals.streams };
        if pieces > 0 {
            let map = scratch.map.as_view();
            let mut launch = frame.stream().launch_builder(self.kernel.function());
            launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
            launch.arg(&work.batch.books).arg(&work.batch.symbols).arg(work.classes).arg(&map);
            launch.arg(&work.batch.sums).arg(&by_index);
            launch.arg(&mut scratch.sums).arg(&mut *work.status).arg(&mut *work.output);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u16 *, const u8 *, const u32 *,
            // const Totals *, u32, u32 *, u32 *, u8 *), bounded as the other decoders' (`Decoding::check`; positions by
            // the stream's bits, groups by its groups).
            unsafe { launch.launch(Kernel::grid(pieces.div_ceil(THREADS), THREADS, 0)) }.doing("decoding")?;
        }
        self.preparation.after(frame, &mut work, &scratch)
    }
}
