//! Conversion of floats that hold small integers, without the range checks of `as`, so that loops vectorize well.

#![allow(unsafe_code, reason = "conversions whose range the functions check themselves")]

/// Returns `q` as an integer and `true` if `condition` holds and `q` is below `LIMIT` in magnitude, else 0 and `false`.
/// `q` must hold an integer.
#[inline(always)]
pub fn f32_to_i32_below<const LIMIT: u32>(q: f32, condition: bool) -> (i32, bool) {
    const { assert!(LIMIT <= 1 << 30) };
    let is_small = (q.abs() < LIMIT as f32) & condition;
    let q = if is_small { q } else { 0.0 };
    // SAFETY: `q` is 0 or below `LIMIT` in magnitude, and so in the range of i32 and not NaN.
    (unsafe { q.to_int_unchecked::<i32>() }, is_small)
}

/// Does what [`f32_to_i32_below`] does, for f64.
#[inline(always)]
pub fn f64_to_i32_below<const LIMIT: u32>(q: f64, condition: bool) -> (i32, bool) {
    const { assert!(LIMIT <= 1 << 30) };
    let is_small = (q.abs() < f64::from(LIMIT)) & condition;
    let q = if is_small { q } else { 0.0 };
    // SAFETY: `q` is 0 or below `LIMIT` in magnitude, and so in the range of i32 and not NaN.
    (unsafe { q.to_int_unchecked::<i32>() }, is_small)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_the_limit_on_become_zero() {
        for (q, expected) in [(0.0, (0, true)), (-0.0, (0, true)), (7.0, (7, true)), (-7.0, (-7, true))] {
            assert_eq!(f32_to_i32_below::<8>(q, true), expected);
            assert_eq!(f64_to_i32_below::<8>(q.into(), true), expected);
        }
        for q in [8.0, -8.0, 1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(f32_to_i32_below::<8>(q, true), (0, false));
            assert_eq!(f64_to_i32_below::<8>(q.into(), true), (0, false));
        }
        assert_eq!(f32_to_i32_below::<8>(7.0, false), (0, false));
        assert_eq!(f64_to_i32_below::<8>(7.0, false), (0, false));
    }
}
