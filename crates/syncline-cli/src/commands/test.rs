//! `syncline test`.

use std::path::Path;

use serde_json::json;
use syncline::Salvage;

use crate::args::{Talk, TestArgs};
use crate::commands::salvage::{check_options, damage, remedy};
use crate::format::{self, counted};
use crate::message::{Failure, Outcome, remark};
use crate::names;
use crate::progress::Bar;
use crate::stream::open_input;
use crate::tasks::{Batch, Done, Inputs};

/// Runs the command.
pub fn run(args: &TestArgs, talk: Talk) -> Outcome {
    let inputs = Inputs::find(&args.inputs, names::is_stream, "streams (names in .syn)")?;
    let mut batch = Batch::new(inputs.several);
    for path in inputs.paths() {
        batch.take(one(args, path, talk))?;
    }
    batch.finish(talk, |total| total.line(&format!("{} intact", format::bytes(total.compressed))))
}

fn one(args: &TestArgs, path: &Path, talk: Talk) -> Outcome<Done> {
    let input = open_input(path, args.limits.memory_limit)?;
    let (name, compressed) = (input.to_string(), input.len()?);
    let failed = |error| Failure::of(&name, error);
    let salvage = Salvage::open(input).map_err(failed)?;
    let header = salvage.header();
    let bar = Bar::new("testing", header.element_type, !talk.quiet);
    let losses = salvage.check(&check_options(args.limits).with_progress(bar.callback())).map_err(failed)?;
    let elapsed = bar.elapsed();
    bar.finish();
    if let Some(text) = damage(&salvage, &losses) {
        return Err(Failure::data(format!("{name}: {text}; {}", remedy(&salvage, &losses))));
    }
    let uncompressed = header.shape.len() * header.element_type.size() as u64;
    if !args.json && !talk.quiet {
        remark(format_args!(
            "{name}: intact, {} {}, {}, {}",
            header.element_type,
            header.shape,
            counted(salvage.chunks(), "chunk"),
            format::timing(uncompressed, elapsed)
        ));
    }
    let json = args.json.then(|| json!({ "input": name, "intact": true, "chunks": salvage.chunks() }));
    Ok(Done { uncompressed, compressed, json })
}
