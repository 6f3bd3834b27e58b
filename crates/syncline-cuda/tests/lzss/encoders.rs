//! Checks of LZSS encoders, whose sections equal core's.

use syncline_core::lzss::{EncodeScratch, Params, SymbolWidth, Tokens, encode};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::Result;
use syncline_cuda::lzss::{Batch, ChunkRange, Encoded, Encoder, Form, SectionPlan};

use super::common::{pick, unless_tiny};
use super::inputs::{KINDS, bytes};

/// Chunks of one width and level on the device, with core's results.
pub struct Case {
    pub params: Params,
    pub ranges: Vec<ChunkRange>,
    pub chunks: Vec<Vec<u8>>,
    pub tokens: Vec<Tokens>,
}

impl Case {
    pub fn new(width: SymbolWidth, level: u8, chunks: Vec<Vec<u8>>) -> Self {
        let params = Params::new(width, level);
        let (mut ranges, mut tokens, mut offset) = (Vec::new(), Vec::new(), 0);
        let mut scratch = EncodeScratch::default();
        for (i, chunk) in chunks.iter().enumerate() {
            let min_match = (params.min_match + [0, 1, 0, 4][i % 4]).min(16);
            ranges.push(ChunkRange { offset, bytes: chunk.len() as u64, min_match, chunk: 3 + i as u64 });
            offset += chunk.len().next_multiple_of(16) as u64;
            let mut own = Tokens::default();
            encode(chunk, &Params { min_match, ..params }, &mut scratch, &mut own);
            tokens.push(own);
        }
        Self { params, ranges, chunks, tokens }
    }

    /// Returns the chunks, each on a multiple of 16 bytes.
    pub fn input(&self) -> Vec<u8> {
        let mut input = Vec::new();
        for chunk in &self.chunks {
            input.extend_from_slice(chunk);
            input.resize(input.len().next_multiple_of(16), 0xEE);
        }
        input.resize(input.len().max(16), 0xEE);
        input
    }

    /// Returns sections 2 to 6 of a chunk.
    pub fn sections(&self, i: usize) -> [Vec<u8>; 5] {
        let (tokens, params) = (&self.tokens[i], &self.params);
        let mut first = vec![params.width.bytes() as u8, params.level, self.ranges[i].min_match, 0, 0, 0, 0, 0];
        for block in &tokens.blocks {
            first.extend(block.tokens.to_le_bytes());
            first.extend(block.matches.to_le_bytes());
        }
        let flags = tokens.flags.iter().flat_map(|word| word.to_le_bytes()).collect();
        [first, flags, tokens.lengths.clone(), tokens.distances.clone(), tokens.literals.clone()]
    }
}

/// A function that creates an encoder for a width and a level.
pub type NewEncoder = fn(&Device, SymbolWidth, u8) -> Result<Encoder>;

/// Encodes a case on the device and compares every chunk's sections.
pub fn check_encoder(
    device: &Device,
    case: &Case,
    new: NewEncoder,
    what: &str,
) -> (Encoded, Vec<SectionPlan>, Vec<u64>) {
    let stream = device.context().default_stream();
    let (width, level) = (case.params.width, case.params.level);
    let input = stream.clone_htod(&case.input()).unwrap();
    let batch = Batch::new(&stream, width, level, Form::Sections, &case.ranges).unwrap();
    let encoder = new(device, width, level).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes() + 64).unwrap();
    let poison = vec![0xA5_u8; encoded.bytes().len()];
    stream.memcpy_htod(&poison, encoded.bytes_mut()).unwrap();
    let mut arena = Arena::new(stream.clone());
    encoder.launch(&mut arena.frame().unwrap(), &input.as_view(), &batch, &mut encoded).unwrap();
    let plans = encoded.read_plans(&stream).unwrap();
    let places = stream.clone_dtoh(encoded.places()).unwrap();
    let out = stream.clone_dtoh(encoded.bytes()).unwrap();
    let mut at = 0;
    for (i, plan) in plans.iter().enumerate() {
        assert_eq!(places[i], at as u64, "{what}, chunk {i}: its place");
        for (number, section) in case.sections(i).iter().enumerate() {
            let what = format!(
                "{what}, {width:?} {level}, chunk {i} of {} bytes, section {}",
                case.chunks[i].len(),
                number + 2
            );
            assert_eq!(plan.section_bytes[number] as usize, section.len(), "{what}: its length");
            if out[at..at + section.len()] != *section {
                let differs = (0..section.len()).find(|&j| out[at + j] != section[j]);
                panic!("{what} differs from byte {differs:?} on");
            }
            at += section.len();
            assert!(out[at..at.next_multiple_of(16)].iter().all(|&byte| byte == 0), "{what}: zeros behind it");
            at = at.next_multiple_of(16);
        }
        assert_eq!(plan.tokens, case.tokens[i].blocks.iter().map(|block| block.tokens).sum::<u32>());
    }
    assert_eq!(places[plans.len()], at as u64);
    assert!(out[at..].iter().all(|&byte| byte == 0xA5), "{what}: written past the sections");
    (encoded, plans, places)
}

/// Returns chunks of every kind with lengths at the edges of data blocks.
pub fn edge_chunks(block: usize, seed: u64) -> Vec<Vec<u8>> {
    let lengths =
        [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 255, 1000, 4097, block - 1, block, block + 1, 2 * block + 777];
    let each = |(i, &length): (usize, &usize)| bytes(KINDS[(i + seed as usize) % KINDS.len()], length, seed + i as u64);
    lengths.iter().enumerate().skip(unless_tiny(0, 3)).step_by(pick(1, unless_tiny(3, 5))).map(each).collect()
}
