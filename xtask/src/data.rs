//! `cargo xtask data`: rebuilds the real fields from the contents of Debian and Python packages.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

const SCRIPT: &str = "scripts/fetch_realdata.py";

/// Arguments of `data`.
#[derive(Args)]
pub struct Arguments {
    /// Names to fetch, as `--list` prints them, without their type [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// List the names and fetch nothing
    #[arg(long)]
    list: bool,
    /// Folder to write to
    #[arg(long, default_value = "data")]
    out: PathBuf,
    /// Python that creates the virtual environment
    #[arg(long, default_value = "python3")]
    python: String,
}

/// Creates a virtual environment under `target/` with the packages that the script needs, and runs the script.
///
/// # Errors
/// Python, a package, or a file is not available, or a file differs from its recorded checksum.
pub fn run(arguments: &Arguments) -> Result<()> {
    let python = environment(&arguments.python)?;
    let mut fetch = Command::new(python);
    fetch.arg(SCRIPT).arg("--out").arg(&arguments.out).arg("--work").arg(arguments.out.join(".cache"));
    if !arguments.only.is_empty() {
        fetch.args(["--only", &arguments.only.join(",")]);
    }
    if arguments.list {
        fetch.arg("--list");
    }
    crate::run(&mut fetch)
}

/// Returns the Python of an environment with the script's packages.
fn environment(python: &str) -> Result<PathBuf> {
    let folder = crate::root().join("target/realdata-venv");
    let inside = folder.join("bin/python");
    let needs = needs()?;
    // The list of packages is written last, so that an incomplete or outdated environment is created again.
    let mark = folder.join("installed.txt");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == needs.join(" ")) {
        return Ok(inside);
    }
    crate::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    crate::run(Command::new(&inside).args(["-m", "pip", "install", "--quiet"]).args(&needs))?;
    fs::write(&mark, needs.join(" ")).with_context(|| format!("cannot write {}", mark.display()))?;
    Ok(inside)
}

/// Returns the packages in the header of the script.
fn needs() -> Result<Vec<String>> {
    let script = fs::read_to_string(crate::root().join(SCRIPT)).with_context(|| format!("cannot read {SCRIPT}"))?;
    let line = script.lines().find_map(|l| l.trim().strip_prefix("pip install "));
    let packages = line.with_context(|| format!("{SCRIPT} has no line 'pip install …' in its header"))?;
    Ok(packages.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_script_names_its_packages() {
        let needs = super::needs().unwrap();
        assert!(needs.iter().any(|p| p == "numpy"), "{needs:?}");
    }
}
