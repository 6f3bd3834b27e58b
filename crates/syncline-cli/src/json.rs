//! Results as JSON. Numbers that JSON does not have (NaN, infinities) are null.

use std::time::Duration;

use serde_json::{Value, json};
use syncline::quality::{Peak, Quality, Tolerance};
use syncline::{Bound, Description, ElementType, Execution, FillPattern, Header, Shape, Summary};

use crate::message::{self, Failure, Outcome};

/// Prints a value on stdout.
pub fn print(value: &Value) -> Outcome {
    message::print(format!("{value:#}\n").as_bytes())
}

/// Returns the kind and the number of a requested bound.
pub fn bound(bound: Bound) -> Value {
    json!({ "kind": bound.name(), "value": bound.value() })
}

/// Returns what is known of an array that was decompressed. `device` is where that was, such as [`execution`].
pub fn decompressed(
    (input, output): (&str, &str),
    (element_type, shape): (ElementType, Shape),
    elapsed: Duration,
    device: Value,
) -> Value {
    json!({
        "input": input,
        "output": output,
        "element_type": element_type.name(),
        "shape": shape.extents(),
        "bytes": shape.len() * element_type.size() as u64,
        "seconds": elapsed.as_secs_f64(),
        "device": device,
    })
}

fn shape(shape: Shape) -> Value {
    json!(shape.extents())
}

fn range(range: Option<(f64, f64)>) -> Value {
    range.map_or(Value::Null, |(low, high)| json!([low, high]))
}

fn fills(fills: &[FillPattern], counts: bool) -> Value {
    let fill = |fill: &FillPattern| {
        let mut object = json!({ "bits": format!("{:#x}", fill.bits), "value": fill.value });
        if counts {
            object["count"] = json!(fill.count);
        }
        object
    };
    fills.iter().map(fill).collect()
}

/// Returns the processor that did the work, and the reason.
pub fn execution(execution: &Execution) -> Value {
    json!({ "gpus": execution.gpus, "reason": execution.reason })
}

/// Returns the summary of a compression.
pub fn summary(summary: &Summary, input: &str, output: &str, seconds: f64) -> Value {
    json!({
        "input": input,
        "output": output,
        "element_type": summary.element_type.name(),
        "shape": shape(summary.shape),
        "bound": bound(summary.bound),
        "resolved_bound": summary.abs_bound,
        "step": summary.step,
        "range": range(summary.range),
        "fills": fills(&summary.fills, true),
        "uncompressed_bytes": summary.uncompressed_bytes,
        "compressed_bytes": summary.compressed_bytes,
        "ratio": summary.ratio(),
        "seconds": seconds,
        "device": execution(&summary.execution),
    })
}

/// Returns what the header of a stream says.
pub fn listed(header: &Header, name: &str, compressed_bytes: u64) -> Value {
    let uncompressed_bytes = header.shape.len() * header.element_type.size() as u64;
    json!({
        "input": name,
        "element_type": header.element_type.name(),
        "shape": shape(header.shape),
        "bound": bound(header.bound),
        "resolved_bound": header.abs_bound,
        "uncompressed_bytes": uncompressed_bytes,
        "compressed_bytes": compressed_bytes,
        "ratio": uncompressed_bytes as f64 / compressed_bytes as f64,
    })
}

/// Returns the description of a stream. Entry `n` of `code_lengths` counts the codewords of `n` bits in all codebooks.
pub fn description(description: &Description, name: &str) -> Value {
    json!({
        "input": name,
        "format_version": description.version,
        "element_type": description.element_type.name(),
        "shape": shape(description.shape),
        "pipeline": description.pipeline.to_string(),
        "bound": bound(description.bound),
        "resolved_bound": description.abs_bound,
        "step": description.step,
        "range": range(description.range),
        "fills": fills(&description.fills, false),
        "uncompressed_bytes": description.uncompressed_bytes,
        "compressed_bytes": description.compressed_bytes,
        "ratio": description.ratio(),
        "bits_per_value": description.bits_per_value(),
        "chunks": description.totals.chunks,
        "raw_chunks": description.totals.raw_chunks,
        "lzss_chunks": description.totals.lzss_chunks,
        "tiles": description.totals.tiles,
        "tile_size": description.tile_size.name(),
        "constant_tiles": description.totals.constant_tiles,
        "masked_tiles": description.totals.masked_tiles,
        "interpolated_tiles": description.totals.interpolated_tiles,
        "verbatim": description.totals.verbatim,
        "index": description.index.to_string(),
        "groups": description.totals.groups,
        "free_groups": description.totals.free_groups,
        "codeword_bytes": description.totals.codeword_bytes,
        "codebook_bytes": description.totals.codebook_bytes,
        "index_bytes": description.totals.index_bytes,
        "side_bytes": description.totals.side_bytes,
        "code_lengths": description.totals.code_lengths.to_vec(),
    })
}

fn peak(peak: Option<Peak>) -> Value {
    peak.map_or(Value::Null, |peak| json!({ "value": peak.value, "element": peak.element }))
}

/// Returns the result of a comparison. `psnr_db` is null if there is no error.
pub fn quality(quality: &Quality) -> Value {
    let tolerance = match quality.tolerance {
        Tolerance::Any => Value::Null,
        Tolerance::Exact => json!(0.0),
        Tolerance::Absolute(bound) | Tolerance::PointwiseRelative(bound) => json!(bound),
    };
    json!({
        "elements": quality.elements,
        "compared": quality.compared,
        "special": quality.special,
        "mismatches": quality.mismatches,
        "differing": quality.differing,
        "violations": quality.violations,
        "range": range(quality.range),
        "tolerance": tolerance,
        "max_absolute_error": peak(quality.max_absolute),
        "max_error_to_bound": quality.bound_ratio(),
        "max_pointwise_relative_error": peak(quality.max_relative),
        "rmse": quality.rmse,
        "nrmse": quality.nrmse,
        "psnr_db": quality.psnr,
        "ssim": quality.ssim,
        "correlation": quality.correlation,
    })
}

/// Adds the members of one object to another.
pub fn merged(mut value: Value, more: Value) -> Value {
    if let (Value::Object(all), Value::Object(more)) = (&mut value, more) {
        all.extend(more);
    }
    value
}

/// Returns an error if JSON and data would share stdout.
pub fn check_stdout(json: bool, output_is_stdout: bool) -> Outcome {
    if json && output_is_stdout {
        return Err(Failure::usage(
            "--json prints on stdout, which the output would also use: name an output file with -o",
        ));
    }
    Ok(())
}
