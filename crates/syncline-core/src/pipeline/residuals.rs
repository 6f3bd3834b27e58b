//! Residuals of integer prediction.

use crate::array::ElementType;
use crate::container::{TileMeta, TileSection};
use crate::geometry::Tile;
use crate::predict::lorenzo::Scratch;
use crate::predict::word::Word;
use crate::predict::words;

/// The residuals of some tiles.
pub(super) struct Residuals<'m, W> {
    metas: Vec<TileMeta>,
    pub(super) bases: Vec<W>,
    /// The residuals of the tiles that are not constant.
    pub(super) words: &'m [W],
}

impl<'m, W: Word> Residuals<'m, W> {
    /// Predicts `tiles`, whose elements are `elements`; in `memory`.
    pub(super) fn new(
        element: ElementType,
        axes: usize,
        tiles: &[Tile],
        mut elements: &[W],
        memory: &'m mut Vec<u64>,
    ) -> Self {
        let words = words_in(memory, elements.len());
        let mut used = 0;
        let (mut metas, mut bases) = (Vec::with_capacity(tiles.len()), Vec::with_capacity(tiles.len()));
        let mut predictions = Scratch::default();
        for tile in tiles {
            let (values, rest) = elements.split_at(tile.len());
            elements = rest;
            let words = &mut words[used..used + tile.len()];
            words.copy_from_slice(values);
            words::map(words, element);
            let info = words::encode(words, tile.extent, axes, &mut predictions);
            let constant = info.is_constant();
            let predictor = if constant { 0 } else { info.predictor };
            metas.push(TileMeta { constant, predictor, ..TileMeta::default() });
            bases.push(info.base);
            if !constant {
                used += tile.len();
            }
        }
        Self { metas, bases, words: &words[..used] }
    }

    /// Returns the tile section of a lossless chunk.
    pub(super) fn tile_section(&self) -> TileSection {
        let tiles = self.metas.clone();
        TileSection { scheme: 0, predictors: [0; 3], classes: false, tiles }
    }
}

/// Returns memory for this many words, whose values are unspecified.
pub(super) fn words_in<W: Word>(memory: &mut Vec<u64>, count: usize) -> &mut [W] {
    let length = (count * size_of::<W>()).div_ceil(8);
    if memory.len() < length {
        memory.resize(length, 0);
    }
    &mut bytemuck::cast_slice_mut(memory)[..count]
}
