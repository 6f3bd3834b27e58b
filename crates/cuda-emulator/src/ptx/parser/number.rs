//! Numeric literals of PTX.

/// The value of a numeric literal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer, in two's complement.
    Integer(u64),
    /// The bits of a single-precision float, written as `0f`.
    Single(u32),
    /// The bits of a double-precision float, written as `0d`.
    Double(u64),
    /// A decimal fraction such as `1.5`: a double, rounded to single precision if the instruction requires that.
    Decimal(f64),
}

impl Number {
    /// Parses a literal without sign.
    pub fn read(text: &str) -> Option<Self> {
        let (prefix, rest) = text.split_at_checked(2).unwrap_or((text, ""));
        match prefix {
            "0x" | "0X" => hexadecimal(without_unsigned(rest)).map(Self::Integer),
            "0f" | "0F" if rest.len() == 8 => hexadecimal(rest).map(|bits| Self::Single(bits as u32)),
            "0d" | "0D" if rest.len() == 16 => hexadecimal(rest).map(Self::Double),
            _ if text.contains(['.', 'e', 'E']) => text.parse().ok().map(Self::Decimal),
            _ => decimal(without_unsigned(text)).map(Self::Integer),
        }
    }

    /// Returns the negated number.
    pub fn negated(self) -> Self {
        match self {
            Self::Integer(value) => Self::Integer(value.wrapping_neg()),
            Self::Single(bits) => Self::Single(bits ^ 1 << 31),
            Self::Double(bits) => Self::Double(bits ^ 1 << 63),
            Self::Decimal(value) => Self::Decimal(-value),
        }
    }

    /// Returns the bits of the number as an operand, in single precision if `single` is set.
    pub fn operand(self, single: bool) -> u64 {
        match self {
            Self::Integer(value) => value,
            Self::Single(bits) => u64::from(bits),
            Self::Double(bits) => bits,
            Self::Decimal(value) if single => u64::from((value as f32).to_bits()),
            Self::Decimal(value) => value.to_bits(),
        }
    }

    /// Returns the bits of the number as an array element. Returns `None` if that requires a conversion with rounding.
    pub fn element(self, bytes: usize, float: bool) -> Option<u64> {
        match (self, bytes) {
            (Self::Integer(value), _) if !float || value == 0 => Some(value),
            (Self::Single(bits), 4) => Some(u64::from(bits)),
            (Self::Double(bits), 8) => Some(bits),
            (Self::Decimal(_), 4 | 8) if float => Some(self.operand(bytes == 4)),
            (Self::Double(bits), 4) if float => Some(Self::Decimal(f64::from_bits(bits)).operand(true)),
            _ => None,
        }
    }
}

fn without_unsigned(text: &str) -> &str {
    text.strip_suffix('U').unwrap_or(text)
}

fn hexadecimal(text: &str) -> Option<u64> {
    // `from_str_radix` alone would also accept a sign.
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(text, 16).ok())?
}

/// Parses a decimal integer. Leading zeros are rejected, because PTX reads such literals as octal.
fn decimal(text: &str) -> Option<u64> {
    let octal = text.len() > 1 && text.starts_with('0');
    (!octal && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        use Number::{Decimal, Double, Integer, Single};
        for (text, number) in [
            ("0", Integer(0)),
            ("4294967295U", Integer(u64::from(u32::MAX))),
            ("18446744073709551615", Integer(u64::MAX)),
            ("0xfFU", Integer(255)),
            ("0f3F800000", Single(0x3F80_0000)),
            ("0d3FF71547652B82FE", Double(0x3FF7_1547_652B_82FE)),
            ("1.5", Decimal(1.5)),
            ("25e-2", Decimal(0.25)),
        ] {
            assert_eq!(Number::read(text), Some(number), "{text}");
        }
        for text in ["", "18446744073709551616", "017", "0x", "0xg", "0x+1", "0f3F80000", "0b11", "1x", "1.2.3", "0d12"]
        {
            assert_eq!(Number::read(text), None, "{text}");
        }
    }

    #[test]
    fn signs_are_of_the_kind_of_number() {
        assert_eq!(Number::Integer(1).negated(), Number::Integer(u64::MAX));
        assert_eq!(Number::Single(1).negated(), Number::Single(0x8000_0001));
        assert_eq!(Number::Double(1).negated(), Number::Double(0x8000_0000_0000_0001));
        assert_eq!(Number::Decimal(1.0).negated(), Number::Decimal(-1.0));
    }

    #[test]
    fn elements_are_only_converted_where_that_is_obvious() {
        let (one, single) = (1.0f64.to_bits(), u64::from(1.0f32.to_bits()));
        for (number, bytes, float, bits) in [
            (Number::Integer(7), 2, false, Some(7)),
            (Number::Integer(0), 4, true, Some(0)),
            (Number::Integer(7), 4, true, None),
            (Number::Single(9), 4, false, Some(9)),
            (Number::Single(9), 8, true, None),
            (Number::Double(one), 8, false, Some(one)),
            (Number::Double(one), 4, true, Some(single)),
            (Number::Double(one), 4, false, None),
            (Number::Decimal(1.0), 4, true, Some(single)),
            (Number::Decimal(1.0), 8, true, Some(one)),
            (Number::Decimal(1.0), 8, false, None),
        ] {
            assert_eq!(number.element(bytes, float), bits, "{number:?} in {bytes}");
        }
    }
}
