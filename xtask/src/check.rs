//! `check`: format, lints, build, documentation, tests.

use std::process::Command;

use anyhow::Result;

/// Runs each step and stops at the first that fails. The tests come last, so that their summary ends the output.
pub fn run() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
    // What stands for GPUs in a build without them.
    cargo(&["clippy", "--package", "syncline", "--no-default-features", "--", "--deny", "warnings"])?;
    cargo(&["build", "--workspace"])?;
    crate::run(cargo_command(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))?;
    cargo(&["test", "--workspace"])
}

fn cargo(arguments: &[&str]) -> Result<()> {
    crate::run(&mut cargo_command(arguments))
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = crate::cargo();
    command.args(arguments);
    command
}
