//! Virtual environments of Python, one for each task.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Interpreters that are tried, the newest first. Each has a file of pinned test requirements.
const VERSIONS: [&str; 2] = ["3.12", "3.11"];

/// A virtual environment with the packages that a task needs.
pub struct Environment {
    /// Its folder.
    pub folder: PathBuf,
    /// Its interpreter.
    pub python: PathBuf,
}

/// Returns an interpreter and the version whose requirements it takes.
pub fn find(stated: Option<&str>) -> Result<(String, &'static str)> {
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

impl Environment {
    /// Creates the environment `target/python-NAME` with the packages that a file lists, unless it is there.
    pub fn prepare(python: &str, name: &str, requirements: &str) -> Result<Environment> {
        let folder = crate::root().join("target").join(format!("python-{name}"));
        let inside = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let environment = Environment { folder, python: inside };
        let requirements = crate::root().join(requirements);
        let wanted =
            fs::read_to_string(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
        let installed = environment.folder.join("requirements.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
            return Ok(environment);
        }
        crate::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment.folder))?;
        // Python compiles the modules that are imported; pip would compile all others as well.
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--requirement"];
        crate::run(Command::new(&environment.python).args(pip).arg(&requirements))?;
        fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))?;
        Ok(environment)
    }
}
