//! Keys of symbols: one or two bytes that distinguish the symbols of a block and are faster to compare.

use crate::lzss::HASH_FACTOR;

/// How well the keys of a block distinguish its symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// One byte, which differs where symbols differ.
    Narrow,
    /// Two bytes, which differ where symbols differ.
    Wide,
    /// Two bytes of a hash, which may be equal where symbols differ.
    Hashes,
}

/// Writes the keys of a block's symbols to `keys`.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
pub(super) fn write_keys<const WIDTH: usize>(bytes: &[u8], keys: &mut [u8]) -> KeyKind {
    if WIDTH == 1 {
        keys[..bytes.len()].copy_from_slice(bytes);
        return KeyKind::Narrow;
    }
    let symbols = bytes.as_chunks::<WIDTH>().0;
    let (mut low, mut high) = (u64::MAX, 0);
    if WIDTH == 8 {
        for symbol in symbols {
            let symbol = word(symbol);
            (low, high) = (low.min(symbol), high.max(symbol));
        }
    } else {
        // Minima of 32 bits, for twice as many lanes.
        let (mut least, mut greatest) = (u32::MAX, 0);
        for symbol in symbols {
            let symbol = word(symbol) as u32;
            (least, greatest) = (least.min(symbol), greatest.max(symbol));
        }
        (low, high) = (least.into(), greatest.into());
    }
    match high.wrapping_sub(low) {
        0..=0xff => {
            for (key, symbol) in keys.iter_mut().zip(symbols) {
                *key = word(symbol).wrapping_sub(low) as u8;
            }
            KeyKind::Narrow
        }
        span @ 0x100..=0xffff => {
            let offset = |symbol| word(symbol).wrapping_sub(low) as u16;
            let divisor = common_divisor(symbols.iter().take(DIVISOR_SAMPLE).map(offset));
            // Decimal amounts are often multiples, such as amounts in cents without cents.
            if divisor > 1 && span / u64::from(divisor) <= 0xff {
                // Rounded up, so that quotients of multiples are exact: the error is less than `span` / 2^16.
                let reciprocal = (1_u32 << 16).div_ceil(divisor.into());
                let mut rest = 0;
                for (key, symbol) in keys.iter_mut().zip(symbols) {
                    let offset = offset(symbol);
                    let quotient = ((u32::from(offset) * reciprocal) >> 16) as u16;
                    rest |= offset ^ quotient.wrapping_mul(divisor);
                    *key = quotient as u8;
                }
                if rest == 0 {
                    return KeyKind::Narrow;
                }
            }
            for (key, symbol) in keys.as_chunks_mut().0.iter_mut().zip(symbols) {
                *key = offset(symbol).to_le_bytes();
            }
            KeyKind::Wide
        }
        _ => {
            for (key, symbol) in keys.as_chunks_mut().0.iter_mut().zip(symbols) {
                let symbol = word(symbol);
                let both = (symbol as u32).wrapping_mul(HASH_FACTOR).wrapping_add((symbol >> 32) as u32);
                *key = ((both.wrapping_mul(HASH_FACTOR) >> 16) as u16).to_le_bytes();
            }
            KeyKind::Hashes
        }
    }
}

/// Number of first symbols from which a common divisor is guessed.
const DIVISOR_SAMPLE: usize = 64;

/// Returns the greatest common divisor, or 0 if all numbers are 0.
fn common_divisor(numbers: impl Iterator<Item = u16>) -> u16 {
    let mut divisor = 0;
    for mut number in numbers {
        while number != 0 {
            (divisor, number) = (number, divisor % number);
        }
        if divisor == 1 {
            break;
        }
    }
    divisor
}

/// Returns a symbol as a number.
#[inline(always)]
fn word<const WIDTH: usize>(symbol: &[u8; WIDTH]) -> u64 {
    let mut word = [0; 8];
    word[..WIDTH].copy_from_slice(symbol);
    u64::from_le_bytes(word)
}
