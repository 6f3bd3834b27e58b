//! The parts of the CPU's records of quantized chunks, as encoding on a device leaves them.

use std::ops::Range;

use syncline_core::bits::pack::{BLOCK, unpack_block, unpack_values};
use syncline_core::container::TileInfo;
use syncline_core::geometry::Tile;
use syncline_core::huffman::codebook::Codebook;
use syncline_core::strips::{STRIP_LEN, SYMBOLS};

/// Returns the number in four bytes.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The section of codes.
pub struct Codes<'r> {
    pub codebooks: &'r [u8],
    /// Bits of each strip, and the start of its first one.
    pub strips: Vec<Range<u32>>,
    words: Vec<u32>,
}

impl<'r> Codes<'r> {
    pub fn parse(section: &'r [u8]) -> Self {
        let [strips, coded, _, codebook_bytes, _, index_bytes] =
            std::array::from_fn(|i| u32_at(section, 4 * i) as usize);
        let codebooks = &section[24..24 + codebook_bytes];
        let mut at = (24 + codebook_bytes).next_multiple_of(4);
        let mut zeros = vec![0; strips];
        if coded < strips {
            zeros = unpack_values::<1>(&section[at..], strips).collect();
            at = (at + strips.div_ceil(8)).next_multiple_of(4);
        }
        let blocks = coded.div_ceil(BLOCK);
        let (descriptors, mut deltas) = section[at..at + index_bytes].split_at((2 * blocks).next_multiple_of(4));
        let mut lengths = Vec::new();
        for descriptor in &descriptors.as_chunks::<2>().0[..blocks] {
            let descriptor = u32::from(u16::from_le_bytes(*descriptor));
            let width = descriptor >> 12;
            lengths.extend(unpack_block(deltas, width).unwrap().map(|delta| (descriptor & 0xFFF) + delta as u32));
            deltas = &deltas[4 * width as usize..];
        }
        let (mut position, mut lengths) = (0, lengths.into_iter());
        let strips = zeros.iter().map(|&zero| {
            let start = position;
            position += if zero == 1 { 0 } else { lengths.next().unwrap() };
            start..position
        });
        let words = &section[(at + index_bytes).next_multiple_of(16)..];
        let words = words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Self { codebooks, strips: strips.collect(), words }
    }

    /// Returns bits in words of their own, first bit at the top.
    pub fn bits(&self, bits: Range<u32>) -> Vec<u32> {
        let bit = |at: u32| self.words[at as usize / 32] >> (31 - at % 32) & 1;
        let all: Vec<u32> = bits.map(bit).collect();
        let word = |bits: &[u32]| (0..).zip(bits).fold(0, |word, (i, &bit)| word | bit << (31 - i));
        all.chunks(32).map(word).collect()
    }

    /// Returns the codebooks of the codes, and that of bitmaps, which may be missing.
    pub fn codebooks(&self, classes: bool) -> (&'r [u8], &'r [u8]) {
        let mut rest = self.codebooks;
        for _ in 0..if classes { 4 } else { 1 } {
            rest = &rest[Codebook::parse(rest, SYMBOLS, "test").unwrap().1..];
        }
        self.codebooks.split_at(self.codebooks.len() - rest.len())
    }
}

/// Returns the number of strips of a tile.
pub fn strips_of(tile: &Tile, info: &TileInfo) -> usize {
    let of_codes = if info.constant { 0 } else { tile.len().div_ceil(STRIP_LEN) };
    info.bitmaps() * tile.len().div_ceil(4 * STRIP_LEN) + of_codes
}

/// Returns the info of a tile as devices have it.
pub fn packed(info: &TileInfo, is_empty: bool, verbatim: usize) -> u32 {
    u32::from(info.constant)
        | u32::from(info.predictor) << 1
        | u32::from(info.class) << 3
        | (info.mask as u32) << 5
        | u32::from(info.pattern) << 7
        | (info.sign as u32) << 9
        | u32::from(is_empty) << 11
        | (verbatim as u32) << 12
}
