//! Inputs of many kinds.

use super::common::{self, Random, Spread};

/// Kinds of bytes, which take different code paths.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Noise,
    /// Few different symbols of this many bytes, so that there are many short matches.
    Few(usize),
    /// Words of a dictionary, as in text.
    Pieces,
    Runs,
    /// Repetitions at every distance up to a few hundred, with changing periods.
    Periods,
    /// Quantization codes.
    Codes,
    /// Columns of 32-bit integers.
    Integers,
    /// A smooth field of f32.
    Floats,
}

pub const KINDS: [Kind; 11] = [
    Kind::Noise,
    Kind::Few(1),
    Kind::Few(2),
    Kind::Few(4),
    Kind::Few(8),
    Kind::Pieces,
    Kind::Runs,
    Kind::Periods,
    Kind::Codes,
    Kind::Integers,
    Kind::Floats,
];

pub fn bytes(kind: Kind, length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut out: Vec<u8> = Vec::with_capacity(length + 1024);
    while out.len() < length {
        match kind {
            Kind::Noise => out.extend(random.next().to_le_bytes()),
            Kind::Few(width) => {
                let value = [0, 0, 1, 0x0101_0101_0101_0102_u64][random.below(4) as usize];
                out.extend(&value.to_le_bytes()[..width]);
            }
            Kind::Pieces => {
                let dictionary: Vec<u8> = (0..700_u64).map(|i| (i * i / 7 % 61) as u8).collect();
                let at = random.below(500) as usize;
                out.extend(&dictionary[at..at + 1 + random.below(90) as usize]);
            }
            Kind::Runs => {
                let most = 1 << random.below(12);
                let length = 1 + random.below(most) as usize;
                out.extend(std::iter::repeat_n(random.below(3) as u8, length));
            }
            Kind::Periods => {
                let part: Vec<u8> = (0..1 + random.below(400)).map(|_| random.next() as u8).collect();
                let length = random.below(1500) as usize;
                out.extend(part.iter().cycle().take(length));
            }
            Kind::Codes => {
                let share = [0.98, 0.7, 0.2][random.below(3) as usize];
                let codes = common::symbols(Spread::Geometric(share), 1024, 2000, random.next());
                out.extend(codes.iter().flat_map(|code| code.to_le_bytes()));
            }
            Kind::Integers => {
                let value = (out.len() / 16) as u32 * 3 + random.below(5) as u32;
                out.extend(value.to_le_bytes());
            }
            Kind::Floats => {
                let x = out.len() as f32 / 4.0;
                out.extend(((x * 0.001).sin() * 100.0).round().to_le_bytes());
            }
        }
    }
    out.truncate(length);
    out
}
