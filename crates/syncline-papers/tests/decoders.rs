//! The published decoders and their improved forms on streams that the CPU has written: data with edge cases, several
//! streams per launch, damaged streams.

#[path = "../../syncline-cuda/tests/common/mod.rs"]
mod common;
#[path = "../../syncline-cuda/tests/common/decoders.rs"]
mod decoders;

use cudarc::driver::DeviceRepr;
use decoders::{Named, TestDecoder, cases};
use syncline_core::huffman::{IndexKind, Stream, Symbol};
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::decode::Decoding;
use syncline_papers::cusz_2020::CuSz2020;
use syncline_papers::decode::{Gap, SelfSync, SubsequenceTuning};
use syncline_papers::gap_array::{GapArrays, of_stream};
use syncline_papers::gap_array_2020::GapArray2020;
use syncline_papers::gap_array_2022::GapArray2022;
use syncline_papers::self_sync_2018::SelfSync2018;
use syncline_papers::self_sync_2022::SelfSync2022;
use syncline_papers::shared_memory_tuning_2022::BufferSize;

fn device() -> Option<&'static Device> {
    common::device_with(&syncline_papers::HEADERS)
}

/// A decoder of any kind.
enum AnyDecoder<S> {
    CuSz2020(CuSz2020<S>),
    Gap(Gap<S>),
    GapArray2020(GapArray2020<S>),
    GapArray2022(GapArray2022<S>),
    SelfSync(SelfSync<S>),
    SelfSync2018(SelfSync2018<S>),
    SelfSync2022(SelfSync2022<S>),
}

impl<S: Symbol + DeviceRepr> TestDecoder<S> for AnyDecoder<S> {
    fn reads(&self, index: IndexKind, codebooks: usize) -> bool {
        match self {
            Self::CuSz2020(_) => true,
            // The decoders ignore the index.
            _ => index == IndexKind::None && codebooks <= 1,
        }
    }

    fn launch(
        &self,
        arena: &mut Arena,
        decoding: Decoding<'_, '_, S>,
        streams: &[(&Stream<'_, S>, &[S])],
    ) -> syncline_cuda::Result<()> {
        let arrays: Vec<Vec<u8>> = match self {
            Self::Gap(_) | Self::GapArray2020(_) | Self::GapArray2022(_) => {
                streams.iter().map(|(stream, symbols)| of_stream(stream, symbols)).collect()
            }
            _ => Vec::new(),
        };
        let gaps = GapArrays::new(arena.stream(), &arrays)?;
        let mut frame = arena.frame()?;
        match self {
            Self::CuSz2020(d) => d.launch(&mut frame, decoding),
            Self::Gap(d) => d.launch(&mut frame, decoding, &gaps),
            Self::GapArray2020(d) => d.launch(&mut frame, decoding, &gaps),
            Self::GapArray2022(d) => d.launch(&mut frame, decoding, &gaps),
            Self::SelfSync(d) => d.launch(&mut frame, decoding),
            Self::SelfSync2018(d) => d.launch(&mut frame, decoding),
            Self::SelfSync2022(d) => d.launch(&mut frame, decoding),
        }
    }
}

/// Returns the decoders that read gap arrays.
fn by_gaps<S: Symbol + DeviceRepr>(device: &Device, group_log2: u32) -> Vec<Named<S>> {
    let several_rounds = SubsequenceTuning { threads: 64, blocks: 1, room: Some(192) };
    let gap_2022 = |buffer| AnyDecoder::GapArray2022(GapArray2022::new(device, group_log2, buffer).unwrap());
    let all = [
        ("gap", AnyDecoder::Gap(Gap::new(device, group_log2).unwrap())),
        ("gap, several rounds", AnyDecoder::Gap(Gap::with_tuning(device, group_log2, several_rounds).unwrap())),
        ("gap_array_2020", AnyDecoder::GapArray2020(GapArray2020::new(device, group_log2).unwrap())),
        ("gap_array_2022", gap_2022(BufferSize::Classes { blocks: 1 })),
        ("gap_array_2022, small buffer", gap_2022(BufferSize::Fixed { bytes: 1000 })),
    ];
    all.into_iter().map(|(name, decoder)| -> Named<S> { (name, Box::new(decoder)) }).collect()
}

/// Returns the decoders that need no index.
fn without_index<S: Symbol + DeviceRepr>(device: &Device, group_log2: u32) -> Vec<Named<S>> {
    let by_class = BufferSize::Classes { blocks: 2 };
    let all = [
        ("cusz_2020", AnyDecoder::CuSz2020(CuSz2020::new(device, group_log2).unwrap())),
        ("self-sync", AnyDecoder::SelfSync(SelfSync::new(device, group_log2).unwrap())),
        ("self_sync_2018", AnyDecoder::SelfSync2018(SelfSync2018::new(device, group_log2).unwrap())),
        ("self_sync_2022", AnyDecoder::SelfSync2022(SelfSync2022::new(device, group_log2, by_class).unwrap())),
    ];
    all.into_iter().map(|(name, decoder)| -> Named<S> { (name, Box::new(decoder)) }).collect()
}

fn decoders<S: Symbol + DeviceRepr>(device: &Device, group_log2: u32) -> Vec<Named<S>> {
    by_gaps(device, group_log2).into_iter().chain(without_index(device, group_log2)).collect()
}

fn round_trips<S: Symbol + DeviceRepr>(bits: u32, group_log2: u8, of: fn(&Device, u32) -> Vec<Named<S>>) {
    let Some(device) = device() else { return };
    decoders::round_trips::<S>(device, &cases(bits, group_log2), of(device, group_log2.into()));
}

#[test]
fn bytes_in_groups_of_64() {
    round_trips::<u8>(8, 6, decoders);
}

#[test]
fn bytes_in_groups_of_128() {
    round_trips::<u8>(8, 7, decoders);
}

#[test]
fn ten_bits_in_groups_of_64() {
    round_trips::<u16>(10, 6, decoders);
}

#[test]
fn ten_bits_in_groups_of_128() {
    round_trips::<u16>(10, 7, decoders);
}

#[test]
fn sixteen_bits_by_gaps_in_groups_of_64() {
    round_trips::<u16>(16, 6, by_gaps);
}

#[test]
fn sixteen_bits_by_gaps_in_groups_of_128() {
    round_trips::<u16>(16, 7, by_gaps);
}

#[test]
fn sixteen_bits_without_an_index_in_groups_of_64() {
    round_trips::<u16>(16, 6, without_index);
}

#[test]
fn sixteen_bits_without_an_index_in_groups_of_128() {
    round_trips::<u16>(16, 7, without_index);
}

#[test]
fn long_runs_of_one_symbol() {
    let Some(device) = device() else { return };
    decoders::long_runs::<u8>(device, 8, decoders(device, 7));
    decoders::long_runs::<u16>(device, 16, decoders(device, 7));
}

#[test]
fn small_streams() {
    let Some(device) = device() else { return };
    decoders::small_streams(device, &decoders(device, 7));
}

#[test]
fn batches_of_several_streams() {
    let Some(device) = device() else { return };
    decoders::batches_of_several_streams(device, &decoders(device, 7));
}

#[test]
fn damage_is_reported() {
    let Some(device) = device() else { return };
    decoders::damage_is_reported(device, decoders);
}

#[test]
fn wrong_group_sizes_are_refused() {
    let Some(device) = device() else { return };
    assert!(CuSz2020::<u8>::new(device, 8).is_err() && Gap::<u16>::new(device, 5).is_err());
    assert!(SelfSync::<u16>::new(device, 5).is_err());
}
