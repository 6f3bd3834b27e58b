//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use syncline::{Backend, Bound, Coder, Decoder, ElementType, Fill, IndexKind, Shape, SymbolWidth};

use crate::names::type_by_name;
use crate::region::RegionSpec;

const AFTER_HELP: &str = "\
Examples:
  syncline compress x.f32 --shape 100x500x500 --rel 1e-3    writes x.f32.syn
  syncline verify x.f32 x.f32.syn                           checks the bound for every value
  syncline decompress x.f32.syn -o y.npy                    writes y.npy

Files: '-' means stdin or stdout. Raw arrays are little-endian with the last axis fastest. Their type is taken from
names such as x.f32, x.d64, or x.f32.dat. .npy files contain their type and shape, and outputs named *.npy become .npy
files.

Exit codes: 0 success; 1 a problem with the data, a file, or the machine (such as a damaged stream, a missing file, or a
bound that does not hold); 2 a problem with the command line (such as a wrong shape, or an existing output without
--force); 130 interrupted.

'syncline completions SHELL' prints completions for a shell, and 'syncline man [COMMAND]' prints a manual page.";

/// Error-bounded and lossless compression of numeric arrays.
#[derive(Debug, Parser)]
#[command(name = "syncline", version, after_help = AFTER_HELP, subcommand_required = true,
    arg_required_else_help = true)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Verbosity.
    #[command(flatten)]
    pub talk: Talk,
}

/// Verbosity.
#[derive(Clone, Copy, Debug, Args)]
pub struct Talk {
    /// Print errors only: no summary and no progress bar.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print more: the bound that holds, the value range, fill values, and the processor.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process has one value")]
pub enum Command {
    /// Compress an array, within an error bound or losslessly.
    Compress(CompressArgs),
    /// Decompress a stream, or a region of it.
    Decompress(DecompressArgs),
    /// Describe a stream without decompressing it.
    Inspect(InspectArgs),
    /// Compare a stream with its original. The exit code is 0 only if the bound holds.
    Verify(VerifyArgs),
    /// Compress, decompress, and verify a built-in field of real data (the EGM96 geoid).
    Demo(DemoArgs),
    /// Show this build, the processor, and the usable GPUs.
    Info(InfoArgs),
    /// Print the completion script of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a manual page (roff).
    Man {
        /// Page of this command instead of the main page.
        command: Option<String>,
    },
}

/// Arguments of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compress`.
#[derive(Debug, Args)]
pub struct CompressArgs {
    /// Array to compress: a raw or .npy file, or '-' for stdin.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Stream to write [default: IN.syn, or stdout if IN is '-'].
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Element type: f32 f64 f16 bf16 u8 u16 u32 u64 i8 i16 i32 i64 [default: from the name].
    #[arg(long, value_name = "TYPE", value_parser = parse_type)]
    pub dtype: Option<ElementType>,
    /// Extents, slowest axis first, such as 100x500x500. Write those of a Fortran array in reverse.
    #[arg(long, visible_alias = "dims", value_name = "SHAPE")]
    pub shape: Option<Shape>,
    /// The error bound.
    #[command(flatten)]
    pub bound: BoundArgs,
    /// Value that means "no data". It is kept exactly and does not count in the value range: none, auto (detects one
    /// value), or a number. NaN is always kept.
    #[arg(long, value_name = "none|auto|VALUE", default_value = "auto", value_parser = parse_fill,
        allow_hyphen_values = true)]
    pub fill: Fill,
    /// Index for parallel decompression: none (smallest stream), gap, or symbol (fastest).
    #[arg(long, value_name = "none|gap|symbol", default_value = "symbol")]
    pub index: IndexKind,
    /// Lossless stage: huffman (compresses fastest), lzss+huffman (also finds repetitions), auto (the smaller of both
    /// for each chunk; with an error bound, lzss+huffman is tried only where a sample promises a gain), or lzss
    /// (decompresses fastest; lossless only) [default: auto with --lossless, else huffman].
    #[arg(long, value_name = "CODER")]
    pub coder: Option<Coder>,
    /// Bytes of an LZSS symbol: auto, 1, 2, 4, or 8.
    #[arg(long, value_name = "auto|1|2|4|8", default_value = "auto", value_parser = parse_symbol)]
    pub symbol: SymbolChoice,
    /// LZSS level, from 1 (fastest) to 9 (smallest). Without effect unless LZSS is used.
    #[arg(long, value_name = "1-9", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9),
        allow_hyphen_values = true)]
    pub level: u8,
    /// Replace an existing output file.
    #[arg(short, long)]
    pub force: bool,
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
}

impl BoundArgs {
    /// Returns the bound that was given.
    pub fn bound(&self) -> Bound {
        match (self.abs, self.rel, self.psnr, self.pw_rel) {
            (Some(x), ..) => Bound::Abs(x),
            (_, Some(x), ..) => Bound::Rel(x),
            (_, _, Some(x), _) => Bound::Psnr(x),
            (.., Some(x)) => Bound::PwRel(x),
            _ => Bound::Lossless,
        }
    }
}

/// Arguments of `decompress`.
#[derive(Debug, Args)]
pub struct DecompressArgs {
    /// Stream to decompress, or '-' for stdin.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Array to write: .npy if the name ends so, otherwise raw [default: IN without .syn, or stdout if IN is '-'].
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Decompress this region only: one range per axis, slowest first, such as 0:10,5:20,: (missing axes are complete).
    /// Requires -o.
    #[arg(long, value_name = "RANGES", allow_hyphen_values = true)]
    pub region: Option<RegionSpec>,
    /// Huffman decoder: auto, chunked, self-sync, gap, or indexed.
    #[arg(long, value_name = "DECODER", default_value = "auto")]
    pub decoder: Decoder,
    /// Replace an existing output file.
    #[arg(short, long)]
    pub force: bool,
    /// Print the summary as JSON on stdout.
    #[arg(long)]
    pub json: bool,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Stream to describe, or '-' for stdin.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Original array: a raw or .npy file, or '-' for stdin.
    #[arg(value_name = "ORIGINAL")]
    pub original: PathBuf,
    /// Stream of this array, or '-' for stdin.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Write the stream to this file. Otherwise nothing is written.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace an existing output file.
    #[arg(short, long)]
    pub force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
}

/// Processor, threads, and memory.
#[derive(Clone, Copy, Debug, Args)]
pub struct Resources {
    /// Processor: auto (a GPU for large arrays, if there is one), cpu, cuda (the first NVIDIA GPU), cuda:N, or
    /// cuda:all.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Backend,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = parse_threads, allow_hyphen_values = true, default_value = "0",
        hide_default_value = true)]
    pub threads: usize,
    /// Limit of the memory to use, such as 512MiB or 2G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub memory_limit: Option<u64>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => {
            Err("must be a finite number above 0 (5e-324 to 1.7e308), such as 1e-3; use --lossless for no error".into())
        }
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(threads) if threads <= 4096 => Ok(threads),
        _ => Err("must be a number of threads from 1 to 4096, or 0 for one per core".into()),
    }
}

fn parse_type(text: &str) -> Result<ElementType, String> {
    type_by_name(text).map_or_else(|| text.parse().map_err(|error: syncline::Error| error.to_string()), Ok)
}

/// Width of LZSS symbols; `None` if it is chosen for each chunk.
#[derive(Clone, Copy, Debug)]
pub struct SymbolChoice(pub Option<SymbolWidth>);

fn parse_symbol(text: &str) -> Result<SymbolChoice, String> {
    if text == "auto" {
        return Ok(SymbolChoice(None));
    }
    let width = text.parse().ok().and_then(SymbolWidth::from_bytes);
    width.map(|width| SymbolChoice(Some(width))).ok_or_else(|| "use auto, 1, 2, 4, or 8".into())
}

fn parse_fill(text: &str) -> Result<Fill, String> {
    match text {
        "none" => Ok(Fill::None),
        "auto" => Ok(Fill::Auto),
        _ => text.parse().map(Fill::Value).map_err(|_| "must be none, auto, or a number such as -9999".into()),
    }
}

/// Bytes, with an optional binary unit: 1000, 64K, 512MiB, 2G.
fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => Some(0),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        _ => None,
    };
    let bytes = shift.zip(digits.parse::<u64>().ok()).and_then(|(shift, number)| number.checked_mul(1 << shift));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| "must be a size in bytes, such as 512MiB or 2G".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("1000"), Ok(1000));
        assert_eq!(parse_size("64K"), Ok(65536));
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("2gb"), Ok(2 << 30));
        for wrong in ["", "0", "-1", "1.5G", "G", "5X", "99999999999T"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn exactly_one_bound() {
        let parse = |bound: &[&str]| Cli::try_parse_from([&["syncline", "compress", "x.f32"], bound].concat());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--abs", "1", "--rel", "1"]).is_err());
        for wrong in ["0", "-1", "nan", "inf", "x"] {
            assert!(parse(&["--abs", wrong]).is_err(), "{wrong}");
        }
        let Command::Compress(args) = parse(&["--pw-rel", "1e-3"]).unwrap().command else { panic!() };
        assert!(matches!(args.bound.bound(), Bound::PwRel(x) if x == 1e-3));
    }
}
