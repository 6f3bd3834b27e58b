//! Measures the encoders and decoders of the CPU.

use std::time::Instant;

use anyhow::{Result, ensure};
use rayon::prelude::*;
use syncline_core::huffman::{Decoder, EncodeOptions, EncodeScratch, IndexKind, Stream, Symbol, encode};

use syncline_core::predict::codes::RADIUS;
use syncline_cuda::timing::Times;

use super::{GROUP_LOG2, Row, STREAM_SYMBOLS, Set, Symbols, timed};

/// Measures every index kind with every decoder that supports it.
///
/// # Errors
/// A decoder fails or returns other symbols.
pub fn measure(set: &Set, threads: usize, runs: usize) -> Result<Vec<Row>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| match &set.symbols {
        Symbols::Bytes(symbols) => measure_symbols(set, symbols, None, threads, runs),
        // The code of residual 0 is the most frequent one, so the codec need not search for it.
        Symbols::Codes(symbols) => measure_symbols(set, symbols, Some(RADIUS as u16), threads, runs),
    })
}

fn measure_symbols<S: Symbol>(
    set: &Set,
    symbols: &[S],
    zero_bit_symbol: Option<u16>,
    threads: usize,
    runs: usize,
) -> Result<Vec<Row>> {
    let total = size_of_val(symbols);
    let bytes = total as f64;
    let mut rows = Vec::new();
    for index in IndexKind::ALL {
        let options = EncodeOptions { group_log2: GROUP_LOG2, index, zero_bit_symbol };
        let encode_all = || -> Vec<Vec<u8>> {
            let one = |scratch: &mut EncodeScratch, part: &[S]| {
                let mut out = Vec::new();
                encode(part, &[], &options, scratch, &mut out);
                out
            };
            symbols.par_chunks(STREAM_SYMBOLS).map_init(EncodeScratch::default, one).collect()
        };
        let streams = encode_all();
        let stream_bytes: usize = streams.iter().map(Vec::len).sum();
        let mut row = |direction, method: String, times: Times| {
            let rate = |seconds: f64| bytes / 1e9 / seconds;
            rows.push(Row {
                set: set.name.clone(),
                bytes: total,
                device: format!("cpu, {threads} thread{}", if threads == 1 { "" } else { "s" }),
                direction,
                method,
                index: index.to_string(),
                free_groups: true,
                bits: stream_bytes as f64 * 8.0 / symbols.len() as f64,
                ratio: bytes / stream_bytes as f64,
                median: rate(times.median()),
                best: rate(times.shortest()),
                slowest: rate(times.longest()),
                microseconds: times.median() * 1e6,
                share_of_copy: None,
                queued: None,
                one_after_another: None,
            });
        };
        let encoding = timed(runs, || {
            let start = Instant::now();
            std::hint::black_box(encode_all());
            Ok(start.elapsed().as_secs_f64())
        })?;
        row("encode", "dense".to_owned(), encoding);

        for decoder in [Decoder::Chunked, Decoder::SelfSync, Decoder::Gap, Decoder::Indexed] {
            if reads(decoder, index) {
                let mut out = vec![S::truncate(0); symbols.len()];
                let decoding = timed(runs, || {
                    // Filled with a pattern, so that missing writes are detected.
                    out.fill(S::truncate(u16::MAX));
                    let start = Instant::now();
                    decode_all(&streams, decoder, &mut out)?;
                    let seconds = start.elapsed().as_secs_f64();
                    ensure!(out == symbols, "{decoder} gives other symbols on {}", set.name);
                    Ok(seconds)
                })?;
                row("decode", decoder.to_string(), decoding);
            }
        }
    }
    Ok(rows)
}

/// Returns whether a decoder is measured with this index: each with the index it was designed for, and the baseline
/// without an index.
fn reads(decoder: Decoder, index: IndexKind) -> bool {
    match decoder {
        Decoder::Chunked | Decoder::SelfSync => index == IndexKind::None,
        Decoder::Gap => index == IndexKind::Gap,
        _ => index == IndexKind::Symbol,
    }
}

fn decode_all<S: Symbol>(streams: &[Vec<u8>], decoder: Decoder, out: &mut [S]) -> Result<()> {
    streams.par_iter().zip(out.par_chunks_mut(STREAM_SYMBOLS)).try_for_each(|(bytes, out)| {
        let stream = Stream::<S>::parse(bytes, "a stream of the bench")?;
        Ok(stream.decoder(decoder, &[])?.decode(out, 1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{BYTE_SETS, Set};
    use super::*;
    use crate::fields::Generator;

    #[test]
    fn every_set_goes_through_every_decoder() {
        let mut sets: Vec<Set> = BYTE_SETS.iter().filter_map(|name| Set::of_bytes(name, 100_000)).collect();
        assert_eq!(sets.len(), BYTE_SETS.len());
        sets.push(Set::of_field(Generator::Hurricane, 0.05, 1e-3));
        for set in &sets {
            let rows = measure(set, 2, 1).unwrap();
            assert_eq!(rows.iter().filter(|row| row.direction == "decode").count(), 4, "{}", set.name);
            assert!(rows.iter().all(|row| row.bits > 0.0 && row.median > 0.0), "{}", set.name);
        }
        assert!(Set::of_bytes("no such set", 1000).is_none());
    }
}
