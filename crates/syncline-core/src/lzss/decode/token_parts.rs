//! The token fields of one block, as the decoder receives them, and the check that their lengths fit together.

use super::super::Params;
use crate::simd::{self, InstructionSet, Kernel};

/// Bytes after a block that its decoder may overwrite, and bytes after literals, lengths and distances that it may
/// load.
pub const SLACK: usize = 64;

/// The error of a match or literal run that does not fit into its block.
pub(super) const OUTSIDE_BLOCK: &str = "an LZSS match or literal reaches out of its block";
/// The error of tokens that do not fill their block.
pub(super) const ENDS_EARLY: &str = "its LZSS tokens end before their block";

/// The fields of one block's tokens. Except for `flags`, each slice continues with the fields of the following blocks
/// and ends with [`SLACK`] more bytes.
#[derive(Clone, Copy, Debug)]
pub struct TokenParts<'a> {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of tokens that are matches.
    pub matches: usize,
    /// One bit for each token, 64 in a word; set for a match.
    pub flags: &'a [u64],
    /// Symbols of the literals.
    pub literals: &'a [u8],
    /// Length of each match minus the shortest length.
    pub lengths: &'a [u8],
    /// Distance of each match, in one or two bytes.
    pub distances: &'a [u8],
}

impl TokenParts<'_> {
    /// Checks that every field is as long as the flags and counts require.
    pub(super) fn check(&self, params: &Params) -> Result<(), &'static str> {
        if self.matches > self.tokens {
            return Err("more matches than tokens");
        }
        let literal_bytes = (self.tokens - self.matches) * params.width.bytes();
        let has_fields = self.flags.len() == self.tokens.div_ceil(64)
            && self.literals.len() >= literal_bytes + SLACK
            && self.lengths.len() >= self.matches + SLACK
            && self.distances.len() >= self.matches * params.distance_bytes() + SLACK;
        let flagged = simd::run(CountOnes(self.flags));
        // A bit after the last token would count as a match, and the block would take more literals than it has.
        let unused = self.flags.last().map_or(0, |&word| match self.tokens % 64 {
            0 => 0,
            used => word >> used,
        });
        if !has_fields || flagged != self.matches || unused != 0 {
            return Err("its LZSS flags and token counts disagree");
        }
        Ok(())
    }
}

/// Counts the bits that are set.
struct CountOnes<'a>(&'a [u64]);

impl Kernel for CountOnes<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> usize {
        let mut ones = 0;
        for word in self.0 {
            ones += u64::from(word.count_ones());
        }
        ones as usize
    }
}
