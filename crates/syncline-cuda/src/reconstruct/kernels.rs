//! The kernels of reconstruction.

use super::structs::{Cut, Request, Values};
use super::{
    APART_THREADS, CODES_THREADS, FUSED_THREADS, Format, LARGE_TILES_RESIDENT, LARGE_TILES_THREADS, LIVE_COST,
    START_COST, TOKEN_CODES_THREADS, strips,
};
use crate::container::structs::{BatchFinish, ParsedArgument};
use crate::device_kernels::{Constant, In, Out, declare_kernels};
use crate::geometry::DeviceGeometry;
use crate::huffman::decode::structs::{CodebookDescriptor, StreamDescriptor};
use crate::huffman::decode::{PAIRED_SHARE, SINGLE_LONG_ENTRIES, code_constants};
use crate::predict::structs::Plans;

impl Constant for Format {
    fn add_to(self, _: &'static str, constants: &mut Vec<(&'static str, u64)>) {
        self.axes.add_to("AXES", constants);
        self.group_log2.add_to("GROUP_LOG2", constants);
        self.double.add_to("DOUBLE", constants);
        self.logarithm.add_to("LOG", constants);
    }
}

declare_kernels! {
    /// The kernel of `kernels/reconstruct/reconstruct.cu` that decodes.
    pub(super) struct FusedKernels in "reconstruct/reconstruct.cu", of (format: Format), by (wide: bool, apart: bool) {
        with FORMAT = format.of_sums(apart);
        with DECODING = code_constants(format.group_log2);
        with FUSED = true;
        with OWN_LONG = SINGLE_LONG_ENTRIES[0];
        with OWN_LONG_MANY = SINGLE_LONG_ENTRIES[1];
        with PAIRED_PERCENT = (PAIRED_SHARE * 100.0) as u32;
        with THREADS = if apart { APART_THREADS } else { FUSED_THREADS };
        with LIVE_COST = LIVE_COST;
        with START_COST = START_COST;
        fn reconstruct(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, request: Request,
            streams: In<StreamDescriptor>, books: In<CodebookDescriptor>, symbols: In<u16>, sums: Out<u32>,
            status: Out<u32>, out: Out<u8> as "Element *", ending: BatchFinish,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/reconstruct/reconstruct.cu` for decoded codes.
    pub(super) struct CodesKernels in "reconstruct/reconstruct.cu", by (format: Format) {
        with WIDE = true;
        with FUSED = false;
        with APART = false;
        with THREADS = CODES_THREADS;
        with LIVE_COST = LIVE_COST;
        with START_COST = START_COST;
        fn reconstruct_codes(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, request: Request,
            codes: In<u16>, out: Out<u8> as "Element *",
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/reconstruct/token_codes.cu`.
    pub(super) struct TokenCodesKernels in "reconstruct/token_codes.cu", by (format: Format) {
        with WIDE = true;
        with APART = false;
        with THREADS = TOKEN_CODES_THREADS;
        with WARP_TILES = format.token_codes_tiles().0;
        with RESIDENT_BLOCKS = format.token_codes_tiles().1;
        with LIVE_COST = LIVE_COST;
        with START_COST = START_COST;
        fn reconstruct_token_codes(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, request: Request,
            codes: In<i32>, slots: u32, plans: Plans, out: Out<u8> as "Element *",
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/reconstruct/large_tiles.cu`.
    pub(super) struct LargeTilesKernels in "reconstruct/large_tiles.cu", by (format: Format) {
        with WIDE = true;
        with APART = false;
        with THREADS = LARGE_TILES_THREADS;
        with RESIDENT_BLOCKS = LARGE_TILES_RESIDENT;
        with LIVE_COST = LIVE_COST;
        with START_COST = START_COST;
        fn reconstruct_large_tiles(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, request: Request,
            codes: In<i32>, slots: u32, plans: Plans, out: Out<u8> as "Element *",
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/reconstruct/strips.cu`.
    pub(super) struct StripsKernels in "reconstruct/strips.cu", by (format: Format) {
        with WIDE = true;
        with APART = false;
        with THREADS = strips::threads(format.double);
        with PLANES = strips::PLANES;
        with RESIDENT = strips::resident(format);
        fn reconstruct_strips(
            input: In<u8>, geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, request: Request,
            strips: Cut, codes: In<u16>, states: In<u8>, out: Out<u8> as "Element *", sums: Out<u32>,
            ending: BatchFinish, status: In<u32>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/reconstruct/flat.cu`.
    pub(super) struct FlatKernels in "reconstruct/flat.cu", by (format: Format) {
        with WIDE = true;
        with APART = false;
        with THREADS = strips::FLAT_THREADS;
        with PLANES = strips::PLANES;
        with RESIDENT = strips::FLAT_RESIDENT;
        fn reconstruct_flat(
            geometry: DeviceGeometry, parsed: ParsedArgument, values: Values, request: Request, strips: Cut,
            strip_count: u32, out: Out<u8> as "Element *", states: Out<u8>, sums: Out<u32>,
        );
    }
}
