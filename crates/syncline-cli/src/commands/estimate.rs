//! `syncline estimate`.

use serde_json::{Value, json};
use syncline::estimate::{Estimate, Sample};
use syncline::{Bound, Coder, CompressOptions, Effort, ElementType};

use crate::args::{EstimateArgs, Talk};
use crate::commands::compress::fill_for;
use crate::commands::{remark, say, table};
use crate::format::{self, bits_per_value, bytes, number, percent};
use crate::input::{ArrayInput, Input, Opened};
use crate::json;
use crate::message::{Failure, Outcome};

/// The heads of the columns. The first three are aligned to the left.
const HEADS: [&str; 9] =
    ["BOUND", "EFFORT", "CODER", "RATIO", "STREAM", "BITS A VALUE", "PSNR", "COMPRESSION", "DECOMPRESSION"];

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
    for choice in choices(args, array.element_type) {
        let options = options.clone().with_bound(choice.bound).with_effort(choice.effort).with_coder(choice.coder);
        estimates.push(sample.estimate(&options).map_err(failed)?);
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
    say(&table(&HEADS, |column| column >= 3, &rows))?;
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
    let mut options = CompressOptions::default()
        .with_threads(args.limits.threads)
        .with_fill(fill_for(&args.fill, &args.input)?)
        .with_rewritable(args.rewritable);
    if let Some(level) = args.level {
        options = options.with_level(level);
    }
    Ok(match args.limits.memory_limit {
        Some(limit) => options.with_memory_limit(limit),
        None => options,
    })
}

/// What a row of the table is about.
struct Choice {
    bound: Bound,
    effort: Effort,
    coder: Coder,
}

/// Returns the rows: those of the command line, or those that differ.
fn choices(args: &EstimateArgs, element_type: ElementType) -> Vec<Choice> {
    let mut choices = Vec::new();
    for bound in args.bounds.list(element_type) {
        let pairs: Vec<(Effort, Coder)> = match (bound, args.effort.is_empty() && args.coder.is_empty()) {
            (Bound::Lossless, true) => Coder::ALL.map(|coder| (Effort::Fast, coder)).to_vec(),
            (Bound::Lossless, false) => {
                let coders = if args.coder.is_empty() { &[Coder::Auto][..] } else { &args.coder };
                coders.iter().map(|&coder| (Effort::Fast, coder)).collect()
            }
            (_, true) => vec![
                (Effort::Fast, Coder::Huffman),
                (Effort::Fast, Coder::Auto),
                (Effort::Balanced, Coder::Huffman),
                (Effort::Best, Coder::LzssHuffman),
            ],
            (_, false) => {
                let efforts = if args.effort.is_empty() { &[Effort::Balanced][..] } else { &args.effort };
                let coders = |effort| match (args.coder.is_empty(), effort) {
                    (false, _) => args.coder.clone(),
                    (true, Effort::Best) => vec![Coder::LzssHuffman],
                    (true, _) => vec![Coder::Huffman],
                };
                // Alone, LZSS has no error bound.
                let pairs = efforts.iter().flat_map(|&effort| coders(effort).into_iter().map(move |c| (effort, c)));
                pairs.filter(|&(_, coder)| coder != Coder::Lzss).collect()
            }
        };
        choices.extend(pairs.into_iter().map(|(effort, coder)| Choice { bound, effort, coder }));
    }
    choices
}

fn row(estimate: &Estimate, elements: u64) -> Vec<String> {
    let speed = |rate: f64| format::speed(rate as u64, std::time::Duration::from_secs(1));
    vec![
        format::bound(estimate.bound),
        if estimate.bound == Bound::Lossless { "-".into() } else { estimate.effort.to_string() },
        estimate.coder.to_string(),
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
        "coder": estimate.coder.name(),
        "ratio": estimate.ratio(),
        "compressed_bytes": estimate.compressed_bytes,
        "psnr_db": estimate.psnr.filter(|psnr| psnr.is_finite()),
        "compression_bytes_per_second": estimate.compress_speed(),
        "decompression_bytes_per_second": estimate.decompress_speed(),
    })
}
