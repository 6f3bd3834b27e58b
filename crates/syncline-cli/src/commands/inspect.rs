//! `syncline inspect`.

use syncline::{Bound, DecompressOptions, Error, Loss, Pipeline, Report, Salvage, StreamFile};

use crate::args::InspectArgs;
use crate::chart;
use crate::commands::salvage::{damage, loss_lines, losses_json};
use crate::commands::{aligned, say};
use crate::format::{bound, bytes, counted, grouped, number, percent, resolved};
use crate::json;
use crate::message::{Failure, Outcome};
use crate::stream::open_input;

/// Runs the command. Of a damaged stream it says what it can, and fails.
pub fn run(args: &InspectArgs) -> Outcome {
    let input = open_input(&args.input, None)?;
    let name = input.to_string();
    let failed = |error| Failure::of(&name, error);
    let problem = match StreamFile::open(&input).and_then(|stream| stream.inspect()) {
        Ok(report) => return show(args, &report, &name, None),
        Err(error @ (Error::Corrupt { .. } | Error::Truncated { .. })) => error,
        Err(error) => return Err(failed(error)),
    };
    // Without a header there is nothing to say.
    let Ok(salvage) = Salvage::open(&input) else { return Err(failed(problem)) };
    let (report, losses) = salvage.inspect(&DecompressOptions::default()).map_err(failed)?;
    // The verdict is returned even if the reader closes the pipe.
    let _ = show(args, &report, &name, Some(&losses));
    let text = damage(&salvage, &losses).unwrap_or_else(|| problem.to_string());
    Err(Failure::data(format!("{name}: {text}; 'syncline decompress --keep-going' gives the rest")))
}

/// Prints the description of a stream. If it is damaged, that of its intact chunks, and which others are lost.
fn show(args: &InspectArgs, report: &Report, name: &str, losses: Option<&[Loss]>) -> Outcome {
    if args.json {
        let value = json::report(report, name);
        return json::print(&match losses {
            Some(losses) => json::merged(value, serde_json::json!({ "damaged": true, "lost": losses_json(losses) })),
            None => value,
        });
    }
    let damaged = if losses.is_some() { ", damaged: the counts are those of its intact chunks" } else { "" };
    let mut lines = vec![format!("{name}: Syncline stream, version {}{damaged}", report.version), String::new()];
    lines.extend(aligned(&rows(report)));
    let lengths = code_lengths(report);
    if !lengths.is_empty() {
        lines.extend([String::new(), "codewords by length in bits".into()]);
        lines.extend(lengths);
    }
    if let Some(losses) = losses.filter(|losses| !losses.is_empty()) {
        lines.extend([String::new(), "lost".into()]);
        lines.extend(loss_lines(losses, report.shape));
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
                "{} {}: {} constant, {} with fill",
                grouped(report.totals.tiles),
                report.tile_size,
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
    ]);
    if report.token_codes {
        rows.extend(token_rows(report));
    }
    rows.extend([
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

/// Returns what chunks with token codebooks have chosen.
fn token_rows(report: &Report) -> [(&'static str, String); 2] {
    let totals = &report.totals;
    let named = |names: &[&str], counts: &[u64]| {
        let parts = names.iter().zip(counts).filter(|&(_, &count)| count > 0);
        parts.map(|(name, count)| format!("{} {name}", grouped(*count))).collect::<Vec<_>>().join(", ")
    };
    let schemes = named(&["Lorenzo", "linear", "cubic", "cubic in planes"], &totals.schemes);
    let tiles = percent(totals.interpolated_tiles, totals.tiles);
    [
        ("chunks by scheme", format!("{schemes}; {tiles} of the tiles are interpolated")),
        ("token codebooks", named(&["of values", "of runs", "of more values"], &totals.codebook_modes)),
    ]
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
    let codes = match (report.token_codes, report.lzss_codes) {
        (true, true) => ", token codebooks, or LZSS where that is shorter",
        (true, false) => ", token codebooks",
        (false, true) => ", codes by LZSS and Huffman where that is shorter",
        (false, false) => "",
    };
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
