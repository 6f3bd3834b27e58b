//! Arguments of `compress`.

use std::path::PathBuf;

use clap::Args;
use syncline::{Bound, ElementType, Shape};

use super::parse::{self, parse_fill, parse_range, parse_size, positive};
use super::{AdvancedArgs, BOUND, EffortArgs, Files, FillChoice, INPUT, OUTPUT, Resources};

/// Arguments of `compress`.
#[derive(Debug, Args)]
pub struct CompressArgs {
    /// Arrays to compress: raw or .npy files, folders with such files, or '-' for stdin.
    #[arg(value_name = "IN", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Element type [default: from the name].
    #[arg(long, value_name = "TYPE", value_parser = parse::element_type(), help_heading = INPUT)]
    pub dtype: Option<ElementType>,
    /// Extents, slowest axis first, such as 100x500x500.
    ///
    /// Write those of a Fortran array in reverse.
    #[arg(long, visible_alias = "dims", value_name = "SHAPE", help_heading = INPUT)]
    pub shape: Option<Shape>,
    /// Values that mean "no data": none, auto (detects up to three values), or up to four numbers.
    ///
    /// Several are separated by commas, or the option is repeated. They are kept exactly and do not count in the value
    /// range. NaN is always kept. auto takes extreme values that repeat and lie far from all others: those that at
    /// least 0.1 % of the elements (and 8) hold, if the gap is more than 4 times the range of the others; and those
    /// that make up more than 90 % of the range, if at least 4 elements hold them. Customary values such as -9999,
    /// 1e20, 9.96921e36, and -32768 need only half the range of the others as a gap, or 2 elements.
    #[arg(long, value_name = "none|auto|VALUES", default_value = "auto", value_parser = parse_fill,
        value_delimiter = ',', allow_hyphen_values = true, help_heading = INPUT)]
    pub fill: Vec<FillChoice>,
    /// The error bound.
    #[command(flatten)]
    pub bound: BoundArgs,
    /// Value range that --rel refers to, such as -1.5:20.
    ///
    /// With it, an array from a pipe is compressed while it is read, in little memory. With --abs, --pw-rel, and
    /// --lossless that is always so. Otherwise --rel and --psnr keep a pipe's array in memory or in a temporary file,
    /// because they need all values first. Fill values are not detected while reading: name them with --fill.
    #[arg(long, value_name = "MIN:MAX", value_parser = parse_range, allow_hyphen_values = true,
        conflicts_with_all = ["abs", "psnr", "pw_rel", "lossless", "ratio", "size"], help_heading = BOUND)]
    pub range: Option<(f64, f64)>,
    /// Make a stream whose values compress to themselves, for arrays that are changed in parts later.
    ///
    /// Without it, each time that an array is decompressed, changed in a part, and compressed again with the same
    /// bound, all of its other elements may move by up to the bound once more. With it, any number of such rewrites
    /// keeps each element within --abs or --pw-rel of the value that was written to it last. Streams of smooth arrays
    /// are larger, because tiles are not interpolated. --rel and --psnr depend on the range of the values, which a
    /// rewrite may change: use --abs. No effect with --lossless, which changes nothing anyway.
    #[arg(long, help_heading = BOUND)]
    pub rewritable: bool,
    /// Stream to write [default: IN.syn, or stdout if IN is '-'].
    #[arg(short, long, value_name = "OUT", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// What becomes of several outputs and of the inputs.
    #[command(flatten)]
    pub files: Files,
    /// Print the summary as JSON on stdout.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// The effort.
    #[command(flatten)]
    pub effort: EffortArgs,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
    /// Single choices of the encoder.
    #[command(flatten)]
    pub advanced: AdvancedArgs,
}

/// The error bound. Exactly one is required.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct BoundArgs {
    /// Limit the absolute error of every value to X. Integers count whole numbers: X below 1 is lossless.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true, help_heading = BOUND)]
    pub abs: Option<f64>,
    /// Limit the absolute error of every value to X times the value range.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true, help_heading = BOUND)]
    pub rel: Option<f64>,
    /// Reach a peak signal-to-noise ratio of at least X dB.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true, help_heading = BOUND)]
    pub psnr: Option<f64>,
    /// Limit the error of every value to X times its magnitude.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true, help_heading = BOUND)]
    pub pw_rel: Option<f64>,
    /// Restore every bit.
    #[arg(long, help_heading = BOUND)]
    pub lossless: bool,
    /// Find the smallest bound, relative to the value range, with which the stream is at most 1/N of the array.
    ///
    /// The bound is searched for in a sample of tiles, then checked and corrected with the whole array, which is
    /// compressed two to seven times. The summary says what was reached.
    #[arg(long, value_name = "N", value_parser = positive, allow_hyphen_values = true, help_heading = BOUND)]
    pub ratio: Option<f64>,
    /// Find the smallest bound, relative to the value range, with which the stream has at most SIZE bytes. See --ratio.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true, help_heading = BOUND)]
    pub size: Option<u64>,
}

impl BoundArgs {
    /// Returns the length of the stream that the bound is searched for, if it is, for an array of this length.
    pub fn target(&self, array_bytes: u64) -> Option<u64> {
        self.size.or(self.ratio.map(|ratio| (array_bytes as f64 / ratio) as u64))
    }

    /// Returns the bound that was given.
    pub fn bound(&self) -> Bound {
        match (self.abs, self.rel, self.psnr, self.pw_rel) {
            (Some(x), ..) => Bound::Abs(x),
            (_, Some(x), ..) => Bound::Rel(x),
            (_, _, Some(x), _) => Bound::Psnr(x),
            (.., Some(x)) => Bound::PwRel(x),
            // Until the search has found one.
            _ if self.ratio.is_some() || self.size.is_some() => Bound::Rel(syncline::estimate::COARSEST),
            _ => Bound::Lossless,
        }
    }
}
