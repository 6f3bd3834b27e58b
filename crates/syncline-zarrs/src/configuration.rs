//! The settings of the codec in array metadata.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use syncline::{Advanced, Bound, CompressOptions, ElementType, Error, Fill, Result};

/// The settings of the codec, as they are written in array metadata:
/// `{"name": "syncline", "configuration": {"mode": "abs", "value": 0.001}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SynclineConfiguration {
    /// Kind of the bound: `lossless`, `abs`, `rel`, `psnr`, or `pw_rel`. Those with `rel` and `psnr` refer to the
    /// values of each chunk.
    #[serde(default = "lossless")]
    pub mode: String,
    /// Value of the bound; none if lossless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Effort (`fast`, `balanced`, or `best`), if it is not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Values that stand for missing data, if they are not the fill value of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<FillSetting>,
    /// Whether an `abs` or `pw_rel` bound holds for what was last written to each element, however often parts of a
    /// chunk are written. Otherwise chunks are smaller, but each time that a part of a chunk is written, the errors of
    /// its other elements can grow by up to the bound. Written only if it is not the default, which is true.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub rewritable: bool,
    /// Single choices that the effort otherwise stands for. Written only if there are any.
    #[serde(default, skip_serializing_if = "AdvancedSettings::is_empty")]
    pub advanced: AdvancedSettings,
}

/// Single choices of the encoder, such as `{"coder": "lzss", "level": 9}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdvancedSettings(BTreeMap<String, AdvancedValue>);

/// The value of an advanced option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum AdvancedValue {
    Number(u64),
    Name(String),
}

impl AdvancedSettings {
    /// Returns whether there are no choices.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the choices.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown key or value.
    pub fn advanced(&self) -> Result<Advanced> {
        let pair = |(key, value): (&String, &AdvancedValue)| match value {
            AdvancedValue::Number(number) => format!("{key}={number}"),
            AdvancedValue::Name(name) => format!("{key}={name}"),
        };
        self.0.iter().map(pair).collect::<Vec<String>>().join(",").parse()
    }
}

impl From<Advanced> for AdvancedSettings {
    fn from(advanced: Advanced) -> Self {
        let value = |text: String| match text.parse() {
            Ok(number) => AdvancedValue::Number(number),
            Err(_) => AdvancedValue::Name(text),
        };
        Self(advanced.pairs().map(|(key, text)| (key.to_owned(), value(text))).collect())
    }
}

/// One value that stands for missing data, or several, written as a number or as a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FillSetting {
    /// One value.
    One(f64),
    /// Up to four values.
    Several(Vec<f64>),
}

impl FillSetting {
    /// Returns the values.
    pub fn values(&self) -> &[f64] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

fn lossless() -> String {
    "lossless".into()
}

fn yes() -> bool {
    true
}

impl SynclineConfiguration {
    /// Returns the settings for a bound, for chunks that can be rewritten in parts.
    pub fn new(bound: Bound) -> Self {
        let (mode, value) = match bound {
            Bound::Abs(value) => ("abs", Some(value)),
            Bound::Rel(value) => ("rel", Some(value)),
            Bound::Psnr(value) => ("psnr", Some(value)),
            Bound::PwRel(value) => ("pw_rel", Some(value)),
            _ => ("lossless", None),
        };
        let (mode, advanced) = (mode.into(), AdvancedSettings::default());
        Self { mode, value, effort: None, fill: None, rewritable: true, advanced }
    }

    /// Returns the bound.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if mode and value do not fit together.
    pub fn bound(&self) -> Result<Bound> {
        let value = self.value.unwrap_or(0.0);
        let bound = match self.mode.as_str() {
            "abs" => Bound::Abs(value),
            "rel" => Bound::Rel(value),
            "psnr" => Bound::Psnr(value),
            "pw_rel" => Bound::PwRel(value),
            "lossless" if value == 0.0 => return Ok(Bound::Lossless),
            "lossless" => return Err(invalid("a lossless codec has no value: leave it out")),
            other => return Err(invalid(format!("unknown mode {other:?}: use lossless, abs, rel, psnr, or pw_rel"))),
        };
        match value.is_finite() && value > 0.0 {
            true => Ok(bound),
            false => Err(invalid(format!("the {} bound must be a positive number, not {value}", self.mode))),
        }
    }

    /// Returns the options for chunks of an array whose fill value is `fill_value`, if it is a number.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for settings that are not valid.
    pub fn options(&self, fill_value: Option<f64>) -> Result<CompressOptions> {
        let bound = self.bound()?;
        let fill = match (&self.fill, fill_value) {
            (Some(given), _) => Fill::of(given.values())?,
            // Every NaN is kept in any case.
            (None, Some(value)) if value.is_nan() => Fill::None,
            // Zero is Zarr's default and an ordinary value in most data.
            (None, Some(value)) if value != 0.0 => Fill::Value(value),
            _ => Fill::Auto,
        };
        let fill = if bound == Bound::Lossless { Fill::Auto } else { fill };
        let options = CompressOptions::new(bound).with_fill(fill).with_rewritable(self.rewritable);
        let options = options.with_advanced(self.advanced.advanced()?);
        Ok(match &self.effort {
            Some(effort) => options.with_effort(effort.parse()?),
            None => options,
        })
    }

    /// Checks that chunks of this type can be compressed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a bound that elements of the type do not have.
    pub fn check_type(&self, element: ElementType) -> Result<()> {
        self.bound()?.validate(element)
    }
}

/// Returns the error for settings that are not valid.
pub(crate) fn invalid(text: impl Into<String>) -> Error {
    Error::invalid(text)
}
