//! The choices a caller has for the stages after prediction.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::lzss::{LEVELS, SymbolWidth};

/// The lossless stage at the end of the pipeline.
///
/// It codes the elements of lossless streams. Streams with an error bound have Huffman codebooks of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coder {
    /// [`Numbers`](Self::Numbers); with levels 5 to 9, and for elements of 8 bits, also
    /// [`LzssHuffman`](Self::LzssHuffman) where a sample of a chunk promises more than 3 %, and then the smaller of
    /// both.
    Auto,
    /// The integers that elements are made of, predicted, as bins and raw bits.
    Numbers,
    /// LZSS alone.
    Lzss,
    /// LZSS followed by Huffman coding of its tokens.
    LzssHuffman,
}

impl Coder {
    /// All coders.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Numbers, Self::Lzss, Self::LzssHuffman];

    /// Returns the name on the command line: `auto`, `numbers`, `lzss` or `lzss+huffman`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Numbers => "numbers",
            Self::Lzss => "lzss",
            Self::LzssHuffman => "lzss+huffman",
        }
    }
}

impl fmt::Display for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Coder {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|coder| coder.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("unknown coder '{name}': use one of {names}"))
        })
    }
}

/// How much time compression may take for a smaller stream. Every decoder reads the streams of every effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effort {
    /// With an error bound, small tiles. Lossless, as [`Balanced`](Self::Balanced).
    Fast,
    /// With an error bound, blocks. Lossless, numbers.
    #[default]
    Balanced,
    /// With an error bound, blocks, or small tiles if these make a sample of the array smaller. Lossless, numbers, or
    /// LZSS with the longest window for chunks where a sample promises that it is smaller.
    Best,
}

impl Effort {
    /// All efforts, from the fastest to the one with the smallest streams.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Balanced, Self::Best];

    /// Returns the coder of lossless streams that this effort stands for.
    pub const fn coder(self) -> Coder {
        match self {
            Self::Fast | Self::Balanced | Self::Best => Coder::Auto,
        }
    }

    /// Returns the LZSS level of lossless streams that this effort stands for.
    pub const fn level(self) -> u8 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Best => 9,
        }
    }

    /// Returns the name on the command line: `fast`, `balanced`, or `best`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Balanced => "balanced",
            Self::Best => "best",
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Effort {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|effort| effort.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("unknown effort '{name}': use one of {names}"))
        })
    }
}

/// Choices of the encoder of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoderOptions {
    /// The coder of lossless streams.
    pub coder: Coder,
    /// Bytes of an LZSS symbol; `None` stands for those of an element.
    pub symbol: Option<SymbolWidth>,
    /// LZSS level, from 1 (fastest) to 9 (smallest).
    pub level: u8,
    /// Whether tiles of streams with an error bound may be interpolated. Those of rewritable streams may not, because
    /// interpolated values are no multiples of the step: see [`resolve`](crate::bound::resolve).
    pub interpolates: bool,
}

impl Default for CoderOptions {
    /// Returns numbers, level 3 if LZSS is chosen, and tiles that may be interpolated.
    fn default() -> Self {
        Self { coder: Coder::Auto, symbol: None, level: 3, interpolates: true }
    }
}

/// Levels with which [`Coder::Auto`] tries LZSS, too; of bytes, which may be text, it does with every level.
const LONG_WINDOWS: std::ops::RangeInclusive<u8> = 5..=9;

impl CoderOptions {
    /// Returns whether chunks of elements of so many bytes may become LZSS tokens.
    #[doc(hidden)]
    pub fn tries_lzss(&self, element_bytes: usize) -> bool {
        match self.coder {
            Coder::Numbers => false,
            Coder::Auto => LONG_WINDOWS.contains(&self.level) || element_bytes == 1,
            Coder::Lzss | Coder::LzssHuffman => true,
        }
    }

    /// Returns whether [`Coder::Auto`] codes a chunk that takes `numbers` bytes as numbers as LZSS tokens, too, which
    /// are estimated to take so many.
    #[doc(hidden)]
    pub fn is_promising(expected: u64, numbers: u64) -> bool {
        expected < numbers - numbers / 32
    }

    /// Checks the level.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the level is not 1 to 9.
    pub fn validate(&self) -> Result<()> {
        if LEVELS.contains(&self.level) {
            return Ok(());
        }
        Err(Error::invalid(format!("unknown level {}: use 1 to 9", self.level)))
    }
}
