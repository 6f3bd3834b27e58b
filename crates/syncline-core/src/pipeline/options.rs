//! What the caller may choose of the stages after prediction.

use std::fmt;
use std::str::FromStr;

use crate::bound::Bound;
use crate::error::{Error, Result};
use crate::lzss::{LEVELS, SymbolWidth};

/// How lossless chunks are coded, and whether quantization codes may be LZSS tokens.
///
/// Codes are a Huffman stream with [`Planes`](Self::Planes). With [`LzssHuffman`](Self::LzssHuffman) each chunk also is
/// made with its codes as LZSS tokens, Huffman-coded, and the shorter stays; with [`Auto`](Self::Auto) only where a
/// sample says that this pays. [`Lzss`](Self::Lzss) is for lossless streams alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LosslessPipeline {
    /// Whichever of planes and LZSS before Huffman makes the chunk smaller. Looking for matches costs most of the
    /// compression speed.
    Auto,
    /// Huffman-coded planes of the residuals: the fastest to compress.
    #[default]
    Planes,
    /// LZSS alone: decompresses fastest.
    Lzss,
    /// LZSS, its tokens Huffman-coded.
    LzssHuffman,
}

impl LosslessPipeline {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Planes, Self::Lzss, Self::LzssHuffman];

    /// Whether quantization codes may become LZSS tokens.
    pub const fn lzss_codes(self) -> bool {
        matches!(self, Self::Auto | Self::LzssHuffman)
    }

    /// Name as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Planes => "planes",
            Self::Lzss => "lzss",
            Self::LzssHuffman => "lzss+huffman",
        }
    }
}

impl fmt::Display for LosslessPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LosslessPipeline {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("unknown pipeline '{name}': use one of {names}"))
        })
    }
}

/// How to code lossless chunks, and quantization codes if LZSS is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LosslessOptions {
    /// The stages.
    pub pipeline: LosslessPipeline,
    /// Width of LZSS symbols; `None` takes the best for a sample of the chunk, and for quantization codes 2.
    pub symbol: Option<SymbolWidth>,
    /// LZSS level, 1 (fastest) to 9 (smallest).
    pub level: u8,
}

impl Default for LosslessOptions {
    fn default() -> Self {
        Self { pipeline: LosslessPipeline::Planes, symbol: None, level: 3 }
    }
}

impl LosslessOptions {
    /// Checks the level, and that there is such a pipeline for streams of this bound.
    ///
    /// # Errors
    /// The level is not 1 to 9, or LZSS alone is asked for and the bound is not lossless.
    pub fn validate(&self, bound: Bound) -> Result<()> {
        if !LEVELS.contains(&self.level) {
            return Err(Error::invalid(format!("level {}: use 1 (fastest) to 9 (smallest)", self.level)));
        }
        if self.pipeline == LosslessPipeline::Lzss && bound != Bound::Lossless {
            return Err(Error::invalid(
                "pipeline lzss is for lossless compression: with an error bound use planes (Huffman coding alone), lzss+huffman or auto",
            ));
        }
        Ok(())
    }
}
