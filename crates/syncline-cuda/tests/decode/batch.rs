//! Any decoder on batches of streams, what they are in and around poisoned.

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{EncodeOptions, EncodeScratch, IndexKind, Stream, Symbol, encode};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::decode::{
    Batch, BatchStream, Chunked, Decoding, Gap, Indexed, IndexedTuning, Room, SelfSync, SelfSyncTuning, SpansTuning,
    Writing,
};

/// A decoder of any kind.
pub enum Any<S> {
    Chunked(Chunked<S>),
    Indexed(Indexed<S>),
    Gap(Gap<S>),
    SelfSync(SelfSync<S>),
}

impl<S: Symbol + DeviceRepr> Any<S> {
    /// Every decoder, in its variants, for a group size.
    pub fn all(device: &Device, group_log2: u32) -> Vec<(&'static str, Self)> {
        let unstaged =
            IndexedTuning { threads: Some(128), waves: 2, staged_percent: 10, row_bytes: Some(64), pairs: Some(true) };
        let one_by_one = IndexedTuning { row_bytes: Some(128), pairs: Some(false), ..IndexedTuning::default() };
        let tight = SpansTuning { threads: 64, blocks: 1, room: Some(192) };
        let classes = Writing::Tuned(Room::Classes { blocks: 2 });
        let classes = SelfSyncTuning { writing: classes, ..SelfSyncTuning::default() };
        let gap = |writing| Self::Gap(Gap::with_writing(device, group_log2, writing).unwrap());
        vec![
            ("chunked", Self::Chunked(Chunked::new(device, group_log2).unwrap())),
            ("indexed", Self::Indexed(Indexed::new(device, group_log2).unwrap())),
            ("indexed, unstaged", Self::Indexed(Indexed::with_tuning(device, group_log2, unstaged).unwrap())),
            ("indexed, one by one", Self::Indexed(Indexed::with_tuning(device, group_log2, one_by_one).unwrap())),
            ("gap", Self::Gap(Gap::new(device, group_log2).unwrap())),
            ("gap, as published", gap(Writing::Published)),
            ("gap, in rounds", gap(Writing::Spans(tight))),
            ("gap, by class", gap(Writing::Tuned(Room::Classes { blocks: 1 }))),
            ("gap, little room", gap(Writing::Tuned(Room::Fixed { bytes: 1000 }))),
            ("self-sync, by class", Self::SelfSync(SelfSync::with_tuning(device, group_log2, classes).unwrap())),
            ("self-sync", Self::SelfSync(SelfSync::new(device, group_log2).unwrap())),
            (
                "self-sync, as published",
                Self::SelfSync(SelfSync::with_tuning(device, group_log2, SelfSyncTuning::published()).unwrap()),
            ),
        ]
    }

    /// Whether it reads streams with this index and so many codebooks.
    pub fn reads(&self, index: IndexKind, codebooks: usize) -> bool {
        match self {
            Self::Chunked(_) => true,
            Self::Indexed(_) => index == IndexKind::Symbol,
            Self::Gap(_) => index == IndexKind::Gap,
            Self::SelfSync(_) => codebooks <= 1,
        }
    }

    pub fn launch(&self, arena: &mut Arena, work: Decoding<'_, '_, S>) -> syncline_cuda::Result<()> {
        let mut frame = arena.frame().unwrap();
        match self {
            Self::Chunked(d) => d.launch(&mut frame, work),
            Self::Indexed(d) => d.launch(&mut frame, work),
            Self::Gap(d) => d.launch(&mut frame, work),
            Self::SelfSync(d) => d.launch(&mut frame, work),
        }
    }
}

/// Symbols behind and between outputs that nothing may write.
pub const GUARD: usize = 256;

/// Some streams, their symbols and classes.
pub struct Case<S> {
    pub what: String,
    pub symbols: Vec<S>,
    pub classes: Vec<u8>,
    pub bytes: Vec<u8>,
    /// What the device gets; differs from `bytes` if damaged.
    pub on_device: Vec<u8>,
}

impl<S: Symbol> Case<S> {
    pub fn new(what: &str, symbols: Vec<S>, classes: Vec<u8>, options: &EncodeOptions) -> Self {
        let mut bytes = Vec::new();
        encode(&symbols, &classes, options, &mut EncodeScratch::default(), &mut bytes);
        let what = format!("{what}, {} bytes a symbol, {options:?}", S::BYTES);
        Self { what, symbols, classes, on_device: bytes.clone(), bytes }
    }
}

/// Decodes the cases as one batch; for each its status, and its symbols.
pub fn decode<S: Symbol + DeviceRepr>(arena: &mut Arena, decoder: &Any<S>, cases: &[&Case<S>]) -> Vec<(u32, Vec<S>)> {
    let poison = S::truncate(0x5a5a);
    let stream = arena.stream().clone();
    let parsed: Vec<_> = cases.iter().map(|case| Stream::<S>::parse(&case.bytes, "test").unwrap()).collect();
    let (mut input, mut classes, mut places, mut room) = (vec![0xa5_u8; 48], Vec::new(), Vec::new(), 0);
    for (case, stream) in cases.iter().zip(&parsed) {
        let place = BatchStream {
            stream,
            input_offset: input.len() as u64,
            output_offset: room as u64,
            classes_offset: classes.len() as u64,
        };
        places.push(place);
        input.extend_from_slice(&case.on_device);
        input.resize(input.len().next_multiple_of(16), 0xa5);
        classes.extend_from_slice(&case.classes);
        room += case.symbols.len() + GUARD;
    }
    // Not rounded: the last stream ends with the buffer.
    let last = parsed.last().map_or(48, |s| places[places.len() - 1].input_offset as usize + s.byte_len());
    input.truncate(last);
    let batch = Batch::new(&stream, &places).unwrap();
    let input = stream.clone_htod(&input).unwrap();
    classes.push(0);
    let classes = stream.clone_htod(&classes).unwrap();
    let mut output = stream.clone_htod(&vec![poison; room.max(1)]).unwrap();
    let mut status = stream.clone_htod(&vec![u32::MAX; cases.len()]).unwrap();
    let work = Decoding {
        input: &input.as_view(),
        classes: &classes.as_view(),
        batch: &batch.as_view(),
        output: &mut output.as_view_mut(),
        status: &mut status.as_view_mut(),
    };
    decoder.launch(arena, work).unwrap();
    let output = stream.clone_dtoh(&output).unwrap();
    let status = stream.clone_dtoh(&status).unwrap();
    cases
        .iter()
        .zip(&places)
        .zip(status)
        .map(|((case, place), status)| {
            let start = place.output_offset as usize;
            let end = start + case.symbols.len();
            assert!(output[end..end + GUARD].iter().all(|&s| s == poison), "{}: written past its end", case.what);
            (status, output[start..end].to_vec())
        })
        .collect()
}
