//! XXH3-64 (seed 0) of long inputs with the vectors that the machine has. The crate that serves short ones is compiled for those that every machine has, and took a fifth of the
//! decompression of raw chunks.

use xxhash_rust::xxh3::Xxh3Default;

use crate::bits::dispatch::{self, Kernel};

/// The secret of the specification, as little-endian words.
const SECRET: [u64; 24] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
    0xcb00_c391_bb52_283c,
    0xa32e_531b_8b65_d088,
    0x4ef9_0da2_9748_6471,
    0xd8ac_dea9_46ef_1938,
    0x3f34_9ce3_3f76_faa8,
    0x1d4f_0bc7_c7bb_dcf9,
    0x3159_b4cd_4be0_518a,
    0x6473_78d9_c97e_9fc8,
    0xc3eb_d334_83ac_c5ea,
    0xeb63_13fa_ffa0_81c5,
    0x49da_f0b7_51dd_0d17,
    0x9e68_d429_2655_16d3,
    0xfca1_477d_58be_162b,
    0xce31_d07a_d1b8_f88f,
    0x2804_1695_8f3a_cb45,
    0x7e40_4bbb_cafb_d7af,
];
const PRIME32: [u64; 3] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D];
const PRIME64: [u64; 5] =
    [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63, 0x27D4_EB2F_1656_67C5];

/// Bytes that are accumulated at once.
const STRIPE: usize = 64;
/// Stripes after which the accumulators are scrambled.
const STRIPES: usize = 16;
const BLOCK: usize = STRIPE * STRIPES;

type Accumulators = [u64; 8];

/// A hash of `head` and `body` that is made piece by piece, so that what else reads them finds them in the caches.
pub struct Xxh3<'a> {
    head: &'a [u8],
    body: &'a [u8],
    sums: Accumulators,
    /// Bytes of the body that are hashed: with the head whole blocks, but never the last byte.
    done: usize,
}

impl<'a> Xxh3<'a> {
    /// Begins the hash of `head`, less than a block, followed by `body`.
    pub fn new(head: &'a [u8], body: &'a [u8]) -> Self {
        let mut sums: Accumulators =
            [PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4], PRIME32[0]];
        let mut done = 0;
        if body.len() > BLOCK {
            let mut first = [0; BLOCK];
            done = BLOCK - head.len();
            first[..head.len()].copy_from_slice(head);
            first[head.len()..].copy_from_slice(&body[..done]);
            whole_block(&mut sums, &first);
        }
        Self { head, body, sums, done }
    }

    /// Hashes the body up to about byte `to`.
    pub fn advance(&mut self, to: usize) {
        let left = &self.body[self.done..];
        let blocks = left.len().saturating_sub(1).min(to.saturating_sub(self.done)) / BLOCK;
        dispatch::run(Blocks { sums: &mut self.sums, blocks: &left.as_chunks().0[..blocks] });
        self.done += blocks * BLOCK;
    }

    /// The hash of all of it.
    pub fn finish(mut self) -> u64 {
        let Self { head, body, .. } = self;
        if body.len() <= BLOCK {
            let mut hash = Xxh3Default::new();
            hash.update(head);
            hash.update(body);
            return hash.digest();
        }
        self.advance(body.len());
        let (mut sums, left) = (self.sums, &body[self.done..]);
        for (i, stripe) in left[..left.len() - 1].as_chunks::<STRIPE>().0.iter().enumerate() {
            accumulate(&mut sums, stripe, &secret::<8>(8 * i));
        }
        let last = body.last_chunk::<STRIPE>().expect("more than a block");
        accumulate(&mut sums, last, &secret::<8>(121));
        let key = secret::<8>(11);
        let mut hash = ((head.len() + body.len()) as u64).wrapping_mul(PRIME64[0]);
        for (pair, key) in sums.chunks_exact(2).zip(key.chunks_exact(2)) {
            let product = u128::from(pair[0] ^ key[0]) * u128::from(pair[1] ^ key[1]);
            hash = hash.wrapping_add(product as u64 ^ (product >> 64) as u64);
        }
        hash = (hash ^ hash >> 37).wrapping_mul(0x1656_6791_9E37_79F9);
        hash ^ hash >> 32
    }
}

struct Blocks<'a> {
    sums: &'a mut Accumulators,
    blocks: &'a [[u8; BLOCK]],
}

impl Kernel for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut sums = *self.sums;
        self.blocks.iter().for_each(|block| whole_block(&mut sums, block));
        *self.sums = sums;
    }
}

/// Words of the secret from byte `at` on.
#[inline(always)]
fn secret<const WORDS: usize>(at: usize) -> [u64; WORDS] {
    let shift = 8 * (at % 8) as u32;
    std::array::from_fn(|i| {
        let low = SECRET[at / 8 + i] >> shift;
        if shift == 0 { low } else { low | SECRET[at / 8 + i + 1] << (64 - shift) }
    })
}

#[inline(always)]
fn accumulate(sums: &mut Accumulators, stripe: &[u8; STRIPE], key: &Accumulators) {
    let words: [u64; 8] =
        std::array::from_fn(|i| u64::from_le_bytes(stripe[8 * i..8 * i + 8].try_into().expect("8 bytes")));
    let swapped: [u64; 8] = std::array::from_fn(|i| words[i ^ 1]);
    for i in 0..8 {
        let keyed = words[i] ^ key[i];
        let product = (keyed & 0xffff_ffff).wrapping_mul(keyed >> 32);
        sums[i] = sums[i].wrapping_add(swapped[i]).wrapping_add(product);
    }
}

#[inline(always)]
fn whole_block(sums: &mut Accumulators, block: &[u8; BLOCK]) {
    for (i, stripe) in block.as_chunks::<STRIPE>().0.iter().enumerate() {
        accumulate(sums, stripe, SECRET[i..i + 8].try_into().expect("8 words"));
    }
    let key = secret::<8>(128);
    for (sum, key) in sums.iter_mut().zip(key) {
        *sum = (*sum ^ *sum >> 47 ^ key).wrapping_mul(PRIME32[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_other_implementation() {
        let bytes: Vec<u8> = (0..5000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        for head in [0, 1, 24, 64, 1000] {
            for length in (head..1400).step_by(37).chain(head + 1000..head + 1100).chain(2000..2200).chain([4999, 5000])
            {
                let (head, body) = bytes[..length.max(head)].split_at(head);
                let mut whole = Xxh3Default::new();
                whole.update(head);
                whole.update(body);
                assert_eq!(Xxh3::new(head, body).finish(), whole.digest(), "{} {}", head.len(), body.len());
                let mut pieces = Xxh3::new(head, body);
                (0..body.len() + 700).step_by(700).for_each(|to| pieces.advance(to));
                assert_eq!(pieces.finish(), whole.digest());
            }
        }
    }
}
