//! The command line.

mod compress;
mod convert;
mod effort;
mod estimate;
mod files;
mod parse;
mod report;

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;
use syncline::{Backend, ElementType, Shape};

use crate::names::is_dash;
use crate::region::RegionSpec;
pub use compress::CompressArgs;
pub use convert::{BoundChoice, ConvertArgs, ConvertBoundArgs};
pub use effort::{AdvancedArgs, EffortArgs};
pub use estimate::EstimateArgs;
pub use files::Files;
pub use parse::FillChoice;
use parse::{parse_size, parse_threads, positive};
pub use report::ReportArgs;

// Headings of the help.
const INPUT: &str = "Input";
const BOUND: &str = "Bound";
const OUTPUT: &str = "Output";
const SPEED: &str = "Speed and size";
const DEVICE: &str = "Device";
const ADVANCED: &str = "Advanced";
const GENERAL: &str = "General";

const AFTER_HELP: &str = "\
Examples:
  syncline compress x.f32 --shape 100x500x500 --rel 1e-3    writes x.f32.syn
  syncline verify x.f32 x.f32.syn                           checks the bound for every value
  syncline decompress x.f32.syn -o y.npy                    writes y.npy
  syncline y.npy --abs 0.01                                 compresses, and with a name in .syn decompresses
";

const AFTER_LONG_HELP: &str = "\
Examples:
  syncline compress x.f32 --shape 100x500x500 --rel 1e-3    writes x.f32.syn
  syncline verify x.f32 x.f32.syn                           checks the bound for every value
  syncline decompress x.f32.syn -o y.npy                    writes y.npy
  syncline compress run/ --rel 1e-3 --output-dir packed     compresses every array in a folder

Without a command, the first name tells what to do: names in .syn are decompressed, others are compressed. The short
forms of gzip and zstd work as well: -d decompresses, -t tests, -l lists, -c writes to stdout, -T4 uses 4 threads, and
-1 to -9 set the effort. Between pipes, any bytes are compressed: tar -I syncline -cf x.tar.syn x/.

Files: '-' means stdin or stdout. Raw arrays are little-endian with the last axis fastest. Their type is taken from
names such as x.f32, x.d64, or x.f32.dat. .npy files contain their type and shape, and outputs named *.npy become .npy
files. An array in an .npz file is named as x.npz:name, a dataset of an HDF5 or netCDF-4 file as x.h5:/group/name. HDF5
files need an HDF5 library of version 1.10 or newer, which is found at run time. An array of a Zarr store is named as
x.zarr/group/name, in builds with the feature zarr.

Environment: SYNCLINE_EFFORT, SYNCLINE_DEVICE, SYNCLINE_THREADS, SYNCLINE_MEMORY_LIMIT, and SYNCLINE_ADVANCED give
options that are not on the command line. SYNCLINE_NVRTC and SYNCLINE_CACHE_DIR name the library and the cache folder of
GPU kernels, and SYNCLINE_HDF5_LIBRARY an HDF5 library.

Exit codes: 0 success; 1 a problem with the data, a file, or the machine (such as a damaged stream, a missing file, or a
bound that does not hold); 2 a problem with the command line (such as a wrong shape, or an existing output without
--force); 128 plus the number of the signal that ended the program, such as 130 for Ctrl-C. With several files, the
others are still processed, and the code is 2 if all problems are with the command line, else 1.

'syncline completions SHELL' prints completions for a shell, and 'syncline man [COMMAND]' prints a manual page.";

const COMPRESS_EXAMPLES: &str = "\
Examples:
  syncline compress x.f32 --shape 100x500x500 --rel 1e-3    a raw file; writes x.f32.syn
  syncline compress a.npy b.npy --abs 0.01 --rm             several files, which are removed afterwards
  syncline compress run/ --lossless --output-dir packed     every .npy file in a folder; raw ones need --shape
  syncline compress run.h5:/fields/t --rel 1e-3             a dataset of an HDF5 or netCDF-4 file
  producer | syncline compress - --dtype f32 --shape 100x500x500 --abs 0.01 > x.syn
";

const DECOMPRESS_EXAMPLES: &str = "\
Examples:
  syncline decompress x.f32.syn -o y.npy                    as .npy
  syncline decompress x.f32.syn --region 0:10,:,5 -o y.f32  a part
  syncline decompress x.f32.syn -o run.h5:/fields/t         to a dataset, which is added to the file
  syncline decompress packed/ --output-dir run              every stream in a folder
  syncline decompress - < x.f32.syn | consumer              in a pipe
";

/// The commands that have a page.
const COMMANDS: [&str; 14] = [
    "compress",
    "decompress",
    "convert",
    "estimate",
    "test",
    "list",
    "inspect",
    "verify",
    "compare",
    "report",
    "demo",
    "info",
    "completions",
    "man",
];

const CONVERT_EXAMPLES: &str = "\
Examples:
  syncline convert run.nc small.nc --rel 1e-3               every array that describes no other
  syncline convert run.nc small.nc --rel 1e-3 --abs 'pr*=1e-6' --lossless orog
  syncline convert run.h5 small.h5 --abs 0.01 --effort balanced --except /grid
  syncline convert run.zarr small.zarr --rel 1e-3           every floating-point array, in builds with Zarr
";

const ESTIMATE_EXAMPLES: &str = "\
Examples:
  syncline estimate x.npy                                   some bounds and efforts
  syncline estimate x.f32 --shape 100x500x500 --abs 0.1,0.01 --effort balanced
";

const VERIFY_EXAMPLES: &str = "\
Examples:
  syncline verify x.f32 x.f32.syn                             the bound of the stream
  syncline verify x.f32 x.f32.syn --abs 0.01 --region 0:10    another bound, for a part
";

const COMPLETIONS_EXAMPLE: &str = "\
Example:
  syncline completions bash > ~/.local/share/bash-completion/completions/syncline
";

/// Error-bounded and lossless compression of numeric arrays.
#[derive(Debug, Parser)]
#[command(name = "syncline", version, after_help = AFTER_HELP, after_long_help = AFTER_LONG_HELP,
    subcommand_required = true, arg_required_else_help = true, disable_help_flag = true, disable_version_flag = true)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Print the version.
    #[arg(short = 'V', long, action = ArgAction::Version, help_heading = GENERAL)]
    version: Option<bool>,
    /// Help and verbosity.
    #[command(flatten)]
    pub talk: Talk,
}

/// Help and verbosity.
#[derive(Clone, Copy, Debug, Args)]
pub struct Talk {
    /// Print a summary of the options (-h), or all about them (--help).
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GENERAL)]
    help: Option<bool>,
    /// Print errors only: no summary and no progress bar.
    #[arg(short, long, global = true, help_heading = GENERAL)]
    pub quiet: bool,
    /// Print more: the bound that holds, the value range, fill values, and the processor.
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = GENERAL)]
    pub verbose: bool,
}

impl Talk {
    /// Returns whether the progress and the summary of what is written to `output` are shown. As with gzip and zstd,
    /// what goes into a pipe has them only with `-v`.
    pub fn sums_up(self, output: &Path) -> bool {
        self.verbose || !self.quiet && !is_dash(output)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compress arrays, within an error bound or losslessly.
    #[command(after_help = COMPRESS_EXAMPLES)]
    Compress(CompressArgs),
    /// Decompress streams, or a region of a stream.
    #[command(after_help = DECOMPRESS_EXAMPLES)]
    Decompress(DecompressArgs),
    /// Copy an HDF5 or netCDF-4 file with its floating-point datasets compressed, and everything else as it is.
    ///
    /// Datasets that describe others stay as they are unless a bound names them: coordinates, times, and what the
    /// attributes of the CF conventions name, such as bounds. So do other types, datasets of fewer than 1,024 elements,
    /// groups, and links. The table shows why. Compressed datasets get attributes that state the largest error. Other
    /// programs read the copy with the filter of Syncline (see docs/HDF5.md).
    ///
    /// In builds with the feature zarr, IN may be a Zarr store, or a group or an array of one. OUT is then a store,
    /// which other programs read with the codec of Syncline (see docs/COMMAND.md).
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(ConvertArgs),
    /// Estimate ratios and speeds of several bounds and efforts from a sample, in a table.
    #[command(after_help = ESTIMATE_EXAMPLES)]
    Estimate(EstimateArgs),
    /// Check streams without their originals: every checksum and every code.
    #[command(after_help = "Example:\n  syncline test packed/\n")]
    Test(TestArgs),
    /// List streams in a table: type, shape, bound, sizes. Only headers and chunk tables are read.
    #[command(after_help = "Example:\n  syncline list packed/ other.syn\n")]
    List(ListArgs),
    /// Describe a stream without decompressing it, and what is left of a damaged one.
    #[command(after_help = "Example:\n  syncline inspect x.f32.syn --json\n")]
    Inspect(InspectArgs),
    /// Compare a stream with its original. The exit code is 0 only if the bound holds.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Compare two arrays without a stream. With a bound, the exit code is 0 only if it holds.
    #[command(after_help = "Example:\n  syncline compare x.npy y.npy --abs 0.01\n")]
    Compare(CompareArgs),
    /// Write a page with slices, errors, spectra, and metrics of a stream and its original, or of two arrays.
    #[command(after_help = "Example:\n  syncline report x.npy x.npy.syn -o report.html\n")]
    Report(ReportArgs),
    /// Compress, decompress, and verify a built-in field of real data (the EGM96 geoid).
    #[command(after_help = "Example:\n  syncline demo -o geoid.syn\n")]
    Demo(DemoArgs),
    /// Show this build, the processor, and the usable GPUs.
    #[command(after_help = "Example:\n  syncline info --json\n")]
    Info(InfoArgs),
    /// Print the completion script of a shell.
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a manual page (roff).
    #[command(after_help = "Example:\n  syncline man compress | man -l -\n")]
    Man {
        /// Page of this command instead of the main page.
        #[arg(value_parser = COMMANDS)]
        command: Option<String>,
    },
}

impl Command {
    /// Returns the limit of the memory to use.
    pub fn memory_limit(&self) -> Option<u64> {
        let limits = match self {
            Self::Compress(args) => args.resources.limits,
            Self::Decompress(args) => args.resources.limits,
            Self::Convert(args) => args.limits,
            Self::Estimate(args) => args.limits,
            Self::Test(args) => args.limits,
            Self::Verify(args) => args.resources.limits,
            Self::Compare(args) => args.limits,
            Self::Report(args) => args.resources.limits,
            Self::Demo(args) => args.resources.limits,
            Self::List(_) | Self::Inspect(_) | Self::Info(_) | Self::Completions { .. } | Self::Man { .. } => {
                return None;
            }
        };
        limits.memory_limit
    }
}

/// Arguments of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Arguments of `decompress`.
#[derive(Debug, Args)]
pub struct DecompressArgs {
    /// Streams to decompress, folders with such files, or '-' for stdin.
    #[arg(value_name = "IN", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Decompress this region only: one range per axis, slowest first, such as 0:10,5:20,: (missing axes are complete).
    /// Requires -o or -c.
    #[arg(long, value_name = "RANGES", allow_hyphen_values = true, help_heading = INPUT)]
    pub region: Option<RegionSpec>,
    /// Continue where the stream is damaged.
    ///
    /// Chunks that are intact are decompressed. The elements of the others get the stream's fill value, else NaN, and
    /// integers 0. What is lost is printed, and the exit code is 1. If the end is missing, the records of the chunks
    /// are searched for.
    #[arg(long, conflicts_with_all = ["region", "rm"], help_heading = INPUT)]
    pub keep_going: bool,
    /// Array to write: .npy if the name ends so, otherwise raw [default: IN without .syn, or stdout if IN is '-'].
    #[arg(short, long, value_name = "OUT", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// What becomes of several outputs and of the inputs.
    #[command(flatten)]
    pub files: Files,
    /// Print the summary as JSON on stdout.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
}

/// Arguments of `test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Streams to check, folders with such files, or '-' for stdin.
    #[arg(value_name = "IN", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Threads and memory.
    #[command(flatten)]
    pub limits: Limits,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Streams to list, folders with such files, or '-' for stdin.
    #[arg(value_name = "IN", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Stream to describe, or '-' for stdin.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
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
    /// Verify this region only, such as 0:10,5:20,: (missing axes are complete).
    ///
    /// The range to which PSNR and other metrics refer is that of the whole original.
    #[arg(long, value_name = "RANGES", allow_hyphen_values = true, help_heading = INPUT)]
    pub region: Option<RegionSpec>,
    /// A bound to check instead of the stream's.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Processor, threads, and memory.
    #[command(flatten)]
    pub resources: Resources,
}

/// A bound that an array is judged by.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
pub struct JudgeArgs {
    /// Require that the absolute error of every value is at most X.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true, help_heading = BOUND)]
    pub abs: Option<f64>,
    /// Require that the absolute error of every value is at most X times the value range of the original.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true, help_heading = BOUND)]
    pub rel: Option<f64>,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Original array: a raw or .npy file, or '-' for stdin.
    #[arg(value_name = "ORIGINAL")]
    pub original: PathBuf,
    /// Array to compare with it.
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,
    /// Element type of raw files [default: from the name of ORIGINAL].
    #[arg(long, value_name = "TYPE", value_parser = parse::element_type(), help_heading = INPUT)]
    pub dtype: Option<ElementType>,
    /// Extents of raw files, slowest axis first, such as 100x500x500.
    #[arg(long, visible_alias = "dims", value_name = "SHAPE", help_heading = INPUT)]
    pub shape: Option<Shape>,
    /// A bound to check.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Threads and memory.
    #[command(flatten)]
    pub limits: Limits,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Write the stream to this file. Otherwise nothing is written.
    #[arg(short, long, value_name = "OUT", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Replace an existing output file.
    #[arg(short, long, help_heading = OUTPUT)]
    pub force: bool,
    /// Print JSON.
    #[arg(long, help_heading = OUTPUT)]
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
    #[arg(long, value_name = "DEVICE", default_value = "auto", env = "SYNCLINE_DEVICE", hide_env = true,
        help_heading = DEVICE)]
    pub device: Backend,
    /// Threads and memory.
    #[command(flatten)]
    pub limits: Limits,
}

/// Threads and memory.
#[derive(Clone, Copy, Debug, Args)]
pub struct Limits {
    /// Number of threads [default: one per core].
    #[arg(short = 'T', long, value_name = "N", value_parser = parse_threads, allow_hyphen_values = true,
        default_value = "0", hide_default_value = true, env = "SYNCLINE_THREADS", hide_env = true,
        help_heading = DEVICE)]
    pub threads: usize,
    /// Limit of the memory to use, such as 512MiB or 1.5G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
        env = "SYNCLINE_MEMORY_LIMIT", hide_env = true, help_heading = DEVICE)]
    pub memory_limit: Option<u64>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use syncline::Bound;

    use super::parse::parse_size;
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
        assert_eq!(parse_size("1.5G"), Ok(3 << 29));
        for wrong in ["", "0", "-1", "1.5", "-1.5G", "G", "5X", "infG", "nanG", "1e3K", "0.0G", "99999999999T"] {
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
