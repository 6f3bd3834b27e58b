//! Encodes groups of codes as token streams: launchers of `kernels/token_codes/encode.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::bits::reader::BitWords;
use syncline_core::tokens::GROUP_LEN;

use super::codebooks::{Head, StreamPart, TokenCodebooks};
use super::structs::{ChunkCodebooks, TokenGroups, TokenLayout, TokenSizes};
use crate::device::{Device, Frame, Grid, fetch};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::huffman::codebook::CODE_BITS;
use crate::huffman::encode::NO_OFFSET;
use crate::quantize::TileCodes;

declare_kernels! {
    /// The kernels of `kernels/token_codes/encode.cu`.
    pub(super) struct EncodeKernels in "token_codes/encode.cu" {
        const THREADS: u32 = 256;
        /// Threads of a block that lays out all of a stream.
        const LAY_OUT_THREADS: u32 = 1024;
        with CODE_BITS = CODE_BITS;
        fn token_codes_sizes(
            from: TokenGroups, codebooks: In<ChunkCodebooks>, tables: CUdeviceptr as "const uint32_t *",
            sizes: Out<u32>,
        );
        fn token_codes_lay_out(from: TokenGroups, sizes: In<u32>, layout: TokenLayout);
        fn token_codes_write(
            from: TokenGroups, codebooks: In<ChunkCodebooks>, tables: CUdeviceptr as "const uint32_t *",
            layout: TokenLayout, places: In<u64>, output: Out<u8>,
        );
    }
}
/// Warps of a block, each with a group.
const WARPS: u32 = THREADS / 32;
/// Words of the index for each block of 32 live groups: a descriptor, and lengths of at most 14 bits.
const INDEX_WORDS_OF_BLOCK: usize = 2 + 14;

/// A token stream that is laid out.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamLayout {
    /// Header, and codebooks unless they are parts.
    pub head: Vec<u8>,
    pub parts: Vec<StreamPart>,
    /// Offset of the codewords.
    pub words_at: u64,
    /// Length of the stream.
    pub bytes: u64,
}

/// The streams of a batch between layout and writing.
pub(crate) struct LaidOutTokens<'a> {
    pub streams: Vec<StreamLayout>,
    groups: TokenGroups,
    layout: TokenLayout,
    codebooks: CudaViewMut<'a, ChunkCodebooks>,
    tables: CUdeviceptr,
    /// The largest number of live groups of a stream.
    most_live: u32,
}

/// Encodes token streams.
#[derive(Debug)]
pub(crate) struct TokenCodeEncoder {
    kernels: EncodeKernels,
}

impl TokenCodeEncoder {
    /// Loads the kernels for this device.
    pub fn new(device: &Device) -> Result<Self> {
        EncodeKernels::load(device).map(|kernels| Self { kernels })
    }

    /// Lays out a stream for each chunk. `classes` has the class of each bin of activity of each chunk. Waits for the
    /// device. The codes must not change until the streams are written.
    pub fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        tiles: &TileCodes<'_>,
        classes: &CudaView<'_, u8>,
        codebooks: TokenCodebooks<'a>,
    ) -> Result<LaidOutTokens<'a>> {
        let stream = frame.stream().clone();
        let (chunks, slots) = (tiles.streams as usize, tiles.slots as usize);
        let places = chunks * slots;
        if codebooks.streams() != chunks || tiles.groups.len() < places || tiles.codes.len() < places * GROUP_LEN {
            return Err(CudaError::invalid("every chunk needs groups and codebooks"));
        }
        let (bitmap_words, class_words) = (slots.div_ceil(32), slots.div_ceil(16));
        let index_words = slots.div_ceil(32) * INDEX_WORDS_OF_BLOCK;
        let mut sizes = frame.slice::<u32>(places)?;
        let mut of_streams = frame.slice::<TokenSizes>(chunks)?;
        let layout = TokenLayout {
            sizes: of_streams.device_ptr_mut(&stream).0,
            starts: frame.slice::<u32>(chunks * (slots + 1))?.device_ptr_mut(&stream).0,
            live_slots: frame.slice::<u32>(places)?.device_ptr_mut(&stream).0,
            bitmaps: frame.zeros::<u32>(chunks * bitmap_words)?.device_ptr_mut(&stream).0,
            classes: frame.zeros::<u32>(chunks * class_words)?.device_ptr_mut(&stream).0,
            index: frame.slice::<u32>(chunks * index_words)?.device_ptr_mut(&stream).0,
            bitmap_words: bitmap_words as u32,
            class_words: class_words as u32,
            index_words: index_words as u32,
            unused: 0,
        };
        let groups = TokenGroups {
            codes: tiles.codes.device_ptr(&stream).0,
            groups: tiles.groups.device_ptr(&stream).0,
            classes: classes.device_ptr(&stream).0,
            slots: tiles.slots,
            chunks: tiles.streams,
        };
        let codebook_view = codebooks.listed.as_view();
        let grid = Grid::new((places as u32).div_ceil(WARPS), THREADS);
        // SAFETY: there are 256 codes for each group, codebooks for each chunk, and a table entry for each symbol of
        // each codebook's mode, which represents the codes of its groups.
        unsafe {
            launch!(self.kernels.token_codes_sizes on &stream, grid; groups, &codebook_view, codebooks.tables,
                &mut sizes)
        }?;
        // SAFETY: each array of the layout has the room that a chunk of `slots` live groups takes; bitmaps and classes
        // are 0.
        unsafe {
            launch!(self.kernels.token_codes_lay_out on &stream, Grid::new(tiles.streams, LAY_OUT_THREADS); groups,
                &sizes, layout)
        }?;
        let sizes = fetch(&stream, &of_streams, "reading sizes")?;
        let heads = codebooks.heads(frame, &sizes)?;
        let streams = (0..).zip(sizes.iter().zip(heads));
        let streams = streams.map(|(chunk, (sizes, head))| StreamLayout::new(chunk, sizes, head, &layout)).collect();
        let most_live = sizes.iter().map(|sizes| sizes.live_groups).max().unwrap_or(0);
        Ok(LaidOutTokens { streams, groups, layout, codebooks: codebooks.listed, tables: codebooks.tables, most_live })
    }

    /// Writes the codewords of each chunk from its place in the output on, if it has one. The output must be 0 there,
    /// and have room for the words of the chunk's layout.
    pub fn write(
        &self,
        frame: &mut Frame<'_>,
        laid_out: &LaidOutTokens<'_>,
        places: &[Option<u64>],
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let fits = |(place, layout): (&Option<u64>, &StreamLayout)| {
            place.is_none_or(|place| place + layout.bytes - layout.words_at <= output.len() as u64 && place % 4 == 0)
        };
        if places.len() != laid_out.streams.len() || !places.iter().zip(&laid_out.streams).all(fits) {
            return Err(CudaError::invalid("the output has no room for the token streams"));
        }
        if laid_out.most_live == 0 {
            return Ok(());
        }
        let places: Vec<u64> = places.iter().map(|place| place.unwrap_or(NO_OFFSET)).collect();
        let places = frame.upload(&places)?;
        let (places, codebooks) = (places.as_view(), laid_out.codebooks.as_view());
        let grid = Grid::new(laid_out.most_live.div_ceil(WARPS), THREADS).rows(laid_out.groups.chunks);
        // SAFETY: `lay_out` allocated and filled what they refer to, in memory of the same arena's frame. The words of
        // a stream end where its layout says, for which the output has room, as checked above.
        unsafe {
            launch!(self.kernels.token_codes_write on &stream, grid; laid_out.groups, &codebooks, laid_out.tables,
                laid_out.layout, &places, output)
        }
    }
}

impl StreamLayout {
    fn new(chunk: u64, sizes: &TokenSizes, head: Head, layout: &TokenLayout) -> Self {
        let &TokenSizes { groups, live_groups, bits, index_words } = sizes;
        let Head { bytes: head, codebooks: mut parts, end: mut at, has_classes } = head;
        let mut part = |from: CUdeviceptr, words: u32, bytes: u64, alignment: u64, at: &mut u64| {
            *at = at.next_multiple_of(alignment);
            parts.push(StreamPart { from: from + 4 * chunk * u64::from(words), at: *at, bytes });
            *at += bytes;
        };
        if live_groups < groups {
            part(layout.bitmaps, layout.bitmap_words, u64::from(groups).div_ceil(8), 1, &mut at);
        }
        if has_classes {
            part(layout.classes, layout.class_words, u64::from(live_groups).div_ceil(4), 1, &mut at);
        }
        part(layout.index, layout.index_words, 4 * u64::from(index_words), 8, &mut at);
        let words_at = at.next_multiple_of(16);
        Self { head, parts, words_at, bytes: words_at + BitWords::byte_len(bits) }
    }
}
