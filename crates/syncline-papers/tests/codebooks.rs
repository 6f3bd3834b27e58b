//! Codebooks that one block builds equal the CPU's lengths and a simple canonical numbering.

#[path = "../../syncline-cuda/tests/common/codebooks.rs"]
mod codebooks;
#[path = "../../syncline-cuda/tests/common/mod.rs"]
mod common;

use codebooks::TestBuilder;
use common::{Share, pick};
use cudarc::driver::CudaView;
use syncline_core::huffman::lengths::{LengthScratch, code_lengths};
use syncline_cuda::device::{Arena, Device, Frame};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::codebook::{DeviceCodebooks, unpack};
use syncline_papers::codebook::{BlockBuilder, fits};
use syncline_papers::reduce_shuffle_merge_2021::histogram::Histogram;

const ALPHABETS: [u32; 9] = [1, 2, 3, 31, 256, 257, 1000, 1024, 4096];

impl TestBuilder for BlockBuilder {
    fn new(device: &Device, symbols: u32) -> Result<Self> {
        Self::new(device, symbols)
    }

    fn launch(&self, frame: &mut Frame<'_>, counts: &CudaView<'_, u64>, codebooks: &mut DeviceCodebooks) -> Result<()> {
        self.launch(frame, counts, codebooks)
    }
}

fn device() -> Option<&'static Device> {
    common::device_with(&syncline_papers::HEADERS)
}

/// Returns the alphabets whose codebooks fit a block of this device.
fn alphabets(device: &Device) -> Vec<u32> {
    ALPHABETS.into_iter().filter(|&symbols| fits(symbols, device.info().shared_memory_per_block)).collect()
}

#[test]
fn codebooks_equal_the_cpus() {
    let Some(device) = device() else { return };
    codebooks::codebooks_equal_the_cpus::<BlockBuilder>(device, &alphabets(device));
    codebooks::codebooks_of_equal_counts_equal_the_cpus::<BlockBuilder>(device);
}

#[test]
fn few_codebooks_equal_the_cpus() {
    let Some(device) = device() else { return };
    codebooks::check_batches::<BlockBuilder>(device, &[(3, 20), (1000, 9), (1024, 5), (1024, pick(40, 10))]);
}

#[test]
fn many_codebooks_equal_the_cpus() {
    let Some(device) = device() else { return };
    codebooks::check_batches::<BlockBuilder>(device, &[(256, pick(300, 140)), (1024, pick(150, 135))]);
}

#[test]
fn limited_codebooks_equal_the_cpus() {
    let Some(device) = device() else { return };
    codebooks::check_limited::<BlockBuilder>(device, &ALPHABETS[..8], Share::one_in(11));
}

#[test]
fn limited_codebooks_of_4096_equal_the_cpus() {
    let Some(device) = device() else { return };
    let large: Vec<u32> = alphabets(device).into_iter().filter(|&symbols| symbols == 4096).collect();
    codebooks::check_limited::<BlockBuilder>(device, &large, Share::one_in(11).if_tiny(37, 15));
}

#[test]
fn random_codebooks_equal_the_cpus() {
    let Some(device) = device() else { return };
    codebooks::random_codebooks_equal_the_cpus::<BlockBuilder>(device, &alphabets(device));
}

/// The histogram's result is passed on the device.
#[test]
fn histogram_feeds_the_codebook() {
    let Some(device) = device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let input = common::symbols(common::Spread::Geometric(0.4), 1024, pick(2_000_000, 50_000), 9);
    let on_device = stream.clone_htod(&input).unwrap();
    let histogram = Histogram::<u16>::new(device, 1024).unwrap();
    let builder = BlockBuilder::new(device, 1024).unwrap();
    let mut codebook = DeviceCodebooks::new(&stream, 1024, 1).unwrap();
    {
        let mut frame = arena.frame().unwrap();
        let mut counts = frame.slice::<u64>(histogram.counts_len()).unwrap();
        histogram.launch(&stream, &on_device.as_view(), &mut counts).unwrap();
        builder.launch(&mut frame, &counts.as_view(), &mut codebook).unwrap();
    }
    let mut counts = vec![0_u32; 1024];
    input.iter().for_each(|&symbol| counts[usize::from(symbol)] += 1);
    let mut lengths = Vec::new();
    code_lengths(&counts, &mut LengthScratch::default(), &mut lengths);
    lengths.resize(1024, 0);
    let codewords = stream.clone_dtoh(&codebook.codewords()).unwrap();
    assert!(codewords.iter().map(|&codeword| unpack(codeword).0 as u8).eq(lengths));
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = device() else { return };
    assert!(BlockBuilder::new(device, 0).is_err());
    assert!(BlockBuilder::new(device, 65_536).is_err(), "does not fit a block");
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let mut frame = arena.frame().unwrap();
    let builder = BlockBuilder::new(device, 256).unwrap();
    let counts = stream.alloc_zeros::<u64>(256).unwrap();
    let mut codebook = DeviceCodebooks::new(&stream, 256, 1).unwrap();
    assert!(builder.launch(&mut frame, &counts.slice(..255), &mut codebook).is_err());
}
