//! Decoding and reconstruction of a parsed batch.

use std::ops::Range;

use cudarc::driver::{CudaView, CudaViewMut};

use crate::container::parse::{ParsedRecords, Records};
use crate::container::structs::BatchFinish;
use crate::device::Frame;
use crate::error::Result;
use crate::geometry::ChunkBatch;
use crate::huffman::decode::Decoding;
use crate::lzss_codes::CodeTokens;
use crate::observer::Observer;
use crate::pipeline::code_decoder::CodeDecoder;
use crate::reconstruct::{Codes, InterpolationPlans, Reconstruction, Reconstructor};
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
    decoder: &CodeDecoder,
    tokens: Option<(&mut CodeTokens, Records<'_>, &ChunkBatch)>,
    token_codes: Option<(&TokenCodes, &InterpolationPlans, &ChunkBatch)>,
    reconstructor: &Reconstructor,
    input: &CudaView<'_, u8>,
    parsed: &mut ParsedRecords<'a>,
    output: &mut CudaViewMut<'_, u8>,
    part: Part,
    ending: BatchFinish,
    observer: &mut Observer<'_>,
) -> Result<bool> {
    let mut decoded = None;
    if !decoder.is_fused() {
        let mut codes = frame.slice::<u16>(parsed.codes.output_symbols())?;
        let work = Decoding {
            input: &input.slice(..),
            classes: &parsed.classes.as_view(),
            batch: &parsed.codes,
            output: &mut codes.slice_mut(..),
            status: &mut parsed.code_status.slice_mut(..),
        };
        decoder.launch(frame, work)?;
        observer("decode")?;
        if let Some((tokens, records, batch)) = tokens {
            tokens.decode(records, batch, parsed, &mut codes, observer)?;
        }
        decoded = Some(codes.into_view());
    }
    let mut token_groups = None;
    if let Some((decoder, plans, batch)) = token_codes {
        let DecodedCodes { codes, slots } =
            decoder.decode(frame, input, batch, part.tiles.clone(), parsed, observer)?;
        token_groups = Some((codes.into_view(), slots, plans));
    }
    let tiles = parsed.tiles.parsed(parsed.bitmap_bytes.as_ref());
    let mut reconstruct = |codes| {
        let work = Reconstruction {
            input: &input.slice(..),
            parsed: &tiles,
            codes,
            first_chunk: part.first_chunk,
            tiles: part.tiles.clone(),
            output: &mut output.slice_mut(..),
            first_element: part.first_element,
            status: &mut parsed.code_status.slice_mut(..),
            sums: &mut parsed.code_sums.slice_mut(..),
        };
        reconstructor.launch_ending(frame, work, ending)
    };
    let ended = reconstruct(match &decoded {
        Some(codes) => Codes::Decoded(codes),
        None => Codes::Streams(&parsed.codes),
    })?;
    observer("reconstruct")?;
    if let Some((codes, slots, plans)) = &token_groups {
        reconstruct(Codes::TokenCodes { codes, slots: *slots, plans })?;
        observer("reconstruct_token_codes")?;
    }
    Ok(ended)
}
