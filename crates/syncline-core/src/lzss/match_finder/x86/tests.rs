//! Tests of the AVX-512 strategies that the tests of the whole encoder do not reach in all cases.

#![allow(unsafe_code, reason = "calls of functions that are compiled for AVX-512")]

use proptest::prelude::*;

use super::super::block_tokens::{MAX_BYTES, SearchRules, TokenCounts, TokensOut, WRITE_SLACK};
use super::super::window_bitmap::{ShortTokens, find_short_tokens};
use super::last_position;
use super::symbol_keys::{KeyKind, write_keys};
use crate::lzss::{Params, SymbolWidth, Tokens, oracle};
use crate::simd::Avx512Vbmi2;

/// Blocks of 32-bit numbers with few or many values, of noise with few or many values, of repeated pieces, and of runs.
fn any_block() -> impl Strategy<Value = Vec<u8>> {
    const MOST: usize = 2500;
    let number =
        |values: u32| (0..values, 0..4u32).prop_map(|(number, low)| if low == 0 { number } else { number + 8000 });
    let numbers = prop::sample::select(vec![3, 200, 2500, 60_000, u32::MAX - 8000])
        .prop_flat_map(move |values| prop::collection::vec(number(values), 0..MOST / 4))
        .prop_map(|numbers| numbers.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let noise = |values: std::ops::RangeInclusive<u8>| prop::collection::vec(values, 1..MOST);
    let pieces = (noise(0..=255), prop::collection::vec((0..MOST, 1..300usize), 1..40)).prop_map(|(all, pieces)| {
        let piece = |(at, length): (usize, usize)| all.iter().cycle().skip(at % all.len()).take(length).copied();
        pieces.into_iter().flat_map(piece).take(MOST).collect()
    });
    let runs = prop::collection::vec((any::<u8>(), 1..400usize), 1..20)
        .prop_map(|runs| runs.into_iter().flat_map(|(byte, length)| std::iter::repeat_n(byte, length)).collect());
    // One to three bytes after the last number.
    let ragged = (numbers, 0..4usize).prop_map(|(mut bytes, more)| {
        bytes.extend(std::iter::repeat_n(0, more));
        bytes
    });
    prop_oneof![4 => ragged, 1 => noise(0..=1), 1 => noise(0..=15), 1 => noise(0..=255), 2 => pieces, 1 => runs]
}

/// Memory for the tokens of a block.
struct Fields {
    flags: Vec<u64>,
    /// Literals, lengths, distances.
    bytes: [Vec<u8>; 3],
}

impl Fields {
    /// Returns memory that is not cleared.
    fn new() -> Self {
        Self { flags: vec![u64::MAX; MAX_BYTES / 64], bytes: [(); 3].map(|()| vec![0xA5; MAX_BYTES + WRITE_SLACK]) }
    }

    fn out(&mut self) -> TokensOut<'_> {
        let [literals, lengths, distances] = &mut self.bytes;
        TokensOut { flags: &mut self.flags, literals, lengths, distances }
    }

    fn tokens(&self, TokenCounts { tokens, matches }: TokenCounts) -> Tokens {
        let [literals, lengths, distances] = &self.bytes;
        Tokens {
            blocks: vec![crate::lzss::BlockCounts { tokens: tokens as u32, matches: matches as u32 }],
            flags: self.flags[..tokens.div_ceil(64)].to_vec(),
            literals: literals[..tokens - matches].to_vec(),
            lengths: lengths[..matches].to_vec(),
            distances: distances[..matches].to_vec(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn short_tokens_are_those_of_the_oracle(blocks in prop::collection::vec(any_block(), 1..4), level in 2..=3u8) {
        let params = Params::new(SymbolWidth::One, level);
        let rules = SearchRules::new(&params);
        let mut buffers = Box::<last_position::LastPositionBuffers>::default();
        // What earlier blocks have left in the buffers must not matter.
        for block in blocks.iter().filter(|block| !block.is_empty() && Avx512Vbmi2::detected().is_some()) {
            let mut fields = Fields::new();
            let out = fields.out();
            // SAFETY: every feature that the functions enable has been detected.
            let counts = unsafe {
                match level {
                    2 => last_position::find_tokens::<2>(block, &rules, usize::MAX, &[], &mut buffers, out),
                    _ => last_position::find_tokens::<4>(block, &rules, usize::MAX, &[], &mut buffers, out),
                }
            };
            let counts = counts.expect("no limit of longer matches");
            prop_assert!(fields.tokens(counts) == oracle::encode(block, &params), "{block:?}");
        }
    }
}

#[test]
fn blocks_with_long_matches_do_not_suit_short_tokens() {
    let rules = SearchRules::new(&Params::new(SymbolWidth::One, 3));
    let (mut scratch, mut fields) = (ShortTokens::default(), Fields::new());
    let mut suits = |bytes: &[u8]| find_short_tokens(bytes, &rules, &[], &mut scratch, fields.out()).is_some();
    let numbers = |values: u32| -> Vec<u8> {
        let numbers = (0..2000_u32).map(|i| i.wrapping_mul(0x9E37_79B1) >> 7);
        numbers.flat_map(|number| (number % values).to_le_bytes()).collect()
    };
    let (short, long) = (numbers(3000), numbers(7));
    assert_eq!(suits(&short), Avx512Vbmi2::detected().is_some());
    assert!(!suits(&long));
    // Independently of the blocks before.
    assert_eq!(suits(&short), Avx512Vbmi2::detected().is_some());
}

proptest! {
    #[test]
    fn multiples_have_keys_of_one_byte(
        quotients in prop::collection::vec(0..=255u16, 100..300), divisor in 2..=257u16, base in any::<u16>(),
    ) {
        let (divisor, base) = (u32::from(divisor), u32::from(base));
        let mut symbols: Vec<u32> = quotients.iter().map(|&q| u32::from(q) * divisor + base).collect();
        // Two of them are neighbors, so that there is no greater divisor.
        symbols[..3].copy_from_slice(&[0, 254, 255].map(|q| q * divisor + base));
        let keys = |symbols: &[u32]| {
            let mut keys = vec![0xA5; symbols.len() * 2];
            let bytes: Vec<u8> = symbols.iter().copied().flat_map(u32::to_le_bytes).collect();
            // SAFETY: every feature that the function enables has been detected.
            (unsafe { write_keys::<4>(&bytes, &mut keys) }, keys)
        };
        if Avx512Vbmi2::detected().is_some() {
            let (kind, found) = keys(&symbols);
            prop_assert_eq!(kind, KeyKind::Narrow);
            prop_assert!(found.iter().zip(&symbols).all(|(&key, &symbol)| u32::from(key) == (symbol - base) / divisor));
            symbols[99] = 300 * divisor / 2 + base + 1;
            let (kind, found) = keys(&symbols);
            let is_multiple = (symbols[99] - base).is_multiple_of(divisor);
            prop_assert_eq!(kind, if is_multiple { KeyKind::Narrow } else { KeyKind::Wide });
            let wide = |i: usize| u16::from_le_bytes([found[2 * i], found[2 * i + 1]]);
            prop_assert!(is_multiple || (0..symbols.len()).all(|i| u32::from(wide(i)) == symbols[i] - base));
        }
    }
}
