//! Decoders of codes for streams that are not decoded and reconstructed by one kernel.

use syncline_core::huffman::{Decoder, IndexKind};

use crate::device::{Device, Frame};
use crate::error::Result;
use crate::huffman::decode::{Decoding, Gap, Indexed, SelfSync};

/// The decoder of a stream's codes.
#[derive(Debug)]
pub(super) enum CodeDecoder {
    /// No separate decoder: the reconstructor decodes the codes.
    Fused,
    Indexed(Indexed<u16>),
    Gap(Gap<u16>),
    SelfSync(SelfSync<u16>),
}

impl CodeDecoder {
    pub(super) fn new(device: &Device, index: IndexKind, group_log2: u32, fused: bool) -> Result<Self> {
        Ok(match index {
            _ if fused => Self::Fused,
            IndexKind::Symbol => Self::Indexed(Indexed::new(device, group_log2)?),
            IndexKind::Gap => Self::Gap(Gap::new(device, group_log2)?),
            IndexKind::None => Self::SelfSync(SelfSync::new(device, group_log2)?),
        })
    }

    pub(super) fn is_fused(&self) -> bool {
        matches!(self, Self::Fused)
    }

    pub(super) fn kind(&self) -> Option<Decoder> {
        match self {
            Self::Fused => None,
            Self::Indexed(_) => Some(Decoder::Indexed),
            Self::Gap(_) => Some(Decoder::Gap),
            Self::SelfSync(_) => Some(Decoder::SelfSync),
        }
    }

    pub(super) fn launch(&self, frame: &mut Frame<'_>, work: Decoding<'_, '_, u16>) -> Result<()> {
        match self {
            Self::Fused => Ok(()),
            Self::Indexed(decoder) => decoder.launch(frame, work),
            Self::Gap(decoder) => decoder.launch(frame, work),
            Self::SelfSync(decoder) => decoder.launch(frame, work),
        }
    }
}
