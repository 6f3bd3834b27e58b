//! `calibrate`: compares generated fields with the figures that the papers report on the originals.

use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};

use syncline_bench::codes::{RADIUS, Tiling, quantization_codes};
use syncline_bench::fields::Generator;
use syncline_bench::statistics::{histogram, huffman_bits};

/// Arguments of `calibrate`.
#[derive(Args)]
pub struct Arguments {
    /// Fields [default: all]
    #[arg(value_enum)]
    fields: Vec<Generator>,
    /// Multiplies each side; the constants are tuned at 1
    #[arg(long, default_value_t = 1.0, value_parser = super::generate::parse_scale)]
    scale: f64,
    /// Relative bound
    #[arg(long, default_value_t = 1e-3)]
    rel: f64,
}

/// Prints a row for each field.
///
/// # Errors
/// This function does not fail.
pub fn run(arguments: &Arguments) -> Result<()> {
    let all = Generator::value_variants();
    let fields = if arguments.fields.is_empty() { all } else { &arguments.fields };
    println!(
        "{:<12}{:<18}{:>9}{:>12}{:>10}{:>10}{:>8}{:>8}",
        "field", "shape", "seconds", "zero delta", "outliers", "bits", "ratio", "paper"
    );
    for &generator in fields {
        let start = Instant::now();
        let field = generator.generate(arguments.scale);
        let seconds = start.elapsed().as_secs_f64();
        let counts = histogram(&quantization_codes(&field, arguments.rel, Tiling::Zeros));
        let share = |code: usize| counts.get(code).copied().unwrap_or(0) as f64 / field.values.len() as f64;
        let bits = huffman_bits(&counts);
        println!(
            "{:<12}{:<18}{:>9.2}{:>12.4}{:>10.5}{:>10.4}{:>8.2}{:>8}",
            field.name,
            field.shape_text(),
            seconds,
            share(RADIUS as usize),
            share(0),
            bits,
            16.0 / bits,
            generator.paper_ratio().map_or("-".into(), |r| r.to_string()),
        );
    }
    Ok(())
}
