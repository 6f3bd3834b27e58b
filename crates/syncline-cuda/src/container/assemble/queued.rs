//! Records of batches of which the host has no summaries: kernels list the streams that only some chunks have.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};

use super::{Assembler, BITMAP_FORMAT, BITMAP_GROUP_LOG2, BatchInput, OtherStreams, RecordOutput, StartedBatch};
use crate::container::stream_coder::{StreamCoder, created};
use crate::device::Frame;
use crate::error::Result;
use crate::geometry::ChunkBatch;
use crate::huffman::Symbol;
use crate::huffman::encode::LaidOutStreams;
use crate::quantize::{ListedStreams, MOST_BITMAP_BYTES};

/// The most groups of a tile's bitmap.
const BITMAP_GROUPS_OF_TILE: u32 = MOST_BITMAP_BYTES >> BITMAP_GROUP_LOG2;

/// The parts that only some chunks have, and for which there is room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueuedParts {
    /// Codes with the wide radius.
    pub wide: bool,
    /// Bitmaps of masks and signs.
    pub bitmaps: bool,
}

impl<S: Symbol> StreamCoder<S> {
    /// Lays out the streams that a kernel has listed in the buffers.
    fn lay_out_queued<'a>(
        coder: &mut Option<Self>,
        frame: &mut Frame<'a>,
        symbols: &CudaView<'_, S>,
    ) -> Result<Option<LaidOutStreams<'a>>> {
        coder.as_mut().map_or(Ok(None), |coder| coder.lay_out(frame, symbols, None))
    }
}

impl Assembler<'_> {
    /// Allocates lists of `streams` streams of each kind that only some chunks of a batch have, for a kernel to fill:
    /// one for each chunk of the largest batch, which has at most `tiles` tiles. There are only those of `parts`.
    pub(crate) fn prepare_queued(
        &mut self,
        stream: &Arc<CudaStream>,
        batch: &ChunkBatch,
        (streams, tiles): (u32, u32),
        parts: QueuedParts,
    ) -> Result<ListedStreams> {
        let (device, wide_format) = (self.device, self.wide_format());
        let groups = batch.first_slot(batch.chunks());
        let bitmap_groups = tiles * BITMAP_GROUPS_OF_TILE;
        let all_bitmap_groups = u64::from(batch.tiles()) * u64::from(BITMAP_GROUPS_OF_TILE);
        let bitmaps = |coder: &mut Option<StreamCoder<u8>>| {
            let coder = created(device, coder, BITMAP_FORMAT)?;
            let buffers = coder.allocate_for_listing(stream, streams, bitmap_groups, all_bitmap_groups)?;
            Ok::<_, crate::CudaError>(buffers.batch.spans_mut().device_ptr_mut(stream).0)
        };
        let (masks, signs) = match parts.bitmaps {
            true => (bitmaps(&mut self.masks)?, bitmaps(&mut self.signs)?),
            false => (0, 0),
        };
        let wide = match parts.wide {
            true => {
                let coder = created(device, &mut self.wide, wide_format)?;
                let buffers = coder.allocate_for_listing(stream, streams, batch.slots(), groups)?;
                buffers.batch.spans_mut().device_ptr_mut(stream).0
            }
            false => 0,
        };
        Ok(ListedStreams { wide, masks, signs, streams })
    }

    /// Writes the records of a batch as [`Self::finish`] does, whose streams are those of [`Self::prepare_queued`].
    pub(crate) fn finish_queued<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        started: StartedBatch<'a>,
        input: BatchInput<'_, '_>,
        codes: &mut CudaViewMut<'_, u16>,
        to: RecordOutput<'_, '_>,
        listed: u32,
    ) -> Result<()> {
        // Without room for a kind of streams, there is no coder for it.
        let mut others = OtherStreams { listed, ..OtherStreams::default() };
        others.wide = StreamCoder::lay_out_queued(&mut self.wide, frame, &codes.as_view())?;
        if let (Some(masks), Some(signs)) = (&input.bitmaps.masks, &input.bitmaps.signs) {
            others.masks = StreamCoder::lay_out_queued(&mut self.masks, frame, masks)?;
            others.signs = StreamCoder::lay_out_queued(&mut self.signs, frame, signs)?;
        }
        self.write(frame, started, others, input, codes, to)
    }
}
