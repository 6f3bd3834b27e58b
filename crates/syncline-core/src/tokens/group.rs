//! Groups of codes as bits, and back.

use super::{Entry, Mode, tokenize};
use crate::bits::reader::BitWords;
use crate::bits::writer::BitWriter;
use crate::huffman::codebook::Codebook;

/// A codebook with its mode, ready for both directions.
#[derive(Clone, Debug)]
pub struct TokenCodebook {
    mode: Mode,
    code: Codebook,
    codewords: Vec<u32>,
    /// In canonical order.
    entries: Vec<Entry>,
}

impl TokenCodebook {
    /// `None` if `code` has a codeword for a symbol that `mode` does not have.
    pub fn new(mode: Mode, code: Codebook) -> Option<Self> {
        let entries = code.sorted_symbols().into_iter().map(|s| Entry::of(mode, s.into())).collect::<Option<_>>()?;
        let mut codewords = vec![0; code.lengths().len()];
        code.fill_codewords(&mut codewords);
        Some(Self { mode, code, codewords, entries })
    }

    /// What the symbols stand for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Entry of the codeword at the top of `window`, and the codeword's length.
    fn entry(&self, window: u64) -> Option<(Entry, u32)> {
        (1..=self.code.longest()).find_map(|length| {
            let place = ((window >> (64 - length)) as u32).checked_sub(self.code.first(length))?;
            let found = place < self.code.counts()[length as usize];
            found.then(|| (self.entries[(self.code.entry(length) + place) as usize], length))
        })
    }
}

/// Appends the tokens of a group; `false`, after some of them, if the codebook lacks one.
pub fn write_group(group: &[i32], codebook: &TokenCodebook, out: &mut BitWriter<'_>) -> bool {
    let mut complete = true;
    let representable = tokenize(group, codebook.mode, |token| {
        let codeword = codebook.codewords.get(token.symbol as usize).copied().unwrap_or(0);
        complete &= codeword & 0xff > 0;
        if complete {
            out.put(u64::from(codeword >> 8), codeword & 0xff);
            if token.raw_bits > 0 {
                out.put(u64::from(token.raw), token.raw_bits);
            }
        }
    });
    complete && representable
}

/// Fills `group` with the codes at `position` and returns the position after them; `None` if the bits are not those
/// of a group of this length.
pub fn read_group(bits: BitWords<'_>, mut position: u32, codebook: &TokenCodebook, group: &mut [i32]) -> Option<u32> {
    group.fill(0);
    let mut at = 0;
    while at < group.len() {
        let (entry, length) = codebook.entry(bits.window(position))?;
        position = position.checked_add(length)?;
        match entry {
            Entry::Rest => at = group.len(),
            Entry::Zeros(zeros) => at += zeros as usize,
            Entry::Value { zeros, base, raw_bits, negative } => {
                at += zeros as usize;
                // In two steps, as a shift by 64 is not defined.
                let raw = (bits.window(position) >> 1 >> (63 - raw_bits)) as u32;
                position = position.checked_add(raw_bits)?;
                let (low, negative) = negative.map_or((raw >> 1, raw & 1 == 1), |negative| (raw, negative));
                let magnitude = (base + low) as i32;
                *group.get_mut(at)? = if negative { -magnitude } else { magnitude };
                at += 1;
            }
        }
    }
    (at == group.len() && position <= bits.len()).then_some(position)
}
