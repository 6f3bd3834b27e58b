//! The choices a caller has for the stages after prediction.

use std::fmt;
use std::str::FromStr;

use crate::bound::Bound;
use crate::error::{Error, Result};
use crate::huffman::IndexKind;
use crate::lzss::{LEVELS, SymbolWidth};

/// The lossless stage at the end of the pipeline.
///
/// In a lossless stream it codes the elements. In a stream with an error bound it codes the quantization codes, and
/// [`Lzss`](Self::Lzss) alone is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coder {
    /// The smaller of [`Huffman`](Self::Huffman) and [`LzssHuffman`](Self::LzssHuffman) for each chunk. With an error
    /// bound, LZSS is tried only in chunks where a sample promises a gain.
    Auto,
    /// Huffman coding alone: of quantization codes, or in lossless streams of the byte planes of prediction residuals.
    Huffman,
    /// LZSS alone. Lossless streams only.
    Lzss,
    /// LZSS followed by Huffman coding of its tokens. With an error bound, each chunk keeps plain Huffman coding where
    /// that is shorter.
    LzssHuffman,
}

impl Coder {
    /// All coders.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Huffman, Self::Lzss, Self::LzssHuffman];

    /// Returns the default coder for this bound: [`Auto`](Self::Auto) for lossless streams, [`Huffman`](Self::Huffman)
    /// with an error bound.
    pub const fn default_for(bound: Bound) -> Self {
        match bound {
            Bound::Lossless => Self::Auto,
            _ => Self::Huffman,
        }
    }

    /// Returns whether quantization codes may be encoded as LZSS tokens.
    pub const fn lzss_codes(self) -> bool {
        matches!(self, Self::Auto | Self::LzssHuffman)
    }

    /// Returns the name on the command line: `auto`, `huffman`, `lzss` or `lzss+huffman`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Huffman => "huffman",
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

/// How much compression time an encoder with an error bound may spend on a smaller stream.
///
/// Every decoder reads the streams of every effort. Lossless streams are the same with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effort {
    /// Lorenzo prediction, and a codeword for each value.
    Fast,
    /// Also interpolation inside tiles, and token codebooks. Has no gap index.
    Balanced,
    /// The smaller of what [`Fast`](Self::Fast) with LZSS and [`Balanced`](Self::Balanced) make of each chunk.
    Best,
}

impl Effort {
    /// All efforts, from the fastest to the one with the smallest streams.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Balanced, Self::Best];

    /// Returns the effort of streams with this index if none is named: [`Balanced`](Self::Balanced) with the symbol
    /// index, which GPUs need for it, and else [`Fast`](Self::Fast).
    pub const fn default_for(index: IndexKind) -> Self {
        match index {
            IndexKind::Symbol => Self::Balanced,
            IndexKind::Gap | IndexKind::None => Self::Fast,
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

/// Parameters of the lossless stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoderOptions {
    /// The stage itself.
    pub coder: Coder,
    /// Bytes of an LZSS symbol. `None` chooses by a sample of each chunk in lossless streams, and 2 for quantization
    /// codes.
    pub symbol: Option<SymbolWidth>,
    /// LZSS level, from 1 (fastest) to 9 (smallest).
    pub level: u8,
    /// The prediction and coding methods that are tried with an error bound.
    pub effort: Effort,
    /// Whether decompressed values compress to themselves, as far as this depends on the coder: tiles are not
    /// interpolated then, because interpolated values are no multiples of the step. See
    /// [`resolve`](crate::bound::resolve).
    pub rewritable: bool,
}

impl Default for CoderOptions {
    /// Returns Huffman coding alone with the effort fast, and level 3 if LZSS is chosen.
    fn default() -> Self {
        Self {
            coder: Coder::Huffman,
            symbol: None,
            level: 3,
            effort: Effort::Fast,
            rewritable: false,
        }
    }
}

impl CoderOptions {
    /// Checks the level, and that the coder and the index support streams with this bound.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the level is not 1 to 9, for LZSS alone with an error bound, or if the effort
    /// needs another index.
    pub fn validate(&self, bound: Bound, _index: IndexKind) -> Result<()> {
        if !LEVELS.contains(&self.level) {
            return Err(Error::invalid(format!("unknown level {}: use 1 (fastest) to 9 (smallest)", self.level)));
        }
        if self.coder == Coder::Lzss && bound != Bound::Lossless {
            return Err(Error::invalid(
                "coder lzss is for lossless compression only: with an error bound use huffman, lzss+huffman or auto",
            ));
        }
        Ok(())
    }
}
