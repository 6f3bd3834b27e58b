//! `syncline list`.

use std::path::Path;

use crate::args::{ListArgs, Talk};
use crate::commands::{say, table};
use crate::format::{self, bytes, number, ratio};
use crate::json;
use crate::message::Outcome;
use crate::names;
use crate::stream::OpenStream;
use crate::tasks::{Batch, Done, Inputs};

/// The heads of the columns. Those after the third are aligned to the left.
const HEADS: [&str; 7] = ["RATIO", "STREAM", "ARRAY", "TYPE", "SHAPE", "BOUND", "NAME"];
const NUMBERS: usize = 3;

/// Runs the command.
pub fn run(args: &ListArgs, talk: Talk) -> Outcome {
    let inputs = Inputs::find(&args.inputs, names::is_stream, "streams (names in .syn)")?;
    let mut batch = Batch::new(inputs.several);
    let mut rows = Vec::new();
    for path in inputs.paths() {
        batch.take(one(args, path, &mut rows))?;
    }
    if !args.json && !rows.is_empty() {
        say(&table(&HEADS, |column| column < NUMBERS, &rows))?;
    }
    batch.finish(talk, |total| {
        let ratio = number(ratio(total.uncompressed, total.compressed));
        total.untimed(&format!("{} in {}, ratio {ratio}", bytes(total.uncompressed), bytes(total.compressed)))
    })
}

fn one(args: &ListArgs, path: &Path, rows: &mut Vec<Vec<String>>) -> Outcome<Done> {
    let stream = OpenStream::open(path, None)?;
    let header = stream.file.header();
    let (uncompressed, compressed) = (header.shape.len() * header.element_type.size() as u64, stream.bytes);
    rows.push(vec![
        number(ratio(uncompressed, compressed)),
        bytes(compressed),
        bytes(uncompressed),
        header.element_type.to_string(),
        header.shape.to_string(),
        format::bound(header.bound),
        stream.name.clone(),
    ]);
    Ok(Done { uncompressed, compressed, json: args.json.then(|| json::listed(header, &stream.name, compressed)) })
}
