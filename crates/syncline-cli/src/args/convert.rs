//! Arguments of `convert`.

use std::path::PathBuf;

use clap::Args;
use glob::Pattern;
use syncline::Bound;

use super::parse::{parse_fill, positive};
use super::{AdvancedArgs, BOUND, EffortArgs, FillChoice, INPUT, Limits, OUTPUT};

/// Arguments of `convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// HDF5 or netCDF-4 file, or Zarr store, to read.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// File or store to write, of the same kind.
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Datasets and groups to leave as they are, by their paths, such as /grid,/t/lat. The option can be repeated.
    #[arg(long, value_name = "PATHS", value_delimiter = ',', help_heading = INPUT)]
    pub except: Vec<String>,
    /// Values that mean "no data" in all datasets: none, auto, or up to four numbers.
    ///
    /// auto takes those that each dataset declares (the attributes _FillValue and missing_value, and the fill value of
    /// HDF5 or Zarr), or else detects them as compress does.
    #[arg(long, value_name = "none|auto|VALUES", default_value = "auto", value_parser = parse_fill,
        value_delimiter = ',', allow_hyphen_values = true, help_heading = INPUT)]
    pub fill: Vec<FillChoice>,
    /// The error bounds.
    #[command(flatten)]
    pub bound: ConvertBoundArgs,
    /// Let the bounds hold also for chunks of which parts are written later.
    ///
    /// Without it, chunks are smaller, and each later write to a part of a chunk can add an error of up to the bound to
    /// the rest of it. Bounds that refer to the value range of a dataset stay as they are now.
    #[arg(long, help_heading = BOUND)]
    pub rewritable: bool,
    /// Replace an existing output file.
    #[arg(short, long, help_heading = OUTPUT)]
    pub force: bool,
    /// Print the table as JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// The effort.
    #[command(flatten)]
    pub effort: EffortArgs,
    /// Threads and memory.
    #[command(flatten)]
    pub limits: Limits,
    /// Single choices of the encoder.
    #[command(flatten)]
    pub advanced: AdvancedArgs,
}

/// The error bounds. At least one is required.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub struct ConvertBoundArgs {
    /// Limit the absolute error of every value to X. Integers need their name (NAME=X), and count whole numbers.
    ///
    /// X alone is for all arrays that no other bound names. NAME=X is for the arrays of this name, in which * and ?
    /// stand for any characters; a name with / is a path. Each of the options for bounds can be repeated.
    #[arg(long, value_name = "[NAME=]X", value_parser = named_bound, allow_hyphen_values = true, help_heading = BOUND)]
    pub abs: Vec<NamedBound>,
    /// Limit the absolute error of every value to X times the value range of its array.
    #[arg(long, value_name = "[NAME=]X", value_parser = named_bound, allow_hyphen_values = true, help_heading = BOUND)]
    pub rel: Vec<NamedBound>,
    /// Reach a peak signal-to-noise ratio of at least X dB in every array.
    #[arg(long, value_name = "[NAME=]X", value_parser = named_bound, allow_hyphen_values = true, help_heading = BOUND)]
    pub psnr: Vec<NamedBound>,
    /// Limit the error of every value to X times its magnitude.
    #[arg(long, value_name = "[NAME=]X", value_parser = named_bound, allow_hyphen_values = true, help_heading = BOUND)]
    pub pw_rel: Vec<NamedBound>,
    /// Restore every bit of all arrays that no bound names, or of those of this name. Without a name, the option comes
    /// after IN and OUT.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", value_parser = optional_name,
        help_heading = BOUND)]
    pub lossless: Vec<OptionalName>,
}

/// A bound on the command line: for all arrays, or for those of a name.
#[derive(Clone, Debug)]
pub struct NamedBound {
    name: Option<NamePattern>,
    value: f64,
}

/// A name on the command line, or all arrays.
#[derive(Clone, Debug)]
pub struct OptionalName(Option<NamePattern>);

/// A bound, and the arrays that it is for.
#[derive(Clone, Debug)]
pub struct BoundChoice {
    /// Names of arrays; all that no other bound names without it.
    pub name: Option<NamePattern>,
    /// The bound.
    pub bound: Bound,
}

impl std::fmt::Display for BoundChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let option = self.bound.name().replace('_', "-");
        match (&self.name, self.bound) {
            (Some(name), Bound::Lossless) => write!(f, "--lossless {name}"),
            (None, Bound::Lossless) => write!(f, "--lossless"),
            (Some(name), bound) => write!(f, "--{option} {name}={}", bound.value()),
            (None, bound) => write!(f, "--{option} {}", bound.value()),
        }
    }
}

/// Names of arrays, with `*`, `?`, and `[]` as in shells.
#[derive(Clone, Debug)]
pub struct NamePattern(Pattern);

impl NamePattern {
    /// Returns whether an array has such a name. `path` is its path, which starts with `/`.
    pub fn matches(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        let pattern = self.0.as_str();
        if pattern.contains('/') {
            return match pattern.strip_prefix('/').map(Pattern::new) {
                Some(inner) => inner.is_ok_and(|inner| inner.matches(path)),
                None => self.0.matches(path),
            };
        }
        self.0.matches(path.rsplit('/').next().unwrap_or(path))
    }

    /// Returns whether it is one name, without `*`, `?`, and `[]`.
    pub fn is_plain(&self) -> bool {
        !self.0.as_str().contains(['*', '?', '['])
    }
}

impl std::fmt::Display for NamePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_str().fmt(f)
    }
}

fn name_pattern(text: &str) -> Result<NamePattern, String> {
    Pattern::new(text).map(NamePattern).map_err(|error| format!("the name {text} is no pattern: {error}"))
}

fn named_bound(text: &str) -> Result<NamedBound, String> {
    let (name, number) = match text.rsplit_once('=') {
        Some(("", _)) => return Err("has no name before =: write NAME=X, such as ta=1e-3".into()),
        Some((name, number)) => (Some(name_pattern(name)?), number),
        None => (None, text),
    };
    Ok(NamedBound { name, value: positive(number)? })
}

fn optional_name(text: &str) -> Result<OptionalName, String> {
    if text.is_empty() { Ok(OptionalName(None)) } else { name_pattern(text).map(|name| OptionalName(Some(name))) }
}

impl ConvertBoundArgs {
    /// Returns all bounds that were given.
    pub fn choices(&self) -> Vec<BoundChoice> {
        fn of(given: &[NamedBound], bound: fn(f64) -> Bound) -> impl Iterator<Item = BoundChoice> {
            given.iter().map(move |one| BoundChoice { name: one.name.clone(), bound: bound(one.value) })
        }
        let lossy = of(&self.abs, Bound::Abs).chain(of(&self.rel, Bound::Rel));
        let lossy = lossy.chain(of(&self.psnr, Bound::Psnr)).chain(of(&self.pw_rel, Bound::PwRel));
        let lossless = self.lossless.iter().map(|OptionalName(name)| (name.clone(), Bound::Lossless));
        lossy.chain(lossless.map(|(name, bound)| BoundChoice { name, bound })).collect()
    }
}
