//! Ratio and one-core speed of the LZSS stage alone: `lzss_speed WIDTH LEVEL FILE...`.

use std::time::Instant;

use syncline_core::lzss::{EncodeScratch, Params, SLACK, SymbolWidth, TokenParts, Tokens, decode_block, encode};

/// Bytes taken at a time, as a chunk of the container.
const CHUNK: usize = 1 << 21;
const RUNS: usize = 5;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().and_then(|a| a.parse::<usize>().ok()).expect("lzss_speed WIDTH LEVEL FILE...");
    let width = SymbolWidth::from_bytes(number()).expect("a width of 1, 2, 4 or 8");
    let params = Params::new(width, number() as u8);
    for path in args {
        let bytes = std::fs::read(&path).expect("a file");
        let (mut encoding, mut decoding, mut total) = (f64::MAX, f64::MAX, 0);
        for _ in 0..RUNS {
            let (mut encode_run, mut decode_run) = (0.0, 0.0);
            let mut scratch = EncodeScratch::default();
            let mut tokens = Tokens::default();
            let mut out = vec![0; CHUNK + SLACK];
            total = 0;
            for chunk in bytes.chunks(CHUNK) {
                tokens.clear();
                let start = Instant::now();
                encode(chunk, &params, &mut scratch, &mut tokens);
                encode_run += start.elapsed().as_secs_f64();
                total += tokens.len();
                for part in [&mut tokens.literals, &mut tokens.lengths, &mut tokens.distances] {
                    part.extend_from_slice(&[0; SLACK]);
                }
                let start = Instant::now();
                decode(&tokens, &params, &mut out, chunk.len().next_multiple_of(width.bytes()));
                decode_run += start.elapsed().as_secs_f64();
                assert_eq!(&out[..chunk.len()], chunk, "{path}");
            }
            (encoding, decoding) = (encode_run.min(encoding), decode_run.min(decoding));
        }
        let speed = |seconds: f64| bytes.len() as f64 / seconds / 1e6;
        let ratio = bytes.len() as f64 / total as f64;
        println!(
            "{path}: ratio {ratio:.3}, compress {:.0} MB/s, decompress {:.0} MB/s",
            speed(encoding),
            speed(decoding)
        );
    }
}

fn decode(tokens: &Tokens, params: &Params, out: &mut [u8], length: usize) {
    let (mut flag, mut literal, mut matched, mut start) = (0, 0, 0, 0);
    for counts in &tokens.blocks {
        let (count, matches) = (counts.tokens as usize, counts.matches as usize);
        let words = count.div_ceil(64);
        let parts = TokenParts {
            tokens: count,
            matches,
            flags: &tokens.flags[flag..flag + words],
            literals: &tokens.literals[literal..],
            lengths: &tokens.lengths[matched..],
            distances: &tokens.distances[matched * params.distance_bytes()..],
        };
        let end = length.min(start + params.block_bytes());
        decode_block(&parts, params, out, start, end).expect("what was just encoded");
        (flag, matched, start) = (flag + words, matched + matches, end);
        literal += (count - matches) * params.width.bytes();
    }
}
