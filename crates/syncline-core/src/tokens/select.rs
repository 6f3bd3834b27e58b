//! The shortest mode for a sample of groups, in integer arithmetic.

use super::{Mode, TokenCodebook, tokenize};
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::{LengthScratch, code_lengths};

/// A codebook and the bits that it takes together with the sample's tokens.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The codebook; it has codewords for the tokens of the sample only.
    pub codebook: TokenCodebook,
    /// Bits of the sample's codewords and raw bits, and of the codebook's bytes.
    pub bits: u64,
}

/// The mode with the fewest bits, the earlier of equals in the order of [`Mode::ALL`].
///
/// `None` if no mode represents every code. The groups have at most 2^32 - 1 codes together.
pub fn select_mode<'a>(groups: impl Iterator<Item = &'a [i32]> + Clone) -> Option<Selected> {
    let mut best: Option<Selected> = None;
    for mode in Mode::ALL {
        let candidate = measure(groups.clone(), mode);
        if let Some(candidate) = candidate.filter(|c| best.as_ref().is_none_or(|b| c.bits < b.bits)) {
            best = Some(candidate);
        }
    }
    best
}

/// The codebook of one mode; `None` if it does not represent every code.
pub fn measure<'a>(groups: impl Iterator<Item = &'a [i32]>, mode: Mode) -> Option<Selected> {
    let mut frequencies = vec![0u32; mode.alphabet()];
    let mut bits = 0u64;
    for group in groups {
        let representable = tokenize(group, mode, |token| {
            frequencies[token.symbol as usize] += 1;
            bits += u64::from(token.raw_bits);
        });
        if !representable {
            return None;
        }
    }
    let mut lengths = Vec::new();
    code_lengths(&frequencies, &mut LengthScratch::default(), &mut lengths);
    bits += frequencies.iter().zip(&lengths).map(|(&f, &l)| u64::from(f) * u64::from(l)).sum::<u64>();
    let code = Codebook::new(lengths)?;
    let mut bytes = Vec::new();
    code.write(&mut bytes);
    bits += 8 * bytes.len() as u64;
    Some(Selected { codebook: TokenCodebook::new(mode, code)?, bits })
}
