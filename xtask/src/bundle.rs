//! `cargo xtask bundle`: packs the device tests and the bench as programs, for a GPU machine without Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs::{self, Program};

/// Largest size of the packed bundle in bytes: it has to travel.
const MAX_BYTES: u64 = 60 << 20;

/// The bundle's script.
const RUN: &str = include_str!("../bundle/run.sh");

/// Test programs that need NVRTC and no device: `cargo xtask nvrtc` runs them.
const WITHOUT_DEVICE: [&str; 1] = ["compile"];

/// The cargo command, the package, its targets to pack, and the folder in the bundle. Of the library, only its unit
/// tests use devices.
const PROGRAMS: [(&[&str], &str, &str, &str); 4] = [
    (&["test", "--no-run"], "syncline-cuda", "--tests", "tests"),
    (&["test", "--no-run"], "syncline-papers", "--tests", "tests"),
    (&["test", "--no-run"], "syncline", "--lib", "tests"),
    (&["build"], "syncline-bench", "--bins", "bench"),
];

/// Builds `target/bundle` with `tests/`, `bench/` (optimized, stripped) and `run.sh`, and packs it into
/// `target/bundle.tar.gz`.
pub fn run() -> Result<()> {
    let target = crate::root().join("target");
    let bundle = target.join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle).with_context(|| format!("cannot clear {}", bundle.display()))?;
    }
    for (command, package, flag, folder) in PROGRAMS {
        let folder = bundle.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, program) in build(command, package, flag)? {
            fs::copy(&program, folder.join(name)).with_context(|| format!("cannot copy {}", program.display()))?;
        }
    }
    let script = bundle.join("run.sh");
    fs::write(&script, RUN).with_context(|| format!("cannot write {}", script.display()))?;
    make_executable(&script)?;
    let packed = target.join("bundle.tar.gz");
    crate::run(Command::new("tar").arg("-czf").arg(&packed).arg("-C").arg(&target).arg("bundle"))?;
    let bytes = fs::metadata(&packed).with_context(|| format!("cannot read {}", packed.display()))?.len();
    ensure!(bytes <= MAX_BYTES, "{} has {bytes} bytes; the limit is {MAX_BYTES}", packed.display());
    println!("{}: {:.1} MiB", packed.display(), bytes as f64 / f64::from(1 << 20));
    Ok(())
}

/// Builds the programs of a package, and returns their names and paths.
fn build(command: &[&str], package: &str, flag: &str) -> Result<Vec<(String, PathBuf)>> {
    let small = ["--config", "profile.release.strip=true"];
    let arguments = [&["--release", "--package", package, flag][..], &small].concat();
    let kinds: &[&str] = if flag == "--bins" { &["bin"] } else { &["test", "lib"] };
    let wanted =
        |program: &Program| kinds.contains(&program.kind.as_str()) && !WITHOUT_DEVICE.contains(&program.name.as_str());
    let programs = programs::build(command, &arguments)?.into_iter().filter(wanted);
    let programs: Vec<_> = programs.map(|program| (program.name, program.path)).collect();
    ensure!(!programs.is_empty(), "{package} has no program for {flag}");
    Ok(programs)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}
