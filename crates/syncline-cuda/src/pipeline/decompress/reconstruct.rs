//! Decoding and reconstruction of a parsed batch.

use std::ops::Range;

use cudarc::driver::{CudaView, CudaViewMut};

use crate::container::parse::{ParsedRecords, Records};
use crate::container::structs::BatchFinish;
use crate::device::Frame;
use crate::error::Result;
use crate::geometry::ChunkBatch;
use crate::huffman::decode::{Decoding, Indexed};
use crate::lzss_codes::CodeTokens;
use crate::predict::InterpolationPlans;
use crate::reconstruct::{Codes, Reconstruction, Reconstructor};
use crate::token_codes::{DecodedCodes, TokenCodes};

/// The part of the array that is reconstructed.
pub(super) struct Part {
    pub tiles: Range<u64>,
    pub first_chunk: u64,
    pub first_element: u64,
}

/// Decodes the codes, unless the reconstructor does so itself, and reconstructs the elements. Returns whether the last
/// kernel has also finished the batch.
#[expect(clippy::too_many_arguments, reason = "what is decoded, how, and where to")]
pub(super) fn reconstruct<'a>(
    frame: &mut Frame<'a>,
    decoder: Option<&Indexed<u16>>,
    tokens: Option<(&mut CodeTokens, Records<'_>, &ChunkBatch)>,
    token_codes: Option<(&TokenCodes, &InterpolationPlans, &ChunkBatch)>,
    reconstructor: &Reconstructor,
    input: &CudaView<'_, u8>,
    parsed: &mut ParsedRecords<'a>,
    output: &mut CudaViewMut<'_, u8>,
    part: Part,
    ending: BatchFinish,
) -> Result<bool> {
    let mut target = Target { reconstructor, input, output, part, ending };
    let ended = {
        // The codes' memory is available again when they are reconstructed.
        let mut frame = frame.nested();
        let mut decoded = None;
        if let Some(decoder) = decoder {
            let mut codes = frame.slice::<u16>(parsed.codes.output_symbols())?;
            let work = Decoding {
                input: &input.slice(..),
                classes: &parsed.classes.as_view(),
                batch: &parsed.codes,
                output: &mut codes.slice_mut(..),
                status: &mut parsed.code_status.slice_mut(..),
            };
            decoder.launch(&mut frame, work)?;
            if let Some((tokens, records, batch)) = tokens {
                tokens.decode(records, batch, parsed, &mut codes)?;
            }
            decoded = Some(codes.into_view());
        }
        target.launch(&mut frame, parsed, decoded.as_ref().map(Codes::Decoded))?
    };
    if let Some((decoder, plans, batch)) = token_codes {
        let mut frame = frame.nested();
        let tiles = target.part.tiles.clone();
        let DecodedCodes { codes, slots } = decoder.decode(&mut frame, input, batch, tiles, parsed)?;
        let codes = codes.into_view();
        target.launch(&mut frame, parsed, Some(Codes::TokenCodes { codes: &codes, slots, plans }))?;
    }
    Ok(ended)
}

/// What a batch is reconstructed from, besides its parsed records, and where to.
struct Target<'t, 'o> {
    reconstructor: &'t Reconstructor,
    input: &'t CudaView<'t, u8>,
    output: &'t mut CudaViewMut<'o, u8>,
    part: Part,
    ending: BatchFinish,
}

impl Target<'_, '_> {
    /// Reconstructs elements from these codes, or from the streams of a parsed batch. Returns whether the last kernel
    /// has also finished the batch.
    fn launch(
        &mut self,
        frame: &mut Frame<'_>,
        parsed: &mut ParsedRecords<'_>,
        codes: Option<Codes<'_, '_>>,
    ) -> Result<bool> {
        let tiles = parsed.tiles.parsed(parsed.bitmap_bytes.as_ref());
        let work = Reconstruction {
            input: &self.input.slice(..),
            parsed: &tiles,
            codes: codes.unwrap_or(Codes::Streams(&parsed.codes)),
            first_chunk: self.part.first_chunk,
            tiles: self.part.tiles.clone(),
            output: &mut self.output.slice_mut(..),
            first_element: self.part.first_element,
            status: &mut parsed.code_status.slice_mut(..),
            sums: &mut parsed.code_sums.slice_mut(..),
        };
        self.reconstructor.launch_ending(frame, work, self.ending)
    }
}
