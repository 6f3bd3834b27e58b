//! Data generators and the papers' tables, on the command line.

mod commands;

use clap::{Parser, Subcommand};

/// What Syncline is measured with: generated fields and other codecs, side by side
#[derive(Parser)]
#[command(name = "syncline-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a generated field, its quantisation codes or a stream of bytes to a raw little-endian file
    Generate(commands::generate::Arguments),
    /// Compare generated fields with what the papers report on the originals
    Calibrate(commands::calibrate::Arguments),
    /// Compare codecs on the CPU: ratio, speed, error
    Cpu(commands::cpu::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Generate(arguments) => commands::generate::run(&arguments),
        Command::Calibrate(arguments) => commands::calibrate::run(&arguments),
        Command::Cpu(arguments) => commands::cpu::run(&arguments),
    }
}
