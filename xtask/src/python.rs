//! `cargo xtask python`: builds the Python package, installs it into an environment of its own, and tests it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::environment::{self, Environment};

/// Folder of the package.
const PACKAGE: &str = "crates/syncline-python";

/// Tests of the HDF5 filter, which is the C library, and of the command on HDF5 files.
const HDF5_TESTS: [&str; 2] = ["crates/syncline-capi/tests/hdf5", "crates/syncline-cli/tests/hdf5"];

/// Arguments of `python`.
#[derive(Args)]
pub struct Arguments {
    /// The interpreter to test with, instead of python3.12, python3.11 or python3
    #[arg(long)]
    python: Option<String>,
    /// Where there is no interpreter or no package index, say so and succeed
    #[arg(long)]
    if_available: bool,
    /// Build an optimized wheel for this platform in target/wheels/release and stop; on Linux it is for manylinux_2_28
    /// (downloads maturin and Zig, the linker, with pip)
    #[arg(long)]
    wheel: bool,
    /// With --wheel on Linux: for musllinux_1_2, which needs the Rust target of musl
    #[arg(long, requires = "wheel")]
    musl: bool,
    /// Build the source distribution in target/wheels/sdist and stop (downloads maturin with pip)
    #[arg(long, conflicts_with = "wheel")]
    sdist: bool,
    /// Also run the tests of arrays in device memory, on a GPU emulated on the CPU
    #[arg(long)]
    emulate: bool,
    /// Also test the codec for the crate zarrs, alone and together with the Python package
    #[arg(long)]
    zarrs: bool,
    /// Also run the tests of numcodecs and Zarr themselves with Syncline in the place of their codecs (takes long;
    /// downloads the sources of Zarr)
    #[arg(long)]
    suites: bool,
    /// Arguments of pytest
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pytest: Vec<String>,
}

/// Runs the steps, each only if the one before succeeds.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.wheel || arguments.sdist {
        return build_for_release(arguments);
    }
    let environment = match prepare(arguments.python.as_deref()) {
        Ok(environment) => environment,
        Err(error) if arguments.if_available => {
            println!("skipped: tests of the Python package: {error:#}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let wheel = build(&environment, "dev", &["build", "--profile", "dev"])?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"];
    crate::run(Command::new(&environment.python).args(pip).arg(&wheel))?;
    build_workspace()?;
    let tests = crate::root().join(PACKAGE).join("tests");
    let configuration = crate::root().join(PACKAGE).join("pyproject.toml");
    let mut pytest = Command::new(&environment.python);
    pytest.args(["-m", "pytest", "--quiet", "--config-file"]).arg(configuration).arg(tests);
    pytest.args(HDF5_TESTS.map(|folder| crate::root().join(folder))).args(&arguments.pytest);
    pytest.env("HDF5_PLUGIN_PATH", hdf5_plugins()?).env("SYNCLINE_COMMAND", command());
    if arguments.zarrs {
        pytest.env("SYNCLINE_ZARRS_STORE", zarrs()?).env("SYNCLINE_COMMAND_WITH_ZARR", command_with_zarr()?);
    }
    crate::run(&mut pytest)?;
    if arguments.suites {
        let script = crate::root().join(PACKAGE).join("tests/suites/run.py");
        crate::run(Command::new(&environment.python).arg(script).arg(crate::root().join("target/suites")))?;
    }
    if !arguments.emulate {
        return Ok(());
    }
    let program = environment.python.display().to_string();
    let configuration = format!("{PACKAGE}/pyproject.toml");
    let names = ["test_device", "test_device_regions", "test_zarr_device"];
    let tests = names.map(|name| format!("{PACKAGE}/tests/{name}.py"));
    let words = [&program, "-m", "pytest", "--quiet", "--config-file", &configuration].map(str::to_owned);
    crate::emulate::run(&crate::emulate::Arguments::of_command([&words[..], &tests].concat()))
}

/// Creates the environment of the tests.
fn prepare(python: Option<&str>) -> Result<Environment> {
    let (python, version) = environment::find(python)?;
    Environment::prepare(&python, version, &requirements(version))
}

/// Returns the file with the requirements of a version of Python, or of a task.
fn requirements(name: &str) -> String {
    format!("{PACKAGE}/tests/requirements-{name}.txt")
}

/// Builds a wheel, or the source distribution, as it is released, and prints its path.
fn build_for_release(arguments: &Arguments) -> Result<()> {
    let (python, _) = environment::find(arguments.python.as_deref())?;
    let environment = Environment::prepare(&python, "wheel", &requirements("wheel"))?;
    let release = ["build", "--profile", "release"];
    let musl = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let (name, words) = if arguments.sdist {
        ("sdist", vec!["sdist"])
    } else if !cfg!(target_os = "linux") {
        ("release", release.to_vec())
    } else if arguments.musl {
        let target = ["--zig", "--compatibility", "musllinux_1_2", "--target", &musl];
        ("release", [&release[..], &target].concat())
    } else {
        ("release", [&release[..], &["--zig", "--compatibility", "manylinux_2_28"]].concat())
    };
    println!("{}", build(&environment, name, &words)?.display());
    Ok(())
}

/// Tests the crate for zarrs, and returns its example program.
fn zarrs() -> Result<PathBuf> {
    let target = crate::root().join("target/zarrs");
    let mut cargo = crate::cargo();
    cargo.args(["test", "--quiet", "--package", "syncline-zarrs", "--target-dir"]).arg(&target);
    // Builds the example, too.
    crate::run(cargo.current_dir(crate::root()))?;
    Ok(target.join("debug/examples").join(format!("store{}", std::env::consts::EXE_SUFFIX)))
}

/// Builds the C library and the command as `cargo test` does. A build of one crate alone has other features of some
/// dependencies, and would compile everything that depends on them again.
fn build_workspace() -> Result<()> {
    crate::run(crate::cargo().args(["test", "--quiet", "--no-run"]).current_dir(crate::root()))
}

/// Returns a folder that contains the C library alone, in which HDF5 finds it as a plugin.
fn hdf5_plugins() -> Result<PathBuf> {
    let folder = crate::root().join("target/hdf5-plugins");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let library = crate::root().join("target/debug/deps/libsyncline_c.so");
    fs::copy(&library, folder.join("libsyncline.so")).with_context(|| format!("cannot copy {}", library.display()))?;
    Ok(folder)
}

/// Returns the path of the command.
fn command() -> PathBuf {
    crate::root().join("target/debug").join(format!("syncline{}", std::env::consts::EXE_SUFFIX))
}

/// Builds the command with Zarr and returns its path.
fn command_with_zarr() -> Result<PathBuf> {
    let target = crate::root().join("target/zarrs");
    let mut cargo = crate::cargo();
    cargo.args(["build", "--package", "syncline-cli", "--features", "zarr", "--target-dir"]).arg(&target);
    crate::run(cargo.current_dir(crate::root()))?;
    Ok(target.join("debug").join(format!("syncline{}", std::env::consts::EXE_SUFFIX)))
}

/// Runs maturin with these words, in a cleared folder of `target/wheels`, and returns the path of what it built.
fn build(environment: &Environment, name: &str, words: &[&str]) -> Result<PathBuf> {
    let folder = crate::root().join("target/wheels").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    let manifest = Path::new(PACKAGE).join("Cargo.toml");
    let mut maturin = Command::new(&environment.python);
    maturin.args(["-m", "maturin"]).args(words).arg("--manifest-path").arg(manifest).arg("--out").arg(&folder);
    if words.first() == Some(&"build") {
        maturin.arg("--interpreter").arg(&environment.python);
    }
    // Zig is looked for in the Python that comes first in the search path.
    let mut search: Vec<PathBuf> = environment.python.parent().map(Path::to_path_buf).into_iter().collect();
    search.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    crate::run(maturin.env("PATH", std::env::join_paths(search)?))?;
    let mut files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(files.next().context("maturin built nothing")??.path())
}
