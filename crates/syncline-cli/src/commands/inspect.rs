//! `syncline inspect`.

use syncline::{
    Bound, ChunkReport, DecompressOptions, Description, Error, Loss, Pipeline, Salvage, StreamFile, TileSize,
};
use syncline_core::predict::interpolate::Scheme;

use crate::args::InspectArgs;
use crate::chart;
use crate::commands::salvage::{damage, loss_lines, losses_json, remedy};
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
        Ok(description) => return show(args, &description, &name, None),
        Err(error @ (Error::Corrupt { .. } | Error::Truncated { .. })) => error,
        Err(error) => return Err(failed(error)),
    };
    // Without a header there is nothing to say.
    let Ok(salvage) = Salvage::open(&input) else { return Err(failed(problem)) };
    let (description, losses) = salvage.inspect(&DecompressOptions::default()).map_err(failed)?;
    // The verdict is returned even if the reader closes the pipe.
    let _ = show(args, &description, &name, Some(&losses));
    let text = damage(&salvage, &losses).unwrap_or_else(|| problem.to_string());
    Err(Failure::data(format!("{name}: {text}; {}", remedy(&salvage, &losses))))
}

/// Prints the description of a stream. If it is damaged, that of its intact chunks, and which others are lost.
fn show(args: &InspectArgs, description: &Description, name: &str, losses: Option<&[Loss]>) -> Outcome {
    if args.json {
        let value = json::description(description, name);
        return json::print(&match losses {
            Some(losses) => {
                // The bytes that are left hold less than the array.
                let no_ratio = serde_json::json!({ "ratio": null, "bits_per_value": null });
                let damage = serde_json::json!({ "damaged": true, "lost": losses_json(losses) });
                json::merged(json::merged(value, no_ratio), damage)
            }
            None => value,
        });
    }
    let damaged = if losses.is_some() { ", damaged: the counts are those of its intact chunks" } else { "" };
    let mut lines = vec![format!("{name}: Syncline stream, version {}{damaged}", description.version), String::new()];
    lines.extend(aligned(&rows(description, losses.is_none())));
    let lengths = code_lengths(description);
    if !lengths.is_empty() {
        lines.extend([String::new(), "codewords by length in bits".into()]);
        lines.extend(lengths);
    }
    if let Some(losses) = losses.filter(|losses| !losses.is_empty()) {
        lines.extend([String::new(), "lost".into()]);
        lines.extend(loss_lines(losses, description.shape));
    }
    say(&lines)
}

/// Returns what is said of a stream. Unless it is whole, its bytes hold less than the array, so that it has no ratio.
fn rows(description: &Description, is_whole: bool) -> Vec<(&'static str, String)> {
    let elements = description.shape.len();
    let mut rows = vec![
        ("array", format!("{} {}, {}", description.element_type, description.shape, counted(elements, "element"))),
        ("pipeline", description.pipeline.to_string()),
        ("bound", bound(description.bound)),
    ];
    if description.bound != Bound::Lossless {
        rows.push(("holds", held(description)));
    }
    if let Some((low, high)) = description.range {
        rows.push(("range", format!("{} to {}", number(low), number(high))));
    }
    let fills: Vec<String> = description.fills.iter().map(|fill| number(fill.value)).collect();
    if !fills.is_empty() {
        rows.push(("exact patterns", fills.join(", ")));
    }
    rows.extend([
        ("uncompressed", bytes(description.uncompressed_bytes)),
        ("compressed", compressed(description.compressed_bytes)),
    ]);
    if is_whole {
        rows.extend([("ratio", number(description.ratio())), ("bits a value", number(description.bits_per_value()))]);
    }
    rows.push((
        "chunks",
        format!(
            "{} ({} raw, {} LZSS)",
            grouped(description.totals.chunks),
            grouped(description.totals.raw_chunks),
            grouped(description.totals.lzss_chunks)
        ),
    ));
    let verbatim = description.totals.verbatim;
    let verbatim = format!("{} ({})", grouped(verbatim), percent(verbatim, elements));
    let part = |part: u64| format!("{}, {}", bytes(part), percent(part, description.compressed_bytes));
    let ChunkReport { codeword_bytes, codebook_bytes, index_bytes, side_bytes, .. } = description.totals;
    if description.tile_size == TileSize::Block {
        rows.extend([
            ("blocks", grouped(description.totals.tiles)),
            ("verbatim values", verbatim),
            ("coded values", part(codeword_bytes)),
            ("code tables", part(codebook_bytes)),
        ]);
    } else {
        rows.extend([("tiles", tiles(description)), ("verbatim values", verbatim), ("groups", groups(description))]);
        if description.pipeline != Pipeline::Lossless {
            rows.push(("chunks by scheme", schemes(description)));
        }
        rows.extend([
            ("codewords", part(codeword_bytes)),
            ("codebooks", part(codebook_bytes)),
            ("index", format!("{}: {}", description.index, part(index_bytes))),
        ]);
    }
    rows.push(("all else", part(side_bytes)));
    rows
}

/// Returns how many tiles there are, and of which kinds.
fn tiles(description: &Description) -> String {
    let totals = &description.totals;
    let share = |part| percent(part, totals.tiles);
    let (constant, masked) = (share(totals.constant_tiles), share(totals.masked_tiles));
    format!("{} {}: {constant} constant, {masked} with fill", grouped(totals.tiles), description.tile_size)
}

/// Returns how many groups of codewords there are.
fn groups(description: &Description) -> String {
    let ChunkReport { groups, free_groups, .. } = description.totals;
    format!("{}, {} without codewords", grouped(groups), percent(free_groups, groups))
}

/// Returns how the tiles of quantized chunks are predicted.
fn schemes(description: &Description) -> String {
    let totals = &description.totals;
    let names = totals.schemes.iter().zip(0..).filter(|&(&count, _)| count > 0).map(|(&count, code)| {
        let name = match Scheme::from_code(code, 3) {
            None => "Lorenzo".to_owned(),
            Some(Scheme { is_cubic, x_first, in_planes }) => {
                let degree = if is_cubic { "cubic" } else { "linear" };
                let order = if x_first { ", x first" } else { "" };
                format!("{degree}{order}{}", if in_planes { ", in planes" } else { "" })
            }
        };
        format!("{} {name}", grouped(count))
    });
    let names = names.collect::<Vec<_>>().join("; ");
    format!("{names}; {} of the tiles are interpolated", percent(totals.interpolated_tiles, totals.tiles))
}

/// Returns a length with its unit, and to the byte.
fn compressed(length: u64) -> String {
    match length {
        ..1024 => bytes(length),
        _ => format!("{} ({} bytes)", bytes(length), grouped(length)),
    }
}

fn held(description: &Description) -> String {
    let held = resolved(description.bound, description.abs_bound);
    match description.pipeline {
        Pipeline::Lossless => held,
        _ => format!("{held}, step {}", number(description.step)),
    }
}

/// Returns a bar for each length from the shortest to the longest.
fn code_lengths(description: &Description) -> Vec<String> {
    let used = |&length: &usize| description.totals.code_lengths[length] > 0;
    let all = 0..description.totals.code_lengths.len();
    let Some((shortest, longest)) = all.clone().find(used).zip(all.rev().find(used)) else { return Vec::new() };
    let rows: Vec<_> =
        (shortest..=longest).map(|length| (length.to_string(), description.totals.code_lengths[length])).collect();
    chart::histogram(&rows, 50)
}
