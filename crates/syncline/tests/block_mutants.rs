//! Damaged records of blocks, with checksums that fit, give an error or an array, and nothing else.

use syncline::{
    ArrayView, Backend, Bound, CompressOptions, DecompressOptions, ElementType, Shape, compress, decompress,
};
use xxhash_rust::xxh3::Xxh3;

const HEADER_BYTES: usize = 144;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

/// Returns streams of one chunk of blocks each: of every dimension, with masks, verbatim values, and slices.
fn streams() -> Vec<Vec<u8>> {
    let mut random = Random(1);
    let mut streams = Vec::new();
    for shape in [&[9000][..], &[70, 90], &[3, 600], &[20, 21, 22], &[40, 5, 6], &[2, 8, 9, 10]] {
        for (bound, holes, noise) in [(1e-1, 0, 0.0), (1e-2, 5, 0.3), (1e-4, 2, 0.0), (1e-6, 0, 3.0)] {
            let len: u64 = shape.iter().product();
            let value = |i: u64| (i as f32 * 0.01).sin() * 10.0 + (i as f32 * 0.31).cos();
            let values: Vec<f32> = (0..len)
                .map(|i| match random.below(100) {
                    share if share < holes => 0.0,
                    share if share < 2 * holes => f32::NAN,
                    99 if noise > 1.0 => f32::INFINITY,
                    share => value(i) + share as f32 * 0.01 * noise,
                })
                .collect();
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let options = CompressOptions::new(Bound::Abs(bound)).with_backend(Backend::Cpu).with_threads(1);
            let view = ArrayView::from_bytes(&bytes, ElementType::F32, Shape::new(shape).unwrap()).unwrap();
            let stream = compress(&view, &options).unwrap();
            // Of raw chunks there is nothing to learn here.
            if stream[HEADER_BYTES + 16] == 4 {
                streams.push(stream);
            }
        }
    }
    streams
}

/// Damages a section of the record, or the length of one, and writes the checksum anew.
fn damage(stream: &mut [u8], random: &mut Random) {
    let record_bytes = u32::from_le_bytes(stream[HEADER_BYTES + 4..][..4].try_into().unwrap()) as usize;
    let record = &mut stream[HEADER_BYTES..][..record_bytes];
    let length = |record: &[u8], section: usize| {
        u32::from_le_bytes(record[32 + 4 * section..][..4].try_into().unwrap()) as usize
    };
    let section = random.below(6);
    let start = (0..section).fold(80, |at, section| (at + length(record, section)).next_multiple_of(16));
    let bytes = length(record, section).min(record.len() - start);
    match random.below(16) {
        0 => {
            let at = 32 + 4 * section;
            let other = length(record, section).wrapping_add(random.below(64)).wrapping_sub(32) as u32;
            record[at..at + 4].copy_from_slice(&other.to_le_bytes());
        }
        _ if bytes == 0 => {
            let at = 32 + random.below(record.len() - 32);
            record[at] ^= 1 << random.below(8);
        }
        how => {
            for _ in 0..1 + random.below(3) {
                // Fields and states come first.
                let limit = if how < 6 { bytes.min(80) } else { bytes };
                let at = start + random.below(limit);
                record[at] = if how % 2 == 0 { random.below(256) as u8 } else { record[at] ^ 1 << random.below(8) };
            }
        }
    }
    let mut hash = Xxh3::new();
    hash.update(&record[..24]);
    hash.update(&record[32..]);
    record[24..32].copy_from_slice(&hash.digest().to_le_bytes());
}

/// Decodes damaged streams. Returns how many gave an error.
pub fn decode_mutants(rounds: usize, seed: u64) -> usize {
    let (streams, mut random, mut refused) = (streams(), Random(seed), 0);
    assert!(streams.len() > 12);
    let options = DecompressOptions::default().with_backend(Backend::Cpu).with_threads(1);
    for round in 0..rounds {
        let original = &streams[round % streams.len()];
        let mut stream = original.clone();
        damage(&mut stream, &mut random);
        refused += usize::from(decompress(&stream, &options).is_err());
    }
    refused
}

#[test]
fn damaged_blocks_are_refused_or_decoded() {
    // More of them: SYNCLINE_MUTANTS=1000000.
    let requested = std::env::var("SYNCLINE_MUTANTS").ok();
    let rounds = requested.map_or(4000, |number| number.parse().expect("SYNCLINE_MUTANTS is a number"));
    let seed = 7;
    let refused = decode_mutants(rounds, seed);
    // Few damages of codes stay unnoticed, because states and words have to end exactly.
    assert!(refused > rounds / 2 && refused < rounds, "{refused}");
}
