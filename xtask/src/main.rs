//! Tasks of the repository; `cargo xtask --help` lists them.

mod bundle;
mod check;
mod data;
mod emulate;
mod environment;
mod fuzz;
mod install;
mod nightly;
mod nvrtc;
mod programs;
mod python;
mod site;
mod tables;
mod targets;
mod third_party;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

/// Tasks of the repository
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check format, lints, dependencies, documentation and tests
    Check(check::Arguments),
    /// Download the real data sets into data/ (needs Debian and Python 3.11; about 0.7 GB)
    Data(data::Arguments),
    /// Compile CUDA kernels without a GPU (downloads NVRTC with pip)
    Nvrtc(nvrtc::Arguments),
    /// Run the device tests, or a command, on GPUs emulated on the CPU (downloads NVRTC with pip)
    Emulate(emulate::Arguments),
    /// Build the Python package and test it (downloads packages with pip)
    Python(python::Arguments),
    /// Build the C library and install it with its header, and files for pkg-config and CMake
    InstallC(install::Arguments),
    /// Build the documentation site in target/site (downloads MkDocs with pip)
    Site(site::Arguments),
    /// Write THIRD-PARTY.md, the licenses of what is linked into the Python package and the C library
    ThirdParty(third_party::Arguments),
    /// Run the fuzz targets with random inputs, on stable Rust
    Fuzz(fuzz::Arguments),
    /// Run what takes too long for continuous integration (downloads with pip)
    Nightly(nightly::Arguments),
    /// Pack the device tests and benches for a GPU machine without Rust
    Bundle,
    /// Compile for other platforms, and test what QEMU runs
    Targets(targets::Arguments),
    /// Write the tables of documents from the records in bench/records
    Tables(tables::Arguments),
}

fn main() -> ExitCode {
    match perform(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<()> {
    match task {
        Task::Check(arguments) => check::run(&arguments),
        Task::Data(arguments) => data::run(&arguments),
        Task::Nvrtc(arguments) => nvrtc::run(&arguments),
        Task::Emulate(arguments) => emulate::run(&arguments),
        Task::Python(arguments) => python::run(&arguments),
        Task::InstallC(arguments) => install::run(&arguments),
        Task::Site(arguments) => site::run(&arguments),
        Task::ThirdParty(arguments) => third_party::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Nightly(arguments) => nightly::run(&arguments),
        Task::Bundle => bundle::run(),
        Task::Targets(arguments) => targets::run(&arguments),
        Task::Tables(arguments) => tables::run(&arguments),
    }
}

/// Returns the root folder of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Returns a command for the cargo that runs this program.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns what cargo says of all packages, and of how they depend on each other.
fn metadata(arguments: &[&str]) -> Result<serde_json::Value> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked"]).args(arguments);
    let output = cargo.current_dir(root()).stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed");
    serde_json::from_slice(&output.stdout).context("cannot parse what cargo metadata prints")
}

/// Prints a command and runs it, in the root folder of the repository unless it has another.
fn run(command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let line = words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
    eprintln!("> {line}");
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    let status = command.status().with_context(|| format!("cannot start: {line}"))?;
    ensure!(status.success(), "failed ({status}): {line}");
    Ok(())
}
