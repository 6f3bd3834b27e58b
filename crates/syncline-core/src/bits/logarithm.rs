//! Binary logarithms in integer arithmetic, which are the same on every processor (`docs/ENCODER.md`, "Estimate").

use std::sync::LazyLock;

/// Fraction bits of logarithms.
pub const LOG_BITS: u32 = 16;

/// Returns `number * log2(number)` in units of 2^-16; 0 for 0.
pub fn times_log2(number: u32) -> u64 {
    // Counts of symbols are mostly small, and many.
    static SMALL: LazyLock<[u32; 1 << 12]> =
        LazyLock::new(|| std::array::from_fn(|number| log2((number as u32).max(1)) as u32));
    let log = SMALL.get(number as usize).map_or_else(|| log2(number), |&log| log.into());
    u64::from(number) * log
}

/// Returns log2 of a positive number in units of 2^-16, rounded down bit by bit.
fn log2(number: u32) -> u64 {
    let whole = number.ilog2();
    let mut mantissa = u64::from(number) << 31 >> whole;
    let mut result = u64::from(whole);
    for _ in 0..LOG_BITS {
        mantissa = (mantissa * mantissa) >> 31;
        let bit = mantissa >> 32;
        result = result << 1 | bit;
        mantissa >>= bit;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_close() {
        for number in (1..5000).chain([1 << 20, (1 << 22) - 1, u32::MAX]) {
            let exact = f64::from(number).log2() * f64::from(1 << LOG_BITS);
            assert!((log2(number) as f64 - exact).abs() < 2.0, "{number}");
            assert_eq!(times_log2(number), u64::from(number) * log2(number));
        }
        assert_eq!(times_log2(0), 0);
    }
}
