//! The headers of the kernels, and which of them a source includes.

use super::Source;

/// Headers of the folder of kernels.
macro_rules! headers {
    ($($name:literal),* $(,)?) => {
        &[$(Source { name: $name, text: include_str!(concat!("../../kernels/", $name)) }),*]
    };
}

/// What a kernel source may include.
const HEADERS: &[Source] = headers![
    "common.cuh",
    "container_hash.cuh",
    "container_parse.cuh",
    "container_record.cuh",
    "container_sums.cuh",
    "geometry.cuh",
    "huffman_code.cuh",
    "huffman_codebook_small.cuh",
    "huffman_codebook_sort.cuh",
    "huffman_codebook_steps.cuh",
    "huffman_decode.cuh",
    "huffman_decode_book.cuh",
    "huffman_decode_free.cuh",
    "huffman_decode_header.cuh",
    "huffman_decode_index.cuh",
    "huffman_decode_lengths.cuh",
    "huffman_decode_lookup.cuh",
    "huffman_decode_parse.cuh",
    "huffman_decode_parts.cuh",
    "huffman_decode_put.cuh",
    "huffman_decode_put_runs.cuh",
    "huffman_decode_runs.cuh",
    "huffman_decode_settle.cuh",
    "huffman_decode_small.cuh",
    "huffman_decode_spans.cuh",
    "huffman_decode_work.cuh",
    "huffman_encode.cuh",
    "huffman_encode_counts.cuh",
    "huffman_encode_exchange.cuh",
    "huffman_encode_gaps.cuh",
    "huffman_encode_gaps_small.cuh",
    "huffman_encode_parts.cuh",
    "huffman_encode_pieces.cuh",
    "huffman_encode_scratch.cuh",
    "huffman_encode_small.cuh",
    "huffman_encode_states.cuh",
    "huffman_encode_together.cuh",
    "huffman_sample.cuh",
    "huffman_span.cuh",
    "huffman_tree.cuh",
    "huffman_tree_alone.cuh",
    "huffman_trees.cuh",
    "length_limit.cuh",
    "lossless_tile.cuh",
    "lossless_tokens.cuh",
    "lzss.cuh",
    "lzss_decode.cuh",
    "lzss_encode.cuh",
    "lzss_slots.cuh",
    "parsed.cuh",
    "quantize.cuh",
    "quantize_fast.cuh",
    "quantize_fill.cuh",
    "quantize_halves.cuh",
    "quantize_integers.cuh",
    "quantize_landing.cuh",
    "quantize_lanes.cuh",
    "quantize_rows.cuh",
    "quantize_step.cuh",
    "quantize_tile.cuh",
    "quantize_unit.cuh",
    "quantize_work.cuh",
    "reconstruct_any.cuh",
    "reconstruct_apart.cuh",
    "reconstruct_decode.cuh",
    "reconstruct_elements.cuh",
    "reconstruct_fused.cuh",
    "reconstruct_progress.cuh",
    "reconstruct_rows.cuh",
    "reconstruct_segments.cuh",
    "reconstruct_strips.cuh",
    "reconstruct_tables.cuh",
    "reconstruct_work.cuh",
    "scan.cuh",
    "successor.cuh",
    "team.cuh",
    "xxh3.cuh",
];

/// The headers that `source` includes, directly or through others, each once.
pub(super) fn included(source: Source) -> Vec<Source> {
    let mut found: Vec<Source> = Vec::new();
    let mut texts = vec![source.text];
    while let Some(text) = texts.pop() {
        for name in text.lines().filter_map(quoted_include) {
            let header = HEADERS.iter().find(|header| header.name == name);
            if let Some(header) = header.filter(|header| !found.contains(header)) {
                found.push(*header);
                texts.push(header.text);
            }
        }
    }
    found
}

/// The name in a line `#include "name"`.
fn quoted_include(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("#include")?.trim().strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_followed() {
        let names = |text| included(Source { name: "a.cu", text }).iter().map(|header| header.name).collect::<Vec<_>>();
        assert_eq!(names("int a;\n// #include \"common.cuh\"\n"), Vec::<&str>::new());
        assert_eq!(names("#include \"common.cuh\"\n#include \"common.cuh\"\n"), ["common.cuh"]);
        let fused = names("  #include \"reconstruct_fused.cuh\"\n");
        assert!(fused.len() > 3 && fused.contains(&"common.cuh"), "{fused:?}");
    }

    #[test]
    fn every_header_of_the_folder_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels");
        let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut headers: Vec<String> = names.filter(|name| name.ends_with(".cuh")).collect();
        headers.sort();
        assert_eq!(HEADERS.iter().map(|header| header.name).collect::<Vec<_>>(), headers);
    }

    #[test]
    fn every_header_names_headers_that_exist() {
        for header in HEADERS {
            for name in header.text.lines().filter_map(quoted_include) {
                assert!(HEADERS.iter().any(|header| header.name == name), "{} includes {name}", header.name);
            }
        }
    }
}
