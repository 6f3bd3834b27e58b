//! `cargo xtask emulate`: runs the device tests, or any command, on GPUs that are emulated on the CPU
//! (`crates/cuda-emulator`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::programs::{self, Program};

/// The tests of `syncline-cuda` and `syncline-papers` that need no device.
const NO_DEVICE: [&str; 2] = ["compile", "common"];

/// Arguments of `emulate`.
#[derive(Args)]
pub struct Arguments {
    /// Compute capability of the GPUs without its dot: 70, 75, 80, 86, 89, 90, 100 or 120
    #[arg(long, default_value_t = 90)]
    architecture: u32,
    /// Number of GPUs
    #[arg(long, default_value_t = 2)]
    devices: u32,
    /// Succeed with a message if NVRTC cannot be downloaded
    #[arg(long)]
    if_available: bool,
    /// Command to run instead of the device tests, such as `cargo run --release --bin syncline -- demo --device cuda`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Arguments {
    /// The arguments for a command on one emulated GPU, which is skipped if NVRTC cannot be downloaded.
    pub fn of_command(command: Vec<String>) -> Self {
        Self { architecture: 90, devices: 1, if_available: true, command }
    }
}

/// Builds the emulator, downloads the compiler, and runs the tests or the command with both.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Some(folder) = crate::nvrtc::fetch_unless(arguments.if_available, "device tests are not run")? else {
        return Ok(());
    };
    let compiler = library_in(&folder)?;
    let driver = build()?;
    let emulated = |command: &mut Command| {
        let folder = driver.parent().context("a library lies in a folder")?;
        let mut search = vec![folder.to_path_buf()];
        search.extend(std::env::var_os(SEARCH_PATH).iter().flat_map(std::env::split_paths));
        command
            .env(SEARCH_PATH, std::env::join_paths(search)?)
            .env("SYNCLINE_NVRTC", &driver)
            .env("CUDA_EMULATOR_NVRTC", &compiler)
            .env("CUDA_EMULATOR_ARCHITECTURE", arguments.architecture.to_string())
            .env("CUDA_EMULATOR_DEVICES", arguments.devices.to_string())
            // Code compiled for the emulator does not run on a real GPU, and vice versa.
            .env("SYNCLINE_CACHE_DIR", folder.join("kernels"))
            .env("SYNCLINE_REQUIRE_CUDA", "1");
        if std::env::var_os("SYNCLINE_TEST_SIZE").is_none() {
            command.env("SYNCLINE_TEST_SIZE", "tiny");
        }
        crate::run(command)
    };
    if let Some((program, rest)) = arguments.command.split_first() {
        return emulated(Command::new(program).args(rest));
    }
    // All default members: with `--package`, cargo would enable fewer features of common dependencies and build all of
    // them again.
    for Program { folder, kind, name, path } in programs::build(&["test", "--no-run"], &[])? {
        let package = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Tests that the caller chose are few and short.
        let filter = match (package, kind.as_str(), name.as_str()) {
            ("syncline-cuda" | "syncline-papers", "test", name) if !NO_DEVICE.contains(&name) => "",
            ("syncline", "lib", _) => "gpu",
            ("syncline", "test", "outliers" | "small_gpu_arrays") => "",
            ("syncline-cli", "test", "cli") => "device::",
            _ => continue,
        };
        emulated(Command::new(path).arg(filter).current_dir(folder))?;
    }
    Ok(())
}

/// Environment variable with the folders that the loader searches first.
const SEARCH_PATH: &str = if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };

/// Builds the emulator, and copies it under the driver's name to a separate folder. In a folder that cargo searches,
/// every program would load it as the driver.
fn build() -> Result<PathBuf> {
    // Always optimized and without overflow checks, because the tests spend their time in the interpreter.
    crate::run(crate::cargo().args(["build", "--release", "--package", "cuda-emulator"]))?;
    let target = crate::root().join("target");
    let folder = target.join("emulator");
    std::fs::create_dir_all(&folder)?;
    let driver = folder.join(format!("{}cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    let built = format!("{}cuda_emulator{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = target.join("release").join(built);
    // In place of the old one at once: programs of another task may have loaded it.
    let copy = folder.join(format!("{}.new", std::process::id()));
    std::fs::copy(&built, &copy).with_context(|| format!("copying {}", built.display()))?;
    std::fs::rename(&copy, &driver).with_context(|| format!("replacing {}", driver.display()))?;
    Ok(driver)
}

/// Returns the library of NVRTC, in a folder that also has its library of built-in functions.
fn library_in(folder: &Path) -> Result<PathBuf> {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        ["libnvrtc.so", "nvrtc64_"].iter().any(|start| name.starts_with(start)) && !name.contains("alt")
    };
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(is_library).with_context(|| format!("no NVRTC in {}", folder.display()))
}
