//! The figures of tables.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::{Record, value};

/// What a cell has.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// `best ratio`: the highest ratio of all records of the cell.
    BestRatio,
    /// `megabytes`: 10^6 bytes without compression.
    Megabytes,
    /// `values`: bytes without compression over those of an element.
    Values,
    /// `ratio`: bytes without compression over bytes of the stream.
    Ratio,
    /// `GB/s`: 10^9 bytes without compression a second, by the median run.
    Gigabytes,
    /// `MB/s`: 10^6 bytes a second.
    MegabytesPerSecond,
    /// `GB/s of copy`: the same, and the share of a copy in device memory.
    ShareOfCopy,
    /// `GB/s range`: the same, and those of the longest and the shortest run.
    Range,
    /// `microseconds` of the median run.
    Microseconds,
    /// `seconds` of the median run, and the shortest and longest one if they differ.
    Seconds,
    /// `nanoseconds a value`: of the shortest run, by the type of the elements.
    NanosecondsPerValue,
    /// `error`: the largest error over the bound; `exact` without a bound.
    Error,
    /// `column NAME`: the text of a column.
    Text(String),
    /// `mean ratio over CODEC`, `mean MB/s over CODEC`: the geometric mean of the ratio or the speed over the best one
    /// of this codec for the same field, bound, and direction, and in how many of all cases it is at least as high.
    MeanOver(Compared, String),
}

impl Figure {
    /// Reads the name of a figure.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "megabytes" => Self::Megabytes,
            "values" => Self::Values,
            "ratio" => Self::Ratio,
            "best ratio" => Self::BestRatio,
            "GB/s" => Self::Gigabytes,
            "MB/s" => Self::MegabytesPerSecond,
            "GB/s of copy" => Self::ShareOfCopy,
            "GB/s range" => Self::Range,
            "microseconds" => Self::Microseconds,
            "seconds" => Self::Seconds,
            "nanoseconds a value" => Self::NanosecondsPerValue,
            "error" => Self::Error,
            _ => {
                let after = |start: &str| text.strip_prefix(start).map(str::to_owned);
                let column = after("column ").map(Self::Text);
                let ratio = || after("mean ratio over ").map(|codec| Self::MeanOver(Compared::Ratio, codec));
                let speed = || after("mean MB/s over ").map(|codec| Self::MeanOver(Compared::Speed, codec));
                column.or_else(ratio).or_else(speed).with_context(|| format!("there is no figure '{text}'"))?
            }
        })
    }

    /// Returns the columns that the figure is computed from.
    fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Ratio => &["bytes", "stream_bytes"],
            Self::Gigabytes | Self::MegabytesPerSecond | Self::ShareOfCopy => &["bytes", "seconds"],
            Self::Range => &["bytes", "seconds", "shortest", "longest"],
            Self::Microseconds | Self::Seconds => &["seconds"],
            Self::NanosecondsPerValue => &["bytes", "element", "shortest"],
            Self::Megabytes => &["bytes"],
            Self::Values => &["bytes", "element"],
            Self::BestRatio | Self::MeanOver(..) | Self::Error | Self::Text(_) => &[],
        }
    }

    /// Returns the text of the figure of a record, which is empty if the record lacks what it is computed from.
    pub fn of(&self, record: &Record) -> Result<String> {
        if self.columns().iter().any(|column| value(record, column).is_empty()) {
            return Ok(String::new());
        }
        let number = |column: &str| number(record, column);
        let gigabytes = |column: &str| speed(record, column).map(|speed| speed / 1e9);
        Ok(match self {
            Self::Megabytes => format!("{:.0}", number("bytes")? / 1e6),
            Self::Values => format!("{:.0}", number("bytes")? / size_of(record)?),
            Self::Ratio => ratio_text(ratio(record)?),
            Self::Gigabytes => digits(gigabytes("seconds")?),
            Self::MegabytesPerSecond => format!("{:.0}", gigabytes("seconds")? * 1e3),
            Self::ShareOfCopy if value(record, "of_copy").is_empty() => digits(gigabytes("seconds")?),
            Self::ShareOfCopy => format!("{} ({:.2})", digits(gigabytes("seconds")?), number("of_copy")?),
            Self::Range => {
                let [median, least, most] =
                    [gigabytes("seconds")?, gigabytes("longest")?, gigabytes("shortest")?].map(digits);
                format!("{median} ({least} to {most})")
            }
            Self::Microseconds => digits(number("seconds")? * 1e6),
            Self::Seconds => {
                let [median, least, most] = [number("seconds")?, number("shortest")?, number("longest")?].map(digits);
                if least == most { median } else { format!("{median} ({least} to {most})") }
            }
            Self::NanosecondsPerValue => {
                format!("{:.2}", number("shortest")? * 1e9 / (number("bytes")? / size_of(record)?))
            }
            Self::Error if value(record, "error").is_empty() => "exact".to_owned(),
            Self::Error => format!("{:.3}", number("error")?),
            Self::Text(column) => value(record, column).to_owned(),
            Self::BestRatio | Self::MeanOver(..) => bail!("the figure is of several records"),
        })
    }
}

/// What a mean compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    Ratio,
    Speed,
}

impl Compared {
    fn of(self, record: &Record) -> Result<f64> {
        match self {
            Self::Ratio => ratio(record),
            Self::Speed => speed(record, "seconds"),
        }
    }
}

/// Returns the geometric mean of the ratios or speeds of `found` over the best of a codec in `all`, and the number of
/// cases in which they are at least as high.
pub fn mean_over(compared: Compared, codec: &str, found: &[&Record], all: &[Record]) -> Result<String> {
    let case = |record: &Record| ["field", "bound", "what"].map(|column| value(record, column).to_owned());
    let mut best: BTreeMap<_, f64> = BTreeMap::new();
    for record in all.iter().filter(|record| value(record, "codec") == codec) {
        let so_far = best.entry(case(record)).or_default();
        *so_far = so_far.max(compared.of(record)?);
    }
    let (mut logarithms, mut wins) = (Vec::new(), 0);
    for record in found {
        let Some(best) = best.get(&case(record)) else { continue };
        let share = compared.of(record)? / best;
        logarithms.push(share.ln());
        wins += usize::from(share >= 1.0);
    }
    ensure!(!logarithms.is_empty(), "no record has a case of {codec}");
    ensure!(logarithms.len() <= best.len(), "more records than cases of {codec}");
    let mean = (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
    Ok(format!("{mean:.3} ({wins} of {})", logarithms.len()))
}

/// Returns the highest ratio of these records, or nothing if there are none.
pub fn best_ratio(found: &[&Record]) -> Result<String> {
    let ratios = found.iter().map(|record| ratio(record)).collect::<Result<Vec<f64>>>()?;
    Ok(ratios.into_iter().reduce(f64::max).map_or_else(String::new, ratio_text))
}

fn number(record: &Record, column: &str) -> Result<f64> {
    let text = value(record, column);
    text.parse().with_context(|| format!("'{text}' in the column {column} is no number"))
}

/// Returns the bytes of an element.
fn size_of(record: &Record) -> Result<f64> {
    let bits = value(record, "element").trim_start_matches(|c: char| !c.is_ascii_digit());
    Ok(bits.parse::<f64>().context("a type without a size")? / 8.0)
}

/// Returns the bytes a second of the time in this column.
fn speed(record: &Record, column: &str) -> Result<f64> {
    Ok(number(record, "bytes")? / number(record, column)?)
}

fn ratio(record: &Record) -> Result<f64> {
    Ok(number(record, "bytes")? / number(record, "stream_bytes")?)
}

fn ratio_text(ratio: f64) -> String {
    let decimals = [100.0, 1000.0].iter().fold(2, |decimals, limit| decimals - usize::from(ratio >= *limit));
    format!("{ratio:.decimals$}")
}

/// Returns a number with three digits, or all digits in front of the point, and three behind it at most.
fn digits(number: f64) -> String {
    let decimals = |number: f64| 2 - number.abs().max(1e-9).log10().floor() as i32;
    let scale = 10_f64.powi(decimals(number));
    let rounded = (number * scale).round() / scale;
    format!("{number:.*}", decimals(rounded).clamp(0, 3) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let numbers = [1234.5, 123.4, 99.96, 9.996, 0.012_34].map(digits);
        assert_eq!(numbers, ["1234", "123", "100", "10.0", "0.012"]);
        assert_eq!([1234.5, 123.45, 12.345].map(ratio_text), ["1234", "123.5", "12.35"]);
    }
}
