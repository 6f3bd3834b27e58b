//! Numbers for people.

use std::time::Duration;

use syncline::Bound;

/// Returns `1234567` as `1,234,567`.
pub fn grouped(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns `1 element` or `1,234 elements`.
pub fn counted(number: impl Into<u128>, what: &str) -> String {
    let number = number.into();
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns text without control characters, which file names may contain and which would change the terminal.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(shown).collect()
}

/// Returns bits per element; a dash without elements.
pub fn bits_per_value(bytes: u64, elements: u64) -> f64 {
    if elements == 0 { 0.0 } else { 8.0 * ratio(bytes, elements) }
}

/// Returns a peak signal-to-noise ratio. An infinite one means that there is no error.
pub fn psnr(psnr: Option<f64>) -> String {
    match psnr {
        Some(psnr) if psnr.is_finite() => format!("{} dB", number(psnr)),
        other => optional(other),
    }
}

/// Returns bytes with a binary unit: `95.4 MiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} byte{}", if number == 1 { "" } else { "s" });
    }
    let exponent = (number.ilog2() / 10) as usize;
    let value = number as f64 / (1u64 << (10 * exponent)) as f64;
    format!("{value:.*} {}", if value < 10.0 { 2 } else { 1 }, UNITS[exponent - 1])
}

/// Returns a number with five digits, without trailing zeros: `0.001`, `1.2346e-7`, `12346`.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == f64::INFINITY { "infinite".into() } else { value.to_string() };
    }
    let scientific = format!("{value:.4e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..9).contains(&exponent) {
        trimmed(&format!("{value:.*}", (4 - exponent).max(0) as usize))
    } else {
        format!("{}e{exponent}", trimmed(mantissa))
    }
}

/// Returns [`number`], or a dash if it is undefined.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

/// Returns a share in percent.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "0 %".into(),
        _ => {
            let percent = 100.0 * part as f64 / whole as f64;
            if percent < 0.01 { "< 0.01 %".into() } else { format!("{percent:.2} %") }
        }
    }
}

/// Returns `a / b`.
pub fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

/// Returns the speed for some bytes in some time.
pub fn speed(bytes: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    let rate = bytes as f64 / seconds;
    if rate >= 1e9 { format!("{:.2} GB/s", rate / 1e9) } else { format!("{:.0} MB/s", rate / 1e6) }
}

/// Returns a time, and the speed for some bytes in it.
pub fn timing(bytes: u64, time: Duration) -> String {
    format!("{:.3} s, {}", time.as_secs_f64(), speed(bytes, time))
}

/// Describes the requested bound.
pub fn bound(bound: Bound) -> String {
    match bound {
        Bound::Lossless => "lossless".into(),
        Bound::Abs(x) => format!("absolute {}", number(x)),
        Bound::Rel(x) => format!("{} of the value range", number(x)),
        Bound::Psnr(x) => format!("PSNR {}", psnr(Some(x))),
        Bound::PwRel(x) => format!("{} of each value", number(x)),
        _ => format!("{} {}", bound.name(), number(bound.value())),
    }
}

/// Describes the bound that holds for every value.
pub fn resolved(bound: Bound, resolved: f64) -> String {
    match bound {
        Bound::Lossless => "every bit as it was".into(),
        _ if resolved == 0.0 => "every bit as it was (the bound is too small for quantization)".into(),
        Bound::PwRel(_) => format!("|error| <= {} |value|", number(resolved)),
        _ => format!("|error| <= {}", number(resolved)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(grouped(0u32), "0");
        assert_eq!(grouped(999u32), "999");
        assert_eq!(grouped(1_234_567u32), "1,234,567");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(100_000_000), "95.4 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(number(0.001), "0.001");
        assert_eq!(number(1.0 / 3.0), "0.33333");
        assert_eq!(number(-123_456.0), "-123456");
        assert_eq!(number(1.0e-7), "1e-7");
        assert_eq!(number(1.23456e-7), "1.2346e-7");
        assert_eq!(number(1e30), "1e30");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(f64::INFINITY), "infinite");
        assert_eq!(percent(1, 3), "33.33 %");
        assert_eq!(percent(1, 1_000_000), "< 0.01 %");
        assert_eq!(percent(0, 0), "0 %");
    }

    #[test]
    fn words() {
        assert_eq!(counted(1u32, "element"), "1 element");
        assert_eq!(counted(1000u32, "element"), "1,000 elements");
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(printable("a\x1b[2J\n\u{9b}é"), "a\\u{1b}[2J\\n\\u{9b}é");
        assert_eq!(psnr(Some(f64::INFINITY)), "infinite");
        assert_eq!(psnr(Some(70.0)), "70 dB");
        assert_eq!(psnr(None), "-");
        assert_eq!(bits_per_value(176, 0), 0.0);
    }

    #[test]
    fn bounds_that_hold() {
        assert_eq!(resolved(Bound::Rel(1e-3), 0.25), "|error| <= 0.25");
        assert_eq!(resolved(Bound::PwRel(1e-3), 1e-3), "|error| <= 0.001 |value|");
        assert!(resolved(Bound::Abs(1e-30), 0.0).starts_with("every bit"));
    }
}
