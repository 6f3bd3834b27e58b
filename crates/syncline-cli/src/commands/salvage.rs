//! Damaged streams: `decompress --keep-going`, and what other commands say of them.

use std::io::{Read, Seek, Write};

use serde_json::{Value, json};
use syncline::{DecompressOptions, Header, Loss, ReadAt, Salvage, Shape};

use crate::args::{DecompressArgs, Limits, Talk};
use crate::commands::decompress::output::prepare;
use crate::commands::verify::fills;
use crate::format::{self, counted, grouped, number};
use crate::message::{self, Failure, Outcome, remark};
use crate::output::Output;
use crate::progress::Bar;
use crate::stream::open_input;
use crate::tasks::{Done, Task};

/// Lines of losses that are printed. More are counted.
const LINES: usize = 20;

/// Returns options for decoding on the CPU.
pub fn check_options(limits: Limits) -> DecompressOptions {
    let options = DecompressOptions::default().with_threads(limits.threads);
    match limits.memory_limit {
        Some(limit) => options.with_memory_limit(limit),
        None => options,
    }
}

/// Returns how many chunks are lost.
fn lost_chunks(losses: &[Loss]) -> u64 {
    losses.iter().map(|loss| loss.chunks.end - loss.chunks.start).sum()
}

/// Says what to do about a damaged stream.
pub fn remedy<S: ReadAt>(salvage: &Salvage<S>, losses: &[Loss]) -> &'static str {
    match lost_chunks(losses) {
        lost if lost > 0 && lost == salvage.chunks() => "copy or download the stream again",
        _ => "'syncline decompress --keep-going' gives the rest",
    }
}

/// Says what is wrong with a stream, if anything is.
pub fn damage<S: ReadAt>(salvage: &Salvage<S>, losses: &[Loss]) -> Option<String> {
    let lost = match lost_chunks(losses) {
        0 => "all chunks are intact".into(),
        1 if salvage.chunks() == 1 => "its only chunk is lost".into(),
        lost => format!("{} of {} are lost", grouped(lost), counted(salvage.chunks(), "chunk")),
    };
    let reason = match (salvage.outline_error(), losses.first()) {
        (Some(error), _) => error.to_string(),
        (None, Some(loss)) => loss.reason.clone(),
        (None, None) => return None,
    };
    Some(format!("{reason}: {lost}"))
}

/// Returns a line for each loss.
pub fn loss_lines(losses: &[Loss], shape: Shape) -> Vec<String> {
    let line = |loss: &Loss| {
        let chunks = match loss.chunks.end - loss.chunks.start {
            1 => format!("chunk {}", loss.chunks.start),
            _ => format!("chunks {} to {}", loss.chunks.start, loss.chunks.end - 1),
        };
        format!("  {chunks}: lost, within the region {}: {}", region(loss, shape), loss.reason)
    };
    let mut lines: Vec<String> = losses.iter().take(LINES).map(line).collect();
    if losses.len() > LINES {
        lines.push(format!("  and {} more", grouped((losses.len() - LINES) as u64)));
    }
    lines
}

/// Returns the range of the slowest axes that has all elements of a loss, as `--region` takes it.
fn region(loss: &Loss, shape: Shape) -> String {
    let extents = shape.extents();
    let mut stride: u64 = extents.iter().product::<u64>().max(1);
    let (first, last) = (loss.elements.start, loss.elements.end.saturating_sub(1));
    let mut ranges = Vec::new();
    for &extent in extents {
        let before = stride;
        stride /= extent.max(1);
        let (from, to) = (first % before / stride.max(1), last % before / stride.max(1));
        ranges.push(if from == to { from.to_string() } else { format!("{from}:{}", to + 1) });
        if from != to {
            break;
        }
    }
    ranges.join(",")
}

/// Returns losses as JSON.
pub fn losses_json(losses: &[Loss]) -> Value {
    let loss = |loss: &Loss| {
        json!({
            "chunks": [loss.chunks.start, loss.chunks.end],
            "elements": [loss.elements.start, loss.elements.end],
            "reason": loss.reason,
        })
    };
    losses.iter().map(loss).collect()
}

/// Returns the bits that lost elements get, and their name.
fn lost_value(header: &Header) -> (u64, String) {
    let value = |bits: u64| header.element_type.number_of_bits(bits);
    match fills(header).into_iter().find(|&bits| !value(bits).is_nan()) {
        Some(bits) => (bits, format!("the fill value {}", number(value(bits)))),
        None => {
            let bits = Loss::default_bits(header.element_type);
            (bits, if bits == 0 { "0".into() } else { "NaN".into() })
        }
    }
}

/// Decompresses what is intact.
pub fn decompress(args: &DecompressArgs, task: &Task, talk: Talk) -> Outcome<Done> {
    let limits = args.resources.limits;
    let input = open_input(&task.input, limits.memory_limit)?;
    let (name, compressed) = (input.to_string(), input.len()?);
    let salvage = Salvage::open(input).map_err(|error| Failure::of(&name, error))?;
    let header = salvage.header();
    let (mut output, start) = prepare(args, task, header, header.shape)?;
    let output_name = output.name();
    let (lost, lost_name) = lost_value(header);

    let bar = Bar::new("salvaging", header.element_type, talk.sums_up(&task.output));
    let options = check_options(limits).with_progress(bar.callback());
    output.write_all(&start).map_err(|error| Failure::io(&output_name, &error))?;
    let failed = |error| Failure::between(&name, &output_name, error);
    let losses = match output.file() {
        Some(file) => salvage.decompress_to(file, start.len() as u64, lost, &options).map_err(failed)?,
        None => {
            // Chunks are not in the order of their elements.
            let mut file = tempfile::tempfile().map_err(|error| Failure::io("temporary file", &error))?;
            let losses = salvage.decompress_to(&file, 0, lost, &options).map_err(failed)?;
            file.rewind()
                .and_then(|()| copy(&mut file, &mut output))
                .map_err(|error| Failure::io(&output_name, &error))?;
            losses
        }
    };
    output.commit(false)?;
    let elapsed = bar.elapsed();
    bar.finish();

    let uncompressed = header.shape.len() * header.element_type.size() as u64;
    let json = json!({
        "input": name,
        "output": output_name,
        "element_type": header.element_type.name(),
        "shape": header.shape.extents(),
        "bytes": uncompressed,
        "chunks": salvage.chunks(),
        "lost": losses_json(&losses),
        "seconds": elapsed.as_secs_f64(),
    });
    if !args.json && talk.sums_up(&task.output) {
        remark(format_args!(
            "{name} -> {output_name}: {} {}, {}, {}",
            header.element_type,
            header.shape,
            format::bytes(uncompressed),
            format::timing(uncompressed, elapsed)
        ));
    }
    if !args.json && !talk.quiet {
        loss_lines(&losses, header.shape).iter().for_each(remark);
    }
    let Some(damage) = damage(&salvage, &losses) else {
        return Ok(Done { uncompressed, compressed, json: args.json.then_some(json) });
    };
    if losses.is_empty() {
        if !talk.quiet {
            message::warn(format_args!("{name}: {damage}: the array is complete"));
        }
        return Ok(Done { uncompressed, compressed, json: args.json.then_some(json) });
    }
    if args.json {
        crate::json::print(&json)?;
    }
    Err(Failure::data(format!("{name}: {damage}: their elements are {lost_name} in {output_name}")))
}

fn copy(from: &mut impl Read, to: &mut Output) -> std::io::Result<()> {
    std::io::copy(from, to).map(drop)
}
