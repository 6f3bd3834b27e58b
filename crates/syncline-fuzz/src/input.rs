//! Reads choices from a fuzzer's bytes, and generates random bytes.

/// Reads choices from the bytes of an input. At their end, every choice is 0.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Takes one byte.
    pub fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    /// Takes four bytes as a little-endian number.
    pub fn number(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Takes a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.number() as usize % limit.max(1)
    }

    /// Takes one of `choices`.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// Returns the bytes that are left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// A small deterministic generator (SplitMix64), so that a seed reproduces an input.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// Returns the next number.
    #[allow(clippy::should_implement_trait, reason = "a generator of numbers, not an iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Generates up to 4096 bytes: random ones with runs of repeated bytes, so that stages find something to compress.
pub fn generate_bytes(rng: &mut Rng) -> Vec<u8> {
    let magnitude = 4 + rng.below(9);
    let length = 16 + rng.below(1 << magnitude);
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let count = 1 + rng.below(32);
        match rng.below(4) {
            0 => bytes.extend(std::iter::repeat_n(rng.next() as u8, count)),
            1 if !bytes.is_empty() => {
                let start = rng.below(bytes.len());
                let end = bytes.len().min(start + count);
                bytes.extend_from_within(start..end);
            }
            _ => bytes.extend((0..count).map(|_| rng.next() as u8)),
        }
    }
    bytes.truncate(length);
    bytes
}
