//! The headers of the kernels, and which of them a source includes.

use super::Source;

/// What a kernel source may include.
const HEADERS: &[Source] = &[
    Source { name: "common.cuh", text: include_str!("../../kernels/common.cuh") },
    Source { name: "huffman_code.cuh", text: include_str!("../../kernels/huffman_code.cuh") },
    Source { name: "huffman_codebook_small.cuh", text: include_str!("../../kernels/huffman_codebook_small.cuh") },
    Source { name: "huffman_codebook_steps.cuh", text: include_str!("../../kernels/huffman_codebook_steps.cuh") },
    Source { name: "huffman_codebook_sort.cuh", text: include_str!("../../kernels/huffman_codebook_sort.cuh") },
    Source { name: "huffman_trees.cuh", text: include_str!("../../kernels/huffman_trees.cuh") },
    Source { name: "huffman_tree.cuh", text: include_str!("../../kernels/huffman_tree.cuh") },
    Source { name: "huffman_decode.cuh", text: include_str!("../../kernels/huffman_decode.cuh") },
    Source { name: "huffman_decode_header.cuh", text: include_str!("../../kernels/huffman_decode_header.cuh") },
    Source { name: "huffman_decode_parse.cuh", text: include_str!("../../kernels/huffman_decode_parse.cuh") },
    Source { name: "huffman_decode_spans.cuh", text: include_str!("../../kernels/huffman_decode_spans.cuh") },
    Source { name: "huffman_decode_parts.cuh", text: include_str!("../../kernels/huffman_decode_parts.cuh") },
    Source { name: "huffman_decode_settle.cuh", text: include_str!("../../kernels/huffman_decode_settle.cuh") },
    Source { name: "huffman_decode_put.cuh", text: include_str!("../../kernels/huffman_decode_put.cuh") },
    Source { name: "huffman_decode_put_runs.cuh", text: include_str!("../../kernels/huffman_decode_put_runs.cuh") },
    Source { name: "huffman_decode_small.cuh", text: include_str!("../../kernels/huffman_decode_small.cuh") },
    crate::geometry::HEADER,
    crate::quantize::HEADERS[0],
    crate::quantize::HEADERS[1],
    crate::quantize::HEADERS[2],
    crate::quantize::HEADERS[3],
    crate::quantize::HEADERS[4],
    crate::quantize::HEADERS[5],
    crate::quantize::HEADERS[6],
    crate::quantize::HEADERS[7],
    crate::quantize::HEADERS[8],
    crate::quantize::HEADERS[9],
    crate::quantize::HEADERS[10],
    crate::quantize::HEADERS[11],
    Source { name: "length_limit.cuh", text: include_str!("../../kernels/length_limit.cuh") },
    Source { name: "team.cuh", text: include_str!("../../kernels/team.cuh") },
    Source { name: "parsed.cuh", text: include_str!("../../kernels/parsed.cuh") },
    Source { name: "huffman_decode_index.cuh", text: include_str!("../../kernels/huffman_decode_index.cuh") },
    Source { name: "huffman_decode_free.cuh", text: include_str!("../../kernels/huffman_decode_free.cuh") },
    Source { name: "huffman_decode_book.cuh", text: include_str!("../../kernels/huffman_decode_book.cuh") },
    Source { name: "huffman_decode_work.cuh", text: include_str!("../../kernels/huffman_decode_work.cuh") },
    Source { name: "huffman_decode_runs.cuh", text: include_str!("../../kernels/huffman_decode_runs.cuh") },
    Source { name: "huffman_decode_lookup.cuh", text: include_str!("../../kernels/huffman_decode_lookup.cuh") },
    Source { name: "reconstruct_rows.cuh", text: include_str!("../../kernels/reconstruct_rows.cuh") },
    Source { name: "reconstruct_tables.cuh", text: include_str!("../../kernels/reconstruct_tables.cuh") },
    Source { name: "reconstruct_decode.cuh", text: include_str!("../../kernels/reconstruct_decode.cuh") },
    Source { name: "reconstruct_any.cuh", text: include_str!("../../kernels/reconstruct_any.cuh") },
    Source { name: "reconstruct_fused.cuh", text: include_str!("../../kernels/reconstruct_fused.cuh") },
    Source { name: "reconstruct_work.cuh", text: include_str!("../../kernels/reconstruct_work.cuh") },
    Source { name: "reconstruct_apart.cuh", text: include_str!("../../kernels/reconstruct_apart.cuh") },
    Source { name: "reconstruct_segments.cuh", text: include_str!("../../kernels/reconstruct_segments.cuh") },
    Source { name: "reconstruct_strips.cuh", text: include_str!("../../kernels/reconstruct_strips.cuh") },
    Source { name: "reconstruct_elements.cuh", text: include_str!("../../kernels/reconstruct_elements.cuh") },
    Source { name: "huffman_span.cuh", text: include_str!("../../kernels/huffman_span.cuh") },
    Source { name: "huffman_sample.cuh", text: include_str!("../../kernels/huffman_sample.cuh") },
    Source { name: "huffman_encode.cuh", text: include_str!("../../kernels/huffman_encode.cuh") },
    Source { name: "huffman_encode_counts.cuh", text: include_str!("../../kernels/huffman_encode_counts.cuh") },
    Source { name: "huffman_encode_gaps.cuh", text: include_str!("../../kernels/huffman_encode_gaps.cuh") },
    Source { name: "huffman_encode_parts.cuh", text: include_str!("../../kernels/huffman_encode_parts.cuh") },
    Source { name: "huffman_encode_pieces.cuh", text: include_str!("../../kernels/huffman_encode_pieces.cuh") },
    Source { name: "huffman_encode_scratch.cuh", text: include_str!("../../kernels/huffman_encode_scratch.cuh") },
    Source { name: "huffman_encode_small.cuh", text: include_str!("../../kernels/huffman_encode_small.cuh") },
    Source { name: "huffman_encode_states.cuh", text: include_str!("../../kernels/huffman_encode_states.cuh") },
    Source { name: "huffman_encode_together.cuh", text: include_str!("../../kernels/huffman_encode_together.cuh") },
    Source { name: "container_parse.cuh", text: include_str!("../../kernels/container_parse.cuh") },
    Source { name: "container_sums.cuh", text: include_str!("../../kernels/container_sums.cuh") },
    Source { name: "container_record.cuh", text: include_str!("../../kernels/container_record.cuh") },
    Source { name: "successor.cuh", text: include_str!("../../kernels/successor.cuh") },
    Source { name: "scan.cuh", text: include_str!("../../kernels/scan.cuh") },
    crate::lossless::HEADER,
    Source { name: "lossless_tokens.cuh", text: include_str!("../../kernels/lossless_tokens.cuh") },
    crate::lzss::HEADER,
    Source { name: "lzss.cuh", text: include_str!("../../kernels/lzss.cuh") },
    Source { name: "lzss_encode.cuh", text: include_str!("../../kernels/lzss_encode.cuh") },
    Source { name: "lzss_slots.cuh", text: include_str!("../../kernels/lzss_slots.cuh") },
    Source { name: "xxh3.cuh", text: include_str!("../../kernels/xxh3.cuh") },
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
    fn every_header_names_headers_that_exist() {
        for header in HEADERS {
            for name in header.text.lines().filter_map(quoted_include) {
                assert!(HEADERS.iter().any(|header| header.name == name), "{} includes {name}", header.name);
            }
        }
    }
}
