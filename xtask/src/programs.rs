//! The programs that cargo builds.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A program.
pub struct Program {
    /// The folder of its package.
    pub folder: PathBuf,
    /// `test`, `bin`, or the kind of a library.
    pub kind: String,
    /// The name of the test or of the library.
    pub name: String,
    /// The program.
    pub path: PathBuf,
}

/// Builds the programs of a cargo command, such as `test --no-run` or `build`, with these arguments.
pub fn build(command: &[&str], arguments: &[&str]) -> Result<Vec<Program>> {
    let output = crate::cargo()
        .args(command)
        .arg("--message-format=json")
        .args(arguments)
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "failed: cargo {} {}", command.join(" "), arguments.join(" "));
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("cannot parse the messages of cargo")?;
        if let Some(path) = message["executable"].as_str() {
            let text =
                |value: &Value| value.as_str().map(str::to_owned).context("cargo reports a target without a name");
            let target = &message["target"];
            let manifest = PathBuf::from(text(&message["manifest_path"])?);
            programs.push(Program {
                folder: manifest.parent().context("a manifest lies in a folder")?.to_path_buf(),
                kind: text(&target["kind"][0])?,
                name: text(&target["name"])?,
                path: path.into(),
            });
        }
    }
    Ok(programs)
}
