//! Comparisons, and logical operations on predicates.

use super::floats::{double, single};
use super::which;
use crate::machine::program::{Compare, Lanes};

/// Creates the table of all comparisons of one type.
macro_rules! of_type {
    ($name:expr; $value:expr; $($relation:literal => $operator:tt,)*) => {
        match $name {
            $($relation => {
                let by: Compare = |a: &Lanes, b: &Lanes| which(a, b, |a, b| $value(a) $operator $value(b));
                Some(by)
            })*
            _ => None,
        }
    };
}

/// Creates the comparisons of integers by the names of their relations.
macro_rules! integers {
    ($relation:expr, $value:expr) => {
        of_type! { $relation; $value; "eq" => ==, "ne" => !=, "lt" => <, "le" => <=, "gt" => >, "ge" => >=, }
    };
}

/// Creates the comparisons of floats: ordered ones, and unordered ones, which are true if an operand is NaN and are the
/// opposites of ordered ones.
macro_rules! floats {
    ($relation:expr, $value:expr) => {
        match $relation {
            "equ" => Some(
                (|a: &Lanes, b: &Lanes| which(a, b, |a, b| !($value(a) < $value(b) || $value(a) > $value(b))))
                    as Compare,
            ),
            "neu" => Some((|a: &Lanes, b: &Lanes| which(a, b, |a, b| $value(a) != $value(b))) as Compare),
            "ltu" => Some((|a: &Lanes, b: &Lanes| !which(a, b, |a, b| $value(a) >= $value(b))) as Compare),
            "leu" => Some((|a: &Lanes, b: &Lanes| !which(a, b, |a, b| $value(a) > $value(b))) as Compare),
            "gtu" => Some((|a: &Lanes, b: &Lanes| !which(a, b, |a, b| $value(a) <= $value(b))) as Compare),
            "geu" => Some((|a: &Lanes, b: &Lanes| !which(a, b, |a, b| $value(a) < $value(b))) as Compare),
            "ne" => Some(
                (|a: &Lanes, b: &Lanes| which(a, b, |a, b| $value(a) < $value(b) || $value(a) > $value(b))) as Compare,
            ),
            "num" => {
                Some((|a: &Lanes, b: &Lanes| which(a, b, |a, b| !$value(a).is_nan() && !$value(b).is_nan())) as Compare)
            }
            "nan" => {
                Some((|a: &Lanes, b: &Lanes| which(a, b, |a, b| $value(a).is_nan() || $value(b).is_nan())) as Compare)
            }
            relation => of_type! { relation; $value; "eq" => ==, "lt" => <, "le" => <=, "gt" => >, "ge" => >=, },
        }
    };
}

/// Returns the comparison `setp.<relation>.<kind>`.
pub fn compare(relation: &str, kind: &str) -> Option<Compare> {
    match kind {
        "u16" | "b16" | "u32" | "b32" | "u64" | "b64" => integers!(relation, |value: u64| value),
        "s16" => integers!(relation, |value: u64| value as u16 as i16),
        "s32" => integers!(relation, |value: u64| value as u32 as i32),
        "s64" => integers!(relation, |value: u64| value as i64),
        "f32" => floats!(relation, single),
        "f64" => floats!(relation, double),
        _ => None,
    }
}

/// Returns the logical operation on two predicates with this name.
pub fn logic(name: &str) -> Option<fn(u32, u32) -> u32> {
    Some(match name {
        "and" => |a, b| a & b,
        "or" => |a, b| a | b,
        "xor" => |a, b| a ^ b,
        "not" => |a, _| !a,
        "mov" => |a, _| a,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_nan_count() {
        let holds = |relation: &str, kind: &str, a: u64, b: u64| {
            compare(relation, kind).unwrap()(&[a; 32], &[b; 32]) == u32::MAX
        };
        assert!(holds("lt", "s32", 0xFFFF_FFFF, 0) && !holds("lt", "u32", 0xFFFF_FFFF, 0));
        assert!(holds("lt", "s16", 0xFFFF, 0));
        let (nan, two) = (u64::from(f32::NAN.to_bits()), u64::from(2.0_f32.to_bits()));
        assert!(!holds("lt", "f32", nan, two) && !holds("ge", "f32", nan, two) && !holds("ne", "f32", nan, two));
        assert!(holds("ltu", "f32", nan, two) && holds("geu", "f32", nan, two) && holds("neu", "f32", nan, two));
        assert!(holds("equ", "f32", nan, two) && !holds("equ", "f32", 0, two));
        assert!(holds("nan", "f32", nan, two) && holds("num", "f32", two, two));
    }
}
