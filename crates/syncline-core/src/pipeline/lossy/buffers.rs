//! Memory of the encoder of quantized chunks.

use super::lzss_codes::CodeTokens;
use crate::container::TileMeta;
use crate::mem::kept::Kept;
use crate::predict::Outlier;
use crate::predict::interpolate::Scheme;
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::tokens;

/// Results of quantizing the tiles of a chunk, before entropy coding.
#[derive(Debug, Default)]
pub(in super::super) struct EncodeBuffers {
    pub(super) metas: Vec<TileMeta>,
    pub(super) bases: Vec<u32>,
    pub(super) activities: Vec<u64>,
    pub(super) codes: Vec<u16>,
    pub(super) classes: Vec<u8>,
    /// Outliers of all tiles, at positions in `codes`.
    pub(super) outliers: Vec<Outlier>,
    pub(super) verbatim: Vec<u32>,
    pub(super) verbatim_bytes: Vec<u8>,
    pub(super) masks: Vec<u8>,
    pub(super) signs: Vec<u8>,
    /// The Huffman stream of the codes.
    pub(super) coded: Vec<u8>,
    pub(super) tokens: CodeTokens,
    pub(super) token_codes: TokenCodeBuffers,
}

impl EncodeBuffers {
    /// Lists the elements `exact` of the tile `x`, which follows `position` elements of the chunk.
    pub fn push_verbatim<T: Real>(&mut self, position: u32, x: &[T], exact: &TileMask) {
        for i in exact.ones() {
            self.verbatim.push(position + i as u32);
            self.verbatim_bytes.extend_from_slice(&x[i].bits().to_le_bytes()[..size_of::<T>()]);
        }
    }

    /// Forgets the chunk before, but for what the entropy coders keep.
    pub fn clear(&mut self) {
        self.metas.clear();
        self.bases.clear();
        self.activities.clear();
        self.codes.clear();
        self.classes.clear();
        self.outliers.clear();
        self.verbatim.clear();
        self.verbatim_bytes.clear();
        self.masks.clear();
        self.signs.clear();
    }
}

/// Memory of chunks with token codebooks.
#[derive(Debug, Default)]
pub struct TokenCodeBuffers {
    pub codes: Codes,
    /// Codes of the sample, without a scheme and with each scheme.
    pub samples: [Codes; 1 + Scheme::ALL.len()],
    pub tokens: tokens::EncodeScratch,
    pub tiles: Kept,
}

/// Codes of tiles.
#[derive(Debug, Default)]
pub struct Codes {
    /// Codes of a group.
    pub group_len: usize,
    pub codes: Vec<i32>,
    /// End of each group.
    pub ends: Vec<u32>,
    /// Verbatim values.
    pub verbatim: u64,
}

impl Codes {
    /// Forgets the codes before, and takes groups of this length.
    pub fn restart(&mut self, group_len: usize) {
        self.group_len = group_len;
        self.codes.clear();
        self.ends.clear();
        self.verbatim = 0;
    }

    /// Appends the codes of a tile.
    pub fn push(&mut self, codes: impl Iterator<Item = i32>) {
        let start = self.codes.len();
        self.codes.extend(codes);
        let end = self.codes.len();
        self.ends.extend((start..end).step_by(self.group_len).map(|at| (at + self.group_len).min(end) as u32));
    }
}
