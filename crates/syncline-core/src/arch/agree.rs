//! Which bytes agree, and where in a window a key stands.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
use avx512::Avx512;

/// Bytes that are compared at once.
pub const AGREE: usize = 32;

/// Places that are compared at once.
pub const PLACES: usize = 4;
/// Bits of a position in a word of [`PLACES`].
pub const POSITION_BITS: u32 = 16;

/// Keys of the longest window that is searched at once.
pub const WINDOW: usize = 128;
/// Keys that are compared at once.
pub const KEYS: usize = 32;
/// Bytes that are compared at once where matches are long.
pub const VECTOR: usize = 64;

/// A bit for each key of a window, the first's the lowest.
pub type Found = [u64; WINDOW / 64];

/// What was found at [`PLACES`] places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Symbols that agree where most do; of [`AGREE`] bytes that do, one symbol may be missing.
    pub length: usize,
    /// The highest position where so many do.
    pub position: usize,
    /// Whether the key's symbols agree at all places.
    pub all: bool,
}

/// A way to compare [`AGREE`] bytes. Loops are generic over it, and inlined where its instructions are enabled.
pub trait Agree: Copy {
    /// Whether many keys are compared by few instructions.
    const VECTORS: bool = false;
    /// Whether searching windows takes few instructions.
    const WINDOWS: bool = false;

    /// Bit i is set if byte i of `a` and `b` is the same.
    fn bytes(self, a: &[u8; AGREE], b: &[u8; AGREE]) -> u32;

    /// Compares what stands at four positions, 16 bits each, with `here`, in symbols of `WIDTH` (1, 2, 4 or 8) bytes.
    #[inline(always)]
    fn nearest<const WIDTH: usize>(
        self,
        here: &[u8; AGREE],
        there: [&[u8; AGREE]; PLACES],
        positions: u64,
        key_symbols: u32,
    ) -> Nearest {
        let (mut best, mut all) = (0, u32::MAX);
        for (i, there) in there.into_iter().enumerate() {
            let same = self.bytes(there, here);
            all &= same;
            let position = positions >> (POSITION_BITS * i as u32) & 0xffff;
            let this = u64::from(same.trailing_ones() / WIDTH as u32) << POSITION_BITS | position;
            best = std::hint::select_unpredictable(this > best, this, best);
        }
        Nearest {
            length: (best >> POSITION_BITS) as usize,
            position: (best & 0xffff) as usize,
            all: all.trailing_ones() >= key_symbols * WIDTH as u32,
        }
    }

    /// Which of the first `32 * DEPTH` (`DEPTH` is 1, 2 or 4) keys are `wanted`.
    #[inline(always)]
    fn keys_in_window<const DEPTH: usize>(self, keys: &[u16; WINDOW], wanted: u16) -> Found {
        let mut found = [0; WINDOW / 64];
        for (i, &key) in keys[..32 * DEPTH].iter().enumerate() {
            found[i / 64] |= u64::from(key == wanted) << (i % 64);
        }
        found
    }

    /// Bit i is set if key i of `a` and `b` is the same.
    #[inline(always)]
    fn equal_keys(self, a: &[u16; KEYS], b: &[u16; KEYS]) -> u32 {
        a.iter().zip(b).rev().fold(0, |mask, (a, b)| mask << 1 | u32::from(a == b))
    }

    /// How many bytes are the same, from the first on.
    #[inline(always)]
    fn common(self, a: &[u8; VECTOR], b: &[u8; VECTOR]) -> usize {
        a.iter().zip(b).take_while(|(a, b)| a == b).count()
    }
}

/// Byte by byte, on any machine.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Agree for Portable {
    #[inline(always)]
    fn bytes(self, a: &[u8; AGREE], b: &[u8; AGREE]) -> u32 {
        a.iter().zip(b).rev().fold(0, |mask, (a, b)| mask << 1 | u32::from(a == b))
    }
}

/// One vector comparison.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Agree for Avx2 {
    const VECTORS: bool = true;

    #[inline(always)]
    fn equal_keys(self, a: &[u16; KEYS], b: &[u16; KEYS]) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: only `with_best` makes an `Avx2`, and only where it has found AVX2; the loads are of halves of 64
        // bytes that the references hold, unaligned.
        unsafe {
            let load = |keys: &[u16; KEYS], half| _mm256_loadu_si256(keys.as_ptr().cast::<__m256i>().add(half));
            let low = _mm256_cmpeq_epi16(load(a, 0), load(b, 0));
            let high = _mm256_cmpeq_epi16(load(a, 1), load(b, 1));
            // Packing takes 16 bytes of each in turn.
            let both = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
            _mm256_movemask_epi8(both) as u32
        }
    }

    #[inline(always)]
    fn bytes(self, a: &[u8; AGREE], b: &[u8; AGREE]) -> u32 {
        use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8};
        // SAFETY: only `with_best` makes an `Avx2`, and only where it has found AVX2; the loads are of 32 bytes that
        // the references hold, unaligned.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast()));
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)) as u32
        }
    }
}

/// A loop that compares.
pub trait Comparing {
    /// What the loop returns.
    type Output;

    /// The loop. Must be `#[inline(always)]`, as must be everything hot that it calls.
    fn run<A: Agree>(self, agree: A) -> Self::Output;
}

/// Runs `comparing`, compiled for the best comparison of this machine. The result is the same everywhere.
#[inline]
pub fn with_best<C: Comparing>(comparing: C) -> C::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
        fn wide<C: Comparing>(comparing: C) -> C::Output {
            comparing.run(Avx2(()))
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vl,avx2,fma,bmi1,bmi2,lzcnt")]
        fn wider<C: Comparing>(comparing: C) -> C::Output {
            comparing.run(Avx512(Avx2(())))
        }
        if super::has_avx2() {
            if has_avx512() {
                // SAFETY: `has_avx2` and `has_avx512` have just found every feature that `wider` enables.
                return unsafe { wider(comparing) };
            }
            // SAFETY: `has_avx2` has just found every feature that `wide` enables.
            return unsafe { wide(comparing) };
        }
    }
    comparing.run(Portable)
}

/// Whether the machine has what [`Avx512`] uses beyond AVX2.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Places<'a, const WIDTH: usize>(&'a [u8; AGREE], [&'a [u8; AGREE]; PLACES], u64, u32);

    impl<const WIDTH: usize> Comparing for Places<'_, WIDTH> {
        type Output = Nearest;

        #[inline(always)]
        fn run<A: Agree>(self, agree: A) -> Nearest {
            agree.nearest::<WIDTH>(self.0, self.1, self.2, self.3)
        }
    }

    fn compare_places<const WIDTH: usize>() {
        let here: [u8; AGREE] = std::array::from_fn(|i| i as u8 * 5);
        // Every length at every place, the others a symbol shorter, as long, or of no length.
        let agreeing = |bytes: usize| -> [u8; AGREE] { std::array::from_fn(|i| here[i] ^ u8::from(i >= bytes)) };
        for length in 0..AGREE / WIDTH {
            for place in 0..PLACES {
                for other in [length.saturating_sub(1), length, 0] {
                    let all: [[u8; AGREE]; PLACES] =
                        std::array::from_fn(|i| agreeing(WIDTH * if i == place { length } else { other }));
                    let places = Places::<WIDTH>(&here, all.each_ref(), 0x0003_0500_7fff_8000, 1);
                    let found = with_best(places);
                    let position = if other == length { 0x8000 } else { [0x8000, 0x7fff, 0x500, 3][place] };
                    assert_eq!(
                        found,
                        Nearest { length, position, all: length > 0 && other > 0 },
                        "{WIDTH} {place} {other}"
                    );
                    assert_eq!(found, places.run(Portable));
                }
            }
        }
        let whole = with_best(Places::<WIDTH>(&here, [&here; PLACES], 0x0001_0002_0003_0004, 1));
        assert!(whole.all && whole.position == 4 && whole.length >= (AGREE / WIDTH).min(31));
    }

    #[test]
    fn the_longest_and_nearest_of_four() {
        compare_places::<1>();
        compare_places::<2>();
        compare_places::<4>();
        compare_places::<8>();
    }

    #[derive(Clone, Copy)]
    struct Keys<'a, const DEPTH: usize>(&'a [u16; WINDOW]);

    impl<const DEPTH: usize> Comparing for Keys<'_, DEPTH> {
        type Output = Found;

        #[inline(always)]
        fn run<A: Agree>(self, agree: A) -> Self::Output {
            agree.keys_in_window::<DEPTH>(self.0, 0x107)
        }
    }

    fn compare_windows<const DEPTH: usize>() {
        for first in 0..WINDOW {
            for second in [0, 31, 32, 63, 64, 126, 127] {
                let is_wanted = |i: usize| i == first || i == second;
                let keys = std::array::from_fn(|i| if is_wanted(i) { 0x107 } else { 7 });
                let bits = (1_u128 << first | 1 << second) & u128::MAX >> (WINDOW - 32 * DEPTH);
                let expected = [bits as u64, (bits >> 64) as u64];
                let keys = Keys::<DEPTH>(&keys);
                assert_eq!((with_best(keys), keys.run(Portable)), (expected, expected));
            }
        }
    }

    #[test]
    fn keys_are_found_in_windows() {
        compare_windows::<1>();
        compare_windows::<2>();
        compare_windows::<4>();
    }

    #[derive(Clone, Copy)]
    struct Equal<'a>(&'a [u16; KEYS], &'a [u16; KEYS]);

    impl Comparing for Equal<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<A: Agree>(self, agree: A) -> u32 {
            agree.equal_keys(self.0, self.1)
        }
    }

    #[test]
    fn equal_keys_set_their_bits() {
        let a: [u16; KEYS] = std::array::from_fn(|i| i as u16 * 777);
        for wanted in (0..KEYS).flat_map(|i| [1 << i, !(1 << i), 0x9E37_79B1_u32.rotate_left(i as u32)]) {
            let b = std::array::from_fn(|i| a[i] ^ u16::from(wanted >> i & 1 == 0) << (i % 16));
            let equal = Equal(&a, &b);
            assert_eq!((with_best(equal), equal.run(Portable)), (wanted, wanted));
            #[cfg(target_arch = "x86_64")]
            if super::super::has_avx2() {
                assert_eq!(equal.run(Avx2(())), wanted);
            }
        }
    }

    #[derive(Clone, Copy)]
    struct Common<'a>(&'a [u8; VECTOR], &'a [u8; VECTOR]);

    impl Comparing for Common<'_> {
        type Output = usize;

        #[inline(always)]
        fn run<A: Agree>(self, agree: A) -> usize {
            agree.common(self.0, self.1)
        }
    }

    #[test]
    fn common_bytes_end_with_the_first_that_differs() {
        let a: [u8; VECTOR] = std::array::from_fn(|i| (i as u8).wrapping_mul(7));
        assert_eq!((with_best(Common(&a, &a)), Common(&a, &a).run(Portable)), (VECTOR, VECTOR));
        for first in 0..VECTOR {
            let b = std::array::from_fn(|i| a[i] ^ u8::from(i == first || i > first && i % 3 == 0));
            assert_eq!((with_best(Common(&a, &b)), Common(&a, &b).run(Portable)), (first, first));
        }
    }

    #[derive(Clone, Copy)]
    struct Compare<'a>(&'a [u8; AGREE], &'a [u8; AGREE]);

    impl Comparing for Compare<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<A: Agree>(self, agree: A) -> u32 {
            agree.bytes(self.0, self.1)
        }
    }

    #[test]
    fn differences_clear_their_bits() {
        let a: [u8; AGREE] = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!((with_best(Compare(&a, &a)), Portable.bytes(&a, &a)), (u32::MAX, u32::MAX));
        for first in 0..AGREE {
            for second in 0..first {
                let mut b = a;
                b[first] ^= 1;
                b[second] ^= 0x80;
                let expected = !(1 << first | 1 << second);
                assert_eq!((with_best(Compare(&a, &b)), Portable.bytes(&a, &b)), (expected, expected));
            }
        }
    }
}
