//! The Huffman stage on one core: each step alone, on codes of about 1.1, 2 and 5 bits a symbol.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::histogram::{self, HistogramScratch};
use syncline_core::huffman::lengths::{LengthScratch, code_lengths};
use syncline_core::huffman::{Decoder, EncodeOptions, EncodeScratch, IndexKind, Stream, encode};

use super::record;
use crate::record::Records;

/// Symbols of a measured chunk: 2 MiB of 16-bit codes.
const SYMBOLS: usize = 1 << 20;

/// Times every step.
///
/// # Errors
/// A decoder fails or returns other symbols, or the output cannot be written.
pub fn measure(runs: usize, records: &mut Records) -> Result<()> {
    [0.1, 0.44, 0.92].into_iter().try_for_each(|keep| measure_codes(&geometric(keep), runs, records))
}

fn measure_codes(symbols: &[u16], runs: usize, records: &mut Records) -> Result<()> {
    let options = EncodeOptions { group_log2: 7, index: IndexKind::Symbol, zero_bit_symbol: Some(512) };
    let mut scratch = EncodeScratch::default();
    let mut out = Vec::new();
    encode(symbols, &[], &options, &mut scratch, &mut out);
    let name = format!("codes of {:.1} bits", out.len() as f64 * 8.0 / symbols.len() as f64);
    let mut add =
        |step: &str, work: &mut dyn FnMut()| records.add(&record(&name, "u16", step, size_of_val(symbols), runs, work));

    let mut counters = HistogramScratch::default();
    let mut counts = [Vec::new()];
    add("histogram", &mut || {
        histogram::count(symbols, 128, |_| Some(0), 1023, &mut counters, &mut counts);
    })?;
    let (mut lengths, mut length_scratch) = (Vec::new(), LengthScratch::default());
    add("codebook", &mut || {
        code_lengths(&counts[0], &mut length_scratch, &mut lengths);
        black_box(Codebook::new(lengths.clone()));
    })?;
    add("encode, all of it", &mut || {
        out.clear();
        encode(symbols, &[], &options, &mut scratch, &mut out);
    })?;
    // Each decoder with the index that it was designed for.
    let decoders = [
        (Decoder::Indexed, IndexKind::Symbol),
        (Decoder::SelfSync, IndexKind::None),
        (Decoder::Chunked, IndexKind::None),
    ];
    for (kind, index) in decoders {
        let mut bytes = Vec::new();
        encode(symbols, &[], &EncodeOptions { index, ..options }, &mut EncodeScratch::default(), &mut bytes);
        let mut back = vec![0_u16; symbols.len()];
        let stream = Stream::<u16>::parse(&bytes, "a stream of the bench")?;
        let decoder = stream.decoder(kind, &[]).with_context(|| format!("decoder {kind}"))?;
        let mut failed = false;
        add(&format!("decode {kind}"), &mut || failed |= decoder.decode(&mut back, 1).is_err())?;
        ensure!(!failed && back == symbols, "decoder {kind} gives other symbols");
    }
    Ok(())
}

/// Two-sided geometric codes around 512, as a predictor's residuals are: `keep` is the chance of each step away.
fn geometric(keep: f64) -> Vec<u16> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..SYMBOLS)
        .map(|_| {
            let distance = (uniform().max(1e-300).ln() / keep.ln()).min(500.0) as u16;
            if uniform() < 0.5 { 512 + distance } else { 512 - distance }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_record() {
        let codes = &geometric(0.44)[..1 << 12];
        let mut records = Records::new(std::io::sink());
        measure_codes(codes, 1, &mut records).unwrap();
        records.finish().unwrap();
    }
}
