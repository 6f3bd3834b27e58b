//! `cargo xtask nvrtc`: compiles every kernel specialization, on a machine that needs neither a GPU nor the CUDA
//! toolkit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;

/// Pinned: a check that depends on the day's newest compiler is no check.
const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12==12.9.86";
/// Options of `--fast`.
const FAST: &str = "--Ofast-compile=mid";

/// Arguments of `nvrtc`.
#[derive(Args)]
pub struct Arguments {
    /// Compute capabilities without their dots, such as 75,80,90 [default: all that Syncline supports]
    #[arg(long, value_name = "LIST")]
    architectures: Option<String>,
    /// Optimize little: whether kernels compile is told in about half of the time
    #[arg(long)]
    fast: bool,
    /// Where NVRTC cannot be fetched, say so and succeed
    #[arg(long)]
    if_available: bool,
}

/// Fetches NVRTC into `target/nvrtc` unless it is there, and runs the compile check with it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Some(library) = fetch_unless(arguments.if_available, "kernels are not compiled")? else { return Ok(()) };
    let compile = |architectures: Option<&str>| {
        let mut check = crate::cargo();
        // Not only of its package: others ask for more features of what both depend on, and all of it would be built
        // again without them.
        check.args(["test", "--workspace", "--test", "compile"]);
        check.env("SYNCLINE_NVRTC", &library).env("SYNCLINE_REQUIRE_NVRTC", "1");
        if let Some(architectures) = architectures {
            check.env("SYNCLINE_NVRTC_ARCHITECTURES", architectures);
        }
        if arguments.fast {
            check.env("SYNCLINE_NVRTC_OPTIONS", FAST);
        }
        crate::run(&mut check)
    };
    let Some(list) = &arguments.architectures else { return compile(None) };
    // A process each: NVRTC compiles one kernel at a time in a process, whatever its threads are.
    std::thread::scope(|scope| {
        let compile = &compile;
        let all: Vec<_> = list.split(',').map(|one| scope.spawn(move || compile(Some(one)))).collect();
        all.into_iter().try_for_each(|one| one.join().expect("a check does not panic"))
    })
}

/// Folder of the fetched library; `None`, having said what is left out, if it cannot be fetched and need not be.
pub fn fetch_unless(optional: bool, left_out: &str) -> Result<Option<PathBuf>> {
    match fetch(&crate::root().join("target").join("nvrtc")) {
        Err(error) if optional => {
            println!("skipped: {left_out}, as NVRTC cannot be fetched ({error:#})");
            Ok(None)
        }
        library => library.map(Some),
    }
}

/// Folder of the fetched library, fetched unless it is there.
fn fetch(folder: &Path) -> Result<PathBuf> {
    // A folder of its own for each version, so that a new pin is fetched.
    let folder = folder.join(PACKAGE.replace("==", "-"));
    let library = folder.join("nvidia").join("cuda_nvrtc").join(if cfg!(windows) { "bin" } else { "lib" });
    if library.is_dir() {
        return Ok(library);
    }
    crate::run(
        Command::new(if cfg!(windows) { "python" } else { "python3" })
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--only-binary=:all:",
            ])
            .arg("--target")
            .arg(&folder)
            .arg(PACKAGE),
    )?;
    ensure!(library.is_dir(), "{PACKAGE} did not bring {}", library.display());
    Ok(library)
}
