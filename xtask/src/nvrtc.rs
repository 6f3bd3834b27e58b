//! `cargo xtask nvrtc`: compiles kernel specializations with NVRTC, without a GPU or the CUDA toolkit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;

/// The version is pinned, so that the check does not depend on its date.
const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12==12.9.86";
/// Compute capabilities that Syncline supports, without their dots.
const ARCHITECTURES: [u32; 8] = [70, 75, 80, 86, 89, 90, 100, 120];
/// Compiler options of `--fast`.
const FAST: &str = "--Ofast-compile=mid";

/// Arguments of `nvrtc`.
#[derive(Args)]
pub struct Arguments {
    /// Compute capabilities without their dots, such as 75,80,90
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = ARCHITECTURES)]
    architectures: Vec<u32>,
    /// Compile one in N specializations for each architecture, different ones for each
    #[arg(long, value_name = "N", default_value_t = 1)]
    sample: usize,
    /// Optimize less: halves the time
    #[arg(long)]
    fast: bool,
    /// Succeed with a message if NVRTC cannot be downloaded
    #[arg(long)]
    if_available: bool,
}

/// Downloads NVRTC into `target/nvrtc` unless it is there, and runs the compile check with it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Some(library) = fetch_unless(arguments.if_available, "kernels are not compiled")? else { return Ok(()) };
    let check = || {
        let mut check = crate::cargo();
        // With `--package`, cargo would enable fewer features of common dependencies and build all of them again.
        check.args(["test", "--test", "compile"]);
        check
    };
    crate::run(check().arg("--no-run"))?;
    let compile = |architectures: Vec<String>| {
        let mut check = check();
        check.env("SYNCLINE_NVRTC", &library).env("SYNCLINE_REQUIRE_NVRTC", "1");
        check.env("SYNCLINE_NVRTC_ARCHITECTURES", architectures.join(","));
        check.env("SYNCLINE_NVRTC_SAMPLE", arguments.sample.to_string());
        if arguments.fast {
            check.env("SYNCLINE_NVRTC_OPTIONS", FAST);
        }
        crate::run(&mut check)
    };
    // One process for each processor: NVRTC compiles one kernel at a time in a process, with any number of threads.
    let processes = std::thread::available_parallelism().map_or(1, usize::from);
    let mut shares = vec![Vec::new(); processes.min(arguments.architectures.len())];
    let count = shares.len();
    for (number, architecture) in arguments.architectures.iter().enumerate() {
        shares[number % count].push(architecture.to_string());
    }
    std::thread::scope(|scope| {
        let compile = &compile;
        let all: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || compile(share))).collect();
        all.into_iter().try_for_each(|one| one.join().expect("a check does not panic"))
    })
}

/// Returns the folder of the downloaded library. If the download fails and is `optional`, prints that `left_out` and
/// returns `None`.
pub fn fetch_unless(optional: bool, left_out: &str) -> Result<Option<PathBuf>> {
    match fetch(&crate::root().join("target").join("nvrtc")) {
        Err(error) if optional => {
            println!("skipped: {left_out}: cannot download NVRTC ({error:#})");
            Ok(None)
        }
        library => library.map(Some),
    }
}

/// Returns the folder of the library, and downloads it unless it is there.
fn fetch(folder: &Path) -> Result<PathBuf> {
    // Each version has its own folder, so that a new pin takes effect.
    let folder = folder.join(PACKAGE.replace("==", "-"));
    let library = folder.join("nvidia").join("cuda_nvrtc").join(if cfg!(windows) { "bin" } else { "lib" });
    if library.is_dir() {
        return Ok(library);
    }
    crate::run(
        Command::new(if cfg!(windows) { "python" } else { "python3" })
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:"])
            .arg("--target")
            .arg(&folder)
            .arg(PACKAGE),
    )?;
    ensure!(library.is_dir(), "{PACKAGE} does not contain {}", library.display());
    Ok(library)
}
