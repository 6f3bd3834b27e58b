//! The command line. Every subcommand prints its measurements as CSV.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use syncline::{Backend, Effort, ElementType};

use syncline_bench::array::{Array, Selection, bytes_of_mebibytes};
use syncline_bench::clock::Clock;
use syncline_bench::codec::{self, Codec, Variant};
use syncline_bench::cpu::{self, Method};
use syncline_bench::gpu::Gpu;
use syncline_bench::nvcomp::Nvcomp;
use syncline_bench::papers;
use syncline_bench::record::Records;
use syncline_bench::regions;
use syncline_bench::stages;

/// Measurements of Syncline and of other codecs, as CSV
#[derive(Parser)]
#[command(name = "syncline-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ratio, error, and speed with error bounds, beside SZ3 and zfp on the CPU
    Lossy(Lossy),
    /// Ratio and speed without loss, beside pcodec, zstd, lz4, and Blosc2 on the CPU, and nvCOMP on a GPU
    Lossless(Lossless),
    /// Ratio and error with every effort, beside SZ3 and zfp
    Ratio(Ratio),
    /// Bytes that are read and values that are decoded for parts of arrays, beside zfp with a fixed rate
    Regions(Ratio),
    /// Time of each kernel on a GPU, or of the codec's loops on one core
    Stages(Stages),
    /// Published Huffman coders and LZSS beside Syncline's on a GPU
    Papers(Papers),
    /// Write an array to a raw little-endian file, and print its type and shape
    Generate(Generate),
}

/// Where arrays are, and what compresses them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// In the memory of the first GPU.
    DeviceMemory,
    /// In host memory.
    Host(Backend),
}

fn parse_place(text: &str) -> Result<Place, String> {
    match text {
        "gpu" => Ok(Place::DeviceMemory),
        _ => text.parse().map(Place::Host).map_err(|error: syncline::Error| error.to_string()),
    }
}

fn parse_bound(text: &str) -> Result<f64, String> {
    let bound: f64 = text.parse().map_err(|error| format!("{error}"))?;
    (bound > 0.0 && bound < 1.0).then_some(bound).ok_or_else(|| "a share of the range, between 0 and 1".to_owned())
}

fn parse_effort(text: &str) -> Result<Effort, String> {
    let found = [Effort::Balanced, Effort::Fast, Effort::Best].into_iter().find(|effort| effort.name() == text);
    found.ok_or_else(|| "fast, balanced or best".to_owned())
}

/// Arguments of what is timed.
#[derive(Args)]
struct Timing {
    /// Where arrays are: `gpu` (in the memory of the first one), or in host memory for `cpu`, `cuda:0`, `cuda:all`
    #[arg(long, value_delimiter = ',', default_value = "cpu", value_parser = parse_place)]
    device: Vec<Place>,
    /// Threads of the CPU; 0 stands for all. Other projects' codecs have one
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Runs to time in each direction
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Take the time that processors worked for the codec, instead of elapsed time (on the CPU)
    #[arg(long)]
    processor_time: bool,
    #[command(flatten)]
    others: Others,
}

/// Arguments that select codecs.
#[derive(Args)]
struct Others {
    /// Python 3 with numpy, pysz, zfpy, and blosc2
    #[arg(long, default_value = "python3")]
    python: String,
    /// Only codecs whose name contains one of these, such as syncline
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// Arguments of `lossy`.
#[derive(Args)]
struct Lossy {
    #[command(flatten)]
    arrays: Selection,
    /// Bounds relative to the range of values
    #[arg(long, value_delimiter = ',', default_value = "1e-3", value_parser = parse_bound)]
    rel: Vec<f64>,
    /// Efforts of Syncline
    #[arg(long, value_delimiter = ',', default_value = "balanced,fast,best", value_parser = parse_effort)]
    effort: Vec<Effort>,
    #[command(flatten)]
    timing: Timing,
}

/// Arguments of `lossless`.
#[derive(Args)]
struct Lossless {
    #[command(flatten)]
    arrays: Selection,
    /// Efforts of Syncline
    #[arg(long, value_delimiter = ',', default_value = "balanced,best", value_parser = parse_effort)]
    effort: Vec<Effort>,
    /// nvCOMP's library or its folder [default: where the loader finds it]
    #[arg(long, value_name = "PATH")]
    nvcomp: Option<PathBuf>,
    #[command(flatten)]
    timing: Timing,
}

/// Arguments of `ratio` and `regions`.
#[derive(Args)]
struct Ratio {
    #[command(flatten)]
    arrays: Selection,
    /// Bounds relative to the range of values
    #[arg(long, value_delimiter = ',', default_value = "1e-2,1e-3,1e-4,1e-5", value_parser = parse_bound)]
    rel: Vec<f64>,
    #[command(flatten)]
    others: Others,
}

/// Arguments of `stages`.
#[derive(Args)]
struct Stages {
    #[command(flatten)]
    arrays: Selection,
    /// Where to run: `gpu` or `cpu`
    #[arg(long, default_value = "gpu", value_parser = parse_place)]
    device: Place,
    /// Bound relative to the range of values, on a GPU
    #[arg(long, default_value = "1e-3", value_parser = parse_bound)]
    rel: f64,
    /// Efforts of Syncline, on a GPU: `fast` has the stages of tiles, and `balanced` those of blocks
    #[arg(long, value_delimiter = ',', default_value = "balanced,fast", value_parser = parse_effort)]
    effort: Vec<Effort>,
    /// Without loss instead of with a bound, on a GPU
    #[arg(long)]
    lossless: bool,
    /// Runs to time
    #[arg(long, default_value_t = 15)]
    runs: usize,
}

/// Arguments of `papers`.
#[derive(Args)]
struct Papers {
    #[command(flatten)]
    arrays: Selection,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "huffman,codebooks,lzss,before-huffman")]
    parts: Vec<Part>,
    /// Runs to time
    #[arg(long, default_value_t = 11)]
    runs: usize,
}

/// A group of published systems.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Huffman encoders and decoders, on arrays of bytes and codes
    Huffman,
    /// Building codebooks
    Codebooks,
    /// LZSS over chunk size, window and symbol width
    Lzss,
    /// Lossy compression with and without LZSS before Huffman coding, on arrays of `f32`; without a GPU on the CPU only
    BeforeHuffman,
}

/// Arguments of `generate`.
#[derive(Args)]
struct Generate {
    /// The array, as for --fields of the other commands
    name: String,
    /// Approximate maximum size in MiB, such as 0.04 [default: its own size]
    #[arg(long, value_parser = bytes_of_mebibytes)]
    mebibytes: Option<usize>,
    /// File to write [default: the name with its type, such as nyx.f32]
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// The fields that are measured by default: those of the papers, turbulence, and two of `f64`.
const FIELDS: [&str; 9] = ["nyx", "rtm", "hurricane", "cesm", "hacc", "qmcpack", "turbulence", "rtm-f64", "nyx-f64"];
/// The arrays that are measured without loss by default.
const LOSSLESS: [&str; 6] = ["tpch-int32", "tpch-string", "nyx-codes", "hurricane-codes", "rtm", "hacc"];
/// The arrays of the papers.
const PAPERS: [&str; 14] = [
    "nyx-codes",
    "rtm-codes",
    "hurricane-codes",
    "cesm-codes",
    "hacc-codes",
    "qmcpack-codes",
    "exaalt-codes",
    "gamess-codes",
    "text",
    "geometric-1.4",
    "never-flat",
    "tpch-int32",
    "tpch-string",
    "rtm",
];
/// The fields of the table with LZSS before Huffman coding.
const BEFORE_HUFFMAN: [&str; 4] = ["cesm", "hurricane", "nyx", "rtm"];

fn main() -> ExitCode {
    let mut records = Records::new(std::io::stdout());
    match run(Cli::parse().command, &mut records).and_then(|()| records.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, records: &mut Records) -> Result<()> {
    match command {
        Command::Lossy(arguments) => lossy(&arguments, records),
        Command::Lossless(arguments) => lossless(&arguments, records),
        Command::Ratio(arguments) => ratio(&arguments, records),
        Command::Regions(arguments) => regions(&arguments, records),
        Command::Stages(arguments) => stages(&arguments, records),
        Command::Papers(arguments) => papers(&arguments, records),
        Command::Generate(arguments) => generate(&arguments),
    }
}

impl Timing {
    fn method(&self) -> Method {
        let clock = if self.processor_time { Clock::Processor } else { Clock::Elapsed };
        Method { runs: self.runs, clock }
    }

    /// Opens the GPU if arrays are to be in its memory, before anything is generated, which may take minutes.
    fn gpu(&self) -> Result<Option<Gpu>> {
        ensure!(self.runs > 0, "--runs 0: give at least one");
        self.device.contains(&Place::DeviceMemory).then(|| Gpu::open(self.runs)).transpose()
    }

    /// Returns Syncline with these variants on all devices that work with host memory, and the rivals beside it.
    fn codecs(&self, variants: &[codec::Variant], rivals: impl FnOnce(&str) -> Found) -> Result<Vec<Codec>> {
        let mut codecs = Vec::new();
        for &place in &self.device {
            let Place::Host(backend) = place else { continue };
            let threads = if backend == Backend::Cpu { self.threads.as_slice() } else { &[0] };
            for variant in variants {
                codecs.extend(threads.iter().map(|&threads| codec::ours(variant, backend, threads)));
            }
        }
        let beside = self.device.contains(&Place::Host(Backend::Cpu));
        self.others.select(codecs, beside.then_some(rivals))
    }
}

/// Codecs, and a message for each that is missing.
type Found = (Vec<Codec>, Vec<String>);

impl Others {
    /// Returns whether the codec of this name was asked for.
    fn wants(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.only.is_empty() || self.only.iter().any(|part| name.contains(&part.to_lowercase()))
    }

    /// Keeps the variants of Syncline that were asked for.
    fn variants(&self, mut variants: Vec<Variant>) -> Vec<Variant> {
        variants.retain(|variant| self.wants(&format!("syncline {}", variant.name)));
        variants
    }

    /// Adds rivals, and keeps the codecs that were asked for.
    fn select(&self, mut codecs: Vec<Codec>, rivals: Option<impl FnOnce(&str) -> Found>) -> Result<Vec<Codec>> {
        if let Some(rivals) = rivals {
            let (found, missing) = rivals(&self.python);
            codecs.extend(found);
            missing.iter().filter(|line| self.wants(line)).for_each(|line| eprintln!("left out: {line}"));
        }
        let any = codecs.is_empty();
        codecs.retain(|codec| self.wants(&format!("{} {}", codec.name, codec.options)));
        ensure!(any || !codecs.is_empty(), "no codec is left to measure");
        Ok(codecs)
    }
}

fn lossy(arguments: &Lossy, records: &mut Records) -> Result<()> {
    let Lossy { arrays, rel, effort, timing } = arguments;
    let gpu = timing.gpu()?;
    let variants = codec::efforts(effort);
    let mut codecs = timing.codecs(&variants, codec::lossy_rivals)?;
    let on_gpu = timing.others.variants(codec::efforts(effort));
    arrays.visit(&FIELDS, |array| {
        for &relative in rel {
            for (gpu, variant) in gpu.iter().flat_map(|gpu| on_gpu.iter().map(move |variant| (gpu, variant))) {
                records.add_or_complain(gpu.measure("lossy", &array, variant, Some(relative)))?;
            }
            cpu::measure("lossy", &mut codecs, &array, Some(relative), timing.method(), records)?;
        }
        Ok(())
    })
}

fn lossless(arguments: &Lossless, records: &mut Records) -> Result<()> {
    let Lossless { arrays, effort, nvcomp, timing } = arguments;
    let gpu = timing.gpu()?;
    let nvcomp = if gpu.is_some() && timing.others.wants("nvCOMP") { Nvcomp::find(nvcomp.as_deref())? } else { None };
    let mut variants = codec::efforts(effort);
    variants.extend(codec::lossless_variants());
    let mut codecs = timing.codecs(&variants, codec::lossless_rivals)?;
    let on_gpu = timing.others.variants(variants);
    arrays.visit(&LOSSLESS, |array| {
        if let Some(gpu) = &gpu {
            for variant in &on_gpu {
                records.add_or_complain(gpu.measure("lossless", &array, variant, None))?;
            }
            if let Some(nvcomp) = &nvcomp {
                records.add_or_complain(gpu.measure_nvcomp("lossless", nvcomp, &array))?;
            }
        }
        cpu::measure("lossless", &mut codecs, &array, None, timing.method(), records)
    })
}

fn ratio(arguments: &Ratio, records: &mut Records) -> Result<()> {
    let variants = codec::ratio_variants();
    let ours = variants.iter().map(|variant| codec::ours(variant, Backend::Cpu, 0)).collect();
    let mut codecs = arguments.others.select(ours, Some(codec::lossy_rivals))?;
    let method = Method { runs: 1, clock: Clock::Elapsed };
    arguments.arrays.visit(&FIELDS, |array| {
        let mut measure = |&bound| cpu::measure("ratio", &mut codecs, &array, Some(bound), method, records);
        arguments.rel.iter().try_for_each(&mut measure)
    })
}

fn regions(arguments: &Ratio, records: &mut Records) -> Result<()> {
    let Ratio { arrays, rel, others } = arguments;
    let variants = others.variants(codec::efforts(&[Effort::Balanced, Effort::Fast, Effort::Best]));
    let mut rivals = match others.wants("zfp fixed rate") {
        true => others.select(Vec::new(), Some(codec::fixed_rate_rivals))?,
        false => Vec::new(),
    };
    ensure!(!variants.is_empty() || !rivals.is_empty(), "no codec is left to measure");
    arrays.visit(&FIELDS, |array| {
        for &relative in rel {
            for variant in &variants {
                records.add_or_complain(regions::ours(&array, variant, relative))?;
            }
            for codec in &mut rivals {
                match regions::zfp(&array, codec, relative) {
                    Ok(measured) => records.add_or_complain(Ok(measured))?,
                    Err(error) => eprintln!("left out: {error:#}"),
                }
            }
        }
        Ok(())
    })
}

fn stages(arguments: &Stages, records: &mut Records) -> Result<()> {
    let Stages { arrays, device, rel, effort, lossless, runs } = arguments;
    if *device == Place::Host(Backend::Cpu) {
        stages::tiles_on_cpu(*runs, records)?;
        return stages::huffman_on_cpu(*runs, records);
    }
    ensure!(*device == Place::DeviceMemory, "stages are measured with --device gpu or cpu");
    ensure!(!effort.contains(&Effort::Best), "best has the stages of balanced or fast, which a sample chooses");
    let gpu = Gpu::open(*runs)?;
    if *lossless {
        return arrays.visit(&FIELDS, |array| gpu.measure_lossless_stages(&array, records));
    }
    arrays.visit(&FIELDS, |array| effort.iter().try_for_each(|&one| gpu.measure_stages(&array, one, *rel, records)))
}

fn papers(arguments: &Papers, records: &mut Records) -> Result<()> {
    let Papers { arrays, parts, runs } = arguments;
    let gpu = match parts.iter().all(|&part| part == Part::BeforeHuffman) {
        true => Gpu::open(*runs).map_err(|error| eprintln!("on the CPU only: {error:#}")).ok(),
        false => Some(Gpu::open(*runs)?),
    };
    if parts.contains(&Part::BeforeHuffman) {
        arrays.visit(&BEFORE_HUFFMAN, |array| match array.element {
            ElementType::F32 => records.add_or_complain(papers::before_huffman(gpu.as_ref(), *runs, &array)),
            _ => Ok(()),
        })?;
    }
    let Some(gpu) = gpu else { return Ok(()) };
    if parts.contains(&Part::Codebooks) {
        records.add_or_complain(papers::codebooks(&gpu))?;
    }
    arrays.visit(&PAPERS, |array| {
        if parts.contains(&Part::Huffman) && papers::is_of_symbols(&array) {
            records.add_or_complain(papers::huffman(&gpu, &array))?;
        }
        if parts.contains(&Part::Lzss) {
            records.add_or_complain(papers::lzss(&gpu, &array))?;
        }
        Ok(())
    })
}

fn generate(arguments: &Generate) -> Result<()> {
    let Generate { name, mebibytes, output } = arguments;
    let array = Array::generate(name, *mebibytes);
    let array = array.with_context(|| format!("there is no array '{name}'; `lossy --help` lists them"))?;
    let path = output.clone().unwrap_or_else(|| format!("{name}.{}", array.element).into());
    fs::write(&path, &array.bytes).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}: {} {}", path.display(), array.element, array.shape_text());
    Ok(())
}
