//! XXH3-64 of long messages, 64 bytes at a time.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::mem::prefetch::prefetch;
use crate::mem::uninit::{UninitBytes, Written};
use crate::simd::Avx512;

/// Bytes that are hashed at a time.
const STRIPE: usize = 64;
/// Stripes after which the sums are scrambled.
const BLOCK_STRIPES: usize = 16;
/// Distance in bytes at which source and destination are prefetched while copying. Zen 4 copied 12 MB in the L3 cache
/// at 16 GB/s without prefetching, at 26 with a distance of 256, 24 with 512, and 18 with 768. It copied larger data at
/// 17 GB/s with up to 512, and at 13 with more.
const COPY_AHEAD: usize = 256;
/// Distance in bytes at which the source is prefetched while hashing without copying. It is the size of a tile, because
/// the hardware prefetcher stops at the end of each page. Raw chunks of 2-D and 3-D tiles were decoded up to a quarter
/// faster, others as fast as before.
const HASH_AHEAD: usize = 4096;

const PRIME32_1: u64 = 0x9E37_79B1;
const PRIME32_2: u64 = 0x85EB_CA77;
const PRIME32_3: u64 = 0xC2B2_AE3D;
const PRIME64_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME64_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME64_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME64_5: u64 = 0x27D4_EB2F_1656_67C5;
const PRIME_MX1: u64 = 0x1656_6791_9E37_79F9;

/// The default secret of XXH3. A block's stripes are keyed from its start on, each 8 bytes further.
static SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, //
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, //
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, //
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, //
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, //
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, //
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, //
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, //
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb, //
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, //
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, //
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e, //
];
/// Offsets in the secret of the keys for scrambling, for the last stripe, and for the merge.
const SCRAMBLE_KEY: usize = SECRET.len() - STRIPE;
const LAST_KEY: usize = SECRET.len() - STRIPE - 7;
const MERGE_KEY: usize = 11;

/// The state of a message of more than 240 bytes.
pub(super) struct Long {
    /// Proves that the processor has AVX-512.
    _token: Avx512,
    sums: [u64; 8],
    /// Stripes of the current block that have been taken.
    taken: usize,
    /// The last stripe that was hashed, followed by bytes that have not been hashed: up to a stripe, because the last
    /// stripe of a message is treated differently from the others.
    recent: [u8; 2 * STRIPE],
    /// Number of bytes in `recent` that have not been hashed.
    kept: usize,
    /// Number of bytes that have been written.
    len: u64,
}

impl Long {
    /// Starts the checksum of a message; `None` if the processor has no AVX-512.
    pub(super) fn new() -> Option<Self> {
        let sums = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
        let token = Avx512::detected()?;
        Some(Self { _token: token, sums, taken: 0, recent: [0; 2 * STRIPE], kept: 0, len: 0 })
    }

    /// Takes the next bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.absorb::<false>(bytes, &mut []);
    }

    /// Takes the next bytes and writes them to the first bytes of `place`.
    ///
    /// # Panics
    /// `place` is shorter.
    pub(super) fn copy<'m>(&mut self, bytes: &[u8], mut place: UninitBytes<'m>) -> Written<'m> {
        // SAFETY: only the bytes of `bytes` are written.
        let to = &mut unsafe { place.as_mut_slice() }[..bytes.len()];
        let Range { start, end } = self.stripes_of(bytes.len());
        to[..start].write_copy_of_slice(&bytes[..start]);
        to[end..].write_copy_of_slice(&bytes[end..]);
        self.absorb::<true>(bytes, to[start..end].as_chunks_mut().0);
        // SAFETY: everything before `start` and from `end` on was copied above, and `absorb` has written the whole
        // stripes between them.
        unsafe { place.assume_written(bytes.len()) }
    }

    /// Returns the range of the next `len` bytes that consists of whole stripes to hash in place. It starts after the
    /// bytes that complete the stripe that is kept, and ends at least one byte before the end.
    fn stripes_of(&self, len: usize) -> Range<usize> {
        let start = (STRIPE - self.kept).min(len);
        start..start + len.saturating_sub(start + 1) / STRIPE * STRIPE
    }

    /// Takes the next bytes, and writes their stripes to `places` if `COPY`.
    fn absorb<const COPY: bool>(&mut self, bytes: &[u8], places: &mut [[MaybeUninit<u8>; STRIPE]]) {
        let Range { start, end } = self.stripes_of(bytes.len());
        self.len += bytes.len() as u64;
        self.keep(&bytes[..start]);
        if start == bytes.len() {
            return;
        }
        let kept = *self.recent.last_chunk().expect("two stripes");
        self.take::<false>(&[kept], &mut []);
        self.take::<COPY>(bytes[start..end].as_chunks().0, places);
        self.kept = 0;
        self.keep(&bytes[end..]);
    }

    /// Keeps bytes for later. There is room for them.
    fn keep(&mut self, bytes: &[u8]) {
        self.recent[STRIPE + self.kept..][..bytes.len()].copy_from_slice(bytes);
        self.kept += bytes.len();
    }

    /// Takes stripes, none of them the last of the message, and writes them to `places` if `COPY`.
    fn take<const COPY: bool>(&mut self, stripes: &[[u8; STRIPE]], places: &mut [[MaybeUninit<u8>; STRIPE]]) {
        if let Some(last) = stripes.last() {
            self.recent[..STRIPE].copy_from_slice(last);
        }
        // SAFETY: the token in `self` proves that the processor has AVX-512 F.
        unsafe { take::<COPY>(&mut self.sums, &mut self.taken, stripes, places) };
    }

    /// Returns the checksum, if the whole message has been written.
    pub(super) fn finish(&self) -> u64 {
        let mut sums = self.sums;
        let last = self.recent[self.kept..].first_chunk().expect("a stripe and what is kept");
        // SAFETY: the token in `self` proves that the processor has AVX-512 F.
        unsafe { take_last(&mut sums, last) };
        let (keys, _) = SECRET[MERGE_KEY..].as_chunks();
        let key = |i: usize| u64::from_le_bytes(keys[i]);
        let merged = (0..8).step_by(2).fold(self.len.wrapping_mul(PRIME64_1), |merged, i| {
            let product = u128::from(sums[i] ^ key(i)) * u128::from(sums[i + 1] ^ key(i + 1));
            merged.wrapping_add(product as u64 ^ (product >> 64) as u64)
        });
        let mixed = (merged ^ merged >> 37).wrapping_mul(PRIME_MX1);
        mixed ^ mixed >> 32
    }
}

/// Adds stripes to the sums, and writes them to `places` if `COPY`; `taken` are those of their block before them.
///
/// # Panics
/// There are fewer places.
#[target_feature(enable = "avx512f")]
fn take<const COPY: bool>(
    sums: &mut [u64; 8],
    taken: &mut usize,
    stripes: &[[u8; STRIPE]],
    places: &mut [[MaybeUninit<u8>; STRIPE]],
) {
    assert!(!COPY || places.len() >= stripes.len());
    let mut state = load(bytemuck::cast_ref(sums));
    for (i, stripe) in stripes.iter().enumerate() {
        let data = load(stripe);
        prefetch(stripe.as_ptr().wrapping_add(if COPY { COPY_AHEAD } else { HASH_AHEAD }), 1);
        if COPY {
            let place = &mut places[i];
            prefetch(place.as_ptr().wrapping_add(COPY_AHEAD).cast(), 1);
            // SAFETY: the store is to all of `place`, unaligned.
            unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), data) };
        }
        state = add(state, data, key(8 * *taken));
        *taken += 1;
        if *taken == BLOCK_STRIPES {
            state = scramble(state);
            *taken = 0;
        }
    }
    store(sums, state);
}

/// Adds the last 64 bytes of a message to the sums.
#[target_feature(enable = "avx512f")]
fn take_last(sums: &mut [u64; 8], stripe: &[u8; STRIPE]) {
    let state = add(load(bytemuck::cast_ref(sums)), load(stripe), key(LAST_KEY));
    store(sums, state);
}

/// Adds a stripe: each sum is increased by its neighbor's data and by the product of the halves of its own keyed data.
#[target_feature(enable = "avx512f")]
fn add(state: __m512i, data: __m512i, key: __m512i) -> __m512i {
    let keyed = _mm512_xor_si512(data, key);
    let product = _mm512_mul_epu32(keyed, _mm512_srli_epi64::<32>(keyed));
    let neighbors = _mm512_shuffle_epi32::<0b01_00_11_10>(data);
    _mm512_add_epi64(state, _mm512_add_epi64(product, neighbors))
}

/// Scrambles the sums between two blocks.
#[target_feature(enable = "avx512f")]
fn scramble(state: __m512i) -> __m512i {
    let keyed = _mm512_xor_si512(_mm512_xor_si512(state, _mm512_srli_epi64::<47>(state)), key(SCRAMBLE_KEY));
    // By 32 bits: there is no fast product of 64.
    let prime = _mm512_set1_epi64(PRIME32_1 as i64);
    let low = _mm512_mul_epu32(keyed, prime);
    let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(keyed), prime);
    _mm512_add_epi64(low, _mm512_slli_epi64::<32>(high))
}

/// Returns 64 bytes of the secret.
#[target_feature(enable = "avx512f")]
fn key(at: usize) -> __m512i {
    load(SECRET[at..].first_chunk().expect("a key within the secret"))
}

#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the load is of the array, unaligned.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn store(sums: &mut [u64; 8], state: __m512i) {
    // SAFETY: the store is to the array, unaligned.
    unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), state) };
}
