//! `generate`: writes a field, its codes, or a stream of bytes to a raw little-endian file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use syncline_bench::bytes;
use syncline_bench::codes::{Tiling, quantization_codes};
use syncline_bench::fields::Generator;

/// Arguments of `generate`.
#[derive(Args)]
pub struct Arguments {
    /// What to generate
    #[arg(value_enum)]
    what: What,
    /// Multiplies each side of a field; bytes scale with its cube
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    scale: f64,
    /// File to write [default: the name with its type, as in nyx.f32]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Write the field's 16-bit quantization codes at this relative bound instead of its values
    #[arg(long, value_name = "REL")]
    codes: Option<f64>,
    /// The values that the predictor of the codes uses outside of its tile
    #[arg(long, value_enum, default_value = "zeros", requires = "codes")]
    tiling: Tiling,
}

/// A field, or a stream of bytes.
#[derive(Clone, Copy)]
enum What {
    Field(Generator),
    Bytes(Bytes),
}

/// A stream of bytes, with 256 MiB at full scale.
#[derive(Clone, Copy, ValueEnum)]
enum Bytes {
    /// Made-up words with Zipf's frequencies.
    Text,
    /// Geometric symbols, 1.4 bits each.
    Geometric1,
    /// Geometric symbols, 3.6 bits each.
    Geometric3,
    /// Geometric symbols, 5.9 bits each.
    Geometric5,
    /// Uniform random bytes.
    Uniform,
    /// Never synchronizes: codewords of 3 bits.
    NeverFlat,
    /// Never synchronizes: codewords of 2 and 3 bits.
    NeverCycle,
}

impl ValueEnum for What {
    fn value_variants<'a>() -> &'a [Self] {
        use {Bytes as B, Generator as G};
        const ALL: [What; 17] = [
            What::Field(G::Nyx),
            What::Field(G::Hurricane),
            What::Field(G::Cesm),
            What::Field(G::Rtm),
            What::Field(G::Hacc),
            What::Field(G::Haccx),
            What::Field(G::Qmcpack),
            What::Field(G::Exaalt),
            What::Field(G::Gamess),
            What::Field(G::Turbulence),
            What::Bytes(B::Text),
            What::Bytes(B::Geometric1),
            What::Bytes(B::Geometric3),
            What::Bytes(B::Geometric5),
            What::Bytes(B::Uniform),
            What::Bytes(B::NeverFlat),
            What::Bytes(B::NeverCycle),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::Field(field) => field.to_possible_value(),
            Self::Bytes(bytes) => bytes.to_possible_value(),
        }
    }
}

impl Bytes {
    fn generate(self, scale: f64) -> Vec<u8> {
        let count = ((256u64 << 20) as f64 * scale.powi(3)) as usize;
        match self {
            Self::Text => bytes::text(count, 60),
            Self::Geometric1 => bytes::geometric(count, 0.30, 61),
            Self::Geometric3 => bytes::geometric(count, 0.80, 62),
            Self::Geometric5 => bytes::geometric(count, 0.955, 63),
            Self::Uniform => bytes::uniform(count, 64),
            Self::NeverFlat => bytes::never_synchronizing_flat(count),
            Self::NeverCycle => bytes::never_synchronizing_cycle(count),
        }
    }
}

/// Parses a scale: a positive number that is small enough for all sizes to fit 64 bits.
pub fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 16.0 => Ok(scale),
        _ => Err("a number above 0 and at most 16".into()),
    }
}

/// Writes the file and prints its type and shape.
///
/// # Errors
/// The file cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let name = arguments.what.to_possible_value().context("every value has a name")?;
    let path = |kind: &str| arguments.output.clone().unwrap_or_else(|| format!("{}.{kind}", name.get_name()).into());
    match (arguments.what, arguments.codes) {
        (What::Bytes(_), Some(_)) => anyhow::bail!("--codes is for fields: bytes are symbols already"),
        (What::Bytes(bytes), None) => {
            let bytes = bytes.generate(arguments.scale);
            write(&path("u8"), "u8", &bytes.len().to_string(), [&bytes[..]])
        }
        (What::Field(field), codes) => {
            let field = field.generate(arguments.scale);
            match codes {
                None => {
                    let bytes = field.values.chunks(1 << 16).map(little_endian::<_, 4>(f32::to_le_bytes));
                    write(&path("f32"), "f32", &field.shape_text(), bytes)
                }
                Some(relative) => {
                    let codes = quantization_codes(&field, relative, arguments.tiling);
                    let bytes = codes.chunks(1 << 16).map(little_endian::<_, 2>(u16::to_le_bytes));
                    write(&path("u16"), "u16", &field.shape_text(), bytes)
                }
            }
        }
    }
}

fn little_endian<T: Copy, const N: usize>(to_bytes: fn(T) -> [u8; N]) -> impl Fn(&[T]) -> Vec<u8> {
    move |values| values.iter().flat_map(|&v| to_bytes(v)).collect()
}

fn write(path: &Path, kind: &str, shape: &str, blocks: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(cannot)?);
    for block in blocks {
        file.write_all(block.as_ref()).with_context(cannot)?;
    }
    file.flush().with_context(cannot)?;
    println!("{} --dtype {kind} --shape {shape}", path.display());
    Ok(())
}
