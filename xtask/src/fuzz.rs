//! `cargo xtask fuzz`: runs the fuzz targets with random inputs, on stable Rust with debug assertions.

use anyhow::Result;
use clap::Args;

/// Arguments of `fuzz`.
#[derive(Args)]
pub struct Arguments {
    /// How long to run, in seconds; with 0, each target runs once
    seconds: u64,
    /// Seed of the first input, as an earlier run printed it
    #[arg(long)]
    seed: Option<u64>,
    /// Run only the target with this name
    #[arg(long)]
    target: Option<String>,
}

/// Builds the fuzz targets in the profile `dev`, which has debug assertions and overflow checks, and runs them.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut fuzz = crate::cargo();
    fuzz.args(["run", "--package", "syncline-fuzz", "--", &arguments.seconds.to_string()]);
    if let Some(seed) = arguments.seed {
        fuzz.args(["--seed", &seed.to_string()]);
    }
    if let Some(target) = &arguments.target {
        fuzz.args(["--target", target]);
    }
    crate::run(&mut fuzz)
}
