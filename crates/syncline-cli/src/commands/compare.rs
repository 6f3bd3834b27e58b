//! `syncline compare`.

use serde_json::json;
use syncline::quality::{Comparison, Criteria, Tolerance};

use crate::args::{CompareArgs, Talk};
use crate::commands::verify::{Elements, beyond, judged, piece_bytes, quality_rows, scan_range};
use crate::commands::{aligned, say};
use crate::format;
use crate::input::{ArrayInput, Input, Opened};
use crate::json;
use crate::message::{Failure, Outcome};
use crate::names::is_dash;

use crate::progress::Bar;

/// Runs the command.
pub fn run(args: &CompareArgs, talk: Talk) -> Outcome {
    if is_dash(&args.original) && is_dash(&args.other) {
        return Err(Failure::usage("only one of ORIGINAL and OTHER can be stdin: name a file for the other"));
    }
    let limit = args.limits.memory_limit;
    let input = match Opened::new(&args.original)? {
        Opened::File(file) => Input::File(file, args.original.clone()),
        Opened::Pipe(pipe) => Input::spooled(pipe, &args.original, limit, u64::MAX)?,
    };
    let original = ArrayInput::of(input, &args.original, args.dtype, args.shape)?;
    let (element_type, shape) = (original.element_type, original.shape);
    let other = ArrayInput::open_original(&args.other, element_type, shape, limit)?;
    let name = other.input.to_string();
    let failed = |error| Failure::of(&name, error);
    let bar = Bar::new("comparing", element_type, !talk.quiet);
    let range = scan_range(&original, &[], args.limits)?;
    let tolerance = judged(args.judge, range).unwrap_or(Tolerance::Any);
    let criteria = Criteria { element_type, shape, fills: Vec::new(), range, tolerance };
    let mut comparison = Comparison::new(criteria).with_threads(args.limits.threads).map_err(failed)?;
    let (mut before, mut after) = (Elements::new(&original, None), Elements::new(&other, None));
    let mut done = 0;
    while done < original.size() {
        let length = (original.size() - done).min(piece_bytes(args.limits)) as usize;
        comparison.push(&before.next(length)?, &after.next(length)?).map_err(failed)?;
        done += length as u64;
        bar.show(done / element_type.size() as u64, shape.len());
    }
    let quality = comparison.finish().map_err(failed)?;
    bar.finish();
    let complaint = beyond(&quality);
    let said = if args.json {
        let more = json!({
            "original": original.input.to_string(),
            "input": name,
            "bound": args.judge.json(),
            "element_type": element_type.name(),
            "shape": shape.extents(),
            "holds": args.judge.bound().map(|_| complaint.is_none()),
        });
        json::print(&json::merged(json::quality(&quality), more))
    } else if talk.quiet {
        Ok(())
    } else {
        let mut rows = vec![("arrays", format!("{element_type} {shape}"))];
        rows.extend(args.judge.bound().map(|bound| ("bound", format::bound(bound))));
        rows.extend(quality_rows(&quality));
        rows.push(("differing", format::counted(quality.differing, "element")));
        if args.judge.bound().is_some() {
            rows.push(("verdict", complaint.as_deref().unwrap_or("the bound holds").into()));
        }
        say(&aligned(&rows))
    };
    // The verdict is returned even if the reader closes the pipe.
    complaint.map_or(Ok(()), |text| Err(Failure::data(format!("{name}: {text}")))).and(said)
}
