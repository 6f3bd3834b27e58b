//! Codebooks that several blocks build equal the CPU's lengths and a simple canonical numbering.

#[path = "common/codebooks.rs"]
mod codebooks;
mod common;

use codebooks::{TestBuilder, limited_and_unlimited_bits, limited_cases};
use common::{Share, pick};
use cudarc::driver::CudaView;
use syncline_core::huffman::lengths::{MAX_LENGTH, limit_for};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device, Frame};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::codebook::{self, CodebookBuilder, DeviceCodebooks, unpack};

const ALPHABETS: [u32; 6] = [1, 31, 1000, 4097, 20_000, 65_536];

impl TestBuilder for CodebookBuilder {
    fn new(device: &Device, symbols: u32) -> Result<Self> {
        Self::new(device, symbols)
    }

    fn launch(&self, frame: &mut Frame<'_>, counts: &CudaView<'_, u64>, codebooks: &mut DeviceCodebooks) -> Result<()> {
        self.launch(frame, counts, codebooks)
    }
}

#[test]
fn codebooks_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    codebooks::codebooks_equal_the_cpus::<CodebookBuilder>(device, &ALPHABETS);
    codebooks::codebooks_of_equal_counts_equal_the_cpus::<CodebookBuilder>(device);
}

#[test]
fn batches_of_codebooks_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    let batches = [(3, 20), (1000, 9), (2000, 3), (65_536, pick(3, 1))];
    codebooks::check_batches::<CodebookBuilder>(device, &batches);
}

#[test]
fn random_codebooks_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    codebooks::random_codebooks_equal_the_cpus::<CodebookBuilder>(device, &ALPHABETS[2..]);
}

// In tiny runs, tests cases on both sides of the threshold of step (3), of 36 per alphabet.

#[test]
fn limited_codebooks_of_4097_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    codebooks::check_limited::<CodebookBuilder>(device, &ALPHABETS[3..4], Share::one_in(11).if_tiny(37, 15));
}

#[test]
fn limited_codebooks_of_20_000_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    codebooks::check_limited::<CodebookBuilder>(device, &ALPHABETS[4..5], Share::one_in(11).if_tiny(36, 17));
}

#[test]
fn limited_codebooks_of_65_536_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    codebooks::check_limited::<CodebookBuilder>(device, &ALPHABETS[5..], Share::one_in(11).if_tiny(36, 25));
}

/// The tests above rely on this: some optimal codes exceed the threshold of the limit and go through step (3), others
/// do not.
#[test]
fn limited_cases_are_on_both_sides_of_the_last_step() {
    for symbols in [256, 1024, 4096, 65_536] {
        let bits: Vec<_> =
            limited_cases(symbols).iter().map(|(_, counts)| limited_and_unlimited_bits(counts)).collect();
        let beyond = bits.iter().filter(|&&(limited, unlimited)| limited > unlimited + unlimited / 2048).count();
        let within = bits
            .iter()
            .filter(|&&(limited, unlimited)| (unlimited + 1..=unlimited + unlimited / 2048).contains(&limited))
            .count();
        assert!(beyond >= 3 && within >= 2, "{symbols} symbols: {beyond} beyond, {within} within");
    }
}

/// Counts beyond 32 bits, which no stream of the CPU has, still give a complete code.
#[test]
fn large_counts_give_a_complete_code() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let builder = CodebookBuilder::new(device, 1024).unwrap();
    let mut codebook = DeviceCodebooks::new(&stream, 1024, 1).unwrap();
    let large: Vec<u64> = (0..1024_u64).map(|i| if i % 3 == 0 { u64::MAX } else { i << 35 }).collect();
    // Limited with a loss, so that the sums of the last step are as large as possible.
    let steep: Vec<u64> = (0..1024_u64).map(|i| (codebook::LARGEST_COUNT >> (i / 4).min(63)).max(1)).collect();
    for (counts, clamped) in [(large, true), (steep, false)] {
        let on_device = stream.clone_htod(&counts).unwrap();
        builder.launch(&mut arena.frame().unwrap(), &on_device.as_view(), &mut codebook).unwrap();
        let summary = codebook.read_summary(&stream).unwrap();
        assert_eq!((summary.counts_clamped, summary.used), (clamped, 1024));
        let codewords = stream.clone_dtoh(&codebook.codewords()).unwrap();
        let kraft: u64 = codewords.iter().map(|&codeword| 1 << (32 - unpack(codeword).0)).sum();
        assert_eq!(kraft, 1 << 32, "the code is complete");
    }
}

#[test]
fn limits_are_the_cpus() {
    assert_eq!(codebook::MAX_LENGTH, limit_for(codebook::LARGE_ALPHABET as usize));
    assert_eq!(codebook::MAX_LENGTH_LARGE, limit_for(codebook::LARGE_ALPHABET as usize + 1));
    assert_eq!(codebook::MAX_LENGTH_LARGE, MAX_LENGTH);
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    assert!(CodebookBuilder::new(device, 0).is_err());
    assert!(CodebookBuilder::new(device, 65_537).is_err());
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let mut frame = arena.frame().unwrap();
    let builder = CodebookBuilder::new(device, 256).unwrap();
    let counts = stream.alloc_zeros::<u64>(256).unwrap();
    let mut small = DeviceCodebooks::new(&stream, 255, 1).unwrap();
    assert!(builder.launch(&mut frame, &counts.as_view(), &mut small).is_err());
    let mut codebook = DeviceCodebooks::new(&stream, 256, 1).unwrap();
    assert!(builder.launch(&mut frame, &counts.slice(..255), &mut codebook).is_err());
}
