//! `cargo xtask python`: builds the Python package, installs it into an environment of its own, and tests it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

/// Folder of the package.
const PACKAGE: &str = "crates/syncline-python";

/// Tests of the HDF5 filter, which is the C library, and of the command on HDF5 files.
const HDF5_TESTS: [&str; 2] = ["crates/syncline-capi/tests/hdf5", "crates/syncline-cli/tests/hdf5"];

/// The package of the linker that makes wheels run with the C library of older systems.
const ZIG: &str = "ziglang==0.17.1";

/// Interpreters that are tried, the newest first. Each has a file of pinned test requirements.
const VERSIONS: [&str; 2] = ["3.12", "3.11"];

/// Arguments of `python`.
#[derive(Args)]
pub struct Arguments {
    /// The interpreter to test with, instead of python3.12, python3.11 or python3
    #[arg(long)]
    python: Option<String>,
    /// Where there is no interpreter or no package index, say so and succeed
    #[arg(long)]
    if_available: bool,
    /// Build an optimized wheel for manylinux_2_28 in target/wheels and stop (downloads Zig, its linker, with pip)
    #[arg(long)]
    wheel: bool,
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
    let environment = match find(arguments.python.as_deref()).and_then(|(python, version)| prepare(&python, version)) {
        Ok(environment) => environment,
        Err(error) if arguments.if_available => {
            println!("skipped: tests of the Python package: {error:#}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if arguments.wheel {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ZIG];
        crate::run(Command::new(&environment.python).args(pip))?;
        let wheel = build(&environment, "release", &["--zig", "--compatibility", "manylinux_2_28"])?;
        println!("{}", wheel.display());
        return Ok(());
    }
    let wheel = build(&environment, "dev", &[])?;
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
    let tests = ["test_device", "test_zarr_device"].map(|name| format!("{PACKAGE}/tests/{name}.py"));
    let words = [&program, "-m", "pytest", "--quiet", "--config-file", &configuration, &tests[0], &tests[1]];
    crate::emulate::run(&crate::emulate::Arguments::of_command(words.map(str::to_owned).to_vec()))
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

/// A virtual environment with the packages that building and testing need.
struct Environment {
    folder: PathBuf,
    python: PathBuf,
}

/// Returns an interpreter and the version whose requirements it takes.
fn find(stated: Option<&str>) -> Result<(String, &'static str)> {
    let names: Vec<String> = match stated {
        Some(python) => vec![python.to_owned()],
        None => VERSIONS.iter().map(|version| format!("python{version}")).chain(["python3".to_owned()]).collect(),
    };
    for name in &names {
        let script = "import sys; print('%d.%d' % sys.version_info[:2])";
        let output = Command::new(name).args(["-c", script]).stderr(Stdio::null()).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else { continue };
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let number = |version: &str| version.split('.').filter_map(|part| part.parse().ok()).collect::<Vec<u32>>();
        if let Some(version) = VERSIONS.into_iter().find(|version| number(&found) >= number(version)) {
            return Ok((name.clone(), version));
        }
    }
    bail!("needs Python 3.11 or newer (tried {})", names.join(", "))
}

/// Creates the environment, unless it is there with the same requirements.
fn prepare(python: &str, version: &str) -> Result<Environment> {
    let folder = crate::root().join("target").join(format!("python-{version}"));
    let inside = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let environment = Environment { folder, python: inside };
    let requirements = crate::root().join(PACKAGE).join(format!("tests/requirements-{version}.txt"));
    let wanted =
        fs::read_to_string(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let installed = environment.folder.join("requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(environment);
    }
    crate::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment.folder))?;
    // Python compiles the modules that tests import; pip would compile all others as well.
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--requirement"];
    crate::run(Command::new(&environment.python).args(pip).arg(&requirements))?;
    fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))?;
    Ok(environment)
}

/// Builds a wheel and returns its path.
fn build(environment: &Environment, profile: &str, more: &[&str]) -> Result<PathBuf> {
    let folder = crate::root().join("target/wheels").join(profile);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    let manifest = Path::new(PACKAGE).join("Cargo.toml");
    let mut maturin = Command::new(&environment.python);
    maturin.args(["-m", "maturin", "build", "--profile", profile, "--manifest-path"]).arg(manifest);
    maturin.arg("--out").arg(&folder).arg("--interpreter").arg(&environment.python).args(more);
    // Zig is looked for in the Python that comes first in the search path.
    let mut search: Vec<PathBuf> = environment.python.parent().map(Path::to_path_buf).into_iter().collect();
    search.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    crate::run(maturin.env("PATH", std::env::join_paths(search)?))?;
    let mut wheels = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let wheel = wheels.next().context("maturin built no wheel")??.path();
    ensure!(wheel.extension().is_some_and(|extension| extension == "whl"), "{} is no wheel", wheel.display());
    Ok(wheel)
}
