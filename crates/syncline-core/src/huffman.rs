//! The Huffman stage: symbols of one or two bytes to a dense sequence of codewords and back.
//!
//! Symbols come in groups of K (64 or 128). A group that contains only the zero-bit symbol takes no bits. The other
//! groups are coded, with one codebook or with one of up to four according to a class that encoder and decoder know.
//! [`encode`](fn@encode) writes a stream, [`Stream`] reads it; the layout is in `docs/FORMAT.md`, "Huffman stream".

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

mod checksum;
pub mod codebook;
mod codewords;
pub mod decode;
pub mod encode;
pub mod histogram;
pub(crate) mod index;
pub mod lengths;
mod plan;
pub mod stream;
#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use decode::StreamDecoder;
pub use encode::{EncodeOptions, EncodeScratch, EncodeSummary, encode};
pub use plan::{Plan, plan, plan_zero_bit_groups, write_plan};
pub use stream::Stream;

/// Most symbols in a stream: twice the largest chunk. Every count and offset in the stream then fits its field.
pub const MAX_SYMBOLS: usize = 1 << 23;

/// Most classes, and so codebooks, in a stream.
pub const MAX_CLASSES: usize = 4;

/// Bits of a subsequence, the unit of work of decoders on a GPU that find codewords without an index.
pub const SUBSEQUENCE_BITS: u32 = 128;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

/// A symbol of the Huffman stage: `u8` or `u16`.
pub trait Symbol: sealed::Sealed + bytemuck::Pod + Into<u32> + Into<u16> + Ord + Send + Sync + fmt::Debug {
    /// Bytes of a symbol.
    const BYTES: usize;

    /// Returns the symbol with this number; the bits above its width are dropped.
    fn truncate(number: u16) -> Self;

    /// Returns the symbol's number as an index.
    #[inline(always)]
    fn index(self) -> usize {
        let number: u16 = self.into();
        number.into()
    }
}

impl Symbol for u8 {
    const BYTES: usize = 1;

    #[inline(always)]
    fn truncate(number: u16) -> Self {
        number as u8
    }
}

impl Symbol for u16 {
    const BYTES: usize = 2;

    #[inline(always)]
    fn truncate(number: u16) -> Self {
        number
    }
}

/// The index of a Huffman stream: positions at which decoders can start. The discriminant is its code in the stream.
///
/// The kinds are those of a format version, so that a match may name them all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IndexKind {
    /// No index. The stream is smallest and is decoded slowly.
    None = 0,
    /// The start of every group of 64 or 128 symbols: for the fastest decoding, and for regions.
    #[default]
    Symbol = 2,
}

impl IndexKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 2] = [Self::None, Self::Symbol];

    /// Returns the kind with this code in the stream.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == code)
    }

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Symbol => "symbol",
        }
    }
}

/// A Huffman decoder of the CPU. All decoders return the same symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decoder {
    /// The fastest decoder for the index of the stream.
    #[default]
    Auto,
    /// Sequential decoding of each chunk: the reference for the other decoders.
    Chunked,
    /// Parallel decoding without an index: decoders that start at any bit synchronize after some codewords.
    SelfSync,
    /// Parallel decoding with the symbol index, several groups at once in each thread.
    Indexed,
}

impl Decoder {
    /// All decoders.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Chunked, Self::SelfSync, Self::Indexed];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Chunked => "chunked",
            Self::SelfSync => "self-sync",
            Self::Indexed => "indexed",
        }
    }
}

macro_rules! named {
    ($type:ty, $what:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(name: &str) -> Result<Self> {
                Self::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|k| k.name()).collect();
                    Error::invalid(format!(concat!("unknown ", $what, " '{}': use one of {}"), name, names.join(", ")))
                })
            }
        }
    };
}
named!(IndexKind, "index kind");
named!(Decoder, "decoder");
