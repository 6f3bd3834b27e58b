//! rANS with one state of 32 bits and words of 16: events with any probability.
//!
//! The last event is coded first, so that the decoder meets them in order. Duda, "Asymmetric numeral systems" (2013).

/// States are at least this after each event. The decoder ends with it.
const LOWEST: u32 = 1 << 16;

/// Words of a unit's state.
pub const STATE_WORDS: usize = 2;

/// Codes events, the last one first.
#[derive(Debug)]
pub struct Encoder {
    state: u32,
    /// Words in the order in which they leave the state, which is the opposite of that of the decoder.
    words: Vec<u16>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { state: LOWEST, words: Vec::new() }
    }
}

impl Encoder {
    /// Codes an interval of `frequency` of 2^`log2` from `start` on. The frequency is not 0.
    #[inline(always)]
    pub fn put(&mut self, start: u32, frequency: u32, log2: u32) {
        if u64::from(self.state) >= u64::from(frequency) << (32 - log2) {
            self.words.push(self.state as u16);
            self.state >>= 16;
        }
        self.state = ((self.state / frequency) << log2) + self.state % frequency + start;
    }

    /// Appends the state and the words for the decoder. Returns the number of words. Starts anew.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> usize {
        let state = self.state.to_le_bytes();
        out.extend_from_slice(&state);
        out.extend(self.words.iter().rev().flat_map(|word| word.to_le_bytes()));
        let count = self.words.len() + STATE_WORDS;
        self.words.clear();
        self.state = LOWEST;
        count
    }
}

/// Decodes the events of a unit in order.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    state: u32,
    words: &'a [u8],
    /// Byte of the next word.
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder of the words of a unit. `None` if they have no valid state.
    pub fn new(words: &'a [u8]) -> Option<Self> {
        let (state, rest) = words.split_first_chunk()?;
        let state = u32::from_le_bytes(*state);
        (state >= LOWEST && rest.len().is_multiple_of(2)).then_some(Self { state, words: rest, at: 0 })
    }

    /// Takes a word into a state that is too small. Beyond the end there are words of 0, which [`Self::finish`]
    /// notices.
    #[inline(always)]
    fn refill(&mut self) {
        let word = self.words.get(self.at..self.at + 2).map_or(0, |word| u16::from_le_bytes([word[0], word[1]]));
        let is_small = self.state < LOWEST;
        self.state = if is_small { self.state << 16 | u32::from(word) } else { self.state };
        self.at += usize::from(is_small) * 2;
    }

    /// Returns where the next event lies among 2^`log2`.
    #[inline(always)]
    pub fn slot(&self, log2: u32) -> u32 {
        self.state & ((1 << log2) - 1)
    }

    /// Moves past an event, whose interval contains [`Self::slot`].
    #[inline(always)]
    pub fn advance(&mut self, start: u32, frequency: u32, log2: u32) {
        self.state = frequency * (self.state >> log2) + self.slot(log2) - start;
        self.refill();
    }

    /// Returns whether the state and the words are those at the end of a unit.
    pub fn is_finished(&self) -> bool {
        self.state == LOWEST && self.at == self.words.len()
    }
}
