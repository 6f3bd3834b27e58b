//! The indexed decoder on streams that the CPU has written: data with edge cases, several streams per launch, damaged
//! streams.

mod common;
#[path = "common/decoders.rs"]
mod decoders;

use cudarc::driver::DeviceRepr;
use decoders::{Case, Named, TestDecoder, cases};
use syncline_core::huffman::{EncodeOptions, IndexKind, Stream, Symbol};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::decode::{Batch, BatchStream, Decoding, Indexed, IndexedTuning};

impl<S: Symbol + DeviceRepr> TestDecoder<S> for Indexed<S> {
    fn reads(&self, index: IndexKind, _codebooks: usize) -> bool {
        index == IndexKind::Symbol
    }

    fn launch(
        &self,
        arena: &mut Arena,
        decoding: Decoding<'_, '_, S>,
        _streams: &[(&Stream<'_, S>, &[S])],
    ) -> syncline_cuda::Result<()> {
        self.launch(&mut arena.frame()?, decoding)
    }
}

/// Returns the decoder with several launch parameters.
fn decoders<S: Symbol + DeviceRepr>(device: &Device, group_log2: u32) -> Vec<Named<S>> {
    let small_buffers =
        IndexedTuning { threads: Some(128), waves: 2, staged_percent: 10, row_bytes: Some(64), pairs: Some(true) };
    let single_symbols = IndexedTuning { row_bytes: Some(128), pairs: Some(false), ..IndexedTuning::default() };
    let tunings = [
        ("indexed", IndexedTuning::default()),
        ("indexed, small buffers", small_buffers),
        ("indexed, single symbols", single_symbols),
    ];
    let with = |(name, tuning)| -> Named<S> {
        (name, Box::new(Indexed::<S>::with_tuning(device, group_log2, tuning).unwrap()))
    };
    tunings.map(with).into()
}

fn round_trips<S: Symbol + DeviceRepr>(bits: u32, group_log2: u8) {
    let Some(device) = common::device() else { return };
    decoders::round_trips::<S>(device, &cases(bits, group_log2), decoders(device, group_log2.into()));
}

#[test]
fn bytes_in_groups_of_64() {
    round_trips::<u8>(8, 6);
}

#[test]
fn bytes_in_groups_of_128() {
    round_trips::<u8>(8, 7);
}

#[test]
fn ten_bits_in_groups_of_64() {
    round_trips::<u16>(10, 6);
}

#[test]
fn ten_bits_in_groups_of_128() {
    round_trips::<u16>(10, 7);
}

#[test]
fn sixteen_bits_in_groups_of_64() {
    round_trips::<u16>(16, 6);
}

#[test]
fn sixteen_bits_in_groups_of_128() {
    round_trips::<u16>(16, 7);
}

#[test]
fn long_runs_of_one_symbol() {
    let Some(device) = common::device() else { return };
    decoders::long_runs::<u8>(device, 8, decoders(device, 7));
    decoders::long_runs::<u16>(device, 16, decoders(device, 7));
}

#[test]
fn small_streams() {
    let Some(device) = common::device() else { return };
    decoders::small_streams(device, &decoders(device, 7));
}

#[test]
fn batches_of_several_streams() {
    let Some(device) = common::device() else { return };
    decoders::batches_of_several_streams(device, &decoders(device, 7));
}

#[test]
fn damage_is_reported() {
    let Some(device) = common::device() else { return };
    decoders::damage_is_reported(device, decoders);
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    assert!(Indexed::<u16>::new(device, 5).is_err() && Indexed::<u8>::new(device, 8).is_err());
    let options = EncodeOptions { index: IndexKind::Symbol, ..EncodeOptions::default() };
    let case = Case::new("small", common::symbols(common::Spread::Flat, 256, 1280, 1), vec![], &options);
    let parsed = Stream::<u16>::parse(&case.bytes, "test").unwrap();
    let place = BatchStream { stream: &parsed, input_offset: 0, output_offset: 0, classes_offset: 0 };
    assert!(Batch::new(&stream, &[BatchStream { input_offset: 8, ..place }]).is_err(), "misaligned");
    assert!(Batch::new(&stream, &[place, BatchStream { output_offset: 64, ..place }]).is_err(), "overlapping");
    let batch = Batch::new(&stream, &[place]).unwrap();
    assert_eq!((batch.streams(), batch.output_len(), batch.classes_len()), (1, 1280, 0));
    let mut attempt = |decoder: &Indexed<u16>, input: usize, output: usize, statuses: usize| {
        let mut bytes = case.bytes.clone();
        bytes.truncate(input);
        let (bytes, classes) = (stream.clone_htod(&bytes).unwrap(), stream.alloc_zeros::<u8>(1).unwrap());
        let mut symbols = stream.alloc_zeros::<u16>(output).unwrap();
        let mut status = stream.alloc_zeros::<u32>(statuses).unwrap();
        let work = Decoding {
            input: &bytes.as_view(),
            classes: &classes.as_view(),
            batch: &batch.as_view(),
            output: &mut symbols.as_view_mut(),
            status: &mut status.as_view_mut(),
        };
        decoder.launch(&mut arena.frame().unwrap(), work)
    };
    let indexed = Indexed::<u16>::new(device, 7).unwrap();
    let whole = case.bytes.len();
    assert!(attempt(&indexed, whole, 1280, 1).is_ok());
    assert!(attempt(&indexed, whole - 1, 1280, 1).is_err());
    assert!(attempt(&indexed, whole, 1279, 1).is_err());
    assert!(attempt(&indexed, whole, 1280, 2).is_err());
    assert!(attempt(&Indexed::new(device, 6).unwrap(), whole, 1280, 1).is_err());
}
