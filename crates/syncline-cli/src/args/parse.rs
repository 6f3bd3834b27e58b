//! Parsers of option values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use syncline::{Effort, ElementType};

use crate::names::type_by_name;

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => {
            Err("must be a finite number above 0 (5e-324 to 1.7e308), such as 1e-3; use --lossless for no error".into())
        }
    }
}

pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(threads) if threads <= 4096 => Ok(threads),
        _ => Err("must be a number of threads from 1 to 4096, or 0 for one per core".into()),
    }
}

/// Parses one of some names, which shells complete.
fn one_of<T: Clone + Send + Sync + 'static>(
    names: impl IntoIterator<Item = PossibleValue>,
    parse: impl Fn(&str) -> Option<T> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(move |name| parse(&name).ok_or("is not one of the possible values"))
}

pub(super) fn element_type() -> impl TypedValueParser<Value = ElementType> {
    let aliases: [&[&str]; 12] = [
        &["float32", "float", "fp32"],
        &["d64", "float64", "double", "fp64"],
        &["float16", "half", "fp16"],
        &["bfloat16"],
        &["uint8"],
        &["uint16"],
        &["uint32"],
        &["uint64"],
        &["int8"],
        &["int16"],
        &["int32"],
        &["int64"],
    ];
    let names = ["f32", "f64", "f16", "bf16", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
    let values = names.into_iter().zip(aliases).map(|(name, aliases)| PossibleValue::new(name).aliases(aliases));
    one_of(values, type_by_name)
}

pub(super) fn effort() -> impl TypedValueParser<Value = Effort> {
    one_of(Effort::ALL.map(|effort| PossibleValue::new(effort.name())), |name| name.parse().ok())
}

/// One of the fill values on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FillChoice {
    /// No value.
    None,
    /// Values are detected.
    Auto,
    /// This value.
    Value(f64),
}

pub(super) fn parse_fill(text: &str) -> Result<FillChoice, String> {
    match text {
        "none" => Ok(FillChoice::None),
        "auto" => Ok(FillChoice::Auto),
        _ => {
            text.parse().map(FillChoice::Value).map_err(|_| "must be none, auto, or numbers such as -9999,1e20".into())
        }
    }
}

pub(super) fn parse_range(text: &str) -> Result<(f64, f64), String> {
    let ends = text.split_once(':').and_then(|(low, high)| low.parse::<f64>().ok().zip(high.parse::<f64>().ok()));
    ends.filter(|(low, high)| low <= high && low.is_finite() && high.is_finite())
        .ok_or_else(|| "must be the smallest and the largest value, such as -1.5:20".into())
}

/// Bytes, with an optional binary unit and then possibly a fraction: 1000, 64K, 512MiB, 1.5G.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => Some(0),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        _ => None,
    };
    let number = |shift: u32| match (digits.parse::<u64>(), digits.parse::<f64>()) {
        (Ok(whole), _) => whole.checked_mul(1 << shift),
        // Above 2^53, a fraction of bytes has no meaning.
        (_, Ok(part)) if shift > 0 && !digits.contains(['e', 'E', '+', '-']) && part < 1024.0 * 1024.0 => {
            Some((part * (1u64 << shift) as f64) as u64)
        }
        _ => None,
    };
    shift
        .and_then(number)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "must be a size in bytes, such as 512MiB or 1.5G".into())
}
