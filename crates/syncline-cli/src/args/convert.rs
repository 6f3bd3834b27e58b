//! Arguments of `convert`.

use std::path::PathBuf;

use clap::Args;
use syncline::{Bound, Coder, Effort};

use super::parse::{self, parse_fill, positive};
use super::{FillChoice, Limits, ShortLevel};

/// Arguments of `convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// HDF5 or netCDF-4 file, or Zarr store, to read.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// File or store to write, of the same kind.
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// The error bound.
    #[command(flatten)]
    pub bound: ConvertBoundArgs,
    /// Datasets and groups to leave as they are, by their paths, such as /grid,/t/lat. The option can be repeated.
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    pub except: Vec<String>,
    /// Values that mean "no data" in all datasets: none, auto, or up to four numbers.
    ///
    /// auto takes those that each dataset declares (the attributes _FillValue and missing_value, and the fill value of
    /// HDF5 or Zarr), or else detects them as compress does.
    #[arg(long, value_name = "none|auto|VALUES", default_value = "auto", value_parser = parse_fill,
        value_delimiter = ',', allow_hyphen_values = true)]
    pub fill: Vec<FillChoice>,
    /// Lossless stage, as for compress.
    #[arg(long, value_name = "CODER", value_parser = parse::coder(), env = "SYNCLINE_CODER", hide_env = true)]
    pub coder: Option<Coder>,
    /// Time that compression with an error bound may take for smaller chunks: fast, balanced (the default), or best.
    #[arg(long, value_name = "EFFORT", value_parser = parse::effort(), env = "SYNCLINE_EFFORT",
        hide_env = true)]
    pub effort: Option<Effort>,
    /// LZSS level, from 1 (fastest) to 9 (smallest) [default: 3].
    #[arg(long, value_name = "1-9", value_parser = clap::value_parser!(u8).range(1..=9), allow_hyphen_values = true,
        env = "SYNCLINE_LEVEL", hide_env = true)]
    pub level: Option<u8>,
    /// The level as one of the options -1 to -9.
    #[command(flatten)]
    pub short_level: ShortLevel,
    /// Replace an existing output file.
    #[arg(short, long)]
    pub force: bool,
    /// Print the table as JSON.
    #[arg(long)]
    pub json: bool,
    /// Threads and memory.
    #[command(flatten)]
    pub limits: Limits,
}

/// The error bound. Exactly one is required.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ConvertBoundArgs {
    /// Limit the absolute error of every value to X.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub abs: Option<f64>,
    /// Limit the absolute error of every value to X times the value range of its dataset.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub rel: Option<f64>,
    /// Reach a peak signal-to-noise ratio of at least X dB in every dataset.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub psnr: Option<f64>,
    /// Limit the error of every value to X times its magnitude.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub pw_rel: Option<f64>,
    /// Restore every bit.
    #[arg(long)]
    pub lossless: bool,
}

impl ConvertBoundArgs {
    /// Returns the bound that was given.
    pub fn bound(self) -> Bound {
        match (self.abs, self.rel, self.psnr, self.pw_rel) {
            (Some(x), ..) => Bound::Abs(x),
            (_, Some(x), ..) => Bound::Rel(x),
            (_, _, Some(x), _) => Bound::Psnr(x),
            (.., Some(x)) => Bound::PwRel(x),
            _ => Bound::Lossless,
        }
    }
}
