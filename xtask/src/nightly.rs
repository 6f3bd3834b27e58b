//! `cargo xtask nightly`: what takes too long for continuous integration, which runs a sample of it.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

/// Arguments of `nightly`.
#[derive(Args)]
pub struct Arguments {
    /// Seconds of fuzzing
    #[arg(long, default_value_t = 1800)]
    fuzz: u64,
}

/// Runs each task, also after one that fails.
///
/// # Errors
/// Names the tasks that failed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let fuzz = arguments.fuzz.to_string();
    let tasks: [(&[&str], Option<&str>); 9] = [
        (&["check"], None),
        (&["check", "--ignored"], None),
        (&["check", "--zarr"], None),
        // Every specialization for every architecture, as users compile them.
        (&["nvrtc"], None),
        // More tests than in continuous integration, and the code for other devices.
        (&["emulate"], Some("small")),
        (&["emulate", "--architecture", "75"], None),
        (&["emulate", "--architecture", "100", "--devices", "3"], None),
        (&["python", "--emulate", "--zarrs", "--suites"], None),
        (&["fuzz", &fuzz], None),
    ];
    let program = std::env::current_exe().context("cannot find the program that runs")?;
    let mut failed = Vec::new();
    for (words, size) in tasks {
        let mut task = Command::new(&program);
        task.args(words);
        if let Some(size) = size {
            task.env("SYNCLINE_TEST_SIZE", size);
        }
        if let Err(error) = crate::run(&mut task) {
            eprintln!("{error:#}");
            failed.push(words.join(" "));
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join("; ")) }
}
