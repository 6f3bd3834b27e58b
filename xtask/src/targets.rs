//! `cargo xtask targets`: other platforms, as far as this machine reaches them.
//!
//! Everything is compiled for each target, and a warning is an error. aarch64 Linux, and targets that are named, are
//! also tested where QEMU runs them: golden streams, round trips, and the command, whose streams must equal those of
//! this machine byte for byte.

use std::env::consts::{ARCH, EXE_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// Targets for which everything is compiled. The first one is also tested.
const TARGETS: [&str; 4] =
    ["aarch64-unknown-linux-gnu", "s390x-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

/// What is compiled; other crates come with these.
const PACKAGES: [&str; 4] = ["syncline-cli", "syncline-capi", "syncline-hdf5", "syncline-python"];

/// Tests that QEMU runs, by how their names begin: golden streams and round trips.
const TESTS: [&str; 9] = [
    "golden_streams",
    "every_stream_in_the_folder",
    "this_version_still_writes",
    "every_integer_type",
    "half_floats",
    "thread_counts",
    "fill_values_are_kept",
    "psnr",
    "the_finest_pointwise",
];

/// Arguments of `targets`.
#[derive(Args)]
pub struct Arguments {
    /// This target alone, which is also tested if QEMU runs it [default: tests aarch64 Linux, and compiles for s390x
    /// Linux, arm64 macOS, and x86-64 Windows]
    #[arg(long)]
    target: Vec<String>,
    /// A compiler with its standard library in source, which is built for targets that are not installed (the first
    /// time, cargo fetches what it depends on): on Debian, /usr/bin/rustc of the packages rustc-web and rust-web-src
    #[arg(long)]
    rustc: Option<PathBuf>,
}

/// Checks each target, and tests those that QEMU runs. What is missing on this machine is said.
///
/// # Errors
/// Something does not compile without a warning, a test fails, or streams differ.
pub fn run(arguments: &Arguments) -> Result<()> {
    let compiler = Compiler::new(arguments.rustc.as_deref())?;
    let targets =
        if arguments.target.is_empty() { TARGETS.map(str::to_owned).to_vec() } else { arguments.target.clone() };
    let mut report = Vec::new();
    for target in &targets {
        let Some(standard_library) = compiler.standard_library(target) else {
            let sources = "`--rustc` with a compiler that has its sources";
            report.push(format!("{target}: skipped: needs `rustup target add {target}`, or {sources}"));
            continue;
        };
        let build = Build { compiler: &compiler, target, standard_library };
        let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
        crate::run(build.cargo("check").args(packages))?;
        let emulated = match arguments.target.is_empty() && *target != TARGETS[0] {
            true => Err("name it with --target to test it".to_owned()),
            false => Emulated::of(target),
        };
        report.push(match emulated {
            Err(reason) => format!("{target}: compiles without a warning; not tested: {reason}"),
            Ok(emulated) => {
                test(&build, &emulated)?;
                let streams = compare_streams(&build, &emulated)?;
                format!("{target}: compiles without a warning; tests pass; {streams} streams equal those of {ARCH}")
            }
        });
    }
    println!("{}", report.join("\n"));
    Ok(())
}

/// A compiler and its root folder.
struct Compiler {
    program: PathBuf,
    root: PathBuf,
}

/// Where the standard library of a target comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StandardLibrary {
    Installed,
    /// An unstable feature of cargo, which a variable allows in a stable one.
    Built,
}

impl Compiler {
    fn new(stated: Option<&Path>) -> Result<Self> {
        let program = stated.map_or_else(|| PathBuf::from("rustc"), Path::to_path_buf);
        let mut rustc = Command::new(&program);
        let output = rustc.args(["--print", "sysroot"]).output().context("cannot start rustc")?;
        ensure!(output.status.success(), "rustc does not name its root folder");
        let root = String::from_utf8(output.stdout).context("the root folder of rustc is no text")?;
        Ok(Self { program, root: PathBuf::from(root.trim()) })
    }

    fn standard_library(&self, target: &str) -> Option<StandardLibrary> {
        let libraries = self.root.join("lib/rustlib");
        if libraries.join(target).join("lib").exists() {
            return Some(StandardLibrary::Installed);
        }
        libraries.join("src/rust/library/Cargo.lock").exists().then_some(StandardLibrary::Built)
    }
}

/// How everything is built for a target.
struct Build<'a> {
    compiler: &'a Compiler,
    target: &'a str,
    standard_library: StandardLibrary,
}

impl Build<'_> {
    /// Returns the folder of what is built.
    fn folder() -> PathBuf {
        crate::root().join("target/targets")
    }

    fn cargo(&self, task: &str) -> Command {
        let mut cargo = crate::cargo();
        cargo.arg(task).args(["--target", self.target, "--target-dir"]).arg(Self::folder());
        if self.standard_library == StandardLibrary::Built {
            cargo.arg("-Zbuild-std").env("RUSTC_BOOTSTRAP", "1");
        }
        // The same flags for every step, so that nothing is compiled twice. Python's library is not linked.
        cargo.env("RUSTC", &self.compiler.program).env("RUSTFLAGS", "-Dwarnings").env("PYO3_NO_PYTHON", "1");
        cargo
    }
}

/// What links and runs programs of a Linux with another processor.
struct Emulated {
    linker: String,
    emulator: String,
    libraries: String,
}

impl Emulated {
    /// Finds what a target takes, or says what is missing.
    fn of(target: &str) -> Result<Self, String> {
        let Some(processor) = target.strip_suffix("-unknown-linux-gnu") else {
            return Err("only programs of Linux run here".to_owned());
        };
        let (linker, libraries) = (format!("{processor}-linux-gnu-gcc"), format!("/usr/{processor}-linux-gnu"));
        let names = [format!("qemu-{processor}-static"), format!("qemu-{processor}")];
        let starts = |program: &str| {
            let mut command = Command::new(program);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let emulator = names.iter().find(|name| starts(name)).ok_or_else(|| format!("needs {}", names[0]))?;
        if !starts(&linker) {
            return Err(format!("needs {linker}"));
        }
        Ok(Self { emulator: emulator.clone(), linker, libraries })
    }

    /// Tells cargo how to link and run programs of the target.
    fn configure(&self, cargo: &mut Command, target: &str) {
        let variable = |name: &str| format!("CARGO_TARGET_{}_{name}", target.to_uppercase().replace('-', "_"));
        cargo.env(variable("LINKER"), &self.linker);
        cargo.env(variable("RUNNER"), format!("{} -L {}", self.emulator, self.libraries));
    }

    fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.emulator);
        command.args(["-L", &self.libraries]).arg(program);
        command
    }
}

/// Runs [`TESTS`].
fn test(build: &Build, emulated: &Emulated) -> Result<()> {
    let mut cargo = build.cargo("test");
    emulated.configure(&mut cargo, build.target);
    let tests = ["--package", "syncline", "--test", "golden", "--test", "roundtrip", "--"];
    crate::run(cargo.args(tests).args(TESTS))
}

/// Compresses the same arrays with the command of this machine and that of the target, decompresses what they wrote,
/// and returns the number of streams.
fn compare_streams(build: &Build, emulated: &Emulated) -> Result<usize> {
    let mut cargo = build.cargo("build");
    emulated.configure(&mut cargo, build.target);
    crate::run(cargo.args(["--package", "syncline-cli"]))?;
    crate::run(crate::cargo().args(["build", "--package", "syncline-cli"]))?;
    let here = crate::root().join("target/debug").join(format!("syncline{EXE_SUFFIX}"));
    let there = Build::folder().join(build.target).join("debug/syncline");
    let folder = Build::folder().join("streams");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let cases = cases(&folder)?;
    for words in &cases {
        let [stream, back] = ["x.syn", "x.raw"].map(|name| folder.join(name));
        let result = |words: &[String], made: &Path| -> Result<[Vec<u8>; 2]> {
            let [ours, theirs] = [Command::new(&here), emulated.run(&there)].map(|mut command| {
                command.args(words).args(["--quiet", "--force", "--threads", "2", "--output"]).arg(made);
                // Not `crate::run`, which would print hundreds of lines.
                ensure!(command.status().context("cannot start the command")?.success(), "failed: {command:?}");
                fs::read(made).with_context(|| format!("cannot read {}", made.display()))
            });
            Ok([ours?, theirs?])
        };
        let [ours, theirs] = result(words, &stream)?;
        ensure!(ours == theirs, "the stream differs on {}: {}", build.target, words.join(" "));
        let [ours, theirs] = result(&["decompress".to_owned(), stream.display().to_string()], &back)?;
        ensure!(ours == theirs, "the array differs on {}: {}", build.target, words.join(" "));
    }
    Ok(cases.len())
}

/// Returns the arguments of the command for each stream that is compared: a part of the field in `testdata`, in several
/// types and shapes, with each kind of bound and each effort.
fn cases(folder: &Path) -> Result<Vec<Vec<String>>> {
    const ELEMENTS: usize = 100 * 720;
    const EFFORTS: [&str; 3] = ["fast", "balanced", "best"];
    let field = crate::root().join("testdata/egm96_361x720.f32");
    let bytes = fs::read(&field).with_context(|| format!("cannot read {}", field.display()))?;
    let values: Vec<f32> = bytes.as_chunks().0[..ELEMENTS].iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let arrays = [
        ("f32", values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>()),
        ("f64", values.iter().flat_map(|value| (f64::from(*value) / 3.0).to_le_bytes()).collect()),
        ("u16", values.iter().flat_map(|value| ((value * 100.0 + 12_000.0) as u16).to_le_bytes()).collect()),
    ];
    let bounds = ["--abs=0.01", "--rel=1e-3", "--pw-rel=1e-2", "--psnr=70", "--lossless"];
    let mut cases = Vec::new();
    for (element_type, bytes) in arrays {
        let file = folder.join(format!("x.{element_type}"));
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        for shape in ["72000", "100x720", "20x60x60"] {
            for (bound, effort) in bounds.iter().flat_map(|bound| EFFORTS.map(|effort| (*bound, effort))) {
                // Integers have no such bound, and with a bound the effort `best` is `balanced`.
                let has_none = element_type == "u16" && bound.starts_with("--pw-rel");
                if has_none || (effort == "best" && bound != "--lossless") {
                    continue;
                }
                let words = ["compress", "--device=cpu", bound, "--effort", effort, "--shape", shape];
                let mut words = words.map(str::to_owned).to_vec();
                words.push(file.display().to_string());
                cases.push(words);
            }
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_only_linux_targets_are_run() {
        assert!(Emulated::of("aarch64-apple-darwin").is_err_and(|reason| reason.contains("Linux")));
        let missing = Emulated::of("nosuchprocessor-unknown-linux-gnu").err();
        assert_eq!(missing.as_deref(), Some("needs qemu-nosuchprocessor-static"));
    }
}
