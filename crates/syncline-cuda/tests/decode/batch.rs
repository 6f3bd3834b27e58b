//! Runs any decoder on batches of streams whose surroundings are filled with a pattern.

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{EncodeOptions, EncodeScratch, IndexKind, Stream, Symbol, encode};
use syncline_cuda::baselines::cusz_2020::CuSz2020;
use syncline_cuda::baselines::gap_array_2020::GapArray2020;
use syncline_cuda::baselines::gap_array_2022::GapArray2022;
use syncline_cuda::baselines::self_sync_2018::SelfSync2018;
use syncline_cuda::baselines::self_sync_2022::SelfSync2022;
use syncline_cuda::baselines::shared_memory_tuning_2022::BufferSize;
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::decode::{
    Batch, BatchStream, Decoding, Gap, Indexed, IndexedTuning, SelfSync, SubsequenceTuning,
};

/// A decoder of any kind.
pub enum AnyDecoder<S> {
    Indexed(Indexed<S>),
    Gap(Gap<S>),
    SelfSync(SelfSync<S>),
    CuSz2020(CuSz2020<S>),
    SelfSync2018(SelfSync2018<S>),
    GapArray2020(GapArray2020<S>),
    SelfSync2022(SelfSync2022<S>),
    GapArray2022(GapArray2022<S>),
}

impl<S: Symbol + DeviceRepr> AnyDecoder<S> {
    /// Returns every decoder, with several launch parameters, for a group size.
    pub fn all(device: &Device, group_log2: u32) -> Vec<(&'static str, Self)> {
        let small_buffers =
            IndexedTuning { threads: Some(128), waves: 2, staged_percent: 10, row_bytes: Some(64), pairs: Some(true) };
        let single_symbols = IndexedTuning { row_bytes: Some(128), pairs: Some(false), ..IndexedTuning::default() };
        let several_rounds = SubsequenceTuning { threads: 64, blocks: 1, room: Some(192) };
        let indexed = |tuning| Self::Indexed(Indexed::with_tuning(device, group_log2, tuning).unwrap());
        let gap_2022 = |buffer| Self::GapArray2022(GapArray2022::new(device, group_log2, buffer).unwrap());
        let by_class = |blocks| BufferSize::Classes { blocks };
        vec![
            ("cusz_2020", Self::CuSz2020(CuSz2020::new(device, group_log2).unwrap())),
            ("indexed", Self::Indexed(Indexed::new(device, group_log2).unwrap())),
            ("indexed, small buffers", indexed(small_buffers)),
            ("indexed, single symbols", indexed(single_symbols)),
            ("gap", Self::Gap(Gap::new(device, group_log2).unwrap())),
            ("gap, several rounds", Self::Gap(Gap::with_tuning(device, group_log2, several_rounds).unwrap())),
            ("gap_array_2020", Self::GapArray2020(GapArray2020::new(device, group_log2).unwrap())),
            ("gap_array_2022", gap_2022(by_class(1))),
            ("gap_array_2022, small buffer", gap_2022(BufferSize::Fixed { bytes: 1000 })),
            ("self_sync_2022", Self::SelfSync2022(SelfSync2022::new(device, group_log2, by_class(2)).unwrap())),
            ("self-sync", Self::SelfSync(SelfSync::new(device, group_log2).unwrap())),
            ("self_sync_2018", Self::SelfSync2018(SelfSync2018::new(device, group_log2).unwrap())),
        ]
    }

    /// Returns whether the decoder reads streams with this index and this number of codebooks.
    pub fn reads(&self, index: IndexKind, codebooks: usize) -> bool {
        match self {
            Self::CuSz2020(_) => true,
            Self::Indexed(_) => index == IndexKind::Symbol,
            Self::Gap(_) | Self::GapArray2020(_) | Self::GapArray2022(_) => index == IndexKind::Gap,
            Self::SelfSync(_) | Self::SelfSync2018(_) | Self::SelfSync2022(_) => codebooks <= 1,
        }
    }

    /// Returns whether the decoder needs an index.
    pub fn needs_index(&self) -> bool {
        !self.reads(IndexKind::None, 1)
    }

    pub fn launch(&self, arena: &mut Arena, decoding: Decoding<'_, '_, S>) -> syncline_cuda::Result<()> {
        let mut frame = arena.frame().unwrap();
        match self {
            Self::Indexed(d) => d.launch(&mut frame, decoding),
            Self::Gap(d) => d.launch(&mut frame, decoding),
            Self::SelfSync(d) => d.launch(&mut frame, decoding),
            Self::CuSz2020(d) => d.launch(&mut frame, decoding),
            Self::SelfSync2018(d) => d.launch(&mut frame, decoding),
            Self::GapArray2020(d) => d.launch(&mut frame, decoding),
            Self::SelfSync2022(d) => d.launch(&mut frame, decoding),
            Self::GapArray2022(d) => d.launch(&mut frame, decoding),
        }
    }
}

/// Number of symbols after each output that must not be written.
pub const GUARD: usize = 256;

/// A stream, its symbols and classes.
pub struct Case<S> {
    pub what: String,
    pub symbols: Vec<S>,
    pub classes: Vec<u8>,
    pub bytes: Vec<u8>,
    /// The bytes on the device; differ from `bytes` if the stream is damaged.
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

/// Decodes the cases as one batch. Returns the status and symbols of each.
pub fn decode<S: Symbol + DeviceRepr>(
    arena: &mut Arena,
    decoder: &AnyDecoder<S>,
    cases: &[&Case<S>],
) -> Vec<(u32, Vec<S>)> {
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
    // Without padding: the last stream ends with the buffer.
    let last = parsed.last().map_or(48, |s| places[places.len() - 1].input_offset as usize + s.byte_len());
    input.truncate(last);
    let batch = Batch::new(&stream, &places).unwrap();
    let input = stream.clone_htod(&input).unwrap();
    classes.push(0);
    let classes = stream.clone_htod(&classes).unwrap();
    let mut output = stream.clone_htod(&vec![poison; room.max(1)]).unwrap();
    let mut status = stream.clone_htod(&vec![u32::MAX; cases.len()]).unwrap();
    let decoding = Decoding {
        input: &input.as_view(),
        classes: &classes.as_view(),
        batch: &batch.as_view(),
        output: &mut output.as_view_mut(),
        status: &mut status.as_view_mut(),
    };
    decoder.launch(arena, decoding).unwrap();
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
