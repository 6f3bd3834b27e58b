//! The headers of every stage's kernels, with which a device is opened.

use syncline_core::bits::pack::BLOCK as BASES_IN_BLOCK;
use syncline_core::container::{
    ALIGNMENT, ChunkKind, LONGEST_WITHOUT_PIECES, PIECE_LEN, RECORD_HEADER_LEN, RECORD_MARKER, SECTIONS, TRAILER_LEN,
};
use syncline_core::geometry::MAX_TILE_ELEMENTS;
use syncline_core::huffman::{MAX_CLASSES, SUBSEQUENCE_BITS, stream};
use syncline_core::predict::orders::SECOND_ORDER;
use syncline_core::quantize::mask::MAX_PATTERNS;

use crate::blocks::structs as blocks;
use crate::container::structs as container;
use crate::decode::structs as decode_tiles;
use crate::device::{self, ConstantHeader, Headers, Source, StructHeader, source};
use crate::geometry;
use crate::huffman::codebook::structs as codebook;
use crate::huffman::decode::structs as decode;
use crate::huffman::encode::structs as encode;
use crate::lossless::structs as lossless;
use crate::lzss::structs as lzss;
use crate::predict::structs as predict;
use crate::quantize::structs as quantize;
use crate::strips::structs as strips;

/// Includes headers of the folder of kernels by name.
macro_rules! headers {
    ($($name:literal),* $(,)?) => {
        &[$(source!($name)),*]
    };
}

/// The headers in the folder of kernels.
const FILES: &[Source] = headers![
    "blocks/blocks.cuh",
    "blocks/coded.cuh",
    "blocks/compact.cuh",
    "blocks/contexts.cuh",
    "blocks/count.cuh",
    "blocks/decode_segment.cuh",
    "blocks/decode_unit.cuh",
    "blocks/logarithm.cuh",
    "blocks/packed.cuh",
    "blocks/predict.cuh",
    "blocks/quantize.cuh",
    "blocks/rans.cuh",
    "blocks/record.cuh",
    "blocks/requested.cuh",
    "blocks/sample.cuh",
    "blocks/sections.cuh",
    "blocks/segments.cuh",
    "blocks/symbol.cuh",
    "blocks/tables.cuh",
    "common.cuh",
    "container/hash.cuh",
    "container/hash_chain.cuh",
    "container/parse.cuh",
    "container/parse_codes.cuh",
    "container/parse_lists.cuh",
    "container/parsed.cuh",
    "container/pieces.cuh",
    "container/place.cuh",
    "container/record.cuh",
    "container/records.cuh",
    "container/xxh3.cuh",
    "decode/shares.cuh",
    "decode/units.cuh",
    "decode/values.cuh",
    "device/block.cuh",
    "device/cooperative.cuh",
    "device/copy_async.cuh",
    "device/lookback.cuh",
    "device/radix_partition.cuh",
    "device/shared.cuh",
    "device/sync.cuh",
    "device/warp.cuh",
    "geometry.cuh",
    "huffman/codebook/canonical_code.cuh",
    "huffman/codebook/cooperative_trees.cuh",
    "huffman/codebook/length_limit.cuh",
    "huffman/codebook/small_alphabet_code.cuh",
    "huffman/codebook/small_alphabet_sort.cuh",
    "huffman/codebook/sort.cuh",
    "huffman/codebook/tree.cuh",
    "huffman/decode/code_lengths.cuh",
    "huffman/decode/decode.cuh",
    "huffman/decode/index_block.cuh",
    "huffman/decode/lookup.cuh",
    "huffman/decode/parse.cuh",
    "huffman/decode/shared_codebook.cuh",
    "huffman/decode/stream_header.cuh",
    "huffman/decode/symbol_index.cuh",
    "huffman/decode/zero_bit_groups.cuh",
    "huffman/encode/codeword_runs.cuh",
    "huffman/encode/encode.cuh",
    "huffman/encode/scratch.cuh",
    "huffman/encode/stream_sections.cuh",
    "lossless/bases.cuh",
    "lossless/bins.cuh",
    "lossless/code_tile.cuh",
    "lossless/number.cuh",
    "lossless/own_codes.cuh",
    "lossless/record_headers.cuh",
    "lossless/words.cuh",
    "lzss/decode.cuh",
    "lzss/encode.cuh",
    "lzss/lzss.cuh",
    "lzss/slots.cuh",
    "predict/arithmetic.cuh",
    "predict/code_tile.cuh",
    "predict/constants.cuh",
    "predict/cube_differences.cuh",
    "predict/cube_lines.cuh",
    "predict/cube_sums.cuh",
    "predict/integrate.cuh",
    "predict/interpolate.cuh",
    "predict/lines.cuh",
    "predict/lorenzo.cuh",
    "predict/ordinary.cuh",
    "predict/ordinary_cubes.cuh",
    "predict/ordinary_elements.cuh",
    "predict/ordinary_rows.cuh",
    "predict/plans.cuh",
    "predict/points.cuh",
    "quantize/math.cuh",
    "quantize/quantize.cuh",
    "quantize/stored.cuh",
    "quantize/tile.cuh",
    "quantize/tile_info.cuh",
    "strips/alphabet.cuh",
    "strips/bits.cuh",
    "strips/code_lengths.cuh",
    "strips/encode.cuh",
    "strips/ordinary_bits.cuh",
    "strips/read.cuh",
    "strips/sample.cuh",
    "strips/scratch.cuh",
    "strips/table.cuh",
    "strips/tile_strips.cuh",
    "strips/unit.cuh",
    "zigzag.cuh",
];

/// The headers of structs that [`device_struct!`](crate::device_struct::device_struct) declares, one per stage.
const STRUCT_HEADERS: &[StructHeader] = &[
    StructHeader { name: "blocks/structs.cuh", includes: &["container/structs.cuh"], structs: blocks::STRUCTS },
    StructHeader { name: "container/structs.cuh", includes: &[], structs: container::STRUCTS },
    StructHeader { name: "decode/structs.cuh", includes: &["quantize/structs.cuh"], structs: decode_tiles::STRUCTS },
    StructHeader { name: "device/structs.cuh", includes: &[], structs: device::STRUCTS },
    StructHeader { name: "geometry/structs.cuh", includes: &[], structs: geometry::STRUCTS },
    StructHeader { name: "huffman/codebook/structs.cuh", includes: &[], structs: codebook::STRUCTS },
    StructHeader { name: "huffman/decode/structs.cuh", includes: &[], structs: decode::STRUCTS },
    StructHeader { name: "huffman/encode/structs.cuh", includes: &[], structs: encode::STRUCTS },
    StructHeader { name: "lossless/structs.cuh", includes: &[], structs: lossless::STRUCTS },
    StructHeader { name: "lzss/structs.cuh", includes: &[], structs: lzss::STRUCTS },
    StructHeader { name: "quantize/structs.cuh", includes: &["geometry/structs.cuh"], structs: quantize::STRUCTS },
    StructHeader { name: "predict/structs.cuh", includes: &[], structs: predict::STRUCTS },
    StructHeader { name: "strips/structs.cuh", includes: &[], structs: strips::STRUCTS },
];

/// Constants of the stream format that kernels use, as `format::NAME` in `format/constants.cuh`.
const FORMAT_CONSTANTS: &[(&str, u64)] = &[
    ("RECORD_MARKER", u32::from_le_bytes(RECORD_MARKER) as u64),
    ("RECORD_HEADER_BYTES", RECORD_HEADER_LEN as u64),
    ("PIECE_BYTES", PIECE_LEN as u64),
    ("LONGEST_WITHOUT_PIECES", LONGEST_WITHOUT_PIECES as u64),
    ("SECTIONS", SECTIONS as u64),
    ("KIND_RAW", ChunkKind::Raw as u64),
    ("KIND_NUMBERS", ChunkKind::Numbers as u64),
    ("KIND_QUANTIZED", ChunkKind::Quantized as u64),
    ("KIND_BLOCKS", ChunkKind::Blocks as u64),
    ("KIND_LZSS", ChunkKind::Lzss as u64),
    ("ALIGNMENT", ALIGNMENT as u64),
    ("TRAILER_BYTES", TRAILER_LEN as u64),
    ("MAX_TILE_ELEMENTS", MAX_TILE_ELEMENTS as u64),
    ("BASES_IN_BLOCK", BASES_IN_BLOCK as u64),
    ("MAX_PATTERNS", MAX_PATTERNS as u64),
    ("STREAM_HEADER_BYTES", stream::HEADER_BYTES as u64),
    ("MAX_CODEBOOKS", MAX_CLASSES as u64),
    ("SUBSEQUENCE_BITS", SUBSEQUENCE_BITS as u64),
    ("SECOND_ORDER", SECOND_ORDER as u64),
];

/// The headers of the product's kernels. A crate with kernels of its own extends this set
/// ([`Headers::with_base`]).
pub static HEADERS: Headers = Headers::new(
    FILES,
    STRUCT_HEADERS,
    &[
        ConstantHeader { name: "format/constants.cuh", namespace: "format", constants: FORMAT_CONSTANTS },
        ConstantHeader { name: "blocks/constants.cuh", namespace: "blocks", constants: blocks::CONSTANTS },
        ConstantHeader { name: "strips/constants.cuh", namespace: "strips", constants: strips::CONSTANTS },
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_names_headers_that_exist() {
        assert_eq!(HEADERS.missing(), []);
    }
}

/// Tests that read the repository and cannot run on a machine without it.
#[cfg(test)]
mod needs_sources {
    use std::path::Path;

    use super::FILES;

    /// Returns the names of the headers below a folder, as sources include them.
    fn headers_in(folder: &Path, prefix: &str) -> Vec<String> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                all.extend(headers_in(&path, &format!("{name}/")));
            } else if name.ends_with(".cuh") {
                all.push(name);
            }
        }
        all
    }

    #[test]
    fn every_header_of_the_folder_is_listed() {
        let mut headers = headers_in(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels")), "");
        headers.sort();
        assert_eq!(FILES.iter().map(|header| header.name).collect::<Vec<_>>(), headers);
    }
}
