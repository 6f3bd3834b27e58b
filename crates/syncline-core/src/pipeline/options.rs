//! What the caller may choose of lossless chunks.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::lzss::{LEVELS, SymbolWidth};

/// How lossless chunks are coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LosslessPipeline {
    /// Whichever of planes and LZSS before Huffman makes the chunk smaller. Looking for matches costs most of the compression speed.
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

/// How to code lossless chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LosslessOptions {
    /// The stages.
    pub pipeline: LosslessPipeline,
    /// Width of LZSS symbols; `None` takes the best for a sample of the chunk.
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
    /// Checks the level.
    ///
    /// # Errors
    /// It is not 1 to 9.
    pub fn validate(&self) -> Result<()> {
        if LEVELS.contains(&self.level) {
            return Ok(());
        }
        Err(Error::invalid(format!("level {}: use 1 (fastest) to 9 (smallest)", self.level)))
    }
}
