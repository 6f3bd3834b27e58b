//! Arguments of `compress`.

use std::path::PathBuf;

use clap::Args;
use syncline::{Bound, Coder, Effort, ElementType, IndexKind, Shape};

use super::parse::{self, parse_fill, parse_range, parse_size, parse_symbol, positive};
use super::{Files, FillChoice, Resources, ShortLevel, SymbolChoice, TileChoice};

/// Arguments of `compress`.
#[derive(Debug, Args)]
pub struct CompressArgs {
    /// Arrays to compress: raw or .npy files, folders with such files, or '-' for stdin.
    #[arg(value_name = "IN", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Stream to write [default: IN.syn, or stdout if IN is '-'].
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// What becomes of several outputs and of the inputs.
    #[command(flatten)]
    pub files: Files,
    /// Element type [default: from the name].
    #[arg(long, value_name = "TYPE", value_parser = parse::element_type())]
    pub dtype: Option<ElementType>,
    /// Extents, slowest axis first, such as 100x500x500.
    ///
    /// Write those of a Fortran array in reverse.
    #[arg(long, visible_alias = "dims", value_name = "SHAPE")]
    pub shape: Option<Shape>,
    /// The error bound.
    #[command(flatten)]
    pub bound: BoundArgs,
    /// Value range that --rel refers to, such as -1.5:20.
    ///
    /// With it, an array from a pipe is compressed while it is read, in little memory. With --abs, --pw-rel, and
    /// --lossless that is always so. Otherwise --rel and --psnr keep a pipe's array in memory or in a temporary file,
    /// because they need all values first. Fill values are not detected while reading: name them with --fill.
    #[arg(long, value_name = "MIN:MAX", value_parser = parse_range, allow_hyphen_values = true,
        conflicts_with_all = ["abs", "psnr", "pw_rel", "lossless", "ratio", "size"])]
    pub range: Option<(f64, f64)>,
    /// Values that mean "no data": none, auto (detects up to three values), or up to four numbers.
    ///
    /// Several are separated by commas, or the option is repeated. They are kept exactly and do not count in the value
    /// range. NaN is always kept. auto takes extreme values that repeat and lie far from all others: those that at
    /// least 0.1 % of the elements (and 8) hold, if the gap is more than 4 times the range of the others; and those
    /// that make up more than 90 % of the range, if at least 4 elements hold them. Customary values such as -9999,
    /// 1e20, 9.96921e36, and -32768 need only half the range of the others as a gap, or 2 elements.
    #[arg(long, value_name = "none|auto|VALUES", default_value = "auto", value_parser = parse_fill,
        value_delimiter = ',', allow_hyphen_values = true)]
    pub fill: Vec<FillChoice>,
    /// Index for parallel decompression: none (smallest stream), gap, or symbol (fastest) [default: symbol].
    #[arg(long, value_name = "KIND", value_parser = parse::index(), env = "SYNCLINE_INDEX",
        hide_env = true)]
    pub index: Option<IndexKind>,
    /// Lossless stage [default: auto with --lossless, else huffman].
    ///
    /// huffman compresses fastest. lzss+huffman also finds repetitions. auto takes the smaller of both for each chunk;
    /// with an error bound, lzss+huffman is tried only where a sample promises a gain. lzss decompresses fastest and is
    /// lossless only.
    #[arg(long, value_name = "CODER", value_parser = parse::coder(), env = "SYNCLINE_CODER", hide_env = true)]
    pub coder: Option<Coder>,
    /// Time that compression with an error bound may take for a smaller stream: fast, balanced (the default), or best.
    ///
    /// balanced predicts tiles by interpolation where that is better, and chooses between codebooks of values and of
    /// runs of zeros. best also tries LZSS for each chunk. Both have the index symbol or none, with which GPUs do not
    /// compress or decompress them; with another index than symbol, the default is fast. fast predicts by differences
    /// alone, and compresses two to five times as fast as balanced. No effect with --lossless, which is said.
    #[arg(long, value_name = "EFFORT", value_parser = parse::effort(), env = "SYNCLINE_EFFORT",
        hide_env = true)]
    pub effort: Option<Effort>,
    /// Size of the tiles in which values are predicted: small (the default), large, or auto.
    ///
    /// large makes streams of smooth fields smaller, by 5 % on average, but a part of the array takes up to eight times
    /// as many elements to be decoded, and GPUs do not compress with it. auto compresses a sample with both
    /// and takes large if that saves more than 4 %, or anything with the effort best; standard input that is compressed
    /// as it arrives gets small. large and auto need the effort balanced or best. No effect with --lossless, which is
    /// said.
    #[arg(long, value_name = "SIZE", value_parser = parse::tile(), env = "SYNCLINE_TILE", hide_env = true)]
    pub tile: Option<TileChoice>,
    /// Make a stream whose values compress to themselves, for arrays that are changed in parts later.
    ///
    /// Without it, each time that an array is decompressed, changed in a part, and compressed again with the same
    /// bound, all of its other elements may move by up to the bound once more. With it, any number of such rewrites
    /// keeps each element within --abs or --pw-rel of the value that was written to it last. Streams of smooth arrays
    /// are larger, because tiles are not interpolated. --rel and --psnr depend on the range of the values, which a
    /// rewrite may change: use --abs. No effect with --lossless, which changes nothing anyway.
    #[arg(long)]
    pub rewritable: bool,
    /// Bytes of an LZSS symbol: auto, 1, 2, 4, or 8 [default: auto].
    #[arg(long, value_name = "auto|1|2|4|8", value_parser = parse_symbol)]
    pub symbol: Option<SymbolChoice>,
    /// LZSS level, from 1 (fastest) to 9 (smallest) [default: 3].
    ///
    /// Without effect unless LZSS is used, which is said.
    #[arg(long, value_name = "1-9", value_parser = clap::value_parser!(u8).range(1..=9), allow_hyphen_values = true,
        env = "SYNCLINE_LEVEL", hide_env = true)]
    pub level: Option<u8>,
    /// The level as one of the options -1 to -9.
    #[command(flatten)]
    pub short_level: ShortLevel,
    /// Print the summary as JSON on stdout.
    #[arg(long)]
    pub json: bool,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
}

/// The error bound. Exactly one is required.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct BoundArgs {
    /// Limit the absolute error of every value to X.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub abs: Option<f64>,
    /// Limit the absolute error of every value to X times the value range.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub rel: Option<f64>,
    /// Reach a peak signal-to-noise ratio of at least X dB.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub psnr: Option<f64>,
    /// Limit the error of every value to X times its magnitude.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub pw_rel: Option<f64>,
    /// Restore every bit.
    #[arg(long)]
    pub lossless: bool,
    /// Find the smallest bound, relative to the value range, with which the stream is at most 1/N of the array.
    ///
    /// The bound is searched for in a sample of tiles, then checked and corrected with the whole array, which is
    /// compressed two to seven times. The summary says what was reached.
    #[arg(long, value_name = "N", value_parser = positive, allow_hyphen_values = true)]
    pub ratio: Option<f64>,
    /// Find the smallest bound, relative to the value range, with which the stream has at most SIZE bytes. See --ratio.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
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
