//! Arguments of `estimate`.

use std::path::PathBuf;

use clap::Args;
use syncline::{Bound, Effort, ElementType, Shape};

use super::parse::{self, parse_fill, positive};
use super::{AdvancedArgs, BOUND, FillChoice, INPUT, Limits, OUTPUT, SPEED};

/// Arguments of `estimate`.
#[derive(Debug, Args)]
pub struct EstimateArgs {
    /// Array to examine: a raw or .npy file, or '-' for stdin.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Element type [default: from the name].
    #[arg(long, value_name = "TYPE", value_parser = parse::element_type(), help_heading = INPUT)]
    pub dtype: Option<ElementType>,
    /// Extents, slowest axis first, such as 100x500x500.
    #[arg(long, visible_alias = "dims", value_name = "SHAPE", help_heading = INPUT)]
    pub shape: Option<Shape>,
    /// Values that mean "no data", as for compress.
    #[arg(long, value_name = "none|auto|VALUES", default_value = "auto", value_parser = parse_fill,
        value_delimiter = ',', allow_hyphen_values = true, help_heading = INPUT)]
    pub fill: Vec<FillChoice>,
    /// The bounds of the rows.
    #[command(flatten)]
    pub bounds: BoundsArgs,
    /// Estimate streams whose values compress to themselves, as compress makes them with --rewritable.
    #[arg(long, help_heading = BOUND)]
    pub rewritable: bool,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Efforts to try, separated by commas [default: all].
    #[arg(long, value_name = "EFFORTS", value_parser = parse::effort(), value_delimiter = ',', help_heading = SPEED)]
    pub effort: Vec<Effort>,
    /// Threads and memory.
    #[command(flatten)]
    pub limits: Limits,
    /// Single choices of the encoder.
    #[command(flatten)]
    pub advanced: AdvancedArgs,
}

/// Several bounds [default: --rel 1e-2,1e-3,1e-4,1e-5 --lossless].
#[derive(Debug, Args)]
pub struct BoundsArgs {
    /// Absolute bounds, separated by commas.
    #[arg(long, value_name = "X,...", value_parser = positive, value_delimiter = ',', allow_hyphen_values = true,
        help_heading = BOUND)]
    pub abs: Vec<f64>,
    /// Bounds relative to the value range, separated by commas.
    #[arg(long, value_name = "X,...", value_parser = positive, value_delimiter = ',', allow_hyphen_values = true,
        help_heading = BOUND)]
    pub rel: Vec<f64>,
    /// Peak signal-to-noise ratios in dB, separated by commas.
    #[arg(long, value_name = "X,...", value_parser = positive, value_delimiter = ',', allow_hyphen_values = true,
        help_heading = BOUND)]
    pub psnr: Vec<f64>,
    /// Bounds relative to each value, separated by commas.
    #[arg(long, value_name = "X,...", value_parser = positive, value_delimiter = ',', allow_hyphen_values = true,
        help_heading = BOUND)]
    pub pw_rel: Vec<f64>,
    /// Lossless compression.
    #[arg(long, help_heading = BOUND)]
    pub lossless: bool,
}

impl BoundsArgs {
    /// Returns the bounds: those that were given, or the default.
    pub fn list(&self) -> Vec<Bound> {
        let of = |values: &[f64], bound: fn(f64) -> Bound| values.iter().copied().map(bound).collect::<Vec<Bound>>();
        let mut bounds = of(&self.abs, Bound::Abs);
        bounds.extend(of(&self.rel, Bound::Rel));
        bounds.extend(of(&self.psnr, Bound::Psnr));
        bounds.extend(of(&self.pw_rel, Bound::PwRel));
        let by_default = bounds.is_empty() && !self.lossless;
        if by_default {
            bounds.extend(of(&[1e-2, 1e-3, 1e-4, 1e-5], Bound::Rel));
        }
        if self.lossless || by_default {
            bounds.push(Bound::Lossless);
        }
        bounds
    }
}
