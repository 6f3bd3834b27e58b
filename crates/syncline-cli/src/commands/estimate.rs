//! `syncline estimate`.

use serde_json::{Value, json};
use syncline::estimate::{Estimate, Sample};
use syncline::{Bound, CompressOptions, Effort};

use crate::args::{EstimateArgs, Talk};
use crate::commands::compress::fill_for;
use crate::commands::{say, table};
use crate::format::{self, bits_per_value, bytes, number, percent};
use crate::input::{ArrayInput, Input, Opened};
use crate::json;
use crate::message::{Failure, Outcome, remark};

/// The heads of the columns. The first two are aligned to the left.
const HEADS: [&str; 8] = ["BOUND", "EFFORT", "RATIO", "STREAM", "BITS A VALUE", "PSNR", "COMPRESSION", "DECOMPRESSION"];

/// Runs the command.
pub fn run(args: &EstimateArgs, talk: Talk) -> Outcome {
    let limit = args.limits.memory_limit;
    let input = match Opened::new(&args.input)? {
        Opened::File(file) => Input::File(file, args.input.clone()),
        Opened::Pipe(pipe) => Input::spooled(pipe, &args.input, limit, u64::MAX)?,
    };
    let array = ArrayInput::of(input, &args.input, args.dtype, args.shape)?;
    let failed = |error| Failure::of(&array.input, error);
    let options = options(args)?;
    let sample = Sample::of(&array.input, array.offset, array.element_type, array.shape, &options).map_err(failed)?;
    let mut estimates = Vec::new();
    let efforts = if args.effort.is_empty() { &Effort::ALL[..] } else { &args.effort };
    for bound in args.bounds.list() {
        for &effort in efforts {
            let options = options.clone().with_bound(bound).with_effort(effort);
            estimates.push(sample.estimate(&options).map_err(failed)?);
        }
    }
    if args.json {
        return json::print(&json!({
            "input": array.input.to_string(),
            "element_type": array.element_type.name(),
            "shape": array.shape.extents(),
            "uncompressed_bytes": array.size(),
            "sampled_bytes": sample.array().bytes().len(),
            "estimates": estimates.iter().map(estimate_json).collect::<Vec<Value>>(),
        }));
    }
    let rows: Vec<Vec<String>> = estimates.iter().map(|estimate| row(estimate, array.shape.len())).collect();
    say(&table(&HEADS, |column| column >= 2, &rows))?;
    if !talk.quiet {
        let sampled = sample.array().bytes().len() as u64;
        let share = match sample.is_whole() {
            true => "all of it".into(),
            false => format!("a sample of {}, {} of it", bytes(sampled), percent(sampled, array.size())),
        };
        remark(format_args!(
            "{}: {} {}, {}; estimated on the CPU from {share}",
            array.input,
            array.element_type,
            array.shape,
            bytes(array.size())
        ));
    }
    Ok(())
}

fn options(args: &EstimateArgs) -> Outcome<CompressOptions> {
    // Each estimate has its own bound and effort. The sample for all of them has blocks, which all tiles divide.
    let options = CompressOptions::new(Bound::Rel(1e-3))
        .with_threads(args.limits.threads)
        .with_fill(fill_for(&args.fill, &args.input)?)
        .with_advanced(args.advanced.advanced()?)
        .with_rewritable(args.rewritable);
    Ok(match args.limits.memory_limit {
        Some(limit) => options.with_memory_limit(limit),
        None => options,
    })
}

fn row(estimate: &Estimate, elements: u64) -> Vec<String> {
    let speed = |rate: f64| format::speed(rate as u64, std::time::Duration::from_secs(1));
    vec![
        format::bound(estimate.bound),
        estimate.effort.to_string(),
        number(estimate.ratio()),
        bytes(estimate.compressed_bytes),
        number(bits_per_value(estimate.compressed_bytes, elements)),
        format::psnr(estimate.psnr),
        speed(estimate.compress_speed()),
        speed(estimate.decompress_speed()),
    ]
}

/// Returns an estimate as JSON.
fn estimate_json(estimate: &Estimate) -> Value {
    json!({
        "bound": json::bound(estimate.bound),
        "resolved_bound": estimate.abs_bound,
        "effort": estimate.effort.name(),
        "ratio": estimate.ratio(),
        "compressed_bytes": estimate.compressed_bytes,
        "psnr_db": estimate.psnr.filter(|psnr| psnr.is_finite()),
        "compression_bytes_per_second": estimate.compress_speed(),
        "decompression_bytes_per_second": estimate.decompress_speed(),
    })
}
