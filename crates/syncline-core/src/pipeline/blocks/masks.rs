//! The masks of blocks: elements that hold a fill pattern, or 0.0, and have no codes.

use crate::container::{Fields, pack_aligned, unpack_aligned};
use crate::contexts::bitmap;
use crate::error::{Error, Result};
use crate::quantize::Real;
use crate::quantize::mask::MaskKind;

/// Returns the patterns that masks of blocks may have: those of the header, then 0.0, which is kept exactly.
pub fn patterns_of(of_header: &[u64]) -> Vec<u64> {
    let mut patterns = of_header.to_vec();
    if !patterns.contains(&0) {
        patterns.push(0);
    }
    patterns
}

/// The masks of the blocks of a chunk, as they are written.
#[derive(Debug, Default)]
pub(super) struct MaskWriter {
    kinds: Vec<MaskKind>,
    words: Vec<u8>,
}

impl MaskWriter {
    /// Appends the mask of a block and a pattern.
    pub fn push(&mut self, mask: &Mask) {
        self.kinds.push(mask.kind);
        if mask.kind == MaskKind::Bitmap {
            self.words.extend_from_slice(&(mask.words.len() as u32 / 2).to_le_bytes());
            self.words.extend_from_slice(&mask.words);
        }
    }

    /// Appends the section, which is empty if nothing is masked.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.kinds.iter().all(|&kind| kind == MaskKind::Nothing) {
            return;
        }
        pack_aligned::<2>(out, self.kinds.iter().map(|&kind| kind as u8));
        out.extend_from_slice(&self.words);
    }
}

/// The elements of a block that hold a pattern.
#[derive(Clone, Debug, Default)]
pub(super) struct Mask {
    pub kind: MaskKind,
    /// One byte of 0 or 1 for each element, if it is a bitmap.
    pub bits: Vec<u8>,
    /// The code of a bitmap.
    words: Vec<u8>,
}

impl Mask {
    /// Finds the elements that hold a pattern.
    pub fn find<T: Real>(&mut self, x: &[T], pattern: u64) {
        self.bits.clear();
        self.bits.extend(x.iter().map(|x| u8::from(x.bits() == pattern)));
        let count: usize = self.bits.iter().map(|&bit| usize::from(bit)).sum();
        self.kind = match count {
            0 => MaskKind::Nothing,
            n if n == x.len() => MaskKind::All,
            _ => MaskKind::Bitmap,
        };
    }

    /// Codes the mask of a block.
    pub fn code(&mut self, extent: [usize; 3]) {
        self.words.clear();
        if self.kind == MaskKind::Bitmap {
            bitmap::encode(&self.bits, extent, &mut self.words);
        }
    }

    /// Adds the masked elements to `excluded`.
    pub fn add_to(&self, excluded: &mut [u8]) {
        match self.kind {
            MaskKind::Nothing => {}
            MaskKind::All => excluded.fill(1),
            MaskKind::Bitmap => excluded.iter_mut().zip(&self.bits).for_each(|(all, &bit)| *all |= bit),
        }
    }

    /// Writes the pattern to the masked elements.
    pub fn restore<T: Real>(&self, x: &mut [T], pattern: u64) {
        let value = T::from_bits(pattern);
        match self.kind {
            MaskKind::Nothing => {}
            MaskKind::All => x.fill(value),
            MaskKind::Bitmap => {
                x.iter_mut().zip(&self.bits).filter(|(_, bit)| **bit != 0).for_each(|(x, _)| *x = value);
            }
        }
    }
}

/// The section of masks, read and checked.
#[derive(Debug)]
pub(super) struct MaskSection<'a> {
    /// The kinds of the masks of all blocks, and the words of those that are bitmaps.
    masks: Vec<(MaskKind, &'a [u8])>,
}

impl<'a> MaskSection<'a> {
    /// Reads a section of `count` masks.
    ///
    /// # Errors
    /// Damage.
    pub fn parse(section: &'a [u8], count: usize, place: &'a str, corrupt: impl Fn() -> Error) -> Result<Self> {
        if section.is_empty() {
            return Ok(Self { masks: vec![(MaskKind::Nothing, section); count] });
        }
        let mut fields = Fields::new(section, place);
        let kinds = unpack_aligned::<2>(&mut fields, count)?;
        let mut masks = Vec::with_capacity(count);
        for kind in kinds {
            let kind = MaskKind::from_code(kind).ok_or_else(&corrupt)?;
            let words = match kind {
                MaskKind::Bitmap => {
                    let count = fields.u32()? as usize;
                    fields.take(count.saturating_mul(2))?
                }
                _ => &[],
            };
            masks.push((kind, words));
        }
        if !fields.rest().is_empty() {
            return Err(corrupt());
        }
        Ok(Self { masks })
    }

    /// Reads mask `number`, of a block of these extents. `None` if it is damaged.
    pub fn read(&self, number: usize, extent: [usize; 3], mask: &mut Mask) -> Option<()> {
        let (kind, words) = self.masks[number];
        mask.kind = kind;
        if kind == MaskKind::Bitmap {
            mask.bits.clear();
            mask.bits.resize(extent.iter().product(), 0);
            bitmap::decode(words, extent, &mut mask.bits)?;
        }
        Some(())
    }
}
