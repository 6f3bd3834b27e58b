//! `cargo xtask check`: format, lints, dependencies, documentation, tests.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::third_party;

/// Columns of a source line at most.
const MAX_COLUMNS: usize = 120;

/// Version of clang-format that formats kernels: other versions format differently.
const CLANG_FORMAT: &str = "18.1.8";

/// Arguments of `check`.
#[derive(Args)]
pub struct Arguments {
    /// Run everything but the tests
    #[arg(long)]
    no_tests: bool,
    /// Instead, lint and test what works with Zarr: the feature of the command, and the crate for zarrs
    #[arg(long)]
    zarr: bool,
    /// Instead, run the tests that take too long for every change
    #[arg(long, conflicts_with = "zarr")]
    ignored: bool,
}

/// Runs each step and stops at the first that fails. The tests come last, so that their summary ends the output.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.zarr {
        return check_zarr(arguments.no_tests);
    }
    if arguments.ignored {
        // No examples in documentation: those that are ignored there do not compile alone.
        return cargo(&["test", "--tests", "--", "--ignored"]);
    }
    cargo(&["fmt", "--all", "--check"])?;
    check_columns()?;
    check_workflows()?;
    crate::tables::run(&crate::tables::Arguments { check: true })?;
    check_kernel_format()?;
    check_members()?;
    check_dependencies()?;
    third_party::run(&third_party::Arguments { check: true })?;
    cargo(&["clippy", "--all-targets", "--", "--deny", "warnings"])?;
    // Without GPU support, `gpu_backend_absent.rs` replaces the module `gpu_backend`.
    cargo(&["clippy", "--package", "syncline", "--no-default-features", "--", "--deny", "warnings"])?;
    crate::run(cargo_command(&["doc", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))?;
    check_public_interface()?;
    if arguments.no_tests { Ok(()) } else { cargo(&["test"]) }
}

/// Lints, and tests, what needs the dependencies of zarrs. They take minutes to build, in a folder of their own.
fn check_zarr(no_tests: bool) -> Result<()> {
    let folder = crate::root().join("target/zarrs").display().to_string();
    let command = ["--package", "syncline-cli", "--features", "zarr", "--target-dir", &folder];
    let codec = ["--package", "syncline-zarrs", "--target-dir", &folder];
    for package in [&command[..], &codec] {
        cargo(&[&["clippy", "--all-targets"], package, &["--", "--deny", "warnings"]].concat())?;
    }
    if no_tests {
        return Ok(());
    }
    // Those with the word in their names; the others are the same without the feature.
    cargo(&[&["test"], &command[..], &["zarr"]].concat())?;
    cargo(&[&["test"], &codec[..]].concat())
}

/// Fails if a line of a tracked source file is longer than [`MAX_COLUMNS`]. rustfmt leaves such lines in string
/// literals, comments, and macro bodies.
fn check_columns() -> Result<()> {
    let mut long = Vec::new();
    for file in tracked(&["*.rs", "*.cu", "*.cuh", "*.py", "*.sh"])? {
        let text = fs::read_to_string(crate::root().join(&file)).with_context(|| format!("cannot read {file}"))?;
        long.extend(long_lines(&text).map(|line| format!("{file}:{line}")));
    }
    ensure!(long.is_empty(), "{} lines are longer than {MAX_COLUMNS} columns:\n{}", long.len(), long.join("\n"));
    Ok(())
}

/// Returns the numbers, from 1, of the lines that are too long.
fn long_lines(text: &str) -> impl Iterator<Item = usize> {
    (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > MAX_COLUMNS).map(|(number, _)| number)
}

/// Fails if a workflow runs an action by a name that its owner can move, such as a branch or a tag.
fn check_workflows() -> Result<()> {
    let mut moving = Vec::new();
    for file in tracked(&[".github/workflows/*.yml"])? {
        let text = fs::read_to_string(crate::root().join(&file)).with_context(|| format!("cannot read {file}"))?;
        moving.extend(moving_actions(&text).map(|action| format!("{file}: {action}")));
    }
    ensure!(moving.is_empty(), "name the commits of these actions:\n{}", moving.join("\n"));
    Ok(())
}

/// Returns the actions of a workflow, other than those of this repository, that are not named by a commit.
fn moving_actions(workflow: &str) -> impl Iterator<Item = &str> {
    let actions = workflow.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("uses: "));
    let words = actions.filter_map(|action| action.split_whitespace().next());
    words.filter(|action| !action.starts_with("./") && !is_commit(action.rsplit('@').next().unwrap_or_default()))
}

/// Returns whether a word is the full name of a commit.
fn is_commit(word: &str) -> bool {
    word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks the format of kernels, if the right version of clang-format is installed.
fn check_kernel_format() -> Result<()> {
    let major = CLANG_FORMAT.split('.').next().unwrap_or_default();
    if !output_of("clang-format", &["--version"]).is_some_and(|text| text.contains(&format!("version {major}."))) {
        println!("skipped: format of kernels: needs clang-format {major} (pip install clang-format=={CLANG_FORMAT})");
        return Ok(());
    }
    let kernels = tracked(&["*.cu", "*.cuh"])?;
    // Not `crate::run`, which would print hundreds of names.
    let mut format = Command::new("clang-format");
    let status = format.args(["--dry-run", "-Werror"]).args(kernels).current_dir(crate::root()).status()?;
    ensure!(status.success(), "run clang-format -i on the kernels above");
    Ok(())
}

/// Fails if a crate, other than the one for zarrs, is not built without `--workspace`: nothing would test it.
fn check_members() -> Result<()> {
    let metadata = crate::metadata(&["--no-deps"])?;
    let members = |key: &str| metadata[key].as_array().cloned().context("cargo metadata lists the members");
    let default = members("workspace_default_members")?;
    let mut left_out = members("workspace_members")?;
    left_out.retain(|id| !default.contains(id) && !id.to_string().contains("syncline-zarrs"));
    ensure!(left_out.is_empty(), "add to `default-members` in Cargo.toml: {left_out:?}");
    Ok(())
}

/// Checks licenses, sources and advisories of dependencies (`deny.toml`), if cargo-deny is installed.
fn check_dependencies() -> Result<()> {
    if output_of("cargo", &["deny", "--version"]).is_none() {
        println!("skipped: dependencies: needs cargo-deny (cargo install --locked cargo-deny)");
        return Ok(());
    }
    cargo(&["deny", "check", "bans", "licenses", "sources"])?;
    if cargo(&["deny", "fetch", "db"]).is_err() {
        println!("skipped: advisories: cannot download their database");
        return Ok(());
    }
    cargo(&["deny", "check", "advisories"])
}

/// Compares the public interface with that of the last tag, if there is one and cargo-semver-checks is installed.
fn check_public_interface() -> Result<()> {
    let Some(tag) = output_of("git", &["describe", "--tags", "--abbrev=0"]) else { return Ok(()) };
    if output_of("cargo", &["semver-checks", "--version"]).is_none() {
        println!("skipped: compatibility with {}: needs cargo-semver-checks", tag.trim());
        return Ok(());
    }
    cargo(&["semver-checks", "--package", "syncline", "--baseline-rev", tag.trim()])
}

/// Returns the tracked files that match any of the patterns.
fn tracked(patterns: &[&str]) -> Result<Vec<String>> {
    let arguments: Vec<_> = ["ls-files", "--"].iter().chain(patterns).copied().collect();
    let files = output_of("git", &arguments).context("cannot list the files of the repository with git")?;
    // A file that was deleted and not yet committed is still listed.
    Ok(files.lines().filter(|file| crate::root().join(file).exists()).map(str::to_owned).collect())
}

/// Returns what a program prints to standard output, or `None` if it cannot be started or fails.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(crate::root()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cargo(arguments: &[&str]) -> Result<()> {
    crate::run(&mut cargo_command(arguments))
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = crate::cargo();
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_found_by_columns_and_not_by_bytes() {
        let text = format!("{}\n{}\n{}\n", "a".repeat(120), "a".repeat(121), "µ".repeat(120));
        assert_eq!(long_lines(&text).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn actions_without_a_commit_are_found() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let workflow = format!(
            "    uses: ./.github/workflows/ci.yml\n      - uses: a/tag@v5\n      - uses: a/commit@{commit} # v5\n\
             \x20       uses: a/branch@release/v1\n"
        );
        assert_eq!(moving_actions(&workflow).collect::<Vec<_>>(), ["a/tag@v5", "a/branch@release/v1"]);
    }
}
