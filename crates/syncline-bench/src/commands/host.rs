//! `host`: compresses whole arrays from host memory or files with devices and decompresses them, to measure the effect
//! of copies and file access, and the gain from several devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use syncline::{
    Backend, Bound, CompressOptions, DecompressOptions, Effort, ElementType, Shape, StreamFile, compress_from,
};

use syncline_bench::lossy::{Set, Values};
use syncline_cuda::device::Pinned;
use syncline_cuda::{Device, HEADERS};

/// Arguments of `host`.
#[derive(Args)]
pub struct Arguments {
    /// Set to compress, of f32: the name of a field
    #[arg(long, default_value = "nyx")]
    set: String,
    /// Approximate size in GB to which the set is repeated along its slowest axis
    #[arg(long, default_value_t = 6.0)]
    gigabytes: f64,
    /// Devices to compare: cpu, cuda:0, cuda:all and so on; all must make the first one's stream
    #[arg(long, value_delimiter = ',', default_value = "cuda:0,cuda:all", value_parser = parse_device)]
    devices: Vec<Backend>,
    /// Bound relative to the range of values
    #[arg(long, default_value_t = 1e-3)]
    rel: f64,
    /// Number of timed runs in each direction
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Also measure with at most this many MiB of each GPU's memory for the array, as if the array were larger than
    /// that memory
    #[arg(long, value_name = "MiB")]
    device_memory: Option<u64>,
    /// The command-line program, to go from file to file through it, too
    #[arg(long, value_name = "PATH")]
    cli: Option<PathBuf>,
    /// Folder for its files, best in memory, such as /dev/shm
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    folder: PathBuf,
}

fn parse_device(text: &str) -> std::result::Result<Backend, String> {
    text.parse().map_err(|error: syncline::Error| error.to_string())
}

/// An array in host memory.
struct Array {
    bytes: Vec<u8>,
    shape: Shape,
}

/// Measures and prints a line for each device and direction.
///
/// # Errors
/// An unknown set, a missing device, or streams or arrays that differ.
pub fn run(arguments: &Arguments) -> Result<()> {
    let array = repeated(&arguments.set, arguments.gigabytes)?;
    println!(
        "{} {}, {:.2} GB, relative {:e}",
        arguments.set,
        array.shape,
        array.bytes.len() as f64 / 1e9,
        arguments.rel
    );
    if arguments.devices.iter().any(|&device| device != Backend::Cpu) {
        copies()?;
    }
    let mut first = None;
    for &device in &arguments.devices {
        let options = CompressOptions::new(Bound::Rel(arguments.rel)).with_effort(Effort::Fast).with_backend(device);
        in_memory(arguments, &array, &options, &mut first)?;
        if let Some(mebibytes) = arguments.device_memory {
            in_memory(arguments, &array, &options.with_device_memory_limit(mebibytes << 20), &mut first)?;
        }
    }
    match (&arguments.cli, &first) {
        (Some(program), Some(expected)) => through_files(arguments, program, &array, expected),
        _ => Ok(()),
    }
}

/// Prints the throughput of copies between page-locked memory and the first device, an upper limit of what is measured
/// here.
fn copies() -> Result<()> {
    const BYTES: usize = 64 << 20;
    const COPIES: usize = 32;
    let device = Device::open(0, &HEADERS)?;
    let stream = device.context().new_stream()?;
    let mut memory = stream.alloc_zeros::<u8>(BYTES)?;
    let mut buffer = Pinned::<u8>::new(&stream, BYTES)?;
    let mut rate = |to_device: bool| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..COPIES {
            match to_device {
                true => buffer.send(BYTES, &mut memory)?,
                false => buffer.read(&memory)?,
            }
        }
        buffer.wait()?;
        Ok((BYTES * COPIES) as f64 / start.elapsed().as_secs_f64() / 1e9)
    };
    // The first copy in each direction is a warm-up.
    let rates = [rate(true)?, rate(true)?, rate(false)?, rate(false)?];
    println!("page-locked memory, {BYTES} bytes a copy: to the device {:.1} GB/s, back {:.1} GB/s", rates[1], rates[3]);
    Ok(())
}

/// Returns a set repeated along its slowest axis.
fn repeated(name: &str, gigabytes: f64) -> Result<Array> {
    let set = Set::generate(name, None)?;
    let Values::F32(values) = &set.values else { bail!("{name} is not of f32") };
    let one: &[u8] = bytemuck::cast_slice(values);
    let copies = ((gigabytes * 1e9 / one.len() as f64).round() as usize).max(1);
    let mut extents = set.extents.clone();
    match extents.first_mut() {
        Some(slowest) => *slowest *= copies as u64,
        None => bail!("{name} has no axis"),
    }
    Ok(Array { bytes: one.repeat(copies), shape: Shape::new(&extents)? })
}

/// Compresses and decompresses between buffers in host memory. The stream must equal `first`, which is set if it is
/// empty.
fn in_memory(
    arguments: &Arguments,
    array: &Array,
    options: &CompressOptions,
    first: &mut Option<Vec<u8>>,
) -> Result<()> {
    let device = options.backend();
    let mut stream = Vec::with_capacity(array.bytes.len() / 4);
    let mut compress = Vec::new();
    let mut where_done = String::new();
    for run in 0..=arguments.runs.max(1) {
        stream.clear();
        let start = Instant::now();
        let summary = compress_from(&array.bytes[..], 0, ElementType::F32, array.shape, options, &mut stream)
            .with_context(|| format!("compressing on {device}"))?;
        // The first run opens the device and compiles kernels, so it is not counted.
        compress.extend((run > 0).then(|| start.elapsed().as_secs_f64()));
        where_done = summary.execution.to_string();
    }
    let expected = first.get_or_insert_with(|| stream.clone());
    ensure!(&stream == expected, "the stream of {device} differs from the first device's");

    let decode = DecompressOptions::default().with_backend(device);
    let file = StreamFile::open(&stream[..])?;
    let mut back = vec![0xA5; array.bytes.len()];
    let mut decompress = Vec::new();
    for run in 0..=arguments.runs.max(1) {
        let start = Instant::now();
        file.decompress_into(&mut back, &decode).with_context(|| format!("decompressing on {device}"))?;
        decompress.extend((run > 0).then(|| start.elapsed().as_secs_f64()));
    }
    // Each element must be within the bound, and the arrays of all devices must be equal. Both follow from equality
    // with the array that the CPU decompresses.
    let cpu = file.decompress_region(&sample(array.shape), &DecompressOptions::default().with_backend(Backend::Cpu))?;
    let part = cpu.bytes();
    ensure!(back[back.len() - part.len()..] == *part, "what {device} makes of the stream is not what the CPU does");
    let limited =
        options.device_memory_limit().map_or(String::new(), |bytes| format!(", {} MiB of memory", bytes >> 20));
    println!(
        "{device}{limited}, memory to memory: compress {}, decompress {}; ratio {:.2}; {where_done}",
        rate(array, &compress),
        rate(array, &decompress),
        array.bytes.len() as f64 / stream.len() as f64,
    );
    Ok(())
}

/// Returns the region of the last planes of an array.
fn sample(shape: Shape) -> Vec<std::ops::Range<u64>> {
    let extents = shape.extents();
    extents
        .iter()
        .enumerate()
        .map(|(axis, &extent)| if axis == 0 { extent - extent.min(64)..extent } else { 0..extent })
        .collect()
}

/// Compresses and decompresses from file to file with the command-line program, including its start and end.
fn through_files(arguments: &Arguments, program: &Path, array: &Array, expected: &[u8]) -> Result<()> {
    let file = |name: &str| arguments.folder.join(format!("syncline-bench-host-{}.{name}", std::process::id()));
    let (input, stream, back) = (file("f32"), file("syn"), file("back.f32"));
    let work = || -> Result<()> {
        let start = Instant::now();
        fs::write(&input, &array.bytes).with_context(|| format!("writing {}", input.display()))?;
        let written = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let read = fs::read(&input)?;
        println!(
            "files in {}: one thread writes {}, reads {}",
            arguments.folder.display(),
            rate(array, &[written]),
            rate(array, &[start.elapsed().as_secs_f64()])
        );
        drop(read);
        let mut reference: Option<Vec<u8>> = None;
        for &device in &arguments.devices {
            let device_name = device.to_string();
            let (shape, rel) = (array.shape.to_string(), arguments.rel.to_string());
            let mut compress = Vec::new();
            let mut decompress = Vec::new();
            for _ in 0..arguments.runs.max(1) {
                compress.push(timed(
                    Command::new(program)
                        .args(["compress", "--quiet", "--force", "--dtype", "f32", "--shape", &shape, "--rel", &rel])
                        .args(["--device", &device_name, "-o"])
                        .args([&stream, &input]),
                )?);
                decompress.push(timed(
                    Command::new(program)
                        .args(["decompress", "--quiet", "--force", "--device", &device_name, "-o"])
                        .args([&back, &stream]),
                )?);
            }
            ensure!(fs::read(&stream)? == expected, "the stream that {device} writes differs");
            let made = fs::read(&back)?;
            ensure!(reference.get_or_insert_with(|| made.clone()) == &made, "the array that {device} writes differs");
            let (compress, decompress) = (rate(array, &compress), rate(array, &decompress));
            println!("{device}, command line, file to file: compress {compress}, decompress {decompress}");
        }
        Ok(())
    };
    let done = work();
    for path in [&input, &stream, &back] {
        // Removes the files that were written.
        let _ = fs::remove_file(path);
    }
    done
}

fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.status().context("starting the command-line program")?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(start.elapsed().as_secs_f64())
}

/// Returns the median and the extremes as text, in GB/s of elements.
fn rate(array: &Array, seconds: &[f64]) -> String {
    let mut rates: Vec<f64> = seconds.iter().map(|seconds| array.bytes.len() as f64 / seconds / 1e9).collect();
    rates.sort_by(f64::total_cmp);
    match (rates.first(), rates.get(rates.len() / 2), rates.last()) {
        (Some(slowest), Some(median), Some(fastest)) => format!("{median:.1} GB/s ({slowest:.1}-{fastest:.1})"),
        _ => "-".into(),
    }
}
