//! Gap arrays as published: Yamamoto, Nakano, Ito, Takafuji, Kasagi, Tabaru, "Huffman Coding with Gap Arrays
//! for GPU Acceleration", ICPP 2020 (construction of the gap array while encoding; decoding with it in one kernel; the
//! tables of encoding and decoding times).
//!
//! Differences: subsequences have 128 bits instead of 256, as Syncline's gap index has them, and tables hold one symbol
//! per entry. The gap array is computed from the symbols in a kernel of its own, which follows the encoder because the
//! positions of segments are known only then. Launches `kernels/baselines/gap_array_2020/`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{Decoder, Symbol};

use crate::device::{Device, Frame, Kernel, Source, Specialization, source};
use crate::error::Result;
use crate::huffman::decode::prepare::{Preparation, Scratch};
use crate::huffman::decode::subsequences::EntryPoints;
use crate::huffman::decode::{Decoding, FORMATS, SEQUENCE, TABLE_BITS, constants};

const SOURCE: Source = source!("baselines/gap_array_2020/decode.cu");
/// The kernel that computes the gap array from the symbols while encoding, for encoders that record no lengths.
pub(super) const ENCODE: Source = source!("baselines/gap_array_2020/encode.cu");

fn specialization(symbol_bytes: usize, group_log2: u32, has_entry_points: bool) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into())]);
    constants.push(("HAS_ENTRY_POINTS", has_entry_points.into()));
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

/// Returns the specializations for the compile check.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |has_entry_points| FORMATS.map(|(bytes, group_log2)| specialization(bytes, group_log2, has_entry_points));
    [of(false), of(true)].concat()
}

/// The decoding kernel, which [`self_sync_2018`](super::self_sync_2018) shares.
#[derive(Debug, Clone)]
pub(super) struct SinglePass {
    kernel: Kernel,
    multiprocessors: u32,
}

impl SinglePass {
    /// Loads the decoder's kernels. With `has_entry_points`, entry points and counts are arguments, instead of being
    /// read from the gap index and counted.
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, has_entry_points: bool) -> Result<Self> {
        let kernel = device.kernel(&specialization(S::BYTES, group_log2, has_entry_points), "gap_array_2020_decode")?;
        Ok(Self { kernel, multiprocessors: device.info().multiprocessors })
    }

    /// Decodes all sequences. `entry_points` is given exactly if the kernel was made for it.
    pub fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        decoding: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        entry_points: Option<&EntryPoints<'_>>,
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        if sizes.sequences == 0 {
            return Ok(());
        }
        let resident = self.kernel.blocks_per_multiprocessor(SEQUENCE, 0)?.max(1);
        let blocks = (resident * self.multiprocessors).min(sizes.sequences);
        let mut ticket = frame.zeros::<u32>(1)?;
        let mut states = frame.zeros::<u32>(sizes.sequences as usize)?;
        let (tables, map) = (scratch.tables.as_view(), scratch.map.as_view());
        let entry_points = entry_points.map(|points| (points.entries.as_view(), points.counts.as_view()));
        let stream = frame.stream().clone();
        let mut launch = self.kernel.launch_on(&stream);
        launch.arg(decoding.input).arg(&decoding.batch.descriptors).arg(&sizes.streams);
        launch.arg(&decoding.batch.codebooks).arg(&tables).arg(&decoding.batch.symbols).arg(&map);
        match &entry_points {
            Some((entries, counts)) => launch.arg(entries).arg(counts),
            None => launch.arg(&0_u64).arg(&0_u64),
        };
        launch.arg(&decoding.batch.totals).arg(&mut ticket).arg(&mut states);
        launch.arg(&mut scratch.sums).arg(&mut *decoding.status).arg(&mut *decoding.output);
        // SAFETY: parameters (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor *, const u32 *, const
        // u16 *, const u32 *, const u8 *, const u8 *, const BatchTotals *, u32 *, u32 *, u32 *, u32 *, u8 *). The
        // kernel reads words and gaps within the bounds of the descriptors (`Decoding::check`) and writes symbols up to
        // the number of coded groups, to groups of the stream. The entry points are null only for the kernel that does
        // not read them. A block looks back only at blocks that took their sequences earlier, which therefore run.
        unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, 0)) }?;
        Ok(())
    }
}

/// Decodes streams with the gap index.
#[derive(Debug, Clone)]
pub struct GapArray2020<S> {
    preparation: Preparation<S>,
    kernel: SinglePass,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> GapArray2020<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors of
    /// [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        let preparation = Preparation::new(device, group_log2, TABLE_BITS)?;
        Ok(Self { preparation, kernel: SinglePass::new::<S>(device, group_log2, false)?, group_log2 })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](crate::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>) -> Result<()> {
        decoding.check(frame, Decoder::Gap, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut decoding, false, true, 0)?;
        self.kernel.launch(frame, &mut decoding, &mut scratch, None)?;
        self.preparation.after(frame, &mut decoding, &scratch)
    }
}
