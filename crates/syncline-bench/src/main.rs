//! The command line: generates data and prints the papers' tables.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The benchmarks of Syncline: generated fields, and comparisons with other codecs
#[derive(Parser)]
#[command(name = "syncline-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a generated field, its quantization codes or a stream of bytes to a raw little-endian file
    Generate(commands::generate::Arguments),
    /// Compare generated fields with what the papers report on the originals
    Calibrate(commands::calibrate::Arguments),
    /// Compare codecs on the CPU: ratio, speed, error
    Cpu(commands::cpu::Arguments),
    /// Compress and decompress from the host's memory and files on one device and several
    Host(commands::host::Arguments),
    /// Time every encoder and decoder of the Huffman stage
    Huffman(commands::huffman::Arguments),
    /// Compress whole fields with error bounds: ratio, error, speed
    Lossy(commands::lossy::Arguments),
    /// Measure LZSS over chunk size, window and symbol width, and lossless pipelines beside other codecs
    Lzss(commands::lzss::Arguments),
    /// Compare the sizes of streams with those of SZ3 and zfp at the same absolute bound
    Ratio(commands::ratio::Arguments),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Generate(arguments) => commands::generate::run(&arguments),
        Command::Calibrate(arguments) => commands::calibrate::run(&arguments),
        Command::Cpu(arguments) => commands::cpu::run(&arguments),
        Command::Host(arguments) => commands::host::run(&arguments),
        Command::Huffman(arguments) => commands::huffman::run(&arguments),
        Command::Lossy(arguments) => commands::lossy::run(&arguments),
        Command::Lzss(arguments) => commands::lzss::run(&arguments),
        Command::Ratio(arguments) => commands::ratio::run(&arguments),
    }
}
