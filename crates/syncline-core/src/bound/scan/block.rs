//! Statistics of one block of elements: range, NaNs, infinities, zeros.
//!
//! Floating-point bits are compared as integers: flipping the magnitude of negative ones makes signed order the order
//! of the values.

use crate::bound::MAX_FILLS;
use crate::simd::dispatched;

/// Elements in a block; its counters are as narrow as the elements.
pub const BLOCK: usize = 1024;

/// Bits of an f32 or f64 as a signed integer.
pub trait Key: Copy + Ord + std::fmt::Debug {
    /// Bits of infinity.
    const INFINITY: Self;
    /// Bits of -0.0, also the smallest key.
    const MIN: Self;
    /// Largest key.
    const MAX: Self;
    /// 0.
    const ZERO: Self;
    /// Converts bits to a key, or a key to bits.
    fn key(self) -> Self;
    /// Clears the sign bit.
    fn magnitude(self) -> Self;
    /// Returns this number plus 1 if `yes`, and this number otherwise.
    fn count(self, yes: bool) -> Self;
    /// Converts to 64 bits by sign extension.
    fn widen(self) -> i64;
    /// Returns the bits, zero-extended.
    fn bits(self) -> u64;
    /// Converts from zero-extended bits.
    fn from_bits(bits: u64) -> Self;
    /// Returns whether these are the bits of a NaN.
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.magnitude() > Self::INFINITY
    }
    /// Returns whether these are the bits of a finite value.
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.magnitude() < Self::INFINITY
    }
}

/// Little-endian bytes of a key.
pub trait Bytes<K>: Sized {
    /// Returns the element's bits.
    fn load(&self) -> K;
    /// What is in at most [`BLOCK`] elements, those with one of the bits `excluded` left out.
    fn block(words: &[Self], excluded: &[K]) -> BlockStats;
}

macro_rules! keys {
    ($($key:ty, $unsigned:ty, $float:ty, $bytes:literal, $block:ident);*) => {$(
        impl Key for $key {
            const INFINITY: Self = <$float>::INFINITY.to_bits() as Self;
            const MIN: Self = <$key>::MIN;
            const MAX: Self = <$key>::MAX;
            const ZERO: Self = 0;
            #[inline(always)]
            fn key(self) -> Self {
                self ^ ((self >> (<$key>::BITS - 1)) & <$key>::MAX)
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self & <$key>::MAX
            }
            #[inline(always)]
            fn count(self, yes: bool) -> Self {
                self + Self::from(yes)
            }
            #[inline(always)]
            fn widen(self) -> i64 {
                i64::from(self)
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        }
        impl Bytes<$key> for [u8; $bytes] {
            #[inline(always)]
            fn load(&self) -> $key {
                <$key>::from_le_bytes(*self)
            }
            #[inline]
            fn block(words: &[Self], excluded: &[$key]) -> BlockStats {
                $block(words, excluded)
            }
        }
    )*};
}
keys!(i32, u32, f32, 4, block_f32; i64, u64, f64, 8, block_f64);

/// An integer of 64 bits, which is neither a NaN nor infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole(i64);

impl Key for Whole {
    const INFINITY: Self = Self(i64::MAX);
    const MIN: Self = Self(i64::MIN);
    const MAX: Self = Self(i64::MAX);
    const ZERO: Self = Self(0);
    fn key(self) -> Self {
        self
    }
    fn magnitude(self) -> Self {
        Self(0)
    }
    fn count(self, yes: bool) -> Self {
        Self(self.0 + i64::from(yes))
    }
    fn widen(self) -> i64 {
        self.0
    }
    fn bits(self) -> u64 {
        self.0 as u64
    }
    fn from_bits(bits: u64) -> Self {
        Self(bits as i64)
    }
}

impl Bytes<Whole> for [u8; 8] {
    fn load(&self) -> Whole {
        Whole(i64::from_le_bytes(*self))
    }
    fn block(words: &[Self], excluded: &[Whole]) -> BlockStats {
        block_whole(words, excluded)
    }
}

#[inline(always)]
fn whole_body(words: &[[u8; 8]], excluded: &[Whole]) -> BlockStats {
    let mut stats = BlockStats { count: words.len() as u64, ..BlockStats::default() };
    for word in words {
        let value = i64::from_le_bytes(*word);
        let place = excluded.iter().position(|pattern| pattern.0 == value);
        if let Some(place) = place {
            stats.excluded[place] += 1;
        } else {
            (stats.lowest, stats.highest) = (stats.lowest.min(value), stats.highest.max(value));
        }
    }
    stats
}

dispatched! {
    fn block_whole(words: &[[u8; 8]], excluded: &[Whole]) -> BlockStats = whole_body
}

/// Counts over some elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStats {
    /// Smallest key of the finite elements that are not excluded, or more than `highest` if there is none.
    pub lowest: i64,
    /// Largest such key.
    pub highest: i64,
    /// Elements.
    pub count: u64,
    /// Elements that hold each of the excluded bit patterns; they are not counted further.
    pub excluded: [u64; MAX_FILLS],
    /// NaNs of any payload.
    pub nans: u64,
    /// Infinities of either sign.
    pub infinities: u64,
    /// -0.0.
    pub minus_zeros: u64,
    /// +0.0.
    pub zeros: u64,
}

impl Default for BlockStats {
    fn default() -> Self {
        Self {
            lowest: i64::MAX,
            highest: i64::MIN,
            count: 0,
            excluded: [0; MAX_FILLS],
            nans: 0,
            infinities: 0,
            minus_zeros: 0,
            zeros: 0,
        }
    }
}

impl BlockStats {
    /// Combines the statistics of two blocks.
    pub fn merge(self, other: Self) -> Self {
        Self {
            lowest: self.lowest.min(other.lowest),
            highest: self.highest.max(other.highest),
            count: self.count + other.count,
            excluded: std::array::from_fn(|i| self.excluded[i] + other.excluded[i]),
            nans: self.nans + other.nans,
            infinities: self.infinities + other.infinities,
            minus_zeros: self.minus_zeros + other.minus_zeros,
            zeros: self.zeros + other.zeros,
        }
    }

    /// Returns the smallest and the largest key, if there is any.
    pub fn range(&self) -> Option<(i64, i64)> {
        (self.lowest <= self.highest).then_some((self.lowest, self.highest))
    }
}

/// Returns the extremes and the counts of zeros of all elements. Infinities and NaNs are treated as values and become
/// the extremes.
#[inline(always)]
fn plain<K: Key, const N: usize>(block: &[[u8; N]]) -> (K, K, K, K)
where
    [u8; N]: Bytes<K>,
{
    let (mut lowest, mut highest, mut minus, mut zeros) = (K::MAX, K::MIN, K::ZERO, K::ZERO);
    for word in block {
        let bits = word.load();
        let key = bits.key();
        lowest = lowest.min(key);
        highest = highest.max(key);
        minus = minus.count(bits == K::MIN);
        zeros = zeros.count(bits == K::ZERO);
    }
    (lowest, highest, minus, zeros)
}

/// Returns the extremes and all counts. NaNs, infinities, and excluded elements are counted separately.
#[inline(always)]
fn careful<K: Key, const N: usize>(block: &[[u8; N]], excluded: &[K]) -> BlockStats
where
    [u8; N]: Bytes<K>,
{
    let (mut lowest, mut highest) = (K::MAX, K::MIN);
    let [mut nans, mut infinities, mut minus, mut zeros] = [K::ZERO; 4];
    let mut left_out = [K::ZERO; MAX_FILLS];
    // Several short passes: one long one is not vectorized. What is to be skipped is made a NaN.
    let mut all = [K::ZERO; BLOCK];
    let all = &mut all[..block.len()];
    all.iter_mut().zip(block).for_each(|(bits, word)| *bits = word.load());
    for (pattern, left_out) in excluded.iter().zip(&mut left_out) {
        for (bits, word) in all.iter_mut().zip(block) {
            let skip = word.load() == *pattern;
            *bits = if skip { K::MAX } else { *bits };
            *left_out = left_out.count(skip);
        }
    }
    for bits in &*all {
        let key = if bits.is_finite() { bits.key() } else { K::MAX };
        lowest = lowest.min(key);
    }
    for bits in &*all {
        let key = if bits.is_finite() { bits.key() } else { K::MIN };
        highest = highest.max(key);
    }
    for bits in &*all {
        nans = nans.count(bits.is_nan());
        infinities = infinities.count(bits.magnitude() == K::INFINITY);
    }
    for bits in &*all {
        minus = minus.count(*bits == K::MIN);
        zeros = zeros.count(*bits == K::ZERO);
    }
    let count = |k: K| k.widen() as u64;
    let left_out = left_out.map(count);
    BlockStats {
        lowest: if lowest <= highest { lowest.widen() } else { i64::MAX },
        highest: if lowest <= highest { highest.widen() } else { i64::MIN },
        count: block.len() as u64,
        excluded: left_out,
        // Those left out were made NaN above.
        nans: count(nans) - left_out.iter().sum::<u64>(),
        infinities: count(infinities),
        minus_zeros: count(minus),
        zeros: count(zeros),
    }
}

#[inline(always)]
fn block_body<K: Key, const N: usize>(block: &[[u8; N]], excluded: &[K]) -> BlockStats
where
    [u8; N]: Bytes<K>,
{
    if excluded.is_empty() && !block.is_empty() {
        let (lowest, highest, minus, zeros) = plain::<K, N>(block);
        // Keys ascend from -NaN over -inf to +inf and +NaN: finite extremes mean that all is finite.
        if highest < K::INFINITY && lowest.key().magnitude() < K::INFINITY {
            return BlockStats {
                lowest: lowest.widen(),
                highest: highest.widen(),
                count: block.len() as u64,
                minus_zeros: minus.widen() as u64,
                zeros: zeros.widen() as u64,
                ..BlockStats::default()
            };
        }
    }
    careful(block, excluded)
}

dispatched! {
    fn block_f32(block: &[[u8; 4]], excluded: &[i32]) -> BlockStats = block_body::<i32, 4>
}
dispatched! {
    fn block_f64(block: &[[u8; 8]], excluded: &[i64]) -> BlockStats = block_body::<i64, 8>
}
