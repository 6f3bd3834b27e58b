//! `syncline inspect`.

use syncline::{Bound, Pipeline, Report};

use crate::args::InspectArgs;
use crate::chart;
use crate::commands::{aligned, say};
use crate::format::{bound, bytes, counted, grouped, number, percent, resolved};
use crate::json;
use crate::message::{Failure, Outcome};
use crate::stream::OpenStream;

/// Runs the command.
pub fn run(args: &InspectArgs) -> Outcome {
    let stream = OpenStream::open(&args.input, None)?;
    let report = stream.file.inspect().map_err(|error| Failure::of(&stream.name, error))?;
    if args.json {
        return json::print(&json::report(&report, &stream.name));
    }
    let mut lines = vec![format!("{}: Syncline stream, version {}", stream.name, report.version), String::new()];
    lines.extend(aligned(&rows(&report)));
    let lengths = code_lengths(&report);
    if !lengths.is_empty() {
        lines.extend([String::new(), "codewords by length in bits".into()]);
        lines.extend(lengths);
    }
    say(&lines)
}

fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let share = |part: u64| percent(part, report.compressed_bytes);
    let elements = report.shape.len();
    let mut rows = vec![
        ("array", format!("{} {}, {}", report.element_type, report.shape, counted(elements, "element"))),
        ("pipeline", pipeline(report)),
        ("bound", bound(report.bound)),
    ];
    if report.bound != Bound::Lossless {
        rows.push(("holds", held(report)));
    }
    if let Some((low, high)) = report.range {
        rows.push(("range", format!("{} to {}", number(low), number(high))));
    }
    let fills: Vec<String> = report.fills.iter().map(|fill| number(fill.value)).collect();
    if !fills.is_empty() {
        rows.push(("exact patterns", fills.join(", ")));
    }
    rows.extend([
        ("uncompressed", bytes(report.uncompressed_bytes)),
        ("compressed", compressed(report.compressed_bytes)),
        ("ratio", number(report.ratio())),
        ("bits a value", number(report.bits_per_value())),
        (
            "chunks",
            format!(
                "{} ({} raw, {} LZSS)",
                grouped(report.totals.chunks),
                grouped(report.totals.raw_chunks),
                grouped(report.totals.lzss_chunks)
            ),
        ),
        (
            "tiles",
            format!(
                "{}: {} constant, {} with fill",
                grouped(report.totals.tiles),
                percent(report.totals.constant_tiles, report.totals.tiles),
                percent(report.totals.masked_tiles, report.totals.tiles)
            ),
        ),
        ("outliers", format!("{} ({})", grouped(report.totals.outliers), percent(report.totals.outliers, elements))),
        (
            "verbatim values",
            format!("{} ({})", grouped(report.totals.verbatim), percent(report.totals.verbatim, elements)),
        ),
        (
            "groups",
            format!(
                "{} of {} symbols, {} without codewords",
                grouped(report.totals.groups),
                report.group_size,
                percent(report.totals.free_groups, report.totals.groups)
            ),
        ),
        ("codewords", format!("{}, {}", bytes(report.totals.codeword_bytes), share(report.totals.codeword_bytes))),
        ("codebooks", format!("{}, {}", bytes(report.totals.codebook_bytes), share(report.totals.codebook_bytes))),
        (
            "index",
            format!("{}: {}, {}", report.index, bytes(report.totals.index_bytes), share(report.totals.index_bytes)),
        ),
        ("side data", format!("{}, {}", bytes(report.totals.side_bytes), share(report.totals.side_bytes))),
    ]);
    rows
}

/// Returns a length with its unit, and to the byte.
fn compressed(length: u64) -> String {
    match length {
        ..1024 => bytes(length),
        _ => format!("{} ({} bytes)", bytes(length), grouped(length)),
    }
}

/// Returns the kind of the stream, with the coder of the codes if it is not Huffman coding alone.
fn pipeline(report: &Report) -> String {
    let codes = if report.lzss_codes { ", codes by LZSS and Huffman where that is shorter" } else { "" };
    format!("{}{codes}", report.pipeline)
}

fn held(report: &Report) -> String {
    let held = resolved(report.bound, report.abs_bound);
    match report.pipeline {
        Pipeline::Lossless => held,
        _ => format!("{held}, step {}", number(report.step)),
    }
}

/// Returns a bar for each length from the shortest to the longest.
fn code_lengths(report: &Report) -> Vec<String> {
    let used = |&length: &usize| report.totals.code_lengths[length] > 0;
    let all = 0..report.totals.code_lengths.len();
    let Some((shortest, longest)) = all.clone().find(used).zip(all.rev().find(used)) else { return Vec::new() };
    let rows: Vec<_> =
        (shortest..=longest).map(|length| (length.to_string(), report.totals.code_lengths[length])).collect();
    chart::histogram(&rows, 50)
}
